/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The contents of checkpoints, and fixed options. */
#include "runtime/train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codelets/ranks.h"
#include "runtime/files/checkpoint.h"
#include "runtime/sync/replicas.h"
#include "support/decimal.h"
#include "support/memory.h"

/* A run continues exactly only if its data, its model and the order of its additions stay the same. sl_state_rule says
 * for every option whether it may change. The data are compared by content (partition/identity.h). `transport` belongs
 * to the order: nccl adds gradients by GPU, other transports by PE. `means` fastest may use cuSPARSE's order. `epochs`
 * sets the length of the learning rate schedule. GPUs round differently from CPUs: the bits equal those of an
 * uninterrupted run if the same kind of device continues, with nccl the same number of GPUs, and without --cpus beside
 * GPUs. */
static const char *const fixed_options[] = {"directed",
                                            "normalize-features",
                                            "model",
                                            "heads",
                                            "alpha",
                                            "lambda",
                                            "layers",
                                            "hidden",
                                            "dropout",
                                            "input-dropout",
                                            "norm",
                                            "residual",
                                            "precision",
                                            "sync",
                                            "pes",
                                            "group-size",
                                            "batch-size",
                                            "fanout",
                                            "sampler",
                                            "layer-dependency",
                                            "kappa",
                                            "chunks",
                                            "ways",
                                            "chunk-order",
                                            "gradient-factor",
                                            "history-every",
                                            "guard",
                                            "partition",
                                            "gossip-what",
                                            "gossip-average-every",
                                            "gossip-local-size",
                                            "gossip-ring",
                                            "lr",
                                            "lr-schedule",
                                            "epochs",
                                            "weight-decay",
                                            "seed",
                                            "transport",
                                            "means"};
#define N_FIXED (sizeof fixed_options / sizeof *fixed_options)
#define N_NUMBERS 12

/* Options that choose the data. Any choice goes on that has the same contents. */
static const char *const data_options[] = {"dataset", "split", "features"};

/* Options that change no figure: where files are, where and when tasks run (every sum has a fixed order), what is
 * observed and written, when the run ends. The checkpoint brings the weights, so `load` is not read. */
static const char *const free_options[] = {"data-path",     "cache",         "cpus",
                                           "gpus",          "sched",         "placement",
                                           "depth",         "feature-cache", "feature-cache-policy",
                                           "stages",        "stages-cut",    "recompute",
                                           "watchdog",      "load",          "metrics",
                                           "metrics-steps", "save",          "save-names",
                                           "predict",       "embed",         "checkpoint",
                                           "resume",        "trace",         "trace-steps",
                                           "quiet",         "json",          "eval-every",
                                           "patience"};

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

enum sl_resume_rule sl_state_rule(const char *option)
{
    if (is_among(option, fixed_options, N_FIXED)) {
        return SL_RESUME_FIXED;
    }
    if (is_among(option, data_options, sizeof data_options / sizeof *data_options)) {
        return SL_RESUME_SAME_DATA;
    }
    if (is_among(option, free_options, sizeof free_options / sizeof *free_options)) {
        return SL_RESUME_FREE;
    }
    return SL_RESUME_UNKNOWN;
}

/* Sizes of the dataset. Their messages say more than those of contents. */
static const char *const size_names[] = {"vertices", "edges", "features", "training_vertices"};
#define N_SIZES (sizeof size_names / sizeof *size_names)

static uint64_t size_of(const struct sl_session *t, size_t i)
{
    const uint64_t sizes[N_SIZES] = {t->shards.n_vertices, t->partition.graph.n_edges, t->shards.n_features,
                                     t->shards.n_train};
    return sizes[i];
}

/* ---- saving ---- */

/* The metadata of a checkpoint, and storage for its strings. */
struct labels {
    struct sl_metadata entry[N_FIXED + N_NUMBERS + SL_N_IDENTITIES + 3];
    uint32_t n;
    char *option[N_FIXED];
    char key[N_FIXED][48];
    char number[N_NUMBERS][40];
    char data_key[SL_N_IDENTITIES][24];
    char data[SL_N_IDENTITIES][24];
    uint32_t n_numbers;
};

static void add_whole(struct labels *labels, const char *key, uint64_t value)
{
    char *text = labels->number[labels->n_numbers++];
    snprintf(text, sizeof labels->number[0], "%" PRIu64, value);
    labels->entry[labels->n++] = (struct sl_metadata){key, text};
}

