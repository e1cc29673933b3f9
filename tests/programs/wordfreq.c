/* Counts words, with the statements that line counts go wrong at: an `if` whose `then` ends in a
   loop or in another `if`, conditions of several parts, jumps only, routines that are inlined. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    int count;
    char text[32];
};

static struct word *table[64];
static int total, distinct, longest;

static unsigned hash(const char *text)
{
    unsigned sum = 5381;
    while (*text)
        sum = sum * 33 + (unsigned char)*text++;
    return sum % 64;
}

static struct word *lookup(const char *text)
{
    unsigned place = hash(text);
    struct word *word;
    for (word = table[place]; word; word = word->next)
        if (strcmp(word->text, text) == 0)
            return word;
    word = calloc(1, sizeof *word);
    if (!word) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    strncpy(word->text, text, sizeof word->text - 1);
    word->next = table[place];
    table[place] = word;
    distinct++;
    return word;
}

static int limit(int value)
{
    return value > 5 ? 3 : value & 7;
}

static int weigh(int value, int round)
{
    if (limit(value) > 2) {
        for (int turn = 0; turn < 2; turn++)
            value += 5;
    } else {
        value -= 1;
    }
    if (round & 1) {
        if (value > 9)
            value = limit(round);
    } else {
        while (value > 20)
            value -= 7;
    }
    if (value > 2) {
        if (value > 4 && round < 6) {
            if (limit(value) > 2) {
                value = round > 3 ? limit(1) : 7;
            }
        } else {
            if (limit(value) > 4)
                value = value > 50 ? 0 : value;
            else {
                if (value > 9)
                    value = 0;
            }
        }
    } else {
        value++;
    }
    if (value % 3 == 0) {
        switch (round % 4) {
        case 0:
            value += 1;
            break;
        case 1:
            value += 2;
        default:
            value += 3;
        }
    } else if (value % 3 == 1) {
        do
            value += limit(value);
        while (value < 7);
    } else
        value = limit(value + 1);
    return value;
}

static void add(const char *text)
{
    struct word *word = lookup(text);
    if (word->count == 0) {
        if (strlen(text) > 5)
            longest += (int)strlen(text);
        word->count = 1;
    } else {
        word->count++;
        lookup(text);
    }
    total++;
    if (total % 3 == 0)
        lookup("three");
    else
        lookup("other");
}

static int by_count(const void *a, const void *b)
{
    const struct word *left = *(struct word *const *)a;
    const struct word *right = *(struct word *const *)b;
    if (left->count != right->count)
        return right->count - left->count;
    return strcmp(left->text, right->text);
}

int main(void)
{
    static const char text[] =
        "the quick brown fox jumps over the lazy dog and the extraordinary dog jumps over the "
        "quick extraordinary fox while nobody looks";
    char buffer[32];
    int length = 0;
    for (int round = 0; round < 7; round++) {
        for (const char *at = text;; at++) {
            if (isalpha((unsigned char)*at) && length < 31) {
                buffer[length++] = (char)tolower((unsigned char)*at);
            } else if (length > 0) {
                buffer[length] = 0;
                add(buffer);
                length = 0;
            }
            if (!*at)
                break;
        }
        total += weigh(total & 15, round);
    }
    struct word *all[64];
    int count = 0;
    for (int place = 0; place < 64; place++)
        for (struct word *word = table[place]; word; word = word->next)
            all[count++] = word;
    qsort(all, (size_t)count, sizeof all[0], by_count);
    int shown = 0;
    do {
        printf("%4d %s\n", all[shown]->count, all[shown]->text);
    } while (++shown < count && shown < 10);
    if (total > 100000 && distinct > 64)
        puts("many");
    printf("%d %d %d\n", total, distinct, longest);
    return 0;
}
