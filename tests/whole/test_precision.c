/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows in bf16 (--precision): numbers, sums and products of them, and whole runs: the partition is invisible but
 * for rounding, the same run twice is the same to the bit, bytes halve, and what a run learns is what one in float
 * learns. And what CUDA kernels make of such rows, beside the CPU's; of pure copies codelets' own tests see that.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sets_fixture.h"

#include "codelets/rows/activate.h"
#include "codelets/rows/dense.h"
#include "codelets/rows/gemm.h"
#include "codelets/sums/aggregate.h"
#include "codelets/sums/attend.h"
#include "data/load.h"
#include "support/bf16.h"
#ifdef SL_CUDA
#include <cublas_v2.h>

#include "tests/support/cuda_fixture.h"
#endif

#define N_STEPS 5
#define SEEDS 252 /* a step's, P * B: divisible by 1, 2, 3, 4 and 7 */

/* ---- numbers ---- */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TEST(test_numbers)
{
    static const struct {
        uint32_t bits;
        sl_bf16 rounded;
    } cases[] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, /* halfway, to the even one below */
        {0x3f818000, 0x3f82},                       /* halfway, to the even one above */
        {0x3f808001, 0x3f81}, {0x3f817fff, 0x3f81}, {0x80000000, 0x8000},
        {0xbf80c000, 0xbf81}, {0x3fffffff, 0x4000}, /* into the next binade */
        {0x00008001, 0x0001},                       /* a small one */
        {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sl_bf16_of((sl_real)from_bits(cases[i].bits)), cases[i].rounded);
    }
    assert_true(isnan((double)sl_bf16_real(sl_bf16_of((sl_real)from_bits(0x7f800001)))));
    assert_true(isnan((double)sl_bf16_real(sl_bf16_of((sl_real)from_bits(0xffffffff)))));
}

/* n numbers in bf16, and the same in sl_real. */
static sl_bf16 *make_numbers(uint64_t seed, size_t n, sl_real **wide_out)
{
    sl_real *wide = need(n, sizeof *wide);
    sl_bf16 *numbers = need(n, sizeof *numbers);
    for (size_t i = 0; i < n; i++) {
        wide[i] = (sl_real)noise(seed, i);
    }
    sl_bf16_round(n, wide, numbers);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(numbers[i], sl_bf16_of(wide[i]));
    }
    sl_bf16_widen(n, numbers, wide);
    for (size_t i = 0; i < n; i++) {
        assert_true(wide[i] == sl_bf16_real(numbers[i]));
    }
    *wide_out = wide;
    return numbers;
}

/* ---- products ---- */

/* C = op(A) op(B) + beta C beside sums in double; twice the same bits. */
static void check_product(const uint32_t size[3], int ops, int beta)
{
    uint32_t m = size[0];
    uint32_t n = size[1];
    uint32_t k = size[2];
    FREED sl_real *wide_a;
    FREED sl_real *wide_b;
    FREED sl_bf16 *a = make_numbers(1, (size_t)m * k, &wide_a);
    FREED sl_bf16 *b = make_numbers(2, (size_t)k * n, &wide_b);
    struct sl_factor fa = {a, ops & 1 ? m : k, ops & 1, true};
    struct sl_factor fb = {b, ops & 2 ? k : n, ops >> 1 & 1, true};
    sl_real *c[2];
    for (int time = 0; time < 2; time++) {
        c[time] = need((size_t)m * n, sizeof **c);
        for (size_t i = 0; i < (size_t)m * n; i++) {
            c[time][i] = beta ? (sl_real)noise(3, i) : (sl_real)NAN;
        }
        expect_ok(sl_gemm_bf16(m, n, k, fa, fb, beta, c[time]));
    }
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < n; j++) {
            double wanted = beta ? noise(3, (size_t)i * n + j) : 0;
            for (uint32_t t = 0; t < k; t++) {
                wanted +=
                    (double)wide_a[ops & 1 ? t * m + i : i * k + t] * (double)wide_b[ops & 2 ? j * k + t : t * n + j];
            }
            expect_near_at("C", (size_t)i * n + j, (double)c[0][(size_t)i * n + j], wanted, 1e-5 * k);
        }
    }
    expect_same("C", (size_t)m * n, sizeof **c, c[0], c[1]);
    free(c[0]);
    free(c[1]);
}

TEST(test_products)
{
    static const uint32_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {65, 40, 33}, {130, 96, 100}, {17, 129, 300}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int ops = 0; ops < 4; ops++) {
            check_product(sizes[i], ops, 0);
            check_product(sizes[i], ops, 1);
        }
    }
}

/* ---- sums: those of rows in bf16 are, to the bit, those of the same rows in float ---- */

enum { ROWS = 50, SUMS = 20, MAX_EDGES = SUMS * 9 };

/* Sum d is of d % 10 rows. */
struct edges {
    uint32_t offsets[SUMS + 1], sources[MAX_EDGES];
    uint32_t back_offsets[ROWS + 1], back_rows[MAX_EDGES];
};

static void make_block(struct edges *out)
{
    uint32_t n = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < SUMS; d++) {
        for (uint32_t i = 0; i < d % 10; i++) {
            out->sources[out->offsets[d] + i] = (7 * d + 13 * i) % ROWS;
        }
        out->offsets[d + 1] = out->offsets[d] + d % 10;
    }
    for (uint32_t t = 0; t < ROWS; t++) {
        for (uint32_t d = 0; d < SUMS; d++) {
            for (uint32_t e = out->offsets[d]; e < out->offsets[d + 1]; e++) {
                out->back_rows[n] = d;
                n += out->sources[e] == t;
            }
        }
        out->back_offsets[t + 1] = n;
    }
}

/* A list for the only PE: it asks for all rows, in order. */
static void list_rows(uint32_t list[2 + ROWS])
{
    list[0] = 0;
    list[1] = ROWS;
    for (uint32_t r = 0; r < ROWS; r++) {
        list[2 + r] = r;
    }
}

/* The rows of one matrix, and as sources of the only PE. inverse: list_rows, where the rows are. */
static struct sl_chunks matrix_alone(void **rows)
{
    return (struct sl_chunks){.each = {.n = 1, .data = rows}, .shift = 31};
}

