/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Chooses the size of the feature caches, and fills the caches. */
#include "runtime/store/feature_cache.h"

#include <stdlib.h>

#include "support/compare.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- where the features are kept ---- */

/* Scratch per slot while a cache searches the slots that give way (codelets/rows/row_cache_cuda.cu). */
#define WORK_BYTES 12

uint64_t sl_feature_room_wanted(const struct sl_feature_room *room)
{
    return (uint64_t)sl_min_u32(room->n_pes, room->n_parts) * room->part_rows * room->row_bytes;
}

uint32_t sl_feature_room_rows(const struct sl_feature_room *room)
{
    uint64_t left = room->device_bytes > room->other_bytes ? room->device_bytes - room->other_bytes : 0;
    if (sl_feature_room_wanted(room) <= left) {
        return 0;
    }
    uint64_t lists = (uint64_t)room->n_pes * room->part_rows * sizeof(uint32_t); /* slot_of */
    uint64_t slot = room->row_bytes + sizeof(struct sl_row_cache_slot) + WORK_BYTES;
    uint64_t n = left > lists ? (left - lists) / (room->n_pes * slot) : 0;
    return n < 1 ? 1 : (uint32_t)n; /* fewer than part_rows, since the parts themselves do not fit */
}

/* The memory of one GPU, and its share of the run's data. */
static struct sl_feature_room room_of(const struct sl_settings *settings, const struct sl_run *run,
                                      const struct sl_shards *shards, uint64_t other_bytes)
{
    uint32_t n_gpus = run->n_gpus * sl_n_ranks();
    struct sl_feature_room room = {.device_bytes = run->gpu_bytes,
                                   .n_pes = (settings->pes + n_gpus - 1) / n_gpus,
                                   .other_bytes = other_bytes,
                                   .n_parts = shards->n_parts,
                                   .row_bytes = sl_feature_row_bytes(&shards->features)};
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        uint32_t n = shards->part[q].end - shards->part[q].first;
        if (n > room.part_rows) {
            room.part_rows = n;
        }
    }
    return room;
}

/* Set the number of rows: the user's, or chosen by the room on a GPU. */
static void choose(const struct sl_settings *settings, const struct sl_run *run, const struct sl_shards *shards,
                   uint64_t other_bytes, struct sl_feature_cache *out)
{
    if (settings->feature_cache != SL_FEATURE_CACHE_AUTO) {
        out->n_rows = settings->feature_cache;
    } else if (run->gpu_bytes > 0 && !shards->is_sparse) {
        out->room = room_of(settings, run, shards, other_bytes);
        out->n_rows = sl_feature_room_rows(&out->room);
        out->chosen = out->n_rows > 0;
    }
}

/* Check that a GPU can hold the rows that one gathering task needs there: all rows of its part, or of its cache if
 * the user asks for caches. */
static enum sl_status check_rows(const struct sl_settings *settings, const struct sl_run *run,
                                 const struct sl_shards *shards)
{
    uint64_t n = 0;
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        uint32_t n_part = shards->part[q].end - shards->part[q].first;
        if (n_part > n) {
            n = n_part;
        }
    }
    if (settings->feature_cache > 0 && settings->feature_cache < n) {
        n = settings->feature_cache;
    }
    uint64_t bytes = shards->is_sparse ? 0 : n * sl_feature_row_bytes(&shards->features);
    SL_FAIL_IF(run->gpu_bytes > 0 && settings->epochs > 0 && settings->feature_cache != SL_FEATURE_CACHE_AUTO &&
                   bytes > run->gpu_bytes,
               SL_ENOMEM,
               "--feature-cache: found %u, which has a GPU hold %llu rows, %.2f GB at once, expected no more than "
               "%.2f GB; try auto, or more --pes",
               settings->feature_cache, (unsigned long long)n, (double)bytes / 1e9, (double)run->gpu_bytes / 1e9);
    return SL_OK;
}

