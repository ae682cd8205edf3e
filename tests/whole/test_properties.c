/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The properties of whole runs, of every model that --model names: the partition is invisible, the same run twice
 * is the same to the bit.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sage_fixture.h"
#include "tests/support/sets_fixture.h"

#include "data/load.h"

#ifdef __SANITIZE_ADDRESS__
enum { SLOW_STRIDE = 24, SLOW_VARIANT_STRIDE = 17, USUAL_STRIDE = 8 };
#else
enum { SLOW_STRIDE = 12, SLOW_VARIANT_STRIDE = 9, USUAL_STRIDE = 2 };
#endif
#define SEEDS 280 /* a step's, P * B: divisible by 1, 2, 4 and 7; an epoch's third step has fewer (make_sets) */

static const struct graph_shape dense_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 1201, .n_columns = 20, .n_classes = 5, .seed = 11};
static const struct graph_shape sparse_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 1201, .n_columns = 80, .n_classes = 5, .sparse = true, .seed = 12};

/* ---- what is run ---- */

/* One kind of model and sampling: options that differ from those of settings_of. */
struct recipe {
    const char *options;
    bool sparse;
};

struct variant {
    const char *options;
    bool sparse;
    int model, norm;
};

/* Of GraphSAGE: all that the models have in common. */
static const struct recipe common[] = {
    {"dropout=0", false},
    {"", false},
    {"hidden=24 dropout=0.3 input-dropout=0.2", false},
    {"norm=layer hidden=24", false},
    {"norm=layer hidden=20 dropout=0.2 residual", false},
    {"dropout=0.2 input-dropout=0.1 residual", false},
    {"norm=batch", false},
    {"norm=batch hidden=20 dropout=0.2 residual output-layers=2", false},
    {"sampler=labor", false},
    {"sampler=labor kappa=8", false},
    {"sampler=labor norm=layer kappa=8 layer-dependency", false},
    {"sampler=labor hidden=24 dropout=0 input-dropout=0.2 layer-dependency", false},
    {"sampler=full", false},
    {"sampler=full norm=batch hidden=24 dropout=0", false},
    {"", true},
    {"norm=layer hidden=96 input-dropout=0.3 residual", true},
    {"sampler=labor norm=batch kappa=8 dropout=0.3 input-dropout=0.1 residual", true},
    {"replace", false},
    {"sampler=ladies fanout=-1,-1,-1 layer-size=90,70,40 norm=batch", false},
    {"sampler=pladies fanout=-1,-1,-1 layer-size=90,70,40 norm=batch", true},
    {"kappa=8", false},
    {"sampler=labor labor-iterations=1", false},
    {"sampler=labor labor-iterations=20 norm=layer kappa=8 hidden=24 dropout=0 input-dropout=0.2 layer-dependency",
     true},
};
#define N_COMMON (sizeof common / sizeof common[0])

/* Of each of the other models, those that it takes: not every one has --residual or a norm. */
static const struct recipe recipes[] = {
    {"norm=layer", false},
    {"hidden=24 dropout=0.3 input-dropout=0.2 residual output-layers=2", false},
    {"", false},
    {"sampler=labor kappa=8 hidden=24 layer-dependency", false},
    {"sampler=labor labor-iterations=2 hidden=24", false},
    {"sampler=full input-dropout=0.1", false},
    {"sampler=labor norm=batch kappa=8 dropout=0.3 input-dropout=0.1", true},
    {"sampler=full dropout=0.3 input-dropout=0.1", true},
};
#define N_RECIPES (sizeof recipes / sizeof recipes[0])

#define MAX_VARIANTS 128
static struct variant variants[MAX_VARIANTS]; /* the common ones, then the other models' (make_variants) */
static size_t n_variants;

/* The steps of a run: the third has fewer seeds, the fourth belongs to the next epoch. */
static uint32_t steps_of_a_run(void)
{
    return slow_kernels() && getenv("SL_LONG") == NULL ? 3 : 5;
}

