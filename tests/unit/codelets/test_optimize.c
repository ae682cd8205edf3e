/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/ends/optimize.h: some steps of Adam against the formula in double, and rows without a gradient. */
#include "codelets/ends/optimize.h"

#include "codelets/ends/reduce.h"
#include "tests/support/starpu_fixture.h"

enum { ROWS = 13, COLUMNS = 11, N = ROWS * COLUMNS, STEPS = 5 };

static const struct sl_adam adam0 = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0};

/* The textbook's order of operations. */
static void step_in_double(const struct sl_adam *adam, const sl_real *gradient, double *w, double *m, double *v)
{
    for (size_t i = 0; i < N; i++) {
        double g = (double)gradient[i] + (adam->decoupled ? 0 : adam->decay * w[i]);
        w[i] *= adam->decoupled ? 1 - adam->lr * adam->decay : 1;
        m[i] = adam->beta1 * m[i] + (1 - adam->beta1) * g;
        v[i] = adam->beta2 * v[i] + (1 - adam->beta2) * g * g;
        double m_hat = m[i] / (1 - pow(adam->beta1, (double)adam->t));
        double v_hat = v[i] / (1 - pow(adam->beta2, (double)adam->t));
        w[i] -= adam->lr * m_hat / (sqrt(v_hat) + adam->eps);
    }
}

/* Some gradients are zero, one is tiny: eps then decides. */
static void make_gradient(int t, sl_real *gradient)
{
    fill(N, 100 + (uint64_t)t, gradient);
    for (size_t i = 0; i < N; i += 9) {
        gradient[i] = 0;
    }
    gradient[1] = (sl_real)1e-9;
}

static const uint32_t one[] = {0};

static void step(const struct sl_adam *adam, uint32_t rows, uint32_t columns, sl_real *g, sl_real *w, sl_real *m,
                 sl_real *v)
{
    starpu_data_handle_t h[] = {rows_of(g, rows, columns), rows_of(w, rows, columns), rows_of(m, rows, columns),
                                rows_of(v, rows, columns)};
    const struct sl_optimize_handles array = {.w = h[1], .m = h[2], .v = h[3], .n = 1, .partials = h, .leaf = one};
    expect_ok(sl_optimize_submit(&head, adam, 1, &array));
    UNREGISTER(h);
    expect_no_failure();
}

static void check_steps(double decay, bool decoupled)
{
    struct sl_adam adam = adam0;
    FREED sl_real *w = noisy(N, 1);
    FREED sl_real *m = need(N, sizeof *m);
    FREED sl_real *v = need(N, sizeof *v);
    FREED sl_real *gradient = need(N, sizeof *gradient);
    double w_wanted[N], m_wanted[N] = {0}, v_wanted[N] = {0};
    for (size_t i = 0; i < N; i++) {
        w_wanted[i] = (double)w[i];
    }
    adam.decay = decay;
    adam.decoupled = decoupled;
    for (int t = 1; t <= STEPS; t++) {
        adam.t = (uint64_t)t;
        adam.lr = 0.01 / t;
        make_gradient(t, gradient);
        step(&adam, ROWS, COLUMNS, gradient, w, m, v);
        step_in_double(&adam, gradient, w_wanted, m_wanted, v_wanted);
    }
    /* Each step rounds a few times; an update is at most about lr. */
    expect_rows("W", N, w, w_wanted, 16 * STEPS * EPSILON);
    expect_rows("M", N, m, m_wanted, 16 * STEPS * EPSILON);
    expect_rows("V", N, v, v_wanted, 16 * STEPS * EPSILON);
}

TEST(steps)
{
    fixture_start(3);
    check_steps(0, false);
    check_steps(0.05, false);
    check_steps(0.05, true);
    fixture_stop();
}

