! A routine that returns without its restore: its caller goes on in its window, returns to itself
! once more, and only then to the one that called it, whose activation seems to be over.

#ifdef __arch64__
#define TRAP 0x6d
#define FRAME 176
#else
#define TRAP 0x10
#define FRAME 96
#endif

        .text
        .global _start
        .type   _start, #function
_start:
        mov     3, %g5
again:
        call    outer
        nop
        subcc   %g5, 1, %g5
        bne     again
        nop
        mov     188, %g1
        mov     %g4, %o0
        ta      TRAP
        nop
        .size   _start, . - _start

        .type   outer, #function
outer:
        save    %sp, -FRAME, %sp
        call    middle
        nop
        add     %g4, 1, %g4
        ret
        restore
        .size   outer, . - outer

        .type   middle, #function
middle:
        save    %sp, -FRAME, %sp
        call    inner
        nop
        add     %g4, 10, %g4
        ret
        restore
        .size   middle, . - middle

        .type   inner, #function
inner:
        save    %sp, -FRAME, %sp
        add     %g4, 2, %g4
        ret
        nop
        .size   inner, . - inner
