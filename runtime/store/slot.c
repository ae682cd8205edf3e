/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The capacities, memory and handles of a ring slot. */
#include "runtime/store/slot.h"

#include <string.h>

#include "codelets/sampling/exchange.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/list.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

#define BLOCK_VECTORS 12 /* handles of a struct sl_block, at most */

/* Allocate memory that the slot owns. It is locked, on pages of its own, if the slot's lock is `from` or more. */
static enum sl_status add_memory(struct sl_slot *slot, uint64_t n, size_t element, const char *name, bool clear,
                                 enum sl_slot_lock from, struct sl_slot_memory **out)
{
    struct sl_slot_memory *memory = &slot->memory[slot->n_memory];
    bool lock = slot->lock >= from;
    uint64_t least = SL_OWN_PAGES_BYTES / element + 1;
    uint64_t room = lock ? sl_max_u64(n, least) : n; /* untouched pages cost nothing */
    enum sl_status st;
    if (clear) {
        st = sl_alloc_zero(room, element, name, &memory->data);
    } else {
        st = sl_alloc(room, element, name, &memory->data);
    }
    SL_CHECK(st);
    slot->n_memory++;
    memory->bytes = n * element;
    memory->locked = lock && starpu_memory_pin(memory->data, memory->bytes) == 0;
    slot->n_refused += lock && !memory->locked;
    slot->n_bytes += memory->bytes;
    *out = memory;
    return SL_OK;
}

static enum sl_status check_room(uint64_t n, const char *name)
{
    SL_FAIL_IF(n >= UINT32_MAX, SL_EINVAL,
               "%s: a step may need %llu entries, and a block holds fewer than 2^32: use a "
               "smaller --batch-size or "
               "--fanout, or more --pes",
               name, (unsigned long long)n);
    return SL_OK;
}

/* Register a vector of n elements over fresh memory that the slot owns. */
static enum sl_status add_vector(struct sl_slot *slot, uint64_t n, size_t element, const char *name, bool clear,
                                 enum sl_slot_lock from, starpu_data_handle_t *out)
{
    struct sl_slot_memory *memory;
    SL_CHECK(check_room(n, name));
    if (n == 0) {
        n = 1;
    }
    SL_CHECK(add_memory(slot, n, element, name, clear, from, &memory));
    starpu_vector_data_register(&memory->handle, STARPU_MAIN_RAM, (uintptr_t)memory->data, (uint32_t)n, element);
    *out = memory->handle;
    return SL_OK;
}

/* A vector that a task fills before others read it. */
static enum sl_status add_inner(struct sl_slot *slot, uint64_t n, size_t element, const char *name,
                                starpu_data_handle_t *out)
{
    return add_vector(slot, n, element, name, false, SL_SLOT_LOCK_ALL, out);
}

/* Register a list by PE. With several ranks, a message of the list carries only its used entries. */
static enum sl_status add_list(struct sl_slot *slot, uint64_t n, const char *name, starpu_data_handle_t *out)
{
    struct sl_slot_memory *memory;
    if (sl_n_ranks() == 1) {
        return add_inner(slot, n, 4, name, out);
    }
    SL_CHECK(check_room(n, name));
    SL_CHECK(add_memory(slot, n, 4, name, false, SL_SLOT_LOCK_ALL, &memory));
    sl_list_register(memory->data, (uint32_t)n, slot->n_parts, &memory->handle);
    *out = memory->handle;
    return SL_OK;
}

/* Whether a row of the hop may have all in-edges of its vertex. */
static bool takes_all(const struct sl_slot_shape *shape, uint32_t hop)
{
    if (hop == 0 && shape->link_rows > 0) {
        return false;
    }
    return shape->full || shape->importance || shape->fanout[hop] == UINT32_MAX;
}

