/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Answers of trained models (runtime/starling.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/kinds.h"
#include "runtime/model/model.h"
#include "runtime/plan/model_file.h"
#include "runtime/train/session.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"
#include "tasks/ranks.h"

struct sl_trained {
    struct sl_settings *settings; /* with the file */
    uint64_t serial;              /* differs between models */
};

/* ---- the session that stays open ---- */

static struct {
    uint64_t model, dataset; /* serial numbers */
    struct sl_session_sizes sizes;
} kept; /* of sl_kept_session */

void sl_model_rest(void)
{
    sl_kept_close();
}

/* The open session for the model and the dataset. One that has failed is closed. */
static enum sl_status find_session(struct sl_trained *model, const struct sl_dataset *dataset)
{
    struct sl_session *session = sl_kept_session();
    if (session != NULL && kept.model == model->serial && kept.dataset == dataset->serial && dataset->serial > 0 &&
        !sl_failure_seen(&session->run.failure)) {
        return SL_OK;
    }
    SL_FAIL_IF(sl_process_count() > 1, SL_ENOTSUP,
               "found %u processes of one run, expected one: use coop_sage --load FILE --predict", sl_process_count());
    SL_CHECK(sl_session_open(model->settings, dataset, &session));
    sl_kept_keep(session);
    kept.model = model->serial;
    kept.dataset = dataset->serial;
    kept.sizes = (struct sl_session_sizes){.size = sizeof kept.sizes};
    return sl_session_sizes(session, &kept.sizes);
}

/* ---- making ---- */

/* Takes the file over, also on failure: *taken becomes NULL. */
static enum sl_status make(struct sl_model_file **taken, const char *path, struct sl_trained **out)
{
    struct sl_model_file *file = *taken;
    const char *program = sl_text_or(sl_model_file_text(file, SL_KEY_PROGRAM), "");
    struct sl_trained *model = NULL;
    enum sl_status st;
    *taken = NULL;
    file->stays = true;
    SL_TRY(st, sl_alloc_zero(1, sizeof *model, "a model", &model), free_file);
    if (strcmp(program, "pipe_gnn") == 0) {
        SL_TRY(st, sl_settings_new_pipe(&model->settings), free_file);
    } else {
        SL_TRY(st, sl_settings_new(&model->settings), free_file);
    }
    SL_TRY(st, sl_settings_adopt_file(model->settings, file), undo);
    SL_TRY(st, sl_settings_set(model->settings, "load", path), undo);
    SL_TRY(st, sl_settings_set(model->settings, "epochs", "0"), undo);
    model->serial = sl_dataset_serial();
    *out = model;
    return SL_OK;
free_file:
    sl_model_file_free(file);
    sl_free(file);
undo:
    sl_model_delete(model);
    return st;
}

enum sl_status sl_model_load(const char *path, struct sl_trained **out)
{
    SL_IN_C_LOCALE;
    SL_FREED struct sl_model_file *file = NULL;
    *out = NULL;
    SL_CHECK(sl_alloc_zero(1, sizeof *file, "a model's file", &file));
    SL_CHECK(sl_model_file_read(path, file));
    sl_model_file_warn(file);
    return make(&file, path, out);
}

/* The model's file in memory. */
static enum sl_status write_to_memory(struct sl_session *session, char **bytes, size_t *n)
{
    char *text = NULL;
    struct sl_writer writer = {.stream = open_memstream(&text, n)};
    SL_FAIL_IF(writer.stream == NULL, SL_ENOMEM, "no memory for a model's file");
    enum sl_status st = sl_outputs_put_model(session, &writer);
    if (fclose(writer.stream) != 0 && st == SL_OK) {
        st = sl_fail(SL_ENOMEM, "no memory for a model's file");
    }
    if (st == SL_OK) {
        st = sl_alloc(*n + 1, 1, "a model's file", bytes);
    }
    if (st == SL_OK) {
        memcpy(*bytes, text, *n);
    }
    free(text);
    return st;
}

enum sl_status sl_session_model(struct sl_session *session, struct sl_trained **out)
{
    SL_IN_C_LOCALE;
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(session);
    SL_OWNED(sl_tensors_free) struct sl_tensors tensors = {0};
    SL_FREED struct sl_model_file *file = NULL;
    SL_FREED char *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    SL_CHECK(sl_session_current_model(session));
    SL_CHECK(write_to_memory(session, &bytes, &n));
    SL_CHECK(sl_safetensors_parse(session->name, bytes, n, &tensors));
    bytes = NULL;
    SL_CHECK(sl_alloc_zero(1, sizeof *file, "a model's file", &file));
    SL_CHECK(sl_model_file_parse(&tensors, file));
    return make(&file, session->name, out);
}

enum sl_status sl_model_save(const struct sl_trained *model, const char *path)
{
    SL_IN_C_LOCALE;
    const struct sl_tensors *file = &model->settings->model_file->tensors;
    return sl_safetensors_write(path, file->tensors, file->n, file->metadata, file->n_metadata);
}

void sl_model_delete(struct sl_trained *model)
{
    if (model == NULL) {
        return;
    }
    if (sl_kept_session() != NULL && kept.model == model->serial) {
        sl_kept_close();
    }
    sl_settings_delete(model->settings);
    sl_free(model);
}

/* ---- description ---- */

enum sl_status sl_model_describe(const struct sl_trained *model, struct sl_model_facts *out)
{
    SL_IN_C_LOCALE;
    const struct sl_settings *s = model->settings;
    const struct sl_model_file *file = s->model_file;
    uint32_t n_outputs = file->n_outputs;
    if (n_outputs == 0 && !sl_settings_trains_links(model->settings) && sl_settings_check(model->settings) == SL_OK) {
        n_outputs = sl_model_outputs_in(s, &file->tensors); /* an older file */
    }
    const struct sl_model_facts all = {.size = out->size,
                                       .model = sl_model_kind(s->model)->name,
                                       .objective = sl_model_file_text(file, SL_KEY_OBJECTIVE),
                                       .dataset = sl_model_file_text(file, "dataset"),
                                       .version = file->version,
                                       .n_features = file->n_features,
                                       .n_outputs = n_outputs,
                                       .n_embeddings = sl_settings_embeds(s) ? s->hidden : 0,
                                       .class_names = sl_model_file_text(file, SL_KEY_CLASSES),
                                       .relation_names = sl_model_file_text(file, SL_KEY_RELATIONS)};
    SL_FAIL_IF(out->size == 0, SL_EINVAL,
               "sl_model_describe: found a size of 0, expected sizeof(struct sl_model_facts)");
    memcpy(out, &all, sl_min_u64(out->size, sizeof all));
    return SL_OK;
}

enum sl_status sl_model_set(struct sl_trained *model, const char *name, const char *value)
{
    SL_IN_C_LOCALE;
    const char *in_file = sl_model_file_option(model->settings->model_file, name);
    const struct sl_option *option = sl_option_find(sl_settings_table_of(model->settings), name);
    /* An older file does not say its options. */
    const bool says = in_file != NULL || model->settings->model_file->version > 0;
    const bool fixed = option != NULL && (((option->of_model || strcmp(name, "objective") == 0) && says) ||
                                          strcmp(name, "load") == 0 || strcmp(name, "epochs") == 0);
    if (fixed && (in_file == NULL || value == NULL || strcmp(in_file, value) != 0)) {
        char found[SL_QUOTED_BYTES], expected[SL_QUOTED_BYTES];
        return sl_fail(SL_EINVAL, "%s: found %s, expected %s, as the model was trained", name,
                       sl_text_quoted(sl_text_or(value, ""), found), sl_text_quoted(sl_text_or(in_file, ""), expected));
    }
    const bool of_graph = option != NULL && ((option->of_data && !option->of_model && strcmp(name, "cache") != 0) ||
                                             strcmp(name, "score-fanout") == 0); /* answers are exact */
    SL_FAIL_IF(option != NULL && !fixed && (option->written || of_graph), SL_EINVAL,
               "%s: found '%.200s', expected options of the answers, such as cpus and pes", name,
               sl_text_or(value, ""));
    if (sl_kept_session() != NULL && kept.model == model->serial) {
        sl_kept_close();
    }
    return sl_settings_set(model->settings, name, value);
}

enum sl_status sl_model_open_dataset(const struct sl_trained *model, struct sl_settings *settings,
                                     struct sl_dataset **out)
{
    SL_IN_C_LOCALE;
    struct sl_model_file *file = model->settings->model_file;
    enum sl_status st = SL_OK;
    *out = NULL;
    SL_FAIL_IF(settings->load != NULL || settings->model_file != NULL, SL_EINVAL,
               "--load '%.300s' cannot be used with a loaded model", sl_text_or(settings->load, ""));
    SL_CHECK(sl_settings_set(settings, "load", file->tensors.path));
    settings->model_file = file; /* lent */
    st = sl_dataset_open(settings, out);
    settings->model_file = NULL;
    sl_free(settings->load);
    settings->load = NULL;
    return st;
}

enum sl_status sl_model_get(const struct sl_trained *model, const char *name, char *text, size_t bytes)
{
    SL_IN_C_LOCALE;
    return sl_settings_get(model->settings, name, text, bytes);
}

/* ---- answers ---- */

#define NO_SCORES                                                                                                      \
    "predict: found a model of links, expected one of vertices; score pairs of vertices, or take embeddings"
#define NO_EMBEDDINGS "embeddings: found a model of one layer, expected at least 2 layers"

static enum sl_status check_vertices(uint32_t n, const uint32_t *vertices)
{
    const uint32_t n_all = kept.sizes.n_vertices;
    SL_FAIL_IF(vertices == NULL && n != n_all, SL_EINVAL,
               "found %u rows, expected %u, one for each vertex of the dataset", n, n_all);
    for (uint32_t i = 0; i < n && vertices != NULL; i++) {
        SL_FAIL_IF(vertices[i] >= n_all, SL_EINVAL, "vertices[%u] is %u; expected an id below %u", i, vertices[i],
                   n_all);
    }
    return SL_OK;
}

/* Rows of outputs or of embeddings. */
static enum sl_status take_rows(bool embeddings, uint32_t n, const uint32_t *vertices, float *out)
{
    SL_CHECK(check_vertices(n, vertices));
    if (vertices != NULL) {
        return sl_session_rows(sl_kept_session(), embeddings, n, vertices,
                               embeddings ? kept.sizes.n_hidden : kept.sizes.n_outputs, out);
    }
    return sl_session_evaluate(sl_kept_session(), NULL, embeddings ? NULL : out, embeddings ? out : NULL);
}

enum sl_status sl_model_predict(struct sl_trained *model, const struct sl_dataset *dataset, uint32_t n,
                                const uint32_t *vertices, float *logits)
{
    SL_IN_C_LOCALE;
    SL_FAIL_IF(sl_settings_trains_links(model->settings), SL_EINVAL, NO_SCORES);
    SL_CHECK(find_session(model, dataset));
    return take_rows(false, n, vertices, logits);
}

enum sl_status sl_model_embed(struct sl_trained *model, const struct sl_dataset *dataset, uint32_t n,
                              const uint32_t *vertices, float *embeddings)
{
    SL_IN_C_LOCALE;
    SL_CHECK(find_session(model, dataset));
    SL_FAIL_IF(kept.sizes.n_hidden == 0, SL_EINVAL, NO_EMBEDDINGS);
    return take_rows(true, n, vertices, embeddings);
}

enum sl_status sl_model_predict_new(struct sl_trained *model, const struct sl_dataset *dataset,
                                    const struct sl_arrays *added, float *logits, float *embeddings)
{
    SL_IN_C_LOCALE;
    SL_FAIL_IF(logits != NULL && sl_settings_trains_links(model->settings), SL_EINVAL, NO_SCORES);
    SL_CHECK(find_session(model, dataset));
    SL_FAIL_IF(embeddings != NULL && kept.sizes.n_hidden == 0, SL_EINVAL, NO_EMBEDDINGS);
    return sl_session_rows_of_new(sl_kept_session(), dataset, added, logits, embeddings);
}

enum sl_status sl_model_evaluate(struct sl_trained *model, const struct sl_dataset *dataset, struct sl_scores *scores)
{
    SL_IN_C_LOCALE;
    SL_CHECK(find_session(model, dataset));
    return sl_session_evaluate(sl_kept_session(), scores, NULL, NULL);
}

enum sl_status sl_model_score_links(struct sl_trained *model, const struct sl_dataset *dataset,
                                    const struct sl_array_links *pairs, float *scores)
{
    SL_IN_C_LOCALE;
    SL_FAIL_IF(!sl_settings_trains_links(model->settings), SL_EINVAL,
               "pairs: found a model of vertices, expected one of links (--objective link)");
    SL_CHECK(find_session(model, dataset));
    return sl_session_score_links(sl_kept_session(), pairs, scores);
}
