/* Calls of every kind: pointers, qsort, bsearch, recursion, tail calls, varargs, structures. */
#include <alloca.h>
#include <complex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int a, b, c; double d; } Big;
typedef struct { short x; char y[5]; } Small;
typedef int (*Operation)(int, int);

static int add(int a, int b) { return a + b; }
static int sub(int a, int b) { return a - b; }
static int mul(int a, int b) { return a * b; }
static Operation operations[] = {add, sub, mul, 0};

__attribute__((noinline)) static Big big(int n)
{
    Big r = {n, n * 2, n * 3, n / 2.0};
    if (n > 3) { Big q = big(n - 3); r.a += q.a; r.d *= q.d; }
    return r;
}
__attribute__((noinline)) static Small small(int n)
{
    Small s = {(short)n, "abcd"};
    s.y[n & 3] = 'X';
    return s;
}
__attribute__((noinline)) static double complex turn(double complex z) { return z * I + 1; }

static int odd(unsigned n);
__attribute__((noinline)) static int even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) static int odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }

__attribute__((noinline)) static long ackermann(long m, long n)
{
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
__attribute__((noinline)) static int walk(int depth, Operation *o)
{
    char *space = alloca(depth * 24 + 8);
    int line[depth + 1];
    memset(space, depth, depth * 24 + 8);
    for (int i = 0; i <= depth; i++) line[i] = space[i] * i;
    if (depth == 0) return line[0];
    int best = (*o ? (*o)(line[depth], depth) : 1);
    return best + walk(depth - 1, *o ? o + 1 : operations) - walk(depth / 2, o);
}
static int compare(const void *x, const void *y) { return strcmp(*(char *const *)x, *(char *const *)y); }
static int compare_int(const void *x, const void *y)
{
    int a = *(const int *)x, b = *(const int *)y;
    return (a > b) - (a < b);
}
__attribute__((noinline)) static double total(const char *kinds, ...)
{
    double sum = 0;
    va_list list, again;
    va_start(list, kinds);
    va_copy(again, list);
    for (const char *k = kinds; *k; k++)
        switch (*k) {
        case 'i': sum += va_arg(list, int); break;
        case 'd': sum += va_arg(list, double); break;
        case 'l': sum += va_arg(list, long long); break;
        case 's': sum += strlen(va_arg(list, char *)); break;
        case 'b': sum += va_arg(list, Big).b; break;
        case 'q': sum += (double)va_arg(list, long double); break;
        }
    va_end(list);
    sum += va_arg(again, int);
    va_end(again);
    return sum;
}
__attribute__((noinline)) static int forward(const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fputs(text, stdout);
    return n;
}
__attribute__((noinline)) static int tail(int n, Operation o) { return o(n, n + 1); }
__attribute__((noinline)) static int many(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
    return a - b + c - d + e - f + g * h - i;
}
__attribute__((noinline)) static int tail_many(int a) { return many(a, 2, 3, 4, 5, 6, 7, 8, 9); }

int main(int argc, char **argv)
{
    (void)argv;
    char *words[] = {"pear", "fig", "apple", "quince", "date", "plum", "kiwi", "lime", "grape"};
    int numbers[60], key = 5;
    qsort(words, 9, sizeof *words, compare);
    for (int i = 0; i < 60; i++) numbers[i] = i * 37 % 61;
    qsort(numbers, 60, sizeof *numbers, compare_int);
    int *found = bsearch(&key, numbers, 60, sizeof *numbers, compare_int);
    printf("%s %s %d %d\n", words[0], words[8], found ? *found : -1, numbers[59]);
    Big b = big(11);
    Small s = small(argc + 6);
    double complex z = turn(turn(3 - 2 * I));
    printf("%d %d %d %g %d %.5s %g %g\n", b.a, b.b, b.c, b.d, s.x, s.y, creal(z), cimag(z));
    printf("%d %d %ld %d\n", even(301), odd(77), ackermann(2, 5), walk(12, operations));
    for (int i = 0; i < 3; i++) key += tail(i, operations[i]) + tail_many(i);
    printf("%d %g\n", key, total("idlsbq", 1, 2.5, 3LL, "four", b, 6.25L));
    forward("%5d|%-5d|%05d|%+d|%x|%#o|%u|%c|%s|%10.3s|%p\n", 1, -2, 3, 4, 255, 8, 9u, 'c', "str", "strings", (void *)16);
    forward("%lld %llx %hhd %hd %zu %ld\n", 1LL << 60, -1LL, 300, 70000, sizeof(Big), -5L);
    forward("%f %.0f %e %g %G %a %10.4f %-10.2e|\n", 3.25, 2.5, 12345.678, 1e-7, 1e20, 1.5, -2.75, 1e300);
    forward("%Lf %Lg %Le %f %f %g\n", 1.25L, 1e-30L, 3e100L, 1.0 / 0.0, -1.0 / 0.0, 0.0);
    forward("%*d %.*f %%\n", 6, 42, 2, 1.005);
    return key & 31;
}