/* A test runs one of so many variants, and one of so many of its spreads: fewer where kernels are slow. */
static size_t variant_stride(void)
{
    if (!slow_kernels()) {
        return 1;
    }
    return getenv("SL_LONG") != NULL ? SLOW_VARIANT_STRIDE : 3 * SLOW_VARIANT_STRIDE;
}

static size_t stride(void)
{
    if (slow_kernels()) {
        return SLOW_STRIDE;
    }
    return getenv("SL_LONG") != NULL ? 1 : USUAL_STRIDE;
}

/* How the work is spread. */
struct spread {
    uint32_t pes, group_size, chunks;
    int partition;
    uint32_t depth;
};

static void settings_of(const struct variant *v, const struct spread *spread, struct sl_settings *out)
{
    settings_with("layers=3 fanout=4,5,6 norm=none hidden=16 kappa=1 dropout=0.5", out);
    settings_add(v->options, out);
    out->model = v->model;
    out->labor_iterations = attends(v->model) ? 0 : out->labor_iterations;
    out->learn_epsilon = v->model == SL_MODEL_GIN; /* otherwise it is 0, and hides the rows that it weighs */
    out->pes = spread->pes;
    out->group_size = spread->group_size;
    out->batch_size = SEEDS / spread->pes;
    out->chunks = spread->chunks;
    out->partition = spread->partition;
    out->depth = spread->depth;
}

static void run_variant(const struct variant *v, const struct spread *spread, struct outcome *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    settings_of(v, spread, &settings);
    run_steps(set_of(v->model, v->sparse), &settings, steps_of_a_run(), out);
}

/* ---- property 1: the partition is invisible ---- */

#define GPU "GPU"

/* How far the loss of a step may be off. A GPU's libraries add products in another order than a CPU's. Adam takes steps
 * of the same size for gradients of any size, so the rounding of a tiny gradient shows from the second step on. Seen on
 * an H100: 1.9e-4 in one of all variants, below 1e-4 in the others. */
static double tolerance_of(const struct variant *v, const char *where, uint32_t step)
{
    if (strstr(where, GPU) != NULL && step > 0) {
        return 5e-4;
    }
    return v->norm == SL_NORM_BATCH ? 1e-4 : 1e-5;
}

static void expect_losses(const struct variant *v, const struct spread *spread, const char *sched,
                          const struct outcome *got, const struct outcome *wanted)
{
    for (uint32_t i = 0; i < steps_of_a_run(); i++) {
        double tolerance = tolerance_of(v, sched, i);
        if (!(fabs(got->loss[i] - wanted->loss[i]) <= tolerance * fabs(wanted->loss[i]))) {
            fail_msg("%s, %s%s, P = %u, G = %u, %u chunks, partition %d, depth %u, scheduler %s: loss of step %u is "
                     "%.9g, with "
                     "one PE %.9g, off by %.2g of it, allowed %.2g",
                     model_name(v->model), v->options, v->sparse ? " (sparse)" : "", spread->pes, spread->group_size,
                     spread->chunks, spread->partition, spread->depth, sched, i, got->loss[i], wanted->loss[i],
                     fabs(got->loss[i] / wanted->loss[i] - 1), tolerance);
        }
        assert_int_equal(got->sizes[i].n_seeds, wanted->sizes[i].n_seeds);
    }
}

/* One group samples, and so computes, exactly what one PE does; several do at the seeds. */
static void expect_sizes(const struct spread *spread, const struct outcome *got, const struct outcome *wanted)
{
    for (uint32_t i = 0; i < steps_of_a_run(); i++) {
        const struct sl_step_sizes *a = &got->sizes[i];
        const struct sl_step_sizes *b = &wanted->sizes[i];
        assert_int_equal(a->vertices[0], b->n_seeds);
        assert_int_equal(a->edges[0], b->edges[0]);
        for (uint32_t level = 0; spread->group_size == spread->pes && level <= 3; level++) {
            assert_int_equal(a->vertices[level], b->vertices[level]);
        }
        for (uint32_t hop = 0; spread->group_size == spread->pes && hop < 3; hop++) {
            assert_int_equal(a->edges[hop], b->edges[hop]);
        }
        assert_true(spread->group_size < spread->pes || a->bytes.features == b->bytes.features);
        assert_true(a->vertices[3] >= b->vertices[3]);
        assert_true(spread->pes > 1 || a->bytes.rows == 0);
    }
}

