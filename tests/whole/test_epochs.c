/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Property 1 over a whole training (runtime/starling.h): the losses of 30 epochs, of training and of validation,
 * whatever the number of PEs and parts, the partition and the chunks. tests/whole/test_properties.c has the first
 * steps, of more kinds of models.
 *
 * Validation is where batch norm's running statistics are seen: what drifts without changing the training loss, as
 * a bias that batch norm takes out again, shows there alone.
 *
 * Where rounding in float parts two runs before their end, it is their first epochs that are compared, and in
 * double (tests/whole/test_epochs.double) all: what is left then is the algorithm.
 */
#include "tests/support/session_fixture.h"

#include "data/load.h"
#include "runtime/train/session.h"
#include "tests/support/run_fixture.h"

#define N_EPOCHS 30
#define UNFLIPPED UINT32_MAX

/* ---- a run ---- */

struct losses {
    uint32_t n;
    double train[N_EPOCHS], valid[N_EPOCHS];
};

static int take(void *context, const struct sl_epoch_news *news)
{
    struct losses *losses = context;
    assert_true(losses->n < N_EPOCHS && news->evaluated);
    losses->train[losses->n] = news->loss;
    losses->valid[losses->n++] = news->scores.valid_loss;
    return 0;
}

/* Flip the last bit of the significand of the first weight in a layer's last matrix. */
static void flip_bit(struct sl_model *model, uint32_t layer)
{
    int k = (int)model->layer[layer].kind->n_parameters - 1;
    while (model->layer[layer].kind->parameter[k].shape != SL_SHAPE_MATRIX) {
        k--;
    }
    expect_ok(sl_model_acquire(model, STARPU_RW));
    unsigned char *weight = (unsigned char *)model->layer[layer].parameter[k].value;
    weight[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(sl_real) - 1] ^= 1;
    sl_model_release(model);
}

/* All epochs on the dataset with these options and as they are spread; `seeds` is P * B. flipped: the layer
 * that gets another bit in one weight, or UNFLIPPED. */
static void train_from(const struct sl_dataset *dataset, const char *options, const char *spread, uint32_t seeds,
                       uint32_t flipped, struct losses *out)
{
    const struct sl_report report = {.size = sizeof report, .context = out, .epoch = take};
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    struct sl_session *session;
    *out = (struct losses){0};
    expect_ok(sl_settings_new(&settings));
    set_options(settings, "epochs=30 lr=0.01 dropout=0.5 cpus=2 quiet");
    set_options(settings, options);
    set_options(settings, spread);
    settings->batch_size = seeds / settings->pes;
    expect_ok(sl_session_open(settings, dataset, &session));
    for (uint32_t r = 0; flipped != UNFLIPPED && r < session->plan.n_replicas; r++) {
        flip_bit(&session->replica[r], flipped);
    }
    expect_ok(sl_session_train(session, &report));
    sl_session_close(session);
    assert_int_equal(out->n, N_EPOCHS);
}

static void train(const struct sl_dataset *dataset, const char *options, const char *spread, uint32_t seeds,
                  struct losses *out)
{
    train_from(dataset, options, spread, seeds, UNFLIPPED, out);
}

/* ---- one PE against several ---- */

struct kind {
    const char *options;
    uint32_t seeds; /* a step's */
    size_t n_spreads;
    uint32_t n_epochs; /* that are compared in float; 0: all, and there is nothing left for double to show */
};

#define IN_DOUBLE (sizeof(sl_real) == sizeof(double))
#define ALLOWED (IN_DOUBLE ? 1e-9 : 1e-4) /* of any epoch's loss, relative */

static uint32_t n_compared(const struct kind *kind)
{
    return IN_DOUBLE || kind->n_epochs == 0 ? N_EPOCHS : kind->n_epochs;
}

static const char *const one_pe = "pes=1 chunks=1 partition=none";
static const char *const one_group[] = {"pes=3 chunks=1 partition=random", "pes=4 chunks=4", "pes=1 chunks=4",
                                        "pes=4 chunks=1 partition=random"};
#define FEW 2
#define ALL (sizeof one_group / sizeof one_group[0])

/* Batch norm's statistics are a group's: of two groups, by one PE each and by two. */
static const char *const two_pes = "pes=2 group-size=1 chunks=1";
static const char *const two_groups[] = {"pes=4 group-size=2 chunks=1", "pes=4 group-size=2 chunks=4 partition=random"};

