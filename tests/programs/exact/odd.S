/* Control flow that compilers seldom write. Bare: no library; `start` runs all and exits. */

#ifdef __arch64__
#define SAVED 176
#define TRAP 0x6d
#define LOAD ldsw
#else
#define SAVED 96
#define TRAP 0x10
#define LOAD ld
#endif
#define FUNCTION(name) .global name; .type name, #function; name:
#define END(name) .size name, .-name

        .text
        .align 4

FUNCTION(_start)
        clr     %fp
        sub     %sp, SAVED + 16, %sp
        mov     0, %l0                  ! sum
        mov     5, %l1                  ! rounds
1:      call    annulled
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    slots
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    selfloops
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    interpreter
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    middle                  ! into the middle of `shared`
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    shared
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    by_register
         mov    %l1, %o0
        add     %l0, %o0, %l0
        call    position
         nop
        call    skipper                 ! returns 4 further on
         mov    %l1, %o0
        add     %l0, 1000, %l0          ! skipped
        add     %l0, %o0, %l0
        call    recursive
         mov    %l1, %o0
        add     %l0, %o0, %l0
#ifdef __sparc_v9__
        call    registers
         sub    %l1, 3, %o0
        add     %l0, %o0, %l0
#endif
        subcc   %l1, 1, %l1
        bne,a   1b
         add    %l0, 1, %l0
        call    2f                      ! a call to the next label but one, as a jump
         add    %o7, 8, %o7
2:      and     %l0, 127, %o0
        mov     1, %g1
        ta      TRAP
        nop
END(_start)

/* Every outcome of annulled branches; slots of their own; .+8. */
FUNCTION(annulled)
        clr     %o1
        cmp     %o0, 3
        bl,a    . + 8
         add    %o1, 1, %o1
        be,a    1f
         add    %o1, 2, %o1
        bg      1f
         add    %o1, 4, %o1
        ba,a    2f
         add    %o1, 100, %o1           ! never
1:      bn,a    2f
         add    %o1, 200, %o1           ! never
        bn      2f
         add    %o1, 8, %o1
        ba      . + 8
         add    %o1, 16, %o1
2:      ba,a    . + 8
        add     %o1, 300, %o1           ! never
        retl
         mov    %o1, %o0
END(annulled)

/* Delay slots that are targets: of a branch, an annulled branch, a call, a return. */
FUNCTION(slots)
        save    %sp, -SAVED, %sp
        clr     %l0
        mov     %i0, %l2
        ba      5f
         nop
1:      tst     %l2
        bne     3f
2:       add    %l0, 1, %l0             ! also reached from 5
        add     %l0, 2, %l0
3:      cmp     %l2, 2
        be,a    4f
6:       add    %l0, 4, %l0             ! also reached from 5
        add     %l0, 8, %l0
4:      call    leaf
7:       add    %l0, 16, %l0            ! also reached from 5, then falls to the return point
        subcc   %l2, 1, %l2
        bg      1b
         nop
        mov     %l0, %i0
        ret
8:       restore                        ! also reached from 9, then leaves by its own end
        retl
         add    %o0, 32, %o0
5:      cmp     %i0, 1
        be      2b
         nop
        cmp     %i0, 2
        be      6b
         nop
        cmp     %i0, 3
        be      7b
         nop
        cmp     %i0, 4
        bne     1b
         mov    %l0, %i0
        ba      8b
         nop
END(slots)

FUNCTION(leaf)
        retl
         add    %o0, 1, %o0
END(leaf)

/* Self-loops: plain, through an annulled slot, with a call in it. */
FUNCTION(selfloops)
        save    %sp, -SAVED, %sp
        mov     %i0, %l0
1:      subcc   %l0, 1, %l0
        bg      1b
         nop
        mov     %i0, %l0
2:      subcc   %l0, 1, %l0
        bg,a    2b
         add    %i0, 1, %i0
        mov     3, %l0
3:      call    leaf
         subcc  %l0, 1, %l0
        tst     %l0
        bg      3b
         nop
