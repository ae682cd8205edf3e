/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/operand.h: what a kernel sees of each operand, and what a submission refuses. */
#include "tasks/operand.h"

#include "tests/support/starpu_fixture.h"

enum { X_ROWS = 12, ROW0 = 2, N = 9, F = 4, N_RUNS = 3 };

/* An empty segment among them. */
static const uint32_t first[N_RUNS + 1] = {5, 9, 9, 5 + N};
static const struct sl_runs runs = {N_RUNS, first};

/* SUMS = the column sums of X times an id + b, and of each term times its number; SUMS is kept or overwritten. */
struct sums {
    struct sl_task_args head;
    struct sl_matrix x, b, ids, sums, table;
    struct sl_matrices terms;
    int beta;
};

static enum sl_status sum(const void *view, const void *stream)
{
    const struct sums *v = view;
    const sl_real *x = v->x.data;
    const sl_real *b = v->b.data;
    const uint32_t *ids = v->ids.data;
    sl_real *sums = v->sums.data;
    (void)stream;
    assert_int_equal(v->x.n_rows, v->ids.n_rows);
    assert_int_equal(v->sums.n_rows, 1);
    for (uint32_t c = 0; c < F; c++) {
        sums[c] = v->beta ? sums[c] : 0;
        for (uint32_t i = 0; i < v->x.n_rows; i++) {
            sums[c] += x[i * F + c] * (sl_real)ids[i] + (b == NULL ? 0 : b[c]);
        }
        for (uint32_t t = 0; t < v->terms.n; t++) {
            const sl_real *term = v->terms.data[t];
            for (uint32_t i = 0; i < v->terms.n_rows[t]; i++) {
                sums[c] += term[i * F + c] * (sl_real)v->terms.numbers[t];
            }
        }
    }
    return SL_OK;
}

static struct sl_operation sums_op = {
    SL_OPERATION(sums_op, "sl_test_sums", SL_STAGE_DENSE),
    SL_BODY(sum, struct sums),
    .role = {{"x", STARPU_R, offsetof(struct sums, x), "R x F"},
             {"ids", STARPU_R, offsetof(struct sums, ids), "R", SL_INTS_32},
             {"sums", STARPU_W | SL_OR_RW, offsetof(struct sums, sums), "K x F"},
             {"b", STARPU_R | SL_OPTIONAL, offsetof(struct sums, b), "1 x F"},
             {"table", STARPU_R | SL_OPTIONAL, offsetof(struct sums, table), "?", SL_INTS_32},
             {"terms", STARPU_R | SL_REPEATED, offsetof(struct sums, terms), "? x F"}},
};

/* Small whole numbers, so that sums have no rounding. */
static sl_real *whole(size_t n, unsigned seed)
{
    sl_real *x = need(n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (sl_real)((i * 7 + seed) % 11);
    }
    return x;
}

struct memory {
    sl_real *x, *b, *sums, *wanted, *terms;
    uint32_t ids[X_ROWS];
    starpu_data_handle_t x_handle, b_handle, sums_handle, ids_handle, term_handles[2];
};

static void open_memory(struct memory *m)
{
    m->x = whole(X_ROWS * F, 1);
    m->b = whole(F, 2);
    m->sums = whole(N_RUNS * F, 3);
    m->wanted = whole(N_RUNS * F, 3);
    m->terms = whole(5 * F, 4);
    for (uint32_t i = 0; i < X_ROWS; i++) {
        m->ids[i] = i % 5;
    }
    m->x_handle = rows_of(m->x, X_ROWS, F);
    m->b_handle = rows_of(m->b, 1, F);
    m->sums_handle = rows_of(m->sums, N_RUNS, F);
    m->ids_handle = vector_of(m->ids, X_ROWS, sizeof *m->ids);
    m->term_handles[0] = rows_of(m->terms, 3, F);
    m->term_handles[1] = rows_of(m->terms + 3 * F, 2, F);
}

