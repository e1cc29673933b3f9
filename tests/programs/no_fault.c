#include <stdio.h>
#define L(ins,T) ({ T v; __asm__ volatile(ins " %0":"=r"(v):"r"(p)); v; })
int main(){ static int data[4]={0x11223344,0x55667788,3,4}; void*p=data; unsigned r; float f; double d; int i;
 for(i=0;i<3;i++){ p= i==1?(void*)0x20:(void*)data;
 __asm__ volatile("lduwa [%1] 0x82,%0":"=r"(r):"r"(p)); printf("%x ",r);
 __asm__ volatile("ldsba [%1] 0x83,%0":"=r"(r):"r"(p)); printf("%x ",r);
 __asm__ volatile("wr %%g0,0x82,%%asi; lduwa [%1+4] %%asi,%0":"=r"(r):"r"(p)); printf("%x ",r);
 __asm__ volatile("wr %%g0,0x8a,%%asi; lduha [%1+2] %%asi,%0":"=r"(r):"r"(p)); printf("%x ",r);
 __asm__ volatile("lda [%1] 0x82,%0":"=f"(f):"r"(p)); printf("%g ",f);
 __asm__ volatile("ldda [%1] 0x82,%0":"=e"(d):"r"(p)); printf("%g ",d);
 __asm__ volatile("ba 1f; lduwa [%1] 0x82,%0; mov 77,%0; 1: inc %0":"=r"(r):"r"(p)); printf("%x\n",r);
 }
 return 0;}
