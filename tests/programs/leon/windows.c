static void put(int c) { while (!(*(volatile unsigned *)0x80000104 & 4)) {} *(volatile unsigned *)0x80000100 = c; }
static void text(const char *s) { while (*s) put(*s++); }
static void number(unsigned n) { if (n >= 10) number(n / 10); put('0' + n % 10); }
static volatile int zero;
static int __attribute__((noinline)) depth(int n) { return n == zero ? 0 : 1 + depth(n - 1) + zero; }
static int __attribute__((noinline)) tak(int x, int y, int z) { return y >= x ? z : tak(tak(x-1,y,z),tak(y-1,z,x),tak(z-1,x,y)); }
static unsigned a[200];
static void sort(unsigned *p, int n) {
  if (n < 2) return;
  unsigned pivot = p[n/2]; int i = 0, j = n - 1;
  for (;;) { while (p[i] < pivot) i++; while (p[j] > pivot) j--; if (i >= j) break; unsigned t = p[i]; p[i] = p[j]; p[j] = t; i++; j--; }
  sort(p, i); sort(p + i, n - i);
}
static double half(double x) { return x / 2 + zero; }
int main(void) {
  text("depth "); number(depth(100)); text("\ntak "); number(tak(7,4,1)); text("\nsort ");
  unsigned s = 12345; for (int i = 0; i < 200; i++) { s = s * 1103515245u + 12345; a[i] = s >> 8 & 0xffff; }
  sort(a, 200); int bad = 0; for (int i = 1; i < 200; i++) bad += a[i-1] > a[i];
  number(bad); text(" "); number(a[0]); text(" "); number((unsigned)half(a[199])); text("\n");
  return 3;
}
