/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What holds of every model that --model names, between training and evaluation: with all in-edges and without
 * dropout a step's logits are those of sl_evaluate, in one chunk of a part or more.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sets_fixture.h"

#include "data/load.h"

static uint32_t n_vertices; /* of the graphs */
#define DENSE_COLUMNS 20
#define SPARSE_COLUMNS 80

/* Graphs all of whose vertices are seeds. */
static void make_seeds(uint32_t n)
{
    struct sl_dataset *const sets[] = {&dense_set, &sparse_set, &typed_dense_set, &typed_sparse_set};
    const struct graph_shape dense = {.kind = GRAPH_POWER_LAW,
                                      .n_vertices = n,
                                      .self_loops = true,
                                      .n_columns = DENSE_COLUMNS,
                                      .n_classes = 5,
                                      .n_edge_columns = 3,
                                      .seed = 31};
    struct graph_shape sparse = dense;
    sparse.sparse = true;
    sparse.n_columns = SPARSE_COLUMNS;
    make_sets(dense, sparse);
    for (int i = 0; i < 4; i++) {
        sets[i]->valid.n = sets[i]->test.n = 0;
        sets[i]->train.n = n_vertices = n;
        for (uint32_t v = 0; v < n; v++) {
            sets[i]->train.ids[v] = v;
            sets[i]->targets.classes[v] = (int32_t)(v % 5);
        }
    }
}

/* The logits that PE p has of its n seeds in step 0, to their places by dataset id. A step's rows keep their handles
 * and so their contents until its slot is used again. */
static void read_logits(struct world *w, uint32_t p, double *logits_out)
{
    uint32_t n;
    FREED sl_vertex *ids = frontier_of(w, 0, p, 0, &n);
    const struct sl_pass_pe *pe = &w->steps->slot_rows[p];
    const struct sl_rows *z = &pe->layer[w->model.n_layers - 1][SL_ROWS_Z];
    for (uint32_t row = 0, c = 0; row < n; c++) {
        assert_true(c < z->room && z->chunk[c] != NULL);
        starpu_data_acquire(z->chunk[c], STARPU_R);
        const sl_real *values = starpu_data_get_local_ptr(z->chunk[c]);
        uint32_t n_rows = sl_handle_rows(z->chunk[c]);
        for (uint32_t i = 0; i < n_rows * z->n_columns; i++) {
            logits_out[(size_t)ids[row + i / z->n_columns] * z->n_columns + i % z->n_columns] = (double)values[i];
        }
        starpu_data_release(z->chunk[c]);
        row += n_rows;
        assert_true(row <= n);
    }
}

/* The logits of all vertices as evaluation has them, by dataset id; free(). */
static double *exact_logits(struct world *w)
{
    uint32_t n_classes = w->shards.n_outputs;
    size_t n = (size_t)w->shards.n_vertices * n_classes;
    struct sl_scores scores;
    struct sl_inference wanted = {.scores = need(n, sizeof *wanted.scores)};
    double *logits = need(n, sizeof *logits);
    expect_ok(sl_evaluate(&w->run, &w->shards, &w->model, &wanted, &scores));
    for (size_t i = 0; i < n; i++) {
        logits[w->partition->dataset_ids[i / n_classes] * (size_t)n_classes + i % n_classes] = (double)wanted.scores[i];
    }
    free(wanted.scores);
    return logits;
}

/* ---- training agrees with evaluation ---- */