/* Every (P, G). Partition, chunks and depth turn with the variant, so that all come together with all. */
static struct spread spread_of(size_t variant, size_t j)
{
    static const uint32_t pairs[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {7, 1}, {7, 7}};
    static const uint32_t chunks[] = {3, 8, 1};
    static const int methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
    size_t k = variant + j;
    return (struct spread){pairs[j][0], pairs[j][1], chunks[(k + j / 3) % 3], methods[k % 3],
                           1 + (uint32_t)(k / 3) % 3};
}
#define N_SPREADS 8

static const struct spread one_pe = {1, 1, 1, SL_PARTITION_NONE, 2};

static struct outcome wanted[MAX_VARIANTS]; /* by one PE, one chunk, one worker */

static void check_variant(size_t i, size_t start, size_t stride, const char *sched)
{
    for (size_t j = start; j < N_SPREADS; j += stride) {
        struct outcome got;
        struct spread spread = spread_of(i, j);
        bool one_group = spread.group_size == spread.pes;
        if (variants[i].norm == SL_NORM_BATCH && !one_group) {
            continue; /* statistics are per group: test_groups */
        }
        run_variant(&variants[i], &spread, &got);
        expect_losses(&variants[i], &spread, sched, &got, &wanted[i]);
        expect_sizes(&spread, &got, &wanted[i]);
        outcome_free(&got);
    }
}

TEST(test_invisible)
{
    machine_up("eager", 1);
    for (size_t i = 0; i < n_variants; i += variant_stride()) {
        run_variant(&variants[i], &one_pe, &wanted[i]);
    }
    machine_down();
    machine_up(NULL, 2);
    for (size_t i = 0; i < n_variants; i += variant_stride()) {
        check_variant(i, i % stride(), stride(), machine.sched);
    }
    machine_down();
}

/* Fewer spreads, others for each variant, with the other schedulers. */
TEST(test_schedulers)
{
    static const struct {
        const char *sched;
        uint32_t n_workers;
    } machines[] = {{"lws", 2}, {"prio", 3}, {"dmda", 2}, {"dmdas", 1}};
    long_test();
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        machine_up(machines[m].sched, machines[m].n_workers);
        for (size_t i = m % 2; i < n_variants; i += 2) {
            check_variant(i, (3 * i + m) % N_SPREADS, N_SPREADS, machines[m].sched);
        }
        machine_down();
    }
}

/* Batch norm's statistics are per group: with as many groups, the size of a group is invisible. */
TEST(test_groups)
{
    static const struct spread two_groups[] = {
        {4, 2, 3, SL_PARTITION_METIS, 2}, {4, 2, 8, SL_PARTITION_RANDOM, 1}, {14, 7, 3, SL_PARTITION_STREAM, 2}};
    static const struct spread two_pes = {2, 1, 1, SL_PARTITION_NONE, 2};
    long_test();
    machine_up(NULL, 2);
    for (size_t i = 0; i < n_variants; i++) {
        struct outcome alone;
        if (variants[i].norm != SL_NORM_BATCH) {
            continue;
        }
        run_variant(&variants[i], &two_pes, &alone);
        for (size_t j = 0; j < sizeof two_groups / sizeof two_groups[0]; j++) {
            OWNED(outcome_free) struct outcome got;
            run_variant(&variants[i], &two_groups[j], &got);
            expect_losses(&variants[i], &two_groups[j], "two workers, against P = 2, G = 1,", &got, &alone);
        }
        outcome_free(&alone);
    }
    machine_down();
}

