#include <sys/time.h>
#include <time.h>
/* What a program does may depend on the time: with a clock that stands still it never does. */
int __wrap_gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    now->tv_sec = 1000000000;
    now->tv_usec = 0;
    return 0;
}

time_t __wrap_time(time_t *now)
{
    if (now)
        *now = 1000000000;
    return 1000000000;
}
