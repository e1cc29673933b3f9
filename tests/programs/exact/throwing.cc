// Exceptions from where control comes by pointers: functions, virtual calls, constructors, sorting.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>

static int log_;
struct Noted {
    int n;
    explicit Noted(int k) : n(k) { if (k % 7 == 5) throw k; log_ += n; }
    ~Noted() { log_ -= n / 2; if (std::uncaught_exceptions()) log_ ^= 64; }
};
struct Member {
    Noted a, b;
    explicit Member(int k) try : a(k), b(k + 1) {
        if (k % 5 == 4) throw std::runtime_error("member");
    } catch (int n) {
        log_ += n;
        throw n + 100;
    }
};
struct Shape {
    virtual ~Shape() = default;
    virtual int area(int n) = 0;
};
struct Round : Shape {
    int area(int n) override { Noted here(n); return n * 3; }
};
struct Nested : Shape {
    Shape &inner;
    explicit Nested(Shape &shape) : inner(shape) {}
    int area(int n) override
    {
        try { return inner.area(n + 1) + 1; } catch (int k) { if (k > 12) throw; return -k; }
    }
};
struct AtExit {
    std::function<void()> last;
    ~AtExit() { try { last(); } catch (const std::exception &e) { log_ += e.what()[0]; } }
};

static int plain(int n) { if (n % 3 == 0) throw n; return n; }
static int quiet(int n) noexcept { try { return plain(n); } catch (...) { return 1; } }
static int refuses(int n) noexcept { return plain(n); }
using Pointer = int (*)(int);
static Pointer volatile pointers[] = {plain, quiet, plain};

__attribute__((noinline)) static int through(const std::function<int(int)> &f, int n)
{
    try {
        Noted here(n);
        return f(n) + (n > 0 ? through(f, n - 1) : 0);
    } catch (int k) {
        if (k == n) return k;
        throw k - 1;
    }
}
static int compare(const void *x, const void *y)
{
    int a = *static_cast<const int *>(x), b = *static_cast<const int *>(y);
    if (a == 9 && b > a) throw std::logic_error("order");
    return (a > b) - (a < b);
}
[[noreturn]] static void last_words()
{
    try { std::rethrow_exception(std::current_exception()); } catch (int n) { log_ += n; }
    printf("terminated %d\n", log_);
    exit(log_ & 63);
}

int main()
{
    int sum = 0;
    for (int n = 0; n < 14; n++) {
        try { Member m(n); sum += m.b.n; }
        catch (int k) { sum += k; }
        catch (const std::exception &e) { sum += e.what()[1]; }
        Round round;
        Nested nested(round), twice(nested);
        try { sum += twice.area(n); } catch (int k) { sum -= k; }
        for (Pointer p : pointers) try { sum += p(n); } catch (int k) { sum ^= k; }
    }
    printf("%d %d\n", sum, log_);
    std::function<int(int)> wrapped = plain;
    std::function<int(int)> lambda = [&](int n) { if (n == 2) throw n + 3; return wrapped(n + 1); };
    for (int n = 0; n < 5; n++)
        for (const auto &f : {wrapped, lambda})
            try { sum += through(f, n); } catch (int k) { sum += 10 * k; }
    int v[24];
    for (int i = 0; i < 24; i++) v[i] = i * 5 % 24;
    try { qsort(v, 24, sizeof *v, compare); } catch (const std::logic_error &e) { puts(e.what()); }
    { AtExit here{[&] { sum++; throw std::runtime_error("late"); }}; }
    printf("%d %d\n", sum, log_);
    std::set_terminate(last_words);
    return refuses(sum % 3 ? 6 : 9);
}
