/* What an instrumented program executes at its start, at its end and in place of system calls that
 * install handlers of signals: freestanding, without a C library.
 *
 * It is compiled once for each machine (`make runtime`) to a flat image that can lie anywhere: it
 * names no address, its texts stand between instructions, and its parameters (`struct parameters`)
 * come right after the jump to the program's entry that follows the image. What it keeps lies in
 * memory that it maps itself (`struct data`).
 *
 * No global register but %g1 is used, nor %y, nor the FPU: the program keeps values there.
 *
 *   start       maps and fills the counters' memory, finds out where to write them, and gives the
 *               program its registers as the kernel had left them
 *   leave       the program calls exit(2) or exit_group(2): writes the counters
 *   handle      a signal ends the program: writes the counters, and lets it
 *   action      makes a system call that installs a handler, and hides ours from the program
 *   unforeseen, rewrites   refusals: the copy of the program would not do what the program does
 *
 * Where the program cannot go on as the original would, it ends with one line and status 125.
 */

typedef unsigned int u32;
typedef unsigned long word;

#ifdef __arch64__
#define TRAP "ta 0x6d"
#define CARRY "%%xcc" /* Linux sets the carry of both, qemu-user of this one only */
#define BIAS 2047
#define MINIMUM_FRAME "176"
#define MODE 24      /* of `struct stat64`: the offset of st_mode */
#define O_LARGEFILE 0
#else
#define TRAP "ta 0x10"
#define CARRY "%%icc"
#define BIAS 0
#define MINIMUM_FRAME "96"
#define MODE 16
#define O_LARGEFILE 0x40000
#endif

#ifdef __sparc_v9__
#define FLUSH_WINDOWS "flushw"
#define KEEP_FLAGS "rd %ccr, %l1\n"
#define PUT_FLAGS_BACK "wr %l1, 0, %ccr\n"
#define ON_CARRY "bcs,a,pt " CARRY ", 1f\n"
#else /* V8 code cannot read the flags, which Linux clears at the start */
#define FLUSH_WINDOWS "ta 3"
#define KEEP_FLAGS ""
#define PUT_FLAGS_BACK "orcc %g0, 1, %g0\n"
#define ON_CARRY "bcs,a 1f\n"
#endif

enum {
    OPEN = 5, WRITE = 4, CLOSE = 6, UNLINK = 10, GETPID = 20, KILL = 37, MMAP = 71, FCNTL = 92,
    SIGACTION = 102, SIGPROCMASK = 103, RENAME = 128, STAT64 = 139, GETTID = 143, EXIT_GROUP = 188,
};
enum {
    O_WRONLY_CREAT_TRUNC = 1 | 0x200 | 0x400 | O_LARGEFILE,
    PERMISSIONS = 0666,
    READ_AND_WRITE = 3,
    MAP_FLAGS = 2 | 0x20 | 0x40 | 0x100000, /* private, anonymous, not reserved, nothing replaced */
    F_DUPFD_CLOEXEC = 1030,
    SIG_SETMASK = 4,
    SIGNAL_SET = 8,       /* bytes of a set of signals */
    REGULAR = 8,          /* the type of plain files in st_mode, above 12 other bits */
    EXITED = 0x100,       /* plus a status, or */
    KILLED = 0x200,       /* plus a signal: how the program ended */
    STATUS = 125,
    LONGEST_NAME = 4000,
    HIGH_DESCRIPTOR = 512,
    LETTERS = 6,          /* that tell a process: the low 24 bits of its number */
    UNUSED = 1,           /* neither the default nor a handler of ours */
};

/* What Python has to say. Lists follow in the order of their counts; all addresses are of 32 bits. */
struct parameters {
    u32 data;                 /* address of `struct data` */
    u32 mapped, filled, auxiliary, regions;
    u32 header;               /* bytes that the counter file begins with, which come last */
    u32 signals;              /* bit N: signal N ends programs, and gets a handler; 0: none does */
    u32 trace;                /* address of the buffer of the trace; 0: there is none */
    u32 trace_size, trace_position, trace_descriptor, trace_packed;
};
struct span { u32 address, size; };
struct fill { u32 address, value, count; };
struct pair { u32 key, high, low; };
struct region { u32 address, size, free; };

