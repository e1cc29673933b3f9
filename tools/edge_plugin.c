/* A native counting plugin for qemu-user: what tools/bench.py compares with.
   It calls a function at each translation block, which counts pairs of successive blocks in a hash
   table. With `counters=inline` it only adds one to a counter of each block, within the translated
   code and without a call, which is the least that a plugin does to count all blocks. Both count
   the instructions of the blocks, all of them even where a trap leaves a block early.

       cc -O2 -shared -fPIC tools/edge_plugin.c -o edges.so
       qemu-sparc64 -plugin ./edges.so -d plugin PROGRAM
       qemu-sparc64 -plugin ./edges.so,counters=inline -d plugin PROGRAM

   The few declarations of qemu's plugin interface (version 1) that are used are repeated here, so
   that qemu's sources are not needed to build it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
enum { NO_REGISTERS = 0 };
enum { ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *),
                                          int flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation,
                                              void *counter, uint64_t step);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_outs(const char *);

EXPORT int qemu_plugin_version = 1;

struct block {
    uint64_t address;
    uint64_t size;       /* instructions */
    uint64_t executions; /* counted only with `counters=inline` */
    struct block *next;  /* of `blocks` */
};

struct edge {
    const struct block *source, *target;
    uint64_t count;
};

enum { SLOTS = 1 << 16 };
static struct edge edges[SLOTS];
static uint64_t overflowed;
static const struct block *previous;
static struct block *blocks; /* all translations, those that qemu has dropped too */
static bool counts_inline;

static void executed(unsigned cpu, void *data)
{
    const struct block *block = data;
    size_t slot = ((uintptr_t)previous * 31 ^ (uintptr_t)block) / 16 % SLOTS;

    (void)cpu;
    for (int probe = 0; probe < SLOTS; probe++, slot = (slot + 1) % SLOTS) {
        struct edge *edge = &edges[slot];
        if (edge->target == NULL) {
            edge->source = previous;
            edge->target = block;
        }
        if (edge->target == block && edge->source == previous) {
            edge->count++;
            previous = block;
            return;
        }
    }
    overflowed++;
    previous = block;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    struct block *block = malloc(sizeof *block);

    (void)id;
    block->address = qemu_plugin_tb_vaddr(tb);
    block->size = qemu_plugin_tb_n_insns(tb);
    block->executions = 0;
    block->next = blocks;
    blocks = block;
    if (counts_inline)
        qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &block->executions, 1);
    else
        qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, block);
}

static void report_blocks(void)
{
    uint64_t used = 0, executions = 0, instructions = 0;
    char line[160];

    for (const struct block *block = blocks; block != NULL; block = block->next) {
        used += block->executions > 0;
        executions += block->executions;
        instructions += block->executions * block->size;
    }
    snprintf(line, sizeof line,
             "blocks %" PRIu64 " executions %" PRIu64 " instructions %" PRIu64 "\n", used,
             executions, instructions);
    qemu_plugin_outs(line);
}

static void report_edges(void)
{
    uint64_t used = 0, crossings = 0, instructions = 0;
    char line[160];

    for (int slot = 0; slot < SLOTS; slot++) {
        if (edges[slot].target == NULL)
            continue;
        used++;
        crossings += edges[slot].count;
        instructions += edges[slot].count * edges[slot].target->size;
    }
    snprintf(line, sizeof line,
             "edges %" PRIu64 " crossings %" PRIu64 " instructions %" PRIu64 " lost %" PRIu64 "\n",
             used, crossings, instructions, overflowed);
    qemu_plugin_outs(line);
}

static void finished(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (counts_inline)
        report_blocks();
    else
        report_edges();
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "counters=inline") != 0)
            return -1; /* qemu names the plugin, and ends */
        counts_inline = true;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
