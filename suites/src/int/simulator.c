/* A simulator of a small RISC machine: an assembler, a decoder, a pipeline with a scoreboard,
   caches, a branch predictor, breakpoints, system calls, and statistics.
   simulator [ROUNDS [SEED]]: the assembled program below, ROUNDS times */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REGISTERS = 32, MEMORY = 1 << 18, MOST_WORDS = 1024, MOST_LABELS = 64, LINES = 64,
    LINE_BITS = 5, PREDICTORS = 256, MOST_BREAKPOINTS = 8,
};

enum Opcode {
    ADD, SUB, MUL, DIV, REM, AND, OR, XOR, SHL, SHR, SAR, SLT, SLTU,
    ADDI, ANDI, ORI, XORI, SHLI, SHRI, SLTI, LUI,
    LDW, LDB, LDH, STW, STB, STH, BEQ, BNE, BLT, BGE, JAL, JALR, SYS, OPCODES,
};

enum Shape { THREE, IMMEDIATE, UPPER, LOAD, STORE, BRANCH, JUMP, INDIRECT, TRAP };

struct Description {
    const char *name;
    enum Shape shape;
    int latency;
};

static const struct Description table[OPCODES] = {
    {"add", THREE, 1}, {"sub", THREE, 1}, {"mul", THREE, 4}, {"div", THREE, 20}, {"rem", THREE, 20},
    {"and", THREE, 1}, {"or", THREE, 1}, {"xor", THREE, 1}, {"shl", THREE, 1}, {"shr", THREE, 1},
    {"sar", THREE, 1}, {"slt", THREE, 1}, {"sltu", THREE, 1}, {"addi", IMMEDIATE, 1},
    {"andi", IMMEDIATE, 1}, {"ori", IMMEDIATE, 1}, {"xori", IMMEDIATE, 1}, {"shli", IMMEDIATE, 1},
    {"shri", IMMEDIATE, 1}, {"slti", IMMEDIATE, 1}, {"lui", UPPER, 1}, {"ldw", LOAD, 2},
    {"ldb", LOAD, 2}, {"ldh", LOAD, 2}, {"stw", STORE, 1}, {"stb", STORE, 1}, {"sth", STORE, 1},
    {"beq", BRANCH, 1}, {"bne", BRANCH, 1}, {"blt", BRANCH, 1}, {"bge", BRANCH, 1},
    {"jal", JUMP, 1}, {"jalr", INDIRECT, 1}, {"sys", TRAP, 1},
};

/* Sorts made numbers, sieves, multiplies matrices, hashes text, and computes a Collatz chain.
   r1: the round; r2: the seed; r29: the sum; r30: the stack; r31: the return address. */
