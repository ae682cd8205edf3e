/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/starling.h, as a program sees it: settings by name, sessions over arrays and over files, what they
 * report, scores and weights. Nothing else of the library is used; OpenBLAS is asked for its threads. */
#include "config.h"
#include "tests/support/session_fixture.h"

#include <cblas.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/starling.h"
#include "tests/support/scores.h"

#define N 240 /* vertices */
#define E 720
#define F 6
#define C 4
#define N_TRAIN 120
#define N_VALID 60
#define STEPS 3 /* of an epoch: 2 PEs, 20 seeds each */

/* ---- what is trained on, as arrays and as files ---- */

static uint32_t sources[E], destinations[E], ids[N];
static int32_t labels[N];
static float features[N * F];
static char data[64];            /* the folder of the files */
static struct sl_dataset *crowd; /* of the arrays, for all tests */
static long live;                /* blocks of memory between tests */

static struct sl_arrays arrays(void)
{
    return (struct sl_arrays){.size = sizeof(struct sl_arrays),
                              .name = "crowds",
                              .n_vertices = N,
                              .n_edges = E,
                              .sources = sources,
                              .destinations = destinations,
                              .n_features = F,
                              .features = features,
                              .n_classes = C,
                              .labels = labels,
                              .n_train = N_TRAIN,
                              .n_valid = N_VALID,
                              .n_test = N - N_TRAIN - N_VALID,
                              .train = ids,
                              .valid = ids + N_TRAIN,
                              .test = ids + N_TRAIN + N_VALID};
}

static void fill_arrays(void)
{
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v * 7 % N; /* in no order */
        labels[v] = (int32_t)(v % C);
        for (uint32_t c = 0; c < F; c++) {
            features[v * F + c] = (float)(next_random() % 1000) / 700 + 0.3f * (float)(v % C == c);
        }
        for (uint32_t k = 0; k < E / N; k++) { /* two of three to its own class */
            sources[v * (E / N) + k] = v;
            destinations[v * (E / N) + k] = k < 2 ? (next_random() % (N / C) * C + v % C) % N : next_random() % N;
        }
    }
}

/* A file of the dataset: line i is print(i). */
static void write_lines(const char *name, uint32_t first, uint32_t end, void (*print)(FILE *, uint32_t))
{
    FREED char *text;
    size_t n;
    char path[64];
    FILE *stream = open_memstream(&text, &n);
    for (uint32_t i = first; i < end; i++) {
        print(stream, i);
    }
    fclose(stream);
    snprintf(path, sizeof path, "crowds/%s.csv.gz", name);
    put_gzip(path, text);
}

static void print_number(FILE *stream, uint32_t i)
{
    fprintf(stream, "%u\n", i);
}

static void print_edge(FILE *stream, uint32_t i)
{
    fprintf(stream, "%u,%u\n", sources[i], destinations[i]);
}

static void print_label(FILE *stream, uint32_t i)
{
    fprintf(stream, "%d\n", labels[i]);
}

static void print_id(FILE *stream, uint32_t i)
{
    fprintf(stream, "%u\n", ids[i]);
}

static void print_features(FILE *stream, uint32_t i)
{
    for (uint32_t c = 0; c < F; c++) {
        fprintf(stream, "%.9g%c", (double)features[i * F + c], c + 1 < F ? ',' : '\n');
    }
}

static struct sl_dataset *make_dataset(const struct sl_arrays *of)
{
    struct sl_dataset *dataset;
    assert_ok(sl_dataset_new(of, &dataset));
    return dataset;
}

static struct sl_dataset *crowds(void)
{
    struct sl_arrays of = arrays();
    return make_dataset(&of);
}

static int write_data(void **state)
{
    fill_arrays();
    crowd = crowds();
    live = sl_memory_live();
    make_folder(state);
    memcpy(data, folder, sizeof data);
    write_lines("raw/num-node-list", N, N + 1, print_number);
    write_lines("raw/num-edge-list", E, E + 1, print_number);
    write_lines("raw/edge", 0, E, print_edge);
    write_lines("raw/node-feat", 0, N, print_features);
    write_lines("raw/node-label", 0, N, print_label);
    write_lines("split/one/train", 0, N_TRAIN, print_id);
    write_lines("split/one/valid", N_TRAIN, N_TRAIN + N_VALID, print_id);
    write_lines("split/one/test", N_TRAIN + N_VALID, N, print_id);
    return 0;
}

static int remove_data(void **state)
{
    sl_dataset_delete(crowd);
    assert_int_equal(sl_memory_live(), 0);
    memcpy(folder, data, sizeof folder);
    return remove_folder(state);
}

/* ---- runs ---- */

static struct sl_settings *settings_of(const char *options)
{
    struct sl_settings *settings;
    assert_ok(sl_settings_new(&settings));
    set_options(settings,
                "cache=none layers=2 hidden=8 fanout=4,4 batch-size=20 pes=2 epochs=4 lr=0.02 chunks=2 cpus=2");
    set_options(settings, options);
    return settings;
}

/* What a run has reported; the context of its callbacks. */
struct seen {
    double losses[64];
    uint32_t n_steps;
    struct sl_epoch_news epochs[16];
    uint32_t n_epochs;
    uint32_t steps_before[16]; /* each epoch's report */
    struct sl_session *stop;   /* this session when a step is reported; NULL: no */
    uint64_t stop_at;
    bool by_thread;
};

static void *stop_session(void *session)
{
    sl_session_stop(session);
    return NULL;
}

static int see_step(void *context, const struct sl_step_news *news)
{
    struct seen *seen = context;
    assert_true(isfinite(news->loss));
    assert_int_equal(news->epoch, news->step / STEPS + 1);
    assert_true(news->step < 64);
    assert_true(seen->n_steps == 0 || isfinite(seen->losses[news->step - 1])); /* no step is left out */
    seen->losses[news->step] = news->loss;
    seen->n_steps++;
    if (seen->stop != NULL && news->step == seen->stop_at) {
        pthread_t thread;
        if (seen->by_thread) {
            assert_int_equal(pthread_create(&thread, NULL, stop_session, seen->stop), 0);
            pthread_join(thread, NULL);
        } else {
            return 1;
        }
    }
    return 0;
}

