/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/pipe: GNNPipe's epochs against figures that two independent formulations of its rules gave in double
 * (tests/reference), and what must not matter: the schedule, which chunks there are where all is fresh, and how
 * their rows are kept. Rows in bf16 may be twice as far off as PyTorch's own (tests/reference/bf16.json).
 */
#include "tests/support/reference_fixture.h"

#include "runtime/pipe/epoch.h"
#include "runtime/pipe/stages.h"
#include "tests/support/graph_fixture.h"

#define MAX_CHUNKS 64

static int precision; /* --precision of the cases */

/* A model on the chunks of a graph. */
struct bench {
    struct sl_settings settings;
    struct sl_partition partition;
    struct sl_shards shards;
    struct sl_plan plan;
    struct sl_run run;
    struct sl_model model;
    struct sl_transport transport;
    struct sl_pipe pipe;
};

static void bench_open(const struct sl_dataset *dataset, uint32_t n_chunks, const uint32_t *chunk_of, struct bench *b)
{
    struct sl_settings *s = &b->settings;
    s->schedule = SL_SCHEDULE_PIPE;
    s->precision = precision;
    make_partition(&dataset->graph, n_chunks, chunk_of, &b->partition);
    b->partition.n_pieces = n_chunks;
    b->partition.piece = need_owned((size_t)n_chunks + 1, sizeof *b->partition.piece);
    memcpy(b->partition.piece, b->partition.first, ((size_t)n_chunks + 1) * sizeof *b->partition.piece);
    expect_ok(
        sl_shards_open(dataset, &b->partition, SL_FEATURES_AS_THEY_ARE, sl_settings_row_dtype(s), NULL, &b->shards));
    b->shards.weighs_edges = s->edge_weights == SL_EDGE_WEIGHTS_FACTOR;
    expect_ok(sl_shards_weigh(dataset, sl_model_kind(s->model)->layer->sum->factor, &b->shards));
    b->plan = sl_plan_of_parts(n_chunks);
    expect_ok(sl_run_init(&b->run));
    b->run.gpus_first = machine.gpus_first;
    b->run.row_dtype = sl_settings_row_dtype(s);
    const struct sl_model_data data = sl_model_data_of(&b->shards);
    expect_ok(sl_model_init(s, &data, &b->model));
    expect_ok(sl_transport_open(s, &b->plan, b->model.n_layers * SL_MAX_PARAMETERS, &b->transport));
    struct sl_work work = {s, &b->plan, &b->run, &b->shards, &b->model, &b->transport, 0};
    expect_ok(sl_pipe_open(&work, &b->pipe));
}

static void bench_close(struct bench *b)
{
    sl_pipe_close(&b->pipe);
    sl_transport_close(&b->transport);
    sl_model_free(&b->model);
    sl_shards_close(&b->shards);
    sl_run_free(&b->run);
    sl_partition_free(&b->partition);
}

/* One epoch in the order that is there; gives its loss, and that of fresh rows. */
static double run_epoch(struct bench *b, uint64_t epoch, double *exact_out)
{
    struct sl_adam adam = adam_of(&b->settings, epoch);
    starpu_data_handle_t handle;
    starpu_data_handle_t exact_handle;
    double loss = NAN;
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
    starpu_matrix_data_register(&exact_handle, STARPU_MAIN_RAM, (uintptr_t)exact_out, 1, 1, 1, sizeof *exact_out);
    expect_ok(sl_pipe_epoch(&b->pipe, epoch, &adam, handle, exact_handle));
    starpu_data_unregister(handle);
    starpu_data_unregister(exact_handle);
    starpu_task_wait_for_all();
    expect_ok(sl_failure_status(&b->run.failure));
    return loss;
}

/* ---- the reference cases ---- */

static uint32_t option(json_t *root, const char *key)
{
    return (uint32_t)json_integer_value(member(member(root, "options"), key));
}

