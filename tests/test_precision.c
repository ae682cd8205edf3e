/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows in bf16 (--precision): numbers, sums and products of them, and whole runs: the partition is invisible but for rounding,
 * the same run twice is the same to the bit, bytes halve, and what a run learns is what one in float learns.
 */
#include "tests/run_fixture.h"

#include "codelets/aggregate.h"
#include "codelets/attend.h"
#include "codelets/dense.h"
#include "codelets/gemm.h"
#include "partition/load.h"
#include "support/bf16.h"

#define N_STEPS 5
#define SEEDS 280 /* a step's, P * B: divisible by 1, 2, 4 and 7 */

static struct sl_dataset dense_set, sparse_set;

/* ---- numbers ---- */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_numbers(void **state)
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
    (void)state;
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
    sl_real *wide_a;
    sl_real *wide_b;
    sl_bf16 *a = make_numbers(1, (size_t)m * k, &wide_a);
    sl_bf16 *b = make_numbers(2, (size_t)k * n, &wide_b);
    struct sl_factor_bf16 fa = {a, ops & 1 ? m : k, ops & 1};
    struct sl_factor_bf16 fb = {b, ops & 2 ? k : n, ops >> 1 & 1};
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
    free(a);
    free(b);
    free(wide_a);
    free(wide_b);
}

static void test_products(void **state)
{
    static const uint32_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {65, 40, 33}, {130, 96, 100}, {17, 129, 300}};
    (void)state;
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

static void test_sums(void **state)
{
    enum { COLUMNS = 37 };
    sl_real *wide;
    sl_bf16 *rows = make_numbers(4, (size_t)ROWS * COLUMNS, &wide);
    struct edges block;
    uint32_t first[2] = {0, ROWS};
    sl_real got[SUMS * COLUMNS];
    sl_real wanted[SUMS * COLUMNS];
    (void)state;
    make_block(&block);
    struct sl_edges edges = {.n_rows = SUMS, .offsets = block.offsets, .sources = block.sources};
    const sl_real *wide_chunk = wide;
    const sl_real *chunk = (const sl_real *)(const void *)rows;
    struct sl_view wide_view = {&wide_chunk, 31, NULL};
    struct sl_view view = {&chunk, 31, NULL};
    struct sl_sources wide_x = {1, first, &wide_view, NULL};
    struct sl_sources x = {1, first, &view, NULL};
    for (size_t i = 0; i < SUMS * COLUMNS; i++) {
        got[i] = wanted[i] = (sl_real)noise(5, i);
    }
    for (int beta = 1; beta >= 0; beta--) {
        sl_aggregate_forward_cpu(&edges, COLUMNS, &wide_x, beta, wanted);
        sl_aggregate_forward_bf16_cpu(&edges, COLUMNS, &x, beta, got);
        expect_same("sums", SUMS * COLUMNS, sizeof *got, got, wanted);
    }
    free(rows);
    free(wide);
}

/* ---- attention: so it is ---- */

enum { HEADS = 2, WIDTH = 19 * HEADS, U_COLUMNS = WIDTH + 2 * HEADS };

struct attended {
    sl_real z[SUMS * WIDTH], lse[SUMS * HEADS], sides[SUMS * 4 * HEADS];
    sl_real back[ROWS * U_COLUMNS], gu[ROWS * U_COLUMNS];
};

/* All kernels one after the other, with rows of U in sl_real. */
static void attend(const struct sl_attend_rows *at, const struct sl_attend_back *back, const uint32_t *inverse,
                   const sl_real *u, const sl_real *gz, struct attended *out)
{
    sl_attend_forward_cpu(at, 0, out->z, out->lse);
    sl_attend_sides_cpu(at, gz, out->lse, out->sides);
    sl_attend_backward_cpu(back, ROWS, 0, u, out->back);
    sl_attend_self_cpu(back, 0, SUMS, u, out->gu);
    sl_attend_own_cpu(back, ROWS, 0, inverse, 0, ROWS, u, out->gu);
}