static const char *const source[] = {
    "start:  addi r30 r0 32000", "        shli r30 r30 2",
    "        addi r29 r0 0",
    "        jal r31 fill", "        jal r31 sort", "        jal r31 sieve",
    "        jal r31 matrix", "        jal r31 hash", "        jal r31 collatz",
    "        addi r4 r29 0", "        sys 1", "        sys 0",
    /* fill: 300 words at 0x8000 from the seed */
    "fill:   addi r5 r0 300", "        lui r6 0", "        ori r6 r6 32767", "        addi r6 r6 1",
    "        lui r8 25", "        ori r8 r8 26125",
    "fill1:  mul r2 r2 r8", "        addi r2 r2 1013", "        shri r7 r2 12",
    "        stw r7 r6 0", "        addi r6 r6 4", "        addi r5 r5 -1",
    "        bne r5 r0 fill1", "        jalr r0 r31 0",
    /* sort: by shells, gaps halved */
    "sort:   addi r5 r0 128",
    "sort1:  addi r6 r5 0",
    "sort2:  slti r7 r6 300", "        beq r7 r0 sort6",
    "        shli r8 r6 2", "        lui r10 0", "        ori r10 r10 32767", "        addi r10 r10 1",
    "        add r8 r8 r10", "        ldw r9 r8 0", "        addi r11 r6 0",
    "sort3:  blt r11 r5 sort5",
    "        sub r12 r11 r5", "        shli r12 r12 2", "        add r12 r12 r10",
    "        ldw r13 r12 0", "        sltu r14 r9 r13", "        beq r14 r0 sort5",
    "        shli r14 r11 2", "        add r14 r14 r10", "        stw r13 r14 0",
    "        sub r11 r11 r5", "        jal r0 sort3",
    "sort5:  shli r14 r11 2", "        add r14 r14 r10", "        stw r9 r14 0",
    "        addi r6 r6 1", "        jal r0 sort2",
    "sort6:  shri r5 r5 1", "        bne r5 r0 sort1",
    "        ldw r7 r10 400", "        xor r29 r29 r7", "        jalr r0 r31 0",
    /* sieve: bytes at 0x10000 */
    "sieve:  lui r5 1", "        addi r6 r0 2000", "        add r7 r5 r6",
    "siev1:  stb r0 r5 0", "        addi r5 r5 1", "        bne r5 r7 siev1",
    "        lui r5 1", "        addi r8 r0 2", "        addi r12 r0 0",
    "siev2:  add r9 r5 r8", "        ldb r10 r9 0", "        bne r10 r0 siev4",
    "        addi r12 r12 1", "        add r9 r8 r8", "        addi r13 r0 1",
    "siev3:  bge r9 r6 siev4", "        add r11 r5 r9", "        stb r13 r11 0",
    "        add r9 r9 r8", "        jal r0 siev3",
    "siev4:  addi r8 r8 1", "        blt r8 r6 siev2",
    "        add r29 r29 r12", "        jalr r0 r31 0",
    /* matrix: 10 x 10 words at 0x8000, squared and summed */
    "matrix: addi r5 r0 0", "        lui r20 0", "        ori r20 r20 32767", "        addi r20 r20 1",
    "        addi r21 r0 10",
    "matr1:  addi r6 r0 0",
    "matr2:  addi r7 r0 0", "        addi r8 r0 0",
    "matr3:  mul r9 r5 r21", "        add r9 r9 r7", "        shli r9 r9 2", "        add r9 r9 r20",
    "        ldh r10 r9 2", "        mul r11 r7 r21", "        add r11 r11 r6",
    "        shli r11 r11 2", "        add r11 r11 r20", "        ldh r12 r11 2",
    "        mul r13 r10 r12", "        add r8 r8 r13", "        addi r7 r7 1",
    "        bne r7 r21 matr3",
    "        xor r29 r29 r8", "        addi r6 r6 1", "        bne r6 r21 matr2",
    "        addi r5 r5 1", "        bne r5 r21 matr1", "        jalr r0 r31 0",
    /* hash: the bytes of the program itself */
    "hash:   addi r5 r0 0", "        addi r6 r0 480", "        addi r7 r0 1",
    "hash1:  ldb r8 r5 0", "        andi r9 r8 1", "        beq r9 r0 hash2",
    "        shli r10 r7 5", "        sub r7 r10 r7",
    "hash2:  add r7 r7 r8", "        sar r10 r7 r9", "        xor r7 r7 r10",
    "        addi r5 r5 1", "        bne r5 r6 hash1",
    "        add r29 r29 r7", "        jalr r0 r31 0",
    /* collatz: by recursion, from 27 + the round */
    "collatz: addi r5 r1 27", "        andi r5 r5 1023", "        ori r5 r5 1",
    "        addi r6 r0 0", "        addi r28 r31 0", "        jal r31 coll1",
    "        add r29 r29 r6", "        sys 2", "        jalr r0 r28 0",
    "coll1:  addi r30 r30 -8", "        stw r31 r30 0", "        addi r7 r0 1",
    "        beq r5 r7 coll3", "        addi r6 r6 1", "        andi r8 r5 1",
    "        beq r8 r0 coll2",
    "        addi r9 r0 3", "        mul r5 r5 r9", "        addi r5 r5 1",
    "        jal r31 coll1", "        jal r0 coll3",
    "coll2:  addi r9 r0 2", "        div r5 r5 r9", "        jal r31 coll1",
    "coll3:  ldw r31 r30 0", "        addi r30 r30 8", "        jalr r0 r31 0",
};