static void settings_of(json_t *root, struct sl_settings *out)
{
    case_settings(root, out);
    out->layers = option(root, "layers");
    out->hidden = option(root, "hidden");
    out->ways = option(root, "ways");
    out->stages = option(root, "stages");
    out->history_every = option(root, "history_every");
    out->gradient_factor = option(root, "gradient_factor");
}

static void put_order(json_t *order, struct sl_pipe_order *out)
{
    for (uint32_t way = 0; way < out->n_ways; way++) {
        for (uint32_t t = 0; t < out->n_slots; t++) {
            out->chunk[t * out->n_ways + way] = (uint32_t)number(json_array_get(order, way), t);
        }
    }
    sl_pipe_order_invert(out);
}

/* Whether a vertex' rows become history: with --recompute those alone that another chunk reads, one way or the
 * other. */
static bool is_kept(const struct bench *b, sl_vertex v)
{
    const struct sl_graph *graph = &b->partition.graph;
    const uint16_t *part_of = b->pipe.graph.in.part_of;
    bool kept = !b->settings.recompute;
    for (sl_vertex d = 0; d < graph->n_vertices; d++) {
        for (uint64_t e = graph->offsets[d]; e < graph->offsets[d + 1]; e++) {
            sl_vertex u = graph->sources[e];
            kept = kept || (part_of[d] != part_of[u] && (d == v || u == v));
        }
    }
    return kept;
}

/* Those of the vertices first .. end - 1. */
static uint32_t count_kept(const struct bench *b, sl_vertex first, sl_vertex end)
{
    uint32_t n = 0;
    for (sl_vertex v = first; v < end; v++) {
        n += is_kept(b, v);
    }
    return n;
}

/* The historical rows of aggregation a, after the last epoch. */
static void expect_history(json_t *wanted, struct bench *b, uint32_t layer)
{
    for (uint32_t v = 0; v < b->shards.n_vertices; v++) {
        sl_vertex id = b->partition.new_ids[v];
        uint32_t q = b->pipe.graph.in.part_of[id];
        const struct sl_shard *part = &b->shards.part[q];
        uint32_t row = count_kept(b, part->first, id);
        const struct sl_rows *rows = &b->pipe.history[layer * b->plan.n_pes + q];
        assert_int_equal(rows->split.n_rows, count_kept(b, part->first, part->end));
        if (!is_kept(b, id)) {
            continue;
        }
        assert_int_equal(rows->split.n_chunks, 1);
        assert_int_equal(starpu_data_acquire(rows->chunk[0], STARPU_R), 0);
        assert_int_equal(sl_handle_dtype(rows->chunk[0]), sl_settings_row_dtype(&b->settings));
        enum sl_dtype of = precision == SL_PRECISION_BF16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
        const void *x = starpu_data_get_local_ptr(rows->chunk[0]);
        for (uint32_t c = 0; c < rows->n_columns; c++) {
            expect_figure(HISTORY, "history", (size_t)v * rows->n_columns + c,
                          (double)sl_entry(of, x, row * rows->n_columns + c), number(json_array_get(wanted, v), c),
                          largest(wanted));
        }
        starpu_data_release(rows->chunk[0]);
    }
}

static void check_epochs(json_t *root, struct bench *b)
{
    json_t *epochs = member(root, "epochs");
    for (size_t e = 0; e < json_array_size(epochs); e++) {
        json_t *epoch = json_array_get(epochs, e);
        double wanted = json_number_value(member(epoch, "loss"));
        put_order(member(epoch, "order"), &b->pipe.order);
        double exact = NAN;
        double exact_wanted = json_number_value(member(epoch, "exact_loss"));
        expect_figure(LOSS, "loss", e, run_epoch(b, e, &exact), wanted, fabs(wanted));
        expect_figure(LOSS, "exact loss", e, exact, exact_wanted, fabs(exact_wanted));
        expect_tensors("gradient", member(epoch, "gradients"), &b->model, true);
    }
    expect_tensors("value at the end", member(root, "parameters_after"), &b->model, false);
}

