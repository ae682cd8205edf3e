/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The block source (runtime/model/pass.h) of evaluation: all in-edges of all parts, or of the needed vertices, without
 * sampling. A part is a PE, cut into chunks. The objective scores the outputs. */
#include "runtime/full/evaluate.h"

#include <string.h>

#include "codelets/rows/gather.h"
#include "runtime/full/halo_lists.h"
#include "runtime/full/needed.h"
#include "runtime/machine/pool.h"
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/model.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

struct sl_split sl_evaluate_split(const struct sl_run *run, uint32_t n_parts, uint32_t n_rows)
{
    bool by_gpus = run->gpus_first && !run->evaluate_on_cpus;
    return sl_split_rows(n_rows, SL_MAX_FULL_CHUNKS / n_parts, by_gpus ? SL_EVALUATE_GPU_SHIFT : SL_EVALUATE_SHIFT);
}

uint32_t sl_full_slices(const struct sl_layer *layer)
{
    uint32_t n = (layer->evaluation.travels + SL_FULL_COLUMNS - 1) / SL_FULL_COLUMNS;
    bool whole = layer->kind->sum != NULL && layer->kind->sum->whole_rows;
    return whole ? 1 : sl_min_u32(n, SL_HALO_SLICES);
}

/* ---- the block source ---- */

/* A forward pass. */
struct full {
    /* The vertices to evaluate; the shards of the pass are theirs. NULL: all. */
    const struct sl_needed *needed;
    /* By part: rows of the feature table, whose numbers are not those of the pass. NULL: the first layer reads the rows
     * of the pass. */
    struct sl_rows *table;
    /* A PE per part. This rank evaluates PEs first_pe .. end_pe - 1, remote ranks the rest (shards->halo). */
    struct sl_plan plan;
    /* By part, for remote parts: the received rows of the layer in hand, in the columns in hand. */
    struct sl_rows *received;
    struct sl_pass pass;
    struct sl_pass_group group;
};

static struct sl_ids_of ids(const struct sl_pass *pass, uint32_t q)
{
    return (struct sl_ids_of){pass->shards->ids, pass->shards->part[q].first};
}

static struct full *full_of(const struct sl_layer_pass *lp)
{
    return lp->pass->owner;
}

static uint32_t n_slices(const struct sl_layer_pass *lp)
{
    return lp->pass->shards->halo == NULL ? 1 : sl_full_slices(lp->layer);
}

static uint32_t columns(const struct sl_layer_pass *lp)
{
    uint32_t n = n_slices(lp);
    return (sl_layer_pass_order(lp)->travels + n - 1) / n;
}

/* Own rows are read in place. Remote rows arrive as messages. */
static enum sl_status send(const struct sl_layer_pass *lp)
{
    const struct sl_halo *halo = lp->pass->shards->halo;
    const struct sl_halo_layer layer = {
        .number = lp->i, .width = columns(lp), .n_slices = n_slices(lp), .dtype = lp->pass->shards->row_dtype};
    uint32_t slice = lp->columns.first / layer.width;
    if (halo != NULL) {
        for (uint32_t q = 0; q < halo->n_parts; q++) {
            struct sl_task_args head = sl_layer_pass_head(lp, q);
            if (!sl_plan_here(lp->pass->plan, q)) {
                SL_CHECK(sl_halo_receive(halo, &layer, q, slice, &full_of(lp)->received[q]));
            } else if (slice == 0) {
                SL_CHECK(sl_halo_send(halo, &head, &layer, q, sl_layer_pass_travels(lp, q)));
            }
        }
    }
    return SL_OK;
}

static void arrived(const struct sl_layer_pass *lp)
{
    sl_project_done(lp);
}

static bool reads_table(const struct sl_layer_pass *lp)
{
    return lp->i == 0 && full_of(lp)->table != NULL;
}

