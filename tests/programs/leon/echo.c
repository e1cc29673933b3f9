/* Writes what it reads, in capitals, until nothing is left. */
#define WORD(address) (*(volatile unsigned *)(address))
int main(void) {
    while (WORD(0x80000104) & 1) {
        unsigned character = WORD(0x80000100);
        WORD(0x80000100) = character >= 'a' && character <= 'z' ? character - 32 : character;
    }
    return 0;
}
