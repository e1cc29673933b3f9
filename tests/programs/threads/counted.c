static __thread long before = 7;
static __attribute__((noinline)) long odd(long n){ return n&1 ? n : -n; }
long count(long n){ before+=odd(n)+3; return before; }