union kept { word value; char room[8]; };
struct data {
    union kept stack;         /* %sp at the program's start: where walks of the stack end */
    u32 length;               /* bytes of `name` */
    u32 process;              /* the number of the process that the program started as */
    union kept unused, handler; /* address of our handler of signals, once it is installed */
    char others[0x1000 - 32]; /* words of the run-time routines */
    char name[0x1000];        /* the counter file's name, ended by a zero */
    char part[0x1400];        /* the name that it has until it is complete */
    word frames[0xC00 / sizeof(word)];
};
struct action { word handler, flags, restorer; u32 mask[2]; };
struct frame { word locals[8], ins[8]; };

#define INLINE static inline __attribute__((always_inline))

/* The address of a text, which stands here. */
#define TEXT(text) ({ \
    const char *address_; \
    asm("call 1f\n\tadd %%o7, 8, %0\n\t.asciz \"" text "\"\n\t.align 4\n1:" \
        : "=r"(address_) : : "o7"); \
    address_; })

/* The address of a label of the image, from the distance to it, which is positive. */
#define ADDRESS(distance, sign) ({ \
    char *address_; \
    asm("0: call 1f\n\tsethi %%hi(" distance "), %0\n1:\tor %0, %%lo(" distance "), %0\n" \
        "\t" sign " %%o7, %0, %0" : "=&r"(address_) : : "o7"); \
    address_; })

/* Make a system call; where it fails, the result is the error's number, negative. */
INLINE long call(long number, word a, word b, word c, word d, word e, word f)
{
    register long g1 asm("g1") = number;
    register word o0 asm("o0") = a;
    register word o1 asm("o1") = b;
    register word o2 asm("o2") = c;
    register word o3 asm("o3") = d;
    register word o4 asm("o4") = e;
    register word o5 asm("o5") = f;

    asm volatile(TRAP "\n\t" ON_CARRY "\tsub %%g0, %%o0, %%o0\n1:"
                 : "+r"(o0), "+r"(o1)
                 : "r"(g1), "r"(o2), "r"(o3), "r"(o4), "r"(o5)
                 : "memory", "cc");
    return o0;
}
#define CALL3(number, a, b, c) call(number, (word)(a), (word)(b), (word)(c), 0, 0, 0)
#define CALL5(number, a, b, c, d, e) \
    call(number, (word)(a), (word)(b), (word)(c), (word)(d), (word)(e), 0)

INLINE const struct parameters *parameters(void)
{
    return (const void *)ADDRESS("simprof_parameters - 0b", "add");
}

INLINE struct data *data_of(const struct parameters *given)
{
    return (struct data *)(word)given->data;
}

/* Lists, each behind the one before. */
INLINE const struct span *mapped(const struct parameters *given)
{
    return (const void *)(given + 1);
}
INLINE const struct fill *filled(const struct parameters *given)
{
    return (const void *)(mapped(given) + given->mapped);
}
INLINE const struct pair *auxiliary(const struct parameters *given)
{
    return (const void *)(filled(given) + given->filled);
}
INLINE const struct region *regions(const struct parameters *given)
{
    return (const void *)(auxiliary(given) + given->auxiliary);
}

INLINE word length_of(const char *text)
{
    word length = 0;

    while (text[length])
        length++;
    return length;
}

INLINE void say(const char *text)
{
    CALL3(WRITE, 2, text, length_of(text));
}

/* Where everything is in the image, which begins here; the order is Python's (`runtime.Place`). */
asm(".text\n"
    "simprof_image:\n"
    ".word simprof_unforeseen - simprof_image, simprof_rewrites - simprof_image\n"
    ".word simprof_action - simprof_image, simprof_ends - simprof_image\n"
    ".word simprof_exit - simprof_image, simprof_begins - simprof_image\n"
    ".word simprof_start - simprof_image\n");

static __attribute__((noreturn, noinline)) void refuse(const char *text)
{
    say(text);
    for (;;)
        CALL3(EXIT_GROUP, STATUS, 0, 0);
}

__attribute__((noreturn)) void simprof_unforeseen(void)
{
    refuse(TEXT("simprof: a jump leads where no run has shown it to lead: instrument the program "
                "with a run like this one, or without one\\n"));
}

