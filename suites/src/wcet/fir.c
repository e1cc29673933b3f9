/* A finite impulse response filter in integers, over made signals of several lengths.
   fir [SIGNALS [SEED]] */
#include "kernel.h"

enum { TAPS = 35, LONGEST = 700 };

static const int taps[TAPS] = {
    -2, -3, -3, 0, 6, 12, 14, 8, -8, -29, -46, -45, -14, 51, 139, 231, 300, 326,
    300, 231, 139, 51, -14, -45, -46, -29, -8, 8, 14, 12, 6, 0, -3, -3, -2,
};
static int signal[LONGEST], filtered[LONGEST];

/* The signal is 0 before its start and behind its end; the delay of the filter is taken out. */
static NOINLINE void fir_filter(const int *in, int *out, int length, const int *tap, int count,
                                int scale)
{
    for (int i = 0; i < length; i++) {
        int last = i + count / 2, total = 0;
        int from = last < length ? 0 : last - length + 1;
        int to = last < count ? last : count - 1;

        for (int j = from; j <= to; j++)
            total += in[last - j] * tap[j];
        out[i] = total / scale;
    }
}

static void make_signal(int length)
{
    int level = 0, slope = 3;

    for (int i = 0; i < length; i++) {
        level += slope;
        if (level > 900 || level < -900 || noise() % 40 == 0)
            slope = -slope;
        signal[i] = level + (int)(noise() % 201) - 100;
    }
}

int main(int argc, char **argv)
{
    int signals = option(argc, argv, 1, 5);
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    for (int i = 0; i < signals; i++) {
        int length = 100 + (int)(noise() % (LONGEST - 100));
        make_signal(length);
        fir_filter(signal, filtered, length, taps, TAPS, 1500);
        for (int j = 0; j < length; j++)
            sum = add_to_sum(sum, (u32)filtered[j]);
    }
    print("%d signals, last value %d, sum %08x\n", signals, filtered[50], sum);
    return 0;
}
