/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of the model, predictions and embeddings. */

#include <string.h>

#include "codelets/ends/pairs.h"
#include "data/links.h"
#include "runtime/files/rowsout.h"
#include "runtime/full/evaluate.h"
#include "runtime/machine/watchdog.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/collect.h"
#include "runtime/plan/model_file.h"
#include "runtime/train/claims.h"
#include "runtime/train/session.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

enum sl_status sl_outputs_load_model(struct sl_session *t)
{
    struct sl_model_file *file = t->settings->model_file;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_model_acquire(&t->model, STARPU_RW));
    st = sl_model_set_tensors(&t->model, false, &file->tensors);
    sl_model_release(&t->model);
    if (!file->stays) {
        sl_model_file_drop(file);
    }
    return st;
}

#define HEADER_BYTES 4096 /* of a file */

enum sl_status sl_outputs_check_room(const struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    const uint64_t n = t->shards.n_vertices;
    uint64_t n_scores = n * t->shards.n_outputs;
    if (s->pairs != NULL) {
        n_scores = t->pairs.n;
    } else if (t->listed.n > 0) {
        n_scores = (uint64_t)t->listed.n * t->shards.n_outputs;
    }
    const uint64_t digits =
        sl_settings_predicts_csv(s) ? 4 : 1; /* a number in text takes up to as many times the bytes */
    const struct sl_claims_file files[] = {
        {"save", s->save, HEADER_BYTES + sl_model_trained_bytes(&t->model)},
        {"predict", s->predict, HEADER_BYTES + digits * sizeof(float) * n_scores},
        {"embed", s->embed, HEADER_BYTES + sizeof(float) * n * s->hidden},
    };
    return sl_claims_check_room(files, sizeof files / sizeof *files);
}

enum sl_status sl_outputs_settle(struct sl_session *t)
{
    if (t->best == NULL) {
        SL_CHECK(sl_state_average(t));
    } else {
        SL_CHECK(sl_model_acquire(&t->model, STARPU_RW));
        sl_model_write(&t->model, t->best);
        sl_model_release(&t->model);
    }
    t->settled = true;
    return SL_OK;
}

static enum sl_status make_labels(const struct sl_session *t, struct sl_labels *out)
{
    SL_CHECK(sl_labels_add(out, "format", "pt"));
    SL_CHECK(sl_labels_add(out, "dataset", t->name));
    if (t->synthetic) {
        SL_CHECK(sl_labels_add(out, "synthetic", "yes"));
    }
    return sl_labels_add_model(out, t, true);
}

enum sl_status sl_outputs_put_model(struct sl_session *t, struct sl_writer *writer)
{
    SL_FREED struct sl_tensor *tensors = NULL;
    SL_OWNED(sl_labels_free) struct sl_labels labels = {0};
    uint32_t n = 0;
    SL_CHECK(make_labels(t, &labels));
    SL_CHECK(sl_alloc(SL_MODEL_TENSORS, sizeof *tensors, "a model's tensors", &tensors));
    SL_CHECK(sl_model_acquire(&t->model, STARPU_R));
    enum sl_status st = sl_model_tensors(&t->model, (enum sl_tensors_for)t->settings->save_names, tensors, &n);
    sl_model_release(&t->model);
    if (st == SL_OK) {
        st = sl_safetensors_put(writer, tensors, n, labels.entry, labels.n);
    }
    sl_model_tensors_free(tensors, n);
    return st;
}

static enum sl_status save_model(struct sl_session *t)
{
    SL_OWNED(sl_writer_abort) struct sl_writer writer = {0};
    SL_CHECK(sl_writer_open(t->settings->save, &writer));
    SL_CHECK(sl_outputs_put_model(t, &writer));
    SL_CHECK(sl_writer_sync(&writer));
    return sl_writer_close(&writer);
}

#define WINDOW_BYTES ((size_t)4 << 20) /* of other ranks' rows at rank 0 at a time */

/* Transfer of rows to a file, one window of consecutive vertices at a time. */
struct window {
    const struct sl_session *t;
    uint32_t n_columns;
    const sl_real *rows; /* of the vertices evaluated by this rank */
    uint32_t n_rows;     /* of a window */
    uint32_t end;        /* of the current window */
    sl_real *mine, *all; /* rows of this rank; at rank 0 of all ranks, rank by rank */
    size_t *next;        /* [R]: the next row in `all` of each rank */
};