static void add_real(struct labels *labels, const char *key, double value)
{
    char *text = labels->number[labels->n_numbers++];
    sl_decimal_write(value, 17, text, sizeof labels->number[0]);
    labels->entry[labels->n++] = (struct sl_metadata){key, text};
}

/* The metadata's name of a part's contents. */
static void name_part(int part, char out[24])
{
    snprintf(out, 24, "data.%s", sl_identity_names[part]);
}

static void add_identity(const struct sl_identity *identity, struct labels *labels)
{
    for (int i = 0; i < SL_N_IDENTITIES; i++) {
        name_part(i, labels->data_key[i]);
        snprintf(labels->data[i], sizeof labels->data[i], "%016" PRIx64, identity->part[i]);
        labels->entry[labels->n++] = (struct sl_metadata){labels->data_key[i], labels->data[i]};
    }
}

static enum sl_status option_text(const char *name, const struct sl_settings *settings, char **out)
{
    return sl_option_text(sl_option_find(sl_settings_table_of(settings), name), settings, out);
}

static enum sl_status make_labels(const struct sl_session *t, struct labels *labels)
{
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < N_FIXED; i++) {
        if (sl_option_find(sl_settings_table_of(t->settings), fixed_options[i]) == NULL) {
            continue;
        }
        SL_TRY(st, option_text(fixed_options[i], t->settings, &labels->option[i]), done);
        snprintf(labels->key[i], sizeof labels->key[i], "option.%s", fixed_options[i]);
        labels->entry[labels->n++] = (struct sl_metadata){labels->key[i], labels->option[i]};
    }
    for (size_t i = 0; i < N_SIZES; i++) {
        add_whole(labels, size_names[i], size_of(t, i));
    }
    add_identity(&t->identity, labels);
    labels->entry[labels->n++] = (struct sl_metadata){"dataset", t->name};
    labels->entry[labels->n++] = (struct sl_metadata){"split", t->split};
    labels->entry[labels->n++] = (struct sl_metadata){"synthetic", t->synthetic ? "yes" : "no"};
    add_whole(labels, "step", t->state.step);
    add_whole(labels, "steps_per_epoch", t->plan.n_per_epoch);
    add_whole(labels, "best_epoch", t->state.best_epoch);
    add_whole(labels, "worse", t->state.n_worse);
    add_real(labels, "best_valid_acc", t->state.best_valid_acc);
    add_real(labels, "test_acc_at_best", t->state.test_acc_at_best);
    add_real(labels, "seconds", t->state.seconds);
    add_real(labels, "epoch_seconds", t->state.epoch_seconds);
done:
    return st;
}

static void free_labels(struct labels *labels)
{
    for (size_t i = 0; i < N_FIXED; i++) {
        sl_free(labels->option[i]);
    }
}

/* Broadcast rank 0's model. */
static enum sl_status share_model(struct sl_session *t)
{
    size_t n = sl_model_entries(&t->model);
    sl_real *values;
    enum sl_status st;
    SL_TRY(st, sl_alloc(n, sizeof *values, "rank 0's model", &values), done);
    SL_TRY(st, sl_model_acquire(&t->model, STARPU_RW), free_values);
    sl_model_read(&t->model, values);
    st = sl_ranks_broadcast(values, n * sizeof *values);
    sl_model_write(&t->model, values);
    sl_model_release(&t->model);
free_values:
    sl_free(values);
done:
    return st;
}

enum sl_status sl_state_average(struct sl_session *t)
{
    enum sl_status st;
    if (t->n_replicas == 1) {
        if (t->schedule.kind->share != NULL) {
            return t->schedule.kind->share(t->schedule.own, false);
        }
        return SL_OK;
    }
    SL_TRY(st, sl_replicas_gather(&t->transport, t->replica, false), done);
    if (sl_rank() == 0) {
        SL_TRY(st, sl_replicas_average(&t->run, t->replica, t->n_replicas, &t->model), done);
    }
    sl_ranks_drain();
    if (t->plan.n_ranks > 1) {
        st = share_model(t);
    }
done:
    return st;
}

/* List the tensors of all replicas. *n is the number made so far, also on failure. */
static enum sl_status list_replicas(struct sl_session *t, struct sl_tensor *tensors, uint32_t *n)
{
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < t->n_replicas; r++) {
        uint32_t n_model = 0;
        SL_TRY(st, sl_model_acquire(&t->replica[r], STARPU_R), done);
        st = sl_model_tensors(&t->replica[r], SL_TENSORS_FOR_CHECKPOINT, tensors + *n, &n_model);
        sl_model_release(&t->replica[r]);
        if (st != SL_OK) {
            goto done;
        }
        *n += n_model;
    }
