/* A plugin for qemu-user that counts the instructions that a SPARC program executes, exactly.

       cc -O2 -shared -fPIC tools/count_plugin.c -o count.so
       qemu-sparc64 -plugin ./count.so -d plugin -D LOG PROGRAM

   Every instruction adds one to a counter as it starts. When save, restore, return or flushw finds
   no register window to use, qemu traps to its spill or fill code and starts the instruction
   again, maybe several times; that is one instruction, counted more than once. An instruction that
   starts right after itself can be nothing else: a window instruction cannot jump to itself, and
   in a delay slot its branch comes between. So window instructions also look whether they are the
   ones that were counted last, and such repeats are subtracted.

   An instruction that faults and is not resumed is counted, although it did not complete.

   The few declarations of qemu's plugin interface (version 1) that are used are repeated here, so
   that qemu's sources are not needed to build it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
enum { NO_REGISTERS = 0 };
enum { ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *),
                                            int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int operation,
                                                void *counter, uint64_t step);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

EXPORT int qemu_plugin_version = 1;

static uint64_t started; /* instructions, repeats included */
static uint64_t repeats;
static uint64_t window_address; /* of the last window instruction */
static uint64_t window_started; /* `started` as it began */

static bool uses_windows(const unsigned char *bytes)
{
    uint32_t word = (uint32_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    unsigned operation = word >> 19 & 0x3f;

    return word >> 30 == 2 && (operation == 0x3c      /* save */
                               || operation == 0x3d   /* restore */
                               || operation == 0x39   /* return */
                               || operation == 0x2b); /* flushw */
}

static void window_instruction(unsigned cpu, void *data)
{
    uint64_t address = (uintptr_t)data;

    (void)cpu;
    if (address == window_address && started == window_started + 1)
        repeats++;
    window_address = address;
    window_started = started;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);

    (void)id;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        void *address = (void *)(uintptr_t)qemu_plugin_insn_vaddr(instruction);

        qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD_U64, &started, 1);
        if (uses_windows(qemu_plugin_insn_data(instruction)))
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, window_instruction, NO_REGISTERS,
                                                   address);
    }
}

static void finished(qemu_plugin_id_t id, void *data)
{
    char line[80];

    (void)id;
    (void)data;
    snprintf(line, sizeof line, "instructions %" PRIu64 " repeats %" PRIu64 "\n",
             started - repeats, repeats);
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