static int see_epoch(void *context, const struct sl_epoch_news *news)
{
    struct seen *seen = context;
    assert_true(seen->n_epochs < 16);
    seen->steps_before[seen->n_epochs] = seen->n_steps;
    seen->epochs[seen->n_epochs++] = *news;
    return 0;
}

/* Forget what was seen, of a run; what one that goes on with it adds then comes behind. */
static struct seen nothing(void)
{
    struct seen seen = {0};
    for (size_t i = 0; i < 64; i++) {
        seen.losses[i] = NAN;
    }
    return seen;
}

static struct sl_session *open_session(struct sl_settings *settings, const struct sl_dataset *dataset)
{
    struct sl_session *session;
    assert_ok(sl_session_open(settings, dataset, &session));
    return session;
}

static enum sl_status train_seen(struct sl_session *session, struct seen *seen)
{
    return sl_session_train(
        session,
        &(struct sl_report){.size = sizeof(struct sl_report), .context = seen, .step = see_step, .epoch = see_epoch});
}

static void train(struct sl_session *session, struct seen *seen)
{
    assert_ok(train_seen(session, seen));
}

/* A whole run; files where there are no arrays. */
static void run(const char *options, const struct sl_dataset *dataset, struct seen *seen)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(options);
    if (dataset == NULL) {
        assert_ok(sl_settings_set(settings, "data-path", data));
        assert_ok(sl_settings_set(settings, "dataset", "crowds"));
    }
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, dataset);
    train(session, seen);
}

static void expect_same_losses(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->n_steps, b->n_steps);
    assert_memory_equal(a->losses, b->losses, a->n_steps * sizeof *a->losses);
}

/* A file of the test's folder; ends in a zero that is not counted. */
static char *contents(const char *name, size_t *n)
{
    static char *bytes;
    assert_ok(sl_file_read(in_folder(name), SIZE_MAX - 1, &bytes, n));
    return bytes;
}

/* ---- training ---- */

static int drop_folder(void **state)
{
    assert_int_equal(sl_memory_live(), live);
    return remove_folder(state);
}

TEST_WITH(arrays_are_as_files, make_folder, drop_folder)
{
    struct seen by_arrays = nothing();
    struct seen by_files = nothing();
    run("dropout=0.5 save=%a", crowd, &by_arrays);
    run("dropout=0.5 save=%b", NULL, &by_files);
    assert_int_equal(by_arrays.n_steps, 4 * STEPS);
    expect_same_losses(&by_arrays, &by_files);
    expect_same_file("a", "b"); /* and the names in them: the dataset's folder is called as the arrays are */
}

TEST_WITH(reports_in_order, make_folder, drop_folder)
{
    struct seen seen = nothing();
    run("epochs=5 eval-every=2", crowd, &seen);
    assert_int_equal(seen.n_steps, 5 * STEPS);
    assert_int_equal(seen.n_epochs, 5);
    for (uint32_t e = 0; e < 5; e++) {
        const struct sl_epoch_news *news = &seen.epochs[e];
        const double *losses = seen.losses + e * STEPS;
        bool evaluated = e == 1 || e == 3 || e == 4;
        assert_int_equal(news->epoch, e + 1);
        assert_int_equal(seen.steps_before[e], (e + 1) * STEPS);
        assert_true(fabs(news->loss - (losses[0] + losses[1] + losses[2]) / 3) < 1e-12); /* 40 seeds each */
        assert_true(news->seconds > 0);
        assert_int_equal(news->evaluated, evaluated);
        assert_int_equal(isnan(news->scores.valid_loss), !evaluated);
        assert_int_equal(isnan(valid_score(&news->scores, "acc")), !evaluated);
        assert_int_equal(isnan(test_score(&news->scores, "acc")), !evaluated);
    }
    seen = nothing();
    run("epochs=0", crowd, &seen);
    assert_int_equal(seen.n_steps, 0);
    assert_int_equal(seen.n_epochs, 1);
    assert_true(seen.epochs[0].epoch == 0 && seen.epochs[0].evaluated && isnan(seen.epochs[0].loss));
}

/* Of two sessions over one dataset, one after the other, the second knows nothing of the first. */
TEST_WITH(sessions_follow_each_other, make_folder, drop_folder)
{
    struct seen seen[3] = {nothing(), nothing(), nothing()};
    run("", crowd, &seen[0]);
    run("seed=5 pes=1 batch-size=40 model=gcn", crowd, &seen[1]);
    run("", crowd, &seen[2]);
    assert_memory_not_equal(seen[0].losses, seen[1].losses, sizeof(double));
    expect_same_losses(&seen[0], &seen[2]);
}

/* Neither the dataset nor the arrays are looked at once the session is open. */
TEST_WITH(dataset_is_let_go, make_folder, drop_folder)
{
    static const char *const kinds[] = {"", "model=gcn pes=4 batch-size=10 group-size=2", "partition=none"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct seen seen[2] = {nothing(), nothing()};
        run(kinds[i], crowd, &seen[0]);
        struct sl_arrays of = arrays();
        float *lent = malloc(sizeof features);
        uint32_t *lent_ids = malloc(sizeof ids);
        memcpy(lent, features, sizeof features);
        memcpy(lent_ids, ids, sizeof ids);
        of.features = lent;
        of.train = lent_ids;
        struct sl_dataset *other = make_dataset(&of);
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(kinds[i]);
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, other);
        sl_dataset_delete(other);
        memset(lent, 0xff, sizeof features);
        memset(lent_ids, 0xff, sizeof ids);
        free(lent);
        free(lent_ids);
        FILE *stream = fopen("/dev/null", "w");
        assert_ok(sl_session_describe(session, stream));
        fclose(stream);
        train(session, &seen[1]);
        assert_ok(sl_session_evaluate(session, NULL, NULL, NULL));
        expect_same_losses(&seen[0], &seen[1]);
    }
}

