/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a run's phases cost: seconds, processor time and peak memory of each, from loading to evaluation, as
 * Markdown.
 *
 * usage: phases [--dense-features] [options of coop_sage]
 *
 * The library is as it is; the functions that are its phases are wrapped by the linker (--wrap in
 * tests/bench/local.am). A phase within another is counted in both. The peak is the system's own high water mark of
 * resident memory, which is set back at the ends of each phase; pages of a mapped cache file count, once they were
 * looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "data/cache.h"
#include "data/generate/generate.h"
#include "data/load.h"
#include "partition/metis.h"
#include "runtime/full/evaluate.h"
#include "runtime/minibatch/minibatch.h"
#include "runtime/train/session.h"
#include "support/clock.h"
#include "support/memory.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define MAX_OPTIONS 128
#define MAX_PHASES 32
#define MAX_DEPTH 8
#define MAX_RUNS 100 /* of one phase: epochs */

/* ---- phases ---- */

struct phase {
    const char *name;
    unsigned depth; /* phases it is within */
    unsigned n;     /* times it ran */
    double seconds[MAX_RUNS];
    double cpu_seconds[MAX_RUNS];
    double start_s;
    double start_cpu_s;
    uint64_t peak_bytes;
};

static struct phase phases[MAX_PHASES]; /* in the order of their first runs */
static unsigned n_phases;
static struct phase *stack[MAX_DEPTH];
static unsigned depth;

static void die(const char *why)
{
    fprintf(stderr, "phases: %s\n", why);
    exit(EXIT_FAILED);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The high water mark since it was last set back; and set it back. */
static uint64_t take_peak(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "VmHWM: %llu", &kib) != 1) {
    }
    if (file == NULL || kib == 0) {
        die("/proc/self/status has no VmHWM: expected Linux");
    }
    fclose(file);
    file = fopen("/proc/self/clear_refs", "we");
    if (file == NULL || fputs("5\n", file) < 0 || fclose(file) != 0) {
        die("/proc/self/clear_refs cannot be written, so that no phase's own peak can be told");
    }
    return (uint64_t)kib * 1024;
}

/* Every phase under way has seen this peak. */
static void spread_peak(void)
{
    uint64_t peak = take_peak();
    for (unsigned i = 0; i < depth; i++) {
        stack[i]->peak_bytes = peak > stack[i]->peak_bytes ? peak : stack[i]->peak_bytes;
    }
}

static void enter(const char *name)
{
    unsigned i = 0;
    spread_peak();
    while (i < n_phases && (strcmp(phases[i].name, name) != 0 || phases[i].depth != depth)) {
        i++;
    }
    if (i == MAX_PHASES || depth == MAX_DEPTH || phases[i].n == MAX_RUNS) {
        die("more phases than there is room for: ask for fewer epochs");
    }
    n_phases = i < n_phases ? n_phases : i + 1;
    phases[i].name = name;
    phases[i].depth = depth;
    phases[i].start_s = sl_clock_s();
    phases[i].start_cpu_s = cpu_s();
    stack[depth++] = &phases[i];
}

static void leave(void)
{
    struct phase *phase = stack[depth - 1];
    phase->seconds[phase->n] = sl_clock_s() - phase->start_s;
    phase->cpu_seconds[phase->n++] = cpu_s() - phase->start_cpu_s;
    spread_peak();
    depth--;
}

/* ---- the library's functions, by the linker's names ---- */

/* A function of the library, wrapped: its phase is the time of a call. */
#define WRAP(type, function, phase, parameters, arguments)                                                             \
    type __real_##function parameters;                                                                                 \
    type __wrap_##function parameters;                                                                                 \
    type __wrap_##function parameters                                                                                  \
    {                                                                                                                  \
        enter(phase);                                                                                                  \
        type result = __real_##function arguments;                                                                     \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }

static bool dense_features; /* --dense-features */

WRAP(enum sl_status, sl_dataset_load, "dataset", (const struct sl_dataset_options *options, struct sl_dataset *out),
     (options, out))
WRAP(bool, sl_cache_read_dataset, "look into the cache",
     (const char *path, uint64_t key, bool low_memory, struct sl_dataset *out), (path, key, low_memory, out))
WRAP(enum sl_status, sl_raw_read, "read the files", (const struct sl_raw_files *files, struct sl_raw *out),
     (files, out))
WRAP(enum sl_status, sl_generate, "generate", (const struct sl_recipe *recipe, struct sl_raw *out), (recipe, out))
WRAP(enum sl_status, sl_graph_build_weighted, "build the graph",
     (uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to, const float *weights, bool reverse,
      struct sl_graph *out),
     (n_vertices, n, from, to, weights, reverse, out))
WRAP(bool, sl_cache_write_dataset, "write the cache",
     (const char *path, uint64_t key, const struct sl_dataset *dataset), (path, key, dataset))
WRAP(enum sl_status, sl_machine_start, "StarPU", (const struct sl_settings *settings, struct sl_machine *out),
     (settings, out))
WRAP(enum sl_status, sl_partition_make_held, "partition",
     (const struct sl_dataset *dataset, enum sl_partition_method method, uint32_t n_parts, uint64_t seed,
      const char *cache_file, const bool *held, struct sl_partition *out),
     (dataset, method, n_parts, seed, cache_file, held, out))
WRAP(enum sl_status, sl_metis_partition, "METIS",
     (const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts),
     (dataset, n_parts, seed, parts))
WRAP(enum sl_status, sl_shards_open, "tables in part order",
     (const struct sl_dataset *dataset, struct sl_partition *partition, enum sl_feature_form form,
      enum sl_dtype row_dtype, const bool *held, struct sl_shards *out),
     (dataset, partition, dense_features ? SL_FEATURES_DENSE : form, row_dtype, held, out))
WRAP(enum sl_status, sl_steps_open, "ring",
     (const struct sl_work *work, const struct sl_block_source *source, uint64_t first_step, struct sl_steps *out),
     (work, source, first_step, out))

static bool in_epoch;

static void enter_epoch(void)
{
    enter("train an epoch");
    in_epoch = true;
}

static void leave_epoch(void)
{
    if (in_epoch) {
        leave();
        in_epoch = false;
    }
}

enum sl_status __real_sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                                  const struct sl_inference *wanted, struct sl_scores *out);
enum sl_status __wrap_sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                                  const struct sl_inference *wanted, struct sl_scores *out);