/* Far into a run the corrections vanish, and must not overflow or lose the step. */
TEST(late_step)
{
    fixture_start(1);
    struct sl_adam adam = adam0;
    sl_real g = 2, w = 1, m = 2, v = 4;
    adam.t = 10000000;
    step(&adam, 1, 1, &g, &w, &m, &v);
    expect_near("w", (double)w, 1 - 0.01 * 2 / (2 + 1e-8), 4 * EPSILON);
    fixture_stop();
}

static void update(const struct sl_adam *adam, size_t n, const sl_real *g, sl_real *w, sl_real *m, sl_real *v)
{
    const struct sl_adam_step s = sl_adam_step(adam);
    for (size_t i = 0; i < n; i++) {
        sl_adam_entry(&s, g[i], &w[i], &m[i], &v[i]);
    }
}

/* Any number of entries, some more than a launch has threads: the bits of one entry after the other. */
static void check_bits(uint32_t rows, uint32_t columns)
{
    const size_t n = (size_t)rows * columns;
    struct sl_adam adam = adam0;
    sl_real *got[] = {noisy(n, 1), noisy(n, 2), noisy(n, 3), noisy(n, 4)};
    sl_real *wanted[] = {noisy(n, 1), noisy(n, 2), noisy(n, 3), noisy(n, 4)};
    adam.t = 3;
    adam.decay = 0.1;
    for (size_t i = 0; i < n; i++) { /* second moments are not negative */
        got[3][i] = wanted[3][i] = wanted[3][i] * wanted[3][i];
    }
    step(&adam, rows, columns, got[0], got[1], got[2], got[3]);
    update(&adam, n, wanted[0], wanted[1], wanted[2], wanted[3]);
    for (int i = 0; i < 4; i++) {
        expect_same("gradient, W, M, V", n, sizeof(sl_real), got[i], wanted[i]);
        free(got[i]);
        free(wanted[i]);
    }
}

TEST(bits)
{
    fixture_start(1);
    fixture_watch();
    check_bits(1, 1);
    check_bits(1, 255);
    check_bits(ROWS, COLUMNS);
    check_bits(7, 10001);
    fixture_stop();
}

enum { ARRAYS = 7, HANDLES = 90 };

/* Arrays of other shapes and numbers of partials in one task: the bits of a sum and a step each. Some handles have two
 * partials; one array has more than a launch takes, one has none, as with PEs that have nothing. Every second keeps its
 * sum. */
