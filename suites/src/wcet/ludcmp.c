/* Linear equations by LU decomposition without pivoting, in doubles.
   ludcmp [SYSTEMS [SEED]] */
#include "kernel.h"

enum { MOST = 40 };

static double a[MOST][MOST], kept[MOST][MOST], right[MOST], x[MOST];

static double magnitude(double value)
{
    return value < 0 ? -value : value;
}

/* Solves a x = right for `n` unknowns; the factors replace a. 1: a pivot is below `smallest`. */
static NOINLINE int ludcmp(int n, double smallest)
{
    double y[MOST];

    if (n < 1 || n > MOST || smallest <= 0)
        return 2;
    for (int i = 0; i < n - 1; i++) {
        if (magnitude(a[i][i]) < smallest)
            return 1;
        for (int row = i + 1; row < n; row++) {
            double value = a[row][i];
            for (int k = 0; k < i; k++)
                value -= a[row][k] * a[k][i];
            a[row][i] = value / a[i][i];
        }
        for (int column = i + 1; column < n; column++) {
            double value = a[i + 1][column];
            for (int k = 0; k <= i; k++)
                value -= a[i + 1][k] * a[k][column];
            a[i + 1][column] = value;
        }
    }
    if (magnitude(a[n - 1][n - 1]) < smallest)
        return 1;
    for (int i = 0; i < n; i++) {
        double value = right[i];
        for (int j = 0; j < i; j++)
            value -= a[i][j] * y[j];
        y[i] = value;
    }
    for (int i = n - 1; i >= 0; i--) {
        double value = y[i];
        for (int j = i + 1; j < n; j++)
            value -= a[i][j] * x[j];
        x[i] = value / a[i][i];
    }
    return 0;
}

/* Every seventh system is singular: its first two rows are the same. */
static void make_system(int n, int singular)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = (double)(noise() % 19) - 9;
        a[i][i] += 12.0 * n;
        right[i] = (double)(noise() % 1000) / 8;
    }
    for (int j = 0; singular && j < n; j++)
        a[1][j] = a[0][j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            kept[i][j] = a[i][j];
}

/* The largest difference between the two sides of the equations. */
static NOINLINE double residue(int n)
{
    double worst = 0;

    for (int i = 0; i < n; i++) {
        double left = 0;
        for (int j = 0; j < n; j++)
            left += kept[i][j] * x[j];
        if (magnitude(left - right[i]) > worst)
            worst = magnitude(left - right[i]);
    }
    return worst;
}

int main(int argc, char **argv)
{
    int systems = option(argc, argv, 1, 5), singular = 0, bad = 0;
    double total = 0;

    seed_noise((u32)option(argc, argv, 2, 1));
    for (int i = 0; i < systems; i++) {
        int n = 5 + (int)(noise() % (MOST - 4));
        make_system(n, i % 7 == 6);
        int status = ludcmp(n, 1e-6);
        singular += status == 1;
        if (status != 0)
            continue;
        bad += residue(n) > 1e-9;
        for (int j = 0; j < n; j++)
            total += x[j];
    }
    print("%d systems, %d singular, %d bad, total %.9f\n", systems, singular, bad, total);
    return bad != 0;
}