/* ---- steps with fewer seeds than groups ---- */

/* Seeds per PE so that the epoch's last step, the third to eighth, leaves one to six seeds for seven PEs. */
static uint32_t awkward_batch(uint32_t n_train, uint32_t *last_out)
{
    *last_out = 0;
    for (uint32_t batch = n_train / 7; batch > 0; batch--) {
        *last_out = n_train / (7 * batch);
        if (n_train % (7 * batch) >= 1 && n_train % (7 * batch) <= 6 && *last_out >= 2) {
            assert_true(*last_out < MAX_STEPS);
            return batch;
        }
    }
    fail_msg("no batch size leaves one to six of %u seeds", n_train);
    return 0;
}

/* The largest distance of losses of steps 0 .. last, relative, between one PE and seven that are a group each. */
static double distance_apart(const struct variant *v, uint32_t batch, uint32_t last, uint64_t seed)
{
    const struct spread alone = {1, 1, 2, SL_PARTITION_NONE, 2};
    const struct spread apart = {7, 1, 2, SL_PARTITION_NONE, 2};
    struct outcome got[2];
    double most = 0;
    for (int k = 0; k < 2; k++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        settings_of(v, k == 0 ? &alone : &apart, &settings);
        settings.batch_size = k == 0 ? 7 * batch : batch;
        settings.seed = seed;
        run_steps(set_of(v->model, v->sparse), &settings, last + 1, &got[k]);
    }
    assert_true(got[1].sizes[last].n_seeds >= 1 && got[1].sizes[last].n_seeds <= 6);
    for (uint32_t s = 0; s <= last; s++) {
        most = fmax(most, fabs(got[1].loss[s] / got[0].loss[s] - 1));
    }
    outcome_free(&got[0]);
    outcome_free(&got[1]);
    return most;
}

/* Groups without a seed take part: their rows are none, and the sums are the others'. Runs are 1e-8 to 1e-7 apart,
 * but where rounding decides on which side of zero an entry enters a ReLU, which is another one on each kind of
 * processor: with the next seed it is none. */
TEST(test_empty_groups)
{
    long_test();
    uint32_t last;
    uint32_t batch = awkward_batch(dense_set.train.n, &last);
    machine_up(NULL, 2);
    for (size_t i = 0; i < n_variants; i++) {
        if (variants[i].sparse) {
            continue;
        }
        double distance = distance_apart(&variants[i], batch, last, 1);
        if (variants[i].norm != SL_NORM_BATCH && distance > 1e-5) {
            distance = distance_apart(&variants[i], batch, last, 2);
        }
        if (variants[i].norm != SL_NORM_BATCH) {
            expect_near(variants[i].options, distance, 0, 1e-5);
        }
    }
    machine_down();
}

/* ---- CPUs, GPUs and both ---- */

/* Each variant on CPUs alone, by one PE; then on all other machines (on one of them where kernels are slow), as one
 * PE and spread. */
TEST(test_devices)
{
    struct outcome on_cpus[MAX_VARIANTS];
    const struct {
        const char *name;
        uint32_t n_cpus, n_gpus;
    } machines[] = {{"a " GPU, 0, 1}, {"two CPUs and a " GPU, 2, 1}, {"all " GPU "s", 0, sl_gpus_count()}};
    const size_t n_machines = sizeof machines / sizeof machines[0];
    if (sl_gpus_count() == 0) {
        skip();
    }
    machine_up_with(NULL, 2, 0);
    for (size_t i = 0; i < n_variants; i += variant_stride()) {
        run_variant(&variants[i], &one_pe, &on_cpus[i]);
    }
    machine_down();
    for (size_t m = 0; m < n_machines; m++) {
        machine_up_with(NULL, machines[m].n_cpus, machines[m].n_gpus);
        for (size_t i = 0; i < n_variants; i += variant_stride()) {
            if (slow_kernels() && i / variant_stride() % n_machines != m) {
                continue;
            }
            const struct spread spreads[] = {one_pe, {4, 4, 3, SL_PARTITION_METIS, 2}};
            struct outcome got[2];
            for (size_t j = 0; j < 2; j++) {
                run_variant(&variants[i], &spreads[j], &got[j]);
                expect_losses(&variants[i], &spreads[j], machines[m].name, &got[j], &on_cpus[i]);
                expect_sizes(&spreads[j], &got[j], &on_cpus[i]);
            }
            if (machines[m].n_cpus == 0) { /* which of CPU and GPU has a task changes the sums */
                expect_losses(&variants[i], &spreads[1], "that of one device", &got[1], &got[0]);
            }
            outcome_free(&got[0]);
            outcome_free(&got[1]);
        }
        machine_down();
    }
    for (size_t i = 0; i < n_variants; i += variant_stride()) {
        outcome_free(&on_cpus[i]);
    }
}