static uint32_t rank_of(const struct sl_session *t, sl_vertex vertex)
{
    sl_vertex id = t->partition.new_ids[vertex];
    return sl_plan_scorer(&t->plan, sl_partition_owner(t->partition.first, t->plan.n_parts, id));
}

static enum sl_status turn_window(struct window *w)
{
    uint32_t begin = w->end;
    uint32_t left = w->t->shards.n_vertices - begin;
    size_t row_bytes = w->n_columns * sizeof *w->rows;
    size_t n_mine = 0;
    size_t first_row = 0;
    sl_vertex first = sl_evaluated_here(&w->t->shards).first;
    w->end += sl_min_u64(left, w->n_rows);
    memset(w->next, 0, sl_n_ranks() * sizeof *w->next);
    for (uint32_t v = begin; v < w->end; v++) {
        uint32_t rank = rank_of(w->t, v);
        w->next[rank]++;
        if (rank == sl_rank()) {
            const sl_real *row = w->rows + (size_t)(w->t->partition.new_ids[v] - first) * w->n_columns;
            memcpy(w->mine + n_mine++ * w->n_columns, row, row_bytes);
        }
    }
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        size_t n = w->next[r];
        w->next[r] = first_row;
        first_row += n;
    }
    sl_watchdog_suspend(false);
    enum sl_status st = sl_ranks_gather(w->mine, n_mine * row_bytes, w->all);
    sl_watchdog_suspend(true);
    return st;
}

/* The next row of the file, at rank 0. */
static const sl_real *row_of(void *context, uint64_t vertex)
{
    struct window *w = context;
    if (vertex == w->end && turn_window(w) != SL_OK) {
        return NULL;
    }
    return w->all + w->next[rank_of(w->t, (sl_vertex)vertex)]++ * w->n_columns;
}

/* The names of --predict FILE.csv. */
static struct sl_csvout form_of(const struct sl_session *t)
{
    const struct sl_objective_kind *kind = t->objective.kind;
    return (struct sl_csvout){.vertex_names = t->vertex_names,
                              .names = kind == &sl_regression ? NULL : t->facts.class_names,
                              .word = kind == &sl_classify ? "class" : kind->output,
                              .best = kind == &sl_classify,
                              .n_vertices = t->shards.n_vertices};
}

/* Rank 0 writes the rows of all vertices; each rank has some of the rows. csv NULL: as .npy. */
static enum sl_status write_rows(const struct sl_session *t, const char *path, const struct sl_csvout *csv,
                                 uint32_t n_columns, const sl_real *rows)
{
    const size_t n_rows = sl_min_u64(WINDOW_BYTES / (n_columns * sizeof *rows) + 1, t->shards.n_vertices);
    SL_FREED size_t *next = NULL;
    SL_FREED sl_real *mine = NULL;
    SL_FREED sl_real *all = NULL;
    SL_CHECK(sl_alloc(sl_n_ranks(), sizeof *next, "rows for a file", &next));
    SL_CHECK(sl_alloc(n_rows * n_columns, sizeof *mine, "rows for a file", &mine));
    SL_CHECK(sl_alloc(n_rows * n_columns, sizeof *all, "rows for a file", &all));
    struct window w = {t, n_columns, rows, (uint32_t)n_rows, 0, mine, all, next};
    if (sl_rank() == 0) {
        SL_CHECK(sl_rows_write(path, csv, t->shards.n_vertices, n_columns, row_of, &w));
    }
    while (sl_rank() != 0 && w.end < t->shards.n_vertices) {
        SL_CHECK(turn_window(&w));
    }
    return sl_ranks_barrier(); /* the disk may take long */
}

/* ---- scores of pairs ---- */

/* Pairs have the dataset's numbers of relations, and become those of the model. */
static enum sl_status place_pairs(struct sl_session *t)
{
    struct sl_link_split split = t->dataset->links;
    const bool moves = t->relation_of != NULL && t->pairs.relation != NULL;
    for (uint32_t i = 0; moves && i < t->pairs.n; i++) {
        uint32_t *relation = &t->pairs.relation[i];
        SL_FAIL_IF(*relation >= t->n_relations, SL_EFILE, "%s:%u: expected a relation below %u, found %u",
                   t->settings->pairs, i + 1, t->n_relations, *relation);
        *relation = t->relation_of[*relation];
    }
    return sl_links_place(&split, t->settings->pairs, &t->pairs);
}

