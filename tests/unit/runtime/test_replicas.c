/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/ends/gossip.h and runtime/sync/replicas.h: what replicas exchange, on arrays made for it and in whole steps.
 * To be read with runtime/plan/partners.h, whose schedule tests/unit/runtime/test_gossip.c checks. */
#include "tests/support/run_fixture.h"
#include "tests/support/sage_fixture.h"

#include "data/load.h"

#include "codelets/ends/gossip.h"
#include "codelets/ends/reduce.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* ---- the codelet ---- */

#define MOST 20
enum { ROWS = 41, COLUMNS = 33, ENTRIES = ROWS * COLUMNS };

TEST(test_kernel)
{
    const uint32_t counts[] = {1, 2, 3, 7, MOST};
    const size_t sizes[] = {1, 511, 512, 513, 3000};
    const double scales[] = {1, 0.5, 1.0 / 3, 0};
    for (int i = 0; i < 5 * 5 * 4; i++) {
        uint32_t n = counts[i % 5];
        size_t size = sizes[i / 5 % 5];
        sl_real *sources[MOST];
        FREED sl_real *got = poisoned(size);
        FREED sl_real *wanted = poisoned(size);
        for (uint32_t k = 0; k < n; k++) {
            sources[k] = noisy(size, k + 1);
        }
        for (size_t e = 0; e < size; e++) {
            double sum = 0;
            for (uint32_t k = 0; k < n; k++) {
                sum += (double)sources[k][e];
            }
            wanted[e] = (sl_real)(scales[i / 25] * sum);
        }
        sl_gossip_mix_cpu(n, size, (const sl_real *const *)sources, scales[i / 25], got);
        expect_same("mix", size, sizeof *got, got, wanted);
        for (uint32_t k = 0; k < n; k++) {
            free(sources[k]);
        }
    }
}

/* n copies of one array, averaged, are that array; in double 49 additions may round. */
TEST(test_average_of_equals)
{
    FREED sl_real *x = noisy(ENTRIES, 5);
    FREED sl_real *out = poisoned(ENTRIES);
    const sl_real *sources[49];
    for (uint32_t n = 1; n <= 49; n++) {
        sources[n - 1] = x;
        sl_gossip_mix_cpu(n, ENTRIES, sources, 1.0 / n, out);
        for (size_t e = 0; e < ENTRIES; e++) {
            expect_near_at("average", e, (double)out[e], (double)x[e],
                           sizeof(sl_real) == sizeof(float) ? 0 : n * DBL_EPSILON);
        }
    }
}

#ifdef SL_CUDA
/* The bits of the CPU. */
static void check_launcher(uint32_t n, size_t n_entries)
{
    size_t bytes = n_entries * sizeof(sl_real);
    sl_real **sources = need(n, sizeof *sources);
    const sl_real **on_gpu = need(n, sizeof *on_gpu);
    FREED sl_real *got = poisoned(n_entries);
    FREED sl_real *wanted = poisoned(n_entries);
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = noisy(n_entries, i + 1);
        on_gpu[i] = on_device(sources[i], bytes);
    }
    sl_real *out = device_room(bytes);
    sl_gossip_mix_cpu(n, n_entries, (const sl_real *const *)sources, 1.0 / n, wanted);
    expect_launched(sl_gossip_mix_cuda(NULL, n, n_entries, on_gpu, 1.0 / n, out));
    from_device(got, out, bytes);
    expect_same("mix", n_entries, sizeof *got, got, wanted);
    for (uint32_t i = 0; i < n; i++) {
        free(sources[i]);
        cudaFree((void *)(uintptr_t)on_gpu[i]);
    }
    free(sources);
    free(on_gpu);
}

TEST(test_launcher)
{
    need_device();
    for (uint32_t n = 1; n <= 13; n += 3) {
        check_launcher(n, 0);
        check_launcher(n, 1);
        check_launcher(n, 5001);
    }
    check_launcher(256, 300);
    check_launcher(257, 300);
    check_launcher(600, 40); /* in three launches */
}
#endif