/* Most rows of all parts' frontiers at a level: those of the level before, and the sources of their edges. */
static uint64_t most_of_group(const struct sl_slot_shape *shape, uint32_t level)
{
    const bool links = shape->link_rows > 0;
    const uint64_t n_vertices = shape->shards->n_vertices;
    uint64_t n = (uint64_t)shape->n_seeds * (links ? shape->link_rows : 1);
    for (uint32_t hop = 0; hop < level; hop++) {
        const uint64_t n_each = links && hop == 0 ? 1 : shape->fanout[hop];
        n = takes_all(shape, hop) ? n_vertices : sl_min_u64(n * (1 + n_each), n_vertices);
    }
    return n;
}

/* Most rows of a part's frontier at a level. */
static uint64_t most_rows(const struct sl_slot_shape *shape, const struct sl_shard *part, uint32_t level)
{
    const uint64_t n = most_of_group(shape, level);
    if (level == 0) {
        return shape->link_rows > 0 ? n : sl_min_u64(n, part->n_train);
    }
    return sl_min_u64(n, part->end - part->first);
}

/* Most edges of a part's block. */
static uint64_t most_edges(const struct sl_slot_shape *shape, const struct sl_shard *part, uint32_t hop)
{
    const uint64_t *offsets = shape->shards->partition->graph.offsets;
    uint64_t n_edges = offsets[part->end] - offsets[part->first];
    if (hop == 0 && shape->link_rows > 0) {
        return most_rows(shape, part, 0);
    }
    if (takes_all(shape, hop)) {
        return n_edges;
    }
    const uint64_t n_drawn = most_rows(shape, part, hop) * shape->fanout[hop];
    return shape->replaced && n_edges > 0 ? n_drawn : sl_min_u64(n_edges, n_drawn);
}

/* Most ids that a group requests from a part. */
static uint64_t most_asked(const struct sl_slot_shape *shape, const struct sl_shard *part, uint32_t hop)
{
    uint64_t n = 0;
    for (uint32_t q = 0; q < shape->shards->n_parts; q++) {
        n += sl_min_u64(most_edges(shape, &shape->shards->part[q], hop), part->end - part->first);
    }
    return n;
}

/* The transposed block, with the values that the block has. Only attention reads features of transposed edges. */
static enum sl_status add_transpose(struct sl_slot *slot, const struct sl_slot_shape *shape, uint64_t n_edges,
                                    struct sl_block *block)
{
    const uint64_t n_sources = sl_min_u64(n_edges, shape->shards->n_vertices);
    SL_CHECK(add_inner(slot, n_sources + 1, 4, "back offsets", &block->back_offsets));
    SL_CHECK(add_inner(slot, n_edges, 4, "transposed edges", &block->back_rows));
    if (block->edge_weights != NULL) {
        SL_CHECK(add_inner(slot, n_edges, 4, "edge weights", &block->back_weights));
    }
    if (block->edge_relations != NULL) {
        SL_CHECK(add_inner(slot, n_edges, 2, "edge relations", &block->back_relations));
    }
    if (block->edge_rows != NULL && shape->attends) {
        SL_CHECK(add_inner(slot, n_edges, 4, "rows of edges", &block->back_edges));
    }
    return SL_OK;
}

/* A PE of another rank has only its request. */
static enum sl_status add_block(struct sl_slot *slot, const struct sl_slot_shape *shape, uint32_t p, uint32_t hop)
{
    const struct sl_shards *shards = shape->shards;
    const struct sl_shard *part = &shards->part[sl_plan_part(shape->plan, p)];
    struct sl_block *block = &slot->pe[p].block[hop];
    uint64_t n_rows = most_rows(shape, part, hop);
    uint64_t n_edges = most_edges(shape, part, hop);
    uint64_t n_sources = sl_min_u64(n_edges, shards->n_vertices);
    uint64_t n_asked = most_asked(shape, part, hop);
    uint64_t head = (uint64_t)slot->n_parts + 1; /* positions at the start of a list by PE */
    SL_CHECK(add_list(slot, head + n_sources, "requested ids", &block->request));
    if (!sl_plan_here(shape->plan, p)) {
        return SL_OK;
    }
    SL_CHECK(add_inner(slot, n_rows + 1, 4, "edge offsets", &block->edge_offsets));
    SL_CHECK(add_inner(slot, n_edges, 4, "sampled edges", &block->edge_sources));
    if ((shards->weighs_edges || shape->importance) && (hop > 0 || shape->link_rows == 0)) {
        SL_CHECK(add_inner(slot, n_edges, 4, "edge weights", &block->edge_weights));
        block->of_sample = !shards->weighs_edges;
    }
    if (shards->partition->graph.relations != NULL && (hop > 0 || shape->link_rows == 0)) {
        SL_CHECK(add_inner(slot, n_edges, 2, "edge relations", &block->edge_relations));
    }
    if (shards->n_edge_features > 0) {
        SL_CHECK(add_inner(slot, n_edges, 4, "rows of edges", &block->edge_rows));
    }
    if (shape->returns[hop]) {
        SL_CHECK(add_transpose(slot, shape, n_edges, block));
    }
    return add_inner(slot, head + n_asked, 4, "request rows", &block->inverse);
}

