/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Results for programs: sizes, scores and weights of a session, copied to the program's arrays. */
#include <string.h>

#include "runtime/full/evaluate.h"
#include "runtime/machine/pool.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/collect.h"
#include "runtime/sync/replicas.h"
#include "runtime/train/session.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

enum sl_status sl_session_sizes(const struct sl_session *t, struct sl_session_sizes *out)
{
    SL_IN_C_LOCALE;
    size_t size = out->size;
    struct sl_session_sizes all = {.size = size,
                                   .n_vertices = t->shards.n_vertices,
                                   .n_features = t->shards.n_features,
                                   .n_outputs = t->shards.n_outputs,
                                   .n_edges = t->partition.graph.n_edges,
                                   .n_pes = t->settings->pes,
                                   .n_parts = t->plan.n_parts,
                                   .n_per_epoch = t->plan.n_per_epoch,
                                   .n_hidden = sl_settings_embeds(t->settings) ? t->settings->hidden : 0,
                                   .memory_bytes = t->memory_bytes};
    all.n_weights = sl_model_count_tensors(&t->model, (enum sl_tensors_for)t->settings->save_names);
    SL_FAIL_IF(size == 0, SL_EINVAL, "sl_session_sizes: found a size of 0, expected sizeof(struct sl_session_sizes)");
    memcpy(out, &all, sl_min_u64(size, sizeof all));
    return SL_OK;
}

enum sl_status sl_session_current_model(struct sl_session *t)
{
    if (!t->settled) {
        return sl_state_average(t);
    }
    return SL_OK;
}

/* ---- inference ---- */

/* Copy rows from the order of renumbered ids to the order of the dataset's ids. */
static void copy_rows(const struct sl_session *t, const sl_real *from, uint32_t n_columns, float *out)
{
    for (uint32_t v = 0; v < t->shards.n_vertices; v++) {
        const sl_real *row = from + (size_t)t->partition.new_ids[v] * n_columns;
        for (uint32_t c = 0; c < n_columns; c++) {
            out[(size_t)v * n_columns + c] = (float)row[c];
        }
    }
}

static enum sl_status check_alone(void)
{
    SL_FAIL_IF(sl_n_ranks() != 1, SL_ENOTSUP,
               "found %u processes of one run: its model is seen in files only "
               "(settings save, predict, embed)",
               sl_n_ranks());
    return SL_OK;
}

enum sl_status sl_session_infer(struct sl_session *t, const struct sl_shards *shards, const struct sl_inference *wanted,
                                struct sl_scores *scores_out)
{
    sl_pool_trim();
    SL_CHECK(sl_session_current_model(t));
    enum sl_status st = sl_evaluate(&t->run, shards, &t->model, wanted, scores_out);
    starpu_task_wait_for_all(); /* also after a failure: tasks may read the shards */
    SL_CHECK(st);
    sl_pool_trim();
    sl_run_log_reset(&t->run);
    return SL_OK;
}

enum sl_status sl_session_evaluate(struct sl_session *t, struct sl_scores *scores, float *logits, float *embeddings)
{
    SL_IN_C_LOCALE;
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    SL_FREED sl_real *outputs = NULL;
    SL_FREED sl_real *hidden = NULL;
    struct sl_scores found;
    SL_CHECK(check_alone());
    SL_CHECK(sl_session_sizes(t, &sizes));
    if (logits != NULL) {
        SL_CHECK(sl_alloc((size_t)sizes.n_vertices * sizes.n_outputs, sizeof *outputs, "logits", &outputs));
    }
    if (embeddings != NULL && sizes.n_hidden > 0) {
        SL_CHECK(sl_alloc((size_t)sizes.n_vertices * sizes.n_hidden, sizeof *hidden, "embeddings", &hidden));
    }
    SL_CHECK(sl_session_infer(t, &t->shards, &(struct sl_inference){.scores = outputs, .hidden = hidden}, &found));
    if (outputs != NULL) {
        copy_rows(t, outputs, sizes.n_outputs, logits);
    }
    if (hidden != NULL) {
        copy_rows(t, hidden, sizes.n_hidden, embeddings);
    }
    if (scores != NULL) {
        *scores = found;
    }
    return SL_OK;
}