TEST(arrays)
{
    static const struct {
        uint32_t n_rows, n_columns, n_handles, n_each;
    } shapes[ARRAYS] = {{5, 3, 3, 1},    {1, 1, 2, 2},  {7, 401, 2, 1},  {1, 33, 0, 1},
                        {16, 16, 90, 2}, {1, 7, 90, 3}, {3, 1000, 70, 1}};
    struct sl_adam adam = adam0;
    struct sl_optimize_handles arrays[ARRAYS], single;
    static starpu_data_handle_t partials[ARRAYS][HANDLES];
    static sl_real *data[ARRAYS][HANDLES], *got[ARRAYS][4], *wanted[ARRAYS][4];
    uint32_t leaf[HANDLES];
    adam.t = 3;
    adam.decay = 0.1;
    fixture_start(2);
    fixture_watch();
    for (uint32_t i = 0; i < HANDLES; i++) {
        leaf[i] = i * 7919 % 1000; /* with gaps, not in order */
    }
    for (uint32_t a = 0; a < ARRAYS; a++) {
        const uint32_t rows = shapes[a].n_rows, columns = shapes[a].n_columns;
        const size_t n = (size_t)rows * columns;
        starpu_data_handle_t h[4];
        for (uint32_t i = 0; i < shapes[a].n_handles; i++) {
            data[a][i] = noisy(shapes[a].n_each * n, 100 * a + i);
            partials[a][i] = rows_of(data[a][i], shapes[a].n_each * rows, columns);
        }
        for (int k = 0; k < 4; k++) {
            got[a][k] = noisy(n, 10 * a + k);
            wanted[a][k] = noisy(n, 10 * a + k);
            for (size_t e = 0; k == 3 && e < n; e++) { /* second moments are not negative */
                got[a][k][e] = wanted[a][k][e] = wanted[a][k][e] * wanted[a][k][e];
            }
            h[k] = rows_of(got[a][k], rows, columns);
        }
        arrays[a] = (struct sl_optimize_handles){
            a % 2 == 0 ? h[0] : NULL, h[1], h[2], h[3], shapes[a].n_handles, partials[a], leaf, false, NULL};
        starpu_data_handle_t sum = rows_of(wanted[a][0], rows, columns);
        expect_ok(sl_reduce_submit(&head, shapes[a].n_handles, partials[a], leaf, sum));
        unregister(1, &sum);
        update(&adam, n, wanted[a][0], wanted[a][1], wanted[a][2], wanted[a][3]);
        if (a % 2 != 0) {
            unregister(1, &h[0]);
            memcpy(got[a][0], wanted[a][0], n * sizeof *got[a][0]);
        }
    }
    expect_ok(sl_optimize_submit(&head, &adam, ARRAYS, arrays));
    for (uint32_t a = 0; a < ARRAYS; a++) {
        single = arrays[a];
        starpu_data_handle_t h[] = {single.w, single.m, single.v, single.sum};
        unregister(a % 2 == 0 ? 4 : 3, h);
        unregister(shapes[a].n_handles, partials[a]);
        for (int k = 0; k < 4; k++) {
            expect_same("sum, W, M, V", (size_t)shapes[a].n_rows * shapes[a].n_columns, sizeof(sl_real), got[a][k],
                        wanted[a][k]);
            free(got[a][k]);
            free(wanted[a][k]);
        }
        for (uint32_t i = 0; i < shapes[a].n_handles; i++) {
            free(data[a][i]);
        }
    }
    expect_no_failure();
    fixture_stop();
}

/* By rows. Every third row has no gradient; or, noted, is the only one that may move. The rest stays as it is, with its
 * moments. The others are as ever. */
static void check_rows(bool noted)
{
    struct sl_adam adam = adam0;
    FREED sl_real *g = noisy(N, 1);
    sl_real *got[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *wanted[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    int8_t touched[ROWS];
    adam.t = 3;
    adam.decay = 0.1;
    for (size_t i = 0; i < N; i++) {
        got[2][i] = wanted[2][i] = wanted[2][i] * wanted[2][i];
        g[i] = !noted && i / COLUMNS % 3 == 0 ? 0 : g[i];
    }
    g[1 * COLUMNS] = 0; /* alone in its row */
    for (size_t r = 0; r < ROWS; r++) {
        touched[r] = r % 3 == 1;
    }
    starpu_data_handle_t h[] = {rows_of(g, ROWS, COLUMNS), rows_of(got[0], ROWS, COLUMNS),
                                rows_of(got[1], ROWS, COLUMNS), rows_of(got[2], ROWS, COLUMNS),
                                sl_matrix_over(touched, 1, ROWS, SL_DTYPE_I8)};
    const struct sl_optimize_handles all = {NULL, h[1], h[2], h[3], 1, h, one, true, noted ? h[4] : NULL};
    expect_ok(sl_optimize_submit(&head, &adam, 1, &all));
    UNREGISTER(h);
    for (size_t r = 0; r < ROWS; r++) {
        const size_t first = r * COLUMNS;
        const bool moves = noted ? touched[r] : r % 3 != 0;
        update(&adam, moves ? COLUMNS : 0, g + first, wanted[0] + first, wanted[1] + first, wanted[2] + first);
    }
    for (int i = 0; i < 3; i++) {
        expect_same("W, M, V by rows", N, sizeof(sl_real), got[i], wanted[i]);
        free(got[i]);
        free(wanted[i]);
    }
}

TEST(rows)
{
    fixture_start(1);
    fixture_watch();
    check_rows(false);
    check_rows(true);
    expect_no_failure();
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