done:
    return st;
}

static enum sl_status save(struct sl_session *t)
{
    struct sl_tensor *tensors = NULL;
    struct labels labels = {0};
    uint32_t n_model = 0;
    enum sl_status st;
    SL_TRY(st, make_labels(t, &labels), done);
    SL_TRY(st,
           sl_alloc((size_t)t->n_replicas * SL_MODEL_TENSORS + 2 + SL_SCHEDULE_TENSORS, sizeof *tensors,
                    "a checkpoint's tensors", &tensors),
           done);
    SL_TRY(st, list_replicas(t, tensors, &n_model), done);
    uint32_t n = n_model;
    if (t->best != NULL) {
        tensors[n++] = sl_tensor_make("best", SL_TENSOR_REAL, sl_model_entries(&t->model), 0, t->best);
    }
    tensors[n++] = sl_tensor_make("epoch.losses", SL_TENSOR_F64, t->plan.n_per_epoch, 0, t->losses);
    SL_TRY(st, t->schedule.kind->save(t->schedule.own, tensors, &n), done);
    st = sl_checkpoint_save(t->settings->checkpoint, tensors, n, labels.entry, labels.n);
done:
    sl_model_tensors_free(tensors, n_model);
    sl_free(tensors);
    free_labels(&labels);
    return st;
}

enum sl_status sl_state_save(struct sl_session *t)
{
    enum sl_status st = SL_OK;
    if (t->n_replicas > 1) {
        SL_TRY(st, sl_replicas_gather(&t->transport, t->replica, true), done);
        sl_ranks_drain();
    }
    if (t->schedule.kind->gather != NULL) {
        SL_TRY(st, t->schedule.kind->gather(t->schedule.own), done);
    }
    if (t->schedule.kind->share != NULL) {
        SL_TRY(st, t->schedule.kind->share(t->schedule.own, true), done);
    }
    if (sl_rank() == 0) {
        st = save(t);
    }
done:
    return st;
}

/* ---- resuming ---- */

/* Whether an option is left open (0): the checkpoint then decides. */
static bool left_open(const struct sl_settings *s, const char *name)
{
    return (strcmp(name, "pes") == 0 && s->pes == 0) || (strcmp(name, "group-size") == 0 && s->group_size == 0) ||
           (strcmp(name, "chunks") == 0 && (s->schedule == SL_SCHEDULE_PIPE ? s->graph_chunks : s->chunks) == 0);
}

/* lr-schedule is compared before epochs (fixed_options) and equals the checkpoint's here. */
static bool may_change(const struct sl_settings *s, const char *name)
{
    return strcmp(name, "epochs") == 0 && s->lr_schedule == SL_LR_NONE;
}

/* Whether a split is left open that the checkpoint names. */
static bool lacks_split(const struct sl_settings *s, const char *then)
{
    bool open = s->split == NULL || s->split[0] == '\0';
    return open && then != NULL && then[0] != '\0';
}

enum sl_status sl_state_match(struct sl_settings *settings, bool given, const struct sl_tensors *checkpoint)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    char *now = NULL;
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < N_FIXED; i++) {
        const char *name = fixed_options[i];
        char key[48];
        if (sl_option_find(table, name) == NULL) {
            continue;
        }
        snprintf(key, sizeof key, "option.%s", name);
        const char *then = sl_tensors_metadata(checkpoint, key);
        if (then == NULL && strcmp(name, "precision") == 0) {
            then = "float"; /* older checkpoints: the only precision */
        }
        if (then == NULL) {
            st = sl_fail(SL_EFILE, "%s: it does not say what --%s was; it is no checkpoint of %s", checkpoint->path,
                         name, table->program);
            goto done;
        }
        if (may_change(settings, name)) {
            continue;
        }
        if (left_open(settings, name)) {
            SL_TRY(st, sl_option_set(table, name, then, settings), done);
            continue;
        }
        SL_TRY(st, option_text(name, settings, &now), done);
        if (strcmp(now, then) != 0) {
            st = sl_fail(
                SL_EINVAL,
                "--%s: found '%.100s', expected '%.100s', which the run in %.200s began with; use that, or start "
                "afresh in another --checkpoint folder",
                name, now, then, settings->checkpoint);
            goto done;
        }
        sl_free(now);
        now = NULL;
    }
    const char *split = sl_tensors_metadata(checkpoint, "split");
    if (!given && lacks_split(settings, split)) {
        SL_TRY(st, sl_option_set(table, "split", split, settings), done);
    }
    st = sl_settings_check(settings);
