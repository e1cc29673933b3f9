/* Ends of every kind, by the argument; with atexit functions, open buffers and deep stacks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *way;
static void first(void) { printf("first\n"); }
static void second(void) { printf("second\n"); if (!strcmp(way, "atexit")) _exit(7); }
static void on_abort(int number) { write(1, "abort\n", 6); (void)number; if (!strcmp(way, "abort_exit")) _exit(9); }

__attribute__((noinline)) static int finish(int depth)
{
    volatile int zero = 0;
    if (depth) return finish(depth - 1) + 1;
    if (!strcmp(way, "exit")) exit(3);
    if (!strcmp(way, "atexit")) exit(4);
    if (!strcmp(way, "_exit")) _exit(5);
    if (!strcmp(way, "quick")) quick_exit(6);
    if (!strncmp(way, "abort", 5)) abort();
    if (!strcmp(way, "raise")) raise(SIGTERM);
    if (!strcmp(way, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(way, "load")) return *(volatile int *)4;
    if (!strcmp(way, "store")) *(volatile char *)12 = 1;
    if (!strcmp(way, "call")) ((void (*)(void))(long)zero)();
    if (!strcmp(way, "align")) return *(volatile int *)((char *)&way + 1);
    if (!strcmp(way, "illegal")) __asm__ volatile("unimp 0");
    if (!strcmp(way, "text")) *(volatile int *)(void *)on_abort = 0;
    if (!strcmp(way, "pipe")) { signal(SIGUSR1, SIG_IGN); raise(SIGUSR1); }
    return 0;
}

int main(int argc, char **argv)
{
    way = argc > 1 ? argv[1] : "return";
    atexit(first);
    atexit(second);
    signal(SIGABRT, on_abort);
    printf("way %s\n", way);
    if (!strcmp(way, "abort_flush")) fflush(stdout);
    return finish(20) & 15;
}
