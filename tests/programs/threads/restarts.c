#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Calls that wait, and a signal that comes meanwhile: what they return does not depend on who runs
   when. Every wait is long enough for the others to come to theirs. */
static int word, change, ends[2];
static volatile sig_atomic_t handled;

static void handler(int number) {
  handled++;
  if (change) word = 9;
  (void)number;
}
static long wait_on_futex(struct timespec *limit) {
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, limit, 0, 0);
}
static long futex(void) { return wait_on_futex(0); }
static long limited(void) { struct timespec span = {60, 0}; return wait_on_futex(&span); }
static long from_pipe(void) { char byte; return read(ends[0], &byte, 1); }
static long polling(void) { struct pollfd one = {ends[0], POLLIN, 0}; return poll(&one, 1, -1); }
static long sleeping(void) { struct timespec span = {60, 0}; return nanosleep(&span, 0); }

static void *waiter(void *call) {
  long result = ((long (*)(void))call)();
  return (void *)(result < 0 ? -(long)errno : result);
}
/* Interrupts a call by a signal, and then ends its wait. */
static void try(const char *what, long (*call)(void), int flags, int changes) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  pthread_t thread;
  void *result;
  word = handled = 0;
  change = changes;
  sigaction(SIGUSR1, &action, 0);
  pthread_create(&thread, 0, waiter, (void *)call);
  usleep(100000);
  pthread_kill(thread, SIGUSR1);
  usleep(100000);
  word = 1;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
  write(ends[1], "x", 1);
  pthread_join(thread, &result);
  printf("%s: %ld, %d handled\n", what, (long)result, (int)handled);
  char byte;
  if (call != from_pipe || (long)result < 0) read(ends[0], &byte, 1);
}

int main(void) {
  pipe(ends);
  try("futex", futex, SA_RESTART, 0);
  try("futex, not restarted", futex, 0, 0);
  try("futex, changed by the handler", futex, SA_RESTART, 1);
  try("futex with a limit", limited, SA_RESTART, 0);
  try("pipe", from_pipe, SA_RESTART, 0);
  try("pipe, not restarted", from_pipe, 0, 0);
  try("poll", polling, SA_RESTART, 0);
  try("nanosleep", sleeping, SA_RESTART, 0);
  return 0;
}