__attribute__((noreturn)) void simprof_rewrites(void)
{
    refuse(TEXT("simprof: the program changes its own code, whose copy would not change: it cannot "
                "run instrumented\\n"));
}

/* -- system calls that install handlers
 *
 * A copy makes them by `save %sp, -N, %sp; call simprof.sigaction; mov %g1, %l0`. The program must
 * not notice our handlers: where it asks what is installed, the kernel's answer is the default in
 * the place of ours; where it puts the default back, ours stands again. The call is made with the
 * program's own pointers, so that the kernel says what is wrong with them. Whether our handler is
 * wanted is asked of the kernel, too: the program may have had both structures at one place. */

asm(".align 4\n"
    "simprof_action:\n"
    "mov %o7, %l3\n"
#ifdef __sparc_v9__
    "rd %ccr, %l1\n"
#endif
    "mov %l0, %o0\n mov %i0, %o1\n mov %i1, %o2\n mov %i2, %o3\n mov %i3, %o4\n"
    "call simprof_act\n"
    "mov %i4, %o5\n"
    "mov %o0, %i0\n"
    "mov %l3, %o7\n"
    "cmp %o0, 0\n"
#ifdef __sparc_v9__
    "andn %l1, 0x11, %l1\n"
    "bneg,a 1f\n"
    "or %l1, 0x11, %l1\n"
    "ba,a 2f\n"
    "1: sub %g0, %i0, %i0\n"
    "2: mov %l0, %g1\n"
    "wr %l1, 0, %ccr\n"
#else
    "bneg,a 1f\n"
    "sub %g0, %i0, %i0\n"
    "1: mov %l0, %g1\n"
    "addcc %o0, %o0, %g0\n"
#endif
    "retl\n"
    "restore\n");

long simprof_act(word number, word sig, word act, struct action *old, word restorer, word size)
{
    const struct parameters *given = parameters();
    word ours = data_of(given)->handler.value;
    long result = CALL5(number, sig, act, old, restorer, size);
    int asked = sig;
    struct action now;

    if (!ours)
        return result;
    if (result >= 0 && old && old->handler == ours)
        old->handler = 0;
    asked = asked < 0 ? -asked : asked; /* the older call's numbers may be negative */
    if (asked > 31 || !(given->signals >> asked & 1))
        return result;
    now.handler = UNUSED;
    CALL5(SIGACTION, asked, 0, &now, 0, SIGNAL_SET);
    if (!now.handler) {
        now.handler = ours;
        CALL5(SIGACTION, asked, &now, 0, now.restorer, SIGNAL_SET);
    }
    return result;
}

/* -- the end
 *
 * The file is written under the name `part`, and gets its own when it is complete. Where anything
 * fails, the part is removed, and the program says so on descriptor 2 and goes on. A device or
 * pipe, such as /dev/null, is written itself: another file must not take its place.
 *
 * The stack is written so that unfinished activations can be told: the number of words, how the
 * program ended, then the words. The first one or two are of the code that came here, then come
 * %i7 of each frame that has another one below it, innermost first. Frames have ascending, aligned
 * addresses, up to that at the program's start. */

asm("simprof_ends:\n");

static __attribute__((noinline)) int put(long file, const char *from, word size)
{
    while (size) {
        long written = CALL3(WRITE, file, from, size);

        if (written < 0)
            return 0;
        from += written;
        size -= written;
    }
    return 1;
}

/* The frame behind one, or NULL. */
INLINE const char *next_frame(const char *frame, word stack)
{
    word next = ((const struct frame *)(frame + BIAS))->ins[6];

    return next <= (word)frame || next > stack || (next + BIAS) & 7 ? 0 : (const char *)next;
}

INLINE int put_stack(
    struct data *data, long file, u32 end, int count, const word *first, const char *frame)
{
    word stack = data->stack.value, *at = data->frames;
    const char *next, *each;
    u32 words = count;