/* ---- property 2: the same run twice is the same to the bit ---- */

static void expect_bits(const char *label, const struct outcome *got, const struct outcome *should)
{
    for (uint32_t i = 0; i < steps_of_a_run(); i++) {
        if (memcmp(&got->loss[i], &should->loss[i], sizeof got->loss[i]) != 0) {
            fail_msg("%s: the loss of step %u is %.17g instead of %.17g", label, i, got->loss[i], should->loss[i]);
        }
    }
    assert_int_equal(got->n_entries, should->n_entries);
    expect_same(label, got->n_entries, sizeof *got->parameters, got->parameters, should->parameters);
}

static const struct spread exact_spreads[] = {
    {4, 2, 3, SL_PARTITION_METIS, 2}, {4, 4, 8, SL_PARTITION_RANDOM, 2}, {2, 2, 3, SL_PARTITION_NONE, 2}};
#define N_EXACT (sizeof exact_spreads / sizeof exact_spreads[0])
static size_t exact_variants[MAX_VARIANTS] = {7,  1,  4, 10,
                                              13, 15, 16}; /* and one of each other model (make_variants) */
static size_t n_exact = 7;

static size_t n_exact_variants(void)
{
    return slow_kernels() ? 1 : n_exact;
}

static struct outcome exact[MAX_VARIANTS];

/* Each variant on one of the spreads, with another depth of the ring for every machine. */
static void exact_round(size_t round, const char *label, bool first)
{
    for (size_t i = 0; i < n_exact_variants(); i++) {
        struct outcome got;
        struct spread spread = exact_spreads[i % N_EXACT];
        spread.depth = 1 + (uint32_t)((round + i) % 3);
        run_variant(&variants[exact_variants[i]], &spread, first ? &exact[i] : &got);
        if (!first) {
            const struct variant *v = &variants[exact_variants[i]];
            char name[160];
            snprintf(name, sizeof name, "%s, %s, %s, depth %u", model_name(v->model), v->options, label, spread.depth);
            expect_bits(name, &got, &exact[i]);
            outcome_free(&got);
        }
    }
}

TEST(test_same_bits)
{
    static const char *const scheds[] = {NULL, "lws", "eager", "dmda"};
    size_t round = 0;
    long_test_watched();
    for (uint32_t n_workers = 1; n_workers <= 3 && n_workers <= STARPU_MAXCPUS; n_workers++) {
        for (size_t s = 0; s < 4; s++) {
            char label[96];
            if ((n_workers + s) % 2 == 0 && getenv("SL_LONG") == NULL) {
                continue; /* each scheduler has its turn with another number of workers */
            }
            machine_up(scheds[s], n_workers);
            snprintf(label, sizeof label, "%s with %u workers", machine.sched, n_workers);
            exact_round(round, label, round == 0);
            round++;
            machine_down();
        }
    }
    for (size_t i = 0; i < n_exact_variants(); i++) {
        outcome_free(&exact[i]);
    }
}

/* ---- how many PEs' rows travel side by side is invisible to the bit ---- */