enum sl_status sl_outputs_read_lists(struct sl_session *t)
{
    const char *listed = t->settings->predict_vertices;
    if (listed != NULL) {
        SL_CHECK(sl_ids_read_named(listed, t->dataset->vertex_names, t->dataset->graph.n_vertices, &t->listed));
        SL_FAIL_IF(t->listed.n == 0, SL_EFILE, "--predict-vertices %.300s: expected vertices, found none", listed);
    }
    if (t->settings->pairs == NULL) {
        return SL_OK;
    }
    SL_CHECK(
        sl_links_read_named(t->settings->pairs, t->dataset->vertex_names, t->dataset->graph.n_vertices, &t->pairs));
    SL_FAIL_IF(t->pairs.n == 0, SL_EFILE, "--pairs %.300s: expected pairs of vertices, found none", t->settings->pairs);
    if (sl_settings_predicts_csv(t->settings)) {
        SL_CHECK(sl_links_copy(&t->pairs, &t->asked));
    }
    return place_pairs(t);
}

static const sl_real *score_of(void *context, uint64_t pair)
{
    return (const sl_real *)context + pair;
}

static enum sl_status number_chosen(const struct sl_session *t, struct sl_chosen *chosen)
{
    const struct sl_evaluated here = sl_evaluated_here(&t->shards);
    return sl_chosen_number(chosen, t->shards.n_vertices, here.first, here.first + here.n);
}

enum sl_status sl_outputs_choose(const struct sl_session *t, uint32_t n_columns, uint32_t n, const sl_vertex *vertices,
                                 struct sl_chosen *out)
{
    SL_CHECK(sl_chosen_open(t->shards.n_vertices, n_columns, out));
    for (uint32_t i = 0; i < n; i++) {
        sl_chosen_add(out, t->partition.new_ids[vertices[i]]);
    }
    return number_chosen(t, out);
}

enum sl_status sl_outputs_choose_ends(const struct sl_session *t, const struct sl_links *pairs, struct sl_chosen *out)
{
    SL_CHECK(sl_chosen_open(t->shards.n_vertices, t->shards.n_outputs, out));
    for (uint32_t i = 0; i < pairs->n; i++) {
        sl_chosen_add(out, t->partition.new_ids[pairs->from[i]]);
        sl_chosen_add(out, t->partition.new_ids[pairs->to[i]]);
    }
    return number_chosen(t, out);
}

static enum sl_status gather_chosen(struct sl_chosen *chosen)
{
    sl_watchdog_suspend(false);
    enum sl_status st = sl_chosen_gather(chosen);
    sl_watchdog_suspend(true);
    return st;
}

enum sl_status sl_outputs_score_pairs(struct sl_session *t, const struct sl_links *pairs, struct sl_chosen *ends,
                                      sl_real *out)
{
    const sl_vertex *new_ids = t->partition.new_ids;
    double scores[SL_CHOSEN_TILE];
    SL_CHECK(gather_chosen(ends));
    if (sl_rank() > 0) {
        return SL_OK;
    }
    SL_CHECK(sl_model_acquire(&t->model, STARPU_R));
    const struct sl_decoder decoder = sl_model_decoder(&t->model);
    enum sl_status st = SL_OK;
    for (uint32_t i = 0, n = 0; st == SL_OK && i < pairs->n; i += n) {
        st = sl_chosen_score(ends, &decoder, pairs, new_ids, i, &n, scores);
        for (uint32_t k = 0; st == SL_OK && k < n; k++) {
            out[i + k] = (sl_real)scores[k];
        }
    }
    sl_model_release(&t->model);
    return st;
}

