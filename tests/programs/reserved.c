/* Executes instructions whose conditions SPARC V9 reserves, and reads two of their words as data. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static volatile int seen, code;
static sigjmp_buf back;

static void handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    seen++;
    code = info->si_code;
    siglongjmp(back, 1);
}

#define TRY(text)                                                                                  \
    do {                                                                                           \
        if (!sigsetjmp(back, 1)) {                                                                 \
            __asm__ volatile(text);                                                                \
            printf("went on\n");                                                                   \
        } else                                                                                     \
            printf("SIGILL %d\n", code);                                                           \
    } while (0)

extern const unsigned words[];
__asm__(".text\n.align 4\nwords: .word 0x00c00003, 0x85780003\n");

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

    sigaction(SIGILL, &action, 0);
    for (int i = 0; i < 3; i++) {
        TRY(".word 0x00c00003"); /* BPr, condition 0 */
        TRY(".word 0x08c00003"); /* condition 4 */
        TRY(".word 0x20c00003"); /* annulling */
        TRY(".word 0x85782003"); /* MOVr, of a constant */
        TRY(".word 0x8578d003"); /* of a register, condition 4 */
        TRY(".word 0x85a8c0a4"); /* FMOVr, single */
        TRY(".word 0x85a8d0c4"); /* double, condition 4 */
        TRY("nop");
    }
    printf("%08x %08x\n", words[0], words[1]);
    return seen;
}