enum sl_status sl_session_rows(struct sl_session *t, bool hidden, uint32_t n, const sl_vertex *vertices,
                               uint32_t n_columns, float *out)
{
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    SL_OWNED(sl_chosen_close) struct sl_chosen chosen = {0};
    struct sl_inference wanted = {0};
    SL_CHECK(check_alone());
    SL_CHECK(sl_outputs_choose(t, n_columns, n, vertices, &chosen));
    if (hidden) {
        wanted.chosen_hidden = &chosen;
    } else {
        wanted.chosen_scores = &chosen;
    }
    SL_CHECK(sl_session_infer(t, &t->shards, &wanted, NULL));
    for (uint32_t i = 0; i < n; i++) {
        const sl_real *row = chosen.rows + (size_t)chosen.row_of[t->partition.new_ids[vertices[i]]] * n_columns;
        for (uint32_t c = 0; c < n_columns; c++) {
            out[(size_t)i * n_columns + c] = (float)row[c];
        }
    }
    return SL_OK;
}

/* ---- scores of pairs ---- */

static enum sl_status check_pairs(const struct sl_session *t, const struct sl_array_links *pairs)
{
    const uint32_t n_vertices = t->shards.n_vertices;
    const uint32_t n_relations = t->relation_of != NULL ? t->n_relations : t->shards.n_link_relations;
    SL_FAIL_IF(pairs->n > 0 && (pairs->from == NULL || pairs->to == NULL), SL_EINVAL,
               "pairs: %s is NULL; expected an array", pairs->from == NULL ? "from" : "to");
    SL_FAIL_IF(pairs->n > 0 && (pairs->relations != NULL) != (n_relations > 0), SL_EINVAL,
               "pairs: found them with%s relations; expected as the links of the model, with%s",
               pairs->relations != NULL ? "" : "out", n_relations > 0 ? "" : "out");
    for (uint32_t i = 0; i < pairs->n; i++) {
        const bool is_from = pairs->from[i] >= n_vertices;
        SL_FAIL_IF(is_from || pairs->to[i] >= n_vertices, SL_EINVAL, "pairs: %s[%u] is %u; expected an id below %u",
                   is_from ? "from" : "to", i, is_from ? pairs->from[i] : pairs->to[i], n_vertices);
        SL_FAIL_IF(n_relations > 0 && pairs->relations[i] >= n_relations, SL_EINVAL,
                   "pairs: relations[%u] is %u; expected a relation below %u", i, pairs->relations[i], n_relations);
    }
    return SL_OK;
}

/* The pairs in the terms of the model. The relations are a copy (sl_free), or NULL. */
static enum sl_status take_pairs(const struct sl_session *t, const struct sl_array_links *pairs, struct sl_links *out)
{
    *out = (struct sl_links){
        .from = (sl_vertex *)(uintptr_t)pairs->from, .to = (sl_vertex *)(uintptr_t)pairs->to, .n = pairs->n};
    if (pairs->relations != NULL) {
        SL_CHECK(sl_alloc(pairs->n, sizeof *out->relation, "relations of pairs", &out->relation));
        for (uint32_t i = 0; i < pairs->n; i++) {
            const uint32_t relation = pairs->relations[i];
            out->relation[i] = t->relation_of != NULL ? t->relation_of[relation] : relation;
        }
    }
    return SL_OK;
}

enum sl_status sl_session_score_links(struct sl_session *t, const struct sl_array_links *pairs, float *scores)
{
    SL_IN_C_LOCALE;
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    SL_OWNED(sl_chosen_close) struct sl_chosen ends = {0};
    SL_FREED sl_real *values = NULL;
    SL_FREED uint32_t *relations = NULL;
    struct sl_links links;
    SL_CHECK(check_alone());
    SL_FAIL_IF(!sl_settings_trains_links(t->settings), SL_EINVAL, "pairs: found the objective %s, expected link",
               t->objective.kind->name);
    SL_CHECK(check_pairs(t, pairs));
    SL_CHECK(take_pairs(t, pairs, &links));
    relations = links.relation;
    SL_CHECK(sl_outputs_choose_ends(t, &links, &ends));
    SL_CHECK(sl_session_infer(t, &t->shards, &(struct sl_inference){.chosen_scores = &ends}, NULL));
    SL_CHECK(sl_alloc(pairs->n, sizeof *values, "scores of pairs", &values));
    SL_CHECK(sl_outputs_score_pairs(t, &links, &ends, values));
    for (uint32_t i = 0; i < pairs->n; i++) {
        scores[i] = (float)values[i];
    }
    return SL_OK;
}