static void attend_bf16(const struct sl_attend_rows *at, const struct sl_attend_back *back, const uint32_t *inverse,
                        const sl_bf16 *u, const sl_real *gz, struct attended *out)
{
    sl_attend_forward_bf16_cpu(at, 0, out->z, out->lse);
    sl_attend_sides_bf16_cpu(at, gz, out->lse, out->sides);
    sl_attend_backward_bf16_cpu(back, ROWS, 0, u, out->back);
    sl_attend_self_bf16_cpu(back, 0, SUMS, u, out->gu);
    sl_attend_own_bf16_cpu(back, ROWS, 0, inverse, 0, ROWS, u, out->gu);
}

static void test_attention(void **state)
{
    sl_real *wide;
    sl_bf16 *rows = make_numbers(6, ROWS * U_COLUMNS, &wide);
    sl_real gz[SUMS * WIDTH];
    uint32_t inverse[ROWS];
    uint32_t first[2] = {0, ROWS};
    struct attended out[2];
    struct edges edges;
    (void)state;
    memset(out, 0, sizeof out);
    make_block(&edges);
    for (uint32_t r = 0; r < ROWS; r++) {
        inverse[r] = r;
    }
    for (size_t i = 0; i < SUMS * WIDTH; i++) {
        gz[i] = (sl_real)noise(7, i);
    }
    for (int k = 0; k < 2; k++) {
        const sl_real *chunk = k == 0 ? wide : (const sl_real *)(const void *)rows;
        const sl_real *gz_chunk = gz;
        const sl_real *sides_chunk = out[k].sides;
        struct sl_view view = {&chunk, 31, NULL};
        struct sl_sources x = {1, first, &view, NULL};
        struct sl_attend_rows at = {{WIDTH, HEADS}, SUMS, edges.offsets, edges.sources, &x, chunk};
        struct sl_attend_back back = {
            {WIDTH, HEADS}, edges.back_offsets, edges.back_rows, {&gz_chunk, 31, NULL}, {&sides_chunk, 31, NULL}};
        if (k == 0) {
            attend(&at, &back, inverse, wide, gz, &out[k]);
        } else {
            attend_bf16(&at, &back, inverse, rows, gz, &out[k]);
        }
    }
    expect_same("Z", SUMS * WIDTH, sizeof(sl_real), out[1].z, out[0].z);
    expect_same("lse", SUMS * HEADS, sizeof(sl_real), out[1].lse, out[0].lse);
    expect_same("sides", SUMS * 4 * HEADS, sizeof(sl_real), out[1].sides, out[0].sides);
    expect_same("what goes back", ROWS * U_COLUMNS, sizeof(sl_real), out[1].back, out[0].back);
    expect_same("GU", ROWS * U_COLUMNS, sizeof(sl_real), out[1].gu, out[0].gu);
    free(rows);
    free(wide);
}

/* ---- runs ---- */

/* What is run; rows of a layer travel as they are, or, where the first one narrows, projected. */
struct variant {
    const char *name;
    int model, sampler, norm;
    uint32_t hidden;
    double dropout, input_dropout;
    bool residual, sparse;
};

