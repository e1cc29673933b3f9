/* Asks for services that simprof lacks, goes on without them, and says how each was denied; and for a
   thread, which it gets. */
#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void report(const char *what, int error) { printf("%s: %s\n", what, strerror(error)); }

static void *work(void *argument) { return argument; }

int main(void) {
    pthread_t thread;
    report("socket", socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0);
    report("connect", connect(0, NULL, 0) < 0 ? errno : 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0); /* where there is a fork, it would print all that follows a second time */
    report("fork", child < 0 ? errno : 0);
    report("thread", pthread_create(&thread, NULL, work, NULL));
    report("missing", execl("/nowhere", "nowhere", (char *)NULL) < 0 ? errno : 0);
    printf("shell: %d\n", system("exit 3") >> 8);
    /* The name services try a daemon's socket first. */
    printf("user: %s\n", getpwnam("nobody-here") == NULL ? "none" : "some");
    return 7;
}