static enum sl_status submit(sl_real *x, sl_real *y, double scale, sl_real *out)
{
    starpu_data_handle_t h[] = {rows_of(x, ROWS, COLUMNS), rows_of(y, ROWS, COLUMNS), rows_of(out, ROWS, COLUMNS)};
    const enum sl_status st = sl_gossip_mix_submit(&head, 2, h, scale, h[2]);
    UNREGISTER(h);
    return st;
}

static sl_real *through_starpu(sl_real *x, sl_real *y, double scale)
{
    sl_real *out = poisoned(ENTRIES);
    expect_ok(submit(x, y, scale, out));
    return out;
}

TEST(test_submission)
{
    FREED sl_real *x = noisy(ENTRIES, 1);
    FREED sl_real *y = noisy(ENTRIES, 2);
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        FREED sl_real *there = through_starpu(x, y, 0.5);
        FREED sl_real *back = through_starpu(y, x, 0.5); /* both partners get the same bits */
        expect_same("mixed", ENTRIES, sizeof *x, there, back);
        expect_near("mixed", (double)there[7], 0.5 * ((double)x[7] + (double)y[7]), EPSILON);
        expect_no_failure();
        sl_memory_ration(0);
        const enum sl_status st = submit(x, y, 0.25, back);
        sl_memory_ration(-1);
        assert_int_equal(st, SL_ENOMEM);
        expect_same("not mixed", ENTRIES, sizeof *x, there, back);
        fixture_stop();
    }
}

/* ---- rounds on arrays made for it: one linear layer, 1 input, 5 outputs, n replicas of one PE each ---- */

enum { WIDTH = 5 };

struct bench {
    struct sl_settings settings;
    struct sl_plan plan;
    struct sl_replicas replicas;
};

static void bench_open(int sync, int gossip, uint32_t n, uint32_t local, struct bench *b)
{
    *b = (struct bench){0};
    expect_ok(sl_settings_init(&b->settings));
    b->settings.layers = 1;
    b->settings.sync = sync;
    b->settings.gossip_what = gossip;
    b->settings.pes = n;
    b->settings.batch_size = 4;
    b->settings.gossip_local_size = local;
    expect_ok(sl_settings_check(&b->settings));
    b->plan = sl_plan_make(&b->settings, 1000 * n);
    b->replicas = (struct sl_replicas){.settings = &b->settings, .plan = &b->plan, .run = &run};
    const struct sl_model_data data = {1, WIDTH, 0, false, 0, 0};
    expect_ok(sl_replicas_init(&b->settings, n, &data, &b->replicas.replica));
    expect_ok(sl_replicas_open(&b->replicas));
}

static void bench_close(struct bench *b)
{
    starpu_task_wait_for_all();
    sl_replicas_close(&b->replicas);
    sl_replicas_free(b->replicas.replica, b->plan.n_replicas);
    sl_settings_free(&b->settings);
}

static struct sl_parameter *weights_of(struct bench *b, uint32_t r)
{
    return &b->replicas.replica[r].layer[0].parameter[SAGE_SELF];
}

/* Entries of replica r's gradient or weights, before: written; after: read. No task is running. */
static void put(struct bench *b, uint32_t r, bool weight, const double *x)
{
    struct sl_parameter *p = weights_of(b, r);
    starpu_data_handle_t handle = weight ? p->value_handle : p->gradient_handle;
    assert_int_equal(starpu_data_acquire(handle, STARPU_W), 0);
    for (int i = 0; i < WIDTH; i++) {
        (weight ? p->value : p->gradient)[i] = (sl_real)x[i];
    }
    starpu_data_release(handle);
}

static void put_all(struct bench *b, uint32_t r, bool weight, double x)
{
    put(b, r, weight, (double[]){x, x, x, x, x});
}

static void get(struct bench *b, uint32_t r, bool weight, double *out)
{
    struct sl_parameter *p = weights_of(b, r);
    starpu_data_handle_t handle = weight ? p->value_handle : p->gradient_handle;
    assert_int_equal(starpu_data_acquire(handle, STARPU_R), 0);
    assert_true(starpu_data_get_local_ptr(handle) == (weight ? p->value : p->gradient));
    for (int i = 0; i < WIDTH; i++) {
        out[i] = (double)(weight ? p->value : p->gradient)[i];
    }
    starpu_data_release(handle);
}

