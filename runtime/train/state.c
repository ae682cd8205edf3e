/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The contents of checkpoints. */
#include "runtime/train/session.h"

#include <stdio.h>
#include <string.h>

#include "runtime/files/checkpoint.h"
#include "runtime/plan/rate.h"
#include "runtime/sync/replicas.h"
#include "support/memory.h"
#include "support/text.h"
#include "tasks/ranks.h"

#define KEY_BYTES 48
#define SPLIT_KEY "split"
#define WEIGHTS_KEY "data.class-weights"

/* ---- saving ---- */

static void name_option(const char *option, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "option.%s", option);
}

static void name_score(const char *set, const struct sl_score *score, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "best.%s_%s", set, score->name);
}

static void name_part(size_t part, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "data.%s", sl_data_part_names[part]);
}

static enum sl_status add_options(const struct sl_settings *settings, struct sl_labels *labels)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char key[KEY_BYTES];
        SL_FREED char *value = NULL;
        if (option->change == SL_CHANGE_FREELY) {
            continue;
        }
        SL_CHECK(sl_option_text(option, settings, &value));
        name_option(option->name, key);
        SL_CHECK(sl_labels_add(labels, key, value));
    }
    return SL_OK;
}

/* The scores of state.best. Without an evaluation: none. */
static enum sl_status add_scores(const struct sl_scores *best, struct sl_labels *labels)
{
    for (uint32_t i = 0; i < best->n; i++) {
        char key[KEY_BYTES];
        name_score("valid", &best->score[i], key);
        SL_CHECK(sl_labels_add_real(labels, key, best->score[i].valid));
        name_score("test", &best->score[i], key);
        SL_CHECK(sl_labels_add_real(labels, key, best->score[i].test));
    }
    return SL_OK;
}

static enum sl_status make_labels(const struct sl_session *t, struct sl_labels *labels)
{
    char text[KEY_BYTES];
    SL_CHECK(add_options(t->settings, labels));
    for (size_t i = 0; i < SL_N_DATA_PARTS; i++) {
        name_part(i, text);
        SL_CHECK(sl_labels_add(labels, text, t->identity.text[i]));
    }
    sl_objective_identify(&t->objective, text);
    SL_CHECK(sl_labels_add(labels, WEIGHTS_KEY, text));
    SL_CHECK(sl_labels_add(labels, "dataset", t->name));
    SL_CHECK(sl_labels_add(labels, SPLIT_KEY, t->split));
    SL_CHECK(sl_labels_add(labels, "synthetic", t->synthetic ? "yes" : "no"));
    SL_CHECK(sl_labels_add_whole(labels, "step", t->state.step));
    SL_CHECK(sl_labels_add_whole(labels, "steps_per_epoch", t->plan.n_per_epoch));
    SL_CHECK(sl_labels_add_whole(labels, "best_epoch", t->state.best_epoch));
    SL_CHECK(sl_labels_add_whole(labels, "worse", t->state.n_worse));
    SL_CHECK(add_scores(&t->state.best, labels));
    if (t->plan.adapts) {
        SL_CHECK(sl_labels_add_whole(labels, "batch", t->plan.batch));
        SL_CHECK(sl_labels_add_whole(labels, "batch.epoch", t->plan.epoch0));
        SL_CHECK(sl_labels_add_whole(labels, "batch.step", t->plan.step0));
    }
    SL_CHECK(sl_labels_add_real(labels, "seconds", t->state.seconds));
    SL_CHECK(sl_labels_add_real(labels, "epoch_seconds", t->state.epoch_seconds));
    return sl_labels_add_model(labels, t, false);
}

/* Broadcast rank 0's model. */
static enum sl_status share_model(struct sl_session *t)
{
    size_t n = sl_model_entries(&t->model);
    SL_FREED sl_real *values = NULL;
    enum sl_status st;
    SL_CHECK(sl_alloc(n, sizeof *values, "rank 0's model", &values));
    SL_CHECK(sl_model_acquire(&t->model, STARPU_RW));
    sl_model_read(&t->model, values);
    st = sl_ranks_broadcast(values, n * sizeof *values);
    sl_model_write(&t->model, values);
    sl_model_release(&t->model);
    return st;
}