static const struct variant variants[] = {
    {"sage", SL_MODEL_SAGE, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 16, 0.5, 0, false, false},
    {"sage, widening, input dropout", SL_MODEL_SAGE, SL_SAMPLER_LABOR, SL_NORM_NONE, 24, 0.3, 0.2, false, false},
    {"sage, layer norm, residual", SL_MODEL_SAGE, SL_SAMPLER_NEIGHBOR, SL_NORM_LAYER, 20, 0.2, 0, true, false},
    {"sage, batch norm", SL_MODEL_SAGE, SL_SAMPLER_FULL, SL_NORM_BATCH, 24, 0, 0, false, false},
    {"sage, sparse", SL_MODEL_SAGE, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 16, 0.5, 0, false, true},
    {"gcn", SL_MODEL_GCN, SL_SAMPLER_NEIGHBOR, SL_NORM_LAYER, 16, 0.5, 0, false, false},
    {"gcn, widening", SL_MODEL_GCN, SL_SAMPLER_FULL, SL_NORM_NONE, 24, 0.3, 0.1, false, false},
    {"gcnii", SL_MODEL_GCNII, SL_SAMPLER_NEIGHBOR, SL_NORM_LAYER, 20, 0.3, 0.1, false, false},
    {"gcnii, sparse, batch norm", SL_MODEL_GCNII, SL_SAMPLER_LABOR, SL_NORM_BATCH, 24, 0.2, 0, false, true},
    {"resgcn", SL_MODEL_RESGCN, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 20, 0.3, 0.1, false, false},
    {"gat", SL_MODEL_GAT, SL_SAMPLER_NEIGHBOR, SL_NORM_LAYER, 72, 0.3, 0.1, true, false},
    {"gat, sparse", SL_MODEL_GAT, SL_SAMPLER_FULL, SL_NORM_NONE, 24, 0, 0, false, true},
    {"resgcn, sparse", SL_MODEL_RESGCN, SL_SAMPLER_FULL, SL_NORM_NONE, 24, 0, 0, false, true},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

static void settings_of(const struct variant *v, int precision, uint32_t pes, struct sl_settings *out)
{
    static const int methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
    expect_ok(sl_settings_init(out));
    out->precision = precision;
    out->model = v->model;
    out->sampler = v->sampler;
    out->norm = v->norm;
    out->hidden = v->hidden;
    out->dropout = v->dropout;
    out->input_dropout = v->input_dropout;
    out->residual = v->residual;
    out->n_fanout = out->layers = 3;
    out->fanout[0] = 4;
    out->fanout[1] = 5;
    out->fanout[2] = 6;
    out->pes = out->group_size = pes;
    out->batch_size = SEEDS / pes;
    out->chunks = 1 + pes % 3;
    out->partition = methods[pes % 3];
}

static void run_variant(const struct variant *v, int precision, uint32_t pes, struct outcome *out)
{
    struct sl_settings settings;
    settings_of(v, precision, pes, &settings);
    run_steps(v->sparse ? &sparse_set : &dense_set, &settings, N_STEPS, out);
    sl_settings_free(&settings);
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

static void test_invisible(void **state)
{
    static const uint32_t spreads[] = {2, 4, 7};
    (void)state;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        struct outcome wanted;
        run_variant(&variants[i], SL_PRECISION_BF16, 1, &wanted);
        for (size_t j = 0; j < sizeof spreads / sizeof *spreads; j++) {
            struct outcome got;
            run_variant(&variants[i], SL_PRECISION_BF16, spreads[j], &got);
            expect_losses(variants[i].name, spreads[j], &got, &wanted, 1e-2);
            outcome_free(&got);
        }
        outcome_free(&wanted);
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        struct outcome first;
        struct outcome second;
        run_variant(&variants[i], SL_PRECISION_BF16, 4, &first);
        run_variant(&variants[i], SL_PRECISION_BF16, 4, &second);
        expect_same("losses", N_STEPS, sizeof *first.loss, first.loss, second.loss);
        expect_same("parameters", first.n_entries, sizeof *first.parameters, first.parameters, second.parameters);
        outcome_free(&first);
        outcome_free(&second);
    }
}

/* What travels is half as many bytes, and so are features unless they are sparse; no sample changes. */
static void expect_half(const struct variant *v, const struct outcome *rounded, const struct outcome *exact)
{
    for (uint32_t i = 0; i < N_STEPS; i++) {
        const struct sl_step_sizes *a = &rounded->sizes[i];
        const struct sl_step_sizes *b = &exact->sizes[i];
        assert_true(b->row_bytes > 0 && b->row_gradient_bytes > 0 && b->feature_bytes > 0);
        assert_int_equal(a->row_bytes * sizeof(sl_real), b->row_bytes * sizeof(sl_bf16));
        assert_int_equal(a->row_gradient_bytes * sizeof(sl_real), b->row_gradient_bytes * sizeof(sl_bf16));
        assert_int_equal(a->feature_bytes * sizeof(sl_real),
                         b->feature_bytes * (v->sparse ? sizeof(sl_real) : sizeof(sl_bf16)));
        assert_int_equal(a->edges[2], b->edges[2]);
        assert_int_equal(a->id_bytes, b->id_bytes);
    }
}

static void test_beside_float(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        struct outcome exact;
        struct outcome rounded;
        run_variant(&variants[i], SL_PRECISION_FLOAT, 2, &exact);
        run_variant(&variants[i], SL_PRECISION_BF16, 2, &rounded);
        expect_losses(variants[i].name, 2, &rounded, &exact, 2e-2);
        assert_true(fabs(rounded.loss[0] - exact.loss[0]) > 1e-6 * exact.loss[0]); /* rounded they are */
        expect_half(&variants[i], &rounded, &exact);
        outcome_free(&exact);
        outcome_free(&rounded);
    }
}