static void mix_step(struct bench *b, uint64_t step)
{
    expect_ok(sl_replicas_plan(&b->replicas, step));
    expect_ok(sl_replicas_mix_gradients(&b->replicas, step, 0, SAGE_SELF));
    expect_ok(sl_replicas_mix_weights(&b->replicas, step, 0, SAGE_SELF));
    starpu_task_wait_for_all();
    expect_no_failure();
}

static const uint32_t counts[] = {2, 3, 5, 6, 7, 8};
#define N_COUNTS (sizeof counts / sizeof counts[0])

static bool allowed(int sync, uint32_t n)
{
    return sync == SL_SYNC_DISSEMINATION || n == 1 || n % 2 == 0;
}

/* Every replica's mean gradient is its number: mixed, 0.5 (own + received), where own and received are means over
 * the nodes. An idle node keeps its own, unscaled. */
static void check_numbers(int sync, uint32_t n, uint32_t local)
{
    OWNED(bench_close) struct bench b;
    bench_open(sync, SL_GOSSIP_GRAD, n, local, &b);
    for (uint64_t step = 0; step < 3 * sl_gossip_period(n / local); step++) {
        struct sl_partners partners[8];
        uint32_t nodes[8];
        struct sl_permutation permutation = {0, nodes};
        expect_ok(sl_gossip_schedule((enum sl_sync)sync, n / local, step, b.settings.seed, &permutation, partners));
        for (uint32_t r = 0; r < n; r++) {
            put_all(&b, r, false, (double)r / n); /* its share of the mean over all seeds */
        }
        mix_step(&b, step);
        for (uint32_t r = 0; r < n; r++) {
            double got[WIDTH];
            double own = (double)(r / local * local) + (local - 1) / 2.0;
            double received = (double)partners[r / local].from * local + (local - 1) / 2.0;
            get(&b, r, false, got);
            for (int i = 0; i < WIDTH; i++) {
                expect_near("mixed gradient", got[i], 0.5 * (own + received), 16 * EPSILON * n);
            }
        }
    }
}

TEST(test_gradients)
{
    fixture_start(2);
    for (size_t c = 0; c < N_COUNTS; c++) {
        check_numbers(SL_SYNC_DISSEMINATION, counts[c], 1);
        if (counts[c] % 2 == 0) {
            check_numbers(SL_SYNC_CUBE, counts[c], 1);
            check_numbers(SL_SYNC_DISSEMINATION, counts[c], 2);
        }
    }
    check_numbers(SL_SYNC_DISSEMINATION, 6, 3);
    check_numbers(SL_SYNC_CUBE, 8, 2);
    check_numbers(SL_SYNC_CUBE, 8, 8); /* one node: a plain mean */
    fixture_stop();
}

/* The epoch's last step: replicas with unequal numbers of seeds, one of them with none. */
TEST(test_unequal_seeds)
{
    fixture_start(2);
    for (int gossip = SL_GOSSIP_GRAD; gossip <= SL_GOSSIP_WEIGHT; gossip++) {
        OWNED(bench_close) struct bench b;
        bench_open(SL_SYNC_DISSEMINATION, gossip, 3, 1, &b);
        b.plan = sl_plan_make(&b.settings, 2); /* replica 0 has none, 1 and 2 have one each */
        struct sl_partners partners[3];
        uint32_t nodes[3];
        struct sl_permutation permutation = {0, nodes};
        expect_ok(sl_gossip_schedule(SL_SYNC_DISSEMINATION, 3, 0, b.settings.seed, &permutation, partners));
        const double seeds[] = {0, 1, 1};
        const double means[] = {0, 5, 7};
        for (uint32_t r = 0; r < 3; r++) {
            put_all(&b, r, false, means[r] * seeds[r] / 2);
            put_all(&b, r, true, 1);
        }
        mix_step(&b, 0);
        for (uint32_t r = 0; r < 3; r++) {
            double got[WIDTH];
            uint32_t from = gossip == SL_GOSSIP_GRAD ? partners[r].from : r;
            double n = from == r ? seeds[r] : seeds[r] + seeds[from];
            double sum = means[r] * seeds[r] + (from == r ? 0 : means[from] * seeds[from]);
            get(&b, r, false, got);
            expect_near("gradient", got[0], n == 0 ? 0 : sum / n, 8 * EPSILON * 7);
        }
    }
    fixture_stop();
}

