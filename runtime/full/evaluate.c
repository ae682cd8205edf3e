/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs a pass over all in-edges. The objective scores the outputs. */
#include "runtime/full/evaluate.h"

#include <string.h>

#include "runtime/full/full.h"
#include "runtime/full/halo_lists.h"
#include "runtime/machine/pool.h"
#include "runtime/model/kinds.h"
#include "runtime/model/model.h"
#include "support/memory.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

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

/* Copy layer i's output of this rank's parts to `out`, row-major, in ascending order of renumbered ids. */
static enum sl_status copy_rows(const struct sl_full *a, uint32_t i, sl_real *out)
{
    sl_vertex start = sl_evaluated_here(a->pass.shards).first;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        const struct sl_rows *rows = sl_full_rows(a, i, q);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            size_t first = a->pass.shards->part[q].first - start + ((size_t)c << rows->split.shift);
            size_t n = (size_t)sl_split_size(&rows->split, c) * rows->n_columns;
            SL_CHECK(sl_chunk_acquire(&a->pass.run->failure, rows->chunk[c], STARPU_R));
            const void *from = starpu_data_get_local_ptr(rows->chunk[c]);
            sl_entries_widen(sl_handle_dtype(rows->chunk[c]), n, from, out + first * rows->n_columns);
            starpu_data_release(rows->chunk[c]);
        }
    }
    return SL_OK;
}

/* ---- the outputs ---- */

static const struct sl_rows *outputs_of(const struct sl_full *a, uint32_t q)
{
    return sl_full_rows(a, a->pass.model->n_vertex_layers - 1, q);
}

/* Number of chunks in the parts before `end`, on all ranks. */
static uint32_t chunks_before(const struct sl_full *a, uint32_t end)
{
    const struct sl_shards *shards = a->pass.shards;
    uint32_t n = 0;
    for (uint32_t q = 0; q < end; q++) {
        n += sl_evaluate_split(a->pass.run, shards->n_parts, shards->part[q].end - shards->part[q].first).n_chunks;
    }
    return n;
}

/* List the chunks of this rank. */
static enum sl_status list_chunks(const struct sl_full *a, struct sl_output_chunk **out, uint32_t *n_out)
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

static enum sl_status score(const struct sl_full *a, struct sl_scores *out)
{
    const struct sl_objective *objective = sl_objective_of(a->pass.shards);
    struct sl_output_chunk *chunk = NULL;
    struct sl_outputs outputs = {.run = a->pass.run,
                                 .shards = a->pass.shards,
                                 .first_chunk = chunks_before(a, a->plan.first_pe),
                                 .n_all = chunks_before(a, a->plan.n_parts)};
    const bool links = a->pass.model->n_layers > a->pass.model->n_vertex_layers;
    struct sl_decoder decoder;
    enum sl_status st;
    sl_objective_scores(objective, a->pass.shards, out);
    SL_TRY(st, list_chunks(a, &chunk, &outputs.n_chunks), done);
    outputs.chunk = chunk;
    if (links) {
        SL_TRY(st, sl_model_acquire(a->pass.model, STARPU_R), done);
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
done:
    sl_free(chunk);
    return st;
}

/* ---- the pass ---- */

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
    struct sl_full a = {0};
    uint32_t last = model->n_vertex_layers - 1;
    enum sl_status st;
    SL_TRY(st, enter(shards), done);
    SL_TRY(st, sl_full_open(run, shards, model, &a), done);
    for (uint32_t i = 0; i <= last; i++) {
        SL_TRY(st, sl_full_layer(&a, i), done);
        if (i + 2 == model->n_layers && wanted->hidden != NULL) {
            SL_TRY(st, copy_rows(&a, i, wanted->hidden), done);
        }
    }
    if (wanted->scores != NULL) {
        SL_TRY(st, copy_rows(&a, last, wanted->scores), done);
    }
    st = score(&a, scores_out);
done:
    sl_full_close(&a);
    enum sl_status left = leave(shards);
    return st == SL_OK ? left : st;
}
