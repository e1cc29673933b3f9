/* What poll says of files and pipes in all their states. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void ask(const char *what, int file)
{
    static const short asked[] = {0, POLLIN, POLLOUT, POLLIN | POLLOUT,
                                  POLLRDNORM | POLLWRNORM, POLLPRI | POLLRDBAND};

    printf("%s:", what);
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct pollfd one = {.fd = file, .events = asked[i], .revents = -1};
        int ready = poll(&one, 1, 0);
        printf(" %d/%x", ready, one.revents);
    }
    putchar('\n');
}

int main(void)
{
    char buffer[1 << 12];
    int ends[2], file = open("file", O_RDWR | O_CREAT, 0600);

    memset(buffer, 0, sizeof buffer);
    ask("file", file);
    ask("read-only", open("file", O_RDONLY));
    ask("write-only", open("file", O_WRONLY));
    ask("directory", open(".", O_RDONLY));
    ask("null", open("/dev/null", O_RDONLY));
    ask("zero", open("/dev/zero", O_RDWR));
    ask("none", 77);
    ask("ignored", -1);
    pipe2(ends, O_NONBLOCK);
    ask("empty, to read", ends[0]);
    ask("empty, to write", ends[1]);
    write(ends[1], "x", 1);
    ask("one byte, to read", ends[0]);
    read(ends[0], buffer, 1);
    while (write(ends[1], buffer, sizeof buffer) > 0)
        ;
    ask("full, to read", ends[0]);
    ask("full, to write", ends[1]);
    close(ends[1]);
    ask("no writer, bytes", ends[0]);
    while (read(ends[0], buffer, sizeof buffer) > 0)
        ;
    ask("no writer", ends[0]);
    pipe(ends);
    close(ends[0]);
    ask("no reader", ends[1]);
    return 0;
}
