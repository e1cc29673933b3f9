/* All that a program can ask about where it runs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    struct utsname name;
    struct timeval now;
    struct timespec fine;
    struct tms ticks;
    struct stat status;
    struct sysinfo system;
    struct rusage usage;
    unsigned random[2];
    int count = 0;

    uname(&name);
    printf("%s %s %s %s %s\n", name.sysname, name.nodename, name.release, name.version,
           name.machine);
    gettimeofday(&now, 0);
    clock_gettime(CLOCK_MONOTONIC, &fine);
    printf("%ld %ld %ld %ld %ld\n", (long)now.tv_sec, (long)now.tv_usec, (long)fine.tv_sec,
           fine.tv_nsec, (long)times(&ticks));
    printf("%d %d %d %d %d\n", getpid(), getppid(), getuid(), getgid(), getpgrp());
    getrandom(random, sizeof random, 0);
    printf("%x %x\n", random[0], random[1]);
    sysinfo(&system);
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld %lu %lu %d %ld\n", (long)system.uptime, system.totalram, system.freeram,
           (int)system.procs, usage.ru_maxrss);
    printf("%ld %ld %ld\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_PAGESIZE),
           sysconf(_SC_OPEN_MAX));
    for (char **each = environ; *each; each++)
        printf("%s\n", *each);
    stat("input", &status);
    printf("%d %d %d %d %d %ld\n", (int)status.st_ino, (int)status.st_dev, (int)status.st_uid,
           (int)status.st_nlink, (int)status.st_mode, (long)status.st_size);
    for (DIR *here = opendir("."); readdir(here);)
        count++;
    printf("%d %s %d\n", count, argv[0], argc);
    printf("%p %p %p\n", (void *)&now, malloc(10), (void *)main);
    return ttyname(0) != NULL;
}