static void run_in_teams(const struct variant *v, uint32_t team, uint32_t expected, struct outcome *out)
{
    const struct spread spread = {20, v->norm == SL_NORM_BATCH ? 10 : 20, 2, SL_PARTITION_METIS, 2};
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    settings_of(v, &spread, &settings);
    world_open(set_of(v->model, v->sparse), &settings, steps_of_a_run(), &w);
    assert_int_equal(w.steps->team, expected);
    w.steps->team = team;
    world_run(&w, steps_of_a_run(), out);
}

TEST(test_teams)
{
#ifdef SL_EMULATED
    long_test_watched();
#endif
    machine_up(NULL, 2);
    for (size_t i = 0; i < n_exact_variants(); i++) {
        const struct variant *v = &variants[exact_variants[i]];
        const uint32_t usual = v->norm == SL_NORM_BATCH ? 3 : 5; /* of 10 or 20 PEs, with two teams a worker */
        struct outcome pairs, teams;
        char name[160];
        snprintf(name, sizeof name, "%s, %s, teams of %u", model_name(v->model), v->options, usual);
        run_in_teams(v, 1, usual, &pairs);
        run_in_teams(v, usual, usual, &teams);
        expect_bits(name, &teams, &pairs);
        outcome_free(&pairs);
        outcome_free(&teams);
    }
    machine_down();
}

/* ---- a cache of feature rows changes what is moved, never a number ---- */

/* A cache is asked for every input row. n_rows: of each PE's cache; 0: none. */
static void run_cached(int precision, uint32_t n_rows, int policy, struct outcome *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    struct sl_row_cache_tally tally;
    uint64_t n_asked = 0;
    settings_of(&variants[2], &exact_spreads[0], &settings);
    settings.precision = precision;
    settings.feature_cache = n_rows;
    settings.feature_cache_policy = policy;
    world_open(&dense_set, &settings, steps_of_a_run(), &w);
    world_run(&w, steps_of_a_run(), out);
    expect_ok(sl_feature_cache_tally(&w.steps->cache, &tally));
    for (uint32_t i = 0; n_rows > 0 && i < steps_of_a_run(); i++) {
        n_asked += out->sizes[i].vertices[3];
    }
    assert_int_equal(tally.rows, n_asked);
    assert_true(n_rows == 0 || (tally.hits > 0 && tally.hits < n_asked));
    expect_ok(sl_feature_cache_tally(&w.steps->cache, &tally));
    assert_int_equal(tally.rows, 0); /* counted from the last call on */
}

static void check_caches(int precision)
{
    OWNED(outcome_free) struct outcome plain;
    long_test_watched();
    machine_up(NULL, 2);
    run_cached(precision, 0, SL_ROW_CACHE_LRU, &plain);
    for (int policy = 0; policy < SL_N_ROW_CACHE_POLICIES; policy++) {
        OWNED(outcome_free) struct outcome got;
        run_cached(precision, 150, policy, &got);
        expect_bits("a cached run", &got, &plain);
    }
    machine_down();
}

TEST(test_feature_cache)
{
    check_caches(SL_PRECISION_FLOAT);
}

TEST(test_feature_cache_bf16)
{
    needs_bf16();
    check_caches(SL_PRECISION_BF16);
}

/* Sparse features are not gathered. */
TEST(test_sparse_cache)
{
    struct sl_settings settings;
    struct sl_feature_cache cache;
    struct world w = {.settings = &settings};
    machine_up(NULL, 2);
    settings_of(&variants[14], &exact_spreads[0], &settings);
    settings.feature_cache = 10;
    expect_ok(sl_settings_check(&settings));
    expect_ok(sl_shards_open(&sparse_set, partition_of(&sparse_set, &settings), SL_FEATURES_AS_THEY_ARE, SL_DTYPE_REAL,
                             NULL, &w.shards));
    expect_ok(sl_run_init(&w.run));
    w.plan = sl_plan_make(&settings, w.shards.n_train);
    assert_int_equal(sl_feature_cache_open(&settings, &w.plan, &w.run, &w.shards, 0, &cache), SL_EINVAL);
    assert_int_equal(cache.n_pes, 0);
    sl_shards_close(&w.shards);
    sl_run_free(&w.run);
    sl_settings_free(&settings);
    machine_down();
}

