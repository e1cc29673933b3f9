/* A plugin for qemu-user (API version 1) that counts a SPARC program's instructions exactly.
 *
 * Each instruction adds 1 to `total` before it executes (an addition in qemu's own code, no call).
 * qemu starts some of them that do not complete; they are taken off again:
 *
 *   repeats  A window trap (or a store to a page that holds code) stops an instruction, and qemu
 *            executes it again: the next block starts at the instruction that was last.
 *   faults   An instruction faults and a handler gets control. Within a block, the block ended
 *            early. At the end of a block, the instruction accesses memory and did not, or control
 *            is not where it could have gone. Trap instructions do execute.
 *
 * It counts in spans of addresses, too, in the same way.
 *
 * What the last block did is looked at when the next one starts; what the last block of all did,
 * by the reader of the file. All state is in a shared mapping of that file, because qemu runs none
 * of a plugin's code when a signal kills the program.
 *
 * The declarations below are those of the plugin API that are used here: qemu's packages do not
 * bring its header along.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
} qemu_info_t;
enum { NO_REGISTERS = 0, READ_AND_WRITE = 3, INLINE_ADD = 0, SPANS = 4 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *, void (*)(unsigned, void *), int flags, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn *, int operation, void *, uint64_t);
extern void qemu_plugin_register_vcpu_mem_inline(
    struct qemu_plugin_insn *, int kind, int operation, void *, uint64_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* What an instruction can do besides completing. */
enum kind {
    PLAIN = 0,  /* nothing */
    BRANCH = 1, /* go to `target` */
    JUMP = 2,   /* go anywhere; fault */
    TRAP = 3,   /* enter the system, which counts as completing */
    MEMORY = 4, /* fault, or access memory */
    WINDOW = 5, /* be repeated */
    OTHER = 6,  /* fault */
};

/* A block of instructions that follow each other. */
struct block {
    uint64_t start, count;
    uint64_t target;  /* of the last branch among the last two, if any */
    uint8_t kinds[];  /* of each instruction */
};

/* The file's first page. The reader knows this layout. */
struct state {
    uint64_t magic;
    uint64_t total, repeats, faults;
    uint64_t accesses;        /* memory accesses of the last instructions of blocks */
    uint64_t block;           /* of the block that began last: its offset in the file */
    uint64_t total_before;    /* `total` and `accesses` when it began */
    uint64_t accesses_before;
    uint64_t used;            /* bytes of the file */
    uint64_t full;            /* 1: blocks did not fit, the counts are worthless */
    uint64_t within[SPANS];   /* what was executed in each span, and completed */
};

static const uint64_t MAGIC = 0x73696d70726f6631; /* simprof1 */
static uint64_t room;
static struct state *state;
static int v9, spans;
static uint64_t starts[SPANS], ends[SPANS];
static struct block *last;      /* the block that began last */
static enum kind before_kind;   /* of the instruction before its first */
static uint64_t before_target;

static uint64_t branch_target(uint64_t address, uint32_t word)
{
    int64_t words;
    unsigned op2 = word >> 22 & 7;

    if (word >> 30 == 1)
        words = (int32_t)(word << 2) >> 2;
    else if (op2 == 2 || op2 == 6)
        words = (int32_t)(word << 10) >> 10;
    else if (op2 == 3)
        words = (int16_t)((word >> 20 & 3) << 14 | (word & 0x3fff));
    else
        words = (int32_t)(word << 13) >> 13;
    return address + 4 * words;
}

static enum kind arithmetic_kind(uint32_t word)
{
    unsigned op3 = word >> 19 & 0x3f;

    if (op3 == 0x38 || op3 == 0x39)
        return JUMP;
    if (op3 == 0x3a)
        return TRAP;
    if (op3 == 0x3c || op3 == 0x3d || (v9 && op3 == 0x2b)) /* save, restore, flushw */
        return WINDOW;
    if (op3 >= 0x25 && op3 <= 0x27)
        return PLAIN;
    if (v9 && (op3 == 0x09 || op3 == 0x2c || op3 == 0x2f))
        return PLAIN;
    op3 &= ~0x10; /* with and without condition codes */
    return op3 <= 8 || (op3 >= 0xa && op3 <= 0xc) ? PLAIN : OTHER;
}

static enum kind kind_of(uint32_t word)
{
    unsigned op2 = word >> 22 & 7, op3 = word >> 19 & 0x3f;

