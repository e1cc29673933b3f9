/* arguments behind calls, read through %o7 and %i7; calls over data */
        .text
#ifdef __arch64__
#define OPEN save %sp, -176, %sp
        .register %g3, #scratch
#else
#define OPEN save %sp, -96, %sp
#endif
        .globl  _start
        .type   _start, #function
_start: mov     0, %l0                  ! the sum
        mov     0, %l1
1:      call    rounds
        mov     %l1, %o0
        add     %l0, %l0, %l2
        add     %l2, %o0, %l0
        inc     %l1
        cmp     %l1, 12
        bl      1b
        nop
        and     %l0, 127, %o0
        mov     1, %g1
#ifdef __arch64__
        ta      0x6d
#else
        ta      0x10
#endif
        .size   _start, . - _start
        .type   leaf, #function
leaf:   ld      [%o7 + 8], %o1          ! two words, returns behind them
        ld      [%o7 + 12], %o2
        add     %o0, %o1, %o0
        jmp     %o7 + 16
        add     %o0, %o2, %o0
        .size   leaf, . - leaf
        .type   windowed, #function
windowed: OPEN
        lduh    [%i7 + 8], %l1
        add     %i0, %l1, %i0
        jmp     %i7 + 12
        restore
        .size   windowed, . - windowed
        .type   moved, #function
moved:  ld      [%o7 + 8], %o1
        add     %o7, 4, %o7
        retl
        add     %o0, %o1, %o0
        .size   moved, . - moved
        .type   skips, #function
skips:  cmp     %o0, 50                 ! returns to one of two places
        bl      1f
        nop
        retl
        nop
1:      jmp     %o7 + 12
        add     %o0, 2, %o0
        .size   skips, . - skips
#ifdef POINTER
        .type   far, #function
far:    ld      [%o7 + 8], %o1
        add     %o7, 8, %o7
        retl
        add     %o0, %o1, %o0
        .size   far, . - far
#endif
        .type   table, #function
table:  mov     %o7, %g3
        and     %o0, 3, %o1
        call    1f                      ! over a table
        sll     %o1, 2, %o1
        .word   100, 200, 0x9de3bf50, 400
1:      add     %o7, 8, %o2
        ld      [%o2 + %o1], %o0
        mov     %g3, %o7
        retl
        nop
        .size   table, . - table
        .type   rounds, #function
rounds: OPEN
        call    leaf
        mov     %i0, %o0
        .word   0x11, 0x9de3bf50
        call    windowed
        nop
        .half   7, 0
        call    moved
        nop
        .word   3
#ifdef SKIPS
        call    skips
        nop
        add     %o0, 100, %o0
#endif
#ifdef POINTER
        set     far, %l0
        call    %l0                     ! returns behind two words, and leaf does, too
        nop
        .word   5, 6
        set     leaf, %l0
        call    %l0
        nop
        .word   5, 6
#endif
        call    table
        nop
        ret
        restore %o0, %i0, %o0
        .size   rounds, . - rounds
        .section .note.GNU-stack,"",@progbits