    for (each = frame; (next = next_frame(each, stack)); each = next)
        words++;
    ((u32 *)at)[0] = words;
    ((u32 *)at)[1] = end;
    if (!put(file, (const char *)at, 8))
        return 0;
    *at++ = first[0];
    if (count > 1)
        *at++ = first[1];
    for (each = frame; (next = next_frame(each, stack)); each = next) {
        *at++ = ((const struct frame *)(each + BIAS))->ins[7];
        if (at == (word *)(data + 1)) {
            at = data->frames;
            if (!put(file, (const char *)at, sizeof data->frames))
                return 0;
        }
    }
    return put(file, (const char *)data->frames, (char *)at - (char *)data->frames);
}

INLINE int put_all(
    const struct parameters *given, struct data *data, long file, u32 end, int count,
    const word *first, const char *frame)
{
    const struct region *region = regions(given), *last = region + given->regions;

    if (!put(file, (const char *)last, given->header))
        return 0;
    for (; region != last; region++) {
        u32 size = region->size;

        if (region->free) /* the word that says where the region ends */
            size = *(u32 *)(word)region->free - region->address;
        if (!put(file, (const char *)(word)region->address, size))
            return 0;
    }
    return put_stack(data, file, end, count, first, frame) && put(file, TEXT("simprof\\n"), 8);
}

static __attribute__((noinline)) void dump(
    const struct parameters *given, u32 end, int count, const word *first, const char *frame)
{
    struct data *data = data_of(given);
    const char *target = data->part;
    long file;

    asm volatile(FLUSH_WINDOWS : : : "memory");
    if (CALL3(STAT64, data->name, data->frames, 0) >= 0
        && *(u32 *)((char *)data->frames + MODE) >> 12 != REGULAR)
        target = data->name;
    file = CALL3(OPEN, target, O_WRONLY_CREAT_TRUNC, PERMISSIONS);
    if (file >= 0) {
        int written = put_all(given, data, file, end, count, first, frame);

        if (CALL3(CLOSE, file, 0, 0) >= 0 && written
            && CALL3(RENAME, target, data->name, 0) >= 0) /* of a name to itself: nothing */
            return;
        CALL3(UNLINK, data->part, 0, 0); /* there is none where a device is written */
    }
    say(TEXT("simprof: cannot write "));
    CALL3(WRITE, 2, data->name, data->length);
    say(TEXT(": no profile\\n"));
}

/* Block all signals: no handler counts, or ends the program, while the file is written. */
INLINE void block_signals(struct data *data)
{
    ((u32 *)data->frames)[0] = ((u32 *)data->frames)[1] = -1;
    CALL5(SIGPROCMASK, SIG_SETMASK, data->frames, 0, SIGNAL_SET, 0);
}

/* Write what the buffer of the trace holds; a byte that has some bits counts. */
INLINE void last_tokens(const struct parameters *given)
{
    char *start = (char *)(word)given->trace, *end = start + given->trace_size;
    u32 position = *(u32 *)(end + given->trace_position), size = given->trace_size;

    /* the position is what has been appended, less what fills the buffer */
    size = given->trace_packed ? (position + (size << 3) + 7) >> 3 : position + size;
    put(*(int *)(end + given->trace_descriptor), start, size);
}

/* Write the counters, as far as this process is to. A forked child has its parent's counts in its
 * own copy of the counters, so that its file would count them twice; a thread that ends alone
 * leaves the file to whoever ends the process. */
static __attribute__((noinline)) void finish(
    int whole, u32 end, int count, const word *first, const char *frame)
{
    const struct parameters *given = parameters();
    struct data *data = data_of(given);

    if (CALL3(GETPID, 0, 0, 0) != (long)data->process)
        return;
    if (CALL3(GETTID, 0, 0, 0) != (long)data->process && !whole)
        return;
    block_signals(data);
    if (given->trace)
        last_tokens(given);
    dump(given, end, count, first, frame);
}

/* A copy branches here that would have called exit(2) or exit_group(2): %g1 and %o0 are the system
 * call's. */
asm(".align 4\n"
    "simprof_exit:\n"
    "save %sp, -" MINIMUM_FRAME ", %sp\n"
    "mov %g1, %l0\n mov %g1, %o0\n mov %i0, %o1\n mov %i7, %o2\n"
    "call simprof_leave\n"
    "mov %fp, %o3\n"
    "mov %l0, %g1\n"
    "restore\n" TRAP "\n"
    ".word 0\n");