static struct sl_sources rows_alone(enum sl_dtype dtype, uint32_t *inverse, void **rows)
{
    static const uint32_t zero;
    static void *none;
    return (struct sl_sources){.inverse = {.data = inverse},
                               .rows = matrix_alone(rows),
                               .packed = {.n = 1, .numbers = &zero, .data = &none},
                               .dtype = dtype};
}

TEST(test_sums)
{
    enum { COLUMNS = 37 };
    FREED sl_real *wide;
    FREED sl_bf16 *rows = make_numbers(4, (size_t)ROWS * COLUMNS, &wide);
    struct edges block;
    uint32_t inverse[2 + ROWS];
    sl_real got[SUMS * COLUMNS];
    sl_real wanted[SUMS * COLUMNS];
    make_block(&block);
    struct sl_edges edges = {.n_rows = SUMS, .offsets = block.offsets, .sources = block.sources};
    list_rows(inverse);
    const struct sl_sources wide_x = rows_alone(SL_DTYPE_REAL, inverse, (void *[]){wide});
    const struct sl_sources x = rows_alone(SL_DTYPE_BF16, inverse, (void *[]){rows});
    for (size_t i = 0; i < SUMS * COLUMNS; i++) {
        got[i] = wanted[i] = (sl_real)noise(5, i);
    }
    for (int beta = 1; beta >= 0; beta--) {
        edges.x = &wide_x;
        expect_ok(sl_aggregate_forward_cpu(&edges, COLUMNS, beta, COLUMNS, SL_DTYPE_REAL, wanted));
        edges.x = &x;
        expect_ok(sl_aggregate_forward_cpu(&edges, COLUMNS, beta, COLUMNS, SL_DTYPE_REAL, got));
        expect_same("sums", SUMS * COLUMNS, sizeof *got, got, wanted);
    }
}

/* ---- attention: so it is ---- */

enum { HEADS = 2, WIDTH = 19 * HEADS, U_COLUMNS = WIDTH + 2 * HEADS };

struct attended {
    sl_real z[SUMS * WIDTH], lse[SUMS * HEADS], sides[SUMS * 4 * HEADS];
    sl_real back[ROWS * U_COLUMNS], gu[ROWS * U_COLUMNS]; /* back: in sl_real only */
    sl_bf16 rounded[ROWS * U_COLUMNS];                    /* back, rounded */
};

/* All kernels one after the other. */
static void attend(const struct edges *block, enum sl_dtype dtype, void *u, sl_real *gz, struct attended *out)
{
    const struct sl_heads heads = {WIDTH, HEADS, 0};
    const uint32_t zero = 0;
    const uint32_t n = ROWS;
    uint32_t inverse[2 + ROWS];
    list_rows(inverse);
    const struct sl_sources x = rows_alone(dtype, inverse, &u);
    const struct sl_chunks gz_rows = matrix_alone((void *[]){gz});
    const struct sl_chunks sides = matrix_alone((void *[]){out->sides});
    const struct sl_edges edges = {.n_rows = SUMS, .offsets = block->offsets, .sources = block->sources, .x = &x};
    const struct sl_attend_back by_source = {
        .heads = heads, .offsets = block->back_offsets, .rows = block->back_rows, .gz = &gz_rows, .sides = &sides};
    const struct sl_gradient g = {0, ROWS, U_COLUMNS, out->gu, NULL};
    const struct sl_asked asked = {inverse, 1, 0};
    sl_attend_forward_cpu(heads, &edges, 0, out->z, out->lse);
    sl_attend_sides_cpu(heads, &edges, gz, out->lse, out->sides, NULL);
    if (dtype == SL_DTYPE_REAL) {
        expect_ok(sl_attend_backward_cpu(&by_source, 1, &n, &zero, dtype, &u, (void *[]){out->back}));
        sl_bf16_round(ROWS * U_COLUMNS, out->back, out->rounded);
    } else {
        expect_ok(sl_attend_backward_cpu(&by_source, 1, &n, &zero, dtype, &u, (void *[]){out->rounded}));
    }
    sl_attend_self_cpu(&by_source, SUMS, dtype, u, &g);
    sl_attend_own_cpu(&by_source, 0, ROWS, &asked, dtype, u, &g);
}

/* A block, and what comes of rows of U of bf16 and of the same in sl_real. */
struct attention {
    struct edges edges;
    sl_bf16 *rows;
    sl_real gz[SUMS * WIDTH];
    struct attended wide, rounded;
};

static struct attention *make_attention(void)
{
    struct attention *a = need(1, sizeof *a);
    sl_real *wide;
    a->rows = make_numbers(6, ROWS * U_COLUMNS, &wide);
    make_block(&a->edges);
    for (size_t i = 0; i < SUMS * WIDTH; i++) {
        a->gz[i] = (sl_real)noise(7, i);
    }
    attend(&a->edges, SL_DTYPE_REAL, wide, a->gz, &a->wide);
    attend(&a->edges, SL_DTYPE_BF16, a->rows, a->gz, &a->rounded);
    free(wide);
    return a;
}

static void free_attention(struct attention *a)
{
    free(a->rows);
    free(a);
}

TEST(test_attention)
{
    struct attention *a = make_attention();
    expect_same("Z", SUMS * WIDTH, sizeof(sl_real), a->rounded.z, a->wide.z);
    expect_same("lse", SUMS * HEADS, sizeof(sl_real), a->rounded.lse, a->wide.lse);
    expect_same("sides", SUMS * 4 * HEADS, sizeof(sl_real), a->rounded.sides, a->wide.sides);
    expect_same("what goes back", ROWS * U_COLUMNS, sizeof(sl_bf16), a->rounded.rounded, a->wide.rounded);
    expect_same("GU", ROWS * U_COLUMNS, sizeof(sl_real), a->rounded.gu, a->wide.gu);
    free_attention(a);
}

/* ---- on a device ---- */

#ifdef SL_CUDA
/* n numbers of the device that are rounded to bf16: each is one of the two next to what is wanted, but for what is
 * next to nothing. */
static void expect_rounded(const char *label, size_t n, void *data, const sl_real *wanted)
{
    FREED sl_bf16 *got = need(n, sizeof *got);
    from_device(got, data, n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        assert_int_not_equal(got[i], 0xa5a5); /* which is next to nothing, and what device_room left */
        expect_near_at(label, i, (double)sl_bf16_real(got[i]), (double)wanted[i],
                       0x1p-8 * fabs((double)wanted[i]) + 1e-5);
    }
}

