/* A frame of 4976 bytes, all of them in use: its words are those that a second instruction took. */
#ifdef __arch64__
#define TRAP "0x6d"
#else
#define TRAP "0x10"
#endif
__asm__(".text\n.global _start\n.type _start, #function\n_start: clr %fp\n"
        "sub %sp, 192, %sp\ncall start\nnop\nmov 1, %g1\nta " TRAP "\nnop\n"
        ".size _start, .-_start");
static unsigned mix(unsigned *cells, unsigned length, unsigned seed) {
    unsigned sum = 0, k;
    for (k = 0; k < length; k++) {
        if (seed & 1) cells[k] ^= seed; else sum += cells[k];
        if (seed % 7 > 2) sum ^= k; else cells[length - 1 - k] += sum;
        seed = seed * 1103515245 + 12345;
    }
    return sum;
}
__attribute__((noinline)) static unsigned large(unsigned a, unsigned b, unsigned c, unsigned d) {
    unsigned cells[1200], k, sum = 0;
    for (k = 0; k < 1200; k++) cells[k] = k * a + b;
    for (k = 0; k < 40; k++) {
        sum += mix(cells, 1200, a + k);
        if (sum & 1) { if (sum & 2) sum += c; else sum -= d; }
        else if (sum & 4) sum ^= b * k; else sum += cells[k % 1200];
    }
    return sum;
}
int start(void) { return large(3, 5, 7, 11) & 127; }
