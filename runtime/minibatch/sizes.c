/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The counts of the step in hand, and the sizes computed from them. */
#include "runtime/minibatch/sizes.h"

#include <math.h>
#include <string.h>

#include "codelets/sampling/exchange.h"
#include "support/minmax.h"

/* Number of rows of a level of PE p. The frontier of a step on links is empty at level 0, where each edge has a row of
 * its own. */
static uint32_t n_rows(const struct sl_steps *s, uint32_t p, uint32_t level)
{
    const bool links = level < s->plan->first_hop;
    return s->pe[p].counts[links ? sl_counts_edges(s->plan->n_layers, level) : sl_counts_rows(level)];
}

/* Split each level into chunks. A level's chunks are no smaller than the chunks of the level below. */
static void split_levels(const struct sl_steps *s, uint32_t p)
{
    struct sl_pass_pe *pe = &s->pass.pe[p];
    uint32_t shift = SL_MIN_CHUNK_SHIFT;
    for (uint32_t level = 0; level <= s->plan->n_layers; level++) {
        const bool links = level < s->plan->first_hop; /* a chunk cuts no link */
        pe->split[level] = sl_split_rows(n_rows(s, p, level), links ? 1 : s->settings->chunks, shift);
        shift = links ? shift : pe->split[level].shift;
    }
}

/* Bytes of the feature rows in PE p's sample: dense rows, or columns and values of sparse rows. */
static uint64_t feature_bytes(const struct sl_steps *s, uint32_t p)
{
    const uint32_t *counts = s->pe[p].counts;
    uint64_t n;
    if (!s->shards->is_sparse) {
        return (uint64_t)counts[sl_counts_rows(s->plan->n_layers)] * sl_feature_row_bytes(&s->shards->features);
    }
    memcpy(&n, counts + sl_counts_nonzeros(s->plan->n_layers, s->plan->n_parts), sizeof n);
    return n * (sizeof(float) + sizeof(uint32_t));
}

static void add_sizes(const struct sl_steps *s, uint32_t p, struct sl_step_sizes *sizes)
{
    const uint32_t *counts = s->pe[p].counts;
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t level = 0; level <= s->plan->n_layers; level++) {
        sizes->vertices[level] += n_rows(s, p, level);
    }
    for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
        const struct sl_layer *layer = sl_step_layer(s, hop);
        uint32_t i = (uint32_t)(layer - s->model->layer);
        uint64_t row = sl_dtype_bytes(sl_step_travelling_dtype(s, i, p, false), layer->training.travels);
        const uint32_t *first = counts + sl_counts_request(s->plan->n_layers, n_parts, hop);
        uint64_t n_ids = first[n_parts] - sl_list_count(first, sl_plan_part(s->plan, p));
        sizes->edges[hop] += counts[sl_counts_edges(s->plan->n_layers, hop)];
        sizes->bytes.ids += n_ids * sizeof(sl_vertex);
        sizes->bytes.rows += n_ids * row;
        if (layer->returns) {
            enum sl_dtype back = sl_step_travelling_dtype(s, i, p, true);
            sizes->bytes.row_gradients += n_ids * sl_dtype_bytes(back, layer->training.travels);
        }
    }
    sizes->bytes.features += feature_bytes(s, p);
}

/* Assign rows in the exchange matrices of two teams of one group, for one hop. `asking` and `asked` are the teams'
 * first PEs in the group. packed_row counts owner by owner, sent_row requester by requester, so that a PE writes
 * consecutive rows. */