/* n numbers of the device within 1e-5, of themselves where they are larger than one. */
static void expect_close_to(const char *label, size_t n, void *data, const sl_real *wanted)
{
    FREED sl_real *got = need(n, sizeof *got);
    from_device(got, data, n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        expect_near_at(label, i, (double)got[i], (double)wanted[i], 1e-5 * fmax(1, fabs((double)wanted[i])));
    }
}

TEST(test_attention_on_device)
{
    need_device();
    struct attention *a = make_attention();
    const struct attended *wanted = &a->rounded;
    const struct sl_heads heads = {WIDTH, HEADS, 0};
    const uint32_t n = ROWS;
    const uint32_t zero = 0;
    struct edges *there = on_device(&a->edges, sizeof a->edges);
    uint32_t list[2 + ROWS];
    list_rows(list);
    uint32_t *inverse = on_device(list, sizeof list);
    sl_real *u_there = on_device(a->rows, ROWS * U_COLUMNS * sizeof *a->rows);
    sl_real *gz_there = on_device(a->gz, sizeof a->gz);
    sl_real *z = device_room(SUMS * WIDTH * sizeof *z);
    sl_real *lse = device_room(SUMS * HEADS * sizeof *lse);
    sl_real *sides = device_room(SUMS * 4 * HEADS * sizeof *sides);
    sl_real *back = device_room(ROWS * U_COLUMNS * sizeof(sl_bf16));
    sl_real *gu = device_room(ROWS * U_COLUMNS * sizeof *gu);
    const struct sl_sources x = rows_alone(SL_DTYPE_BF16, inverse, (void *[]){u_there});
    const struct sl_chunks gz_rows = matrix_alone((void *[]){gz_there});
    const struct sl_chunks sides_rows = matrix_alone((void *[]){sides});
    const struct sl_edges edges = {.n_rows = SUMS, .offsets = there->offsets, .sources = there->sources, .x = &x};
    const struct sl_attend_back block = {
        .heads = heads, .offsets = there->back_offsets, .rows = there->back_rows, .gz = &gz_rows, .sides = &sides_rows};
    struct sl_gradient g = {0, ROWS, U_COLUMNS, gu, NULL};
    const struct sl_asked asked = {inverse, 1, 0};
    expect_launched(sl_attend_forward_cuda(NULL, heads, &edges, 0, z, lse));
    expect_launched(sl_attend_sides_cuda(NULL, heads, &edges, gz_there, lse, sides, NULL));
    expect_launched(
        sl_attend_backward_cuda(NULL, &block, 1, &n, &zero, SL_DTYPE_BF16, (void *[]){u_there}, (void *[]){back}));
    expect_launched(sl_accumulate_begin_cuda(NULL, &g));
    expect_launched(sl_attend_self_cuda(NULL, &block, SUMS, SL_DTYPE_BF16, u_there, &g));
    expect_launched(sl_attend_own_cuda(NULL, &block, 0, ROWS, &asked, SL_DTYPE_BF16, u_there, &g));
    expect_close_to("Z", SUMS * WIDTH, z, wanted->z);
    expect_close_to("lse", SUMS * HEADS, lse, wanted->lse);
    expect_close_to("sides", SUMS * 4 * HEADS, sides, wanted->sides);
    expect_rounded("what goes back", ROWS * U_COLUMNS, back, a->wide.back);
    expect_close_to("GU", ROWS * U_COLUMNS, gu, wanted->gu);
    cudaFree(there);
    cudaFree(inverse);
    cudaFree(u_there);
    cudaFree(gz_there);
    free_attention(a);
}

/* ---- sums on a device: to the bit, but for a list that is added in slices ---- */

enum { OWN = 64, OWN_SHIFT = 5, PACKED = 56, SOURCES = OWN + PACKED, LISTS = 22, LONGEST = 13000 };

/* Destination d has d sources, the last one LONGEST; OWN of the positions are the first PE's rows, in two chunks
 * and another order, PACKED the second's, which it packed. */
struct sums {
    uint32_t width;
    uint32_t offsets[LISTS + 1], back_offsets[SOURCES + 1];
    uint32_t *sources, *back_rows;
    uint32_t inverse[3 + OWN];
    sl_vertex destinations[LISTS], ids[SOURCES];
    sl_real factors[2 * SOURCES];
    sl_bf16 *rows; /* OWN, then PACKED */
    sl_real *wide;
};

static struct sums *make_sums(uint32_t width)
{
    struct sums *s = need(1, sizeof *s);
    s->width = width;
    for (uint32_t d = 0; d < LISTS; d++) {
        s->offsets[d + 1] = s->offsets[d] + (d + 1 < LISTS ? d : LONGEST);
        s->destinations[d] = d;
    }
    s->sources = need(s->offsets[LISTS], sizeof *s->sources);
    s->back_rows = need(s->offsets[LISTS] + 1, sizeof *s->back_rows); /* the last is written once more */
    for (uint32_t e = 0; e < s->offsets[LISTS]; e++) {
        s->sources[e] = (7 * e + e / 97) % SOURCES;
    }
    for (uint32_t t = 0, n = 0; t < SOURCES; t++) {
        for (uint32_t d = 0; d < LISTS; d++) {
            for (uint32_t e = s->offsets[d]; e < s->offsets[d + 1]; e++) {
                s->back_rows[n] = d;
                n += s->sources[e] == t;
            }
        }
        s->back_offsets[t + 1] = n;
    }
    s->inverse[1] = s->inverse[2] = OWN;
    for (uint32_t t = 0; t < SOURCES; t++) {
        s->ids[t] = t;
        s->factors[2 * t] = (sl_real)(0.3 + 0.2 * noise(8, t));
        s->factors[2 * t + 1] = (sl_real)(t % 9 + 1);
        if (t < OWN) {
            s->inverse[3 + t] = (5 * t + 3) % OWN;
        }
    }
    s->rows = make_numbers(9, (size_t)SOURCES * width, &s->wide);
    return s;
}

static void free_sums(struct sums *s)
{
    free(s->sources);
    free(s->back_rows);
    free(s->rows);
    free(s->wide);
    free(s);
}

