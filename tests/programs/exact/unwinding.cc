// Recursive routines that exceptions leave for themselves: pads lie where calls would return to.
extern "C" int puts(const char *);

struct Count {
    int &n, k;
    ~Count() { n += k; }
};

[[noreturn]] __attribute__((noinline)) static void raise(int n) { throw n; }

// The clean-up's last call, which goes on unwinding, would return to the handler.
__attribute__((noinline)) static int descend(int n, int until, int &sum)
{
    try {
        Count here{sum, n};
        if (n == 0) raise(until);
        sum += descend(n - 1, until, sum);
    } catch (int k) {
        if (n < k) throw;
        sum += 100;
    }
    return n;
}

__attribute__((noinline)) static int twice(int n, int &sum)
{
    if (n & 1) {
        Count first{sum, 1000};
        try {
            if (n > 4) raise(n);
            return twice(n + 1, sum);
        } catch (long k) {
            return 0;
        }
    }
    try {
        return twice(n + 1, sum) + 1;
    } catch (int k) {
        if (n > 2) throw k + 1;
        return k;
    }
}

int main()
{
    int sum = 0;
    for (int n = 0; n < 4; n++)
        for (int until = 0; until <= n; until++) descend(n, until, sum);
    sum += twice(0, sum) + twice(2, sum);
    puts(sum & 1 ? "odd" : "even");
    return sum & 127;
}
