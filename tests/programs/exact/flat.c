/* compiled with -mflat: registers are kept in frames, not in windows */
__attribute__((noinline)) int sel(int a, int b, int c, int d, int e, int f) {
    int r = 0;
    if (a) r += b; else r -= c;
    if (d) r += e; else r -= f;
    return a > 3 ? r + sel(a - 3, b, c, d, e, f) : r + c * 100 + e;
}

void _start(void) {
    int s = 0;
    for (int i = 0; i < 32; i++)
        s = s * 3 + sel(i & 7, i & 2, i & 4, i & 8, i & 16, i);
#ifdef __arch64__
    __asm__ volatile("mov %0, %%o0; mov 1, %%g1; ta 0x6d" : : "r"(s & 127) : "o0", "g1");
#else
    __asm__ volatile("mov %0, %%o0; mov 1, %%g1; ta 0x10" : : "r"(s & 127) : "o0", "g1");
#endif
}