/* The same on the device; its pointers are to be released. */
struct sums_there {
    uint32_t *offsets, *sources, *back_offsets, *back_rows, *inverse;
    sl_vertex *destinations, *ids;
    sl_real *factors, *rows, *gm;
};

static struct sums_there put_there(const struct sums *s)
{
    const uint32_t n = s->offsets[LISTS];
    return (struct sums_there){.offsets = on_device(s->offsets, sizeof s->offsets),
                               .sources = on_device(s->sources, n * sizeof *s->sources),
                               .back_offsets = on_device(s->back_offsets, sizeof s->back_offsets),
                               .back_rows = on_device(s->back_rows, n * sizeof *s->back_rows),
                               .inverse = on_device(s->inverse, sizeof s->inverse),
                               .destinations = on_device(s->destinations, sizeof s->destinations),
                               .ids = on_device(s->ids, sizeof s->ids),
                               .factors = on_device(s->factors, sizeof s->factors),
                               .rows = on_device(s->rows, (size_t)SOURCES * s->width * sizeof *s->rows),
                               .gm = on_device(s->wide, (size_t)LISTS * s->width * sizeof *s->wide)};
}

static void release(const struct sums_there *t)
{
    void *all[] = {t->offsets,      t->sources, t->back_offsets, t->back_rows, t->inverse,
                   t->destinations, t->ids,     t->factors,      t->rows,      t->gm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cudaFree(all[i]);
    }
}

/* Row r of rows of bf16, of which pointers to sl_real are told. */
static sl_real *row_there(const struct sums *s, const struct sums_there *t, uint32_t r)
{
    return (sl_real *)(void *)((sl_bf16 *)(void *)t->rows + (size_t)r * s->width);
}

/* M, of sums that are added to what is there where beta is 1: all but the last list's to the bit. Releases m. */
static void expect_sums(const struct sums *s, enum sl_dtype m_dtype, void *m, const sl_real *wanted)
{
    const size_t exact = (size_t)(LISTS - 1) * s->width;
    const size_t all = (size_t)LISTS * s->width;
    FREED sl_bf16 *rounded = need(all, sizeof *rounded);
    FREED void *got = need(all, sizeof(sl_real));
    from_device(got, m, sl_dtype_bytes(m_dtype, all));
    sl_bf16_round(all, wanted, rounded);
    if (m_dtype == SL_DTYPE_BF16) {
        expect_same("M", exact, sizeof *rounded, got, rounded);
    } else {
        expect_same("M", exact, sizeof *wanted, got, wanted);
    }
    for (size_t i = exact; i < all; i++) {
        const double tolerance = 1e-4 + (m_dtype == SL_DTYPE_BF16 ? 0x1p-8 * fabs((double)wanted[i]) : 0);
        expect_near_at("M", i, (double)sl_entry(m_dtype, got, (uint32_t)i), (double)wanted[i], tolerance);
    }
}

/* What M has before: noise, and the same in bf16. */
static void *before(enum sl_dtype dtype, size_t n, sl_real *wanted)
{
    sl_bf16 *rounded = need(n, sizeof *rounded);
    fill(n, 10, wanted);
    sl_bf16_round(n, wanted, rounded);
    if (dtype == SL_DTYPE_BF16) {
        sl_bf16_widen(n, rounded, wanted);
    }
    void *there = on_device(dtype == SL_DTYPE_BF16 ? (const void *)rounded : wanted, sl_dtype_bytes(dtype, n));
    free(rounded);
    return there;
}

/* The sums' rows as sources of two owners. All addresses are of one memory. */
static struct sl_sources two_owners(uint32_t *inverse, void *own[2], void *packed[2])
{
    static const uint32_t first[] = {0, OWN};
    return (struct sl_sources){.inverse = {.data = inverse},
                               .rows = {.each = {.n = 2, .data = own}, .shift = OWN_SHIFT},
                               .packed = {.n = 2, .numbers = first, .data = packed},
                               .n_sources = SOURCES,
                               .dtype = SL_DTYPE_BF16};
}

/* Sums of a block, and the same as of two parts. */
static void check_sums(const struct sums *s, const struct sums_there *t, bool weighted, int beta, enum sl_dtype m_dtype)
{
    const struct sl_sources x = two_owners((uint32_t *)(uintptr_t)s->inverse,
                                           (void *[]){s->rows, s->rows + (size_t)(1 << OWN_SHIFT) * s->width},
                                           (void *[]){NULL, s->rows + (size_t)OWN * s->width});
    const struct sl_sources x_there = two_owners(t->inverse, (void *[]){t->rows, row_there(s, t, 1 << OWN_SHIFT)},
                                                 (void *[]){NULL, row_there(s, t, OWN)});
    struct sl_weights weights = {s->factors, s->destinations, s->ids, 0, (sl_real)0.8};
    struct sl_weights weights_there = {t->factors, t->destinations, t->ids, 0, (sl_real)0.8};
    struct sl_edges edges = {
        .n_rows = LISTS, .offsets = s->offsets, .sources = s->sources, .weights = weighted ? &weights : NULL, .x = &x};
    struct sl_edges edges_there = edges;
    edges_there.x = &x_there;
    edges_there.offsets = t->offsets;
    edges_there.sources = t->sources;
    edges_there.weights = weighted ? &weights_there : NULL;
    const size_t n = (size_t)LISTS * s->width;
    FREED sl_real *wanted = need(n, sizeof *wanted);
    void *m = before(m_dtype, n, wanted);
    expect_ok(sl_aggregate_forward_cpu(&edges, s->width, beta, s->width, SL_DTYPE_REAL, wanted));
    expect_launched(sl_aggregate_forward_cuda(NULL, &edges_there, s->width, beta, s->width, m_dtype, m));
    expect_sums(s, m_dtype, m, wanted);
}