/* Rank 0 writes the scores. */
static enum sl_status write_pairs(struct sl_session *t, struct sl_chosen *ends)
{
    const struct sl_csvout form = {.vertex_names = t->vertex_names,
                                   .from = t->asked.from,
                                   .to = t->asked.to,
                                   .relation = t->asked.relation,
                                   .n_vertices = t->shards.n_vertices};
    SL_FREED sl_real *scores = NULL;
    SL_CHECK(sl_alloc(sl_rank() == 0 ? t->pairs.n : 0, sizeof *scores, "scores of pairs", &scores));
    SL_CHECK(sl_outputs_score_pairs(t, &t->pairs, ends, scores));
    if (sl_rank() == 0) {
        const struct sl_csvout *csv = sl_settings_predicts_csv(t->settings) ? &form : NULL;
        SL_CHECK(sl_rows_write(t->settings->predict, csv, t->pairs.n, 1, score_of, scores));
    }
    return sl_ranks_barrier(); /* the disk may take long */
}

struct listed_rows {
    const struct sl_session *t;
    const struct sl_chosen *chosen;
};

static const sl_real *listed_row(void *context, uint64_t i)
{
    const struct listed_rows *rows = context;
    const sl_vertex id = rows->t->partition.new_ids[rows->t->listed.ids[i]];
    return rows->chosen->rows + (size_t)rows->chosen->row_of[id] * rows->chosen->n_columns;
}

/* Rank 0 writes the outputs of --predict-vertices. */
static enum sl_status write_listed(const struct sl_session *t, struct sl_chosen *chosen)
{
    struct sl_csvout form = form_of(t);
    struct listed_rows rows = {t, chosen};
    form.vertices = t->listed.ids;
    SL_CHECK(gather_chosen(chosen));
    if (sl_rank() == 0) {
        SL_CHECK(sl_rows_write(t->settings->predict, sl_settings_predicts_csv(t->settings) ? &form : NULL, t->listed.n,
                               chosen->n_columns, listed_row, &rows));
    }
    return sl_ranks_barrier(); /* the disk may take long */
}

/* Rank 0's options decide. */
struct wanted_files {
    bool predict, embed;
};

static enum sl_status write_inference(struct sl_session *t, struct wanted_files files)
{
    const struct sl_settings *s = t->settings;
    const size_t n = sl_evaluated_here(&t->shards).n;
    const uint32_t n_outputs = t->shards.n_outputs;
    const struct sl_csvout form = form_of(t);
    const bool links = sl_settings_trains_links(s);
    SL_FREED sl_real *outputs = NULL;
    SL_FREED sl_real *hidden = NULL;
    SL_OWNED(sl_chosen_close) struct sl_chosen chosen = {0};
    struct sl_inference wanted = {0};
    if (files.predict && links) {
        SL_CHECK(sl_outputs_choose_ends(t, &t->pairs, &chosen));
        wanted.chosen_scores = &chosen;
    } else if (files.predict && t->listed.n > 0) {
        SL_CHECK(sl_outputs_choose(t, n_outputs, t->listed.n, t->listed.ids, &chosen));
        wanted.chosen_scores = &chosen;
    } else if (files.predict) {
        SL_CHECK(sl_alloc(n * n_outputs, sizeof *outputs, "outputs", &outputs));
    }
    if (files.embed) {
        SL_CHECK(sl_alloc(n * s->hidden, sizeof *hidden, "embeddings", &hidden));
    }
    wanted.scores = outputs;
    wanted.hidden = hidden;
    sl_watchdog_suspend(false);
    SL_CHECK(sl_evaluate(&t->run, &t->shards, &t->model, &wanted, NULL));
    sl_watchdog_suspend(true);
    if (files.predict && links) {
        SL_CHECK(write_pairs(t, &chosen));
    } else if (files.predict && t->listed.n > 0) {
        SL_CHECK(write_listed(t, &chosen));
    } else if (files.predict) {
        SL_CHECK(write_rows(t, s->predict, sl_settings_predicts_csv(s) ? &form : NULL, n_outputs, outputs));
    }
    if (files.embed) {
        SL_CHECK(write_rows(t, s->embed, NULL, s->hidden, hidden));
    }
    return SL_OK;
}

enum sl_status sl_outputs_write(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    struct wanted_files files = {s->predict != NULL, s->embed != NULL};
    if (s->save != NULL && sl_rank() == 0) {
        SL_CHECK(save_model(t));
    }
    SL_CHECK(sl_ranks_broadcast(&files, sizeof files));
    if (files.predict || files.embed) {
        return write_inference(t, files);
    }
    return SL_OK;
}
