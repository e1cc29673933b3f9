/* Wide and soft arithmetic: 64 and 128 bits, long double, conversions, bit tricks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 88172645463325252ULL;
static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
__attribute__((noinline)) static int64_t divide(int64_t a, int64_t b) { return b ? a / b + a % b : 0; }
__attribute__((noinline)) static uint64_t shift(uint64_t a, unsigned n) { return (a << (n & 63)) ^ (a >> (63 - (n & 63))); }
__attribute__((noinline)) static long double quad(long double a, int n)
{
    long double r = 1;
    for (; n; n >>= 1, a *= a)
        if (n & 1) r = r * a - a / 3;
    return r < 0 ? -r : r;
}
__attribute__((noinline)) static int popcount(uint64_t x)
{
    int n = 0;
    while (x) { x &= x - 1; n++; }
    return n;
}
#ifdef __SIZEOF_INT128__
__attribute__((noinline)) static uint64_t wide(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    p = p / (b | 1) + p % ((a >> 32) | 1);
    return (uint64_t)(p >> 64) ^ (uint64_t)p;
}
#else
static uint64_t wide(uint64_t a, uint64_t b) { return a * b / (b | 1) + a % ((b >> 32) | 1); }
#endif
__attribute__((noinline)) static double solve(double x)
{
    double y = x;
    int i = 0;
    do {
        double z = (y + x / y) / 2;
        if (fabs(z - y) < 1e-12) return z;
        y = z;
    } while (++i < 50);
    return y;
}
__attribute__((noinline)) static float single(float a, float b) { return a > b ? a * b : a == b ? a : b - a; }

int main(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 25; i++) {
        uint64_t a = next(), b = next();
        sum += divide((int64_t)a, (int64_t)(b >> (i * 2))) + shift(a, (unsigned)b) + popcount(a & b) + wide(a, b);
        sum ^= (uint64_t)((double)(int64_t)a / 3) + (uint64_t)(float)(a >> 30) + (a > b) + (a % 10) * (b / 1000);
        sum += __builtin_clzll(a | 1) + __builtin_ctzll(b | 2) + __builtin_bswap32((uint32_t)a);
    }
    printf("%llx\n", (unsigned long long)sum);
    for (int i = 1; i < 5; i++)
        printf("%.20Lg %d %.15g %g\n", quad(1.1L + i, 3 + i), (int)quad(2.5L, i), solve(i * 7.5), single(i, 2.5f));
    printf("%.10g %.10g %.10g %.10Lg\n", sin(1.25), exp(2.5), pow(1.5, 7.25), sqrtl(2.0L));
    printf("%ld %lld %g\n", strtol("-0x7f", 0, 16), strtoll("123456789012", 0, 10), strtod("1.5e-3", 0));
    long double q = 1e18L;
    printf("%lld %llu %d %d\n", (long long)q, (unsigned long long)(q * 7), q > 5, q != q);
    volatile double nan = 0.0 / 0.0;
    printf("%d%d%d%d\n", nan < 1, nan > 1, nan == nan, !(nan >= 1));
    return (int)(sum % 50);
}