static void close_memory(struct memory *m)
{
    starpu_data_handle_t handles[] = {m->x_handle,   m->b_handle,        m->sums_handle,
                                      m->ids_handle, m->term_handles[0], m->term_handles[1]};
    UNREGISTER(handles);
    free(m->x);
    free(m->b);
    free(m->sums);
    free(m->wanted);
    free(m->terms);
}

static const uint32_t factors[] = {3, 2};

static struct sums view_of(const struct memory *m, uint32_t n_terms)
{
    struct sums v = {.head = head,
                     .x = sl_matrix_rows(m->x_handle, ROW0, N),
                     .b = sl_matrix_of(m->b_handle),
                     .ids = sl_matrix_rows(m->ids_handle, 1, N),
                     .sums = sl_matrix_of(m->sums_handle),
                     .terms = {.n = n_terms, .handles = m->term_handles, .numbers = factors}};
    v.head.runs = &runs;
    v.head.pe = 3;
    v.head.step = 41;
    return v;
}

/* The same sums by three loops. */
static void add_up(struct memory *m, int beta, bool has_b, uint32_t n_terms)
{
    static const uint32_t term_rows[] = {0, 3, 5};
    for (uint32_t k = 0; k < N_RUNS; k++) {
        for (uint32_t c = 0; c < F; c++) {
            sl_real *to = &m->wanted[k * F + c];
            *to = beta ? *to : 0;
            for (uint32_t i = first[k] - first[0]; i < first[k + 1] - first[0]; i++) {
                *to += m->x[(ROW0 + i) * F + c] * (sl_real)m->ids[1 + i] + (has_b ? m->b[c] : 0);
            }
            for (uint32_t i = 0; i < term_rows[n_terms]; i++) {
                *to += m->terms[i * F + c] * (sl_real)factors[i / 3];
            }
        }
    }
}

/* Each segment sees its rows and its block, from the first row that the submission named. */
TEST(test_views)
{
    for (int i = 0; i < 12; i++) {
        const int beta = i % 2;
        const bool has_b = i / 2 % 2 == 1;
        const uint32_t n_terms = (uint32_t)i / 4;
        OWNED(close_memory) struct memory m;
        open_memory(&m);
        struct sums v = view_of(&m, n_terms);
        v.beta = beta;
        v.sums.is_kept = beta != 0;
        if (!has_b) {
            v.b = sl_matrix_of(NULL);
        }
        expect_ok(sl_view_submit(&sums_op, &v, SL_PRIORITY_COMPUTE));
        memset(&v, 0xff, sizeof v); /* the task has its own copy */
        bring_home(1, &m.sums_handle);
        add_up(&m, beta, has_b, n_terms);
        expect_same("SUMS", N_RUNS * F, sizeof *m.sums, m.sums, m.wanted);
    }
    expect_no_failure();
}

/* Without segments: all rows, and one block. */
TEST(test_without_runs)
{
    struct memory m;
    open_memory(&m);
    struct sums v = view_of(&m, 0);
    v.head.runs = NULL;
    v.sums = sl_matrix_rows(m.sums_handle, 2, 1);
    expect_ok(sl_view_submit(&sums_op, &v, SL_PRIORITY_COMPUTE));
    bring_home(1, &m.sums_handle);
    for (uint32_t c = 0; c < F; c++) {
        sl_real wanted = 0;
        for (uint32_t i = 0; i < N; i++) {
            wanted += m.x[(ROW0 + i) * F + c] * (sl_real)m.ids[1 + i] + m.b[c];
        }
        assert_true(m.sums[2 * F + c] == wanted);
    }
    expect_same("rows of others", 2 * F, sizeof *m.sums, m.sums, m.wanted);
    close_memory(&m);
    expect_no_failure();
}