/* ---- a batch that is late ---- */

static void sleep_task(void *buffers[], void *cl_arg)
{
    (void)buffers;
    (void)cl_arg;
    starpu_usleep(60000);
}

static struct starpu_codelet sleep_cl = {
    .cpu_funcs = {sleep_task}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "sleep"};

static void delay(starpu_data_handle_t handle)
{
    assert_int_equal(starpu_task_insert(&sleep_cl, STARPU_RW, handle, 0), 0);
}

/* With the first two batches sampled, hold up what the compute phase of batch `late` reads. */
static void run_late(const struct variant *v, const struct spread *spread, uint64_t late, bool counts,
                     struct outcome *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    settings_of(v, spread, &settings);
    world_open(set_of(v->model, v->sparse), &settings, steps_of_a_run(), &w);
    expect_ok(sl_step_sample(w.steps, 0));
    expect_ok(sl_step_sample(w.steps, 1));
    struct sl_slot_pe *pe = sl_step_slot(w.steps, late, 1);
    delay(counts ? pe->counts : pe->frontier);
    delay(pe->block[1].back_rows);
    delay(w.model.layer[0].parameter[SAGE_SELF].value_handle);
    world_run(&w, steps_of_a_run(), out);
}

TEST(test_late_batch)
{
    long_test_watched();
    machine_up("prio", 3);
    for (size_t i = 1; i < 8; i += 6) {
        OWNED(outcome_free) struct outcome on_time;
        run_variant(&variants[i], &exact_spreads[1], &on_time);
        for (int k = 0; k < 4; k++) {
            OWNED(outcome_free) struct outcome got;
            run_late(&variants[i], &exact_spreads[1], k % 2, k / 2 > 0, &got);
            expect_bits(k % 2 == 0 ? "batch 0 is late" : "batch 1 is late", &got, &on_time);
        }
    }
    machine_down();
}

/* ---- what a step samples ---- */

/* --fanout is written input side first: hop 0, at the seeds, takes the last number; each destination min(fanout,
 * degree). */
TEST(test_fanout)
{
    long_test_watched();
    machine_up(NULL, 2);
    for (size_t i = 0; i < N_COMMON; i++) {
        const struct sl_graph *graph = &set_of(variants[i].model, variants[i].sparse)->graph;
        struct sl_settings settings;
        struct sl_step_sizes sizes;
        struct world w;
        settings_of(&variants[i], &one_pe, &settings);
        if (settings.sampler == SL_SAMPLER_LABOR || settings.n_layer_size > 0 || settings.replace) {
            sl_settings_free(&settings);
            continue;
        }
        world_open(set_of(variants[i].model, variants[i].sparse), &settings, 1, &w);
        expect_ok(sl_step_sample(w.steps, 0));
        sl_step_begin(w.steps, 0);
        expect_ok(sl_step_sizes(w.steps, 0, &sizes));
        for (uint32_t hop = 0; hop < 3; hop++) {
            uint32_t n;
            uint64_t n_edges = 0;
            FREED sl_vertex *ids = frontier_of(&w, 0, 0, hop, &n);
            assert_int_equal(n, sizes.vertices[hop]);
            for (uint32_t d = 0; d < n; d++) {
                uint64_t degree = graph->offsets[ids[d] + 1] - graph->offsets[ids[d]];
                uint64_t fanout = settings.fanout[2 - hop];
                n_edges += settings.sampler == SL_SAMPLER_FULL || degree < fanout ? degree : fanout;
            }
            assert_int_equal(sizes.edges[hop], n_edges);
        }
        world_close(&w);
        sl_settings_free(&settings);
    }
    machine_down();
}

