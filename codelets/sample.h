/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 3, sample: a PE's seeds, and the in-edges drawn for its frontier, hop by hop.
 *   before: the epoch's permutation (hop 0), or codelets/exchange.h merge of the hop before
 *   after:  codelets/exchange.h merges what the PEs of a group ask of each other
 *
 * neighbor  min(k, degree) in-neighbours without replacement, all of them where degree <= k (Hamilton et al. 2017): Floyd's
 *           selection, key (step, hop, destination, draw).
 * labor     LABOR-0, sequential Poisson (Balin, Catalyurek, NeurIPS 2023): the min(k, degree) in-neighbours t with the smallest
 *           r_t, ties by id; r_t depends on (step, hop, t) alone, so destinations share their picks, also across PEs.
 *           layer_dependency: r_t the same for every hop. kappa: r_t turns slowly over kappa steps (sl_labor_turn).
 * full      all in-neighbours.
 *
 * A vertex is sampled by its owner alone, with draws that know its dataset id and nothing of the batch: the edges are the same
 * for every partition, group size and order.
 *
 * The block of hop l (destinations S_p^l, D of them; E edges; T distinct sources):
 *   edge_offsets  D + 1    edges of destination d: edge_offsets[d] .. edge_offsets[d + 1] - 1, in order of the source's dataset id
 *   edge_sources  E        position of the source among the T, which are sorted by (renumbered) id
 *   back_offsets  T + 1    the same block transposed: edges of source t
 *   back_rows     E        destination of each, ascending
 *   request       the ids of the T sources, ascending, as a list by owner
 * Since parts are ranges of ids, the sources of owner q are a range of positions, owner by owner.
 *
 * A list by PE is one vector of uint32: G + 1 positions, then the entries; those of PE q are the entries position[q] ..
 * position[q + 1] - 1. Whoever has the vector thus finds every PE's entries without the host, and handles are per PE, not per
 * pair of PEs. A request goes to all PEs of the group whole: four bytes a source, where the rows asked for have hundreds.
 */
#ifndef SL_CODELETS_SAMPLE_H
#define SL_CODELETS_SAMPLE_H

#include "codelets/labor.h"
#include "codelets/task.h"
#include "support/random.h"

enum sl_sample_method { SL_SAMPLE_NEIGHBOR, SL_SAMPLE_LABOR, SL_SAMPLE_FULL };

/* How to draw; scalars only, part of the task's arguments. */
struct sl_sample_rule {
    enum sl_sample_method method;
    uint32_t fanout; /* of this hop, >= 1; full: not read */
    bool layer_dependency;
    uint32_t kappa; /* 1: fresh r_t each step; 0: the same for ever */
};

/* ---- the sizes of one PE's sample, in one vector of uint32 (struct of L levels and G owners) ---- */

/* Index of |S^level|, level 0 .. L. */
static inline uint32_t sl_counts_rows(uint32_t level)
{
    return level;
}
/* Index of the number of edges of hop's block. */
static inline uint32_t sl_counts_edges(uint32_t n_hops, uint32_t hop)
{
    return n_hops + 1 + hop;
}
/* Index of what is not 0 where the PE's rank was asked to stop (struct sl_run), written with the seeds. */
static inline uint32_t sl_counts_stop(uint32_t n_hops)
{
    return 2 * n_hops + 1;
}
/* Index of the first of the G + 1 positions in front of hop's request: where each owner's sources begin, and T. */
static inline uint32_t sl_counts_request(uint32_t n_hops, uint32_t n_parts, uint32_t hop)
{
    return sl_counts_stop(n_hops) + 1 + hop * (n_parts + 1);
}
/* Index of the nonzeros of the rows of S^L: a uint64 in two elements, at an even index, so that it is aligned where the vector is.
 * Written where features are sparse, by codelets/nonzeros.h. */
static inline uint32_t sl_counts_nonzeros(uint32_t n_hops, uint32_t n_parts)
{
    uint32_t end = sl_counts_request(n_hops, n_parts, n_hops);
    return end + (end & 1);
}
/* Elements of a counts vector. */
static inline uint32_t sl_counts_size(uint32_t n_hops, uint32_t n_parts)
{
    return sl_counts_nonzeros(n_hops, n_parts) + 2;
}

/* ---- lists by PE ---- */

/* The entries of all PEs, and those of PE q. */
static inline SL_HOST_DEVICE uint32_t *sl_list_entries(uint32_t *list, uint32_t n_parts)
{
    return list + n_parts + 1;
}
static inline SL_HOST_DEVICE const uint32_t *sl_list_of(const uint32_t *list, uint32_t n_parts, uint32_t q)
{
    return list + n_parts + 1 + list[q];
}
/* How many entries PE q has. */
static inline SL_HOST_DEVICE uint32_t sl_list_count(const uint32_t *list, uint32_t q)
{
    return list[q + 1] - list[q];
}

/* ---- arithmetic of one item, host and device ---- */

