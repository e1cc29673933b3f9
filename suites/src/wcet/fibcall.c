/* Fibonacci numbers by repeated addition: one routine, one loop, many calls.
   fibcall [CALLS [SEED]] */
#include "kernel.h"

static NOINLINE u32 fib(int n)
{
    u32 older = 1, newer = 1;

    for (int i = 3; i <= n; i++) {
        u32 next = older + newer;
        older = newer;
        newer = next;
    }
    return newer;
}

int main(int argc, char **argv)
{
    int calls = option(argc, argv, 1, 2000);
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    for (int i = 0; i < calls; i++)
        sum = add_to_sum(sum, fib((int)(noise() % 60)));
    print("fib(30) %u, %d calls, sum %08x\n", fib(30), calls, sum);
    return 0;
}