/* Both parts' rows in order; with weights destinations are the first ids. */
static void check_full_sums(const struct sums *s, const struct sums_there *t, bool weighted, int beta,
                            enum sl_dtype m_dtype)
{
    const uint32_t first[] = {0, OWN, SOURCES};
    struct sl_weights weights = {s->factors, NULL, NULL, 0, (sl_real)0.8};
    struct sl_weights weights_there = {t->factors, NULL, NULL, 0, (sl_real)0.8};
    uint64_t offsets[LISTS + 1];
    for (uint32_t d = 0; d <= LISTS; d++) {
        offsets[d] = s->offsets[d];
    }
    uint64_t *offsets_there = on_device(offsets, sizeof offsets);
    uint32_t *first_there = on_device(first, sizeof first);
    void *chunk[] = {s->rows, s->rows + (size_t)(1 << OWN_SHIFT) * s->width, s->rows + (size_t)OWN * s->width};
    void *chunk_there[] = {t->rows, row_there(s, t, 1 << OWN_SHIFT), row_there(s, t, OWN)};
    struct sl_parts parts = {.first = {.data = (void *)(uintptr_t)first},
                             .chunks = {.n = 3, .data = chunk},
                             .dtype = SL_DTYPE_BF16,
                             .n_parts = 2,
                             .n_chunks = {2, 1},
                             .shift = {OWN_SHIFT, 31},
                             .width = {s->width, s->width}};
    struct sl_parts parts_there = parts;
    parts_there.first.data = first_there;
    parts_there.chunks.data = chunk_there;
    const struct sl_edges full = {.n_rows = LISTS,
                                  .sources = s->sources,
                                  .weights = weighted ? &weights : NULL,
                                  .part_offsets = offsets,
                                  .parts = &parts};
    const struct sl_edges full_there = {.n_rows = LISTS,
                                        .sources = t->sources,
                                        .weights = weighted ? &weights_there : NULL,
                                        .part_offsets = offsets_there,
                                        .parts = &parts_there};
    const size_t n = (size_t)LISTS * s->width;
    FREED sl_real *wanted = need(n, sizeof *wanted);
    void *m = before(m_dtype, n, wanted);
    expect_ok(sl_aggregate_forward_cpu(&full, s->width, beta, s->width, SL_DTYPE_REAL, wanted));
    expect_launched(sl_aggregate_forward_cuda(NULL, &full_there, s->width, beta, s->width, m_dtype, m));
    expect_sums(s, m_dtype, m, wanted);
    cudaFree(offsets_there);
    cudaFree(first_there);
}

/* Gradients that go back in bf16, to two owners, and then what was sent so. */
static void check_gradients(const struct sums *s, const struct sums_there *t)
{
    const uint32_t t0[] = {3, OWN};
    const uint32_t n[] = {OWN - 3, PACKED};
    const struct sl_chunks gm = matrix_alone((void *[]){s->wide});
    const struct sl_chunks gm_there = matrix_alone((void *[]){t->gm});
    struct sl_transposed block = {s->back_offsets, s->back_rows, s->offsets, NULL, NULL, NULL, NULL};
    struct sl_transposed block_there = {t->back_offsets, t->back_rows, t->offsets, NULL, NULL, NULL, NULL};
    void *packed[2];
    for (int k = 0; k < 2; k++) {
        packed[k] = device_room((size_t)n[k] * s->width * sizeof(sl_bf16));
    }
    expect_launched(
        sl_aggregate_backward_cuda(NULL, &block_there, &gm_there, s->width, 2, t0, n, SL_DTYPE_BF16, packed));
    struct sl_gradient g = {10, 30, s->width, noisy((size_t)30 * s->width, 11), NULL};
    struct sl_gradient g_there = {10, 30, s->width, on_device(g.rows, (size_t)30 * s->width * sizeof *g.rows), NULL};
    const struct sl_asked asked = {s->inverse, 2, 0};
    const struct sl_asked asked_there = {t->inverse, 2, 0};
    for (int k = 0; k < 2; k++) {
        const size_t n_entries = (size_t)n[k] * s->width;
        FREED sl_real *wanted = need(n_entries, sizeof *wanted);
        FREED sl_bf16 *rounded = need(n_entries, sizeof *rounded);
        void *to = wanted;
        expect_ok(sl_aggregate_backward_cpu(&block, &gm, s->width, 1, &t0[k], &n[k], SL_DTYPE_REAL, &to));
        sl_bf16_round(n_entries, wanted, rounded);
        if (k == 0) {
            sl_accumulate_sent_cpu(n[k], &asked, SL_DTYPE_BF16, rounded, 1, &g);
            expect_launched(sl_accumulate_sent_cuda(NULL, n[k], &asked_there, SL_DTYPE_BF16, packed[k], 1, &g_there));
        }
        expect_on_device("what goes back", packed[k], n_entries, sizeof *rounded, rounded);
    }
    expect_on_device("G", g_there.rows, (size_t)30 * s->width, sizeof *g.rows, g.rows);
    free(g.rows);
}

TEST(test_sums_on_device)
{
    static const uint32_t widths[] = {1, 3, 5, 40, 41, 128};
    need_device();
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct sums *s = make_sums(widths[w]);
        struct sums_there t = put_there(s);
        for (int k = 0; k < 8; k++) {
            check_sums(s, &t, k & 1, k >> 1 & 1, k >> 2 ? SL_DTYPE_BF16 : SL_DTYPE_REAL);
            check_full_sums(s, &t, k & 1, k >> 1 & 1, k >> 2 ? SL_DTYPE_BF16 : SL_DTYPE_REAL);
        }
        check_gradients(s, &t);
        release(&t);
        free_sums(s);
    }
}

/* ---- products on a device ---- */

