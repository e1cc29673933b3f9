#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 3
#define ROUNDS 8
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int turn; static long total; static __thread long mine;
static long (*count)(long);
static __attribute__((noinline)) long work(long n){ long s=0; for(long i=0;i<n;i++){ if(i%3==0) s+=i; else s^=i; } return s; }
static __attribute__((noinline)) void take_turn(long id, long w){ pthread_mutex_lock(&m); while(turn!=id) pthread_cond_wait(&passed,&m);
 total=(total*31+w)%100003; turn=(turn+1)%THREADS; pthread_cond_broadcast(&passed); pthread_mutex_unlock(&m); }
static void *body(void *a){ long id=(long)a; char *text=malloc(32);
 for(long i=0;i<ROUNDS;i++){ long w=work(20+id+i)+count(i); mine+=w; take_turn(id,w); }
 sprintf(text,"%ld: %ld",id,mine); return text; }
int main(void){ pthread_t t[THREADS]; void *library=dlopen("./counted.so",RTLD_LAZY);
 if(!library){ puts(dlerror()); return 1; }
 count=(long(*)(long))dlsym(library,"count");
 for(long i=0;i<THREADS;i++) pthread_create(&t[i],0,body,(void*)i);
 for(int i=0;i<THREADS;i++){ void*text; pthread_join(t[i],&text); puts(text); free(text); }
 printf("%ld %ld\n",total,count(0)); return 5; }
