/* What a program finds: processor registers, and the devices that there are. */
#define WORD(address) (*(volatile unsigned *)(address))
static void put(int character) {
    while (!(WORD(0x80000104) & 4)) {
    }
    WORD(0x80000100) = character;
}
static void show(const char *name, unsigned value) {
    while (*name) put(*name++);
    put(' ');
    for (int shift = 28; shift >= 0; shift -= 4) put("0123456789abcdef"[value >> shift & 15]);
    put('\n');
}
#define READ(name) ({ unsigned value; __asm__ volatile("rd " name ", %0" : "=r"(value)); value; })
#define SPACE(space, at) ({ unsigned value; \
    __asm__ volatile("lda [%1] %2, %0" : "=r"(value) : "r"(at), "i"(space)); value; })
static void area(const char *name, unsigned start, unsigned size) {
    for (unsigned at = start; at < start + size; at += 4)
        if (WORD(at)) show(name, at), show("  ", WORD(at));
}
int main(void) {
    unsigned stack;
    show("psr", READ("%%psr") & ~0xf00000);
    show("wim", READ("%%wim"));
    show("tbr", READ("%%tbr"));
    show("configuration", READ("%%asr17"));
    __asm__ volatile("sta %0, [%1] 2" ::"r"(0x81000f), "r"(0) : "memory");
    show("space 2: instruction cache", SPACE(2, 8));
    show("space 2: data cache", SPACE(2, 12));
    show("space 1: memory", SPACE(1, (unsigned)&main));
    stack = 0x12345678;
    show("byte", ((volatile unsigned char *)&stack)[1]);
    show("uart control", WORD(0x80000108));
    show("uart status", WORD(0x80000104) & 7);
    WORD(0x80000240) = 0xfffe;
    show("mask", WORD(0x80000240));
    WORD(0x80000240) = 0;
    WORD(0x80000208) = 0x20;
    show("force", WORD(0x80000208));
    WORD(0x8000020c) = 0xffff;
    show("pending", WORD(0x80000204));
    show("timers", WORD(0x80000308));
    show("scaler reload", WORD(0x80000304));
    show("timer reload", WORD(0x80000314));
    show("timer control", WORD(0x80000318));
    area("ahb master", 0xfffff000, 0x800);
    area("ahb slave", 0xfffff800, 0x7f0);
    area("apb", 0x800ff000, 0x100);
    return 0;
}