/* The assembler. Words: opcode (6 bits), three registers (5 each) or two and 16 bits. */

struct Label {
    char name[12];
    int address;
};

static uint32_t words[MOST_WORDS];
static struct Label labels[MOST_LABELS];
static int word_count, label_count;

static void fail(const char *what, const char *text)
{
    printf("simulator: %s: %s\n", what, text);
    exit(3);
}

static int find_label(const char *name)
{
    for (int i = 0; i < label_count; i++)
        if (strcmp(labels[i].name, name) == 0)
            return labels[i].address;
    fail("no such label", name);
    return 0;
}

/* Splits a line at blanks; returns how many fields there are. */
static int split(const char *line, char fields[5][12])
{
    int count = 0;

    while (*line != 0 && count < 5) {
        while (*line == ' ')
            line++;
        int length = 0;
        while (*line != 0 && *line != ' ') {
            if (length < 11)
                fields[count][length++] = *line;
            line++;
        }
        fields[count][length] = 0;
        if (length > 0)
            count++;
    }
    return count;
}

static uint32_t register_number(const char *text)
{
    int number = text[0] == 'r' ? atoi(text + 1) : -1;

    if (number < 0 || number >= REGISTERS)
        fail("not a register", text);
    return (uint32_t)number;
}

static uint32_t low_half(const char *text)
{
    return (uint32_t)atoi(text) & 0xffff;
}

static uint32_t encode(int opcode, char fields[5][12], int address)
{
    uint32_t word = (uint32_t)opcode << 26;

    switch (table[opcode].shape) {
    case THREE:
        return word | register_number(fields[1]) << 21 | register_number(fields[2]) << 16
             | register_number(fields[3]) << 11;
    case IMMEDIATE: case LOAD: case STORE: case INDIRECT:
        return word | register_number(fields[1]) << 21 | register_number(fields[2]) << 16
             | low_half(fields[3]);
    case UPPER:
        return word | register_number(fields[1]) << 21 | low_half(fields[2]);
    case BRANCH:
        return word | register_number(fields[1]) << 21 | register_number(fields[2]) << 16
             | ((uint32_t)(find_label(fields[3]) - address) >> 2 & 0xffff);
    case JUMP:
        return word | register_number(fields[1]) << 21
             | ((uint32_t)(find_label(fields[2]) - address) >> 2 & 0xffff);
    case TRAP:
        return word | low_half(fields[1]);
    }
    return 0;
}

static void assemble(void)
{
    char fields[5][12];
    int lines = (int)(sizeof source / sizeof *source);

    for (int pass = 0; pass < 2; pass++) {
        word_count = 0;
        for (int i = 0; i < lines; i++) {
            const char *line = source[i], *colon = strchr(line, ':');
            if (colon != NULL && pass == 0) {
                struct Label *label = &labels[label_count++];
                memcpy(label->name, line, (size_t)(colon - line));
                label->name[colon - line] = 0;
                label->address = word_count * 4;
            }
            split(colon == NULL ? line : colon + 1, fields);
            int opcode = 0;
            while (opcode < OPCODES && strcmp(table[opcode].name, fields[0]) != 0)
                opcode++;
            if (opcode == OPCODES)
                fail("no such instruction", line);
            if (pass == 1)
                words[word_count] = encode(opcode, fields, word_count * 4);
            word_count++;
        }
    }
}

/* The machine. */

struct Cache {
    uint32_t tags[LINES];
    unsigned char valid[LINES], dirty[LINES];
    long hits, misses, written;
};

struct Breakpoint {
    uint32_t address;
    long hits;
    int every;
};

static unsigned char memory[MEMORY];
static uint32_t registers[REGISTERS], pc;
static long ready_at[REGISTERS], cycle, executed, stalls, mispredicted, unaligned, opened;
static long by_opcode[OPCODES];
static struct Cache code_cache, data_cache;
static unsigned char predictors[PREDICTORS];
static struct Breakpoint breakpoints[MOST_BREAKPOINTS];
static int breakpoint_count, stopped;
static const char *trouble;

