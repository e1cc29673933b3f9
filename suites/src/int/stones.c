/* A player of Go on a small board, against itself: chains and liberties, captures, ko, eyes,
   ladders read out, patterns, influence, and a search of a few moves.
   stones [GAMES [SEED]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 9, STRIDE = SIDE + 1, POINTS = (SIDE + 2) * STRIDE + 1, MOST_MOVES = 130, WIDTH = 5,
    DEPTH = 2, LADDER = 12, KOMI = 6, INFINITE = 1000000, PASS = 0,
};

enum Color { EMPTY, BLACK, WHITE, EDGE };

static const int steps[4] = {-STRIDE, -1, 1, STRIDE};
static const int diagonals[4] = {-STRIDE - 1, -STRIDE + 1, STRIDE - 1, STRIDE + 1};

struct Board {
    unsigned char at[POINTS];
    int ko, last, taken[3], moves;
};

struct Chain {
    int stones, liberties, first_liberty, second_liberty;
};

static struct Board board;
static unsigned state;
static long positions, ladders, captures;

static unsigned draw(unsigned limit)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 10) % limit;
}

static int other(int color)
{
    return BLACK + WHITE - color;
}

static int point(int row, int column)
{
    return (row + 1) * STRIDE + column + 1;
}

static int line_of(int at)
{
    int row = at / STRIDE - 1, column = at % STRIDE - 1;
    int down = SIDE - 1 - row, right = SIDE - 1 - column;
    int least = row < column ? row : column;

    if (down < least)
        least = down;
    return right < least ? right : least;
}

static void clear_board(struct Board *b)
{
    memset(b, 0, sizeof *b);
    memset(b->at, EDGE, sizeof b->at);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            b->at[point(row, column)] = EMPTY;
}

/* Flood fill: the chain at a stone; liberties are counted up to `enough`. */
static struct Chain find_chain(const struct Board *b, int start, int enough)
{
    static unsigned marks[POINTS], mark;
    struct Chain chain = {0, 0, PASS, PASS};
    int stack[SIDE * SIDE], depth = 0, color = b->at[start];

    mark++;
    stack[depth++] = start;
    marks[start] = mark;
    while (depth > 0) {
        int from = stack[--depth];
        chain.stones++;
        for (int i = 0; i < 4; i++) {
            int to = from + steps[i];
            if (marks[to] == mark)
                continue;
            if (b->at[to] == color) {
                marks[to] = mark;
                stack[depth++] = to;
            } else if (b->at[to] == EMPTY) {
                marks[to] = mark;
                if (chain.liberties == 0)
                    chain.first_liberty = to;
                else if (chain.liberties == 1)
                    chain.second_liberty = to;
                if (++chain.liberties >= enough)
                    return chain;
            }
        }
    }
    return chain;
}

static int remove_chain(struct Board *b, int start)
{
    int stack[SIDE * SIDE], depth = 0, color = b->at[start], removed = 0;

    stack[depth++] = start;
    b->at[start] = EMPTY;
    while (depth > 0) {
        int from = stack[--depth];
        removed++;
        for (int i = 0; i < 4; i++) {
            int to = from + steps[i];
            if (b->at[to] == color) {
                b->at[to] = EMPTY;
                stack[depth++] = to;
            }
        }
    }
    return removed;
}

/* Plays; 0 if the move is not allowed (and the board then is as before). */
static int play(struct Board *b, int at, int color)
{
    int opponent = other(color), removed = 0, single = PASS, friendly = 0, free_next = 0;

    if (at == PASS) {
        b->ko = b->last = PASS;
        b->moves++;
        return 1;
    }
    if (b->at[at] != EMPTY || at == b->ko)
        return 0;
    b->at[at] = (unsigned char)color;
    for (int i = 0; i < 4; i++) {
        int next = at + steps[i];
        if (b->at[next] == opponent && find_chain(b, next, 1).liberties == 0) {
            removed += remove_chain(b, next);
            single = next;
        }
    }
    for (int i = 0; i < 4; i++) {
        if (b->at[at + steps[i]] == EMPTY)
            free_next++;
        else if (b->at[at + steps[i]] == color)
            friendly++;
    }
    if (removed == 0 && free_next == 0 && find_chain(b, at, 1).liberties == 0) {
        b->at[at] = EMPTY;
        return 0;
    }
    b->ko = removed == 1 && friendly == 0 && free_next == 1 ? single : PASS;
    b->taken[color] += removed;
    captures += removed;
    b->last = at;
    b->moves++;
    return 1;
}

