/* CRC-16 (polynomial x^16 + x^12 + x^5 + 1) of made messages: bit by bit, by table, and
   with the bits of each byte reversed.
   crc [MESSAGES [SEED]] */
#include "kernel.h"

enum { POLYNOMIAL = 0x1021, LONGEST = 600 };

static u8 message[LONGEST];
static u32 remainders[256];
static u8 mirrored[256];

/* The remainder after one more byte. */
static NOINLINE u32 icrc1(u32 crc, u32 byte)
{
    u32 remainder = crc ^ byte << 8;

    for (int bit = 0; bit < 8; bit++) {
        if (remainder & 0x8000)
            remainder = remainder << 1 ^ POLYNOMIAL;
        else
            remainder <<= 1;
    }
    return remainder & 0xffff;
}

static NOINLINE u32 mirror(u32 byte)
{
    u32 result = 0;

    for (u32 low = 1, high = 0x80; high != 0; low <<= 1, high >>= 1)
        if (byte & low)
            result |= high;
    return result;
}

static NOINLINE void make_tables(void)
{
    for (u32 byte = 0; byte < 256; byte++) {
        remainders[byte] = icrc1(0, byte);
        mirrored[byte] = (u8)mirror(byte);
    }
}

/* CRC of `length` bytes. `start` < 0: go on from `crc`; `reversed`: least significant bit first. */
static NOINLINE u32 icrc(u32 crc, const u8 *bytes, int length, int start, int reversed)
{
    static int ready;

    if (!ready) {
        ready = 1;
        make_tables();
    }
    if (start >= 0)
        crc = (u32)start | (u32)start << 8;
    else if (reversed)
        crc = (u32)mirrored[crc >> 8] | (u32)mirrored[crc & 255] << 8;
    for (int i = 0; i < length; i++) {
        u32 byte = reversed ? mirrored[bytes[i]] : bytes[i];
        crc = (crc << 8 & 0xffff) ^ remainders[crc >> 8 ^ byte];
    }
    return reversed ? (u32)mirrored[crc >> 8] | (u32)mirrored[crc & 255] << 8 : crc;
}

static NOINLINE u32 slow_crc(const u8 *bytes, int length)
{
    u32 crc = 0xffff;

    for (int i = 0; i < length; i++)
        crc = icrc1(crc, bytes[i]);
    return crc;
}

/* Fills the message with letters, digits and now and then anything; returns its length. */
static int make_message(void)
{
    int length = 40 + (int)(noise() % (LONGEST - 40));

    for (int i = 0; i < length; i++) {
        u32 draw = noise();
        message[i] = (u8)(draw % 8 == 0 ? draw >> 8 : 'a' + (draw >> 4) % 26);
    }
    return length;
}

int main(int argc, char **argv)
{
    int messages = option(argc, argv, 1, 20), wrong = 0;
    u32 sum = SUM_START;

    seed_noise((u32)option(argc, argv, 2, 1));
    for (int i = 0; i < messages; i++) {
        int length = make_message(), half = length / 2;
        u32 whole = icrc(0, message, length, 255, 0);
        u32 parts = icrc(icrc(0, message, half, 255, 0), message + half, length - half, -1, 0);
        wrong += whole != parts;
        if (i % 3 == 0)
            wrong += slow_crc(message, length) != whole;
        sum = add_to_sum(sum, whole);
        sum = add_to_sum(sum, icrc(0, message, length, 0, 1));
    }
    print("check %04x, %d messages, %d wrong, sum %08x\n",
          icrc(0, (const u8 *)"123456789", 9, 255, 0), messages, wrong, sum);
    return wrong != 0;
}
