/* Switches dense and sparse, nested, in loops; an interpreter with computed goto; state machines. */
#include <stdio.h>

static int dense(int x)
{
    switch (x) {
    case 0: return 3;
    case 1: x += 7; /* fall through */
    case 2: x ^= 5; break;
    case 3: case 4: case 5: x = -x; break;
    case 6: return dense(x - 6) + 1;
    case 7: x *= 3; break;
    case 9: x = 100 / x; break;
    case 10: x |= 64; break;
    default: x--;
    }
    return x;
}

static int sparse(long long x)
{
    switch (x) {
    case -5000000000LL: return 1;
    case -7: return 2;
    case 100: return 3;
    case 1000: return 4;
    case 100000: return 5;
    case 0x7fffffffffffLL: return 6;
    default: return 0;
    }
}

static int nested(int a, int b)
{
    int sum = 0;
    for (int i = 0; i < a; i++)
        switch (i & 7) {
        case 0: continue;
        case 1:
            switch (b % 6) {
            case 0: sum += 1; break;
            case 1: sum += 10; goto out;
            case 2: sum += 100; break;
            case 3: sum -= 1; continue;
            case 4: return sum;
            case 5: sum ^= 3;
            }
            break;
        case 2: sum += i; /* fall through */
        case 3: sum += b; break;
        case 4: if (sum > 1000) goto out; break;
        case 5: sum <<= 1; break;
        case 6: sum++;
        }
out:
    return sum;
}

enum { PUSH, ADD, SUB, DUP, JNZ, SWAP, OUT, DECR, HALT };

static int interpret(const signed char *code)
{
    static void *const labels[] = {&&push, &&add, &&sub, &&dup, &&jnz, &&swap, &&out, &&decr, &&halt};
    int stack[32], *sp = stack, steps = 0;
    const signed char *pc = code;
#define NEXT do { steps++; goto *labels[(int)*pc++]; } while (0)
    NEXT;
push: *sp++ = *pc++; NEXT;
add: sp--; sp[-1] += *sp; NEXT;
sub: sp--; sp[-1] -= *sp; NEXT;
dup: *sp = sp[-1]; sp++; NEXT;
jnz: if (sp[-1]) pc += *pc; else pc++; NEXT;
swap: { int t = sp[-1]; sp[-1] = sp[-2]; sp[-2] = t; } NEXT;
out: printf("%d ", sp[-1]); NEXT;
decr: sp[-1]--; NEXT;
halt: return steps;
}

static const char *scan(const char *s, int *kind)
{
    int state = 0;
    for (;; s++)
        switch (state) {
        case 0:
            switch (*s) {
            case 0: *kind = 0; return s;
            case ' ': case '\t': case '\n': break;
            case '0': case '1': case '2': case '3': case '4':
            case '5': case '6': case '7': case '8': case '9': state = 1; break;
            case '"': state = 2; break;
            case '/': state = 3; break;
            case 'a' ... 'z': state = 5; break;
            default: *kind = *s; return s + 1;
            }
            break;
        case 1: if (*s < '0' || *s > '9') { *kind = '0'; return s; } break;
        case 2: if (*s == '"') { *kind = '"'; return s + 1; } break;
        case 3: if (*s != '*') { *kind = '/'; return s; } state = 4; break;
        case 4: if (*s == '*' && s[1] == '/') { s++; state = 0; } break;
        case 5: if (*s < 'a' || *s > 'z') { *kind = 'a'; return s; } break;
        }
}

static void duff(char *to, const char *from, int count)
{
    int n = (count + 7) / 8;
    switch (count % 8) {
    case 0: do { *to++ = *from++;
    case 7: *to++ = *from++;
    case 6: *to++ = *from++;
    case 5: *to++ = *from++;
    case 4: *to++ = *from++;
    case 3: *to++ = *from++;
    case 2: *to++ = *from++;
    case 1: *to++ = *from++;
        } while (--n > 0);
    }
}

int main(void)
{
    long sum = 0;
    static const signed char program[] = {
        PUSH, 9, PUSH, 0, SWAP, DUP, OUT, DECR, SWAP, PUSH, 3, ADD, SWAP, JNZ, -9, OUT, SWAP, OUT, HALT};
    for (int i = -3; i < 14; i++)
        sum += dense(i) * (i + 4);
    for (int i = 0; i < 3; i++)
        sum += sparse(-7) + sparse(100 + i) + sparse(0x7fffffffffffLL) + sparse(-5000000000LL);
    for (int i = 0; i < 40; i++)
        sum += nested(i, i * 7 % 11);
    printf("%ld\n", sum);
    printf("steps %d\n", interpret(program));
    const char *text = "abc 12 /* note ** */ \"str\" + 7/x - (aa)";
    for (int kind; text = scan(text, &kind), kind;)
        printf("%c", kind);
    char to[50];
    for (int i = 1; i < 40; i += 3) {
        duff(to, "The quick brown fox jumps over the lazy dog", i);
        to[i] = 0;
    }
    printf("\n%s\n", to);
    return (int)(sum & 63);
}
