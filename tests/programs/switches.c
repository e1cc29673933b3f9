/* Three coroutines by a hand-written switch: flush the windows, change %sp and %fp, jump. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct place { /* where one waits */
    uintptr_t stack, code;
};

#ifdef __arch64__
#define BIAS 2047
asm(".text\n.align 4\n.globl change\n.type change, #function\n"
    "change: save %sp, -176, %sp\n flushw\n stx %fp, [%i0]\n stx %i7, [%i0 + 8]\n"
    " mov %i1, %l1\n ldx [%l1 + 8], %i7\n ldx [%l1], %l2\n sub %l2, 176, %sp\n mov %l2, %fp\n"
    " ret\n restore %g0, %i2, %o0\n.size change, . - change\n");
#else
#define BIAS 0
asm(".text\n.align 4\n.globl change\n.type change, #function\n"
    "change: save %sp, -96, %sp\n ta 3\n st %fp, [%i0]\n st %i7, [%i0 + 4]\n"
    " mov %i1, %l1\n ld [%l1 + 4], %i7\n ld [%l1], %l2\n sub %l2, 96, %sp\n mov %l2, %fp\n"
    " ret\n restore %g0, %i2, %o0\n.size change, . - change\n");
#endif

extern long change(struct place *from, struct place *to, long value);

static struct place outside, inside[3];
static int running, done;

__attribute__((noinline)) static void hand(long value) {
    change(&inside[running], &outside, value);
}

__attribute__((noinline)) static long deep(int depth, long value) {
    if (depth == 0) {
        hand(value);
        return value;
    }
    return deep(depth - 1, value + depth) + 1;
}

static void body(void) {
    int me = running;
    for (int turn = 0; turn < 5; turn++)
        hand(deep(4 + me * 6, turn));
    done |= 1 << me;
    change(&inside[me], &outside, -1);
    abort();
}

int main(void) {
    long total = 0, turns = 0;
    for (int each = 0; each < 3; each++) {
        uintptr_t stack = (uintptr_t)malloc(65536) + 65536 - 512;
        inside[each].stack = (stack & ~(uintptr_t)15) - BIAS;
        inside[each].code = (uintptr_t)body - 8;
    }
    while (done != 7) {
        running = turns++ % 3;
        if (!(done >> running & 1))
            total += change(&outside, &inside[running], turns);
    }
    printf("%ld %ld\n", total, turns);
    return 0;
}