/* The work is the bytes of all operands; the caller may say another. */
TEST(test_work)
{
    const uint64_t all = (N * F + F + N_RUNS * F + 5 * F) * sizeof(sl_real) + N * sizeof(uint32_t);
    uint32_t numbers[1000] = {0};
    OWNED(close_memory) struct memory m;
    open_memory(&m);
    starpu_data_handle_t table = vector_of(numbers, 1000, sizeof *numbers);
    for (int i = 0; i < 3; i++) {
        struct sums v = view_of(&m, 2);
        v.table = sl_matrix_of(table); /* read in a few places: not counted */
        v.sums.is_kept = i == 1;
        v.head.work = i == 2 ? 77 : 0;
        expect_ok(sl_view_submit(&sums_op, &v, SL_PRIORITY_COMPUTE));
        assert_int_equal(v.head.work, i == 2 ? 77 : all + (i == 1 ? N_RUNS * F * sizeof(sl_real) : 0));
    }
    starpu_data_unregister(table);
}

/* ---- what does not fit ---- */

static void expect_refused(struct sums *v, const char *words)
{
    assert_int_equal(sl_view_submit(&sums_op, v, SL_PRIORITY_COMPUTE), SL_EINTERNAL);
    expect_message(sl_message(), "sl_test_sums, PE 3, step 41: buffer ", words);
}

TEST(test_shapes)
{
    OWNED(close_memory) struct memory m;
    struct sums v;
    open_memory(&m);
    starpu_data_handle_t wide = rows_of(m.x, N_RUNS, F + 1);
    starpu_data_handle_t tall = rows_of(m.x, N_RUNS + 1, F);
    v = view_of(&m, 0);
    v.sums = sl_matrix_of(wide);
    expect_refused(&v, "'sums' is [3 x 5]; expected [K x F], K = 3, F = 4");
    v.sums = sl_matrix_of(tall);
    expect_refused(&v, "'sums' is [4 x 4]; expected [K x F], K = 3, F = 4");
    v = view_of(&m, 0);
    v.b = sl_matrix_of(tall);
    expect_refused(&v, "'b' is [4 x 4]; expected [1 x F], F = 4");
    v = view_of(&m, 0);
    v.ids = sl_matrix_rows(m.ids_handle, 1, N - 1);
    expect_refused(&v, "'ids' is [8 x 1]; expected [R], R = 9");
    v.ids = sl_matrix_rows(m.ids_handle, X_ROWS - N + 1, N);
    expect_refused(&v, "'ids': rows 4 to 13; expected at most 12 rows");
    v = view_of(&m, 0);
    v.x = sl_matrix_of(m.x_handle);
    expect_refused(&v, "'x' has 12 rows; expected the 9 rows of 3 segments");
    starpu_data_handle_t second = m.term_handles[1];
    m.term_handles[1] = wide;
    v = view_of(&m, 2);
    expect_refused(&v, "'terms' is [3 x 5]; expected [? x F], F = 4");
    m.term_handles[1] = second;
    starpu_data_unregister(tall);
    starpu_data_unregister(wide);
}

TEST(test_entries)
{
    OWNED(close_memory) struct memory m;
    struct sums v;
    open_memory(&m);
    uint64_t numbers[N * F] = {0};
    starpu_data_handle_t halves = sl_matrix_over(numbers, 1, F, SL_DTYPE_BF16);
    starpu_data_handle_t longs = vector_of(numbers, N, sizeof *numbers);
    v = view_of(&m, 0);
    v.b = sl_matrix_of(halves);
    expect_refused(&v, "'b' has entries of bfloat16; expected float");
    v = view_of(&m, 0);
    v.ids = sl_matrix_of(longs);
    expect_refused(&v, "'ids' has entries of 8 bytes; expected uint32");
    starpu_data_unregister(halves);
    starpu_data_unregister(longs);
}