/* Z, GX, GW and GB beside the CPU's, within what the order of sums does. */
static void check_dense(struct sl_queue by, const uint32_t size[3])
{
    const uint32_t rows = size[0];
    const uint32_t in = size[1];
    const uint32_t out = size[2];
    const size_t n_x = (size_t)rows * in, n_w = (size_t)in * out, n_z = (size_t)rows * out;
    sl_real *wide;
    sl_bf16 *x = make_numbers(12, n_x, &wide);
    sl_real *w = noisy(n_w, 13), *bias = noisy(out, 14), *gz = noisy(n_z, 15);
    sl_real *z = need(n_z, sizeof *z), *gx = need(n_x, sizeof *gx), *gw = need(n_w, sizeof *gw);
    sl_real *gb = need(out, sizeof *gb);
    sl_bf16 *x_there = on_device(x, n_x * sizeof *x);
    sl_real *w_there = on_device(w, n_w * sizeof *w), *bias_there = on_device(bias, out * sizeof *bias);
    sl_real *gz_there = on_device(gz, n_z * sizeof *gz);
    for (int mode = 0; mode < 4; mode++) { /* plain, with a bias, added to, with a bias and in bf16 */
        const enum sl_dtype z_dtype = mode == 3 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
        const bool has_bias = mode % 2 == 1;
        void *z_there = before(z_dtype, n_z, z);
        expect_ok(sl_dense_forward_cpu(SL_DTYPE_BF16, rows, in, out, x, w, has_bias ? bias : NULL, mode == 2,
                                       SL_DTYPE_REAL, z));
        expect_launched(sl_dense_forward_cuda(by, SL_DTYPE_BF16, rows, in, out, x_there, w_there,
                                              has_bias ? bias_there : NULL, mode == 2, z_dtype, z_there));
        (z_dtype == SL_DTYPE_BF16 ? expect_rounded : expect_close_to)("Z", n_z, z_there, z);
    }
    for (int beta = 0; beta < 2; beta++) {
        void *gx_there = before(SL_DTYPE_REAL, n_x, gx);
        expect_ok(sl_dense_backward_input_cpu(SL_DTYPE_BF16, rows, in, out, gz, w, beta, gx));
        expect_launched(
            sl_dense_backward_input_cuda(by, SL_DTYPE_BF16, rows, in, out, gz_there, w_there, beta, gx_there));
        expect_close_to("GX", n_x, gx_there, gx);
    }
    void *gw_there = device_room(n_w * sizeof *gw);
    void *gb_there = device_room(out * sizeof *gb);
    expect_ok(sl_dense_backward_weight_cpu(SL_DTYPE_BF16, rows, in, out, x, gz, gw, gb));
    expect_launched(
        sl_dense_backward_weight_cuda(by, SL_DTYPE_BF16, rows, in, out, x_there, gz_there, gw_there, gb_there));
    expect_close_to("GW", n_w, gw_there, gw);
    expect_close_to("GB", out, gb_there, gb);
    void *there[] = {x_there, w_there, bias_there, gz_there};
    void *here[] = {wide, x, w, bias, gz, z, gx, gw, gb};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        cudaFree(there[i]);
    }
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        free(here[i]);
    }
}

TEST(test_dense_on_device)
{
    static const uint32_t sizes[][3] = {{0, 3, 4},    {5, 0, 4},  {5, 4, 0},    {1, 1, 1},     {3, 5, 7},
                                        {65, 40, 41}, {33, 1, 9}, {31, 128, 3}, {16400, 2, 3}, {70, 33, 128}};
    struct sl_queue by = {0};
    need_device();
#ifndef SL_EMULATED
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess || major < 8) {
        skip(); /* cuBLAS refuses bf16 */
    }
#endif
    assert_int_equal(cublasCreate(&by.cublas), CUBLAS_STATUS_SUCCESS);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_dense(by, sizes[i]);
    }
    assert_int_equal(cublasDestroy(by.cublas), CUBLAS_STATUS_SUCCESS);
}

/* ---- activation on a device ---- */

/* H in bf16 of a Z in float, or in bf16 where z_of says so, with a residual or not; without a norm to the bit. */
static void check_activation(enum sl_activate_norm norm, uint32_t width, enum sl_dtype z_dtype, bool has_residual)
{
    enum { N = 37 };
    const size_t n = (size_t)N * width;
    sl_real *z;
    sl_real *residual;
    sl_bf16 *z_rounded = make_numbers(16, n, &z);
    sl_bf16 *residual_rounded = make_numbers(17, n, &residual);
    sl_real *parameters = noisy((size_t)4 * width, 18);
    sl_real *h = need(n, sizeof *h);
    sl_bf16 *h_rounded = need(n, sizeof *h_rounded);
    uint8_t *gate = need(n, 1);
    sl_vertex ids[N];
    for (uint32_t i = 0; i < N; i++) {
        ids[i] = N - 1 - i;
    }
    for (uint32_t c = 0; c < width; c++) {
        parameters[3 * width + c] = (sl_real)1.5; /* 1 / deviation */
    }
    struct sl_activate a = {.n_rows = N,
                            .n_columns = width,
                            .norm = norm,
                            .weight = parameters,
                            .bias = parameters + width,
                            .mean = parameters + 2 * width,
                            .rstd = parameters + 3 * width,
                            .threshold = 20000,
                            .draw = {.seed = 19, .purpose = SL_FOR_DROPOUT, .step = 2, .hop = 1},
                            .ids = ids,
                            .dataset_ids = ids};
    struct sl_activate there = a;
    sl_real *parameters_there = on_device(parameters, (size_t)4 * width * sizeof *parameters);
    sl_vertex *ids_there = on_device(ids, sizeof ids);
    void *z_there =
        z_dtype == SL_DTYPE_BF16 ? on_device(z_rounded, n * sizeof *z_rounded) : on_device(z, n * sizeof *z);
    void *residual_there = on_device(residual_rounded, n * sizeof *residual_rounded);
    void *gate_there = device_room(n);
    void *h_there = device_room(n * sizeof *h_rounded);
    there.weight = parameters_there;
    there.bias = parameters_there + width;
    there.mean = parameters_there + 2 * width;
    there.rstd = parameters_there + 3 * width;
    there.ids = there.dataset_ids = ids_there;
    sl_activate_forward_cpu(&a, z, has_residual ? residual : NULL, gate, h);
    expect_launched(sl_activate_forward_rows_cuda(NULL, &there, z_dtype, z_there, has_residual ? residual_there : NULL,
                                                  gate_there, SL_DTYPE_BF16, h_there));
    if (norm == SL_ACTIVATE_PLAIN) {
        sl_bf16_round(n, h, h_rounded);
        expect_on_device("H", h_there, n, sizeof *h_rounded, h_rounded);
        expect_on_device("gate", gate_there, n, 1, gate);
    } else {
        expect_rounded("H", n, h_there, h);
        cudaFree(gate_there);
    }
    cudaFree(parameters_there);
    cudaFree(ids_there);
    cudaFree(z_there);
    cudaFree(residual_there);
    void *here[] = {z, residual, z_rounded, residual_rounded, parameters, h, h_rounded, gate};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        free(here[i]);
    }
}

