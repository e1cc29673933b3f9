/* One fault by name: argv[1]. */
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>

static volatile int zero;
static int volatile *volatile bad = (int *)0x18;
static char data[64] __attribute__((aligned(64)));
static volatile int forever = 1;
static const int constant = 7;

__attribute__((noinline)) int recurse(int n)
{
    volatile char room[1000];
    room[0] = n;
    return forever ? recurse(n + 1) + room[0] : 0;
}

__attribute__((noinline, aligned(64))) int patched(int n)
{
    return n + 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned code[] = {0x81c3e008, 0x90102005}; /* retl; mov 5, %o0 */
    if (!strcmp(what, "read"))
        return *bad;
    if (!strcmp(what, "write"))
        *bad = 1;
    if (!strcmp(what, "constant"))
        *(volatile int *)&constant = 1;
    if (!strcmp(what, "null"))
        ((void (*)(void))0)();
    if (!strcmp(what, "unaligned"))
        return *(volatile int *)(data + 2 + zero);
    if (!strcmp(what, "divide"))
        __asm__ volatile("wr %%g0, %%g0, %%y; sdiv %0, %1, %0" : "+r"(argc) : "r"(zero));
    if (!strcmp(what, "illegal"))
        __asm__ volatile(".word 0");
    if (!strcmp(what, "fmadd"))
        __asm__ volatile(".word 0x81b8004a"); /* IMPDEP2: fused multiply-add */
    if (!strcmp(what, "trap"))
        __builtin_trap();
    if (!strcmp(what, "breakpoint"))
        __asm__ volatile("ta 1");
    if (!strcmp(what, "privileged"))
        __asm__ volatile("rdpr %%pstate, %%g1" ::: "g1");
    if (!strcmp(what, "abort"))
        abort();
    if (!strcmp(what, "kill"))
        raise(SIGKILL);
    if (!strcmp(what, "stack"))
        return recurse(0);
    if (!strcmp(what, "loop"))
        while (forever)
            ;
    if (!strcmp(what, "generate")) {
        void *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
        memcpy(page, code, sizeof code);
        return ((int (*)(void))page)();
    }
    if (!strcmp(what, "modify")) {
        int first = patched(1);
        uintptr_t page = (uintptr_t)patched & -8192;
        if (mprotect((void *)page, 16384, PROT_READ | PROT_WRITE | PROT_EXEC))
            return 99;
        memcpy((void *)patched, code, sizeof code);
        __asm__ volatile("" ::: "memory");
        return first + ((int (*volatile)(int))patched)(1);
    }
    if (!strcmp(what, "same")) { /* writes what is there already: nothing changes */
        int first = patched(1);
        uintptr_t page = (uintptr_t)patched & -8192;
        volatile unsigned *word = (volatile unsigned *)patched;
        if (mprotect((void *)page, 16384, PROT_READ | PROT_WRITE | PROT_EXEC))
            return 99;
        *word = *word;
        return first + ((int (*volatile)(int))patched)(1);
    }
    return 0;
}