enum sl_status sl_state_average(struct sl_session *t)
{
    if (t->n_replicas == 1) {
        if (t->schedule.kind->share != NULL) {
            return t->schedule.kind->share(t->schedule.own, false);
        }
        return SL_OK;
    }
    SL_CHECK(sl_replicas_gather(&t->transport, t->replica, false));
    if (sl_rank() == 0) {
        SL_CHECK(sl_replicas_average(&t->run, t->replica, t->n_replicas, &t->model));
    }
    sl_ranks_drain();
    if (t->plan.n_ranks > 1) {
        return share_model(t);
    }
    return SL_OK;
}

/* List the tensors of all replicas. *n is the number made so far, also on failure. */
static enum sl_status list_replicas(struct sl_session *t, struct sl_tensor *tensors, uint32_t *n)
{
    enum sl_status st;
    for (uint32_t r = 0; r < t->n_replicas; r++) {
        uint32_t n_model = 0;
        SL_CHECK(sl_model_acquire(&t->replica[r], STARPU_R));
        st = sl_model_tensors(&t->replica[r], SL_TENSORS_FOR_CHECKPOINT, tensors + *n, &n_model);
        sl_model_release(&t->replica[r]);
        SL_CHECK(st);
        *n += n_model;
    }
    return SL_OK;
}

static enum sl_status save(struct sl_session *t)
{
    const size_t room = (size_t)t->n_replicas * SL_MODEL_TENSORS + 2 + SL_SCHEDULE_TENSORS;
    SL_FREED struct sl_tensor *tensors = NULL;
    SL_OWNED(sl_labels_free) struct sl_labels labels = {0};
    uint32_t n_model = 0;
    enum sl_status st;
    SL_CHECK(make_labels(t, &labels));
    SL_CHECK(sl_alloc(room, sizeof *tensors, "a checkpoint's tensors", &tensors));
    SL_TRY(st, list_replicas(t, tensors, &n_model), free_model);
    uint32_t n = n_model;
    if (t->best != NULL) {
        tensors[n++] = sl_tensor_make("best", SL_DTYPE_REAL, sl_model_entries(&t->model), 0, t->best);
    }
    tensors[n++] = sl_tensor_make("epoch.losses", SL_DTYPE_F64, t->plan.n_per_epoch, 0, t->losses);
    SL_TRY(st, t->schedule.kind->save(t->schedule.own, tensors, &n), free_model);
    st = sl_checkpoint_save(t->settings->checkpoint, tensors, n, labels.entry, labels.n);
free_model:
    sl_model_tensors_free(tensors, n_model);
    return st;
}

enum sl_status sl_state_save(struct sl_session *t)
{
    if (t->n_replicas > 1) {
        SL_CHECK(sl_replicas_gather(&t->transport, t->replica, true));
        sl_ranks_drain();
    }
    if (t->schedule.kind->gather != NULL) {
        SL_CHECK(t->schedule.kind->gather(t->schedule.own));
    }
    if (t->schedule.kind->share != NULL) {
        SL_CHECK(t->schedule.kind->share(t->schedule.own, true));
    }
    if (sl_rank() == 0) {
        return save(t);
    }
    return SL_OK;
}

/* ---- resuming ---- */

static bool may_change(const struct sl_settings *s, const struct sl_option *option)
{
    /* The checkpoint has the same schedule: it was compared before. */
    const enum sl_rate_kind rate = sl_rate_of(s->lr_schedule).kind;
    switch (option->change) {
    case SL_CHANGE_DATA: return true; /* sl_state_match_data compares contents */
    case SL_CHANGE_FREELY: return true;
    case SL_CHANGE_LONGER: return rate != SL_RATE_COSINE && rate != SL_RATE_THIRDS;
    case SL_CHANGE_NEVER: break;
    }
    return false;
}

