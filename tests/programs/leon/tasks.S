! A preemptive scheduler: at each tick of the timer the handler returns into the next of three tasks,
! each with a stack of its own. Two more traps: `ta 5`, whose handler counts and returns behind it,
! and a load from an odd address, whose handler goes to a fix-up label.
        .register %g2, #scratch
        .register %g3, #scratch
        .section .traps, "ax"
        .align  4096
        .global _start, _trap_table
        .type   _trap_table, #function
_trap_table:
_start: ba      start
        nop; nop; nop
        .rept   6
        ta      0                       ! error mode
        nop; nop; nop
        .endr
        ba      odd                     ! 0x07
        nop; nop; nop
        .rept   0x16 - 8
        ta      0
        nop; nop; nop
        .endr
        rd      %psr, %l0               ! 0x16
        ba      tick
        nop; nop
        .rept   0x85 - 0x17
        ta      0
        nop; nop; nop
        .endr
        ba      five                    ! 0x85
        nop; nop; nop
        .rept   256 - 0x86
        ta      0
        nop; nop; nop
        .endr
        .size   _trap_table, . - _trap_table
        .text

        .type   five, #function
five:   set     counted, %l4
        ld      [%l4], %l5
        inc     %l5
        st      %l5, [%l4]
        jmp     %l2
        rett    %l2 + 4
        .size   five, . - five

        .type   odd, #function
odd:    set     fixed, %l4
        jmp     %l4
        rett    %l4 + 4
        .size   odd, . - odd

! %l4: the block of the running task, then that of the next one
        .type   tick, #function
tick:   set     running, %l3
        ld      [%l3], %l4
        st      %g1, [%l4 + 4]
        std     %g2, [%l4 + 8]
        std     %i0, [%l4 + 16]
        std     %i2, [%l4 + 24]
        std     %i4, [%l4 + 32]
        std     %i6, [%l4 + 40]
        std     %l0, [%l4 + 48]
        st      %l2, [%l4 + 56]
        ld      [%l4], %l4
        st      %l4, [%l3]
        ld      [%l4 + 4], %g1
        ldd     [%l4 + 8], %g2
        ldd     [%l4 + 16], %i0
        ldd     [%l4 + 24], %i2
        ldd     [%l4 + 32], %i4
        ldd     [%l4 + 40], %i6
        ldd     [%l4 + 48], %l0
        ld      [%l4 + 56], %l2
        wr      %l0, %psr
        nop; nop; nop
        jmp     %l1
        rett    %l2
        .size   tick, . - tick

        .type   start, #function
start:  set     _trap_table, %g1
        wr      %g1, %tbr
        wr      %g0, 2, %wim
        wr      %g0, 0xe0, %psr
        nop; nop; nop
        set     0x40400000 - 96, %sp
        set     0x80000300, %g1         ! the timer: a tick each 150 instructions
        st      %g0, [%g1]
        st      %g0, [%g1 + 4]
        mov     150, %g2
        st      %g2, [%g1 + 0x14]
        st      %g2, [%g1 + 0x10]
        set     0x80000240, %g2
        mov     64, %g3
        st      %g3, [%g2]
        mov     15, %g2
        st      %g2, [%g1 + 0x18]
        ba      one
        nop
        .size   start, . - start

        .type   work, #function
work:   mov     0, %o1                  ! a leaf that all tasks call
1:      btst    1, %o0
        be,a    2f
        add     %o1, 3, %o1
        sub     %o1, %o0, %o1
2:      deccc   %o0
        bg      1b
        nop
        retl
        mov     %o1, %o0
        .size   work, . - work

        .type   one, #function
one:    mov     100, %g1
1:      call    work
        mov     20, %o0
        ta      5
        deccc   %g1
        bne     1b
        nop
        set     done, %o2               ! until both others are done
2:      ld      [%o2], %g3
        ld      [%o2 + 4], %g2
        btst    %g2, %g3
        be      2b
        nop
        set     counted, %g1
        ld      [%g1], %o0
        wr      %g0, 0xc0, %psr
        nop; nop; nop
        ta      0                       ! status: how often `ta 5` was handled
        nop
        .size   one, . - one

        .type   two, #function
two:    mov     70, %g1
1:      call    work
        mov     33, %o0
        deccc   %g1
        bne     1b
        nop
        set     done, %g2
        mov     1, %g3
        st      %g3, [%g2]
2:      ba      2b
        nop
        .size   two, . - two

        .type   three, #function
three:  mov     30, %g1
1:      call    work
        mov     47, %o0
        call    faulty
        nop
        deccc   %g1
        bne     1b
        nop
        set     done, %g2
        mov     1, %g3
        st      %g3, [%g2 + 4]
2:      ba      2b
        nop
        .size   three, . - three

        .type   faulty, #function
faulty: set     done + 1, %o2
        ld      [%o2], %o3
        add     %o3, 1, %o3
fixed:  retl
        nop
        .size   faulty, . - faulty

        .data
        .align  8
running: .word  first
counted: .word  0
done:   .word   0, 0
        .align  8
first:  .word   second
        .skip   60
second: .word   third
        .skip   36
        .word   0x40300000 - 96, 0
        .word   0xc7, two, two + 4      ! PSR: supervisor before, traps disabled, window 7
        .skip   4
third:  .word   first
        .skip   36
        .word   0x40200000 - 96, 0
        .word   0xc7, three, three + 4
        .skip   4
