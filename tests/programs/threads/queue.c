#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define N 500
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static int q[8], head, tail, count; static long sums[3];
static __thread int mine; static pthread_key_t key; static int destroyed;
static void gone(void *p){ destroyed++; (void)p; }
static __attribute__((noinline)) int collatz(int n){ int s=0; while(n!=1){ n = n&1 ? 3*n+1 : n/2; s++; } return s; }
static void *producer(void *a){ int base=(int)(long)a; pthread_setspecific(key,&mine);
 for(int i=1;i<=N;i++){ int v=base*N+i; pthread_mutex_lock(&m); while(count==8) pthread_cond_wait(&empty,&m); q[tail]=v; tail=(tail+1)&7; count++; pthread_cond_signal(&full); pthread_mutex_unlock(&m); mine++; } return 0; }
static void *consumer(void *a){ long id=(long)a; pthread_setspecific(key,&mine); for(;;){ pthread_mutex_lock(&m); while(!count) pthread_cond_wait(&full,&m); int v=q[head]; head=(head+1)&7; count--; pthread_cond_signal(&empty); pthread_mutex_unlock(&m); if(v<0) break; sums[id]+=collatz(v); mine++; } return (void*)(long)mine; }
int main(void){ pthread_t p[2],c[3]; long got=0; pthread_key_create(&key,gone);
 for(long i=0;i<3;i++) pthread_create(&c[i],0,consumer,(void*)i);
 for(long i=0;i<2;i++) pthread_create(&p[i],0,producer,(void*)i);
 for(int i=0;i<2;i++) pthread_join(p[i],0);
 for(int i=0;i<3;i++){ pthread_mutex_lock(&m); while(count==8) pthread_cond_wait(&empty,&m); q[tail]=-1; tail=(tail+1)&7; count++; pthread_cond_broadcast(&full); pthread_mutex_unlock(&m);} 
 for(int i=0;i<3;i++){ void*r; pthread_join(c[i],&r); got+=(long)r; }
 printf("%ld %ld %d\n", got, sums[0]+sums[1]+sums[2], destroyed); return 0; }