/* Buffers of an owner. */
static enum sl_status add_owned(struct sl_slot *slot, const struct sl_slot_shape *shape, uint32_t n_part,
                                struct sl_importance_handles *own)
{
    if (shape->layers) {
        SL_CHECK(add_vector(slot, sizeof(struct sl_level), 1, "a level", false, SL_SLOT_LOCK_ALL, &own->level));
        return add_vector(slot, sl_pool_words(n_part), 8, "sources of a layer", true, SL_SLOT_LOCK_ALL, &own->room);
    }
    SL_CHECK(add_vector(slot, sl_costs_bytes(n_part), 1, "costs", true, SL_SLOT_LOCK_ALL, &own->costs));
    return add_vector(slot, n_part, 4, "largest bounds", true, SL_SLOT_LOCK_ALL, &own->room);
}

/* A PE's candidates are in-neighbours of its part. A share has two entries, and one aligns them. */
static enum sl_status add_importance(struct sl_slot *slot, const struct sl_slot_shape *shape, uint32_t p)
{
    const struct sl_shards *shards = shape->shards;
    const struct sl_shard *part = &shards->part[sl_plan_part(shape->plan, p)];
    const uint64_t *offsets = shards->partition->graph.offsets;
    struct sl_importance_handles *own = &slot->pe[p].importance;
    const uint32_t n_part = part->end - part->first;
    const uint64_t n_edges = offsets[part->end] - offsets[part->first];
    const uint64_t n = sl_min_u64(n_edges, shards->n_vertices);
    const uint64_t n_bounds = shards->fanouts != NULL ? sl_max_u64(n_edges, n_part) : n_part;
    const uint64_t head = (uint64_t)slot->n_parts + 1;
    own->n_vertices = shards->n_vertices;
    SL_CHECK(add_list(slot, head + n, "candidates", &own->list));
    SL_CHECK(add_list(slot, head + n + shape->layers * (n + 1), "candidates' bounds", &own->most));
    slot->lists[p] = own->list;
    slot->lists[slot->n_pes + p] = own->most;
    if (sl_plan_near(shape->plan, p)) {
        SL_CHECK(add_owned(slot, shape, n_part, own));
    }
    if (sl_plan_here(shape->plan, p)) {
        SL_CHECK(add_inner(slot, sl_candidates_bytes(shards->n_vertices, (uint32_t)n), 1, "candidates' costs",
                           &own->candidates));
        SL_CHECK(add_vector(slot, n_bounds + 1, 4, "bounds", true, SL_SLOT_LOCK_ALL, &own->bounds));
    }
    return SL_OK;
}

/* What only the PE itself reads and writes. */
static enum sl_status add_own(struct sl_slot *slot, const struct sl_slot_shape *shape, uint32_t p)
{
    const struct sl_shards *shards = shape->shards;
    const struct sl_shard *part = &shards->part[sl_plan_part(shape->plan, p)];
    struct sl_slot_pe *pe = &slot->pe[p];
    uint32_t n_part = part->end - part->first;
    SL_CHECK(add_inner(slot, n_part, 4, "frontier", &pe->frontier));
    SL_CHECK(add_vector(slot, sl_index_bytes(n_part), 1, "frontier index", true, SL_SLOT_LOCK_ALL, &pe->index));
    memset(slot->memory[slot->n_memory - 1].data, 0xff, 4 * (size_t)n_part); /* row_of: SL_NONE */
    SL_CHECK(add_vector(slot, sl_marks_bytes(shards->n_vertices, shape->max_fanout), 1, "marks", true, SL_SLOT_LOCK_ALL,
                        &pe->marks));
    if (shards->link_relation != NULL) {
        return add_inner(slot, shape->n_seeds, 4, "relations of links", &pe->link_relations);
    }
    return SL_OK;
}