static enum sl_status match_option(struct sl_settings *settings, const struct sl_option *option,
                                   const struct sl_tensors *checkpoint)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    char key[KEY_BYTES];
    SL_FREED char *now = NULL;
    name_option(option->name, key);
    const char *then = sl_tensors_metadata(checkpoint, key);
    SL_FAIL_IF(then == NULL, SL_EFILE, "%s: it does not say what --%s was; it is no checkpoint of %s", checkpoint->path,
               option->name, table->program);
    if (sl_option_is_open(option, settings)) {
        return sl_option_set(table, option->name, then, settings);
    }
    SL_CHECK(sl_option_text(option, settings, &now));
    char found[SL_QUOTED_BYTES], expected[SL_QUOTED_BYTES];
    SL_FAIL_IF(strcmp(now, then) != 0, SL_EINVAL,
               "--%s: found %s, expected %s, which the run in %.200s began with; %s, or start afresh in another "
               "--checkpoint folder",
               option->name, sl_text_quoted(now, found), sl_text_quoted(then, expected), settings->checkpoint,
               then[0] != '\0' ? "use that" : "leave it out");
    return SL_OK;
}

enum sl_status sl_state_match(struct sl_settings *settings, const struct sl_tensors *checkpoint)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = sl_option_in_order(table, i);
        if (!may_change(settings, option)) {
            SL_CHECK(match_option(settings, option, checkpoint));
        }
    }
    return sl_settings_check(settings);
}

const char *sl_state_split(const struct sl_tensors *checkpoint)
{
    return sl_tensors_metadata(checkpoint, SPLIT_KEY);
}

/* The text of an option that chose the data, or of nothing. */
static const char *choice_of(const struct sl_tensors *checkpoint, const char *option)
{
    char key[KEY_BYTES];
    name_option(option, key);
    return sl_text_or(sl_tensors_metadata(checkpoint, key), "");
}

/* A file of --class-weights may have moved. */
static enum sl_status match_class_weights(const struct sl_session *t, const struct sl_tensors *checkpoint)
{
    const char *then = sl_tensors_metadata(checkpoint, WEIGHTS_KEY);
    char now[SL_SUM_BYTES];
    SL_FAIL_IF(then == NULL, SL_EFILE, "%s: it does not say what its class weights were; it is no checkpoint",
               checkpoint->path);
    sl_objective_identify(&t->objective, now);
    const char *option = choice_of(checkpoint, "class-weights");
    SL_FAIL_IF(strcmp(now, then) != 0, SL_EINVAL,
               "--class-weights: found %s, expected %.40s (%.100s), which the run in %.200s began with; use the "
               "same weights, or start afresh in another --checkpoint folder",
               now, then, option[0] != '\0' ? option : "not given", t->settings->checkpoint);
    return SL_OK;
}

enum sl_status sl_state_match_data(const struct sl_session *t, const struct sl_tensors *checkpoint)
{
    for (size_t i = 0; i < SL_N_DATA_PARTS; i++) {
        const char *now = t->identity.text[i];
        const char *features = choice_of(checkpoint, "features");
        char key[KEY_BYTES];
        name_part(i, key);
        const char *then = sl_tensors_metadata(checkpoint, key);
        SL_FAIL_IF(then == NULL, SL_EFILE, "%s: it does not say what its %s was; it is no checkpoint", checkpoint->path,
                   sl_data_part_names[i]);
        SL_FAIL_IF(strcmp(now, then) != 0, SL_EINVAL,
                   "dataset %s, %s: found %s, expected %.80s, which the run in %.200s began with (--dataset "
                   "%.100s --split %.63s%s%.100s); use the same data, or start afresh in another --checkpoint "
                   "folder",
                   t->name, sl_data_part_names[i], now, then, t->settings->checkpoint,
                   t->given ? t->name : choice_of(checkpoint, "dataset"), sl_text_or(sl_state_split(checkpoint), ""),
                   features[0] != '\0' ? " --features " : "", features);
    }
    return match_class_weights(t, checkpoint);
}