/* Equal replicas with equal gradients get what all-reduce gives, to the bit where all-reduce's own sum does not
 * round. */
TEST(test_equal_gradients)
{
    struct bench b;
    fixture_start(2);
    for (size_t c = 0; c < N_COUNTS; c++) {
        for (int sync = SL_SYNC_DISSEMINATION; sync <= SL_SYNC_CUBE; sync++) {
            uint32_t n = counts[c];
            sl_real share[WIDTH];
            const sl_real *shares[8] = {share, share, share, share, share, share, share, share};
            sl_real sum[WIDTH];
            if (!allowed(sync, n)) {
                continue;
            }
            bench_open(sync, SL_GOSSIP_GRAD, n, 1, &b);
            for (int i = 0; i < WIDTH; i++) {
                share[i] = (sl_real)(floor(4096 * noise(3, (size_t)i)) / 4096);
            }
            sl_reduce_cpu(n, WIDTH, shares, (uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, sum);
            for (uint64_t step = 0; step < 4; step++) {
                for (uint32_t r = 0; r < n; r++) {
                    put(&b, r, false,
                        (double[]){(double)share[0], (double)share[1], (double)share[2], (double)share[3],
                                   (double)share[4]});
                }
                mix_step(&b, step);
                for (uint32_t r = 0; r < n; r++) {
                    double got[WIDTH];
                    get(&b, r, false, got);
                    for (size_t i = 0; i < WIDTH; i++) {
                        expect_near_at("gradient", i, got[i], (double)sum[i], 0);
                    }
                }
            }
            bench_close(&b);
        }
    }
    fixture_stop();
}

static double spread_and_mean(struct bench *b, double *mean_out)
{
    double low = INFINITY;
    double high = -INFINITY;
    *mean_out = 0;
    for (uint32_t r = 0; r < b->plan.n_replicas; r++) {
        double x[WIDTH];
        get(b, r, true, x);
        low = fmin(low, x[3]);
        high = fmax(high, x[3]);
        *mean_out += x[3] / b->plan.n_replicas;
    }
    return high - low;
}

/* Mixing weights keeps their mean; within a period it is exact where the nodes are a power of two, and soon close
 * elsewhere. */
TEST(test_weights)
{
    struct bench b;
    fixture_start(2);
    for (size_t c = 0; c < N_COUNTS; c++) {
        for (int sync = SL_SYNC_DISSEMINATION; sync <= SL_SYNC_CUBE; sync++) {
            for (uint32_t local = 1; local <= 2; local++) {
                uint32_t n = counts[c];
                if (n % local != 0 || !allowed(sync, n / local)) {
                    continue;
                }
                double mean = 0;
                bench_open(sync, SL_GOSSIP_WEIGHT, n, local, &b);
                for (uint32_t r = 0; r < n; r++) {
                    put(&b, r, true, (double[]){0, 0, 0, (double)(r * r) - 7, 0});
                    mean += ((double)(r * r) - 7) / n;
                }
                uint32_t period = sl_gossip_period(n / local);
                for (uint64_t step = 0; step < 8 * period; step++) {
                    double now;
                    mix_step(&b, step);
                    double spread = spread_and_mean(&b, &now);
                    expect_near("mean of the weights", now, mean, 64 * EPSILON * n * n);
                    bool power = ((n / local) & (n / local - 1)) == 0;
                    if (power && step + 1 >= period) {
                        expect_near("spread", spread, 0, 0);
                    } else if (power && step + 1 < period && local == 1) {
                        assert_true(spread > 0.1); /* not before */
                    }
                    assert_true(step + 1 < 8 * period || spread < 1e-2 * n * n);
                }
                bench_close(&b);
            }
        }
    }
    fixture_stop();
}

TEST(test_average_every)
{
    struct bench b;
    fixture_start(2);
    bench_open(SL_SYNC_CUBE, SL_GOSSIP_GRAD, 6, 1, &b);
    b.settings.gossip_average_every = 3;
    for (uint32_t r = 0; r < 6; r++) {
        put_all(&b, r, true, r);
    }
    for (uint64_t step = 0; step < 3; step++) {
        double mean;
        mix_step(&b, step);
        double spread = spread_and_mean(&b, &mean);
        expect_near("mean", mean, 2.5, 16 * EPSILON);
        expect_near("spread", spread, step == 2 ? 0 : 5, 0);
    }
    bench_close(&b);
    fixture_stop();
}

/* Models that travel: one a replica that is not idle, whatever n; sums inside groups and nodes 2 (k - 1). */
TEST(test_traffic)
{
    struct bench b;
    fixture_start(1);
    for (int gossip = SL_GOSSIP_GRAD; gossip <= SL_GOSSIP_WEIGHT; gossip++) {
        for (size_t c = 0; c < N_COUNTS; c++) {
            bench_open(SL_SYNC_DISSEMINATION, gossip, counts[c], 1, &b);
            expect_ok(sl_replicas_plan(&b.replicas, 5));
            assert_int_equal(sl_replicas_traffic(&b.replicas), counts[c]);
            b.plan.n_pes *= 4; /* groups of 4 */
            assert_int_equal(sl_replicas_traffic(&b.replicas), counts[c] * (1 + 2 * 3));
            bench_close(&b);
        }
        bench_open(SL_SYNC_CUBE, gossip, 6, 1, &b);
        for (uint64_t step = 0; step < 3; step++) {
            expect_ok(sl_replicas_plan(&b.replicas, step));
            assert_int_equal(sl_replicas_traffic(&b.replicas), step == 0 ? 6 : 4); /* two are idle */
        }
        b.settings.gossip_average_every = 1;
        expect_ok(sl_replicas_plan(&b.replicas, 3));
        assert_int_equal(sl_replicas_traffic(&b.replicas), 6 + 2 * 5);
        bench_close(&b);
        bench_open(SL_SYNC_DISSEMINATION, gossip, 8, 4, &b);
        expect_ok(sl_replicas_plan(&b.replicas, 0));
        assert_int_equal(sl_replicas_traffic(&b.replicas), 2 + 2 * 2 * 3);
        bench_close(&b);
    }
    fixture_stop();
}

/* ---- whole steps ---- */

#define N_STEPS 5
static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 701, .n_columns = 20, .n_classes = 5, .seed = 11};
static struct sl_dataset dataset;

