/* Interrupts of the timer: in a loop that computes, and in power-down. Says how often, and when. */
#define REGISTER(address) (*(volatile unsigned *)(address))
#define UART_DATA REGISTER(0x80000100)
#define UART_STATUS REGISTER(0x80000104)
#define PENDING REGISTER(0x80000204)
#define MASK REGISTER(0x80000240)
#define SCALER_RELOAD REGISTER(0x80000304)
#define COUNTER REGISTER(0x80000310)
#define RELOAD REGISTER(0x80000314)
#define CONTROL REGISTER(0x80000318)
#define COUNTER2 REGISTER(0x80000320)
#define RELOAD2 REGISTER(0x80000324)
#define CONTROL2 REGISTER(0x80000328)

static void put(int character) {
    while (!(UART_STATUS & 4)) {
    }
    UART_DATA = character;
}
static void text(const char *string) {
    while (*string) put(*string++);
}
static void number(unsigned value) {
    if (value >= 10) number(value / 10);
    put('0' + value % 10);
}
static volatile unsigned ticks, last;
static unsigned deep(unsigned n) { return n == 0 ? ticks & 0 : 1 + deep(n - 1); }
static unsigned (*volatile deeply)(unsigned) = deep;

void handle_interrupt(int level) {
    ticks++;
    last = level + deeply(10); /* windows overflow in here, too */
    CONTROL |= 16;             /* the pending bit */
}

int main(void) {
    unsigned work = 0;
    SCALER_RELOAD = 9; /* a tick is ten instructions */
    RELOAD = 99;
    MASK = 1 << 6 | 1 << 7;
    CONTROL = 1 | 2 | 4 | 8; /* enabled, again and again, loaded, interrupts */
    while (ticks < 20) work += deeply(20) + 1;
    text(work > 0 ? "ticks " : "no work ");
    number(ticks >= 20);
    text(" level ");
    number(last - 10);
    CONTROL = 0;
    PENDING = 0;
    RELOAD2 = 100000;
    CONTROL2 = 1 | 4 | 8;
    ticks = 0;
    while (!ticks) __asm__ volatile("wr %%g0, %%asr19" ::: "memory");
    text(" slept until ");
    number(last - 10);
    text("\n");
    return 0;
}