static enum sl_status load_scores(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    struct sl_scores *best = &t->state.best;
    sl_objective_scores(&t->objective, &t->shards, best);
    for (uint32_t i = 0; i < best->n; i++) {
        char key[KEY_BYTES];
        name_score("valid", &best->score[i], key);
        SL_CHECK(sl_checkpoint_real(checkpoint, key, &best->score[i].valid));
        name_score("test", &best->score[i], key);
        SL_CHECK(sl_checkpoint_real(checkpoint, key, &best->score[i].test));
    }
    return SL_OK;
}

static enum sl_status load_numbers(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    struct sl_progress_state *state = &t->state;
    SL_CHECK(sl_checkpoint_whole(checkpoint, "step", &state->step));
    SL_CHECK(sl_checkpoint_whole(checkpoint, "best_epoch", &state->best_epoch));
    SL_CHECK(sl_checkpoint_whole(checkpoint, "worse", &state->n_worse));
    if (sl_tensors_find(checkpoint, "best") != NULL) {
        SL_CHECK(load_scores(t, checkpoint));
    }
    SL_CHECK(sl_checkpoint_real(checkpoint, "seconds", &state->seconds));
    return sl_checkpoint_real(checkpoint, "epoch_seconds", &state->epoch_seconds);
}

/* The batch that a vertex budget has come to. */
static enum sl_status load_batch(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    uint64_t batch;
    uint64_t epoch;
    uint64_t step;
    SL_CHECK(sl_checkpoint_whole(checkpoint, "batch", &batch));
    SL_CHECK(sl_checkpoint_whole(checkpoint, "batch.epoch", &epoch));
    SL_CHECK(sl_checkpoint_whole(checkpoint, "batch.step", &step));
    SL_FAIL_IF(batch == 0 || batch > t->plan.n_train || step > t->state.step || epoch > step, SL_EFILE,
               "%s: expected a batch of 1 to %u seeds since an earlier step, found %llu since step %llu",
               checkpoint->path, t->plan.n_train, (unsigned long long)batch, (unsigned long long)step);
    sl_plan_set_batch(&t->plan, epoch, step, batch, t->settings->epochs);
    return SL_OK;
}

enum sl_status sl_state_load(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    size_t n_entries = sl_model_entries(&t->model);
    struct sl_tensor best = sl_tensor_make("best", SL_DTYPE_REAL, n_entries, 0, NULL);
    enum sl_status st;
    SL_CHECK(load_numbers(t, checkpoint));
    if (t->plan.adapts) {
        SL_CHECK(load_batch(t, checkpoint));
    }
    for (uint32_t r = 0; r < t->n_replicas; r++) {
        SL_CHECK(sl_model_acquire(&t->replica[r], STARPU_RW));
        st = sl_model_set_tensors(&t->replica[r], true, checkpoint);
        sl_model_release(&t->replica[r]);
        SL_CHECK(st);
    }
    /* The average of replicas, t->model, leaves out numbers that are not trained: a fixed epsilon of gin. */
    if (t->n_replicas > 1) {
        SL_CHECK(sl_replicas_spread(&t->model, 1, &t->replica[0]));
    }
    if (sl_tensors_find(checkpoint, "best") != NULL) {
        SL_CHECK(sl_alloc(n_entries, sizeof *t->best, "the best weights", &t->best));
        SL_CHECK(sl_tensors_get(checkpoint, &best, t->best));
    }
    return SL_OK;
}

enum sl_status sl_state_load_epoch(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    uint32_t n = t->plan.n_per_epoch;
    uint64_t then;
    struct sl_tensor losses = sl_tensor_make("epoch.losses", SL_DTYPE_F64, n, 0, NULL);
    SL_CHECK(sl_checkpoint_whole(checkpoint, "steps_per_epoch", &then));
    SL_FAIL_IF(then != n, SL_EFILE, "%s: its epochs have %llu steps, this run's %u: the dataset has changed",
               checkpoint->path, (unsigned long long)then, n);
    SL_CHECK(sl_tensors_get(checkpoint, &losses, t->losses));
    SL_CHECK(t->schedule.kind->load(t->schedule.own, checkpoint));
    t->n_reported = sl_plan_number(&t->plan, t->state.step);
    return SL_OK;
}
