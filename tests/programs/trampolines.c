/* Nested functions whose addresses are taken: GCC writes a trampoline into the frame for each. */
#include <setjmp.h>
#include <stdio.h>

static int apply(int (*f)(int), int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += f(i);
    return sum;
}

__attribute__((noinline)) static int last(int (*f)(int), int x) { return f(x); } /* a tail call */

/* Two functions take turns in one frame's place: other trampolines at the same address. */
__attribute__((noinline)) static int odd(int k) {
    int add(int x) { k += x & 3; return k; }
    return apply(add, k & 7) + last(add, 3);
}
__attribute__((noinline)) static int even(int k) {
    int multiply(int x) { k *= 3; return k % 7 + x; }
    return apply(multiply, 3) - last(multiply, k);
}

/* Each depth of a recursion has its own, and calls that of the depth above. */
__attribute__((noinline)) static int deep(int depth, int (*above)(int)) {
    int here(int x) { return x > depth ? x - depth : above(x + 1); }
    return depth ? deep(depth - 1, here) + here(2) : apply(here, 4);
}

/* One leaves both the activations above it and its own trampoline. */
static int found(int limit) {
    jmp_buf place;
    volatile int at = 0;
    int look(int x) { if (x == limit) { at = x; longjmp(place, 1); } return x; }
    if (setjmp(place)) return at + 100;
    return apply(look, 6);
}

static int identity(int x) { return x; }

int main(void) {
    int sum = 0;
    for (int i = 0; i < 40; i++) sum = sum * 5 + (i & 1 ? odd(i) : even(i));
    printf("%d %d %d %d\n", sum, deep(4, identity), found(4), found(9));
    return 0;
}
