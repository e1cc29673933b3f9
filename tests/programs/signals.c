#define _GNU_SOURCE
#include <stdio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fenv.h>
#include <ucontext.h>
#include <unistd.h>
static sigjmp_buf sj; static volatile int count; static char *page; static char alt[65536] __attribute__((aligned(16)));
static void on_code(int s, siginfo_t*i, void*u){ printf("sig %d code %d addr %s\n",s,i->si_code,(s==SIGSEGV||s==SIGBUS)?"data":"pc"); fflush(stdout); siglongjmp(sj,1);} 
static void on_fix(int s, siginfo_t*i, void*u){ count++; if(i->si_addr!=page+100) abort(); mprotect(page,8192,PROT_READ|PROT_WRITE); }
static void on_skip(int s, siginfo_t*i, void*u){ count++; unsigned long*r=(unsigned long*)u;
#ifdef __arch64__
 unsigned long *g=(unsigned long*)((char*)u+32); g[1]=g[2]; g[2]+=4;
#else
 r[1]=r[2]; r[2]+=4;
#endif
}
static void on_over(int s, siginfo_t*i, void*u){ char x; count++; printf("overflow on alt %d\n", &x>=alt&&&x<alt+sizeof alt); fflush(stdout); siglongjmp(sj,1);} 
static volatile int deep; 
__attribute__((noinline)) int over(int n){ volatile char b[1000]; b[0]=n; if(deep) return over(n+1)+b[0]; return 0; }
static void nested2(int s){ printf("inner %d\n",s);} 
static void nested(int s){ printf("outer %d\n",s); raise(SIGUSR2); printf("outer end\n"); }
static void set(int n, void(*f)(int,siginfo_t*,void*), int fl){ struct sigaction sa; memset(&sa,0,sizeof sa); sa.sa_sigaction=f; sa.sa_flags=SA_SIGINFO|fl; sigaction(n,&sa,0);} 
static volatile int zero; static volatile double dz, one=1; static int volatile *volatile bad=(int*)0x18; static char buf[16] __attribute__((aligned(8)));
int main(){
 set(SIGFPE,on_code,0); set(SIGBUS,on_code,0); set(SIGILL,on_code,0); set(SIGTRAP,on_code,0); set(SIGSEGV,on_code,0); set(SIGEMT,on_code,0);
 if(!sigsetjmp(sj,1)) *bad=1;
 if(!sigsetjmp(sj,1)) ((void(*)(void))bad)();
 if(!sigsetjmp(sj,1)) { *(int volatile*)(buf+(zero|1))=3; }
 if(!sigsetjmp(sj,1)) { int a=7; __asm__ volatile("wr %%g0,%%g0,%%y; sdiv %0,%1,%0":"+r"(a):"r"(zero)); }
 if(!sigsetjmp(sj,1)) { __asm__ volatile(".word 0"); }
 if(!sigsetjmp(sj,1)) { __asm__ volatile("ta 1"); }
 if(!sigsetjmp(sj,1)) { __asm__ volatile("ta 5"); }
 if(!sigsetjmp(sj,1)) { __asm__ volatile("taddcctv %%g0,1,%%g0":::"cc"); }
 if(!sigsetjmp(sj,1)) { feenableexcept(FE_DIVBYZERO); dz=one/dz; fedisableexcept(FE_ALL_EXCEPT); }
 fedisableexcept(FE_ALL_EXCEPT);
 page=mmap(0,8192,PROT_NONE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);
 set(SIGSEGV,on_fix,0); page[100]=42; printf("fixed %d %d\n",page[100],count);
 count=0; set(SIGSEGV,on_skip,0); { int v=5; __asm__ volatile("ld [%1],%0":"+r"(v):"r"(bad)); printf("skipped %d %d\n",v,count);} 
 count=0; { int v=5; __asm__ volatile("ba 1f; ld [%1],%0; mov 9,%0; 1: add %0,1,%0":"+r"(v):"r"(bad)); printf("slot %d %d\n",v,count);} 
 stack_t ss={0}; ss.ss_sp=alt; ss.ss_size=sizeof alt; sigaltstack(&ss,0); set(SIGSEGV,on_over,SA_ONSTACK); deep=1; count=0;
 if(!sigsetjmp(sj,1)) over(0);
 deep=0; printf("after %d\n",count);
 if(!sigsetjmp(sj,1)) { deep=1; over(0);} printf("again %d\n",count);
 signal(SIGUSR1,nested); signal(SIGUSR2,nested2); raise(SIGUSR1);
 sigset_t m; sigemptyset(&m); sigaddset(&m,SIGUSR2); sigprocmask(SIG_BLOCK,&m,0); raise(SIGUSR2); printf("blocked\n"); sigprocmask(SIG_UNBLOCK,&m,0); printf("unblocked\n");
 struct sigaction sa; memset(&sa,0,sizeof sa); sa.sa_handler=nested2; sa.sa_flags=SA_RESETHAND; sigaction(SIGUSR2,&sa,0); raise(SIGUSR2); sigaction(SIGUSR2,0,&sa); printf("reset %d\n",sa.sa_handler==SIG_DFL);
 fflush(stdout); raise(SIGUSR2); return 1; }
