/* Accurate integer forward discrete cosine transform of 8 x 8 blocks, eight times the
   orthonormal one (Loeffler, Ligtenberg and Moschytz; constants with 13 bits of fraction).
   jfdctint [BLOCKS [SEED]]; jfdctint 0 prints one block and its transform. */
#include "kernel.h"

enum { SIDE = 8, FRACTION = 13, KEPT = 2 };

/* Rotations: sums and differences of cosines, times 2^13. */
enum {
    C_0_298 = 2446, C_0_390 = 3196, C_0_541 = 4433, C_0_765 = 6270, C_0_899 = 7373,
    C_1_175 = 9633, C_1_501 = 12299, C_1_847 = 15137, C_1_961 = 16069, C_2_053 = 16819,
    C_2_562 = 20995, C_3_072 = 25172,
};

static int block[SIDE * SIDE];

static inline int rounded(int value, int bits)
{
    return (value + (1 << (bits - 1))) >> bits;
}

/* One line of eight values, `step` apart. `even` shifts what is exact, `odd` what was multiplied;
   the first pass keeps two more bits, the second takes them out again. */
static inline void transform_line(int *line, int step, int second)
{
    int a0 = line[0] + line[7 * step], b0 = line[0] - line[7 * step];
    int a1 = line[step] + line[6 * step], b1 = line[step] - line[6 * step];
    int a2 = line[2 * step] + line[5 * step], b2 = line[2 * step] - line[5 * step];
    int a3 = line[3 * step] + line[4 * step], b3 = line[3 * step] - line[4 * step];
    int bits = second ? FRACTION + KEPT : FRACTION - KEPT;

    int p = a0 + a3, q = a0 - a3, r = a1 + a2, s = a1 - a2;
    int rotated = (q + s) * C_0_541;
    line[0] = second ? rounded(p + r, KEPT) : (p + r) * (1 << KEPT);
    line[4 * step] = second ? rounded(p - r, KEPT) : (p - r) * (1 << KEPT);
    line[2 * step] = rounded(rotated + q * C_0_765, bits);
    line[6 * step] = rounded(rotated - s * C_1_847, bits);

    int all = (b3 + b1 + b2 + b0) * C_1_175;
    int ends = (b3 + b0) * -C_0_899, middles = (b2 + b1) * -C_2_562;
    int left = (b3 + b1) * -C_1_961 + all, right = (b2 + b0) * -C_0_390 + all;
    line[7 * step] = rounded(b3 * C_0_298 + ends + left, bits);
    line[5 * step] = rounded(b2 * C_2_053 + middles + right, bits);
    line[3 * step] = rounded(b1 * C_3_072 + middles + left, bits);
    line[step] = rounded(b0 * C_1_501 + ends + right, bits);
}

static NOINLINE void jpeg_fdct_islow(int *data)
{
    for (int row = 0; row < SIDE; row++)
        transform_line(data + row * SIDE, 1, 0);
    for (int column = 0; column < SIDE; column++)
        transform_line(data + column, SIDE, 1);
}

static void make_block(void)
{
    int centre = (int)(noise() % 64), height = (int)(noise() % 200) - 100;

    for (int i = 0; i < SIDE * SIDE; i++) {
        int across = i % SIDE - centre % SIDE, down = i / SIDE - centre / SIDE;
        int value = height - (across * across + down * down) * 3 + (int)(noise() % 5);
        block[i] = value > 127 ? 127 : value < -128 ? -128 : value;
    }
}

static void print_block(void)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        print("%d%c", block[i], i % SIDE == SIDE - 1 ? '\n' : ' ');
}

int main(int argc, char **argv)
{
    int blocks = option(argc, argv, 1, 50);
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    if (blocks == 0) {
        make_block();
        print_block();
        jpeg_fdct_islow(block);
        print_block();
        return 0;
    }
    for (int i = 0; i < blocks; i++) {
        make_block();
        jpeg_fdct_islow(block);
        for (int j = 0; j < SIDE * SIDE; j++)
            sum = add_to_sum(sum, (u32)block[j]);
    }
    print("%d blocks, last mean %d, sum %08x\n", blocks, block[0], sum);
    return 0;
}
