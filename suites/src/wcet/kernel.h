/* What the kernels share: numeric arguments, made data, and the sum that each prints. */
#ifndef SUITES_KERNEL_H
#define SUITES_KERNEL_H

#include "runtime.h"

enum { SUM_START = 0x1505 };

static u32 noise_state = 1;

static inline void seed_noise(u32 seed)
{
    noise_state = seed * 2654435769u + 12345u;
}

/* 24 bits of a linear congruential generator. */
static inline u32 noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return noise_state >> 8;
}

static inline u32 add_to_sum(u32 sum, u32 value)
{
    return (sum << 5 | sum >> 27) * 3 + value;
}

/* Argument number `place` (1: the first), or `otherwise`. */
static inline int option(int argc, char **argv, int place, int otherwise)
{
    return argc > place ? (int)parse_number(argv[place]) : otherwise;
}

#endif