/* The lists of the needed vertices; NULL: all vertices are evaluated. */
static const struct sl_needed_lists *needed_lists(const struct sl_layer_pass *lp)
{
    const struct sl_model *model = lp->pass->model;
    const struct sl_needed *needed = full_of(lp)->needed;
    const uint32_t last = model->layer[model->n_vertex_layers - 1].level;
    return needed != NULL ? sl_needed_lists_of(needed, lp->level - last) : NULL;
}

/* The in-neighbour lists of the rows of part q. */
static const struct sl_part_handles *lists_of(const struct sl_layer_pass *lp, uint32_t q)
{
    const struct sl_needed_lists *lists = needed_lists(lp);
    return lists != NULL ? &lists->part[q] : &lp->pass->shards->part[q].graph;
}

/* The in-edges of a part. With several ranks, sources are the halo's numbers. */
static struct sl_full_sources sources_of(const struct sl_layer_pass *lp, uint32_t q)
{
    const struct sl_shards *shards = lp->pass->shards;
    const struct sl_part_handles *lists = lists_of(lp, q);
    const struct sl_halo *halo = shards->halo;
    struct sl_full_sources edges = {.offsets = lists->offsets,
                                    .sources = lists->sources,
                                    .first = lists->first,
                                    .n_parts = shards->n_parts,
                                    .first_id = shards->part[q].first,
                                    .edge_weights = shards->weighs_edges ? lists->weights : NULL,
                                    .edge_relations = lists->relations,
                                    .edge_rows = lists->rows};
    if (halo != NULL) {
        edges.first = halo->first_handle;
        edges.first_id = halo->first[q];
    }
    return edges;
}

/* Number of in-edges of chunk c. */
static uint64_t n_edges_of(const struct sl_layer_pass *lp, uint32_t q, uint32_t c)
{
    const struct sl_shards *shards = lp->pass->shards;
    const struct sl_needed_lists *lists = needed_lists(lp);
    const struct sl_graph *graph = lists != NULL ? &lists->graph : &shards->partition->graph;
    const uint64_t *offsets = graph->offsets + shards->part[q].first;
    const uint32_t row = sl_layer_pass_chunk_row(lp, q, lp->level, c);
    return offsets[row + sl_split_size(&lp->pass->pe[q].split[lp->level], c)] - offsets[row];
}

static enum sl_status sum(const struct sl_layer_pass *lp, uint32_t q, uint32_t c, int beta, starpu_data_handle_t out)
{
    const struct sl_shards *shards = lp->pass->shards;
    uint32_t row = sl_layer_pass_chunk_row(lp, q, lp->level, c);
    struct sl_rows rows[SL_MAX_PARTS];
    uint32_t first[SL_MAX_PARTS];
    struct sl_vertex_factors weights = {.factors = shards->halo != NULL ? shards->halo->factors : shards->factors,
                                        .scale = lp->layer->scale};
    struct sl_full_sources edges = sources_of(lp, q);
    if (reads_table(lp)) {
        weights.factors = full_of(lp)->needed->all->factors;
        weights.frontier = full_of(lp)->needed->ids[q];
    }
    edges.rows = rows;
    edges.columns = (struct sl_full_columns){lp->columns.first, lp->columns.n, first};
    edges.n_edges = n_edges_of(lp, q, c);
    edges.weights = lp->layer->kind->sum->factor != NULL ? &weights : NULL;
    for (uint32_t p = 0; p < shards->n_parts; p++) {
        if (sl_plan_here(lp->pass->plan, p)) {
            rows[p] = reads_table(lp) ? full_of(lp)->table[p] : *sl_layer_pass_travels(lp, p);
            rows[p].n_columns = sl_layer_pass_order(lp)->travels;
            first[p] = lp->columns.first;
        } else {
            rows[p] = full_of(lp)->received[p];
            rows[p].n_columns = columns(lp);
            first[p] = 0;
        }
    }
    return lp->layer->kind->sum->full(lp, q, row, &edges, beta, out);
}

