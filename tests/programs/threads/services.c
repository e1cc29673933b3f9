#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <setjmp.h>
#include <unistd.h>
#include <errno.h>
#include <time.h>
#include <semaphore.h>
static pthread_barrier_t bar; static sem_t sem; static pthread_rwlock_t rw=PTHREAD_RWLOCK_INITIALIZER;
static int shared; static volatile int flag; static __thread int tls=7; static pthread_once_t once=PTHREAD_ONCE_INIT; static int onces;
static void init(void){ onces++; }
static void *phases(void *a){ int id=(int)(long)a, serial=0; for(int r=0;r<5;r++){ for(int i=0;i<100*(id+1);i++) tls+=i%7; if(pthread_barrier_wait(&bar)==PTHREAD_BARRIER_SERIAL_THREAD) serial++; pthread_rwlock_wrlock(&rw); shared++; pthread_rwlock_unlock(&rw);} pthread_once(&once,init); return (void*)(long)(tls*0+serial); }
static void handler(int s){ flag = s; }
static void *spin(void *a){ long n=0; while(!flag) n++; return a; }
static void cleanup(void *a){ ++*(int*)a; }
static int cleaned;
static void *cancelled(void *a){ pthread_cleanup_push(cleanup,&cleaned); for(;;) sleep(1); pthread_cleanup_pop(0); return a; }
static void deep(jmp_buf *j, int n){ if(!n) longjmp(*j, 5); deep(j,n-1); __asm__ volatile(""); }
static void *jumper(void *a){ int c=0; for(int i=0;i<30;i++){ jmp_buf j; int v=setjmp(j); if(!v) deep(&j, i%9); c+=v; } return (void*)(long)c; }
static void *detached(void *a){ usleep(500); sem_post(&sem); return 0; }
static int fds[2];
static void *reader(void *a){ char buf[64]; long n=0; int k; while((k=read(fds[0],buf,sizeof buf))>0) n+=k; return (void*)n; }
static void *waiter(void *a){ sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR2); int g; sigwait(&s,&g); return (void*)(long)g; }
int main(void){ pthread_t t[6]; void *r; long serial=0; pthread_barrier_init(&bar,0,4); sem_init(&sem,0,0);
 for(long i=0;i<4;i++) pthread_create(&t[i],0,phases,(void*)i); for(int i=0;i<4;i++){ pthread_join(t[i],&r); serial+=(long)r; }
 printf("phases %ld %d %d\n",serial,shared,onces);
 signal(SIGUSR1,handler); pthread_create(&t[0],0,spin,(void*)3); usleep(2000); pthread_kill(t[0],SIGUSR1); pthread_join(t[0],&r); printf("spin %ld\n",(long)r);
 pthread_create(&t[0],0,cancelled,0); usleep(2000); pthread_cancel(t[0]); pthread_join(t[0],&r); printf("cancel %d %d\n", r==PTHREAD_CANCELED, cleaned);
 for(int i=0;i<3;i++) pthread_create(&t[i],0,jumper,0); for(int i=0;i<3;i++){ pthread_join(t[i],&r); printf("jump %ld\n",(long)r);} 
 pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setdetachstate(&at,PTHREAD_CREATE_DETACHED); for(int i=0;i<3;i++) pthread_create(&t[0],&at,detached,0); for(int i=0;i<3;i++) sem_wait(&sem); puts("detached");
 pipe(fds); pthread_create(&t[0],0,reader,0); for(int i=0;i<50;i++) write(fds[1],"0123456789",10); close(fds[1]); pthread_join(t[0],&r); printf("pipe %ld\n",(long)r);
 sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR2); pthread_sigmask(SIG_BLOCK,&s,0); pthread_create(&t[0],0,waiter,0); usleep(100); kill(getpid(),SIGUSR2); pthread_join(t[0],&r); printf("sigwait %ld\n",(long)r);
 pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; pthread_cond_t c=PTHREAD_COND_INITIALIZER; struct timespec ts; clock_gettime(CLOCK_REALTIME,&ts); ts.tv_sec+=2; pthread_mutex_lock(&m); int e=pthread_cond_timedwait(&c,&m,&ts); printf("timed %d\n", e==ETIMEDOUT);
 return 0; }
