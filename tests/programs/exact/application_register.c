/* A global register variable: all routines but `turn` and `find` count in it, and `step` is only called by a pointer. */
#ifdef __arch64__
#define TRAP "0x6d"
#else
#define TRAP "0x10"
#endif
__asm__(".text\n.global _start\n.type _start, #function\n_start: clr %fp\n"
        "sub %sp, 192, %sp\ncall start\nnop\nmov 1, %g1\nta " TRAP "\nnop\n"
        ".size _start, .-_start");
register unsigned long counter __asm__(REGISTER);
static volatile int sink;
__attribute__((noinline)) static void turn(int i) {
    if (i & 1) sink += i; else sink -= i;
    if (i % 3 == 0) sink ^= 5;
}
__attribute__((noinline)) static void bump(void) { counter++; }
__attribute__((noinline)) static void step(int i) { if (i % 5 == 0) counter += 2; else if (sink & 4) counter++; }
__attribute__((noinline)) static int find(int a, int b) {
    int found = 0;
    for (; a < b; a += 2) {
        if (a % 7 == 3) found += b;
        turn(a);
        if (found & 8) b -= 1;
    }
    return found;
}
static void (*volatile stepping)(int) = step;
int start(void) {
    int i, found = 0;
    counter = 0;
    for (i = 0; i < 40; i++) {
        turn(i);
        bump();
        if (i & 2) stepping(i);
        found += find(i, i + 5);
        turn(i + 1);
    }
    return (counter + (sink & 7) + (found & 3)) & 127;
}
