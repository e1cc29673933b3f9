/* A plugin for qemu-user that counts the instructions that a SPARC program executes.

   Each instruction has one callback, which adds one. A save, restore, return or flushw that finds
   no register window to use is started again behind qemu's spill or fill code: that is the same
   instruction right after itself, which otherwise is only where it is a branch to itself.

   The few declarations of qemu's plugin interface (version 1) that are used are repeated here, so
   that qemu's sources are not needed to build it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *),
                                            int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t count;
static uintptr_t last; /* address, and 1 for an instruction that moves the window */

static void started(unsigned cpu, void *data)
{
    (void)cpu;
    count += !((uintptr_t)data == last && (last & 1));
    last = (uintptr_t)data;
}

static int moves_window(const unsigned char *word)
{
    unsigned op3 = (word[0] & 1) << 5 | word[1] >> 3;

    return word[0] >> 6 == 2 && (op3 == 0x3c || op3 == 0x3d || op3 == 0x39 || op3 == 0x2b);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        uintptr_t place = qemu_plugin_insn_vaddr(instruction);

        place |= moves_window(qemu_plugin_insn_data(instruction));
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, started, 0, (void *)place);
    }
}

static void finished(qemu_plugin_id_t id, void *data)
{
    char line[32];

    (void)id;
    (void)data;
    snprintf(line, sizeof line, "%" PRIu64 "\n", count);
    qemu_plugin_outs(line);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
                                                               const void *info, int argc,
                                                               char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