static enum sl_status sum_edges(const struct sl_layer_pass *lp, uint32_t q, uint32_t c, starpu_data_handle_t out)
{
    const struct sl_shard *part = &lp->pass->shards->part[q];
    const uint32_t start = 0;
    uint32_t row = sl_layer_pass_chunk_row(lp, q, lp->level, c);
    struct sl_full_sources edges = sources_of(lp, q);
    edges.sources = edges.edge_rows;
    edges.first = part->edge_first;
    edges.first_id = 0;
    edges.n_parts = 1;
    edges.rows = &part->edges;
    edges.columns = (struct sl_full_columns){0, part->edges.n_columns, &start};
    edges.n_edges = n_edges_of(lp, q, c);
    return lp->layer->kind->sum->full(lp, q, row, &edges, 0, out);
}

static const struct sl_block_source all_edges = {
    .ids = ids, .columns = columns, .send = send, .arrived = arrived, .sum = sum, .sum_edges = sum_edges};

/* ---- the pass ---- */

/* Copy features of the rows that the first layer reads, unless the features are sparse. */
static enum sl_status gather(const struct sl_pass *pass, uint32_t q, struct sl_rows *out)
{
    const struct sl_shards *shards = pass->shards;
    const struct sl_split *split = &pass->pe[q].split[pass->model->layer[0].from];
    const struct sl_shard *part = &shards->part[q];
    struct sl_task_args head = {.run = pass->run, .stage = pass->stage, .pe = q};
    struct sl_feature_handles features = {.table = part->features,
                                          .scale = shards->features.scale,
                                          .first = shards->features.first[q],
                                          .frontier = shards->ids};
    SL_CHECK(sl_rows_register(split, shards->n_features, shards->row_dtype, out));
    for (uint32_t c = 0; c < split->n_chunks; c++) {
        SL_CHECK(sl_gather_submit(&head, &features, part->first + (c << split->shift), out->chunk[c]));
    }
    return SL_OK;
}

/* Cut the rows of each level of part q, of this or another rank. */
static void split_part(const struct full *full, uint32_t q)
{
    const struct sl_pass *pass = &full->pass;
    const struct sl_model *model = pass->model;
    const uint32_t last = model->layer[model->n_vertex_layers - 1].level;
    const uint32_t n_rows = pass->shards->part[q].end - pass->shards->part[q].first;
    const struct sl_split split = sl_evaluate_split(pass->run, pass->shards->n_parts, n_rows);
    for (uint32_t level = last; level <= model->layer[0].from; level++) {
        uint32_t n = full->needed == NULL ? n_rows : sl_needed_rows(full->needed, q, level - last);
        pass->pe[q].split[level] = sl_split_first(&split, n);
    }
}

/* The first layer reads the dense feature table in place, unless the table is narrow or few of its rows are needed. */
static enum sl_status open_part(struct full *full, uint32_t q)
{
    struct sl_pass *pass = &full->pass;
    const struct sl_shards *shards = pass->shards;
    struct sl_pass_pe *pe = &pass->pe[q];
    if (shards->is_sparse) {
        return SL_OK;
    }
    if (full->table != NULL) {
        const uint32_t n_rows = shards->features.first[q + 1] - shards->features.first[q];
        const struct sl_split split = sl_evaluate_split(pass->run, shards->n_parts, n_rows);
        SL_CHECK(sl_feature_rows_register(&shards->features, q, &split, &full->table[q]));
    }
    if (full->needed != NULL || !sl_feature_source_in_place(&shards->features)) {
        return gather(pass, q, &pe->features);
    }
    return sl_feature_rows_register(&shards->features, q, &pe->split[pass->model->layer[0].from], &pe->features);
}

/* Prepare a pass of the model. Run, shards, model and needed are borrowed. SL_EINVAL, SL_ENOMEM. On failure, too, call
 * close_pass. */