/* A cache of feature rows changes no number. */
static void test_feature_cache(void **state)
{
    struct outcome plain;
    (void)state;
    run_variant(&variants[1], SL_PRECISION_BF16, 2, &plain);
    for (int policy = SL_FEATURE_CACHE_LRU; policy <= SL_FEATURE_CACHE_DEGREE; policy++) {
        struct sl_settings settings;
        struct outcome cached;
        settings_of(&variants[1], SL_PRECISION_BF16, 2, &settings);
        settings.feature_cache = 150;
        settings.feature_cache_policy = policy;
        run_steps(&dense_set, &settings, N_STEPS, &cached);
        expect_same("losses", N_STEPS, sizeof *plain.loss, cached.loss, plain.loss);
        outcome_free(&cached);
        sl_settings_free(&settings);
    }
    outcome_free(&plain);
}

/* Evaluation of a model, in either precision: scores are near, and so are the last hidden rows. */
static void evaluate(const struct variant *v, int precision, sl_real *scores, sl_real *hidden)
{
    struct sl_settings settings;
    struct sl_metrics_scores unused;
    struct sl_inference wanted = {.scores = scores, .hidden = hidden};
    struct world w;
    settings_of(v, precision, 3, &settings);
    settings.batch_size = 90;
    world_open(v->sparse ? &sparse_set : &dense_set, &settings, 1, &w);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &wanted, &unused));
    world_close(&w);
    sl_settings_free(&settings);
}

static double expect_close(const char *what, size_t n, const sl_real *got, const sl_real *wanted)
{
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)wanted[i]));
        difference = fmax(difference, fabs((double)got[i] - (double)wanted[i]));
    }
    if (!(difference <= 2e-2 * largest)) {
        fail_msg("%s: off by %g, where the largest is %g", what, difference, largest);
    }
    return difference;
}

static void test_evaluation(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        const struct sl_dataset *set = variants[i].sparse ? &sparse_set : &dense_set;
        size_t n_scores = (size_t)set->graph.n_vertices * set->n_classes;
        size_t n_hidden = (size_t)set->graph.n_vertices * variants[i].hidden;
        sl_real *scores[2];
        sl_real *hidden[2];
        for (int precision = 0; precision < 2; precision++) {
            scores[precision] = need(n_scores, sizeof **scores);
            hidden[precision] = need(n_hidden, sizeof **hidden);
            evaluate(&variants[i], precision, scores[precision], hidden[precision]);
        }
        expect_close("scores", n_scores, scores[SL_PRECISION_BF16], scores[SL_PRECISION_FLOAT]);
        assert_true(expect_close("hidden rows", n_hidden, hidden[SL_PRECISION_BF16], hidden[SL_PRECISION_FLOAT]) > 0);
        bool rounded = variants[i].model != SL_MODEL_RESGCN; /* whose layers end without an activation */
        for (size_t k = 0; k < n_hidden && rounded; k++) {
            assert_true(hidden[SL_PRECISION_BF16][k] == sl_bf16_real(sl_bf16_of(hidden[SL_PRECISION_BF16][k])));
        }
        for (int precision = 0; precision < 2; precision++) {
            free(scores[precision]);
            free(hidden[precision]);
        }
    }
}