/* Check that GPUs can read the table in main memory. */
static enum sl_status check_table(const struct sl_run *run, const struct sl_shards *shards)
{
    double gigabytes = (double)sl_feature_source_bytes(&shards->features) / 1e9;
    SL_FAIL_IF(
        run->n_gpus > 0 && !sl_feature_source_reached(&shards->features), SL_ENOTSUP,
        "--feature-cache: expected %.1f GB of features locked in main memory for the GPUs to read, found that the "
        "system refuses; try ulimit -l unlimited, a larger limit of the container, no $STARPU_DISABLE_PINNING, or "
        "--feature-cache 0",
        gigabytes);
    return SL_OK;
}

/* ---- which rows are cached ---- */

/* How often a vertex is a source. */
struct use {
    uint32_t n;
    uint32_t vertex; /* renumbered id */
};

/* Most used first; ties by id. */
static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a;
    const struct use *y = b;
    return sl_order(y->n, x->n, x->vertex, y->vertex);
}

/* Pick the part's n most used vertices, as indices in the part. Sorts the part's entries of `uses`, which has all
 * vertices. */
static void pick_most_used(const struct sl_shard *part, struct use *uses, uint32_t n, uint32_t *vertices_out)
{
    qsort(uses + part->first, part->end - part->first, sizeof *uses, compare_uses);
    for (uint32_t i = 0; i < n; i++) {
        vertices_out[i] = uses[part->first + i].vertex - part->first;
    }
}

/* Add to counts[v] how often v is a source of the edges into part q. */
static void count_part(const struct sl_partition *partition, uint32_t q, uint32_t *counts)
{
    const uint64_t *offsets = partition->graph.offsets;
    for (uint64_t e = offsets[partition->first[q]]; e < offsets[partition->first[q + 1]]; e++) {
        counts[partition->graph.sources[e]]++;
    }
}

/* Count how often each vertex is a source. Several ranks may have a part's edges; only the part's scorer counts
 * edges. */
static enum sl_status count_uses(const struct sl_plan *plan, const struct sl_shards *shards, struct use **out)
{
    SL_FREED uint32_t *counts = NULL;
    struct use *uses = NULL;
    SL_CHECK(sl_alloc_zero(shards->n_vertices, sizeof *counts, "counts of the vertices' uses", &counts));
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        if (sl_plan_scorer(plan, q) == plan->rank) {
            count_part(shards->partition, q, counts);
        }
    }
    SL_CHECK(sl_ranks_add_up(shards->n_vertices, counts));
    SL_CHECK(sl_alloc(shards->n_vertices, sizeof *uses, "counts of the vertices' uses", &uses));
    for (uint32_t v = 0; v < shards->n_vertices; v++) {
        uses[v] = (struct use){counts[v], v};
    }
    *out = uses;
    return SL_OK;
}

/* ---- one PE ---- */

/* Register a PE's cache. The rows take exactly the memory that sl_feature_room_rows found. */
static void register_pe(const struct sl_shards *shards, const struct sl_shard *part, uint32_t n_slots,
                        struct sl_row_cache_tally *tally, struct sl_row_cache_handles *out)
{
    starpu_vector_data_register(&out->slot_of, -1, 0, part->end - part->first, sizeof(uint32_t));
    starpu_vector_data_register(&out->slots, -1, 0, n_slots, sizeof(struct sl_row_cache_slot));
    starpu_vector_data_register(&out->tally, STARPU_MAIN_RAM, (uintptr_t)tally, 1, sizeof *tally);
    out->rows = sl_matrix_over(NULL, n_slots, shards->n_features, shards->features.dtype);
}

/* Fill a cache: with the part's most used vertices, which then stay, or with nothing if `uses` is NULL. */
static enum sl_status fill_pe(const struct sl_task_args *head, const struct sl_shard *part, struct use *uses,
                              uint32_t n_slots, struct sl_feature_cache *cache)
{
    const struct sl_row_cache_handles *handles = &cache->pe[head->pe];
    uint32_t **vertices = &cache->vertices[head->pe];
    starpu_data_handle_t fixed;
    enum sl_status st = SL_OK;
    if (uses == NULL) {
        return sl_row_cache_fill_submit(head, handles, 0, NULL, part->features);
    }
    SL_CHECK(sl_alloc(n_slots, sizeof **vertices, "the most used vertices", vertices));
    pick_most_used(part, uses, n_slots, *vertices);
    starpu_vector_data_register(&fixed, STARPU_MAIN_RAM, (uintptr_t)*vertices, n_slots, sizeof **vertices);
    st = sl_row_cache_fill_submit(head, handles, n_slots, fixed, part->features);
    sl_handle_drop(&fixed);
    return st;
}

