#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static void *one(void *x){ pthread_mutex_lock(&a); usleep(1000); pthread_mutex_lock(&b); return x; }
static void *two(void *x){ pthread_mutex_lock(&b); usleep(1000); pthread_mutex_lock(&a); return x; }
int main(void){ pthread_t p,q; pthread_create(&p,0,one,0); pthread_create(&q,0,two,0); puts("started"); fflush(stdout); pthread_join(p,0); pthread_join(q,0); return 0; }