TEST(test_modes)
{
    static struct sl_operation overwriting_op;
    OWNED(close_memory) struct memory m;
    struct sums v;
    open_memory(&m);
    v = view_of(&m, 0);
    v.x = sl_matrix_of(NULL);
    expect_refused(&v, "'x' has no handle");
    overwriting_op = sums_op;
    overwriting_op.codelet.model = NULL;
    overwriting_op.role[2].mode = STARPU_W;
    v = view_of(&m, 0);
    v.sums.is_kept = true;
    assert_int_equal(sl_view_submit(&overwriting_op, &v, SL_PRIORITY_COMPUTE), SL_EINTERNAL);
    expect_message(sl_message(), "sl_test_sums, PE 3, step 41: ", "'sums' was added with mode RW; expected W");
}

/* An output keeps the rows that a task does not write. */
TEST(test_parts_are_kept)
{
    const struct sl_buffer_role *out = &sums_op.role[2];
    OWNED(close_memory) struct memory m;
    open_memory(&m);
    const struct sl_matrix all = sl_matrix_of(m.sums_handle);
    const struct sl_matrix same = sl_matrix_rows(m.sums_handle, 0, N_RUNS);
    const struct sl_matrix some = sl_matrix_rows(m.sums_handle, 1, N_RUNS - 1);
    assert_int_equal(sl_operand_mode(out, &all), STARPU_W);
    assert_int_equal(sl_operand_mode(out, &same), STARPU_W);
    assert_int_equal(sl_operand_mode(out, &some), STARPU_RW);
}

/* ---- slices ---- */

/* Adds to each slice its number. */
struct raises {
    struct sl_task_args head;
    struct sl_matrices slices;
};

static enum sl_status raise_slices(const void *view, const void *stream)
{
    const struct raises *v = view;
    (void)stream;
    for (uint32_t k = 0; k < v->slices.n; k++) {
        sl_real *rows = v->slices.data[k];
        assert_int_equal(rows == NULL, v->slices.n_rows[k] == 0);
        for (uint32_t i = 0; i < v->slices.n_rows[k] * F; i++) {
            rows[i] += (sl_real)v->slices.numbers[k];
        }
    }
    return SL_OK;
}

static struct sl_operation raise_op = {
    SL_PLAIN_OPERATION("sl_test_raise", SL_STAGE_DENSE),
    SL_BODY(raise_slices, struct raises),
    .role = {{"slices", STARPU_RW | SL_REPEATED | SL_OPTIONAL, offsetof(struct raises, slices), "? x F"}},
};

/* Slices of one matrix are one buffer, also across empty slices. */
TEST(test_slices)
{
    const uint32_t numbers[] = {100, 10, 1000, 20, 1000, 30};
    struct memory m;
    open_memory(&m);
    struct sl_slice slices[] = {{m.sums_handle, 0, 1}, {m.x_handle, 1, 2}, {NULL, 0, 0},
                                {m.x_handle, 3, 1},    {m.x_handle, 4, 0}, {m.x_handle, 11, 1}};
    struct raises v = {.head = head, .slices = {.n = 6, .slices = slices, .numbers = numbers}};
    FREED sl_real *x = whole(X_ROWS * F, 1);
    expect_ok(sl_view_submit(&raise_op, &v, SL_PRIORITY_COMPUTE));
    bring_home(1, &m.x_handle);
    bring_home(1, &m.sums_handle);
    for (uint32_t i = 0; i < X_ROWS * F; i++) {
        static const sl_real added[X_ROWS] = {0, 10, 10, 20, 0, 0, 0, 0, 0, 0, 0, 30};
        x[i] += added[i / F];
    }
    for (uint32_t i = 0; i < N_RUNS * F; i++) {
        m.wanted[i] += i < F ? 100 : 0;
    }
    expect_same("X", X_ROWS * F, sizeof *x, m.x, x);
    expect_same("SUMS", N_RUNS * F, sizeof *x, m.sums, m.wanted);
    slices[5].n_rows = 2;
    assert_int_equal(sl_view_submit(&raise_op, &v, SL_PRIORITY_COMPUTE), SL_EINTERNAL);
    expect_message(sl_message(), "sl_test_raise", "'slices': rows 11 to 13; expected at most 12 rows");
    close_memory(&m);
    expect_no_failure();
}