/* The features have 20 columns, or, sparse, 80. Every model takes the first and the second variant. */
static const struct variant {
    const char *options;
    bool sparse;
} variants[] = {
    {"hidden=16", false},
    {"hidden=24", false},
    {"hidden=16", true},
    {"hidden=24 norm=layer", false},
    {"hidden=16 norm=layer residual", false},
    {"hidden=20 residual", false},
    {"hidden=80 residual", true},
    {"hidden=16 edge-features=concat", false},
    {"hidden=16 edge-features=add", false},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

/* P, G: one PE, three that cooperate, and groups, which have their own samples. */
static const uint32_t spreads[][2] = {{1, 1}, {3, 3}, {4, 2}};
#define N_SPREADS (sizeof spreads / sizeof spreads[0])

/* -log softmax(z)[label] on average. */
static double cross_entropy(const struct sl_dataset *d, const double *logits)
{
    double sum = 0;
    for (uint32_t v = 0; v < d->train.n; v++) {
        const double *z = logits + (size_t)v * d->targets.n_classes;
        double most = z[0];
        double all = 0;
        for (uint32_t c = 0; c < d->targets.n_classes; c++) {
            most = fmax(most, z[c]);
        }
        for (uint32_t c = 0; c < d->targets.n_classes; c++) {
            all += exp(z[c] - most);
        }
        sum += log(all) + most - z[d->targets.classes[v]];
    }
    return sum / d->train.n;
}

/* Rounding: eight times an epsilon for each of at most eight layers, and the root of the longest sum, over the
 * hub's in-neighbours (a third of the vertices), relative to the largest entry. */
static void expect_logits(const char *caption, size_t n, const double *got, const double *should)
{
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        size = fmax(size, fabs(should[i]));
    }
    assert_true(size > 0.1 && isfinite(size));
    for (size_t i = 0; i < n; i++) {
        expect_near_at(caption, i, got[i], should[i], 8 * 8 * EPSILON * sqrt(n_vertices / 3.0) * size);
    }
}

/* False: the model does not take this. */
static bool settings_of(int model, const struct variant *v, const uint32_t spread[2], struct sl_settings *out)
{
    static const int methods[] = {SL_PARTITION_NONE, SL_PARTITION_METIS, SL_PARTITION_RANDOM};
    settings_with("sampler=full layers=3 norm=none dropout=0 chunks=3 depth=1 lr=0", out);
    settings_add(v->options, out);
    out->model = model;
    out->pes = spread[0];
    out->group_size = spread[1];
    out->batch_size = (n_vertices + spread[0] - 1) / spread[0];
    out->partition = methods[spread[0] % 3];
    return sl_settings_check(out) == SL_OK;
}

static bool agrees(const struct sl_dataset *d, int model, const struct variant *v, const uint32_t spread[2])
{
    struct sl_settings settings;
    bool taken = settings_of(model, v, spread, &settings);
    if (taken) {
        OWNED(world_close) struct world w;
        char caption[128];
        size_t n = (size_t)n_vertices * d->targets.n_classes;
        FREED double *got = need(n, sizeof *got);
        snprintf(caption, sizeof caption, "%s, %s, P = %u, G = %u", model_name(model), v->options, spread[0],
                 spread[1]);
        world_open(d, &settings, 1, &w);
        scramble_model(&w.model);
        for (size_t i = 0; i < n; i++) {
            got[i] = NAN;
        }
        double loss = world_step(&w, 0);
        for (uint32_t p = 0; p < w.plan.n_pes; p++) {
            read_logits(&w, p, got);
        }
        FREED double *should = exact_logits(&w);
        expect_logits(caption, n, got, should);
        expect_near(caption, loss, cross_entropy(d, should), 1e-5 * loss);
        world_healthy(&w);
    }
    sl_settings_free(&settings);
    return taken;
}

TEST(test_agreement)
{
    for (int model = 0; model < n_models(); model++) {
        for (size_t i = 0; i < N_VARIANTS * N_SPREADS; i++) {
            const struct variant *v = &variants[i / N_SPREADS];
            if (slow_kernels() && i % N_SPREADS != (i / N_SPREADS + (size_t)model) % N_SPREADS) {
                continue; /* each of its variants is spread in one way, which turns */
            }
            bool taken = agrees(set_of(model, v->sparse), model, v, spreads[i % N_SPREADS]);
            assert_true(taken || i >= 2 * N_SPREADS);
        }
    }
}

/* Evaluation of parts of more than one chunk: 2048 rows on a CPU. */
TEST(test_chunks_of_evaluation)
{
    free_sets();
    make_seeds(slow_kernels() ? 200 : 2100);
    for (size_t i = 0; i < (size_t)n_models() * N_VARIANTS; i++) {
        const struct variant *v = &variants[i % N_VARIANTS];
        if (i % N_VARIANTS == 0 || strstr(v->options, "edge-features") != NULL) {
            agrees(set_of((int)(i / N_VARIANTS), false), (int)(i / N_VARIANTS), v, spreads[0]);
        }
    }
}

static int up(void **state)
{
    int failed = group_up(state);
    make_seeds(slow_kernels() ? 200 : 500); /* long lists have tests of their own */
    return failed;
}

static int down(void **state)
{
    free_sets();
    return group_down(state);
}

TEST_MAIN(up, down)
