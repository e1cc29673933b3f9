/* Doubles and quads at addresses that are multiples of 4 only: Linux does what the processor traps
   on (qemu does not do quads). Plain, in delay slots, at the first store to a page, across the border
   of two pages, with and without a second page; and what Linux sends signals for. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 8192
#define ROUTINE(name, code) \
    extern void name(void *place, const void *values); \
    __asm__(".section \".text\"\n.global " #name "\n.type " #name ",#function\n" #name ":\n" \
            "ldd [%o1], %f8\nldd [%o1 + 8], %f10\n" code "\n.size " #name ",.-" #name "\n");

ROUTINE(plain, "std %f8, [%o0]\nretl\nnop")
ROUTINE(in_slot, "ba 1f\nstd %f8, [%o0]\nnop\n1: retl\nnop")
ROUTINE(in_last_slot, "retl\nstd %f8, [%o0]")
ROUTINE(in_annulled_slot, "cmp %o0, 0\nbne,a 1f\nstd %f8, [%o0]\nnop\n1: retl\nnop")
ROUTINE(upper, "fmovd %f8, %f62\nretl\nstd %f62, [%o0]")
ROUTINE(by_register, "mov 0, %o2\nstd %f8, [%o0 + %o2]\nretl\nnop")
ROUTINE(quad, "stq %f8, [%o0]\nretl\nnop")
ROUTINE(to_space, "stda %f8, [%o0] 0x80\nretl\nnop")
ROUTINE(reversed, "stda %f8, [%o0] 0x88\nretl\nnop")
ROUTINE(named_space, "wr %g0, 0x80, %asi\nstda %f8, [%o0] %asi\nretl\nwr %g0, 0x82, %asi")
/* Compilers put the first instruction of a loop into the delay slot, too. */
ROUTINE(couple, "mov 3, %o2\nstd %f8, [%o0]\n1: subcc %o2, 1, %o2\nadd %o0, 16, %o0\nbne 1b\n"
                "std %f10, [%o0]\nretl\nnop")
ROUTINE(far_couple, "set 16384, %o3\nmov 3, %o2\nstd %f8, [%o0]\n1: subcc %o2, 1, %o2\n"
                    "add %o0, %o3, %o0\nbne 1b\nstd %f10, [%o0]\nretl\nnop")
ROUTINE(load, "ldd [%o0], %f12\nretl\nstd %f12, [%o1]")
ROUTINE(load_quad, "ldq [%o0], %f12\nstd %f14, [%o1]\nretl\nstd %f12, [%o1 + 8]")
ROUTINE(integer, "ldx [%o1], %o2\nstd %o2, [%o0]\nretl\nnop")
ROUTINE(load_integer, "ldd [%o0], %o2\nretl\nnop")

static struct {
    const char *name;
    void (*routine)(void *, const void *);
} routines[] = {
    {"plain", plain}, {"in slot", in_slot}, {"in last slot", in_last_slot},
    {"annulled", in_annulled_slot}, {"upper", upper}, {"by register", by_register},
    {"quad", quad}, {"to space", to_space}, {"reversed", reversed},
    {"named space", named_space}, {"couple", couple}, {"far couple", far_couple}, {"load", load},
    {"load quad", load_quad}, {"integer", integer}, {"load integer", load_integer},
};

static sigjmp_buf before;
static void *volatile faulted;

static void on_fault(int number, siginfo_t *info, void *context)
{
    faulted = info->si_addr;
    siglongjmp(before, number);
}

static unsigned sum(const char *bytes, int size)
{
    unsigned total = 0;
    for (int i = 0; i < size; i += 4)
        total = total * 31 + *(const unsigned *)(bytes + i);
    return total;
}

static void try(int number, long offset, int rights)
{
    char *place = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _Alignas(8) char values[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    mprotect(place + PAGE, PAGE, rights);
    int fault = sigsetjmp(before, 1);
    if (!fault)
        routines[number].routine(place + offset, values);
    mprotect(place + PAGE, PAGE, PROT_READ);
    printf("%s at %ld:", routines[number].name, offset);
    for (long at = 0; at < 8 * PAGE; at += 2 * PAGE)
        printf(" %08x", sum(place + at + offset - (offset & 3), 24));
    printf(", %08x", sum(values, sizeof values));
    if (fault)
        printf(" signal %d at %ld", fault, (long)((char *)faulted - place));
    printf("\n");
    munmap(place, 8 * PAGE);
}

/* Arguments: the routine's name, or "all" but quads; "faults" for places where signals come. */
int main(int count, char **words)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    int all = !strcmp(words[1], "all"), both = PROT_READ | PROT_WRITE;
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    for (int number = 0; number < (int)(sizeof routines / sizeof *routines); number++) {
        const char *name = routines[number].name;
        if (all ? !strcmp(name, "quad") : strcmp(name, words[1]))
            continue;
        if (count > 2) {
            try(number, 2, both);
            try(number, PAGE - 4, PROT_READ);
            try(number, PAGE - 4, PROT_NONE);
            try(number, PAGE + 4, PROT_NONE);
        }
        if (strstr(name, "integer"))
            continue;
        try(number, 4, both);
        try(number, PAGE - 4, both);
        try(number, PAGE - 12, both);
    }
    return 0;
}