done:
    sl_free(now);
    return st;
}

static enum sl_status match_sizes(const struct sl_session *t, const struct sl_tensors *checkpoint)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        uint64_t then = size_of(t, i);
        bool known = sl_tensors_metadata(checkpoint, size_names[i]) != NULL; /* older checkpoints lack sizes */
        enum sl_status st = SL_OK;
        if (known) {
            st = sl_checkpoint_whole(checkpoint, size_names[i], &then);
        }
        if (st == SL_OK && then != size_of(t, i)) {
            st = sl_fail(SL_EINVAL,
                         "dataset %s: found %" PRIu64 " %s, expected %" PRIu64 ", as in the run that %.200s is of",
                         t->name, size_of(t, i), size_names[i], then, checkpoint->path);
        }
        if (st != SL_OK) {
            return st;
        }
    }
    return SL_OK;
}

/* Compare the contents of the data. A checkpoint of an earlier version does not have them. */
static enum sl_status match_identity(const struct sl_session *t, const struct sl_tensors *checkpoint)
{
    for (int i = 0; i < SL_N_IDENTITIES; i++) {
        char key[24];
        char now[24];
        name_part(i, key);
        snprintf(now, sizeof now, "%016" PRIx64, t->identity.part[i]);
        const char *then = sl_tensors_metadata(checkpoint, key);
        if (then != NULL && strcmp(now, then) != 0) {
            return sl_fail(SL_EINVAL,
                           "dataset %s: found %s than the run in %.200s began with; use the data of that run, or start "
                           "afresh in another --checkpoint folder",
                           t->name, sl_identity_others[i], checkpoint->path);
        }
    }
    return SL_OK;
}

static enum sl_status load_numbers(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    struct sl_progress_state *state = &t->state;
    enum sl_status st;
    SL_TRY(st, sl_checkpoint_whole(checkpoint, "step", &state->step), done);
    SL_TRY(st, sl_checkpoint_whole(checkpoint, "best_epoch", &state->best_epoch), done);
    SL_TRY(st, sl_checkpoint_whole(checkpoint, "worse", &state->n_worse), done);
    SL_TRY(st, sl_checkpoint_real(checkpoint, "best_valid_acc", &state->best_valid_acc), done);
    SL_TRY(st, sl_checkpoint_real(checkpoint, "test_acc_at_best", &state->test_acc_at_best), done);
    SL_TRY(st, sl_checkpoint_real(checkpoint, "seconds", &state->seconds), done);
    st = sl_checkpoint_real(checkpoint, "epoch_seconds", &state->epoch_seconds);
done:
    return st;
}

enum sl_status sl_state_load(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    size_t n_entries = sl_model_entries(&t->model);
    struct sl_tensor best = sl_tensor_make("best", SL_TENSOR_REAL, n_entries, 0, NULL);
    enum sl_status st;
    SL_TRY(st, match_sizes(t, checkpoint), done);
    SL_TRY(st, match_identity(t, checkpoint), done);
    SL_TRY(st, load_numbers(t, checkpoint), done);
    for (uint32_t r = 0; r < t->n_replicas; r++) {
        SL_TRY(st, sl_model_acquire(&t->replica[r], STARPU_RW), done);
        st = sl_model_set_tensors(&t->replica[r], true, checkpoint);
        sl_model_release(&t->replica[r]);
        if (st != SL_OK) {
            goto done;
        }
    }
    if (sl_tensors_find(checkpoint, "best") != NULL) {
        SL_TRY(st, sl_alloc(n_entries, sizeof *t->best, "the best weights", &t->best), done);
        SL_TRY(st, sl_tensors_get(checkpoint, &best, t->best), done);
    }
done:
    return st;
}

enum sl_status sl_state_load_epoch(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    uint32_t n = t->plan.n_per_epoch;
    uint64_t then;
    struct sl_tensor losses = sl_tensor_make("epoch.losses", SL_TENSOR_F64, n, 0, NULL);
    enum sl_status st;
    SL_TRY(st, sl_checkpoint_whole(checkpoint, "steps_per_epoch", &then), done);
    if (then != n) {
        st = sl_fail(SL_EFILE, "%s: its epochs have %llu steps, this run's %u: the dataset has changed",
                     checkpoint->path, (unsigned long long)then, n);
        goto done;
    }
    SL_TRY(st, sl_tensors_get(checkpoint, &losses, t->losses), done);
    SL_TRY(st, t->schedule.kind->load(t->schedule.own, checkpoint), done);
    t->n_reported = (uint32_t)(t->state.step % n);
done:
    return st;
}
