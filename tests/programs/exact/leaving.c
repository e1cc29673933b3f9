/* longjmp out of recursion, to places in it, and out of signal handlers and faults. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static jmp_buf levels[8];
static sigjmp_buf out;
static volatile int count;
static volatile long address = 40;

__attribute__((noinline)) static int climb(int n, int top, int to)
{
    volatile int mine = n;
    int r = setjmp(levels[n]);
    if (r) { count += 100 * r; return mine + r; }
    if (n == top) longjmp(levels[to], top - to + 1);
    return climb(n + 1, top, to) + mine;
}
__attribute__((noinline)) static int again(int n)
{
    volatile int left = n;
    setjmp(levels[0]);
    if (left > 0) {
        left = left - 1;
        if (left & 1) longjmp(levels[0], 1);
        return again(left) + 1;
    }
    return 0;
}
__attribute__((noinline)) static long peek(const volatile long *p) { return *p; }
__attribute__((noinline)) static int choose(int n, volatile int *p)
{
    while (n > 0) {
        if (n == 3) *p = n;
        n--;
    }
    return n;
}
__attribute__((noinline)) static long walk(const volatile long *p, int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++) sum += p[i] ? 1 : peek(p + i);
    return sum;
}
static void jump(int number) { count += number; siglongjmp(out, number); }
static void deeper(int number)
{
    if (count++ % 3 != 2) raise(number);
    else siglongjmp(out, 3);
}
static void resume(int number) { count += number; climb(0, 4, 2); }

static void settle(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_UNBLOCK, &none, 0);
}

int main(void)
{
    for (int top = 0; top < 7; top++)
        for (int to = 0; to <= top; to++) printf("%d ", climb(0, top, to));
    printf("%d\n", again(9));
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = deeper;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, 0);
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(out, 1)) raise(SIGUSR1);
        else settle();
    signal(SIGUSR2, resume);
    raise(SIGUSR2);
    printf("%d\n", count);

    static char other[65536];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    sigaltstack(&stack, 0);
    action.sa_handler = jump;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGILL, &action, 0);
    for (volatile int i = 0; i < 6; i++) {
        int s = sigsetjmp(out, 1);
        if (s) { settle(); printf("signal %d\n", s); continue; }
        switch (i) {
        case 0: count += peek((long *)address); break;
        case 1: count += choose(5, (int *)address); break;
        case 2: count += walk((long *)(address - 8), 3); break;
        case 3: if (count > 3) *(int *)(address | 2) = 1; break;
        case 4: raise(SIGILL); break;
        case 5: if (count) __asm__ volatile("unimp 3"); break;
        }
    }
    printf("%d\n", count);
    return count & 63;
}