/* ---- stopping ---- */

/* Stopped when step `at` is reported, and gone on with from its checkpoint: the same losses and weights as of one
 * run. */
static void check_stop(const char *options, uint64_t at, bool by_thread)
{
    char text[256];
    struct seen whole = nothing();
    struct seen parts = nothing();
    snprintf(text, sizeof text, "%s save=%%one", options);
    run(text, crowd, &whole);
    snprintf(text, sizeof text, "%s checkpoint=%%kept-%d", options, by_thread);
    struct sl_settings *settings = settings_of(text);
    struct sl_session *session = open_session(settings, crowd);
    parts.stop = session;
    parts.stop_at = at;
    parts.by_thread = by_thread;
    assert_int_equal(train_seen(session, &parts), SL_EINTERRUPT);
    assert_true(parts.n_steps > at && parts.n_steps < at + 4); /* what was submitted was finished */
    assert_true(parts.n_steps < whole.n_steps);
    assert_refused(sl_session_train(session, NULL), SL_EINVAL, "trained already");
    sl_session_close(session);
    sl_settings_delete(settings);
    parts.stop = NULL;
    snprintf(text, sizeof text, "%s checkpoint=%%kept-%d resume save=%%two", options, by_thread);
    run(text, crowd, &parts);
    expect_same_losses(&whole, &parts);
    expect_same_file("one", "two");
}

TEST_WITH(stops_and_goes_on, make_folder, drop_folder)
{
    check_stop("dropout=0.5 epochs=6", 3, false);
    check_stop("norm=batch epochs=6", 7, true);
}

/* A wish from before the training counts, as does a signal that was seen. sl_signals_restore forgets the signal,
 * and the next session trains. */
TEST_WITH(stops_before_it_starts, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("");
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        struct seen seen = nothing();
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
        if (by_signal) {
            assert_ok(sl_signals_install());
            raise(SIGUSR1);
        } else {
            sl_session_stop(session);
        }
        assert_int_equal(train_seen(session, &seen), SL_EINTERRUPT);
        assert_non_null(strstr(sl_message(), by_signal ? "interrupted by signal" : "interrupted:"));
        assert_int_equal(seen.n_steps + seen.n_epochs, 0);
        sl_signals_restore();
        assert_int_equal(sl_signals_seen(), 0);
        sl_session_close(session);
        session = open_session(settings, crowd);
        train(session, &seen);
        assert_true(seen.n_epochs > 0);
    }
}

/* A callback that stops in the last epoch's report stops nothing: all is done. */
static int stop_at_epoch(void *context, const struct sl_epoch_news *news)
{
    return (int)news->epoch == *(int *)context;
}

TEST_WITH(a_callback_stops, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("epochs=3");
    for (int at = 2; at <= 3; at++) {
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
        const struct sl_report report = {.size = sizeof report, .context = &at, .epoch = stop_at_epoch};
        assert_int_equal(sl_session_train(session, &report), at < 3 ? SL_EINTERRUPT : SL_OK);
    }
}

/* ---- at rest ---- */

#define REST_S 0.3

