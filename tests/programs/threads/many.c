/* Starts as many threads as its argument says, and prints how many there were at the same time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static int wanted, there;

static void *wait_for_all(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    if (++there == wanted)
        pthread_cond_broadcast(&all_there);
    while (there < wanted)
        pthread_cond_wait(&all_there, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[1000];

    wanted = argc > 1 ? atoi(argv[1]) : 3;
    for (int n = 0; n < wanted; n++)
        if (pthread_create(&threads[n], NULL, wait_for_all, NULL)) {
            printf("only %d\n", n);
            return 1;
        }
    for (int n = 0; n < wanted; n++)
        pthread_join(threads[n], NULL);
    printf("%d\n", there);
    return 0;
}