/* How many edges the rule draws for a vertex of this degree: all of them where they are no more than the fanout. */
static inline SL_HOST_DEVICE uint32_t sl_sample_count(const struct sl_sample_rule *rule, uint32_t degree)
{
    return rule->method == SL_SAMPLE_FULL || degree < rule->fanout ? degree : rule->fanout;
}

/* Insert `value` into the ascending picked[0], picked[stride], .., n of them; returns 0 where it was there already. Fanouts are
 * small: a scan from the end beats a search. */
SL_INLINE SL_HOST_DEVICE int sl_insert_sorted(uint32_t value, uint32_t n, uint32_t stride, uint32_t *picked)
{
    uint32_t position = n;
    while (position > 0 && picked[(size_t)(position - 1) * stride] > value) {
        position--;
    }
    if (position > 0 && picked[(size_t)(position - 1) * stride] == value) {
        return 0;
    }
    for (uint32_t i = n; i > position; i--) {
        picked[(size_t)i * stride] = picked[(size_t)(i - 1) * stride];
    }
    picked[(size_t)position * stride] = value;
    return 1;
}

/* k of the positions 0 .. degree - 1 without replacement, ascending: Floyd's algorithm (Bentley, Floyd 1987). A value drawn
 * twice gives way to the round's largest, which no earlier round can have picked. `vertex` is a dataset id, k < degree; the
 * i-th position is left in picked_out[i * stride]. */
SL_INLINE SL_HOST_DEVICE void sl_pick_neighbor(const struct sl_draw *draw, uint32_t vertex, uint32_t degree, uint32_t k,
                                               uint32_t stride, uint32_t *picked_out)
{
    for (uint32_t i0 = 0; i0 < k; i0 += 4) {
        uint32_t bits[4];
        sl_random4(draw, vertex, i0 / 4, bits);
        for (uint32_t j = 0; j < 4 && i0 + j < k; j++) {
            uint32_t last = degree - k + i0 + j;
            if (!sl_insert_sorted(sl_random_below(bits[j], last + 1), i0 + j, stride, picked_out)) {
                picked_out[(size_t)(i0 + j) * stride] = last;
            }
        }
    }
}

/* How LABOR's keys turn. cos and sin are taken here, once, on the host. */
SL_EXTERN_C struct sl_labor_turn sl_labor_turn(uint64_t seed, uint64_t step, uint32_t hop,
                                               const struct sl_sample_rule *rule);

/* ---- kernels, CPU ---- */

/* The part whose vertices are sampled. Ids are renumbered but for dataset_ids. */
struct sl_sample_part {
    const uint64_t *offsets;      /* n_part + 1; offsets[0] may be anything: only differences to it are used */
    const sl_vertex *sources;     /* in-neighbours of the part, from offsets[0] on, in order of dataset id */
    const sl_vertex *dataset_ids; /* of all N vertices */
    const uint32_t *first;        /* G + 1, where the parts of the group begin */
    uint32_t n_parts;             /* G */
    uint32_t part;                /* the part sampled */
};

/* Working memory of one PE and slot. words and ranks: W = ceil(N / 64) each, touched: ceil(W / 64), on CPUs alone; words and touched are
 * zero before and after each call. heap: fanout entries, read by labor only. */
struct sl_sample_marks {
    uint32_t n_vertices; /* N */
    uint64_t *words;
    uint64_t *touched;
    uint32_t *ranks;
    struct sl_labor_pick *heap;
};

/* Bytes of the marks of a graph of n_vertices, in this order: heap, words, touched, ranks. */
static inline size_t sl_marks_bytes(uint32_t n_vertices, uint32_t max_fanout)
{
    size_t n_words = ((size_t)n_vertices + 63) / 64;
    return sizeof(struct sl_labor_pick) * max_fanout + 12 * n_words + 8 * ((n_words + 63) / 64);
}

/* A block to be written. Room needed: E for edges of all destinations, one more than rows and sources for offsets, G + 1 more than
 * sources for the request. sl_sample_cuda writes all of max_rows + 1 edge offsets. */
struct sl_sample_block {
    uint32_t *edge_offsets, *edge_sources;
    uint32_t *back_offsets, *back_rows;
    uint32_t *request;
    uint32_t max_rows; /* edge_offsets has room for one more; not read by sl_sample_cpu */
};

/* A frontier and its index. The part's ids are first .. first + n_part - 1. words: zero before and after each call. */
struct sl_frontier {
    uint32_t first, n_part;
    sl_vertex *ids;   /* of the rows so far; room for n_part */
    uint32_t *row_of; /* n_part: by local id (id - first) the row, SL_NONE where it has none */
    uint64_t *words;  /* ceil(n_part / 64); merge's alone (codelets/exchange.h) */
};

/* The edges of the n_rows destinations `frontier`, transposed block and request. draw: SL_FOR_SAMPLING, step, hop. Returns the
 * number of edges E. */