static double processor_seconds(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* A session between two calls takes no processor. Idle workers would take all that they get, on a loaded machine too.
 * OpenBLAS's threads, and workers that do not get to run, are a little late to sleep: the first windows may be busy. */
static void expect_rest(const char *when)
{
    double taken = REST_S;
    for (int window = 0; window < 5 && taken > REST_S / 60; window++) {
        double before = processor_seconds();
        usleep((useconds_t)(REST_S * 1e6));
        taken = processor_seconds() - before;
    }
    if (taken > REST_S / 60) {
        fail_msg("%s a session took %.3f s of processor in %.1f s", when, taken, REST_S);
    }
}

/* And OpenBLAS has as many threads as before, when all is over. */
TEST_WITH(rests, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("cpus=2");
    struct seen seen = nothing();
    struct sl_weight weight;
    struct sl_scores scores;
    openblas_set_num_threads(2);
    int threads = openblas_get_num_threads();
    struct sl_session *session = open_session(settings, crowd);
    expect_rest("after open");
    assert_ok(sl_session_weight(session, 0, &weight, NULL));
    assert_ok(sl_session_evaluate(session, &scores, NULL, NULL));
    expect_rest("before training");
    train(session, &seen);
    expect_rest("after training");
    assert_ok(sl_session_evaluate(session, &scores, NULL, NULL));
    expect_rest("after evaluation");
    sl_session_close(session);
    assert_int_equal(openblas_get_num_threads(), threads);
    openblas_set_num_threads(1);
}

/* ---- the model ---- */

/* The numbers of an .npy file of the test's folder. */
static void expect_array(const char *name, const float *values, size_t n)
{
    size_t bytes;
    OWNED(sl_free_it) char *file = contents(name, &bytes);
    uint16_t header;
    memcpy(&header, file + 8, sizeof header);
    assert_non_null(strstr(file + 10, "'<f4'"));
    assert_int_equal(bytes, 10 + header + n * sizeof *values);
    assert_memory_equal(file + 10 + header, values, n * sizeof *values);
}

/* The report of the epoch whose model is kept. */
static const struct sl_epoch_news *best_epoch(const struct seen *seen)
{
    const struct sl_epoch_news *best = NULL;
    for (uint32_t e = 0; e < seen->n_epochs; e++) {
        const struct sl_epoch_news *news = &seen->epochs[e];
        best =
            news->evaluated && (best == NULL || valid_score(&news->scores, "acc") > valid_score(&best->scores, "acc"))
                ? news
                : best;
    }
    return best;
}

static void expect_scores(const struct sl_scores *scores, const struct sl_epoch_news *news)
{
    assert_true(scores->valid_loss == news->scores.valid_loss);
    assert_true(valid_score(scores, "acc") == valid_score(&news->scores, "acc"));
    assert_true(test_score(scores, "acc") == test_score(&news->scores, "acc"));
    assert_true(valid_score(scores, "f1") >= 0 && valid_score(scores, "f1") <= 1);
    assert_true(test_score(scores, "f1") >= 0 && test_score(scores, "f1") <= 1);
}

/* With files or without, evaluated before or not, a session ends with the same model, whose scores, logits and
 * embeddings are those of the best epoch and of the files. */
static void check_evaluate(const char *options)
{
    static float logits[2][N * C], embeddings[N * 8];
    char text[256];
    struct seen seen[2] = {nothing(), nothing()};
    for (int files = 0; files < 2; files++) {
        struct sl_scores scores;
        struct seen untrained = nothing();
        snprintf(text, sizeof text, "epochs=0 %s", options);
        run(text, crowd, &untrained);
        snprintf(text, sizeof text, "lr=0.1 %s %s", options, files ? "predict=%p embed=%e" : "");
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(text);
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
        if (files) {
            assert_ok(sl_session_evaluate(session, &scores, NULL, embeddings));
            expect_scores(&scores, &untrained.epochs[0]);
        }
        train(session, &seen[files]);
        assert_ok(sl_session_evaluate(session, &scores, logits[files], embeddings));
        expect_scores(&scores, best_epoch(&seen[files]));
        assert_ok(sl_session_evaluate(session, NULL, NULL, NULL));
        if (files) {
            expect_array("p", logits[files], N * C);
            expect_array("e", embeddings, N * 8);
        }
    }
    expect_same_losses(&seen[0], &seen[1]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

TEST_WITH(evaluates, make_folder, drop_folder)
{
    check_evaluate("");
    check_evaluate("pes=4 batch-size=10 sync=dissemination");
}

/* Where the best epoch is not the last one, its weights are there at the end, without any file that was asked for. */
TEST_WITH(keeps_the_best, make_folder, drop_folder)
{
    struct seen seen = nothing();
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("lr=1 epochs=6");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    struct sl_scores scores;
    train(session, &seen);
    assert_true(best_epoch(&seen) != &seen.epochs[5]);
    assert_true(best_epoch(&seen)->scores.valid_loss != seen.epochs[5].scores.valid_loss);
    assert_ok(sl_session_evaluate(session, &scores, NULL, NULL));
    expect_scores(&scores, best_epoch(&seen));
}

/* A session that has just taken up a checkpoint shows that model, of several replicas the average. */
TEST_WITH(evaluates_what_it_resumes, make_folder, drop_folder)
{
    static const char options[] = "pes=4 batch-size=10 sync=cube epochs=2 eval-every=0 checkpoint=%kept";
    struct seen seen = nothing();
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(options);
    struct sl_scores scores;
    run(options, crowd, &seen);
    assert_ok(sl_settings_set(settings, "resume", NULL));
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    assert_ok(sl_session_evaluate(session, &scores, NULL, NULL));
    expect_scores(&scores, &seen.epochs[1]);
}

/* A training that fails says so, and so does what is asked of it afterwards. */
TEST_WITH(failures_stay, make_folder, drop_folder)
{
    struct sl_settings *settings = settings_of("lr=1e30");
    struct sl_session *session = open_session(settings, crowd);
    struct seen seen = nothing();
    assert_refused(sl_session_train(session, NULL), SL_ENUMERIC, "learning rate");
    assert_int_equal(sl_session_evaluate(session, NULL, NULL, NULL), SL_ENUMERIC);
    assert_refused(sl_session_train(session, NULL), SL_EINVAL, "trained already");
    sl_session_close(session);
    sl_settings_delete(settings);
    run("epochs=1", crowd, &seen); /* a new one knows nothing of it */
}

TEST_WITH(sizes_are_told, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("pes=4 batch-size=10 group-size=2");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    assert_ok(sl_session_sizes(session, &sizes));
    assert_int_equal(sizes.n_vertices, N);
    assert_int_equal(sizes.n_features, F);
    assert_int_equal(sizes.n_outputs, C);
    assert_true(sizes.n_edges > E && sizes.n_edges <= 2 * E); /* both ways; a few meet */
    assert_int_equal(sizes.n_pes, 4);
    assert_int_equal(sizes.n_parts, 2);
    assert_int_equal(sizes.n_per_epoch, STEPS);
    assert_int_equal(sizes.n_hidden, 8);
    assert_int_equal(sizes.n_weights, 6);
    assert_true(sizes.memory_bytes > 1000);
    sl_session_close(session);
    assert_ok(sl_settings_set(settings, "layers", "1"));
    assert_ok(sl_settings_set(settings, "fanout", "3"));
    session = open_session(settings, crowd);
    assert_ok(sl_session_sizes(session, &sizes));
    assert_int_equal(sizes.n_hidden, 0);
    assert_ok(sl_session_evaluate(session, NULL, NULL, features)); /* there are none to write */
}

/* A weight is as the file of --save has it; returns its dimensions. */
static uint32_t expect_weight(struct sl_session *session, uint32_t i, json_t *header, const char *values)
{
    static float found[4096];
    struct sl_weight weight;
    uint64_t n = 1;
    assert_ok(sl_session_weight(session, i, &weight, NULL));
    json_t *entry = json_object_get(header, weight.name);
    assert_non_null(entry);
    json_t *shape = json_object_get(entry, "shape");
    assert_int_equal(json_array_size(shape), weight.n_dims);
    for (uint32_t d = 0; d < weight.n_dims; d++) {
        assert_int_equal(json_integer_value(json_array_get(shape, d)), weight.shape[d]);
        n *= weight.shape[d];
    }
    assert_true(n <= 4096);
    assert_ok(sl_session_weight(session, i, &weight, found));
    json_int_t begin = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    assert_memory_equal(values + begin, found, n * sizeof *found);
    return weight.n_dims;
}

/* Returns the most dimensions a weight has. */
static uint32_t check_weights(const char *options)
{
    char text[256];
    size_t bytes;
    uint64_t length;
    uint32_t most = 0;
    struct seen seen = nothing();
    struct sl_weight weight = {.n_dims = 77};
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    snprintf(text, sizeof text, "save=%%m lr=1 epochs=3 %s", options);
    struct sl_settings *settings = settings_of(text);
    struct sl_session *session = open_session(settings, crowd);
    train(session, &seen);
    assert_ok(sl_session_sizes(session, &sizes));
    char *file = contents("m", &bytes);
    memcpy(&length, file, sizeof length);
    json_t *header = json_loadb(file + 8, length, 0, NULL);
    json_t *metadata = json_object_get(header, "__metadata__");
    assert_string_equal(json_string_value(json_object_get(metadata, "dataset")), "crowds");
    assert_int_equal(json_object_size(header), 1 + sizes.n_weights);
    for (uint32_t i = 0; i < sizes.n_weights; i++) {
        uint32_t n_dims = expect_weight(session, i, header, file + 8 + length);
        assert_true(n_dims >= 1 && n_dims <= 3);
        most = n_dims > most ? n_dims : most;
    }
    assert_refused(sl_session_weight(session, sizes.n_weights, &weight, NULL), SL_EINVAL, "expected a number below");
    assert_int_equal(weight.n_dims, 77);
    json_decref(header);
    sl_free(file);
    sl_session_close(session);
    sl_settings_delete(settings);
    return most;
}

TEST_WITH(weights_are_as_saved, make_folder, drop_folder)
{
    assert_int_equal(check_weights("norm=batch"), 2);
    assert_int_equal(check_weights("model=gat heads=2 save-names=pyg"), 3);
    assert_int_equal(check_weights("model=gcn pes=4 batch-size=10 sync=dissemination gossip-what=grad"), 2);
}

/* Names of PyTorch Geometric's layers can be asked for where no file is. */
TEST_WITH(weights_have_either_names, make_folder, drop_folder)
{
    static const char *const names[] = {"layers.0.", "convs.0."};
    for (int pyg = 0; pyg < 2; pyg++) {
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(pyg ? "save-names=pyg" : "");
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
        struct sl_weight weight;
        assert_ok(sl_session_weight(session, 0, &weight, NULL));
        assert_memory_equal(weight.name, names[pyg], strlen(names[pyg]));
    }
}

/* ---- lines of metrics, weights from memory, datasets from files ---- */

struct lines {
    uint32_t n[3]; /* config, epoch, summary */
    uint32_t stop_at;
};

static int see_line(void *context, const char *json)
{
    static const char *const events[] = {"config", "epoch", "summary"};
    struct lines *lines = context;
    json_t *line = json_loads(json, 0, NULL);
    assert_non_null(line);
    assert_null(strchr(json, '\n'));
    for (int i = 0; i < 3; i++) {
        lines->n[i] += strcmp(json_string_value(json_object_get(line, "event")), events[i]) == 0;
    }
    json_decref(line);
    return lines->stop_at > 0 && lines->n[1] == lines->stop_at;
}

TEST_WITH(metrics_come_by_line, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("");
    for (uint32_t at = 0; at < 3; at += 2) {
        struct lines lines = {.stop_at = at};
        OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
        const struct sl_report report = {.size = sizeof report, .context = &lines, .line = see_line};
        assert_int_equal(sl_session_train(session, &report), at == 0 ? SL_OK : SL_EINTERRUPT);
        assert_int_equal(lines.n[0], 1);
        assert_int_equal(lines.n[1], at == 0 ? 4 : at);
        assert_int_equal(lines.n[2], 1);
    }
}

/* A program of an earlier version has a shorter struct. */
TEST_WITH(structs_may_be_shorter, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    struct sl_session_sizes sizes = {.size = offsetof(struct sl_session_sizes, n_outputs), .n_outputs = 77};
    struct sl_session_sizes none = {.size = 0};
    struct lines lines = {.stop_at = 1};
    struct sl_report report = {.size = 0, .context = &lines, .line = see_line};
    assert_ok(sl_session_sizes(session, &sizes));
    assert_true(sizes.n_vertices == N && sizes.n_features == F && sizes.n_outputs == 77);
    assert_refused(sl_session_sizes(session, &none), SL_EINVAL, "a size of 0");
    assert_refused(sl_session_train(session, &report), SL_EINVAL, "report of size 0");
    report.size = offsetof(struct sl_report, line);
    assert_ok(sl_session_train(session, &report));
    assert_int_equal(lines.n[0], 0);
}

#define MOST_WEIGHTS 16

struct kept {
    uint32_t n;
    struct sl_weight weights[MOST_WEIGHTS];
    float values[MOST_WEIGHTS][4096];
    const float *pointers[MOST_WEIGHTS];
};

static void keep_weights(struct sl_session *session, struct kept *kept)
{
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    assert_ok(sl_session_sizes(session, &sizes));
    assert_true(sizes.n_weights <= MOST_WEIGHTS);
    kept->n = sizes.n_weights;
    for (uint32_t i = 0; i < kept->n; i++) {
        assert_ok(sl_session_weight(session, i, &kept->weights[i], kept->values[i]));
        kept->pointers[i] = kept->values[i];
    }
}

/* A model outlives its session as arrays, under either names. As initial weights they are those of --load. */
TEST_WITH(weights_come_from_memory, make_folder, drop_folder)
{
    static struct kept kept;
    static float logits[2][N * C];
    for (int pyg = 0; pyg < 2; pyg++) {
        const char *options = pyg ? "save-names=pyg model=gat heads=2 epochs=2 save=%w"
                                  : "norm=batch pes=4 "
                                    "batch-size=10 sync=dissemination epochs=2 save=%w";
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(options);
        struct sl_session *session = open_session(settings, crowd);
        struct seen seen[2] = {nothing(), nothing()};
        train(session, &seen[0]);
        keep_weights(session, &kept);
        sl_session_close(session);
        assert_ok(sl_settings_set(settings, "save", ""));
        assert_ok(sl_settings_set(settings, "seed", "9"));
        for (int from_file = 0; from_file < 2; from_file++) {
            assert_ok(sl_settings_set(settings, "load", from_file ? in_folder("w") : ""));
            session = open_session(settings, crowd);
            if (!from_file) {
                assert_ok(sl_session_set_weights(session, kept.n, kept.weights, kept.pointers));
            }
            assert_ok(sl_session_evaluate(session, NULL, logits[from_file], NULL));
            seen[from_file] = nothing();
            train(session, &seen[from_file]);
            sl_session_close(session);
        }
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        expect_same_losses(&seen[0], &seen[1]);
    }
}

TEST_WITH(wrong_weights_are_refused, make_folder, drop_folder)
{
    static struct kept kept;
    static float logits[2][N * C];
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    keep_weights(session, &kept);
    assert_ok(sl_session_evaluate(session, NULL, logits[0], NULL));
    kept.values[0][0] = 100;
    assert_refused(sl_session_set_weights(session, kept.n - 1, kept.weights, kept.pointers), SL_EFILE, "weights");
    kept.weights[0].shape[0]++;
    assert_refused(sl_session_set_weights(session, kept.n, kept.weights, kept.pointers), SL_EFILE, "weights");
    kept.weights[0].shape[0]--;
    kept.weights[1].n_dims = 4;
    assert_refused(sl_session_set_weights(session, kept.n, kept.weights, kept.pointers), SL_EINVAL, "4 dimensions");
    kept.weights[1].n_dims = 0;
    assert_refused(sl_session_set_weights(session, kept.n, kept.weights, kept.pointers), SL_EINVAL, "0 dimensions");
    memset(kept.weights[0].name, 'x', sizeof kept.weights[0].name);
    assert_refused(sl_session_set_weights(session, kept.n, kept.weights, kept.pointers), SL_EINVAL, "128 bytes");
    assert_refused(sl_session_set_weights(session, 0, NULL, NULL), SL_EFILE, "weights");
    assert_ok(sl_session_evaluate(session, NULL, logits[1], NULL));
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

TEST_WITH(datasets_come_from_files, make_folder, drop_folder)
{
    struct seen by_files = nothing();
    struct seen by_dataset = nothing();
    struct sl_dataset_sizes sizes = {.size = sizeof sizes};
    struct sl_dataset_sizes none = {.size = 0};
    struct sl_settings *settings = settings_of("");
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset;
    assert_ok(sl_settings_set(settings, "data-path", data));
    assert_ok(sl_settings_set(settings, "dataset", "crowd"));
    assert_refused(sl_dataset_open(settings, &dataset), SL_ENOTFOUND, "crowds");
    assert_null(dataset);
    assert_ok(sl_settings_set(settings, "dataset", "crowds"));
    assert_ok(sl_dataset_open(settings, &dataset));
    sl_settings_delete(settings);
    assert_ok(sl_dataset_describe(dataset, &sizes));
    assert_string_equal(sizes.name, "crowds");
    assert_string_equal(sizes.split, "one");
    assert_true(sizes.n_vertices == N && sizes.n_features == F && sizes.n_outputs == C);
    assert_true(sizes.n_train == N_TRAIN && sizes.n_valid == N_VALID && sizes.n_test == N - N_TRAIN - N_VALID);
    assert_true(sizes.n_edges > E && sizes.has_classes && !sizes.synthetic);
    assert_true(sizes.class_names == NULL && sizes.vertex_names == NULL && sizes.n_relations == 0);
    assert_refused(sl_dataset_describe(dataset, &none), SL_EINVAL, "a size of 0");
    run("", NULL, &by_files);
    run("", dataset, &by_dataset);
    expect_same_losses(&by_files, &by_dataset);
}

/* ---- settings ---- */

static void expect_setting(const struct sl_settings *settings, const char *name, const char *value)
{
    char text[64];
    assert_ok(sl_settings_get(settings, name, text, sizeof text));
    assert_string_equal(text, value);
}

TEST_WITH(settings_are_by_name, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    char text[8] = "before";
    assert_ok(sl_settings_new(&settings));
    expect_setting(settings, "batch-size", "1024");
    expect_setting(settings, "quiet", "no");
    expect_setting(settings, "save", "");
    expect_setting(settings, "fanout", "");
    set_options(settings, "batch-size=512 quiet fanout=3,4,5 model=gat lr=0.25 save=file resume gpus=0");
    expect_setting(settings, "batch-size", "512");
    expect_setting(settings, "quiet", "yes");
    expect_setting(settings, "fanout", "3,4,5");
    expect_setting(settings, "model", "gat");
    expect_setting(settings, "lr", "0.25");
    expect_setting(settings, "save", "file");
    expect_setting(settings, "resume", "yes");
    set_options(settings, "quiet=no save=");
    expect_setting(settings, "quiet", "no");
    expect_setting(settings, "save", "");
    assert_refused(sl_settings_set(settings, "batchsize", "3"), SL_EINVAL, "did you mean --batch-size?");
    assert_refused(sl_settings_get(settings, "batchsize", text, sizeof text), SL_EINVAL, "did you mean --batch-size?");
    assert_string_equal(text, "before");
    assert_refused(sl_settings_set(settings, "batch-size", "0"), SL_EINVAL, "--batch-size: found '0', expected");
    assert_refused(sl_settings_set(settings, "batch-size", NULL), SL_EINVAL, "--batch-size");
    assert_refused(sl_settings_set(settings, "model", "gnn"), SL_EINVAL, "one of sage, gcn");
    expect_setting(settings, "batch-size", "512");
    assert_ok(sl_settings_set(settings, "sched", "0123456789"));
    assert_ok(sl_settings_get(settings, "sched", text, sizeof text));
    assert_string_equal(text, "0123456"); /* cut */
    assert_survives_no_memory(sl_settings_set(settings, "save", "elsewhere"));
    sl_settings_delete(settings);
    sl_settings_delete(NULL);
    assert_survives_no_memory(sl_settings_new(&settings));
}

/* What was left open is found in the settings once a session is open. */
TEST_WITH(open_decides, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    assert_ok(sl_settings_new(&settings));
    set_options(settings, "layers=2 cpus=2");
    expect_setting(settings, "pes", "0");
    expect_setting(settings, "gpus", "all");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    char text[8];
    assert_ok(sl_session_sizes(session, &sizes));
    assert_ok(sl_settings_get(settings, "pes", text, sizeof text));
    assert_int_equal(atoi(text), sizes.n_pes);
    assert_true(sizes.n_pes >= 2);
    assert_ok(sl_settings_get(settings, "chunks", text, sizeof text));
    assert_true(atoi(text) >= 1);
    expect_setting(settings, "group-size", (snprintf(text, sizeof text, "%u", sizes.n_parts), text));
    expect_setting(settings, "fanout", "10,10");
    expect_setting(settings, "gpus", "0");
    expect_setting(settings, "placement", "free");
}

/* What a program's command line `words` comes to, and what it prints. */
static enum sl_status parse(struct sl_settings *settings, const char *words, bool *run_out, char **printed)
{
    static char text[256];
    char *argv[16] = {"program"};
    char *rest;
    int argc = 1;
    size_t n;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    FILE *stream = open_memstream(printed, &n);
    enum sl_status st = sl_settings_parse(settings, argc, argv, stream, run_out);
    fclose(stream);
    return st;
}

static void parse_refused(const char *words, const char *message)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    FREED char *printed;
    bool runs;
    assert_ok(sl_settings_new(&settings));
    assert_refused(parse(settings, words, &runs, &printed), SL_EINVAL, message);
    assert_string_equal(printed, "");
}

TEST_WITH(command_lines_are_parsed, make_folder, drop_folder)
{
    struct sl_settings *settings;
    char *printed;
    bool runs = false;
    assert_ok(sl_settings_new(&settings));
    setenv("STARLING_HIDDEN", "32", 1);
    setenv("STARLING_EPOCHS", "7", 1);
    assert_ok(parse(settings, "--epochs 3 --no-json --pes=2", &runs, &printed));
    unsetenv("STARLING_HIDDEN");
    unsetenv("STARLING_EPOCHS");
    assert_true(runs);
    assert_string_equal(printed, "");
    free(printed);
    expect_setting(settings, "epochs", "3");
    expect_setting(settings, "hidden", "32");
    expect_setting(settings, "pes", "2");
    assert_ok(parse(settings, "--help", &runs, &printed));
    assert_false(runs);
    assert_non_null(strstr(printed, "--batch-size"));
    free(printed);
    assert_ok(parse(settings, "--version", &runs, &printed));
    assert_false(runs);
    assert_non_null(strstr(printed, "coop_sage "));
    free(printed);
    sl_settings_delete(settings);
    parse_refused("--epoch 3", "did you mean --epochs?");
    parse_refused("--epochs three", "--epochs: found 'three'");
    parse_refused("data", "found argument 'data'");
    parse_refused("--pes 3 --group-size 2", "--group-size");
    parse_refused("--save-names pyg", "--save FILE");
}

/* ---- streams ---- */

static char *printed_by(const char *options, bool stream_given)
{
    struct sl_settings *settings = settings_of(options);
    struct sl_session *session = open_session(settings, crowd);
    char *text;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_ok(sl_session_train(
        session, stream_given ? &(struct sl_report){.size = sizeof(struct sl_report), .stream = stream} : NULL));
    fclose(stream);
    sl_session_close(session);
    sl_settings_delete(settings);
    return text;
}

TEST_WITH(streams_are_as_asked, make_folder, drop_folder)
{
    FREED char *text = printed_by("", true);
    assert_memory_equal(text, "dataset   crowds: 240 vertices", 30);
    assert_non_null(strstr(text, "arrays 120/60/60\n"));
    assert_non_null(strstr(text, " 4/4 loss "));
    free(text);
    text = printed_by("quiet", true);
    assert_string_equal(text, "");
    free(text);
    text = printed_by("", false);
    assert_string_equal(text, "");
    free(text);
    text = printed_by("json metrics=%m", true);
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "dataset")), "crowds");
    assert_string_equal(json_string_value(json_object_get(json_object_get(line, "options"), "dataset")), "crowds");
    assert_true(json_is_false(json_object_get(line, "synthetic")));
    json_decref(line);
    size_t n;
    char *file = contents("m", &n);
    assert_string_equal(file, text);
    sl_free(file);
    free(text);
    text = printed_by("json", false);
    assert_string_equal(text, "");
}

