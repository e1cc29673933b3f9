/* setjmp and longjmp in every nesting, and signal handlers that return or jump. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static jmp_buf outer, inner, deep, sorting;
static sigjmp_buf caught;
static volatile int handled;

__attribute__((noinline)) static int dive(int n, int stop)
{
    char buffer[64];
    memset(buffer, n, sizeof buffer);
    if (n == stop) longjmp(deep, n + 1);
    return dive(n + 1, stop) + buffer[3];
}
__attribute__((noinline)) static int guarded(int n)
{
    if (setjmp(inner) == 0) {
        if (n & 1) longjmp(inner, 5);
        if (n & 2) longjmp(outer, n);
        return n;
    }
    return -n;
}
static int compare(const void *x, const void *y)
{
    int a = *(const int *)x, b = *(const int *)y;
    if (a == 77) longjmp(sorting, 3);
    return (a > b) - (a < b);
}
__attribute__((noinline)) static int loop_of_jumps(void)
{
    jmp_buf here;
    volatile int i = 0, sum = 0;
    int r = setjmp(here);
    sum += r;
    for (; i < 6;) {
        i++;
        if (i % 2) longjmp(here, i);
        sum += 100;
    }
    return sum;
}
static void on_signal(int number) { handled += number; }
static void jump_out(int number) { siglongjmp(caught, number); }
static void nested(int number)
{
    handled += 1000 * number;
    if (number == SIGUSR1) raise(SIGUSR2);
}
static void nested_jump(int number)
{
    if (number == SIGUSR1) { raise(SIGUSR2); handled++; }
    else siglongjmp(caught, 9);
}
static void info(int number, siginfo_t *i, void *context)
{
    (void)context;
    handled += number + (i->si_addr == (void *)16);
    siglongjmp(caught, 2);
}

/* qemu-user takes up the signal mask of a context that was set no sooner than here. */
static void settle(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_UNBLOCK, &none, 0);
}

int main(void)
{
    volatile int i = 0;
    int r = setjmp(deep);
    printf("deep %d\n", r);
    if (i < 4) { i++; dive(0, i * i * 3); }
    for (volatile int k = 0; k < 6; k++) {
        int s = setjmp(outer);
        if (s) printf("outer %d\n", s);
        else printf("guarded %d\n", guarded(k));
    }
    int v[40];
    for (int j = 0; j < 40; j++) v[j] = j * 37 % 41;
    v[20] = 77;
    if (!setjmp(sorting)) qsort(v, 40, sizeof *v, compare);
    else puts("out of qsort");
    printf("loop %d\n", loop_of_jumps());

    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    printf("handled %d\n", handled);
    signal(SIGUSR1, nested);
    signal(SIGUSR2, nested);
    raise(SIGUSR1);
    printf("handled %d\n", handled);
    signal(SIGUSR1, nested_jump);
    signal(SIGUSR2, nested_jump);
    for (volatile int k = 0; k < 2; k++)
        if (!sigsetjmp(caught, 1)) raise(SIGUSR1);
        else { settle(); printf("jumped %d\n", handled); }
    signal(SIGSEGV, jump_out);
    signal(SIGFPE, jump_out);
    signal(SIGILL, jump_out);
    for (volatile int k = 0; k < 4; k++) {
        int s = sigsetjmp(caught, 1);
        if (s) { printf("signal %d\n", s); continue; }
        switch (k) {
        case 0: raise(SIGFPE); break;
        case 1: *(volatile int *)8 = 1; break;
        case 2: __asm__ volatile("unimp 0"); break;
        case 3: i = *(volatile char *)24; break;
        }
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = info;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    if (!sigsetjmp(caught, 1)) *(volatile long *)16 = 1;
    printf("handled %d\n", handled);
    return handled & 31;
}
