/* Code on the heap: leaves, functions with frames that call back, jumps on, and other code in its place. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

asm(".text\n"
    "leaf: retl\n add %o0, 1, %o0\n"
    "loops: cmp %o0, 0\n1: be 2f\n nop\n ba 1b\n deccc %o0\n2: retl\n mov 9, %o0\n"
    "calls: save %sp, -192, %sp\n call %i1\n mov %i0, %o0\n ret\n restore %o0, 5, %o0\n"
    "jumps: jmp %o1\n inc %o0\n"
    "end:\n");
extern char leaf[], loops[], calls[], jumps[], end[];
typedef int code(int, int (*)(int));

__attribute__((noinline)) static int twice(int x) { return 2 * x; }

static code *made(char *page, const char *from, const char *to) {
    memcpy(page, from, to - from);
    __builtin___clear_cache(page, page + (to - from));
    return (code *)page;
}

int main(void) {
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        code *f = made(page, leaf, loops);
        for (int i = 0; i < 20; i++) sum += f(i, twice);
        f = made(page, loops, calls);
        sum += f(round, twice);
        f = made(page, calls, jumps);
        for (int i = 0; i < 7; i++) sum += f(i, twice);
        f = made(page, jumps, end);
        for (int i = 0; i < 3; i++) sum += f(i, twice);
        signal(SIGUSR1, (void (*)(int))made(page, leaf, loops));
        raise(SIGUSR1);
    }
    printf("%d\n", sum);
    return 0;
}