static void check_histories(json_t *root, struct bench *b)
{
    for (uint32_t i = 0; i < b->model.n_layers; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", b->model.layer[i].number);
        if (b->model.layer[i].from != b->model.layer[i].level) {
            expect_history(member(member(root, "history"), key), b, i);
        }
    }
}

/* ---- what travels ---- */

static bool is_heard(const struct bench *b, uint32_t u, uint32_t way)
{
    const struct sl_graph *graph = &b->partition.graph;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (graph->sources[e] == u && sl_pipe_way(&b->pipe, b->pipe.graph.in.part_of[v]) == way) {
                return true;
            }
        }
    }
    return false;
}

/* The formulas of the method: 2 N H (S - 1) m numbers between stages, H L M(W) and as many back between ways, 2 (W
 * - 1) models. In bf16 are those between ways, and between stages the hidden rows that were activated. */
static void check_traffic(const struct bench *b)
{
    const struct sl_settings *s = &b->settings;
    struct sl_pipe_traffic found;
    uint64_t mirrors = 0;
    uint64_t n = b->shards.n_vertices;
    uint64_t m = s->model == SL_MODEL_GCNII ? 2 : 1;
    size_t row = precision == SL_PRECISION_BF16 ? 2 : sizeof(sl_real);
    size_t forward = s->model == SL_MODEL_RESGCN ? sizeof(sl_real) : row;
    expect_ok(sl_pipe_count(&b->pipe, &found));
    for (uint32_t u = 0; u < n; u++) {
        for (uint32_t way = 0; way < s->ways; way++) {
            mirrors += way != sl_pipe_way(&b->pipe, b->pipe.graph.in.part_of[u]) && is_heard(b, u, way);
        }
    }
    assert_int_equal(found.mirrors, mirrors);
    assert_int_equal(found.stages, (forward + sizeof(sl_real)) * n * s->hidden * (s->stages - 1) * m);
    assert_int_equal(found.rows, row * s->hidden * s->layers * mirrors);
    assert_int_equal(found.row_gradients, found.rows);
    assert_int_equal(found.weights, 2 * (s->ways - 1) * sizeof(sl_real) * sl_model_entries(&b->model));
    assert_true(s->ways == 1 || mirrors > 0);
}

/* The case's own stages, after the measured ones, which may part where GCNII's first rows are the only ones that
 * cross. */
static void deal(json_t *root, struct bench *b)
{
    json_t *stages = member(member(root, "options"), "stage_of_aggregation");
    expect_ok(sl_pipe_deal_layers(&b->pipe)); /* once all is in place: GPUs keep what they have fetched */
    for (uint32_t i = 1; i < b->model.n_layers; i++) {
        assert_in_range(b->pipe.stage[i] - b->pipe.stage[i - 1], 0, 1);
    }
    assert_int_equal(b->pipe.stage[b->model.n_layers - 1], b->settings.stages - 1);
    for (uint32_t i = 1; i < b->settings.layers; i++) {
        if (number(stages, i) > number(stages, i - 1)) {
            b->settings.stages_cut[b->settings.n_stages_cut++] = i;
        }
    }
    expect_ok(sl_pipe_deal_layers(&b->pipe));
}

static void check_kept(const char *name, bool recompute)
{
    OWNED(json_decref_it) json_t *root = case_of(name);
    uint32_t chunk_of[1024];
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct bench b = {.settings = {0}};
    dataset_of(root, &dataset);
    for (uint32_t v = 0; v < dataset.graph.n_vertices; v++) {
        chunk_of[v] = (uint32_t)number(member(root, "chunk_of"), v);
    }
    settings_of(root, &b.settings);
    b.settings.recompute = recompute;
    bench_open(&dataset, option(root, "chunks"), chunk_of, &b);
    put_features(root, &b.partition, &b.shards);
    put_parameters(root, &b.model);
    deal(root, &b);
    if (precision == SL_PRECISION_BF16) {
        allow_bf16(name);
    }
    check_traffic(&b);
    clear_worst();
    check_epochs(root, &b);
    if (b.pipe.order.n_slots > 1) { /* else all rows are fresh, and none is kept */
        check_histories(root, &b);
    }
    if (precision == SL_PRECISION_BF16) {
        print_worst(name, recompute ? "recompute" : "kept");
    }
    bench_close(&b);
    sl_settings_free(&b.settings);
}