/* An empty point that only its owner should think about. */
static int is_eye(const struct Board *b, int at, int color)
{
    int bad = 0, edges = 0;

    for (int i = 0; i < 4; i++)
        if (b->at[at + steps[i]] != color && b->at[at + steps[i]] != EDGE)
            return 0;
    for (int i = 0; i < 4; i++) {
        if (b->at[at + diagonals[i]] == EDGE)
            edges++;
        else if (b->at[at + diagonals[i]] == other(color))
            bad++;
    }
    return edges > 0 ? bad == 0 : bad <= 1;
}

/* Whether the chain with two liberties at `target` is caught if its opponent moves. */
static int ladder(const struct Board *b, int target, int depth)
{
    struct Chain chain = find_chain(b, target, 3);
    int color = b->at[target];

    ladders++;
    if (chain.liberties >= 3 || depth > LADDER)
        return 0;
    if (chain.liberties <= 1)
        return 1;
    for (int side = 0; side < 2; side++) {
        struct Board after = *b;
        int attack = side == 0 ? chain.first_liberty : chain.second_liberty;
        int escape = side == 0 ? chain.second_liberty : chain.first_liberty;
        if (!play(&after, attack, other(color)))
            continue;
        if (find_chain(&after, attack, 2).liberties <= 1)
            continue;
        if (!play(&after, escape, color))
            return 1;
        struct Chain running = find_chain(&after, target, 3);
        if (running.liberties <= 1)
            return 1;
        if (running.liberties == 2 && ladder(&after, target, depth + 1))
            return 1;
    }
    return 0;
}

/* What the eight neighbours say about a move. */
static int pattern(const struct Board *b, int at, int color)
{
    int opponent = other(color), own = 0, foe = 0, own_corner = 0, foe_corner = 0, edge = 0;

    for (int i = 0; i < 4; i++) {
        int near = b->at[at + steps[i]], corner = b->at[at + diagonals[i]];
        if (near == color)
            own++;
        else if (near == opponent)
            foe++;
        else if (near == EDGE)
            edge++;
        if (corner == color)
            own_corner++;
        else if (corner == opponent)
            foe_corner++;
    }
    if (own == 0 && foe == 0)
        return own_corner > 0 ? 4 : 1;
    if (own >= 3)
        return -6;
    if (foe >= 3)
        return own_corner > 1 ? 5 : 1;
    if (own == 1 && foe == 1)
        return foe_corner > 0 && own_corner == 0 ? 9 : 6;       /* a block, perhaps a cut */
    if (own == 2 && foe > 0)
        return b->at[at - 1] == b->at[at + 1] || foe_corner > 1 ? 8 : 3;
    if (own == 0 && foe == 1)
        return own_corner > 0 ? 7 : edge > 0 ? 0 : 3;            /* hane, or contact */
    if (own == 2)
        return own_corner > 2 ? -4 : 0;
    return edge > 0 ? -1 : 2;
}

/* How much a move is worth a look, before any search. */
static int urgency(const struct Board *b, int at, int color)
{
    static const int by_line[5] = {-9, 0, 8, 6, 5};
    int score = by_line[line_of(at)] + pattern(b, at, color);

    for (int i = 0; i < 4; i++) {
        int next = at + steps[i], owner = b->at[next];
        if (owner != BLACK && owner != WHITE)
            continue;
        struct Chain chain = find_chain(b, next, 3);
        if (owner == other(color)) {
            if (chain.liberties == 1)
                score += 20 + 6 * chain.stones;
            else if (chain.liberties == 2 && ladder(b, next, 0))
                score += 10 + 3 * chain.stones;
        } else if (chain.liberties == 1) {
            score += 15 + 4 * chain.stones;
        } else if (chain.liberties == 2 && ladder(b, next, 0)) {
            score += 8 + 2 * chain.stones;
        }
    }
    if (b->last != PASS) {
        int distance = abs(at - b->last);
        if (distance == 1 || distance == STRIDE)
            score += 4;
        else if (distance == STRIDE + 1 || distance == STRIDE - 1)
            score += 3;
    }
    return score;
}

