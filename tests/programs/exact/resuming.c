/* Handlers of faults that resume the program elsewhere: behind the instruction, at a label of the
   routine or of another one, in the caller, at another npc; or at the instruction, mended.
   All but the npc, which qemu's log does not tell; with an argument only that step. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __arch64__
struct saved { char info[128]; unsigned long u[16], state, pc, npc; };
#else
struct saved { unsigned psr, pc, npc, y, u[16]; };
#endif
enum { SKIP, LABEL, OTHER, CALLER, INJECT, NPC, MEND };
extern char label[], outside[], calls[];
static int action, hits, injected;
static char *page;

static void handler(int number, siginfo_t *info, void *where)
{
    struct saved *saved = where;
    hits++;
    if (action == SKIP) {
        saved->pc = saved->npc;
        saved->npc += 4;
    } else if (action == LABEL) {
        saved->pc = (unsigned long)label;
        saved->npc = saved->pc + 4;
    } else if (action == OTHER) {
        saved->pc = (unsigned long)outside;
        saved->npc = saved->pc + 4;
    } else if (action == CALLER) { /* as if the routine, which has no frame, returned */
        saved->pc = saved->u[15] + 8;
        saved->npc = saved->pc + 4;
    } else if (action == INJECT) { /* as if the instruction were a call */
        saved->u[15] = saved->pc - 4;
        saved->pc = (unsigned long)calls;
        saved->npc = saved->pc + 4;
    } else if (action == NPC) {
        saved->npc = (unsigned long)label;
        saved->u[8] = (unsigned long)page;
    }
    if (action == NPC || action == MEND)
        mprotect(page, 8192, PROT_READ | PROT_WRITE);
}

/* The middle of a block, its first and last instruction, slots: where the fault happens. */
int middle(char *at, int n);
int slot_of_branch(char *at, int n);
int slot_of_annulled(char *at, int n);
int slot_of_call(char *at, int n);
int slot_of_return(char *at, int n);
int slot_of_retl(char *at, int n);
int leaf(char *at, int n);
int labelled(char *at, int n);
#ifdef __arch64__
#define SAVE "save %sp, -176, %sp\n"
#else
#define SAVE "save %sp, -96, %sp\n"
#endif
__asm__(".text\n.align 4\n"
        ".type middle, #function\n" "middle: " SAVE
        " add %i1, 1, %i1\n stb %i1, [%i0]\n add %i1, 2, %i1\n ret\n restore %i1, 0, %o0\n"
        ".size middle, .-middle\n"
        ".type slot_of_branch, #function\n" "slot_of_branch: " SAVE
        " cmp %i1, 3\n bl 1f\n stb %i1, [%i0]\n add %i1, 5, %i1\n1: ret\n restore %i1, 0, %o0\n"
        ".size slot_of_branch, .-slot_of_branch\n"
        ".type slot_of_annulled, #function\n" "slot_of_annulled: " SAVE
        " cmp %i1, 3\n bl,a 1f\n stb %i1, [%i0]\n add %i1, 5, %i1\n1: ret\n restore %i1, 0, %o0\n"
        ".size slot_of_annulled, .-slot_of_annulled\n"
        ".type slot_of_call, #function\n" "slot_of_call: " SAVE
        " call two\n stb %i1, [%i0]\n add %i1, %o0, %i1\n ret\n restore %i1, 0, %o0\n"
        ".size slot_of_call, .-slot_of_call\n"
        ".type slot_of_return, #function\n" "slot_of_return: " SAVE
        " add %i1, 1, %i1\n return %i7 + 8\n ldub [%o0], %o0\n"
        ".size slot_of_return, .-slot_of_return\n"
        ".type slot_of_retl, #function\n" "slot_of_retl: retl\n ldub [%o0], %o0\n"
        ".size slot_of_retl, .-slot_of_retl\n"
        ".type leaf, #function\n" "leaf: add %o1, 1, %o1\n stb %o1, [%o0]\n retl\n mov %o1, %o0\n"
        ".size leaf, .-leaf\n"
        ".type labelled, #function\n"
        "labelled: cmp %o1, 4\n bg label\n add %o1, 1, %o1\n stb %o1, [%o0]\n add %o1, 7, %o1\n"
        ".globl label\nlabel: retl\n mov %o1, %o0\n"
        ".size labelled, .-labelled\n"
        ".type elsewhere, #function\n" "elsewhere: retl\n mov 1, %o0\n"
        ".globl outside\noutside: retl\n mov 99, %o0\n"
        ".size elsewhere, .-elsewhere\n"
        ".type two, #function\n" "two: retl\n mov 2, %o0\n" ".size two, .-two\n"
        ".type calling, #function\n" "calling: nop\n"
        ".globl calls\ncalls: " SAVE " call count\n nop\n jmp %i7 + 8\n restore\n"
        ".size calling, .-calling\n");

__attribute__((noinline, used)) static void count(void) { injected++; }

static int (*const all[])(char *, int) = {middle, slot_of_branch, slot_of_annulled, slot_of_call,
                                          slot_of_return, slot_of_retl, leaf, labelled};

static __attribute__((noinline)) long deeper(int which, int depth, int n)
{
    return depth ? deeper(which, depth - 1, n) + 1 : all[which](page, n);
}

int main(int argc, char **argv)
{
    static const struct { int action, first, last; } plan[] = {
        {SKIP, 0, 7}, {LABEL, 7, 7}, {LABEL, 5, 6}, {OTHER, 5, 7},
        {CALLER, 5, 7}, {NPC, 7, 7}, {MEND, 0, 7}, {INJECT, 0, 0}};
    struct sigaction how;
    long sum = 0;
    memset(&how, 0, sizeof how);
    how.sa_sigaction = handler;
    how.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &how, 0);
    page = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int step = 0; step < (int)(sizeof plan / sizeof *plan); step++)
        if (argc == 1 ? plan[step].action != NPC : step == atoi(argv[1]))
        for (int which = plan[step].first; which <= plan[step].last; which++)
            for (int n = 0; n < 6; n++) {
                action = plan[step].action;
                mprotect(page, 8192, PROT_NONE);
                sum = sum * 3 + (deeper(which, n % 3, n) & 255); /* not where the page is */
            }
    printf("%ld %d %d\n", sum, hits, injected);
    return 0;
}