void simprof_leave(word number, word status, word back, const char *frame)
{
    finish(number == EXIT_GROUP, EXITED | (status & 0xFF), 1, &back, frame);
}

/* Our handler of signals, which are blocked or not. Behind a system call, the interrupted
 * instruction is the one that follows the trap. */
asm(".align 4\n"
    "simprof_signal:\n"
    "save %sp, -" MINIMUM_FRAME ", %sp\n"
    "mov %i0, %o0\n mov %i2, %o1\n"
    "call simprof_handle\n"
    "mov %fp, %o2\n");

__attribute__((noreturn)) void simprof_handle(word sig, const char *registers, const char *frame)
{
    struct data *data = data_of(parameters());
    u32 *set = (u32 *)data->frames, others = ~(1u << (sig - 1));
    word first[2];

#ifdef __arch64__ /* the general registers, tstate, pc */
    registers += 128;
    first[0] = *(word *)(registers + 8 * 17) | 1;
    first[1] = *(word *)(registers + 8 * 15);
#else /* psr, pc, npc, y, the general registers */
    first[0] = *(word *)(registers + 4) | 1;
    first[1] = *(word *)(registers + 4 * (4 + 15));
#endif
    finish(1, KILLED | (sig & 0xFF), 2, first, frame);
    for (int k = 0; k < 8; k++)
        set[k] = 0;
    CALL5(SIGACTION, sig, set, 0, 0, SIGNAL_SET); /* the default */
#ifdef __arch64__ /* sets have words of the machine's width */
    set[0] = -1, set[1] = others;
#else
    set[0] = others, set[1] = -1;
#endif
    CALL5(SIGPROCMASK, SIG_SETMASK, set, 0, SIGNAL_SET, 0);
    CALL3(KILL, CALL3(GETPID, 0, 0, 0), sig, 0);
    for (;;) /* it was blocked by another thread, say */
        CALL3(EXIT_GROUP, sig + 128, 0, 0);
}

/* -- the start */

asm("simprof_begins:\n");

/* Map every run of pages, and store what is not zero in it. */
INLINE void map_and_fill(const struct parameters *given)
{
    const struct span *span = mapped(given);
    const struct fill *fill = filled(given), *last = (const void *)auxiliary(given);

    for (; span != (const void *)fill; span++)
        if (call(MMAP, span->address, span->size, READ_AND_WRITE, MAP_FLAGS, -1, 0)
            != (long)span->address)
            refuse(TEXT("simprof: the memory of the counters is not free: the program cannot "
                        "run\\n"));
    for (; fill != last; fill++) {
        u32 *at = (u32 *)(word)fill->address, value = fill->value, count = fill->count;

        for (; count >= 8; at += 8, count -= 8) {
            at[0] = value; at[1] = value; at[2] = value; at[3] = value;
            at[4] = value; at[5] = value; at[6] = value; at[7] = value;
        }
        for (; count; count--)
            *at++ = value;
    }
}

/* Return the value of SIMPROF_OUT among the strings at `*at`, and leave what follows them there. */
INLINE const char *find_name(const word **at)
{
    const char *variable = TEXT("SIMPROF_OUT="), *found = 0;

    for (; **at; ++*at) {
        const char *string = (const char *)**at;
        int k = 0;

        if (found)
            continue;
        while (variable[k] && variable[k] == string[k])
            k++;
        if (!variable[k])
            found = string + k;
    }
    ++*at;
    return found && *found ? found : TEXT("simprof.out");
}

/* Where the kernel tells of the file's headers and entry, tell what it would have told of the
 * original. It ends behind the last of these: kernels differ in what else the vector has. */
INLINE void restore_auxiliary(const struct parameters *given, word *at)
{
    const struct pair *first = auxiliary(given), *last = (const void *)regions(given), *pair;
    u32 left = given->auxiliary;

    for (; left && at[0]; at += 2)
        for (pair = first; pair != last; pair++)
            if (at[0] == pair->key) {
#ifdef __arch64__
                at[1] = (word)pair->high << 32 | pair->low;
#else
                at[1] = pair->low;
#endif
                left--;
            }
}

