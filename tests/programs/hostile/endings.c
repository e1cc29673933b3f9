/* Ways to bring down whoever runs this; the argument says which. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned code[] = {0x81c3e008, 0x01000000}; /* retl; nop */

static int deeper(volatile char *above)
{
    char room[4096];

    room[0] = above[0];
    return deeper(room) + room[0];
}

static void again(int number)
{
    signal(number, again);
}

static void raise_again(int number)
{
    raise(number);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    char line[1000];

    if (!strcmp(way, "data"))
        ((void (*)(void))code)();
    if (!strcmp(way, "stack-code")) {
        unsigned copy[2];
        memcpy(copy, code, sizeof copy);
        ((void (*)(void))copy)();
    }
    if (!strcmp(way, "generated")) {
        unsigned *page = mmap(0, 8192, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(page, code, sizeof code);
        ((void (*)(void))page)();
    }
    if (!strcmp(way, "changed")) {
        unsigned long page = (unsigned long)again & -8192UL;
        mprotect((void *)page, 16384, 7);
        memcpy((void *)again, code, sizeof code);
        again(0);
    }
    if (!strcmp(way, "recursion"))
        return deeper(line);
    if (!strcmp(way, "fault-loop")) { /* the handler returns to the faulting instruction */
        signal(SIGSEGV, again);
        *(volatile int *)8 = 1;
    }
    if (!strcmp(way, "signal-loop")) { /* each handler is interrupted by another one */
        struct sigaction action = {.sa_handler = raise_again, .sa_flags = SA_NODEFER};
        sigaction(SIGUSR1, &action, 0);
        raise(SIGUSR1);
    }
    if (!strcmp(way, "handler-on-no-stack")) {
        stack_t stack = {.ss_sp = (void *)8, .ss_size = 65536};
        struct sigaction action = {.sa_handler = again, .sa_flags = SA_ONSTACK};
        sigaltstack(&stack, 0);
        sigaction(SIGUSR1, &action, 0);
        raise(SIGUSR1);
    }
    if (!strcmp(way, "flood")) {
        memset(line, 'x', sizeof line);
        for (;;)
            write(1, line, sizeof line);
    }
    if (!strcmp(way, "sparse")) {
        int file = open("out/sparse", O_RDWR | O_CREAT, 0666);
        printf("%d\n", (int)pwrite(file, "x", 1, 1L << 30));
        printf("%d\n", ftruncate(file, 1L << 30));
    }
    if (!strcmp(way, "descriptors")) {
        int count = 0;
        for (int i = 0; i < 10000; i++)
            count += open("/dev/null", O_RDONLY) >= 0;
        printf("%d %d\n", count, dup2(0, 9999));
        for (int i = 0; i < 10000; i++) {
            int ends[2];
            close(3 + i % 1000);
            pipe(ends);
        }
    }
    if (!strcmp(way, "wild-stack"))
        __asm__ volatile("mov 8, %sp\n\tsave %sp, -176, %sp\n\tta 3");
    if (!strcmp(way, "loop-in-itself"))
        __asm__ volatile("1: ba,a 1b\n\tnop");
    if (!strcmp(way, "no-memory"))
        for (;;)
            if (!malloc(1 << 20))
                return 3;
    return 0;
}