4:      subcc   %i0, 7, %i0
        bg,a    . - 4
         nop
        ret
         restore %i0, 20, %o0
END(selfloops)

/* Jumps through a table that no bound guards; labels right behind calls and in delay slots. */
FUNCTION(interpreter)
        save    %sp, -SAVED, %sp
        mov     %i0, %l1
        cmp     %i0, 99
        be      3f                      ! never; the labels are code before any jump is known
         clr    %l3
1:      call    2f
         nop
2:      add     %o7, table - 1b, %l0
        srl     %l1, 2, %l2
        sll     %l2, 2, %l2
        sub     %l1, %l2, %l2           ! %l1 modulo 4, which no analysis sees
        sll     %l2, 2, %l2
        LOAD    [%l0 + %l2], %l2
        add     %l0, %l2, %l2
        jmp     %l2
         sub    %l1, 1, %l1
3:      call    leaf
         mov    %l3, %o0
4:      add     %l3, 3, %l3             ! behind a call and a target
        call    leaf
         nop
5:      ba      7f                      ! and again
6:       add    %l3, 5, %l3             ! a slot and a target
        tst     %l1
7:      tst     %l1
        bg      1b
         nop
        ret
         restore %l3, 0, %o0
        .align  4
table:  .word   3b - table, 4b - table, 5b - table, 6b - table
END(interpreter)

/* Two routines that share a tail, entered in its middle. */
FUNCTION(shared)
        add     %o0, 1, %o0
        cmp     %o0, 4
        bg      middle
         nop
        ba      middle + 4
         nop
END(shared)
        .type   around, #function
around: sub     %o0, 1, %o0
middle: add     %o0, 2, %o0
        cmp     %o0, 6
        be,a    around
         add    %o0, 4, %o0
        retl
         nop
        .size   around, .-around

/* Tail calls by register: to a routine, and into one. */
FUNCTION(by_register)
        mov     %o7, %g1
1:      call    2f
         nop
2:      add     %o7, leaf - 1b, %o2
        mov     %g1, %o7
        andcc   %o0, 1, %g0
        be,a    3f
         add    %o2, middle - leaf, %o2
3:      jmp     %o2
         add    %o0, 3, %o0
END(by_register)

/* Returns where it was called from, by its own way. */
FUNCTION(position)
        jmp     %o7 + 8
         nop
END(position)

FUNCTION(skipper)
        jmp     %o7 + 12
         add    %o0, 2, %o0
END(skipper)

/* Recursion with the window opened in a slot, and closed by `return` where there is one. */
FUNCTION(recursive)
        cmp     %o0, 0
        bg,a    1f
         save   %sp, -SAVED, %sp
        retl
         mov    7, %o0
1:      call    recursive
         sub    %i0, 1, %o0
        call    recursive
         sub    %i0, 2, %o0
#ifdef __sparc_v9__
        return  %i7 + 8
         add    %o0, 1, %o0
#else
        ret
         restore %o0, 1, %o0
#endif
END(recursive)

#ifdef __sparc_v9__
/* Branches on registers and on floating-point conditions, with prediction and annulment. */
FUNCTION(registers)
        clr     %o1
        brz,a,pn %o0, 1f
         add    %o1, 1, %o1
        brlez,pt %o0, 1f
         add    %o1, 2, %o1
        brgz,a  %o0, . + 8
         add    %o1, 4, %o1
        brnz    %o0, 1f
         add    %o1, 8, %o1
1:      sub     %sp, 16, %sp
        fmovd   %f4, %f0
        fmovd   %f4, %f2
        fcmpd   %fcc2, %f0, %f2
        fbe,a,pt %fcc2, 2f
         add    %o1, 16, %o1
        add     %o1, 500, %o1
2:      fcmpd   %fcc0, %f0, %f2
        nop
        fbne,a  3f
         add    %o1, 600, %o1
        fbo     3f
         add    %o1, 32, %o1
        add     %o1, 700, %o1
3:      bpos,a,pn %xcc, 4f
         add    %o1, 64, %o1
4:      add     %sp, 16, %sp
        retl
         mov    %o1, %o0
END(registers)
#endif