static void place_rows(const struct sl_steps *s, uint32_t hop, struct sl_step_pe *pe, uint32_t asking, uint32_t asked)
{
    const uint32_t n_parts = s->plan->n_parts;
    const uint32_t end_asking = sl_min_u32(asking + s->team, n_parts);
    const uint32_t end_asked = sl_min_u32(asked + s->team, n_parts);
    const size_t request = sl_counts_request(s->plan->n_layers, n_parts, hop);
    uint32_t row = 0;
    for (uint32_t q = asked; q < end_asked; q++) {
        for (uint32_t p = asking; p < end_asking; p++) {
            pe[p].packed_row[(size_t)hop * n_parts + q] = row;
            if (p != q) {
                row += sl_list_count(pe[p].counts + request, q);
            }
        }
    }
    row = 0;
    for (uint32_t p = asking; p < end_asking; p++) {
        for (uint32_t q = asked; q < end_asked; q++) {
            pe[p].sent_row[(size_t)hop * n_parts + q] = row;
            if (p != q) {
                row += sl_list_count(pe[p].counts + request, q);
            }
        }
    }
}

static void place_all(const struct sl_steps *s)
{
    const uint32_t n_parts = s->plan->n_parts;
    for (uint32_t first = 0; first < s->plan->n_pes; first += n_parts) {
        for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
            for (uint32_t p = 0; p < n_parts; p += s->team) {
                for (uint32_t q = 0; q < n_parts; q += s->team) {
                    place_rows(s, hop, s->pe + first, p, q);
                }
            }
        }
    }
}

void sl_step_begin(struct sl_steps *s, uint64_t step)
{
    uint64_t first = step % s->settings->depth * s->plan->n_pes;
    s->pe = s->slot_pe + first;
    s->pass.pe = s->slot_rows + first;
    s->pass.step = step;
}

enum sl_status sl_step_sizes(struct sl_steps *s, uint64_t step, struct sl_step_sizes *sizes_out)
{
    size_t bytes = sl_counts_size(s->plan->n_layers, s->plan->n_parts) * sizeof(uint32_t);
    struct sl_step_sizes sizes = {.n_seeds = sl_plan_seeds(s->plan, step).n};
    bool stop = false;
    if (s->plan->rank == 0) {
        sizes.bytes.weights = sl_replicas_traffic(&s->replicas) * sl_model_trained_bytes(s->model);
        sizes.bytes.ids = s->plan->ring ? sizes.n_seeds * sizeof(sl_vertex) : 0;
    }
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        starpu_data_handle_t handle = sl_step_slot(s, step, p)->counts;
        if (!sl_plan_trains(s->plan, sl_plan_replica(s->plan, p))) {
            continue;
        }
        SL_CHECK(sl_handle_acquire(handle, STARPU_MAIN_RAM, STARPU_R));
        memcpy(s->pe[p].counts, starpu_data_get_local_ptr(handle), bytes);
        starpu_data_release(handle);
        SL_CHECK(sl_failure_status(&s->run->failure));
        stop |= s->pe[p].counts[sl_counts_stop(s->plan->n_layers)] != 0;
        split_levels(s, p);
        sizes.n_inputs += n_rows(s, p, s->plan->n_layers);
        if (sl_plan_here(s->plan, p)) {
            add_sizes(s, p, &sizes);
        }
    }
    place_all(s);
    s->run->stop_agreed = stop && !sl_plan_decoupled(s->plan);
    *sizes_out = sizes;
    return SL_OK;
}

/* ---- the vertex budget: mean and deviation by Welford's recurrence ---- */

#define STANDARD_ERRORS 3

void sl_budget_add(struct sl_budget *b, double n_inputs)
{
    double before = n_inputs - b->mean;
    b->n++;
    b->mean += before / b->n;
    b->squares += before * (n_inputs - b->mean);
}

uint64_t sl_budget_batch(const struct sl_budget *b, uint32_t n_wanted, uint64_t batch, uint32_t n_train)
{
    if (n_wanted == 0 || b->n < 2 || !(b->mean > 0)) {
        return batch;
    }
    double error = sqrt(b->squares / (b->n - 1) / b->n);
    double wanted = floor((double)batch * n_wanted / b->mean);
    if (fabs(n_wanted - b->mean) <= STANDARD_ERRORS * error) {
        return batch;
    }
    return sl_max_u64(1, (uint64_t)fmin(wanted, n_train));
}