static enum sl_status open_pass(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                                const struct sl_needed *needed, struct full *out)
{
    *out = (struct full){.needed = needed,
                         .plan = sl_plan_of_parts(shards->n_parts),
                         .pass = {.plan = &out->plan,
                                  .run = run,
                                  .shards = shards,
                                  .model = (struct sl_model *)(uintptr_t)model,
                                  .stage = SL_STAGE_EVALUATE,
                                  .source = &all_edges,
                                  .owner = out,
                                  .group = &out->group}};
    if (shards->halo != NULL) {
        out->plan.first_pe = sl_halo_begin(shards->halo);
        out->plan.end_pe = sl_halo_end(shards->halo);
    }
    SL_CHECK(sl_alloc_zero(shards->n_parts, sizeof *out->pass.pe, "rows of the parts", &out->pass.pe));
    SL_CHECK(sl_alloc_zero(shards->n_parts, sizeof *out->received, "rows of other ranks", &out->received));
    if (needed != NULL && sl_needed_reads_table(needed)) {
        SL_CHECK(sl_alloc_zero(shards->n_parts, sizeof *out->table, "features of the parts", &out->table));
    }
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        split_part(out, q);
    }
    for (uint32_t q = out->plan.first_pe; q < out->plan.end_pe; q++) {
        SL_CHECK(open_part(out, q));
    }
    return SL_OK;
}

/* The role of a layer's output. */
static enum sl_role result_of(const struct sl_layer *layer)
{
    return layer->last ? SL_ROWS_Z : SL_ROWS_H;
}

/* Drop the received rows after their readers, the sums. The layer's later tasks need not be done. */
static void close_received(struct full *full)
{
    if (full->received != NULL) {
        for (uint32_t q = 0; q < full->plan.n_parts; q++) {
            struct sl_rows *rows = &full->received[q];
            for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
                sl_handle_close(rows->chunk[c]);
                rows->chunk[c] = NULL;
            }
            sl_rows_drop(rows);
        }
    }
}

/* Submit all chunks of layer i, and free rows after their last readers. Waits until all tasks that read rows
 * of remote ranks have ended, because messages of the next layer need the memory. Call for each layer in order.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
static enum sl_status run_layer(struct full *full, uint32_t i)
{
    struct sl_layer_pass lp = sl_pass_layer(&full->pass, i);
    SL_CHECK(sl_layer_derive(&lp));
    SL_CHECK(sl_layer_run(&lp));
    for (uint32_t q = full->plan.first_pe; q < full->plan.end_pe; q++) {
        if (i != 1 || !lp.layer->kind->reads_first) {
            sl_layer_pass_done(&lp, q, SL_ROWS_INPUT);
        }
        for (int role = 0; role < SL_N_ROLES; role++) {
            if ((enum sl_role)role != result_of(lp.layer)) {
                sl_layer_pass_done(&lp, q, (enum sl_role)role);
            }
        }
    }
    sl_handle_drop(&full->group.statistics[i]);
    close_received(full);
    return SL_OK;
}

/* The output of layer i, the last submitted layer, for part q: H, or the logits. */
static const struct sl_rows *rows_of(const struct full *full, uint32_t i, uint32_t q)
{
    return &full->pass.pe[q].layer[i][result_of(&full->pass.model->layer[i])];
}

/* Free without waiting. An empty struct is allowed. */
static void close_pass(struct full *full)
{
    if (full->pass.pe != NULL) {
        for (uint32_t q = 0; q < full->plan.n_parts; q++) {
            sl_rows_drop(&full->pass.pe[q].features);
            sl_pass_end_rows(&full->pass.pe[q], full->pass.model->n_layers, sl_rows_drop);
        }
    }
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        sl_handle_drop(&full->group.statistics[i]);
    }
    for (uint32_t q = 0; full->received != NULL && q < full->plan.n_parts; q++) {
        sl_rows_drop(&full->received[q]);
    }
    for (uint32_t q = 0; full->table != NULL && q < full->plan.n_parts; q++) {
        sl_rows_drop(&full->table[q]);
    }
    sl_free(full->received);
    sl_free(full->table);
    sl_free(full->pass.pe);
    full->received = full->table = NULL;
    full->pass = (struct sl_pass){0};
}

/* ---- the outputs ---- */

