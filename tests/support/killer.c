/* Preloaded into a process (LD_PRELOAD), kills it before its n-th change of files below a directory.

   A change is a system call that makes, fills, cuts, names, renames or removes a file, or sets its
   permissions: between two of them nothing happens that could be seen afterwards. `kill_before`
   begins to count; until then, and in other processes, calls are what they always are. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char below[PATH_MAX];
static long left;

void kill_before(long n, const char *directory)
{
    snprintf(below, sizeof below, "%s/", directory);
    left = n;
}

long changes_left(void)
{
    return left;
}

static void count(const char *path)
{
    if (left > 0 && strncmp(path, below, strlen(below)) == 0 && --left == 0)
        kill(getpid(), SIGKILL);
}

static void count_open(int file)
{
    char link[64], path[PATH_MAX];
    ssize_t size;

    if (left <= 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    if (size > 0) {
        path[size] = 0;
        count(path);
    }
}

/* A name relative to a directory's descriptor. */
static void count_at(int directory, const char *name)
{
    if (name[0] == '/' || directory == AT_FDCWD)
        count(name);
    else
        count_open(directory);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list more;                                                                              \
        mode_t mode;                                                                               \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
        if (flags & (O_CREAT | O_TRUNC))                                                           \
            count(path);                                                                           \
        return REAL(name)(path, flags, mode);                                                      \
    }
#define OPENAT(name)                                                                               \
    int name(int directory, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list more;                                                                              \
        mode_t mode;                                                                               \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
        if (flags & (O_CREAT | O_TRUNC))                                                           \
            count_at(directory, path);                                                             \
        return REAL(name)(directory, path, flags, mode);                                           \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

#define ON_FILE(type, name, parameters, arguments)                                                 \
    type name parameters                                                                           \
    {                                                                                              \
        count_open(file);                                                                          \
        return REAL(name) arguments;                                                               \
    }
ON_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pwrite, (int file, const void *d, size_t n, off_t at), (file, d, n, at))
ON_FILE(ssize_t, pwrite64, (int file, const void *d, size_t n, off64_t at), (file, d, n, at))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
ON_FILE(int, fchmod, (int file, mode_t mode), (file, mode))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))

#define ON_PATH(name, parameters, place, arguments)                                                \
    int name parameters                                                                            \
    {                                                                                              \
        place;                                                                                     \
        return REAL(name) arguments;                                                               \
    }
ON_PATH(mkdir, (const char *path, mode_t mode), count(path), (path, mode))
ON_PATH(rmdir, (const char *path), count(path), (path))
ON_PATH(unlink, (const char *path), count(path), (path))
ON_PATH(chmod, (const char *path, mode_t mode), count(path), (path, mode))
ON_PATH(rename, (const char *old, const char *path), count(path), (old, path))
ON_PATH(link, (const char *old, const char *path), count(path), (old, path))
ON_PATH(linkat, (int f, const char *old, int t, const char *path, int flags), count_at(t, path),
        (f, old, t, path, flags))
ON_PATH(renameat, (int f, const char *old, int t, const char *path), count_at(t, path),
        (f, old, t, path))
ON_PATH(mkdirat, (int d, const char *path, mode_t mode), count_at(d, path), (d, path, mode))
ON_PATH(unlinkat, (int d, const char *path, int flags), count_at(d, path), (d, path, flags))
ON_PATH(fchmodat, (int d, const char *path, mode_t mode, int flags), count_at(d, path),
        (d, path, mode, flags))