INLINE char *append(char *end, const char *text)
{
    while ((*end = *text++))
        end++;
    return end;
}

/* Open the trace, and move its descriptor out of the way of those that the program will get. */
INLINE void open_trace(const struct parameters *given, struct data *data, char *end)
{
    char *words = (char *)(word)given->trace + given->trace_size;
    long file, moved = -1;

    append(end, TEXT(".trace"));
    file = CALL3(OPEN, data->part, O_WRONLY_CREAT_TRUNC, PERMISSIONS);
    if (file < 0) {
        say(TEXT("simprof: cannot write the trace beside the profile: no trace\\n"));
    } else {
        for (int wanted = HIGH_DESCRIPTOR; wanted && moved < 0; wanted >>= 1)
            moved = CALL3(FCNTL, file, F_DUPFD_CLOEXEC, wanted);
        if (moved < 0)
            moved = file;
        else
            CALL3(CLOSE, file, 0, 0);
    }
    *(int *)(words + given->trace_descriptor) = moved;
    *(int *)(words + given->trace_position)
        = -(int)(given->trace_packed ? given->trace_size << 3 : given->trace_size);
}

/* Install our handler of each signal whose default is to end the program, unless whoever started
 * it ignores that. */
INLINE void install(const struct parameters *given, struct data *data)
{
    struct action *room = (struct action *)data->frames;

    data->handler.value = (word)ADDRESS("0b - simprof_signal", "sub");
    for (int sig = 1; sig < 32; sig++) {
        if (!(given->signals >> sig & 1))
            continue;
        CALL5(SIGACTION, sig, 0, room, 0, SIGNAL_SET);
        if (room->handler)
            continue;
        room->handler = data->handler.value;
        CALL5(SIGACTION, sig, room, 0, 0, SIGNAL_SET);
    }
}

/* `stack`: %sp at the program's start, where behind a window's place stand argc, argv, 0, the
 * environment, 0, and the auxiliary vector. */
void simprof_begin(char *stack)
{
    const struct parameters *given = parameters();
    struct data *data = data_of(given);
    const word *at = (const word *)(stack + BIAS + sizeof(struct frame));
    const char *name;
    char *end = data->part;
    u32 length = 0;
    long process;

    map_and_fill(given);
    data->stack.value = (word)stack;
    at += at[0] + 2;
    name = find_name(&at);
    restore_auxiliary(given, (word *)at);
    /* The name is copied, as programs write over their environment; of one that is too long no
     * file can be made. */
    while ((data->name[length] = end[length] = name[length]))
        if (++length == LONGEST_NAME) {
            end[0] = 0;
            break;
        }
    data->length = length;
    end += length;
    if (given->trace)
        open_trace(given, data, end);
    process = CALL3(GETPID, 0, 0, 0);
    data->process = process;
    *end++ = '.';
    for (int shift = 4 * (LETTERS - 1); shift >= 0; shift -= 4)
        *end++ = 'a' + (process >> shift & 15);
    append(end, TEXT(".part"));
    if (given->signals)
        install(given, data);
}

/* All registers get back what they held; the windows that were used hold zeros, as fresh ones. */
#define CLEAR_WINDOW \
    "mov 0, %l0\n mov 0, %l1\n mov 0, %l2\n mov 0, %l3\n" \
    "mov 0, %l4\n mov 0, %l5\n mov 0, %l6\n mov 0, %l7\n" \
    "mov 0, %o0\n mov 0, %o1\n mov 0, %o2\n mov 0, %o3\n" \
    "mov 0, %o4\n mov 0, %o5\n mov 0, %o7\n"
asm(".align 4\n"
    "simprof_start:\n"
    "save %sp, -" MINIMUM_FRAME ", %sp\n"
    "mov %g1, %l0\n" KEEP_FLAGS
    "call simprof_begin\n"
    "mov %fp, %o0\n"
    "save %sp, -" MINIMUM_FRAME ", %sp\n"
    CLEAR_WINDOW
    "restore\n"
    "mov %l0, %g1\n" PUT_FLAGS_BACK
    CLEAR_WINDOW
    /* here follow a branch to the program's entry, whose delay slot is `restore`, and then: */
    "simprof_parameters = . + 8\n");