/* ---- refusals ---- */

static void open_refused(const char *options, const struct sl_dataset *dataset, enum sl_status st, const char *words)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of(options);
    OWNED(sl_session_close_it) struct sl_session *session = (struct sl_session *)(uintptr_t)settings;
    assert_refused(sl_session_open(settings, dataset, &session), st, words);
    assert_null(session);
}

/* What says what to load is refused where it is there already. */
TEST_WITH(options_of_files_are_refused, make_folder, drop_folder)
{
    static const char *const given[] = {"dataset=cora", "data-path=/data", "split=one", "features=x.npy", "directed"};
    struct seen seen = nothing();
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        char words[64];
        snprintf(words, sizeof words, "--%.*s '", (int)strcspn(given[i], "="), given[i]);
        open_refused(given[i], crowd, SL_EINVAL, words);
    }
    run("dataset= cache= epochs=1", crowd, &seen); /* taken back */
}

static ino_t cached_parts(uint32_t *n)
{
    DIR *open = opendir(in_folder("copies"));
    ino_t last = 0;
    *n = 0;
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        if (strncmp(entry->d_name, "arrays-", 7) == 0) {
            last = entry->d_ino;
            ++*n;
        }
    }
    if (open != NULL) {
        closedir(open);
    }
    return last;
}

