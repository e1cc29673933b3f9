// The C++ library: containers, algorithms, streams, virtual calls, function objects, statics.
#include <algorithm>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

struct Shape { virtual ~Shape() {} virtual double area() const = 0; virtual std::string name() const { return "shape"; } };
struct Square : Shape { double s; explicit Square(double x) : s(x) {} double area() const override { return s * s; } std::string name() const override { return "square"; } };
struct Disc : virtual Shape { double r; explicit Disc(double x) : r(x) {} double area() const override { return 3 * r * r; } };
struct Ring : Disc { double inner; Ring(double a, double b) : Disc(a), inner(b) {} double area() const override { return Disc::area() - 3 * inner * inner; } };
static thread_local int per_thread = 5;
static std::string &table() { static std::string s = "lazy"; return s; }
struct Global { Global() { per_thread++; } ~Global() { std::cout << "gone " << per_thread << '\n'; } } global;

int main()
{
    std::map<std::string, int> counts;
    std::istringstream text("the cat and the dog and the bird");
    for (std::string w; text >> w;) counts[w]++;
    for (auto &[w, n] : counts) std::cout << w << '=' << n << ' ';
    std::vector<int> v(50);
    std::iota(v.begin(), v.end(), 0);
    for (auto &x : v) x = x * 37 % 53;
    std::sort(v.begin(), v.end());
    std::stable_sort(v.begin(), v.end(), [](int a, int b) { return a % 7 > b % 7; });
    std::function<int(int)> f = [&](int n) { return n < 2 ? n : f(n - 1) + f(n - 2); };
    std::cout << '\n' << v[3] << ' ' << f(9) << ' ' << std::setw(8) << std::setprecision(3) << 2.71828 << std::hex << 255 << '\n';
    std::unordered_map<int, std::string> names;
    for (int i = 0; i < 30; i++) names[i * i] = std::to_string(i);
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.emplace_back(new Square(2));
    shapes.emplace_back(new Ring(3, 1));
    shapes.emplace_back(new Disc(1));
    double sum = 0;
    for (auto &s : shapes) { sum += s->area(); table() += s->name(); if (dynamic_cast<Disc *>(s.get())) per_thread++; }
    std::cout << std::dec << sum << ' ' << names[49] << ' ' << table() << ' ' << per_thread << '\n';
    std::ostringstream out;
    out << std::fixed << 1.5 << ' ' << std::boolalpha << true << ' ' << std::left << std::setw(5) << 42 << '|';
    std::cout << out.str() << std::endl;
    return (int)sum & 31;
}