/* Rows kept, and computed again from those on boundaries. */
static void check_case(const char *name)
{
    check_kept(name, false);
    check_kept(name, true);
}

static const char *const cases[] = {
    "pipe_gcn_w1",        "pipe_gcn_w2",   "pipe_gcn_live_history",      "pipe_sage_w1",
    "pipe_gcnii_w1",      "pipe_gcnii_w2", "pipe_gcnii_single_gradient", "pipe_resgcn_w1",
    "pipe_resgcn_w2",     "pipe_gin_w1",   "pipe_resgcn_fixed_order",    "pipe_gin_w2",
    "pipe_resgcn_w2_none"};

TEST(test_float)
{
    check_files(sizeof cases / sizeof *cases, cases, check_case);
}

/* --edge-weights factor: tests/reference/variants.py. */
TEST(test_edge_weights)
{
    static const char *const weighted[] = {"weighted_pipe_sage_w1",  "weighted_pipe_gcn_w1",    "weighted_pipe_gcn_w2",
                                           "weighted_pipe_gcnii_w2", "weighted_pipe_resgcn_w2", "weighted_pipe_gin_w2"};
    check_files(sizeof weighted / sizeof *weighted, weighted, check_case);
}

TEST(test_bf16)
{
    needs_bf16();
    precision = SL_PRECISION_BF16;
    check_files(sizeof cases / sizeof *cases, cases, check_case);
}

/* ---- stages ---- */

static double slowest(uint32_t n, const double *seconds, const uint32_t *stage, uint32_t n_stages, double *squares_out)
{
    double of[8] = {0};
    double most = 0;
    *squares_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        of[stage[i]] += seconds[i];
    }
    for (uint32_t s = 0; s < n_stages; s++) {
        most = fmax(most, of[s]);
        *squares_out += of[s] * of[s];
    }
    return most;
}

/* The next way to cut n layers: bits of `cuts` say which layers begin a stage; false after the last. */
static bool next_cuts(uint32_t n, uint32_t n_stages, uint32_t *cuts, uint32_t *stage_out)
{
    while (++*cuts < 1u << (n - 1)) {
        if ((uint32_t)__builtin_popcount(*cuts) + 1 == n_stages) {
            stage_out[0] = 0;
            for (uint32_t i = 1; i < n; i++) {
                stage_out[i] = stage_out[i - 1] + (*cuts >> (i - 1) & 1);
            }
            return true;
        }
    }
    return false;
}

/* No other way to cut the layers has a faster slowest stage, nor one as fast with fewer squares. */
static void check_deal(uint32_t n, const double *seconds, uint32_t n_stages)
{
    uint32_t stage[16];
    uint32_t other[16];
    uint32_t cuts = 0;
    double squares, other_squares;
    expect_ok(sl_pipe_deal(n, seconds, n_stages, stage));
    assert_int_equal(stage[0], 0);
    assert_int_equal(stage[n - 1], n_stages - 1);
    for (uint32_t i = 1; i < n; i++) {
        assert_true(stage[i] == stage[i - 1] || stage[i] == stage[i - 1] + 1);
    }
    double found = slowest(n, seconds, stage, n_stages, &squares);
    while (next_cuts(n, n_stages, &cuts, other)) {
        double now = slowest(n, seconds, other, n_stages, &other_squares);
        assert_true(now > found - 1e-12);
        assert_true(now > found + 1e-12 || other_squares > squares - 1e-9);
    }
}

