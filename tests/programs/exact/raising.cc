// A function that always throws: its landing pad is where its call would return.
struct O { int x; };
__attribute__((noinline)) static void always(int *p) { *p += 1; throw O{*p}; }
int main() {
  int n = 0;
  try { always(&n); } catch (const O &o) { n += o.x; }
  return n;
}
