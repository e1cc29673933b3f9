/* Reads stack memory that nobody set: what window spills left there decides the way. */
#include <stdio.h>

__attribute__((noinline)) static long down(long n, long mark)
{
    return n == 0 ? mark : down(n - 1, mark + 0x0101) + (mark ^ n);
}

__attribute__((noinline)) static int peek(void)
{
    volatile unsigned long area[400];
    int found = 0;
    for (int i = 0; i < 400; i++)
        if (area[i]) found += area[i] & 1 ? 3 : 1;
    return found;
}

int main(void)
{
    int sum = 0;
    for (int depth = 1; depth < 40; depth += 3) {
        sum += (int)down(depth, depth << 8) & 1;
        sum += peek();
    }
    printf("%d\n", sum);
    return sum & 127;
}
