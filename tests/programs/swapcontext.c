/* Generators by swapcontext: nested ones, and such as are left for good. */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

struct generator { ucontext_t own, caller; int value, done, next; };
static struct generator *current;

__attribute__((noinline)) static void yield(int value) {
    struct generator *mine = current;
    mine->value = value;
    swapcontext(&mine->own, &mine->caller);
}

__attribute__((noinline)) static int resume(struct generator *g) {
    struct generator *before = current;
    current = g;
    swapcontext(&g->caller, &g->own);
    current = before;
    return !g->done;
}

static struct generator *make(void (*body)(void)) {
    struct generator *g = calloc(1, sizeof *g);
    getcontext(&g->own);
    g->own.uc_stack.ss_sp = malloc(65536);
    g->own.uc_stack.ss_size = 65536;
    g->own.uc_link = &g->caller;
    makecontext(&g->own, body, 0);
    return g;
}

__attribute__((noinline)) static void walk(int from, int to) {
    if (from == to) return;
    walk(from, (from + to) / 2);
    yield(from);
    walk((from + to) / 2 + (from + 1 == to), to);
}

/* None returns: under qemu, uc_link ends 64-bit programs. */
__attribute__((noinline)) static void finish(void) { current->done = 1; yield(0); }

static void leaves(void) { walk(0, 6); finish(); }

static void squares(void) {
    struct generator *inner = make(leaves);
    while (resume(inner)) yield(inner->value * inner->value);
    finish();
}

static void endless(void) { for (int i = 0;; i++) yield(i & 1 ? i : -i); }

int main(void) {
    struct generator *a = make(squares), *b = make(endless), *c = make(leaves);
    long sum = 0;
    while (resume(a)) {
        resume(b);
        if (!c->done && resume(c)) sum += c->value;
        sum = sum * 7 + a->value + b->value;
    }
    printf("%ld\n", sum);
    return 0;
}
