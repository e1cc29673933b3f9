/* Ways to make simprof hold more memory than the program may have; the arguments say which, and how
   many megabytes (or calls). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MB (1L << 20)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static char buffer[MB];

/* One buffer, written many times in one call. */
static long overlapping(long count)
{
    static struct iovec vectors[1024];
    int file = open("/dev/null", O_WRONLY);

    for (long i = 0; i < 1024; i++)
        vectors[i] = (struct iovec){buffer, MB};
    return writev(file, vectors, count);
}

/* A read of more than there is room for, from a file that takes no room. */
static long beyond(long count)
{
    int file = open("out/sparse", O_CREAT | O_RDWR, 0666);
    char *place = mmap(0, MB, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);

    ftruncate(file, count * MB);
    munmap(place + MB / 2, MB / 2);
    return read(file, place, count * MB);
}

/* Windows that move over a large file, one page of which stays mapped. */
static long windows(long count)
{
    int file = open("out/sparse", O_CREAT | O_RDWR, 0666);
    long sum = 0;

    ftruncate(file, count * MB);
    mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (long at = 0; at < count; at += 8) {
        char *place = mmap(0, 8 * MB, PROT_READ, MAP_SHARED, file, at * MB);
        for (long i = 0; i < 8 * MB; i += 8192)
            sum += place[i];
        munmap(place, 8 * MB);
    }
    return sum;
}

/* Memory that is filled and loses its rights. */
static long hidden(long count)
{
    long done = 0;

    for (char *place; done < count; done++) {
        place = mmap(0, MB, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);
        if (place == MAP_FAILED)
            break;
        memset(place, 1, MB);
        mprotect(place, MB, PROT_NONE);
    }
    return done < count;
}

/* Files that the kernel makes up, of a memory map with many lines. */
static long made_up(long count)
{
    long size = MB / 64 * 8192; /* a line of 64 bytes for each page */
    char *place = mmap(0, size, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);

    for (long at = 0; at < size; at += 16384)
        mprotect(place + at, 8192, PROT_READ);
    while (count-- > 0)
        if (open("/proc/self/maps", O_RDONLY) < 0)
            return 1;
    return 0;
}

/* All of the standard input. */
static long input(long count)
{
    long total = 0, got;

    while ((got = read(0, buffer, sizeof buffer)) > 0)
        total += got;
    return total - count * MB;
}

/* Many small calls. */
static long calls(long count)
{
    for (long i = 0; i < count; i++)
        write(1, "x\n", 2);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        long (*go)(long);
    } ways[] = {
        {"overlapping", overlapping}, {"beyond", beyond}, {"windows", windows}, {"hidden", hidden},
        {"made-up", made_up}, {"input", input}, {"calls", calls},
    };

    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 2 && !strcmp(argv[1], ways[i].name))
            fprintf(stderr, "%s: %ld\n", argv[1], ways[i].go(atol(argv[2])));
    return 0;
}
