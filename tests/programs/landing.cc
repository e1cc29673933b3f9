// Leaves activations again and again: longjmp, setcontext, exceptions, out of handlers, recursively.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <ucontext.h>

static jmp_buf place;
static sigjmp_buf handled;
static volatile int depth_of_jump, cleaned;

struct Guard {
    ~Guard() { cleaned = cleaned + 1; }
};

__attribute__((noinline)) static int jump_from(int depth, int value)
{
    if (depth == 0)
        longjmp(place, value);
    int result = jump_from(depth - 1, value);
    return result + depth;
}

__attribute__((noinline)) static int throw_from(int depth, int value)
{
    Guard guard;
    if (depth == 0)
        throw value;
    if (depth % 3 == 2) {
        try {
            return throw_from(depth - 1, value) + 1;
        } catch (int caught) {
            if (caught & 1)
                throw;
            throw caught + 1;
        }
    }
    return throw_from(depth - 1, value) + depth;
}

static void on_signal(int)
{
    if (depth_of_jump & 1)
        siglongjmp(handled, 1);
}

int main()
{
    volatile int total = 0;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, nullptr);
    for (volatile int round = 0; round < 120; round = round + 1) {
        int jumped = setjmp(place);
        if (jumped == 0)
            jump_from(round % 5, round % 7 + 1);
        total = total + jumped;
        try {
            throw_from(round % 6, round);
        } catch (int value) {
            total = total + value;
        }
        depth_of_jump = round;
        if (round % 8 == 0 && sigsetjmp(handled, 1) == 0)
            raise(SIGUSR1);
    }
    volatile int set = 0;
    ucontext_t context;
    getcontext(&context);
    set = set + 1;
    if (set < 40)
        setcontext(&context);
    std::printf("%d %d %d\n", total, cleaned, set);
    return 0;
}