/* METIS's parts of arrays are kept by the contents of the graph. */
TEST_WITH(parts_of_arrays_are_cached, make_folder, drop_folder)
{
    struct sl_arrays of = arrays();
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = crowds();
    struct seen seen[2] = {nothing(), nothing()};
    uint32_t n;
    run("epochs=1", dataset, &seen[0]);
    cached_parts(&n);
    assert_int_equal(n, 0);
    run("cache=%copies epochs=1", dataset, &seen[1]);
    ino_t first = cached_parts(&n);
    assert_int_equal(n, 1);
    expect_same_losses(&seen[0], &seen[1]);
    seen[1] = nothing();
    of.name = "another name";
    sl_dataset_delete(dataset);
    dataset = make_dataset(&of);
    run("cache=%copies epochs=1", dataset, &seen[1]);
    assert_true(cached_parts(&n) == first); /* read, not written anew */
    assert_int_equal(n, 1);
    expect_same_losses(&seen[0], &seen[1]);
    sl_dataset_delete(dataset);
    of.n_edges--; /* another graph */
    dataset = make_dataset(&of);
    seen[1] = nothing();
    run("cache=%copies epochs=1", dataset, &seen[1]);
    cached_parts(&n);
    assert_int_equal(n, 2);
}

/* A caller of an older version knows fewer members. */
TEST_WITH(options_are_listed, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    assert_string_equal(sl_version(), PACKAGE_VERSION);
    for (int program = 0; program < 2; program++) {
        struct sl_option_news news = {.size = sizeof news};
        char text[256];
        uint32_t n = 0;
        uint32_t n_common = 0;
        assert_ok(program == 0 ? sl_settings_new(&settings) : sl_settings_new_pipe(&settings));
        for (; sl_settings_list(settings, n, &news) == SL_OK; n++) {
            assert_ok(sl_settings_get(settings, news.name, text, sizeof text));
            assert_true(news.initial == NULL || strcmp(news.initial, text) == 0);
            assert_true(strlen(news.help) > 10 && strlen(news.group) > 0);
            assert_int_equal(strcmp(news.kind, "choice") == 0, news.choices != NULL);
            n_common += news.common;
        }
        assert_true(n > 45 && n_common > 15 && n_common < 30);
        assert_int_equal(sl_settings_list(settings, n, &news), SL_ENOTFOUND);
        sl_settings_delete(settings);
    }
    struct sl_option_news old = {.size = offsetof(struct sl_option_news, group), .group = "untouched"};
    assert_ok(sl_settings_new(&settings));
    assert_ok(sl_settings_list(settings, 0, &old));
    assert_string_equal(old.name, "dataset");
    assert_string_equal(old.group, "untouched");
    old.size = 0;
    assert_int_equal(sl_settings_list(settings, 0, &old), SL_EINVAL);
}

