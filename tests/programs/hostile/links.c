/* Links of all kinds, made and swapped while directories are open; argv[1] is a file outside. */
#define _GNU_SOURCE
#include "tell.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *outside = argv[1];
    int directory, found = 0;

    (void)argc;
    mkdir("out/dir", 0777);
    directory = open("out/dir", O_RDONLY | O_DIRECTORY);
    tell("move an open directory", rename("out/dir", "out/moved"));
    tell("a link in its place", symlink("/", "out/dir"));
    tell("up from the open one", openat(directory, "../../../secret", O_RDONLY));
    tell("create through the link", open("out/dir/tmp/new", O_CREAT | O_WRONLY, 0666));
    tell("hard link of a file outside", link(outside, "out/hard"));
    tell("the same, through a link", linkat(AT_FDCWD, "out/soft", AT_FDCWD, "out/hard2",
                                            AT_SYMLINK_FOLLOW));
    tell("rename onto a file outside", rename("out/moved", outside));
    tell("write a linked file of the root", open("out/twin", O_WRONLY));
    symlink(outside, "out/swap");
    for (int i = 0; i < 1000; i++) { /* a name that is now a file, now a link out */
        unlink("out/swap");
        if (i % 2)
            symlink(outside, "out/swap");
        else
            close(open("out/swap", O_CREAT | O_WRONLY, 0666));
        int file = open("out/swap", O_RDWR | O_CREAT, 0666);
        if (file >= 0) {
            char byte;
            found += read(file, &byte, 1) == 1;
            write(file, "", 0);
            close(file);
        }
    }
    printf("bytes of outside: %d\n", found);
    return 0;
}