static void expect_loss(const char *which, const char *options, const char *spread, uint32_t epoch, double got,
                        double wanted, double allowed)
{
    if (!(fabs(got - wanted) <= allowed * fabs(wanted))) {
        fail_msg("%s, %s: the %s loss of epoch %u is %.9g instead of %.9g, off by %.2g of it, allowed %.2g", options,
                 spread, which, epoch + 1, got, wanted, fabs(got / wanted - 1), allowed);
    }
}

/* The largest relative differences are said, too. */
static void compare(const struct kind *kind, const char *spread, const struct losses *got, const struct losses *wanted)
{
    double train = 0;
    double valid = 0;
    uint32_t n = n_compared(kind);
    for (uint32_t e = 0; e < n; e++) {
        train = fmax(train, fabs(got->train[e] / wanted->train[e] - 1));
        valid = fmax(valid, fabs(got->valid[e] / wanted->valid[e] - 1));
    }
    print_message("# %s, %s: train %.1e, valid %.1e\n", kind->options, spread, train, valid);
    for (uint32_t e = 0; e < n; e++) {
        expect_loss("training", kind->options, spread, e, got->train[e], wanted->train[e], ALLOWED);
        expect_loss("validation", kind->options, spread, e, got->valid[e], wanted->valid[e], ALLOWED);
    }
}

static void check(const struct sl_dataset *dataset, const struct kind *kind, const char *reference, size_t n,
                  const char *const *spreads)
{
    struct losses wanted;
    if (IN_DOUBLE && kind->n_epochs == 0) {
        return;
    }
    train(dataset, kind->options, reference, kind->seeds, &wanted);
    assert_true(wanted.train[N_EPOCHS - 1] < 0.8 * wanted.train[0]); /* it learns */
    for (size_t i = 0; i < n; i++) {
        struct losses got;
        train(dataset, kind->options, spreads[i], kind->seeds, &got);
        compare(kind, spreads[i], &got, &wanted);
    }
}

static void check_kinds(const struct sl_dataset *dataset, size_t n, const struct kind *kinds)
{
    for (size_t i = 0; i < n; i++) {
        check(dataset, &kinds[i], one_pe, kinds[i].n_spreads, one_group);
    }
}

/* ---- on a generated graph ---- */

static struct sl_dataset dataset;

/* This data is mostly noise, of which gat makes much, with any norm or none: of six seeds two or three are off by
 * more than 1e-4 after 12 to 30 epochs, since at some step rounding decided on which side of a kink (ReLU's, or
 * that of the scores) an entry is. So is gcnii on some processors, after 15. */
static const struct kind generated[] = {
    {"layers=2 hidden=32 fanout=10,10 norm=none", 240, FEW, 0},
    {"layers=2 hidden=32 fanout=10,10 norm=layer", 240, FEW, 0},
    {"layers=2 hidden=32 fanout=10,10 norm=batch", 240, ALL, 0},
    {"layers=2 hidden=32 fanout=10,10 norm=batch model=gcn", 240, FEW, 0},
    {"layers=2 hidden=32 fanout=10,10 norm=batch model=gat heads=4", 240, FEW, 8},
    {"layers=2 hidden=32 fanout=10,10 norm=batch model=gcnii", 240, FEW, 8},
};

TEST(test_generated)
{
    long_test_watched();
    check_kinds(&dataset, sizeof generated / sizeof generated[0], generated);
}

TEST(test_groups)
{
    long_test_watched();
    for (size_t i = 2; i < sizeof generated / sizeof generated[0]; i++) {
        check(&dataset, &generated[i], two_pes, sizeof two_groups / sizeof two_groups[0], two_groups);
    }
}

/* ---- the drift over P against that of one bit ---- */

/* Rounding grows with the epochs, with norms by many orders. Another number of PEs rounds every sum in another way,
 * and may drift at most this many times as far as another last bit of one weight. A difference jumps at the step in
 * which an entry passes a kink of ReLU. A single run says little for this reason: three numbers of PEs are trained, and
 * the median of their drifts is compared with the largest drift of three bits. */
#define TIMES 10
#define FLOOR (IN_DOUBLE ? 2e-16 : 1e-7) /* the spacing of numbers near 1 */
#define N_RUNS 3

/* The losses of one PE, of several numbers of PEs, and of one PE with another bit. */
struct drift {
    struct losses one, over_p[N_RUNS], of_bit[N_RUNS];
};

static double median_of_three(const double *a)
{
    return fmax(fmin(a[0], a[1]), fmin(fmax(a[0], a[1]), a[2]));
}