uint32_t sl_sample_cpu(const struct sl_sample_part *part, const struct sl_sample_rule *rule, const struct sl_draw *draw,
                       uint32_t n_rows, const sl_vertex *frontier, const struct sl_sample_marks *marks,
                       const struct sl_sample_block *block);

/* The training ids of an epoch in their order: sorted by (hash(seed, epoch, dataset id), dataset id), as renumbered ids.
 * keys: n scratch elements. */
struct sl_permute_key {
    uint64_t hash;
    sl_vertex dataset_id;
    sl_vertex id;
};
void sl_permute_cpu(uint64_t seed, uint64_t epoch, uint32_t n, const sl_vertex *train_dataset_ids,
                    const sl_vertex *new_ids, struct sl_permute_key *keys, sl_vertex *order_out);

/* Clears the n_old rows of the frontier that was, then makes those of order[0 .. n) that the part owns the new frontier, in order.
 * Returns how many. */
uint32_t sl_seed_cpu(uint32_t n, const sl_vertex *order, uint32_t n_old, const struct sl_frontier *frontier);

#ifdef SL_CUDA
/* ---- launchers: the same on the stream's device, all pointers to its memory but for the structs themselves; SL_ECUDA ---- */

/* counts: of L = n_hops levels; its entries of the draw's hop are read (rows) and written (edges, positions of the request). marks:
 * heap is not used. The stream is waited for once, since the number of edges decides how much is launched. The edges are those of
 * sl_sample_cpu. */
SL_EXTERN_C enum sl_status sl_sample_cuda(cudaStream_t stream, const struct sl_sample_part *part,
                                          const struct sl_sample_rule *rule, const struct sl_draw *draw,
                                          const sl_vertex *frontier, const struct sl_sample_marks *marks,
                                          uint32_t n_hops, uint32_t *counts, const struct sl_sample_block *block);

/* train_dataset_ids ascend, as a split's do. */
SL_EXTERN_C enum sl_status sl_permute_cuda(cudaStream_t stream, uint64_t seed, uint64_t epoch, uint32_t n,
                                           const sl_vertex *train_dataset_ids, const sl_vertex *new_ids,
                                           struct sl_permute_key *keys, sl_vertex *order_out);

/* counts: of L = n_hops levels; the rows of level L, which are cleared, are read there, and those of level 0 written. */
SL_EXTERN_C enum sl_status sl_seed_cuda(cudaStream_t stream, uint32_t n, const sl_vertex *order, uint32_t n_hops,
                                        uint32_t *counts, const struct sl_frontier *frontier);
#endif

/* ---- submissions: sampling phase; local, one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

/* Read-only handles of one part of the graph; sequential consistency is off for them. */
struct sl_part_handles {
    starpu_data_handle_t offsets;     /* uint64, n_part + 1 */
    starpu_data_handle_t sources;     /* uint32 */
    starpu_data_handle_t dataset_ids; /* uint32, N */
    starpu_data_handle_t first;       /* uint32, G + 1 */
    uint32_t n_parts, part;
};

/* The frontier of one PE, in a slot of the ring. */
struct sl_frontier_handles {
    starpu_data_handle_t ids;    /* uint32, at capacity */
    starpu_data_handle_t index;  /* sl_index_bytes(end - first) bytes (codelets/exchange.h); sample does not need it */
    starpu_data_handle_t counts; /* uint32, sl_counts_size(n_hops, G) */
    uint32_t n_hops;             /* L */
    uint32_t first, end;         /* the part's ids; sample does not need them */
};

/* Working memory of sample, of one PE in a slot of the ring. */
struct sl_marks_handles {
    starpu_data_handle_t bytes; /* sl_marks_bytes(n_vertices, max_fanout), cleared once before their first use */
    uint32_t n_vertices;        /* N */
    uint32_t max_fanout;        /* of all hops */
};

/* The block of one PE and hop, in a slot of the ring: vectors of uint32 at capacity. */
struct sl_block {
    starpu_data_handle_t edge_offsets, edge_sources, back_offsets, back_rows;
    starpu_data_handle_t request; /* a list by owner */
    starpu_data_handle_t inverse; /* a list by requester of what it asks of this PE, written by merge */
};

/* train_dataset_ids, new_ids: uint32 vectors; keys: room for n struct sl_permute_key, written (no scratch
 * of StarPU's, which each worker in turn would allocate); order: n, written. */
enum sl_status sl_permute_submit(const struct sl_task_args *head, uint64_t seed, uint64_t epoch, uint32_t n,
                                 starpu_data_handle_t train_dataset_ids, starpu_data_handle_t new_ids,
                                 starpu_data_handle_t keys, starpu_data_handle_t order);

/* Entries begin .. end - 1 of the order belong to this PE's group in this step. With their number the counts get to know
 * head->run->stop_wanted, as it is now. */
enum sl_status sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin, uint32_t end,
                              const struct sl_frontier_handles *frontier);

/* head->hop is the hop. */
enum sl_status sl_sample_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                const struct sl_sample_rule *rule, uint64_t seed,
                                const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                const struct sl_block *block);

#endif