static int look_up(struct Cache *cache, uint32_t address, int writes)
{
    uint32_t block = address >> LINE_BITS, line = block % LINES;

    if (cache->valid[line] && cache->tags[line] == block) {
        cache->hits++;
        if (writes)
            cache->dirty[line] = 1;
        return 0;
    }
    cache->misses++;
    int cost = 10;
    if (cache->valid[line] && cache->dirty[line]) {
        cache->written++;
        cost += 6;
    }
    cache->tags[line] = block;
    cache->valid[line] = 1;
    cache->dirty[line] = (unsigned char)writes;
    return cost;
}

static int check_address(uint32_t address, uint32_t size)
{
    if (address & (size - 1)) {
        unaligned++;
        trouble = "unaligned";
        return 0;
    }
    if (address > MEMORY - size) {
        trouble = "no such memory";
        return 0;
    }
    return 1;
}

static uint32_t load(uint32_t address, uint32_t size)
{
    uint32_t value = 0;

    if (!check_address(address, size))
        return 0;
    cycle += look_up(&data_cache, address, 0);
    for (uint32_t i = 0; i < size; i++)
        value = value << 8 | memory[address + i];
    return value;
}

static void store(uint32_t address, uint32_t size, uint32_t value)
{
    if (!check_address(address, size))
        return;
    cycle += look_up(&data_cache, address, 1);
    for (uint32_t i = size; i-- > 0; value >>= 8)
        memory[address + i] = (unsigned char)value;
}

/* Two-bit counters: updates the one of `address`, and pays for a wrong guess. */
static void predict(uint32_t address, int taken)
{
    unsigned char *counter = &predictors[address >> 2 & (PREDICTORS - 1)];

    if ((*counter >= 2) != taken) {
        mispredicted++;
        cycle += 3;
    }
    if (taken && *counter < 3)
        ++*counter;
    else if (!taken && *counter > 0)
        --*counter;
}

static void system_call(uint32_t number)
{
    switch (number) {
    case 0:
        stopped = 1;
        break;
    case 1:
        registers[4] &= 0xffffff;
        break;
    case 2:
        opened++;
        break;
    default:
        trouble = "no such system call";
    }
}

/* Waits until the registers that the instruction reads are there. */
static void wait_for(uint32_t a, uint32_t b)
{
    long when = ready_at[a] > ready_at[b] ? ready_at[a] : ready_at[b];

    if (when > cycle) {
        stalls += when - cycle;
        cycle = when;
    }
}

static uint32_t compute(int opcode, uint32_t a, uint32_t b)
{
    switch (opcode) {
    case ADD: case ADDI: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return b == 0 ? ~0u : a / b;
    case REM: return b == 0 ? a : a % b;
    case AND: case ANDI: return a & b;
    case OR: case ORI: return a | b;
    case XOR: case XORI: return a ^ b;
    case SHL: case SHLI: return a << (b & 31);
    case SHR: case SHRI: return a >> (b & 31);
    case SAR: return a >> (b & 31) | (a >> 31 && (b & 31) ? ~0u << (32 - (b & 31)) : 0);
    case SLT: case SLTI: return (int32_t)a < (int32_t)b;
    case SLTU: return a < b;
    }
    trouble = "no such operation";
    return 0;
}

static int compare(int opcode, uint32_t a, uint32_t b)
{
    switch (opcode) {
    case BEQ: return a == b;
    case BNE: return a != b;
    case BLT: return (int32_t)a < (int32_t)b;
    default: return (int32_t)a >= (int32_t)b;
    }
}

static int check_breakpoints(void)
{
    for (int i = 0; i < breakpoint_count; i++) {
        if (breakpoints[i].address == pc) {
            breakpoints[i].hits++;
            return breakpoints[i].hits % breakpoints[i].every == 0;
        }
    }
    return 0;
}