TEST(test_activation_on_device)
{
    static const uint32_t widths[] = {1, 3, 5, 40, 41, 128};
    need_device();
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (int has_residual = 0; has_residual < 2; has_residual++) {
            check_activation(SL_ACTIVATE_PLAIN, widths[w], SL_DTYPE_BF16, has_residual);
            check_activation(SL_ACTIVATE_PLAIN, widths[w], SL_DTYPE_REAL, has_residual);
            check_activation(SL_ACTIVATE_LAYER, widths[w], SL_DTYPE_REAL, has_residual);
            check_activation(SL_ACTIVATE_BATCH, widths[w], SL_DTYPE_REAL, has_residual);
        }
    }
}
#endif

/* ---- runs ---- */

/* What is run; rows of a layer travel as they are, or, if the first layer narrows, projected. */
static const struct variant {
    const char *options;
    bool sparse;
} variants[] = {
    {"model=sage", false},
    {"model=sage sampler=labor hidden=24 dropout=0.3 input-dropout=0.2", false},
    {"model=sage norm=layer hidden=20 dropout=0.2 residual", false},
    {"model=sage sampler=full norm=batch hidden=24 dropout=0", false},
    {"model=sage", true},
    {"model=gcn norm=layer", false},
    {"model=gcn sampler=full hidden=24 dropout=0.3 input-dropout=0.1", false},
    {"model=gcnii norm=layer hidden=20 dropout=0.3 input-dropout=0.1", false},
    {"model=gcnii sampler=labor norm=batch hidden=24 dropout=0.2", true},
    {"model=resgcn hidden=20 dropout=0.3 input-dropout=0.1", false},
    {"model=gat norm=layer hidden=72 dropout=0.3 input-dropout=0.1 residual", false},
    {"model=gat sampler=full hidden=24 dropout=0", true},
    {"model=gatv2 sampler=full norm=layer hidden=72 dropout=0.3 skip output-layers=2", false},
    {"model=resgcn sampler=full hidden=24 dropout=0", true},
    {"model=gin sampler=full norm=layer hidden=24 dropout=0.3 input-dropout=0.1 output-layers=3", false},
    {"model=rgcn norm=layer hidden=24 dropout=0.3 input-dropout=0.1", false},
    {"model=rgcn bases=2 norm=layer hidden=24 dropout=0.3 input-dropout=0.1 output-layers=1", false},
    {"model=rgat norm=layer hidden=24 dropout=0.3 input-dropout=0.1 residual", false},
    {"model=sage sampler=labor hidden=8 edge-weights=factor", false},
    {"model=sage edge-weights=probability", true},
    {"model=sage edge-features=concat norm=layer hidden=24", false},
    {"model=sage edge-features=concat sampler=labor hidden=8 edge-weights=factor", false},
    {"model=rgcn edge-features=concat norm=layer hidden=24 edge-weights=factor", false},
    {"model=sage edge-features=add norm=layer hidden=24", false},
    {"model=gat edge-features=add norm=layer hidden=24 heads=4", false},
    {"model=rgat edge-features=add norm=layer hidden=24 heads=4 edge-weights=factor", false},
    {"model=rgcn edge-features=add norm=layer hidden=24 edge-weights=factor", false},
    {"model=rgat edge-features=concat norm=layer hidden=24 edge-weights=factor", false},
    {"model=gcn norm=batch hidden=24 edge-weights=factor", false},
    {"model=gcn sampler=labor norm=layer edge-weights=both", false},
    {"model=gcnii sampler=labor edge-weights=factor", false},
    {"model=resgcn sampler=full edge-weights=factor", false},
    {"model=gin learn-epsilon norm=layer hidden=24 edge-weights=factor", false},
    {"model=gin learn-epsilon sampler=labor hidden=8 edge-weights=both", false},
    {"model=gin learn-epsilon sampler=full norm=batch hidden=8", true},
    {"model=rgcn sampler=labor hidden=8 edge-weights=factor", true},
    {"model=rgcn bases=2 sampler=full hidden=8 edge-weights=factor", false},
    {"model=rgat sampler=full norm=layer hidden=8 edge-weights=factor", true},
    {"model=rgat edge-weights=probability", false},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

/* If kernels are slow, a test runs one of so many variants, and begins with another one than the test before. */
static size_t variant_stride(void)
{
    if (!slow_kernels()) {
        return 1;
    }
    return getenv("SL_LONG") != NULL ? 4 : 20;
}

static void settings_of(const struct variant *v, int precision, uint32_t pes, struct sl_settings *out)
{
    static const int methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
    settings_with("layers=3 fanout=4,5,6 norm=none hidden=16 dropout=0.5", out);
    settings_add(v->options, out);
    out->precision = precision;
    out->pes = out->group_size = pes;
    out->batch_size = SEEDS / pes;
    out->chunks = 1 + pes % 3;
    out->partition = methods[pes % 3];
}

static void run_variant(const struct variant *v, int precision, uint32_t pes, struct outcome *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    settings_of(v, precision, pes, &settings);
    run_steps(set_of(settings.model, v->sparse), &settings, N_STEPS, out);
}

static void expect_losses(const char *name, uint32_t pes, const struct outcome *got, const struct outcome *wanted,
                          double tolerance)
{
    for (uint32_t i = 0; i < N_STEPS; i++) {
        if (!(fabs(got->loss[i] - wanted->loss[i]) <= tolerance * fabs(wanted->loss[i]))) {
            fail_msg("%s, P = %u: loss of step %u is %.9g, expected %.9g, off by %.2g of it, allowed %.2g", name, pes,
                     i, got->loss[i], wanted->loss[i], fabs(got->loss[i] / wanted->loss[i] - 1), tolerance);
        }
    }
}

/* Features of edges are rounded nowhere, and rows beside them alike: the first step has the same loss. In later ones
 * the last bits of the parameters differ, and so rows that are rounded. */
TEST(test_invisible)
{
    static const uint32_t spreads[] = {4, 3, 7};
    const size_t n_spreads = slow_kernels() ? 1 : sizeof spreads / sizeof *spreads;
    needs_bf16();
    for (size_t i = 0; i < N_VARIANTS; i += variant_stride()) {
        OWNED(outcome_free) struct outcome wanted;
        run_variant(&variants[i], SL_PRECISION_BF16, 1, &wanted);
        for (size_t j = 0; j < n_spreads; j++) {
            OWNED(outcome_free) struct outcome got;
            run_variant(&variants[i], SL_PRECISION_BF16, spreads[j], &got);
            expect_losses(variants[i].options, spreads[j], &got, &wanted, 1e-2);
            assert_true(strstr(variants[i].options, "edge-features") == NULL ||
                        fabs(got.loss[0] / wanted.loss[0] - 1) < 1e-6);
        }
    }
}

/* In float, those whose bits tests/whole/test_properties.c does not compare. */
TEST(test_same_bits)
{
    needs_bf16();
    for (size_t i = 1 % variant_stride(); i < N_VARIANTS; i += variant_stride()) {
        const bool weighted = strstr(variants[i].options, "edge-weights") != NULL;
        for (int precision = weighted ? SL_PRECISION_FLOAT : SL_PRECISION_BF16; precision <= SL_PRECISION_BF16;
             precision++) {
            OWNED(outcome_free) struct outcome first;
            OWNED(outcome_free) struct outcome second;
            run_variant(&variants[i], precision, 4, &first);
            run_variant(&variants[i], precision, 4, &second);
            expect_same("losses", N_STEPS, sizeof *first.loss, first.loss, second.loss);
            expect_same("parameters", first.n_entries, sizeof *first.parameters, first.parameters, second.parameters);
        }
    }
}

/* What travels is half as many bytes, and so are features unless they are sparse; no sample changes. */
static void expect_half(const struct variant *v, const struct outcome *rounded, const struct outcome *exact)
{
    for (uint32_t i = 0; i < N_STEPS; i++) {
        const struct sl_step_sizes *a = &rounded->sizes[i];
        const struct sl_step_sizes *b = &exact->sizes[i];
        assert_true(b->bytes.rows > 0 && b->bytes.row_gradients > 0 && b->bytes.features > 0);
        assert_int_equal(a->bytes.rows * sizeof(sl_real), b->bytes.rows * sizeof(sl_bf16));
        assert_int_equal(a->bytes.row_gradients * sizeof(sl_real), b->bytes.row_gradients * sizeof(sl_bf16));
        assert_int_equal(a->bytes.features * sizeof(sl_real),
                         b->bytes.features * (v->sparse ? sizeof(sl_real) : sizeof(sl_bf16)));
        assert_int_equal(a->edges[2], b->edges[2]);
        assert_int_equal(a->bytes.ids, b->bytes.ids);
    }
}

TEST(test_beside_float)
{
    needs_bf16();
    for (size_t i = 2 % variant_stride(); i < N_VARIANTS; i += variant_stride()) {
        OWNED(outcome_free) struct outcome exact;
        OWNED(outcome_free) struct outcome rounded;
        run_variant(&variants[i], SL_PRECISION_FLOAT, 2, &exact);
        run_variant(&variants[i], SL_PRECISION_BF16, 2, &rounded);
        expect_losses(variants[i].options, 2, &rounded, &exact, 2e-2);
        assert_true(fabs(rounded.loss[0] - exact.loss[0]) > 1e-6 * exact.loss[0]); /* rounded they are */
        expect_half(&variants[i], &rounded, &exact);
    }
}

/* Evaluation of a model, in either precision: scores are near, and so are the last hidden rows. */
static void evaluate(const struct variant *v, int precision, sl_real *scores, sl_real *hidden)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_scores unused;
    struct sl_inference wanted = {.scores = scores, .hidden = hidden};
    OWNED(world_close) struct world w;
    settings_of(v, precision, 3, &settings);
    settings.batch_size = 90;
    world_open(set_of(settings.model, v->sparse), &settings, 1, &w);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &wanted, &unused));
}

