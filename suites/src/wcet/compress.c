/* LZW compression with codes of 9 to 12 bits, a hash table of strings, and a fresh start
   when the ratio falls; what it packs is unpacked again and compared.
   compress [BYTES [SEED]]: of made text */
#include "kernel.h"

enum {
    MOST_BYTES = 400000, TABLE = 5003, FIRST_BITS = 9, MOST_BITS = 12, CLEAR = 256, FIRST = 257,
    CHECK_EVERY = 10000, NO_CODE = -1, GROUP = 8,
};

static u8 text[MOST_BYTES], packed[MOST_BYTES + MOST_BYTES / 2], unpacked[MOST_BYTES];
static int text_size, text_used, packed_size;

static int strings[TABLE];            /* prefix code << 8 | last byte, or NO_CODE */
static unsigned short codes[TABLE];
static int free_code, code_bits, code_limit, cleared, ratio, checkpoint;

/* Codes of one size are written in groups of eight: as many bytes as a code has bits. */
static u8 group[MOST_BITS];
static int group_bits;

static NOINLINE int getbyte(void)
{
    return text_used < text_size ? text[text_used++] : -1;
}

/* Bytes written, by kind; places looked at for one string, at most. */
static int empty_bytes, low_bytes, high_bytes, longest_search;

/* Writes the first `count` bytes of the group, counts their kinds, and forgets the group. */
static NOINLINE void writebytes(u8 *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        u32 byte = bytes[i];
        if (byte == 0)
            empty_bytes++;
        else if (byte < 128)
            low_bytes++;
        else
            high_bytes++;
        packed[packed_size++] = (u8)byte;
        bytes[i] = 0;
    }
}

/* Empties the table, sixteen places at a time. */
static NOINLINE void cl_hash(int places)
{
    int *at = strings + places;

    while (places >= 16) {
        at -= 16;
        places -= 16;
        at[0] = at[1] = at[2] = at[3] = NO_CODE;
        at[4] = at[5] = at[6] = at[7] = NO_CODE;
        at[8] = at[9] = at[10] = at[11] = NO_CODE;
        at[12] = at[13] = at[14] = at[15] = NO_CODE;
    }
    while (places-- > 0)
        *--at = NO_CODE;
}

/* Writes one code, most significant bits last; below 0: what is left. */
static NOINLINE void output(int code)
{
    if (code < 0) {
        writebytes(group, (group_bits + 7) / 8);
        group_bits = 0;
        return;
    }
    int place = group_bits >> 3, shift = group_bits & 7, left = code_bits;
    u32 bits = (u32)code;
    while (left > 0) {
        int room = 8 - shift;
        if (shift == 0)
            group[place] = (u8)bits;
        else
            group[place] |= (u8)(bits << shift);
        if (left < room) {
            left = 0;
        } else {
            place++;
            left -= room;
            bits >>= room;
        }
        shift = 0;
    }
    group_bits += code_bits;
    if (group_bits == code_bits * GROUP) {
        writebytes(group, code_bits);
        group_bits = 0;
    }
    if (free_code > code_limit || cleared) {
        if (group_bits > 0)
            writebytes(group, code_bits);
        group_bits = 0;
        if (cleared) {
            code_bits = FIRST_BITS;
            cleared = 0;
        } else {
            code_bits++;
        }
        code_limit = code_bits == MOST_BITS ? 1 << MOST_BITS : (1 << code_bits) - 1;
    }
}

/* With a full table: starts afresh if the ratio of input to output got worse. */
static NOINLINE void cl_block(void)
{
    int now;

    checkpoint = text_used + CHECK_EVERY;
    if (text_used > 0x7fffff)
        now = packed_size >> 8 == 0 ? 0x7fffffff : text_used / (packed_size >> 8);
    else
        now = (text_used << 8) / (packed_size == 0 ? 1 : packed_size);
    if (now > ratio) {
        ratio = now;
        return;
    }
    ratio = 0;
    cl_hash(TABLE);
    free_code = FIRST;
    cleared = 1;
    output(CLEAR);
}

