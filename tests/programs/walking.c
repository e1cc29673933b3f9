/* Walks up the stack; the windows are flushed in another routine. FORM 1 begins at its own %fp, 2 at a
 * frame that it is given, 3 at one that a helper returns; 4 reads a frame at a time. */
#include <stdint.h>
#include <stdio.h>
#ifdef __arch64__
#define BIAS 2047
#define FLUSH "flushw"
#else
#define BIAS 0
#define FLUSH "ta 3"
#endif
static const void *seen[16];
static int count;
static int number(const void *from) {
    for (int i = 0; i < count; i++) if (seen[i] == from) return i;
    seen[count] = from;
    return count++;
}
__attribute__((noinline)) static void flush(void) { __asm__ volatile(FLUSH ::: "memory"); }
__attribute__((noinline)) static void *frame(void) { void *r; __asm__ volatile(FLUSH "\n\tmov %%fp, %0" : "=r"(r)::"memory"); return r; }
#if FORM == 1 /* its own %fp */
__attribute__((noinline)) static int walk(void) {
    uintptr_t fp; int sum = 0;
    flush();
    __asm__ volatile("mov %%fp, %0" : "=r"(fp));
    for (int depth = 0; depth < 2; depth++) {
        uintptr_t *save = (uintptr_t *)(fp + BIAS);
        sum = sum * 3 + number((void *)save[15]);
        fp = save[14];
    }
    return sum;
}
#elif FORM == 2 /* the frame is an argument */
__attribute__((noinline)) static int from(uintptr_t fp) {
    int sum = 0;
    for (int depth = 0; fp && depth < 2; depth++) {
        uintptr_t *save = (uintptr_t *)(fp + BIAS);
        sum = sum * 3 + number((void *)save[15]);
        fp = save[14];
    }
    return sum;
}
__attribute__((noinline)) static int walk(void) { uintptr_t fp; flush(); __asm__ volatile("mov %%fp, %0" : "=r"(fp)); return from(fp) + 1; }
#elif FORM == 4
__attribute__((noinline)) static void *word(uintptr_t fp, int n) {
    uintptr_t *save = (uintptr_t *)(fp + BIAS);
    return n ? (void *)save[15] : (void *)save[14];
}
__attribute__((noinline)) static int walk(void) {
    uintptr_t fp = (uintptr_t)frame();
    return number(word(fp, 1)) * 3 + number(word((uintptr_t)word(fp, 0), 1));
}
#else
__attribute__((noinline)) static int walk(void) {
    int sum = 0;
    uintptr_t fp = (uintptr_t)frame();
    for (int depth = 0; depth < 2; depth++) {
        uintptr_t *save = (uintptr_t *)(fp + BIAS);
        sum = sum * 3 + number((void *)save[15]);
        fp = save[14];
    }
    return sum;
}
#endif
__attribute__((noinline)) static int one(int x) { return walk() + x; }
__attribute__((noinline)) static int two(int x) { return one(x) * 2 + walk(); }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 9; i++) sum += one(i) + (i % 3 ? two(i) : 0);
    extern char __executable_start[], etext[];
    int inside = 0;
    for (int i = 0; i < count; i++) inside += (char *)seen[i] >= __executable_start && (char *)seen[i] < etext;
    printf("%d %d %d\n", sum, count, inside == count);
    return 0;
}