static void set_register(uint32_t number, uint32_t value, int latency)
{
    if (number == 0)
        return;
    registers[number] = value;
    ready_at[number] = cycle + latency;
}

static void step(void)
{
    cycle += 1 + look_up(&code_cache, pc, 0);
    if (pc & 3 || pc >= (uint32_t)word_count * 4) {
        trouble = "execution outside of the program";
        return;
    }
    uint32_t word = words[pc >> 2], next = pc + 4;
    int opcode = (int)(word >> 26);
    uint32_t d = word >> 21 & 31, s = word >> 16 & 31, t = word >> 11 & 31;
    uint32_t immediate = (uint32_t)(int32_t)(int16_t)(word & 0xffff);
    int latency = table[opcode].latency;

    executed++;
    by_opcode[opcode]++;
    switch (table[opcode].shape) {
    case THREE:
        wait_for(s, t);
        set_register(d, compute(opcode, registers[s], registers[t]), latency);
        break;
    case IMMEDIATE:
        wait_for(s, 0);
        set_register(d, compute(opcode, registers[s], immediate), latency);
        break;
    case UPPER:
        set_register(d, immediate << 16, latency);
        break;
    case LOAD:
        wait_for(s, 0);
        set_register(d, load(registers[s] + immediate, opcode == LDW ? 4 : opcode == LDH ? 2 : 1), latency);
        break;
    case STORE:
        wait_for(s, d);
        store(registers[s] + immediate, opcode == STW ? 4 : opcode == STH ? 2 : 1, registers[d]);
        break;
    case BRANCH: {
        wait_for(d, s);
        int taken = compare(opcode, registers[d], registers[s]);
        predict(pc, taken);
        if (taken)
            next = pc + (immediate << 2);
        break;
    }
    case JUMP:
        set_register(d, next, latency);
        next = pc + (immediate << 2);
        break;
    case INDIRECT:
        wait_for(s, 0);
        next = registers[s] + immediate;
        set_register(d, pc + 4, latency);
        cycle += 2;
        break;
    case TRAP:
        system_call(word & 0xffff);
        break;
    }
    pc = next;
}

static void load_program(void)
{
    for (int i = 0; i < word_count; i++)
        for (int j = 0; j < 4; j++)
            memory[4 * i + j] = (unsigned char)(words[i] >> (24 - 8 * j));
}

static uint32_t run_round(int round, uint32_t seed)
{
    memset(registers, 0, sizeof registers);
    memset(ready_at, 0, sizeof ready_at);
    registers[1] = (uint32_t)round;
    registers[2] = seed + (uint32_t)round * 977;
    pc = (uint32_t)find_label("start");
    stopped = 0;
    while (!stopped && trouble == NULL) {
        if (breakpoint_count > 0 && check_breakpoints())
            cycle += 5;
        step();
    }
    return registers[4];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    uint32_t seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1, sum = 0;

    assemble();
    load_program();
    breakpoints[breakpoint_count++] = (struct Breakpoint){(uint32_t)find_label("sort5"), 0, 100};
    breakpoints[breakpoint_count++] = (struct Breakpoint){(uint32_t)find_label("coll2"), 0, 10};
    for (int i = 0; i < rounds && trouble == NULL; i++)
        sum = sum * 31 + run_round(i, seed);
    printf("%d rounds, sum %08x, %ld instructions, %ld cycles\n", rounds, sum, executed, cycle);
    printf("stalls %ld, mispredicted %ld, unaligned %ld, calls %ld\n", stalls, mispredicted, unaligned,
           opened);
    printf("code cache %ld misses, data cache %ld misses, %ld written back\n", code_cache.misses,
           data_cache.misses, data_cache.written);
    printf("breakpoints %ld %ld; add %ld, mul %ld, branches %ld\n", breakpoints[0].hits,
           breakpoints[1].hits, by_opcode[ADD], by_opcode[MUL],
           by_opcode[BEQ] + by_opcode[BNE] + by_opcode[BLT] + by_opcode[BGE]);
    if (trouble != NULL)
        printf("stopped at %x: %s\n", pc, trouble);
    return trouble != NULL;
}
