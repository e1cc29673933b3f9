// Exceptions: nested, rethrown, across many frames, from constructors, with destructors that count.
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static int alive;
struct Counted {
    int n;
    explicit Counted(int k) : n(k) { if (k == 13) throw std::out_of_range("thirteen"); alive++; }
    Counted(const Counted &o) : n(o.n) { alive++; }
    ~Counted() { alive--; }
};
struct Pair { Counted a, b; explicit Pair(int k) : a(k), b(k + 1) {} };
struct Base { virtual ~Base() = default; virtual int go(int n) = 0; };
struct Thrower : Base { int go(int n) override { if (n > 2) throw n; return n; } };
struct Quiet : Base { int go(int n) override { return -n; } };
struct Odd : std::exception { const char *what() const noexcept override { return "odd"; } };

__attribute__((noinline)) static int across(int depth, int kind)
{
    Counted here(100 + depth);
    if (depth == 0) {
        switch (kind) {
        case 0: throw 42;
        case 1: throw std::string("text");
        case 2: throw Odd();
        case 3: throw 2.5;
        default: return 1;
        }
    }
    return across(depth - 1, kind) + here.n;
}
__attribute__((noinline)) static int nested(int n)
{
    try {
        try {
            if (n & 1) throw n;
            throw std::runtime_error("even");
        } catch (int k) {
            Counted c(k);
            if (n & 2) throw;
            throw std::logic_error("inner");
        }
    } catch (const std::logic_error &e) {
        return 1;
    } catch (const std::exception &e) {
        return e.what()[0];
    } catch (int k) {
        return 1000 + k;
    }
}
__attribute__((noinline)) static int build(int n)
{
    try {
        Pair p(n);
        std::vector<Counted> v(3, p.a);
        if (n == 20) v.at(7);
        return p.a.n + p.b.n + (int)v.size();
    } catch (const std::out_of_range &) {
        return -n;
    }
}
__attribute__((noinline)) static int safe(int n) noexcept
{
    try { return n / across(3, n); } catch (...) { return n; }
}
struct Cleaner { ~Cleaner() { try { throw 1; } catch (int) { alive += 0; } } };

int main(int argc, char **)
{
    for (int kind = 0; kind < 5; kind++)
        try {
            printf("sum %d\n", across(kind == 2 && argc > 1 ? 100 : 2 * kind, kind));
        } catch (int n) { printf("int %d\n", n);
        } catch (const std::string &s) { printf("string %s\n", s.c_str());
        } catch (const std::exception &e) { printf("exception %s\n", e.what());
        } catch (...) { printf("other\n"); }
    for (int i = 0; i < 4; i++) printf("%d ", nested(i));
    for (int i = 11; i < 15; i++) printf("%d ", build(i));
    printf("%d alive %d\n", build(20), alive);
    std::unique_ptr<Base> things[] = {std::make_unique<Thrower>(), std::make_unique<Quiet>()};
    int sum = 0;
    for (int i = 0; i < 6; i++)
        try { sum += things[i % 2]->go(i); } catch (int n) { sum += 100 * n; }
    for (int i = 0; i < 1; i++) { Cleaner c; try { Cleaner d; throw i; } catch (int k) { sum += k; } sum += safe(i); }
    std::exception_ptr kept;
    try { across(2, 2); } catch (...) { kept = std::current_exception(); }
    try { std::rethrow_exception(kept); } catch (const Odd &e) { printf("%s again\n", e.what()); }
    try { (void)std::stoi("none"); } catch (const std::invalid_argument &) { sum++; }
    printf("%d %d\n", sum, alive);
    if (Base *b = dynamic_cast<Quiet *>(things[0].get())) b->go(1);
    return sum & 63;
}
