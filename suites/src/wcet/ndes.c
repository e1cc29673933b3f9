/* The Data Encryption Standard bit by bit, as its definition reads: many small loops over bits.
   ndes [BLOCKS [SEED]] encrypts and decrypts made blocks under made keys. */
#include "kernel.h"

enum { ROUNDS = 16, BOXES = 8 };

typedef struct { u32 left, right; } Block;           /* bits 1-32 and 33-64; 1 is the highest */
typedef struct { u32 high, middle, low; } Subkey;    /* 48 bits, 16 a word */

static const u8 initial_order[64] = {
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4,
    62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
    57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3,
    61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
};
static const u8 final_order[64] = {
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31,
    38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21, 61, 29,
    36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27,
    34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
};
static const u8 key_order[56] = {
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3,
    60, 52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37,
    29, 21, 13, 5, 28, 20, 12, 4,
};
static const u8 subkey_order[48] = {
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
};
static const u8 round_order[32] = {
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
};
static const u8 box[BOXES][4][16] = {
    {{14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7},
     {0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8},
     {4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0},
     {15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13}},
    {{15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10},
     {3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5},
     {0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15},
     {13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9}},
    {{10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8},
     {13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1},
     {13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7},
     {1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12}},
    {{7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15},
     {13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9},
     {10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4},
     {3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14}},
    {{2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9},
     {14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6},
     {4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14},
     {11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3}},
    {{12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11},
     {10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8},
     {9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6},
     {4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13}},
    {{4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1},
     {13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6},
     {1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2},
     {6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12}},
    {{13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7},
     {1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2},
     {7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8},
     {2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11}},
};

static Subkey subkeys[ROUNDS];

/* Bit `place` (1 to 64) of a block. */
static NOINLINE u32 getbit(const Block *block, int place)
{
    if (place <= 32)
        return block->left >> (32 - place) & 1;
    return block->right >> (64 - place) & 1;
}

static u32 turned(u32 half)
{
    return (half << 1 | half >> 27) & 0xfffffff;
}

/* Turns the two halves of `key` (28 bits each) for `round` and picks its 48 bits. */
static NOINLINE void ks(Block *key, int round, Subkey *subkey)
{
    key->left = turned(key->left);
    key->right = turned(key->right);
    if (round != 0 && round != 1 && round != 8 && round != 15) {
        key->left = turned(key->left);
        key->right = turned(key->right);
    }
    *subkey = (Subkey){0, 0, 0};
    for (int i = 0; i < 16; i++) {
        int a = subkey_order[i], b = subkey_order[16 + i], c = subkey_order[32 + i];
        u32 bit = 0x8000u >> i;
        if (a <= 28 && key->left >> (28 - a) & 1)
            subkey->high |= bit;
        if (b <= 28 ? key->left >> (28 - b) & 1 : key->right >> (56 - b) & 1)
            subkey->middle |= bit;
        if (c > 28 && key->right >> (56 - c) & 1)
            subkey->low |= bit;
    }
}

/* One round's function of the right half. */
static NOINLINE void cyfun(u32 half, const Subkey *subkey, u32 *result)
{
    Subkey wide = {0, 0, 0};
    u32 joined = 0, picked = 0;

    for (int i = 0; i < 48; i++) {
        int place = i / 6 * 4 + i % 6;    /* each group of four, and its neighbours */
        place = place == 0 ? 32 : place == 33 ? 1 : place;
        if (!(half >> (32 - place) & 1))
            continue;
        if (i < 16)
            wide.high |= 0x8000u >> i;
        else if (i < 32)
            wide.middle |= 0x8000u >> (i - 16);
        else
            wide.low |= 0x8000u >> (i - 32);
    }
    wide.high ^= subkey->high;
    wide.middle ^= subkey->middle;
    wide.low ^= subkey->low;
    for (int i = 0; i < BOXES; i++) {
        u32 six = wide.high >> 10, row = 0;
        if (six & 0x20)
            row = 2;
        if (six & 1)
            row |= 1;
        joined = joined << 4 | box[i][row][six >> 1 & 15];
        wide.high = (wide.high << 6 & 0xffff) | wide.middle >> 10;
        wide.middle = (wide.middle << 6 & 0xffff) | wide.low >> 10;
        wide.low = wide.low << 6 & 0xffff;
    }
    for (int i = 0; i < 32; i++) {
        picked <<= 1;
        if (joined >> (32 - round_order[i]) & 1)
            picked |= 1;
    }
    *result = picked;
}

/* Encrypts `in`, or decrypts it. The subkeys are made when *new_key says so. */
static NOINLINE void des(const Block *in, const Block *key, int *new_key, int decrypt, Block *out)
{
    Block work = {0, 0};

    if (*new_key) {
        Block packed = {0, 0};
        *new_key = 0;
        for (int i = 0; i < 28; i++) {
            packed.left = packed.left << 1 | getbit(key, key_order[i]);
            packed.right = packed.right << 1 | getbit(key, key_order[28 + i]);
        }
        for (int i = 0; i < ROUNDS; i++)
            ks(&packed, i, &subkeys[i]);
    }
    for (int i = 0; i < 32; i++) {
        work.left <<= 1;
        work.right <<= 1;
        if (getbit(in, initial_order[i]))
            work.left |= 1;
        if (getbit(in, initial_order[32 + i]))
            work.right |= 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        u32 mixed, kept = work.right;
        cyfun(work.right, &subkeys[decrypt ? ROUNDS - 1 - i : i], &mixed);
        work.right = work.left ^ mixed;
        work.left = kept;
    }
    Block last = {work.right, work.left};
    out->left = out->right = 0;
    for (int i = 0; i < 32; i++) {
        if (getbit(&last, final_order[i]))
            out->left |= 0x80000000u >> i;
        if (getbit(&last, final_order[32 + i]))
            out->right |= 0x80000000u >> i;
    }
}

int main(int argc, char **argv)
{
    int blocks = option(argc, argv, 1, 50), wrong = 0, new_key = 1;
    Block key = {0x13345779, 0x9bbcdff1}, plain = {0x01234567, 0x89abcdef}, cipher, back;
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    des(&plain, &key, &new_key, 0, &cipher);
    print("check %08x%08x\n", cipher.left, cipher.right);
    for (int i = 0; i < blocks; i++) {
        if (i % 8 == 0) {
            key = (Block){noise() << 8 ^ noise(), noise() << 8 ^ noise()};
            new_key = 1;
        }
        plain.left ^= noise() << 8;
        plain.right += noise();
        des(&plain, &key, &new_key, 0, &cipher);
        sum = add_to_sum(add_to_sum(sum, cipher.left), cipher.right);
        if (i % 4 == 0) {
            des(&cipher, &key, &new_key, 1, &back);
            wrong += back.left != plain.left || back.right != plain.right;
        }
        plain = cipher;
    }
    print("%d blocks, %d wrong, sum %08x\n", blocks, wrong, sum);
    return wrong != 0;
}