/* Matrices of other precisions than a task can work on are refused before there is a task. */
static void test_refused(void **state)
{
    struct sl_run own_run;
    starpu_data_handle_t x;
    starpu_data_handle_t w;
    starpu_data_handle_t z;
    (void)state;
    expect_ok(sl_run_init(&own_run));
    struct sl_task_args own = {.run = &own_run};
    expect_ok(sl_matrix_register(4, 3, sizeof(sl_real), &x));
    expect_ok(sl_matrix_register(3, 2, sizeof(sl_real), &w));
    expect_ok(sl_matrix_register(4, 2, sizeof(sl_bf16), &z));
    assert_int_equal(sl_dense_forward_submit(&own, x, 0, w, NULL, 0, z), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "bf16"));
    sl_handle_close(x);
    sl_handle_close(w);
    sl_handle_close(z);
    sl_run_free(&own_run);
}

/* Rows that one sum adds, one matrix of bf16 among them or all. */
static void test_mixtures(void **state)
{
    const struct sl_split split = {.n_rows = 3, .n_chunks = 1, .shift = 31};
    const uint32_t first[] = {0, 3, 6};
    struct sl_rows rows[2];
    struct sl_slice packed[2] = {0};
    struct sl_source_handles sources = {.n_owners = 2, .first = first, .rows = &rows[0], .packed = packed};
    (void)state;
    for (int k = 0; k < 4; k++) {
        enum sl_entries of;
        enum sl_status wanted = k == 0 || k == 3 ? SL_OK : SL_EINVAL;
        for (int q = 0; q < 2; q++) {
            expect_ok(sl_rows_register(&split, 2, k >> q & 1 ? sizeof(sl_bf16) : sizeof(sl_real), &rows[q]));
        }
        packed[1] = (struct sl_slice){rows[1].chunk[0], 0, 3};
        assert_int_equal(sl_parts_entries("a sum", 2, rows, &of), wanted);
        assert_true(wanted == SL_OK ? of == (k == 0 ? SL_OF_REAL : SL_OF_BF16)
                                    : strstr(sl_message(), "1 of 2") != NULL);
        assert_int_equal(sl_sources_entries("a sum", &sources, &of), wanted);
        sl_rows_drop(&rows[0]);
        sl_rows_drop(&rows[1]);
    }
}

static int up(void **state)
{
    static const struct graph_shape dense_shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 1201, .n_columns = 20, .n_classes = 5, .seed = 11};
    static const struct graph_shape sparse_shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 1201, .n_columns = 80, .n_classes = 5, .sparse = true, .seed = 12};
    make_dataset(&dense_shape, &dense_set);
    make_dataset(&sparse_shape, &sparse_set);
    return group_up(state);
}

static int down(void **state)
{
    forget_partitions();
    sl_dataset_free(&dense_set);
    sl_dataset_free(&sparse_set);
    return group_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_products),   cmocka_unit_test(test_sums),
        cmocka_unit_test(test_attention),    cmocka_unit_test(test_invisible),  cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_beside_float), cmocka_unit_test(test_evaluation), cmocka_unit_test(test_feature_cache),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_mixtures),
    };
    return wants_gpu() ? 77 : cmocka_run_group_tests(tests, up, down);
}