static enum sl_status add_pe(struct sl_slot *slot, const struct sl_slot_shape *shape, uint32_t p)
{
    struct sl_slot_pe *pe = &slot->pe[p];
    size_t n_pairs = (size_t)slot->n_hops * slot->n_parts;
    if (sl_plan_here(shape->plan, p)) {
        SL_CHECK(add_own(slot, shape, p));
    }
    SL_CHECK(add_vector(slot, sl_counts_size(slot->n_hops, slot->n_parts), 4, "counts", true, SL_SLOT_LOCK_READ,
                        &pe->counts));
    SL_CHECK(sl_alloc_zero(slot->n_hops, sizeof *pe->block, "blocks", &pe->block));
    SL_CHECK(sl_alloc_zero(4 * n_pairs, sizeof *pe->packed, "rows of other PEs", &pe->packed));
    pe->sent = pe->packed + n_pairs;
    pe->arrived = pe->sent + n_pairs;
    pe->returned = pe->arrived + n_pairs;
    for (uint32_t hop = 0; hop < slot->n_hops && sl_plan_near(shape->plan, p); hop++) {
        SL_CHECK(add_block(slot, shape, p, hop));
    }
    if (shape->importance) {
        SL_CHECK(add_importance(slot, shape, p));
    }
    return SL_OK;
}

enum sl_status sl_slot_open(const struct sl_slot_shape *shape, struct sl_slot *out)
{
    SL_OWNED(sl_slot_close)
    struct sl_slot made = {.n_pes = shape->plan->n_pes,
                           .n_hops = shape->plan->n_layers,
                           .n_parts = shape->plan->n_parts,
                           .lock = shape->lock};
    *out = (struct sl_slot){0};
    size_t n_memory = (size_t)made.n_pes * (11 + (size_t)made.n_hops * BLOCK_VECTORS) + 1;
    SL_CHECK(sl_alloc_zero(n_memory, sizeof *made.memory, "a slot's list of buffers", &made.memory));
    SL_CHECK(sl_alloc_zero(made.n_pes, sizeof *made.pe, "a slot's PEs", &made.pe));
    if (shape->importance) {
        SL_CHECK(sl_alloc(2 * (size_t)made.n_pes, sizeof *made.lists, "the PEs' lists", &made.lists));
    }
    for (uint32_t p = 0; p < made.n_pes; p++) {
        SL_CHECK(add_pe(&made, shape, p));
    }
    if (shape->n_excluded > 0) {
        SL_CHECK(add_inner(&made, shape->n_excluded, sizeof(uint64_t), "excluded edges", &made.excluded));
    }
    *out = SL_TAKE(made);
    return SL_OK;
}

void sl_slot_close(struct sl_slot *slot)
{
    for (uint32_t p = 0; slot->pe != NULL && p < slot->n_pes; p++) {
        struct sl_slot_pe *pe = &slot->pe[p];
        for (size_t i = 0; pe->packed != NULL && i < 4 * (size_t)slot->n_hops * slot->n_parts; i++) {
            sl_handle_close(pe->packed[i]);
        }
        sl_free(pe->packed);
        sl_free(pe->block);
    }
    for (uint32_t i = 0; i < slot->n_memory; i++) {
        sl_handle_close(slot->memory[i].handle);
        if (slot->memory[i].locked) {
            starpu_memory_unpin(slot->memory[i].data, slot->memory[i].bytes);
        }
        sl_free(slot->memory[i].data);
    }
    sl_free(slot->memory);
    sl_free(slot->pe);
    sl_free(slot->lists);
    *slot = (struct sl_slot){0};
}
