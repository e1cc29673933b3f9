#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Futex operations by their numbers; what they return does not depend on who runs when.
   FUTEX_WAKE_OP only with numbers that are the same in either byte order: qemu-user adds in the
   host's. */
static int first, second, woken;

static int call(int *word, int operation, int value, long other, int *target, unsigned last) {
  int result = syscall(SYS_futex, word, operation, value, other, target, last);
  return result < 0 ? -errno : result;
}

static void *sleeper(void *bits) {
  int result = bits ? call(&first, FUTEX_WAIT_BITSET, 0, 0, 0, (unsigned)(long)bits)
                    : call(&first, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
  __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
  return (void *)(long)result;
}

static pthread_t threads[8];
static void start(int count, long bits) {
  for (int i = 0; i < count; i++) pthread_create(&threads[i], 0, sleeper, (void *)bits);
  usleep(100000);
}
static void finish(const char *what, int count) {
  long results = 0;
  void *result;
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i], &result);
    results += (long)result;
  }
  printf("%s: %d woken, results %ld\n", what, woken, results);
  woken = 0;
}

int main(void) {
  struct timespec soon = {0, 1000000};
  printf("%d\n", call(&first, FUTEX_WAIT, 1, 0, 0, 0));
  printf("%d\n", call(&first, FUTEX_WAIT, 0, (long)&soon, 0, 0));
  printf("%d\n", call(&first, FUTEX_WAKE, 5, 0, 0, 0));
  start(4, 0);
  printf("%d\n", call(&first, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0));
  printf("%d\n", call(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, &second, 0));
  printf("%d\n", call(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, &second, 7));
  printf("%d\n", call(&second, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0));
  printf("%d\n", call(&first, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0));
  finish("requeued", 4);
  start(3, 0);
  second = 5;
  printf("%d", call(&second, FUTEX_WAKE_OP_PRIVATE, 1, 2, &first,
                    FUTEX_OP(FUTEX_OP_SET, -1, FUTEX_OP_CMP_EQ, 0)));
  printf(" %d\n", first);
  printf("%d", call(&second, FUTEX_WAKE_OP_PRIVATE, 1, 9, &first,
                    FUTEX_OP(FUTEX_OP_ANDN, -1, FUTEX_OP_CMP_GE, 0)));
  printf(" %d\n", first);
  printf("%d\n", call(&first, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0));
  finish("operated", 3);
  start(3, 2);
  printf("%d\n", call(&first, FUTEX_WAKE_BITSET, 9, 0, 0, 5));
  printf("%d\n", call(&first, FUTEX_WAKE_BITSET, 2, 0, 0, 6));
  printf("%d\n", call(&first, FUTEX_WAKE_BITSET, 2, 0, 0, -1));
  finish("by bits", 3);
  return 0;
}
