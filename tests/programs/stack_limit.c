/* Uses more stack than it began with, once it has asked for more; its argument is the wish in MB. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int use(volatile char *above, int megabytes)
{
    char room[1 << 20];

    room[0] = above[0];
    return megabytes ? use(room, megabytes - 1) + 1 : room[0];
}

int main(int argc, char **argv)
{
    struct rlimit limit;

    (void)argc;
    getrlimit(RLIMIT_STACK, &limit);
    printf("%ld\n", (long)limit.rlim_cur >> 20);
    limit.rlim_cur = (rlim_t)atoi(argv[1]) << 20;
    printf("%d\n", setrlimit(RLIMIT_STACK, &limit));
    fflush(stdout);
    printf("%d\n", use("", 100));
    return 0;
}