/* ---- weights ---- */

static void copy_weight(const struct sl_tensor *tensor, struct sl_weight *out, float *values_out)
{
    const sl_real *values = tensor->data;
    *out = (struct sl_weight){.n_dims = tensor->n_dims};
    snprintf(out->name, sizeof out->name, "%s", tensor->name);
    memcpy(out->shape, tensor->shape, tensor->n_dims * sizeof *tensor->shape);
    for (size_t i = 0; values_out != NULL && i < sl_tensor_bytes(tensor) / sizeof *values; i++) {
        values_out[i] = (float)values[i];
    }
}

enum sl_status sl_session_weight(struct sl_session *t, uint32_t i, struct sl_weight *out, float *values)
{
    SL_IN_C_LOCALE;
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    SL_FREED struct sl_tensor *tensors = NULL;
    uint32_t n = 0;
    SL_CHECK(check_alone());
    SL_CHECK(sl_alloc(SL_MODEL_TENSORS, sizeof *tensors, "a model's tensors", &tensors));
    SL_CHECK(sl_session_current_model(t));
    SL_CHECK(sl_model_acquire(&t->model, STARPU_R));
    enum sl_status st = sl_model_tensors(&t->model, (enum sl_tensors_for)t->settings->save_names, tensors, &n);
    sl_model_release(&t->model);
    SL_CHECK(st);
    if (i < n) {
        copy_weight(&tensors[i], out, values);
    } else {
        st = sl_fail(SL_EINVAL, "found weight %u, expected a number below the model's %u", i, n);
    }
    sl_model_tensors_free(tensors, n);
    return st;
}

static enum sl_status read_weight(uint32_t i, const struct sl_weight *weight, const float *values,
                                  struct sl_tensor *out)
{
    *out = (struct sl_tensor){.dtype = SL_DTYPE_F32, .n_dims = weight->n_dims, .data = values};
    size_t length = strnlen(weight->name, sizeof weight->name);
    if (length == sizeof weight->name || weight->n_dims < 1 || weight->n_dims > SL_TENSOR_DIMENSIONS) {
        return sl_fail(SL_EINVAL,
                       "weight %u: found a name of %zu bytes and %u dimensions, expected up to %zu and 1 to %d", i,
                       length, weight->n_dims, sizeof weight->name - 1, SL_TENSOR_DIMENSIONS);
    }
    SL_FAIL_IF(values == NULL, SL_EINVAL, "weight %u, %s: found NULL, expected its values", i, weight->name);
    memcpy(out->name, weight->name, length + 1);
    memcpy(out->shape, weight->shape, weight->n_dims * sizeof *weight->shape);
    return SL_OK;
}

enum sl_status sl_session_set_weights(struct sl_session *t, uint32_t n, const struct sl_weight *weights,
                                      const float *const *values)
{
    SL_IN_C_LOCALE;
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    SL_FREED struct sl_tensor *tensors = NULL;
    SL_CHECK(check_alone());
    SL_FAIL_IF(t->settings->checkpoint != NULL, SL_EINVAL,
               "found weights and --checkpoint, expected one of them: a checkpoint has its own weights");
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *tensors, "a model's tensors", &tensors));
    for (uint32_t i = 0; i < n; i++) {
        SL_CHECK(read_weight(i, &weights[i], values[i], &tensors[i]));
    }
    const struct sl_tensors all = {.path = (char[]){"weights"}, .tensors = tensors, .n = n};
    SL_CHECK(sl_model_acquire(&t->model, STARPU_RW));
    enum sl_status st = sl_model_set_tensors(&t->model, false, &all);
    sl_model_release(&t->model);
    if (st == SL_OK && t->n_replicas > 1) {
        st = sl_replicas_spread(t->replica, t->n_replicas, &t->model);
    }
    return st;
}