/* The losses of an epoch: of the training vertices, or of the validation vertices. */
static double loss_of(const struct losses *losses, bool valid, uint32_t epoch)
{
    return valid ? losses->valid[epoch] : losses->train[epoch];
}

/* The largest differences up to each epoch, as a difference may pass through zero. */
static void expect_drift(const char *norm, const struct drift *drift, bool valid)
{
    double over_p[N_RUNS] = {0};
    double of_bit = 0;
    for (uint32_t e = 0; e < N_EPOCHS; e++) {
        double one = loss_of(&drift->one, valid, e);
        for (int i = 0; i < N_RUNS; i++) {
            over_p[i] = fmax(over_p[i], fabs(one - loss_of(&drift->over_p[i], valid, e)) / fabs(one));
            of_bit = fmax(of_bit, fabs(one - loss_of(&drift->of_bit[i], valid, e)) / fabs(one));
        }
        double median = median_of_three(over_p);
        if (e % 5 == 4) {
            print_message("# %s, %s, epoch %u: over P %.1e %.1e %.1e, of one bit %.1e\n", norm,
                          valid ? "validation" : "training", e + 1, over_p[0], over_p[1], over_p[2], of_bit);
        }
        if (!(median <= TIMES * fmax(of_bit, FLOOR))) {
            fail_msg("%s: the %s loss drifts by %.2g over P until epoch %u, by %.2g for one bit of a weight", norm,
                     valid ? "validation" : "training", median, e + 1, of_bit);
        }
    }
}

TEST(test_drift)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 301, .n_columns = 12, .n_classes = 4, .seed = 21};
    static const char *const norms[] = {"norm=none", "norm=layer", "norm=batch"};
    static const char *const spread[N_RUNS] = {"pes=2 chunks=1 partition=random", "pes=3 chunks=1 partition=random",
                                               "pes=4 chunks=1 partition=random"};
    OWNED(sl_dataset_free) struct sl_dataset small;
    make_dataset(&shape, &small);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        char options[128];
        struct drift drift;
        snprintf(options, sizeof options, "layers=3 hidden=32 fanout=5,5,5 dropout=0 lr=0.02 %s", norms[i]);
        train(&small, options, one_pe, 36, &drift.one);
        for (uint32_t k = 0; k < N_RUNS; k++) {
            train(&small, options, spread[k], 36, &drift.over_p[k]);
            train_from(&small, options, one_pe, 36, k, &drift.of_bit[k]);
        }
        expect_drift(norms[i], &drift, false);
        expect_drift(norms[i], &drift, true);
    }
}

/* ---- on cora ---- */

/* Of gcnii the losses of one epoch after the twentieth are further apart by thirty times than those of the one
 * before, for the same reason. */
static const struct kind on_cora[] = {
    {"layers=2 hidden=64 fanout=10,10 norm=none", 48, FEW, 0},
    {"layers=2 hidden=64 fanout=10,10 norm=layer", 48, FEW, 0},
    {"layers=2 hidden=64 fanout=10,10 norm=batch", 48, ALL, 0},
    {"layers=2 hidden=64 fanout=10,10 norm=batch model=gcn", 48, FEW, 0},
    {"layers=2 hidden=64 fanout=10,10 norm=batch model=gat", 48, FEW, 0},
    {"layers=2 hidden=64 fanout=10,10 norm=batch model=gcnii", 48, FEW, 16},
};

TEST(test_cora)
{
    OWNED(sl_dataset_free) struct sl_dataset cora;
    struct sl_dataset_options options = {.dataset = "cora", .data_path = getenv("STARLING_DATA"), .cache = "none"};
    long_test_watched();
    if (options.data_path == NULL || sl_dataset_load(&options, &cora) == SL_ENOTFOUND) {
        skip();
    }
    check_kinds(&cora, sizeof on_cora / sizeof on_cora[0], on_cora);
    check(&cora, &on_cora[2], two_pes, sizeof two_groups / sizeof two_groups[0], two_groups);
}

static int make_set(void **state)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 1201, .n_columns = 20, .n_classes = 5, .seed = 11};
    (void)state;
    fixture_environment();
    make_dataset(&shape, &dataset);
    return 0;
}

static int free_set(void **state)
{
    (void)state;
    sl_dataset_free(&dataset);
    assert_int_equal(sl_memory_live(), 0);
    return 0;
}

TEST_MAIN(make_set, free_set)