/* Count the seeds of one epoch, by dataset id. Returns a sum that depends on which step has which. */
static uint64_t count_epoch(struct world *w, uint64_t epoch, uint32_t *times)
{
    uint64_t sum = 0;
    memset(times, 0, w->shards.n_vertices * sizeof *times);
    for (uint64_t i = 0; i < w->plan.n_per_epoch; i++) {
        uint64_t step = epoch * w->plan.n_per_epoch + i;
        expect_ok(sl_step_sample(w->steps, step));
        for (uint32_t p = 0; p < w->plan.n_pes; p++) {
            uint32_t n;
            FREED sl_vertex *ids = frontier_of(w, step, p, 0, &n);
            for (uint32_t k = 0; k < n; k++) {
                times[ids[k]]++;
                sum += (uint64_t)ids[k] * (i + 1);
            }
        }
    }
    return sum;
}

/* Each epoch's steps have every training vertex once, in another order than the epochs before, and than with another
 * seed. */
TEST(test_epochs)
{
    long_test_watched();
    FREED uint32_t *times = need(dense_set.graph.n_vertices, sizeof *times);
    uint64_t last = 0; /* sums[0] with another seed */
    machine_up(NULL, 2);
    for (size_t j = 0; j < N_SPREADS; j++) {
        uint64_t sums[3];
        struct spread spread = spread_of(j, j);
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(world_close) struct world w;
        settings_of(&variants[0], &spread, &settings);
        settings.seed = 1 + j % 2;
        world_open(&dense_set, &settings, MAX_STEPS, &w);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            sums[epoch] = count_epoch(&w, epoch, times);
            for (uint32_t i = 0; i < dense_set.train.n; i++) {
                assert_int_equal(times[dense_set.train.ids[i]], 1);
                times[dense_set.train.ids[i]] = 0;
            }
            for (uint32_t v = 0; v < dense_set.graph.n_vertices; v++) {
                assert_int_equal(times[v], 0);
            }
        }
        assert_true(sums[0] != sums[1] && sums[1] != sums[2] && sums[0] != sums[2] && sums[0] != last);
        last = sums[0];
    }
    machine_down();
}

/* ---- the variants and the datasets ---- */

/* Add a variant, if its model takes its options. */
static bool add_variant(int model, const struct recipe *recipe)
{
    struct sl_settings settings;
    struct variant v = {recipe->options, recipe->sparse, model, SL_NORM_NONE};
    settings_of(&v, &one_pe, &settings);
    bool taken = sl_settings_check(&settings) == SL_OK;
    v.norm = settings.norm;
    sl_settings_free(&settings);
    assert_true(n_variants < MAX_VARIANTS);
    variants[n_variants] = v;
    n_variants += taken;
    return taken;
}

/* A model that takes no more than two of the recipes needs others. */
static void make_variants(void)
{
    for (size_t k = 0; k < N_COMMON; k++) {
        assert_true(add_variant(SL_MODEL_SAGE, &common[k]));
    }
    for (int model = SL_MODEL_SAGE + 1; model < n_models(); model++) {
        size_t first = n_variants;
        for (size_t k = 0; k < N_RECIPES; k++) {
            add_variant(model, &recipes[k]);
        }
        assert_true(n_variants >= first + 3);
        exact_variants[n_exact++] = first + (size_t)model % (n_variants - first);
    }
}

static int up(void **state)
{
    (void)state;
    make_variants();
    make_sets(dense_shape, sparse_shape);
    assert_true(dense_set.train.n > 2 * SEEDS && dense_set.train.n < 3 * SEEDS);
    assert_true(sparse_set.train.n > 2 * SEEDS && sparse_set.train.n < 3 * SEEDS);
    return 0;
}

static int down(void **state)
{
    for (size_t i = 0; i < n_variants; i++) {
        outcome_free(&wanted[i]);
    }
    return sets_down(state);
}

TEST_MAIN(up, down)