/* ---- dtypes of rows ---- */

struct copies {
    struct sl_task_args head;
    struct sl_matrix x, y, out;
};

static enum sl_status copy(const void *view, const void *stream)
{
    (void)view;
    (void)stream;
    return SL_OK;
}

static struct sl_operation copy_op = {
    SL_PLAIN_OPERATION("sl_test_copy", SL_STAGE_DENSE),
    SL_BODY(copy, struct copies),
    .role = {{"out", STARPU_W, offsetof(struct copies, out), "D x F", SL_ROWS_OR_REALS},
             {"x", STARPU_R, offsetof(struct copies, x), "D x F", SL_ROWS},
             {"y", STARPU_R, offsetof(struct copies, y), "D x F", SL_ROWS}},
};

/* bf16 rows give bf16 rows or numbers; other rows give numbers only. */
TEST(test_dtypes)
{
    static const struct {
        enum sl_dtype x, y, out;
        const char *words; /* NULL: fits */
    } cases[] = {
        {SL_DTYPE_REAL, SL_DTYPE_REAL, SL_DTYPE_REAL, NULL},
        {SL_DTYPE_BF16, SL_DTYPE_BF16, SL_DTYPE_REAL, NULL},
        {SL_DTYPE_BF16, SL_DTYPE_BF16, SL_DTYPE_BF16, NULL},
        {SL_DTYPE_F16, SL_DTYPE_F16, SL_DTYPE_REAL, NULL},
        {SL_DTYPE_REAL, SL_DTYPE_REAL, SL_DTYPE_BF16, "'out' has entries of bfloat16; expected float"},
        {SL_DTYPE_REAL, SL_DTYPE_BF16, SL_DTYPE_REAL, "'y' has entries of bfloat16; expected float"},
        {SL_DTYPE_BF16, SL_DTYPE_REAL, SL_DTYPE_BF16, "'y' has entries of float"},
        {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_REAL, "'y' has entries of bfloat16; expected float16"},
        {SL_DTYPE_U32, SL_DTYPE_U32, SL_DTYPE_REAL, "'x' has entries of uint32; expected float"},
        {SL_N_DTYPES, SL_DTYPE_REAL, SL_DTYPE_REAL, "'x' has entries of no dtype; expected float"},
    };
    sl_real memory[3][N * F] = {{0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        starpu_data_handle_t h[] = {sl_matrix_over(memory[0], N, F, cases[i].x),
                                    sl_matrix_over(memory[1], N, F, cases[i].y),
                                    sl_matrix_over(memory[2], N, F, cases[i].out)};
        struct copies v = {.head = head, .x = sl_matrix_of(h[0]), .y = sl_matrix_of(h[1]), .out = sl_matrix_of(h[2])};
        enum sl_status st = sl_view_submit(&copy_op, &v, SL_PRIORITY_COMPUTE);
        assert_int_equal(st, cases[i].words == NULL ? SL_OK : SL_EINTERNAL);
        if (cases[i].words != NULL) {
            expect_message(sl_message(), "sl_test_copy, PE 0, step 7: ", cases[i].words);
        }
        UNREGISTER(h);
    }
}

/* ---- memory ---- */

TEST(test_out_of_memory)
{
    OWNED(close_memory) struct memory m;
    open_memory(&m);
    struct sums v = view_of(&m, 2);
    long live = sl_memory_live();
    sl_memory_ration(0);
    assert_int_equal(sl_view_submit(&sums_op, &v, SL_PRIORITY_COMPUTE), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_int_equal(sl_memory_live(), live);
}

static int start(void **state)
{
    (void)state;
    fixture_start(3);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop();
    return 0;
}

TEST_MAIN(start, stop)