/* The balance for black: stones, influence that spreads and fades, chains in danger. */
static int evaluate(const struct Board *b)
{
    int influence[POINTS], spread[POINTS], total = 0;

    positions++;
    for (int at = 0; at < POINTS; at++) {
        influence[at] = spread[at] = 0;
        if (b->at[at] == BLACK)
            influence[at] = 64;
        else if (b->at[at] == WHITE)
            influence[at] = -64;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int at = STRIDE; at < POINTS - STRIDE; at++) {
            if (b->at[at] == EDGE)
                continue;
            int sum = 2 * influence[at];
            for (int i = 0; i < 4; i++)
                if (b->at[at + steps[i]] != EDGE)
                    sum += influence[at + steps[i]];
            spread[at] = sum / 4;
        }
        memcpy(influence, spread, sizeof influence);
    }
    for (int at = STRIDE; at < POINTS - STRIDE; at++) {
        int owner = b->at[at];
        if (owner == EDGE)
            continue;
        if (influence[at] > 8)
            total += 10;
        else if (influence[at] < -8)
            total -= 10;
        if (owner != EMPTY) {
            struct Chain chain = find_chain(b, at, 3);
            int danger = chain.liberties == 1 ? 12 : chain.liberties == 2 ? 3 : 0;
            total += owner == BLACK ? -danger : danger;
        }
    }
    return total + 10 * (b->taken[BLACK] - b->taken[WHITE]);
}

struct Move {
    int at, score;
};

/* The most urgent moves, best first; returns how many. */
static int candidates(const struct Board *b, int color, struct Move *list, int most)
{
    int count = 0;

    for (int at = STRIDE; at < POINTS - STRIDE; at++) {
        if (b->at[at] != EMPTY || at == b->ko || is_eye(b, at, color))
            continue;
        int score = urgency(b, at, color), place = count;
        if (place == most && score <= list[most - 1].score)
            continue;
        if (count < most)
            count++;
        else
            place = most - 1;
        for (; place > 0 && list[place - 1].score < score; place--)
            list[place] = list[place - 1];
        list[place] = (struct Move){at, score};
    }
    return count;
}

/* Alpha-beta search; the value is the mover's. */
static int search(const struct Board *b, int color, int depth, int alpha, int beta)
{
    struct Move list[WIDTH];

    if (depth == 0)
        return color == BLACK ? evaluate(b) : -evaluate(b);
    int count = candidates(b, color, list, WIDTH), best = -INFINITE;
    for (int i = 0; i < count; i++) {
        struct Board after = *b;
        if (!play(&after, list[i].at, color))
            continue;
        int value = list[i].score - search(&after, other(color), depth - 1, -beta, -alpha);
        if (value > best)
            best = value;
        if (value > alpha)
            alpha = value;
        if (alpha >= beta)
            break;
    }
    return best == -INFINITE ? (color == BLACK ? evaluate(b) : -evaluate(b)) : best;
}

static int choose(int color)
{
    struct Move list[WIDTH];
    int count = candidates(&board, color, list, WIDTH), best = PASS, alpha = -INFINITE;

    for (int i = 0; i < count; i++) {
        struct Board after = board;
        if (board.moves > 40 && list[i].score < -8)
            continue;
        if (!play(&after, list[i].at, color))
            continue;
        int value = list[i].score + (int)draw(4)
                  - search(&after, other(color), DEPTH - 1, -INFINITE, -alpha);
        if (value > alpha) {
            alpha = value;
            best = list[i].at;
        }
    }
    return best;
}

/* Points of a colour: stones, and empty points that only it touches. */
static int count_area(int color)
{
    int area = 0;

    for (int at = STRIDE; at < POINTS - STRIDE; at++) {
        int own = 0, foe = 0;
        if (board.at[at] == color)
            area++;
        if (board.at[at] != EMPTY)
            continue;
        for (int i = 0; i < 4; i++) {
            own += board.at[at + steps[i]] == color;
            foe += board.at[at + steps[i]] == other(color);
        }
        area += own > 0 && foe == 0;
    }
    return area;
}

static int play_game(void)
{
    int passes = 0, color = BLACK;

    clear_board(&board);
    for (int i = 0; i < 3; i++) {
        int row = (int)draw(SIDE - 4) + 2, column = (int)draw(SIDE - 4) + 2;
        play(&board, point(row, column), i % 2 ? WHITE : BLACK);
    }
    while (passes < 2 && board.moves < MOST_MOVES) {
        int move = choose(color);
        passes = move == PASS ? passes + 1 : 0;
        play(&board, move, color);
        color = other(color);
    }
    return count_area(BLACK) - count_area(WHITE) - KOMI;
}

static void print_board(void)
{
    for (int row = 0; row < SIDE; row++) {
        for (int column = 0; column < SIDE; column++)
            putchar(".XO"[board.at[point(row, column)]]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    int games = argc > 1 ? atoi(argv[1]) : 1, won = 0;

    state = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    for (int i = 0; i < games; i++) {
        int lead = play_game();
        won += lead > 0;
        printf("game %d: %d moves, black leads by %d\n", i + 1, board.moves, lead);
    }
    print_board();
    printf("black won %d of %d; %ld positions, %ld ladders, %ld captures\n", won, games, positions,
           ladders, captures);
    return 0;
}