enum sl_status __wrap_sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                                  const struct sl_inference *wanted, struct sl_scores *out)
{
    leave_epoch();
    enter("evaluate");
    enum sl_status st = __real_sl_evaluate(run, shards, model, wanted, out);
    leave();
    return st;
}

static uint32_t n_epochs; /* that the run trains */
static double last_loss;

enum sl_status __wrap_sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch);

/* Nobody reads the metrics here. */
enum sl_status __wrap_sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch)
{
    (void)metrics;
    leave_epoch();
    last_loss = epoch->train_loss;
    if (epoch->epoch < n_epochs) {
        enter_epoch();
    }
    return SL_OK;
}

/* ---- the run ---- */

/* `run` comes first: coop_sage's options address it. */
struct phases_settings {
    struct sl_settings run;
    bool dense_features;
};

static const struct sl_option own_option = {.name = "dense-features",
                                            .group = "phases",
                                            .kind = SL_OPTION_FLAG,
                                            .offset = offsetof(struct phases_settings, dense_features),
                                            .help = "Lay sparse features out dense, to see what that would cost"};

/* coop_sage's table with our option at its end; `options` has room for MAX_OPTIONS. */
static struct sl_option_table make_table(struct sl_option *options)
{
    struct sl_option_table table = *sl_settings_table(SL_SCHEDULE_MINIBATCH);
    memcpy(options, table.options, table.n_options * sizeof *options);
    options[table.n_options++] = own_option;
    table.program = "phases";
    table.summary = "measure time and memory of a run's phases";
    table.options = options;
    return table;
}

static enum sl_status run(struct sl_settings *settings)
{
    struct sl_session *session = NULL;
    enum sl_status st;
    enter("start, up to the first step");
    SL_TRY(st, sl_session_open(settings, NULL, &session), done);
    leave();
    n_epochs = settings->epochs;
    printf("\n```\n");
    SL_TRY(st, sl_session_describe(session, stdout), done);
    printf("```\n\n");
    if (n_epochs > 0) {
        enter_epoch();
    }
    st = sl_session_train(session, NULL);
done:
    sl_session_close(session);
    return st;
}

/* ---- the table ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void print_table(void)
{
    uint64_t peak = 0;
    printf("| phase | seconds | processor seconds | peak MB |\n| --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < n_phases; i++) {
        struct phase *p = &phases[i];
        char times[32] = "";
        if (p->n > 1) {
            snprintf(times, sizeof times, " (median of %u)", p->n);
        }
        printf("| %.*s%s%s | %.4g | %.4g | %.0f |\n", 2 * (int)p->depth, "- - - - - - - - ", p->name, times,
               median(p->seconds, p->n), median(p->cpu_seconds, p->n), (double)p->peak_bytes / 1e6);
        peak = p->peak_bytes > peak ? p->peak_bytes : peak;
    }
    printf("\nPeak of all phases: %.2f GB. Loss of the last epoch: %.4f.\n", (double)peak / 1e9, last_loss);
}

static int complain(int code)
{
    fprintf(stderr, "phases: %s\n", sl_message());
    return code;
}

int main(int argc, char **argv)
{
    struct sl_option options[MAX_OPTIONS];
    struct sl_option_table table = make_table(options);
    struct phases_settings s = {0};
    struct sl_option_parse parse = {0};
    int code = EXIT_GOOD;
    if (sl_option_defaults(&table, &s) != SL_OK) {
        return complain(EXIT_FAILED);
    }
    if (sl_option_parse(&table, argc, argv, &s, &parse) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else if (parse.action != SL_OPTION_RUN) {
        code =
            sl_option_print(&table, parse.action, PACKAGE_VERSION, stdout) == SL_OK ? EXIT_GOOD : complain(EXIT_FAILED);
    } else if (sl_settings_check(&s.run) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else {
        dense_features = s.dense_features;
        code = run(&s.run) == SL_OK ? EXIT_GOOD : complain(EXIT_FAILED);
        if (code == EXIT_GOOD) {
            print_table();
        }
    }
    sl_free(parse.sources);
    sl_option_free(&table, &s);
    return code;
}
