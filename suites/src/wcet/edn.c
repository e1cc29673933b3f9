/* Routines of a signal processor's daily work on vectors of 16-bit numbers: scaled addition,
   dot product, three filters, a lattice, a codebook search, and a cosine transform.
   edn [ROUNDS [SEED]] */
#include "kernel.h"

enum { LENGTH_IN = 200, FILTER = 50, OUTPUTS = LENGTH_IN - FILTER, SECTIONS = 50, WORDS = 16 };

static short input[LENGTH_IN], taps[FILTER], state[SECTIONS];
static int output[OUTPUTS];

static NOINLINE void vec_mpy(short *to, const short *from, int scale)
{
    for (int i = 0; i < LENGTH_IN - FILTER; i++)
        to[i] = (short)(to[i] + ((scale * from[i]) >> 15));
}

/* Dot product of a and b; *energy grows by the dot product of b with itself. */
static NOINLINE int mac(const short *a, const short *b, int length, int *energy)
{
    int dot = 0, square = *energy;

    for (int i = 0; i < length; i++) {
        dot += a[i] * b[i];
        square += b[i] * b[i];
    }
    *energy = square;
    return dot;
}

static NOINLINE void fir(const short *in, const short *tap, int *out)
{
    for (int i = 0; i < OUTPUTS; i++) {
        int total = 0;
        for (int j = 0; j < FILTER; j++)
            total += in[i + j] * tap[j];
        out[i] = total >> 15;
    }
}

/* The same filter, two outputs at a time: each input is loaded once for both. */
static NOINLINE void fir_no_red_ld(const short *in, const short *tap, int *out)
{
    for (int i = 0; i < OUTPUTS; i += 2) {
        int even = 0, odd = 0, value = in[i];
        for (int j = 0; j < FILTER; j += 2) {
            int next = in[i + j + 1];
            even += value * tap[j];
            odd += next * tap[j];
            value = in[i + j + 2];
            even += next * tap[j + 1];
            odd += value * tap[j + 1];
        }
        out[i] = even >> 15;
        out[i + 1] = odd >> 15;
    }
}

/* Lattice synthesis filter: reflection coefficients k, backward state b, one input sample. */
static NOINLINE int latsynth(short *b, const short *k, int sections, int sample)
{
    int forward = sample - ((b[sections - 1] * k[sections - 1]) >> 2);

    for (int i = sections - 2; i >= 0; i--) {
        forward -= (b[i] * k[i]) >> 2;
        b[i + 1] = (short)(b[i] + ((k[i] * (forward >> 16)) >> 2));
    }
    b[0] = (short)(forward >> 16);
    return forward;
}

/* Second-order sections in cascade: four coefficients and two states each. */
static NOINLINE int iir1(const short *coefficients, int sample, short *states, int sections)
{
    for (int i = 0; i < sections; i++) {
        const short *c = coefficients + 4 * i;
        int inner = sample + ((c[2] * states[0] + c[3] * states[1]) >> 15);
        sample = inner + ((c[0] * states[0] + c[1] * states[1]) >> 15);
        states[1] = states[0];
        states[0] = (short)inner;
        states += 2;
    }
    return sample;
}

/* Binary search over `mask`: each bit of the code word adds or takes away an amplitude. */
static NOINLINE int codebook(int mask, int bits, int target, const short *amplitude)
{
    int code = 0, value = 0;

    for (int bit = 0; bit < bits; bit++) {
        int step = amplitude[bit];
        if (!(mask >> bit & 1))
            continue;
        if (value < target) {
            value += step;
            code |= 1 << bit;
        } else if (value > target) {
            value -= step;
        } else {
            break;
        }
    }
    return code ^ value;
}

/* Rows, then columns, of eight lines in place, by matrix of cosines (14 bits of fraction). */
static NOINLINE void jpegdct(short *block)
{
    static const short cosine[4][8] = {
        {16069, 13623, 9102, 3196, -3196, -9102, -13623, -16069},
        {15137, 6270, -6270, -15137, -15137, -6270, 6270, 15137},
        {13623, -3196, -16069, -9102, 9102, 16069, 3196, -13623},
        {11585, -11585, -11585, 11585, 11585, -11585, -11585, 11585},
    };

    for (int pass = 0, step = 1, line = 8; pass < 2; pass++, step = 8, line = 1) {
        for (int i = 0; i < 8; i++) {
            short *at = block + i * line;
            int found[5] = {0, 0, 0, 0, 0};
            for (int j = 0; j < 8; j++) {
                int value = at[j * step];
                found[0] += value;
                for (int k = 0; k < 4; k++)
                    found[k + 1] += value * cosine[k][j] >> 5;
            }
            at[0] = (short)(found[0] >> 1);
            for (int k = 1; k < 5; k++)
                at[k * step] = (short)(found[k] >> 10);
        }
    }
}

static void make_vectors(void)
{
    for (int i = 0; i < LENGTH_IN; i++)
        input[i] = (short)(noise() % 4001 - 2000);
    for (int i = 0; i < FILTER; i++)
        taps[i] = (short)(noise() % 2001 - 1000);
    for (int i = 0; i < SECTIONS; i++)
        state[i] = (short)(noise() % 401 - 200);
}

static u32 one_round(u32 sum, int *wrong)
{
    static int again[OUTPUTS];
    int energy = 1;

    make_vectors();
    vec_mpy(input, input + FILTER, 9000);
    sum = add_to_sum(sum, (u32)mac(input, input + 20, 150, &energy));
    sum = add_to_sum(sum, (u32)energy);
    fir(input, taps, output);
    fir_no_red_ld(input, taps, again);
    for (int i = 0; i < OUTPUTS; i++) {
        *wrong += output[i] != again[i];
        sum = add_to_sum(sum, (u32)output[i]);
    }
    sum = add_to_sum(sum, (u32)latsynth(state, taps, SECTIONS, output[3] * 256));
    for (int i = 0; i < 20; i++)
        sum = add_to_sum(sum, (u32)iir1(taps, input[i], state, SECTIONS / 4));
    for (int i = 0; i < 20; i++)
        sum = add_to_sum(sum, (u32)codebook(0xfdff, WORDS, output[i], taps));
    jpegdct(input);
    for (int i = 0; i < 64; i++)
        sum = add_to_sum(sum, (u32)input[i]);
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = option(argc, argv, 1, 5), wrong = 0;
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    for (int i = 0; i < rounds; i++)
        sum = one_round(sum, &wrong);
    print("%d rounds, %d wrong, sum %08x\n", rounds, wrong, sum);
    return wrong != 0;
}