struct sl_evaluated sl_evaluated_here(const struct sl_shards *shards)
{
    const uint32_t *first = shards->partition->first;
    uint32_t begin = 0;
    uint32_t end = shards->n_vertices;
    if (shards->halo != NULL) {
        begin = first[sl_halo_begin(shards->halo)];
        end = first[sl_halo_end(shards->halo)];
    }
    return (struct sl_evaluated){.first = begin, .n = end - begin};
}

/* Copy a chunk to main memory, row-major. */
static enum sl_status copy_chunk(const struct full *a, const struct sl_rows *rows, uint32_t c, sl_real *out)
{
    const size_t n = (size_t)sl_split_size(&rows->split, c) * rows->n_columns;
    SL_CHECK(sl_chunk_acquire(&a->pass.run->failure, rows->chunk[c], STARPU_R));
    sl_entries_widen(sl_handle_dtype(rows->chunk[c]), n, starpu_data_get_local_ptr(rows->chunk[c]), out);
    starpu_data_release(rows->chunk[c]);
    return SL_OK;
}

/* Copy layer i's output of this rank's parts: all rows to `out`, in ascending order of renumbered ids, and the chosen
 * ones. NULL: not wanted. */
static enum sl_status copy_rows(const struct full *a, uint32_t i, sl_real *out, struct sl_chosen *chosen)
{
    const struct sl_shards *shards = a->pass.shards;
    const sl_vertex start = sl_evaluated_here(shards).first;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        const struct sl_rows *rows = rows_of(a, i, q);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            const uint32_t n = sl_split_size(&rows->split, c);
            const size_t first = shards->part[q].first + ((size_t)c << rows->split.shift);
            SL_FREED sl_real *room = NULL;
            if (out != NULL) {
                SL_CHECK(copy_chunk(a, rows, c, out + (first - start) * rows->n_columns));
            }
            if (chosen != NULL) {
                SL_CHECK(sl_alloc((size_t)n * rows->n_columns, sizeof *room, "rows of a chunk", &room));
                SL_CHECK(copy_chunk(a, rows, c, room));
                sl_chosen_take(chosen, n, shards->iota + first, room);
            }
        }
    }
    return SL_OK;
}

static const struct sl_rows *outputs_of(const struct full *a, uint32_t q)
{
    return rows_of(a, a->pass.model->n_vertex_layers - 1, q);
}

/* Number of chunks in the parts before `end`, on all ranks. */
static uint32_t chunks_before(const struct full *a, uint32_t end)
{
    const struct sl_model *model = a->pass.model;
    uint32_t n = 0;
    for (uint32_t q = 0; q < end; q++) {
        n += a->pass.pe[q].split[model->layer[model->n_vertex_layers - 1].level].n_chunks;
    }
    return n;
}

/* List the chunks of this rank. */
static enum sl_status list_chunks(const struct full *a, struct sl_output_chunk **out, uint32_t *n_out)
{
    struct sl_output_chunk *chunk;
    *n_out = 0;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        *n_out += outputs_of(a, q)->split.n_chunks;
    }
    SL_CHECK(sl_alloc(*n_out, sizeof *chunk, "chunks of outputs", &chunk));
    *out = chunk;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        const struct sl_rows *rows = outputs_of(a, q);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            *chunk++ = (struct sl_output_chunk){
                .z = rows->chunk[c], .part = q, .row = c << rows->split.shift, .n = sl_split_size(&rows->split, c)};
        }
    }
    return SL_OK;
}

