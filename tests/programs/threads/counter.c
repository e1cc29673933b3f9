#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long total;
static __attribute__((noinline)) int work(int n){ int s=0; for(int i=0;i<n;i++){ if(i%3==0) s+=i; else s^=i; } return s; }
static void *body(void *a){ long k=(long)a; for(int i=0;i<200;i++){ int w = work(50+(int)k); pthread_mutex_lock(&m); total+=w; pthread_mutex_unlock(&m);} return (void*)(k*2); }
int main(void){ pthread_t t[4]; long sum=0; for(long i=0;i<4;i++) pthread_create(&t[i],0,body,(void*)i);
 for(int i=0;i<4;i++){ void*r; pthread_join(t[i],&r); sum+=(long)r; }
 printf("%ld %ld\n", total, sum); return 0; }
