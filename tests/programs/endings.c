/* Ends by signals, without a C library: its first argument says how, or HOW. What it finds installed is
 * written to standard output.
 *
 *   0 abort   1 SIGTERM, 2 SIGUSR1 to itself   3 store to address 0   4 division by 0
 *   5 illegal instruction   6 unaligned store   8..c the same after handlers have come and gone
 */
typedef unsigned long word;

#ifdef __arch64__
typedef struct { word handler, flags, restorer, mask; } action;
#define TRAP "ta 0x6d\n bcc,a,pt %%xcc, 1f"
#define MASK(a) (a).mask
#else
typedef struct { word handler, flags, restorer, mask, high; } action;
typedef struct { word handler, mask, flags, restorer; } old_action;
#define TRAP "ta 0x10\n bcc,a 1f"
#define MASK(a) (a).mask
#endif
enum { SIGHUP = 1, SIGABRT = 6, SIGKILL = 9, SIGBUS = 10, SIGTERM = 15, SIGCHLD = 20, SIGUSR1 = 30 };
enum { WRITE = 4, GETPID = 20, KILL = 37, RT_SIGACTION = 102, SIGACTION = 198 };

#define apart __attribute__((noinline))

static inline __attribute__((always_inline)) long call(
    long number, long a, long b, long c, long d, long e)
{
    register long g1 __asm__("g1") = number, o0 __asm__("o0") = a, o1 __asm__("o1") = b;
    register long o2 __asm__("o2") = c, o3 __asm__("o3") = d, o4 __asm__("o4") = e;

    __asm__ volatile(TRAP "\n nop\n sub %%g0, %%o0, %%o0\n1:"
                     : "+r"(o0) : "r"(g1), "r"(o1), "r"(o2), "r"(o3), "r"(o4) : "memory", "cc");
    return o0;
}

/* Nothing here tells the number. */
static apart long any(long number, long a, long b, long c, long d, long e)
{
    return call(number, a, b, c, d, e);
}

static apart void put(const char *text)
{
    long length = 0;

    while (text[length])
        length++;
    call(WRITE, 1, (long)text, length, 0, 0);
}

static apart void number(long value)
{
    char text[24];
    int at = 23;
    unsigned long rest = value < 0 ? -value : value;

    text[at] = 0;
    do {
        text[--at] = "0123456789abcdef"[rest & 15];
        rest >>= 4;
    } while (rest);
    if (value < 0)
        text[--at] = '-';
    text[--at] = ' ';
    put(text + at);
}

extern void back_from_handler(void);
static int got;
static volatile long zero;

static void handle(int signal)
{
    got += signal;
}

static apart long known(int signal, action *new, action *old)
{
    return call(RT_SIGACTION, signal, (long)new, (long)old, (long)back_from_handler - 8, 8);
}

static apart long unknown(int signal, action *new, action *old)
{
    return any(RT_SIGACTION, signal, (long)new, (long)old, (long)back_from_handler - 8, 8);
}

static apart void show(int signal, long (*ask)(int, action *, action *))
{
    action found;
    unsigned k;

    for (k = 0; k < sizeof found; k++)
        ((char *)&found)[k] = 7;
    number(signal);
    number(ask(signal, 0, &found));
    number(found.handler == (word)handle ? 17 : found.handler);
    number(found.flags);
    number(MASK(found));
    put("\n");
}

static apart void send(int signal)
{
    call(KILL, call(GETPID, 0, 0, 0, 0, 0), signal, 0, 0, 0);
}

static apart int store(volatile int *to, int n)
{
    int sum = 0, i;

    for (i = 0; i < n; i++)
        sum += i * zero;
    *to = sum + 1;
    return sum;
}

static apart long divide(long n)
{
    long sum = 0, i;

    for (i = 0; i < n; i++)
        sum += i;
    return sum / zero;
}

static apart void deep(int depth, int how)
{
    if (depth) {
        deep(depth - 1, how);
        got++;
        return;
    }
    switch (how) {
    case 0: send(SIGABRT); break;
    case 1: send(SIGTERM); break;
    case 2: any(KILL, any(GETPID, 0, 0, 0, 0, 0), SIGUSR1, 0, 0, 0); break;
    case 3: store((int *)zero, 5); break;
    case 4: divide(7); break;
    case 5: __asm__ volatile(".word 0"); break;
    case 6: store((volatile int *)((char *)&zero + 1), 4); break;
    }
}

int main(int count, char **arguments)
{
#ifdef HOW
    int how = HOW;
#else
    int how = arguments[1][0] > '9' ? arguments[1][0] - 'a' + 10 : arguments[1][0] - '0';
#endif
    action given = {0}, before;

    if (how < 8)
        deep(3, how);
    show(SIGTERM, known), show(SIGTERM, unknown), show(SIGKILL, known), show(0, unknown);
    show(64, known), show(SIGCHLD, unknown);

    given.handler = (word)handle;
    number(known(SIGTERM, &given, &before)), number(before.handler), show(SIGTERM, unknown);
    send(SIGTERM), number(got), put("\n");

    given.handler = 1;
    known(SIGHUP, &given, 0), send(SIGHUP), show(SIGHUP, known);
    given.handler = 0, given.flags = 2;
    unknown(SIGHUP, &given, &before), number(before.handler), show(SIGHUP, known);

    given.flags = 0x100, MASK(given) = 1;
    known(SIGTERM, &given, &before), number(before.handler == (word)handle), show(SIGTERM, known);
    number(unknown(SIGTERM, (void *)1, 0)), number(known(SIGTERM, 0, (void *)3));
    show(SIGTERM, known);

    switch (how) {
    case 8: send(SIGTERM); break;
    case 9: send(SIGHUP); break;
    case 10:
        given.handler = 1;
        known(SIGTERM, &given, 0), send(SIGTERM), send(SIGBUS);
        break;
    case 11: deep(4, 3); break;
#ifndef __arch64__
    case 12: {
        old_action older = {0}, found = {7, 7, 7, 7};

        call(SIGACTION, SIGTERM, 0, (long)&found, 0, 0), number(found.handler);
        any(SIGACTION, SIGTERM, (long)&older, (long)&found, 0, 0), number(found.handler);
        show(SIGTERM, known), send(SIGTERM);
    }
#endif
    }
    return 5;
}

#ifdef __arch64__
__asm__(".global _start\n_start: ldx [%sp+2047+128], %o0\n add %sp, 2047+136, %o1\n"
        " sub %sp, 192, %sp\n call main\n nop\n mov 1, %g1\n ta 0x6d\n"
        ".type back_from_handler, #function\n"
        "back_from_handler: mov 101, %g1\n ta 0x6d\n");
#else
__asm__(".global _start\n_start: ld [%sp+64], %o0\n add %sp, 68, %o1\n"
        " sub %sp, 96, %sp\n call main\n nop\n mov 1, %g1\n ta 0x10\n"
        ".type back_from_handler, #function\n"
        "back_from_handler: mov 216, %g1\n ta 0x10\n");
#endif