static enum sl_status score(const struct full *a, struct sl_scores *out)
{
    const struct sl_objective *objective = sl_objective_of(a->pass.shards);
    SL_FREED struct sl_output_chunk *chunk = NULL;
    struct sl_outputs outputs = {.run = a->pass.run,
                                 .shards = a->pass.shards,
                                 .first_chunk = chunks_before(a, a->plan.first_pe),
                                 .n_all = chunks_before(a, a->plan.n_parts)};
    const bool links = a->pass.model->n_layers > a->pass.model->n_vertex_layers;
    struct sl_decoder decoder;
    enum sl_status st;
    sl_objective_scores(objective, a->pass.shards, out);
    SL_CHECK(list_chunks(a, &chunk, &outputs.n_chunks));
    outputs.chunk = chunk;
    if (links) {
        SL_CHECK(sl_model_acquire(a->pass.model, STARPU_R));
        decoder = sl_model_decoder(a->pass.model);
        outputs.decoder = &decoder;
    }
    st = objective->kind->score(objective, &outputs, out);
    if (links) {
        sl_model_release(a->pass.model);
    }
    if (st == SL_OK) {
        st = sl_ranks_broadcast(out, sizeof *out);
    }
    return st;
}

/* ---- the halo ---- */

/* The host has overwritten the edges' sources in main memory. An acquisition for writing invalidates the GPUs'
 * copies. */
static enum sl_status invalidate_copies(const struct sl_shards *shards)
{
    for (uint32_t q = sl_halo_begin(shards->halo); q < sl_halo_end(shards->halo); q++) {
        starpu_data_handle_t sources = shards->part[q].graph.sources;
        SL_CHECK(sl_handle_acquire(sources, STARPU_MAIN_RAM, STARPU_RW));
        starpu_data_release_on_node(sources, STARPU_MAIN_RAM);
    }
    return SL_OK;
}

/* Prepare the halo for a pass. No task may be running. */
static enum sl_status enter(const struct sl_shards *shards)
{
    if (shards->halo == NULL) {
        return SL_OK;
    }
    /* Save memory: a layer frees blocks of sizes that the next layer cannot use, so the pool should not keep freed
     * blocks. */
    sl_pool_keep(false);
    sl_halo_enter(shards->halo, &shards->partition->graph);
    return invalidate_copies(shards);
}

static enum sl_status leave(const struct sl_shards *shards)
{
    if (shards->halo == NULL) {
        return SL_OK;
    }
    starpu_task_wait_for_all();
    sl_pool_keep(true);
    sl_halo_leave(shards->halo, &shards->partition->graph);
    return invalidate_copies(shards);
}

enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_scores *scores_out)
{
    const struct sl_chosen *chosen = wanted->chosen_scores != NULL ? wanted->chosen_scores : wanted->chosen_hidden;
    const bool all = wanted->scores != NULL || wanted->hidden != NULL || (chosen != NULL && scores_out != NULL);
    SL_OWNED(sl_needed_close) struct sl_needed needed = {0};
    struct full a = {0};
    uint32_t last = model->n_vertex_layers - 1;
    enum sl_status st;
    if (!all && chosen != NULL && chosen->n == 0) {
        return SL_OK;
    }
    SL_TRY(st, enter(shards), done);
    /* With several ranks, each evaluates all vertices of its parts: the halo's lists are of all vertices. So do GPUs: a
     * gather would bring a part's whole table there. */
    if (!all && shards->halo == NULL && (!run->has_cuda || run->evaluate_on_cpus)) {
        SL_TRY(st, sl_needed_open(shards, model, chosen, wanted->sample, &needed), done);
    }
    if (needed.n_rows != NULL) {
        st = open_pass(run, &needed.shards, model, &needed, &a);
    } else {
        st = open_pass(run, shards, model, NULL, &a);
    }
    SL_TRY(st, st, done);
    for (uint32_t i = 0; i <= last; i++) {
        SL_TRY(st, run_layer(&a, i), done);
        if (i + 2 == model->n_layers) {
            SL_TRY(st, copy_rows(&a, i, wanted->hidden, wanted->chosen_hidden), done);
        }
    }
    SL_TRY(st, copy_rows(&a, last, wanted->scores, wanted->chosen_scores), done);
    if (scores_out != NULL) {
        st = score(&a, scores_out);
    } else {
        sl_ranks_drain(); /* as scores do: collective operations on the rows follow */
    }
done:
    close_pass(&a);
    enum sl_status left = leave(shards);
    return st == SL_OK ? left : st;
}