static NOINLINE void compress(void)
{
    int shift = 0, next, prefix;

    for (int places = TABLE; places < 65536; places *= 2)
        shift++;
    shift = 8 - shift;
    packed_size = text_used = group_bits = cleared = ratio = 0;
    empty_bytes = low_bytes = high_bytes = longest_search = 0;
    checkpoint = CHECK_EVERY;
    code_bits = FIRST_BITS;
    code_limit = (1 << code_bits) - 1;
    free_code = FIRST;
    cl_hash(TABLE);
    if ((prefix = getbyte()) < 0)
        return;
    while ((next = getbyte()) >= 0) {
        int string = prefix << 8 | next, looked = 1;
        int place = (next << shift ^ prefix) % TABLE, step = place == 0 ? 1 : TABLE - place;
        while (strings[place] != string && strings[place] != NO_CODE) {
            if (place < step)
                place += TABLE - step;
            else
                place -= step;
            if (++looked > longest_search)
                longest_search = looked;
        }
        if (strings[place] == string) {
            prefix = codes[place];
            continue;
        }
        output(prefix);
        prefix = next;
        if (free_code < 1 << MOST_BITS) {
            codes[place] = (unsigned short)free_code++;
            strings[place] = string;
        } else if (text_used >= checkpoint) {
            cl_block();
        }
    }
    output(prefix);
    output(-1);
}

/* The decoder: what compress() wrote, read again. */
static int read_bits, read_free, read_group, read_at;

static int read_limit(void)
{
    return read_bits == MOST_BITS ? 1 << MOST_BITS : (1 << read_bits) - 1;
}

static NOINLINE int read_code(int fresh)
{
    if (fresh || read_free > read_limit()) {
        if (read_group > 0)
            read_at += read_bits;
        read_group = 0;
        read_bits = fresh ? FIRST_BITS : read_bits + 1;
    }
    int bit = read_group * read_bits, code = 0;
    if (read_at + (bit + read_bits + 7) / 8 > packed_size)
        return -1;
    for (int i = read_bits - 1; i >= 0; i--)
        code = code << 1 | (packed[read_at + ((bit + i) >> 3)] >> ((bit + i) & 7) & 1);
    if (++read_group == GROUP) {
        read_group = 0;
        read_at += read_bits;
    }
    return code;
}

static NOINLINE int decompress(void)
{
    static unsigned short prefixes[1 << MOST_BITS];
    static u8 lasts[1 << MOST_BITS], stack[1 << MOST_BITS];
    int made = 0, previous = -1, first = 0, fresh = 0, code;

    read_bits = FIRST_BITS;
    read_free = FIRST - 1;
    read_group = read_at = 0;
    while ((code = read_code(fresh)) >= 0) {
        fresh = code == CLEAR;
        if (fresh) {
            read_free = FIRST - 1;
            previous = -1;
            continue;
        }
        int depth = 0, at = code;
        if (at >= read_free && previous >= 0) {
            stack[depth++] = (u8)first;
            at = previous;
        }
        for (; at > 255; at = prefixes[at])
            stack[depth++] = lasts[at];
        first = at;
        if (made + depth >= MOST_BYTES)
            return -1;
        unpacked[made++] = (u8)first;
        while (depth > 0)
            unpacked[made++] = stack[--depth];
        if (read_free < 1 << MOST_BITS) {
            if (previous >= 0) {
                prefixes[read_free] = (unsigned short)previous;
                lasts[read_free] = (u8)first;
            }
            read_free++;
        }
        previous = code;
    }
    return made;
}

/* Words of one or more syllables, repeated by taste; the language changes now and then. */
static void make_text(int size)
{
    static const char syllables[] = "tanorekilumesadovipagetofiru";
    int dialect = 0, word = 0;

    text_size = size;
    for (int i = 0; i < size;) {
        if (noise() % 5000 == 0)
            dialect = (int)(noise() % 7);
        u32 rank = noise() % 64 * (noise() % 64) / 64;
        int length = 1 + (int)(rank % 3);
        for (int j = 0; j < length && i + 2 < size; j++) {
            int pair = (int)(rank * (u32)(j + 3) + (u32)dialect * 5) % 14 * 2;
            text[i++] = (u8)syllables[pair];
            text[i++] = (u8)syllables[pair + 1];
        }
        text[i++] = ++word % 11 == 0 ? '\n' : ' ';
    }
}

int main(int argc, char **argv)
{
    int size = option(argc, argv, 1, 20000);
    u32 sum = SUM_START;

    if (size < 1 || size > MOST_BYTES) {
        print("compress: 1 to %d bytes\n", MOST_BYTES);
        return 2;
    }
    seed_noise((u32)option(argc, argv, 2, 1));
    make_text(size);
    compress();
    for (int i = 0; i < packed_size; i++)
        sum = add_to_sum(sum, packed[i]);
    int same = decompress() == size && memcmp(text, unpacked, (size_t)size) == 0;
    print("%d bytes in %d, %s, sum %08x\n", size, packed_size, same ? "same" : "DIFFERENT", sum);
    print("%d empty, %d low, %d high; longest search %d\n", empty_bytes, low_bytes, high_bytes,
          longest_search);
    return !same;
}
