/* Fast forward discrete cosine transform of 8 x 8 blocks: five multiplications a line; the
   coefficients come out multiplied by the algorithm's scale factors (Arai, Agui and Nakajima).
   fdct [BLOCKS [SEED]]; fdct 0 prints one block and its transform. */
#include "kernel.h"

enum { SIDE = 8, SHIFT = 8 };

static short block[SIDE * SIDE];

static inline int times(int value, int constant)
{
    return (value * constant) >> SHIFT;
}

/* One line of eight values, `step` apart. */
static inline void transform_line(short *line, int step)
{
    int sum0 = line[0] + line[7 * step], difference0 = line[0] - line[7 * step];
    int sum1 = line[step] + line[6 * step], difference1 = line[step] - line[6 * step];
    int sum2 = line[2 * step] + line[5 * step], difference2 = line[2 * step] - line[5 * step];
    int sum3 = line[3 * step] + line[4 * step], difference3 = line[3 * step] - line[4 * step];

    int outer = sum0 + sum3, outer_odd = sum0 - sum3;
    int inner = sum1 + sum2, inner_odd = sum1 - sum2;
    int turned = times(inner_odd + outer_odd, 181);
    line[0] = (short)(outer + inner);
    line[4 * step] = (short)(outer - inner);
    line[2 * step] = (short)(outer_odd + turned);
    line[6 * step] = (short)(outer_odd - turned);

    int low = difference3 + difference2, middle = difference2 + difference1;
    int high = difference1 + difference0;
    int common = times(low - high, 98);
    int first = times(low, 139) + common, third = times(high, 334) + common;
    int second = times(middle, 181);
    int near = difference0 + second, far = difference0 - second;
    line[5 * step] = (short)(far + first);
    line[3 * step] = (short)(far - first);
    line[step] = (short)(near + third);
    line[7 * step] = (short)(near - third);
}

static NOINLINE void fdct(short *data)
{
    for (int row = 0; row < SIDE; row++)
        transform_line(data + row * SIDE, 1);
    for (int column = 0; column < SIDE; column++)
        transform_line(data + column, SIDE);
}

static void make_block(void)
{
    int level = (int)(noise() % 200) - 100, across = (int)(noise() % 15) - 7;
    int down = (int)(noise() % 15) - 7;

    for (int i = 0; i < SIDE * SIDE; i++) {
        int value = level + across * (i % SIDE) + down * (i / SIDE) + (int)(noise() % 9);
        block[i] = (short)(value > 127 ? 127 : value < -128 ? -128 : value);
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
        fdct(block);
        print_block();
        return 0;
    }
    for (int i = 0; i < blocks; i++) {
        make_block();
        fdct(block);
        for (int j = 0; j < SIDE * SIDE; j++)
            sum = add_to_sum(sum, (u32)block[j]);
    }
    print("%d blocks, last mean %d, sum %08x\n", blocks, block[0], sum);
    return 0;
}