/* ---- open, close ---- */

static enum sl_status open_pe(const struct sl_plan *plan, struct sl_run *run, const struct sl_shards *shards,
                              uint32_t p, struct use *uses, struct sl_feature_cache *cache)
{
    const struct sl_shard *part = &shards->part[sl_plan_part(plan, p)];
    struct sl_task_args head = {.run = run, .pe = p};
    uint32_t n_slots = sl_min_u32(cache->n_rows, part->end - part->first);
    if (n_slots == 0) {
        return SL_OK; /* a part without vertices */
    }
    register_pe(shards, part, n_slots, &cache->tally[p], &cache->pe[p]);
    return fill_pe(&head, part, uses, n_slots, cache);
}

enum sl_status sl_feature_cache_open(const struct sl_settings *settings, const struct sl_plan *plan, struct sl_run *run,
                                     const struct sl_shards *shards, uint64_t other_bytes, struct sl_feature_cache *out)
{
    SL_FREED struct use *uses = NULL;
    SL_OWNED(sl_feature_cache_close) struct sl_feature_cache made = {0};
    *out = made;
    SL_CHECK(check_rows(settings, run, shards));
    choose(settings, run, shards, other_bytes, &made);
    if (made.n_rows == 0) {
        *out = made;
        return SL_OK;
    }
    SL_FAIL_IF(shards->is_sparse, SL_EINVAL,
               "--feature-cache: found sparse features, which are read where they are; expected dense ones");
    SL_CHECK(check_table(run, shards));
    made.n_pes = plan->n_pes;
    made.policy = (enum sl_row_cache_policy)settings->feature_cache_policy;
    SL_CHECK(sl_alloc_zero(made.n_pes, sizeof *made.pe, "the PEs' feature caches", &made.pe));
    SL_CHECK(sl_alloc_zero(made.n_pes, sizeof *made.tally, "the PEs' feature caches", &made.tally));
    SL_CHECK(sl_alloc_zero(made.n_pes, sizeof *made.vertices, "the PEs' feature caches", &made.vertices));
    if (made.policy == SL_ROW_CACHE_DEGREE) {
        SL_CHECK(count_uses(plan, shards, &uses));
    }
    for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
        SL_CHECK(open_pe(plan, run, shards, p, uses, &made));
    }
    *out = SL_TAKE(made);
    return SL_OK;
}

void sl_feature_cache_close(struct sl_feature_cache *cache)
{
    if (cache->vertices != NULL) {
        for (uint32_t p = 0; p < cache->n_pes; p++) {
            sl_handle_close(cache->pe[p].slot_of);
            sl_handle_close(cache->pe[p].slots);
            sl_handle_close(cache->pe[p].rows);
            sl_handle_close(cache->pe[p].tally);
            sl_free(cache->vertices[p]);
        }
    }
    sl_free(cache->vertices);
    sl_free(cache->pe);
    sl_free(cache->tally);
    *cache = (struct sl_feature_cache){0};
}

enum sl_status sl_feature_cache_tally(struct sl_feature_cache *cache, struct sl_row_cache_tally *out)
{
    *out = (struct sl_row_cache_tally){0};
    for (uint32_t p = 0; p < cache->n_pes; p++) {
        starpu_data_handle_t handle = cache->pe[p].tally;
        if (handle == NULL) {
            continue;
        }
        SL_FAIL_IF(starpu_data_acquire(handle, STARPU_RW) != 0, SL_ESTARPU,
                   "StarPU refused to hand out a feature cache's tally");
        out->rows += cache->tally[p].rows;
        out->hits += cache->tally[p].hits;
        cache->tally[p].rows = 0;
        cache->tally[p].hits = 0;
        starpu_data_release(handle);
    }
    return SL_OK;
}