TEST_WITH(one_session_at_a_time, make_folder, drop_folder)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_of("epochs=1");
    OWNED(sl_session_close_it) struct sl_session *session = open_session(settings, crowd);
    struct seen seen = nothing();
    open_refused("", crowd, SL_EINVAL, "StarPU is up already");
    train(session, &seen); /* unharmed */
}

/* A run resumes over the same contents only, whatever their name is. */
TEST_WITH(other_data_are_refused, make_folder, drop_folder)
{
    static const char resume[] = "checkpoint=%kept resume";
    struct seen seen = nothing();
    struct sl_arrays others[] = {arrays(), arrays(), arrays(), arrays(), arrays(), arrays(), arrays(), arrays()};
    static float other_features[N * F];
    static int32_t other_labels[N];
    static uint32_t other_ids[N];
    static uint32_t other_destinations[E];
    static const struct {
        enum sl_status status;
        const char *words;
    } expected[] = {{SL_EINVAL, ", features: found 6 columns, hash "},
                    {SL_EINVAL, ", graph: found 240 vertices, "},
                    {SL_EINVAL, ", features: found 5 columns, hash "},
                    {SL_EINVAL, ", split: found 119/"},
                    {SL_EINVAL, ", graph: found 239 vertices, "},
                    {SL_EINVAL, ", labels: found "},
                    {SL_EINVAL, ", split: found 120/"},
                    {SL_EINVAL, ", graph: found 240 vertices, "}};
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = crowds();
    run("epochs=1 checkpoint=%kept", dataset, &seen);
    memcpy(other_features, features, sizeof features);
    other_features[N * F - 1] += 1;
    others[0].features = other_features;
    memcpy(other_labels, labels, sizeof labels);
    other_labels[0] = labels[1];
    other_labels[1] = labels[0];
    others[5].labels = other_labels;
    memcpy(other_ids, ids, sizeof ids);
    other_ids[N_TRAIN] = ids[N_TRAIN + N_VALID];
    other_ids[N_TRAIN + N_VALID] = ids[N_TRAIN];
    others[6].valid = other_ids + N_TRAIN;
    others[6].test = other_ids + N_TRAIN + N_VALID;
    memcpy(other_destinations, destinations, sizeof destinations);
    other_destinations[0] = (destinations[0] + 1) % N;
    others[7].destinations = other_destinations;
    others[1].directed = true;
    others[2].n_features = 5;
    others[3].train = ids + 1;
    others[3].n_train = N_TRAIN - 1;
    others[4].n_vertices = N - 1;
    others[4].n_edges = 0;
    others[4].n_test = 0;
    others[4].n_valid = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        OWNED(sl_dataset_delete_it) struct sl_dataset *other;
        assert_ok(sl_dataset_new(&others[i], &other));
        open_refused(resume, other, expected[i].status, expected[i].words);
    }
    sl_dataset_delete(dataset);
    struct sl_arrays same = arrays();
    same.name = "masses"; /* the same contents by another name */
    assert_ok(sl_dataset_new(&same, &dataset));
    seen = nothing();
    run("checkpoint=%kept resume epochs=2", dataset, &seen);
    assert_int_equal(seen.n_steps, STEPS);
    seen = nothing();
    run("checkpoint=%kept resume epochs=3", NULL, &seen); /* from files */
    assert_int_equal(seen.n_steps, STEPS);
    seen = nothing();
    run("checkpoint=%kept resume epochs=4", dataset, &seen);
    assert_int_equal(seen.n_steps, STEPS);
}

TEST_MAIN(write_data, remove_data)