    switch (word >> 30) {
    case 0:
        if (op2 == 4)
            return PLAIN;
        return op2 == 2 || op2 == 6 || (v9 && op2 != 0 && op2 != 7) ? BRANCH : OTHER;
    case 1:
        return BRANCH;
    case 2:
        return arithmetic_kind(word);
    default: /* prefetches access nothing */
        return v9 && (op3 == 0x2d || op3 == 0x3d) ? OTHER : MEMORY;
    }
}

/* Whether the last block's last instruction completed if that at `address` came next. */
static int completed(enum kind kind, uint64_t address)
{
    uint64_t count = last->count;
    enum kind before = count > 1 ? last->kinds[count - 2] : before_kind;
    uint64_t target = count > 1 ? last->target : before_target;

    if (kind == MEMORY && state->accesses != state->accesses_before)
        return 1;
    if (address == last->start + 4 * count || (before == BRANCH && address == target))
        return 1;
    return before == TRAP || (before == JUMP && kind != MEMORY);
}

/* The number of the span that an address is in, or SPANS. */
static int span_of(uint64_t address)
{
    int span;

    for (span = 0; span < spans; span++)
        if (starts[span] <= address && address < ends[span])
            return span;
    return SPANS;
}

/* Take an instruction back that did not complete. */
static void take_back(uint64_t *kind, uint64_t address)
{
    int span = span_of(address);

    ++*kind;
    if (span != SPANS)
        state->within[span]--;
}

/* Look at what the block before `next` did; return how many of its instructions completed. */
static uint64_t finish(const struct block *next)
{
    uint64_t done = state->total - state->total_before, address;
    enum kind kind;

    if (done == 0 || done > last->count)
        return done;
    kind = last->kinds[done - 1];
    if (kind == PLAIN || kind == BRANCH || kind == TRAP)
        return done;
    address = last->start + 4 * (done - 1);
    if (next->start == address) {
        take_back(&state->repeats, address);
        return done - 1;
    }
    if (kind != WINDOW && (done < last->count || !completed(kind, next->start)))
        take_back(&state->faults, address);
    return done;
}

static void begin(unsigned processor, void *data)
{
    uint64_t done;

    (void)processor;
    if (last) {
        done = finish(data);
        if (done > 0 && done <= last->count) {
            before_kind = last->kinds[done - 1];
            before_target = last->target;
        }
    }
    last = data;
    state->block = (char *)last - (char *)state;
    state->total_before = state->total;
    state->accesses_before = state->accesses;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb), size, i;
    struct block *block = (struct block *)((char *)state + state->used);

    (void)id;
    size = (sizeof *block + count + 7) & ~(size_t)7;
    if (state->used + size > room) {
        state->full = 1;
        return;
    }
    state->used += size;
    block->count = count;
    for (i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint8_t *bytes = qemu_plugin_insn_data(insn);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint32_t word = (uint32_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
        enum kind kind = kind_of(word);
        int span = span_of(address);

        if (i == 0)
            block->start = address;
        block->kinds[i] = kind;
        if (kind == BRANCH && i + 2 >= count)
            block->target = branch_target(address, word);
        qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD, &state->total, 1);
        if (span != SPANS)
            qemu_plugin_register_vcpu_insn_exec_inline(
                insn, INLINE_ADD, &state->within[span], 1);
        if (kind == MEMORY && i + 1 == count)
            qemu_plugin_register_vcpu_mem_inline(
                insn, READ_AND_WRITE, INLINE_ADD, &state->accesses, 1);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, begin, NO_REGISTERS, block);
}

/* Arguments: counts=NAME, a file of the size that may be used, then START=END of each span. */
__attribute__((visibility("default"))) int qemu_plugin_install(
    qemu_plugin_id_t id, const qemu_info_t *info, int count, char **arguments)
{
    int file;

    if (count < 1 || count > 1 + SPANS || strncmp(arguments[0], "counts=", 7) != 0)
        return 1;
    for (; spans < count - 1; spans++) {
        char *end;

        starts[spans] = strtoull(arguments[spans + 1], &end, 0);
        ends[spans] = strtoull(end + (*end == '='), NULL, 0);
    }
    file = open(arguments[0] + 7, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return 1;
    room = lseek(file, 0, SEEK_END);
    state = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (state == MAP_FAILED)
        return 1;
    v9 = strcmp(info->target_name, "sparc") != 0;
    state->used = (sizeof *state + 7) & ~(size_t)7;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    state->magic = MAGIC;
    return 0;
}
