/* Files of the kernel and devices: those of the host stay out of reach. */
#define _GNU_SOURCE
#include "tell.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(void)
{
    static const char *const names[] = {
        "/proc/1/environ", "/proc/self/mem",  "/proc/kcore",     "/proc/self/root/etc/passwd",
        "/proc/cpuinfo",   "/proc/net/tcp",   "/sys/kernel",     "/dev/mem",
        "/dev/kmsg",       "/dev/sda",        "/dev/tty",        "/dev/pts/0",
        "/dev/shm",        "/run/docker.sock", "/proc/self/fd/77", "/proc/self/task",
    };
    char target[64];

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        tell(names[i], open(names[i], O_RDONLY));
    tell("make a disk", mknod("out/disk", S_IFBLK | 0600, makedev(8, 0)));
    tell("make a memory", mknod("out/memory", S_IFCHR | 0600, makedev(1, 1)));
    tell("make a set-user program", open("out/suid", O_CREAT | O_WRONLY, 04777));
    tell("chmod", chmod("out/suid", 04777));
    tell("chown", chown("out/suid", 0, 0));
    tell("chroot", chroot("/"));
    tell("become root", setuid(0));
    memset(target, 0, sizeof target);
    tell("host's name of the output", readlink("/proc/self/fd/1", target, sizeof target));
    printf("%s\n", strncmp(target, "pipe:", 5) ? target : "pipe");
    return 0;
}