static void configure(int sync, int gossip, uint32_t pes, uint32_t group_size, struct sl_settings *out)
{
    settings_with("layers=2 hidden=24 dropout=0.5 norm=layer fanout=4,5 chunks=1", out);
    out->pes = pes;
    out->group_size = group_size;
    out->batch_size = 96 / pes;
    out->sync = sync;
    out->gossip_what = gossip;
}

static void run_configured(struct sl_settings *settings, struct outcome *out)
{
    run_steps(&dataset, settings, N_STEPS, out);
    sl_settings_free(settings);
}

static void expect_same_run(const struct outcome *got, const struct outcome *wanted)
{
    expect_same("loss", N_STEPS, sizeof(double), got->loss, wanted->loss);
    assert_int_equal(got->n_entries, wanted->n_entries);
    expect_same("parameter", got->n_entries, sizeof *got->parameters, got->parameters, wanted->parameters);
}

static int make(void **state)
{
    (void)state;
    make_dataset(&shape, &dataset);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    forget_partitions();
    sl_dataset_free(&dataset);
    return 0;
}

/* One replica is all-reduce, two that mix gradients are all-reduce over two groups: to the bit. */
TEST_WITH(test_is_allreduce, make, drop)
{
    struct sl_settings settings;
    struct outcome plain;
    struct outcome got;
    machine_up(NULL, 2);
    for (uint32_t group_size = 1; group_size <= 2; group_size++) {
        configure(SL_SYNC_ALLREDUCE, 0, 2, group_size, &settings);
        run_configured(&settings, &plain);
        for (int sync = SL_SYNC_DISSEMINATION; sync <= SL_SYNC_CUBE; sync++) {
            for (int gossip = SL_GOSSIP_GRAD; gossip <= (group_size == 1 ? SL_GOSSIP_GRAD : SL_GOSSIP_WEIGHT);
                 gossip++) {
                configure(sync, gossip, 2, group_size, &settings);
                run_configured(&settings, &got);
                expect_same_run(&got, &plain);
                outcome_free(&got);
            }
        }
        outcome_free(&plain);
    }
    for (int sync = SL_SYNC_DISSEMINATION; sync <= SL_SYNC_CUBE; sync++) { /* P = 1 */
        configure(SL_SYNC_ALLREDUCE, 0, 1, 1, &settings);
        run_configured(&settings, &plain);
        configure(sync, SL_GOSSIP_WEIGHT, 1, 0, &settings);
        settings.gossip_ring = true;
        settings.gossip_average_every = 2;
        run_configured(&settings, &got);
        assert_int_equal(got.sizes[0].bytes.weights, 0);
        expect_same_run(&got, &plain);
        outcome_free(&got);
        outcome_free(&plain);
    }
    machine_down();
}