static double expect_close(const char *label, size_t n, const sl_real *got, const sl_real *wanted)
{
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)wanted[i]));
        difference = fmax(difference, fabs((double)got[i] - (double)wanted[i]));
    }
    if (!(difference <= 2e-2 * largest)) {
        fail_msg("%s: off by %g, where the largest is %g", label, difference, largest);
    }
    return difference;
}

TEST(test_evaluation)
{
    needs_bf16();
    for (size_t i = 3 % variant_stride(); i < N_VARIANTS; i += variant_stride()) {
        OWNED(sl_settings_free) struct sl_settings settings;
        settings_of(&variants[i], SL_PRECISION_BF16, 1, &settings);
        const struct sl_dataset *set = set_of(settings.model, variants[i].sparse);
        size_t n_scores = (size_t)set->graph.n_vertices * set->targets.n_classes;
        size_t n_hidden = (size_t)set->graph.n_vertices * settings.hidden;
        sl_real *scores[2];
        sl_real *hidden[2];
        for (int precision = 0; precision < 2; precision++) {
            scores[precision] = need(n_scores, sizeof **scores);
            hidden[precision] = need(n_hidden, sizeof **hidden);
            evaluate(&variants[i], precision, scores[precision], hidden[precision]);
        }
        expect_close("scores", n_scores, scores[SL_PRECISION_BF16], scores[SL_PRECISION_FLOAT]);
        assert_true(expect_close("hidden rows", n_hidden, hidden[SL_PRECISION_BF16], hidden[SL_PRECISION_FLOAT]) > 0);
        bool rounded = settings.model != SL_MODEL_RESGCN; /* whose layers end without an activation */
        for (size_t k = 0; k < n_hidden && rounded; k++) {
            assert_true(hidden[SL_PRECISION_BF16][k] == sl_bf16_real(sl_bf16_of(hidden[SL_PRECISION_BF16][k])));
        }
        for (int precision = 0; precision < 2; precision++) {
            free(scores[precision]);
            free(hidden[precision]);
        }
    }
}

static int up(void **state)
{
    static const struct graph_shape dense_shape = {.kind = GRAPH_POWER_LAW,
                                                   .n_vertices = 1201,
                                                   .n_columns = 20,
                                                   .n_classes = 5,
                                                   .weighted = true,
                                                   .n_edge_columns = 6,
                                                   .seed = 11};
    static const struct graph_shape sparse_shape = {.kind = GRAPH_POWER_LAW,
                                                    .n_vertices = 1201,
                                                    .n_columns = 80,
                                                    .n_classes = 5,
                                                    .weighted = true,
                                                    .sparse = true,
                                                    .seed = 12};
    make_sets(dense_shape, sparse_shape);
    return group_up(state);
}

static int down(void **state)
{
    free_sets();
    return group_down(state);
}

TEST_MAIN(up, down)
