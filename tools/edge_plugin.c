/* A native edge-counting plugin for qemu-user: what tools/bench.py compares with.
   It counts pairs of successive translation blocks in a hash table, and instructions.

       cc -O2 -shared -fPIC tools/edge_plugin.c -o edges.so
       qemu-sparc64 -plugin ./edges.so -d plugin PROGRAM

   The few declarations of qemu's plugin interface (version 1) that are used are repeated here, so
   that qemu's sources are not needed to build it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *),
                                          int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_outs(const char *);

EXPORT int qemu_plugin_version = 1;

struct block {
    uint64_t address;
    uint64_t size; /* instructions */
};

struct edge {
    const struct block *source, *target;
    uint64_t count;
};

enum { SLOTS = 1 << 16 };
static struct edge edges[SLOTS];
static uint64_t overflowed;
static const struct block *previous;

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
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, block);
}

static void finished(qemu_plugin_id_t id, void *data)
{
    uint64_t used = 0, crossings = 0, instructions = 0;
    char line[160];

    (void)id;
    (void)data;
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

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