/* As many replicas, other PEs and parts inside them: the same losses; again, with other workers and chunks: the
 * same bits. */
TEST_WITH(test_groups_are_invisible, make, drop)
{
    const uint32_t sizes[] = {1, 2, 4};
    for (int sync = SL_SYNC_DISSEMINATION; sync <= SL_SYNC_CUBE; sync++) {
        for (int gossip = SL_GOSSIP_GRAD; gossip <= SL_GOSSIP_WEIGHT; gossip++) {
            OWNED(outcome_free) struct outcome first = {0};
            struct outcome got;
            for (int i = 0; i < 4; i++) {
                struct sl_settings settings;
                uint32_t size = sizes[i % 3];
                machine_up(i == 3 ? "eager" : NULL, i == 3 ? 1 : 3);
                configure(sync, gossip, 6 * size, size, &settings);
                settings.sampler = gossip == SL_GOSSIP_GRAD ? SL_SAMPLER_LABOR : SL_SAMPLER_NEIGHBOR;
                settings.gossip_average_every = 3;
                settings.gossip_ring = true;
                run_configured(&settings, i == 0 ? &first : &got);
                machine_down();
                for (uint32_t k = 0; i > 0 && k < N_STEPS; k++) {
                    expect_near("loss", got.loss[k], first.loss[k], 1e-5 * first.loss[k]);
                }
                if (i == 3) {
                    expect_same_run(&got, &first);
                }
                if (i > 0) {
                    outcome_free(&got);
                }
            }
        }
    }
}

/* Bytes of weights per PE and step do not grow with P. */
TEST_WITH(test_bytes, make, drop)
{
    const uint32_t pes[] = {2, 4, 6, 8};
    uint64_t one = 0;
    machine_up(NULL, 2);
    for (int i = 0; i < 4; i++) {
        struct sl_settings settings;
        OWNED(outcome_free) struct outcome got;
        configure(SL_SYNC_DISSEMINATION, SL_GOSSIP_WEIGHT, pes[i], 1, &settings);
        run_configured(&settings, &got);
        for (int k = 0; k < N_STEPS; k++) {
            uint64_t each = got.sizes[k].bytes.weights / pes[i];
            one = one == 0 ? each : one;
            assert_int_equal(each, one);
            assert_int_equal(each * pes[i], got.sizes[k].bytes.weights);
        }
        assert_int_equal(one, got.n_entries * sizeof(sl_real)); /* one model */
    }
    machine_down();
}

