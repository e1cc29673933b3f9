/* Huge, overlapping and forbidden mappings. */
#define _GNU_SOURCE
#include "tell.h"
#include <stdint.h>
#include <sys/mman.h>

#define RW (PROT_READ | PROT_WRITE)
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static void fixed(const char *what, uint64_t address, size_t size)
{
    tell(what, (long)mmap((void *)(uintptr_t)address, size, RW, FIXED, -1, 0));
}

int main(void)
{
    char *place, *whole;
    int count = 0;

    tell("everything", (long)mmap(0, SIZE_MAX & -8192UL, RW, FIXED & ~MAP_FIXED, -1, 0));
    tell("more than the limit", (long)mmap(0, 3UL << 30, RW, FIXED & ~MAP_FIXED, -1, 0));
    if (sizeof(void *) == 8) {
        fixed("the emulator's page", 1UL << 43, 8192);
        fixed("its copies", (1UL << 44) + 0x100000, 8192);
        fixed("the kernel's half", -(1UL << 40), 8192);
        fixed("the hole", 1UL << 51, 8192);
    } else
        fixed("the kernel's part", 0xF0000000, 8192);
    fixed("wrapping around", -8192UL, 16384);
    whole = mmap(0, 64 << 20, RW, FIXED & ~MAP_FIXED, -1, 0);
    for (int i = 0; i < 2000; i++) { /* each overlaps the last ones */
        place = mmap(whole + (i * 37 % 4096) * 8192, 10 * 8192, RW, FIXED, -1, 0);
        if (place == MAP_FAILED)
            break;
        place[81919] = 1;
        count += place[0] == 0 && place[40960] == 0;
    }
    printf("overlapping: %d\n", count);
    for (count = 0; count < 100000; count++) /* as many as there is room for, one byte used */
        if ((place = mmap(0, 64 << 20, RW, FIXED & ~MAP_FIXED, -1, 0)) == MAP_FAILED)
            break;
    printf("room for: %d\n", count < 64);
    tell("unmap everything", munmap(0, SIZE_MAX & -8192UL));
    fflush(stdout);
    munmap((void *)((uintptr_t)main & -8192UL), 8192); /* this very code */
    return 0;
}
