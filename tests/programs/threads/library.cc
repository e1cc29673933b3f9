#include <thread>
#include <vector>
#include <mutex>
#include <future>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <condition_variable>
static std::mutex m; static std::atomic<int> hits{0}; thread_local std::vector<int> own; struct D{ ~D(){ hits+=100; } }; thread_local D d;
static int work(int n){ if(n%5==0) throw std::runtime_error("five"); int s=0; for(int i=0;i<n;i++) s+=i*i%11; return s; }
static void run(int id,long*out){ (void)&d; for(int i=0;i<60;i++){ try{ int w=work(i+id); own.push_back(w); std::lock_guard<std::mutex> g(m); *out+=w; } catch(const std::runtime_error&){ hits++; } } }
int main(){ long out=0; std::vector<std::thread> t; for(int i=0;i<4;i++) t.emplace_back(run,i,&out); for(auto&x:t) x.join();
 auto f=std::async(std::launch::async,[]{ return work(42); }); std::printf("%ld %d %d\n",out,hits.load(),f.get()); std::call_once(*new std::once_flag,[]{}); return 0; }