/* Batch norm keeps statistics by replica; their average is what replicas that share everything keep. */
TEST_WITH(test_batch_norm, make, drop)
{
    struct outcome plain;
    struct outcome got;
    struct sl_settings settings;
    machine_up(NULL, 2);
    configure(SL_SYNC_ALLREDUCE, 0, 2, 1, &settings);
    settings.norm = SL_NORM_BATCH;
    run_configured(&settings, &plain);
    configure(SL_SYNC_DISSEMINATION, SL_GOSSIP_GRAD, 2, 1, &settings);
    settings.norm = SL_NORM_BATCH;
    run_configured(&settings, &got);
    expect_same("loss", N_STEPS, sizeof(double), got.loss, plain.loss);
    for (size_t i = 0; i < got.n_entries; i++) {
        expect_near_at("parameter", i, (double)got.parameters[i], (double)plain.parameters[i],
                       8 * EPSILON * fmax(1, fabs((double)plain.parameters[i])));
    }
    outcome_free(&plain);
    outcome_free(&got);
    machine_down();
}

/* The ring: in each epoch each group trains on what the one before it trained on, and together on every seed once. */
TEST_WITH(test_ring, make, drop)
{
    struct world w;
    struct sl_settings settings;
    machine_up(NULL, 1);
    configure(SL_SYNC_DISSEMINATION, SL_GOSSIP_WEIGHT, 6, 2, &settings);
    settings.batch_size = 11;
    settings.gossip_ring = true;
    world_open(&dataset, &settings, 1, &w);
    uint32_t n = w.plan.n_per_epoch;
    for (uint64_t step = 0; step < 5 * (uint64_t)n; step++) {
        uint32_t total = 0;
        for (uint32_t r = 0; r < 3; r++) {
            struct sl_seeds now = sl_plan_share(&w.plan, step, r);
            struct sl_seeds then = sl_plan_share(&w.plan, step % n, (r + 3 - (uint32_t)(step / n % 3)) % 3);
            assert_true(now.first == then.first && now.n == then.n && now.epoch == step / n);
            total += now.n;
        }
        assert_int_equal(total, sl_plan_seeds(&w.plan, step).n);
    }
    world_close(&w);
    sl_settings_free(&settings);
    machine_down();
}

/* What the ring passes on are the same seeds: over an epoch's border one group samples what the other did. */
TEST_WITH(test_ring_seeds, make, drop)
{
    struct world w;
    struct sl_settings settings;
    sl_vertex seeds[2][2][64]; /* by epoch and group, renumbered ids */
    uint32_t n_seeds[2][2];
    machine_up(NULL, 1);
    configure(SL_SYNC_DISSEMINATION, SL_GOSSIP_WEIGHT, 2, 1, &settings);
    settings.batch_size = 48;
    settings.gossip_ring = true;
    settings.depth = 1;
    world_open(&dataset, &settings, 8 * 64, &w);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        expect_ok(sl_step_sample(w.steps, epoch * w.plan.n_per_epoch));
        for (uint32_t p = 0; p < 2; p++) {
            struct sl_slot_pe *pe = sl_step_slot(w.steps, 0, p);
            assert_int_equal(starpu_data_acquire(pe->counts, STARPU_R), 0);
            assert_int_equal(starpu_data_acquire(pe->frontier, STARPU_R), 0);
            n_seeds[epoch][p] = ((const uint32_t *)starpu_data_get_local_ptr(pe->counts))[sl_counts_rows(0)];
            assert_true(n_seeds[epoch][p] == 48);
            memcpy(seeds[epoch][p], starpu_data_get_local_ptr(pe->frontier), 48 * sizeof(sl_vertex));
            starpu_data_release(pe->frontier);
            starpu_data_release(pe->counts);
        }
    }
    assert_memory_equal(seeds[1][1], seeds[0][0], 48 * sizeof(sl_vertex));
    assert_memory_equal(seeds[1][0], seeds[0][1], 48 * sizeof(sl_vertex));
    assert_memory_not_equal(seeds[0][0], seeds[0][1], 48 * sizeof(sl_vertex));
    world_close(&w);
    sl_settings_free(&settings);
    machine_down();
}

TEST_MAIN(NULL, NULL)