TEST(test_deal)
{
    static const double slow_ends[] = {5, 1, 1, 1, 1, 1, 1, 1, 3};
    static const double random[] = {0.3, 2.5, 0.1, 0.9, 4, 0.2, 0.2, 1.7, 0.6, 3.3};
    static const double even[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t s = 1; s <= 5; s++) {
        check_deal(9, slow_ends, s);
        check_deal(10, random, s);
        check_deal(11, even, s);
        check_deal(s, random, s);
    }
}

/* --stages-cut counts layers that aggregate; the one before them is of the first stage, the one after them of the
 * last. */
TEST(test_stages_cut)
{
    static const uint32_t wanted[] = {0, 0, 1, 1, 1, 2, 2};
    OWNED(json_decref_it) json_t *root = case_of("pipe_gcnii_w1");
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct bench b = {.settings = {0}};
    static const uint32_t chunk_of[1024] = {0};
    dataset_of(root, &dataset);
    settings_of(root, &b.settings);
    b.settings.layers = 5;
    b.settings.stages = 3;
    b.settings.n_stages_cut = 2;
    b.settings.stages_cut[0] = 1;
    b.settings.stages_cut[1] = 4;
    bench_open(&dataset, 1, chunk_of, &b);
    expect_ok(sl_pipe_deal_layers(&b.pipe));
    assert_int_equal(b.model.n_layers, 7);
    assert_memory_equal(b.pipe.stage, wanted, sizeof wanted);
    bench_close(&b);
    sl_settings_free(&b.settings);
}

/* ---- dropout ---- */

/* GCNII of so many layers, in which alpha and lambda leave nothing but the first layer's output: h = ReLU(h0). */
static void open_initial(json_t *root, const struct sl_dataset *dataset, uint32_t n_layers, struct bench *b)
{
    static const uint32_t chunk_of[1024] = {0};
    settings_of(root, &b->settings);
    b->settings.layers = n_layers;
    b->settings.stages = b->settings.ways = 1;
    b->settings.alpha = 1;
    b->settings.lambda = 0;
    b->settings.dropout = 0.5;
    bench_open(dataset, 1, chunk_of, b);
    put_features(root, &b->partition, &b->shards);
    sl_pipe_order_draw(&b->pipe.order, false, 0, 0);
}

static void copy_values(const struct sl_layer *from, struct sl_layer *to)
{
    for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
        if (sl_parameter_trained(&from->parameter[k])) {
            memcpy(to->parameter[k].value, from->parameter[k].value,
                   (size_t)to->parameter[k].n_rows * to->parameter[k].n_columns * sizeof(sl_real));
        }
    }
}

/* What later layers read of the first one's output has had no dropout: another layer changes nothing then. */
TEST(test_initial_rows)
{
    OWNED(json_decref_it) json_t *root = case_of("pipe_gcnii_w1");
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct bench one = {.settings = {0}};
    struct bench two = {.settings = {0}};
    double exact;
    dataset_of(root, &dataset);
    open_initial(root, &dataset, 1, &one);
    open_initial(root, &dataset, 2, &two);
    expect_ok(sl_model_acquire(&one.model, STARPU_R));
    expect_ok(sl_model_acquire(&two.model, STARPU_RW));
    copy_values(&one.model.layer[0], &two.model.layer[0]);
    copy_values(&one.model.layer[2], &two.model.layer[3]);
    sl_model_release(&one.model);
    sl_model_release(&two.model);
    double wanted = run_epoch(&one, 0, &exact);
    expect_near_at("loss", 0, run_epoch(&two, 0, &exact), wanted, TOLERANCE * fabs(wanted));
    bench_close(&one);
    bench_close(&two);
    sl_settings_free(&one.settings);
    sl_settings_free(&two.settings);
}

TEST_MAIN(group_up, group_down)
