/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sample: a PE's seeds, and the in-edges drawn for its frontier, hop by hop.
 *   before: the epoch's permutation (hop 0), or merge of the previous hop (codelets/sampling/exchange.h)
 *   after:  codelets/sampling/exchange.h merges the requests between the PEs of a group
 *
 *   neighbor  min(k, degree) in-neighbours without replacement (Hamilton et al. 2017), by Floyd's selection with key
 *             (step, hop, destination, draw).
 *   slow      the min(k, degree) in-neighbours with the smallest keys. An edge's key changes slowly over kappa steps,
 *             as r_t of labor. Each destination has its own keys, so none share their picks.
 *   replaced  k in-neighbours with replacement, uniformly, with key (step, hop, destination, draw). A block has an edge
 *             for each draw, so the edges of a destination may have the same source. No in-neighbours: no edges.
 *   labor     LABOR-0, sequential Poisson (Balin, Catalyurek, NeurIPS 2023): the min(k, degree) in-neighbours t with
 *             the smallest r_t, ties by id. r_t depends on (step, hop, t) only. So destinations share their picks, also
 *             across PEs. layer_dependency: r_t is the same for all hops. kappa: r_t changes slowly over kappa steps
 *             (sl_labor_turn). LABOR-1 and further: codelets/sampling/importance.h.
 *   full      all in-neighbours.
 *   weighted  min(k, number of in-neighbours with a positive weight) in-neighbours without replacement, in proportion
 *             to the weights of the edges (codelets/sampling/labor.h). Keys depend on (step, hop, destination, source,
 *             relation).
 *
 * Fanouts by relation (all but full). The in-edges of a destination with one relation are a run of its list. Each run
 * has the fanout of its relation, and is drawn as if it was a list of its own. The draws of neighbor, replaced and
 * weighted have another seed for each relation. r_t of labor is the same for all relations, so relations share their
 * picks, too. A graph with one relation draws the edges of a plain graph.
 *
 * Edges may be excluded (struct sl_excluded), after the draw, so the others are drawn as ever. The block of a mean, or
 * of attention, drops them. Sums with vertex factors (codelets/sums/aggregate.h) divide by the number of drawn edges.
 * In their blocks a self loop of the destination takes the place of an excluded edge: it counts, and has weight 0.
 *
 * The owner of a vertex samples it. A draw depends on the vertex's dataset id and not on the batch. The sampled
 * edges are therefore the same for every partition, group size and order.
 *
 * The block of hop l has D destinations S_p^l, E edges and T distinct sources, sorted by renumbered id.
 *
 *   edge_offsets    D + 1  edges of destination d: edge_offsets[d] .. edge_offsets[d + 1] - 1, ordered by the
 *                          source's dataset id.
 *   edge_sources    E      position of each edge's source among the T sources.
 *   back_offsets    T + 1  if gradients return to sources, the transposed block: edges of source t.
 *   back_rows       E      destination of each edge, ascending.
 *   request                the ids of the T sources, ascending, as a list by owner.
 *   edge_weights    E      if sums use weights: the weight of each edge, in the order of edge_sources.
 *   back_weights    E      the same, in the order of back_rows.
 *   edge_relations  E      if sums are by relation: the relation of each edge, in the order of edge_sources. The edges
 *                          of a destination are then ordered by relation, then by the source's dataset id.
 *   back_relations  E      the same, in the order of back_rows.
 *   edge_rows       E      if edges have features: the row of each edge in the part's table, in the order of
 *                          edge_sources.
 *   back_edges      E      if attention reads the features: the same, in the order of back_rows.
 *
 * A part is a range of ids. The sources of one owner are therefore a range of positions, and owners follow each
 * other.
 *
 * A list by PE is one vector of uint32: G + 1 positions, then the entries. PE q has entries position[q] ..
 * position[q + 1] - 1. A device can thus find the entries of each PE without the host. There is one handle per PE
 * instead of one per pair of PEs. Each PE of the group receives the whole request: four bytes a source, while a
 * requested row has hundreds.
 */
#ifndef SL_CODELETS_SAMPLE_H
#define SL_CODELETS_SAMPLE_H

#include "codelets/sampling/labor.h"
#include "codelets/sampling/runs.h"
#include "support/random.h"
#include "support/status.h"
#include "tasks/task.h"

enum sl_sample_method {
    SL_SAMPLE_NEIGHBOR,
    SL_SAMPLE_LABOR,
    SL_SAMPLE_FULL,
    SL_SAMPLE_WEIGHTED,
    SL_SAMPLE_REPLACED,
    SL_SAMPLE_SLOW
};

/* How to draw. Scalars only, since it is part of the task's arguments. */
struct sl_sample_rule {
    enum sl_sample_method method;
    uint32_t fanout; /* of this hop, >= 1; full ignores it. By relation: the largest */
    bool layer_dependency;
    uint32_t kappa; /* 1: new r_t in each step; 0: the same r_t in all steps */
};

/* Whether the rule picks the smallest of LABOR's keys. */
static inline SL_HOST_DEVICE bool sl_sample_by_keys(const struct sl_sample_rule *rule)
{
    return rule->method == SL_SAMPLE_LABOR || rule->method == SL_SAMPLE_SLOW;
}

/* The keys of a destination (a dataset id). 1 is added, as 0 stands for keys of sources alone. */
static inline SL_HOST_DEVICE struct sl_labor_turn
sl_labor_turn_of(const struct sl_labor_turn *turn, const struct sl_sample_rule *rule, uint32_t destination)
{
    struct sl_labor_turn own = *turn;
    if (rule->method == SL_SAMPLE_SLOW) {
        own.draw = destination + 1;
    }
    return own;
}

/* ---- the sizes of one PE's sample, in one vector of uint32 (L = n_hops levels, G owners) ---- */

/* Index of |S^level|, level 0 .. L. */
static inline uint32_t sl_counts_rows(uint32_t level)
{
    return level;
}
/* Index of the number of edges in the block of `hop`. */
static inline uint32_t sl_counts_edges(uint32_t n_hops, uint32_t hop)
{
    return n_hops + 1 + hop;
}
/* Index of a flag, written with the seeds: not 0 if the PE's rank was asked to stop (struct sl_run). */
static inline uint32_t sl_counts_stop(uint32_t n_hops)
{
    return 2 * n_hops + 1;
}
/* Index of the first of G + 1 positions of the request of `hop`: the first source of each owner, then T. */
static inline uint32_t sl_counts_request(uint32_t n_hops, uint32_t n_parts, uint32_t hop)
{
    return sl_counts_stop(n_hops) + 1 + hop * (n_parts + 1);
}
/* Index of the number of nonzeros in the rows of S^L: a uint64 in two elements. The index is even, so the number is
 * aligned if the vector is. Written only if features are sparse, by codelets/sampling/nonzeros.h. */
static inline uint32_t sl_counts_nonzeros(uint32_t n_hops, uint32_t n_parts)
{
    uint32_t end = sl_counts_request(n_hops, n_parts, n_hops);
    return end + (end & 1);
}
/* Number of elements of a counts vector. */
static inline uint32_t sl_counts_size(uint32_t n_hops, uint32_t n_parts)
{
    return sl_counts_nonzeros(n_hops, n_parts) + 2;
}

/* ---- lists by PE ---- */

/* The entries of all PEs, and the entries of PE q. */
static inline SL_HOST_DEVICE uint32_t *sl_list_entries(uint32_t *list, uint32_t n_parts)
{
    return list + n_parts + 1;
}
static inline SL_HOST_DEVICE const uint32_t *sl_list_of(const uint32_t *list, uint32_t n_parts, uint32_t q)
{
    return list + n_parts + 1 + list[q];
}
/* Number of entries of PE q. */
static inline SL_HOST_DEVICE uint32_t sl_list_count(const uint32_t *list, uint32_t q)
{
    return list[q + 1] - list[q];
}

/* The sizes of one hop: its destinations; for writing, its edges and the G + 1 positions of its request. */
struct sl_sample_sizes {
    const uint32_t *n_rows;
    uint32_t *n_edges, *positions; /* positions NULL, on CPUs only: not wanted */
};

/* The same among a PE's counts. */
static inline struct sl_sample_sizes sl_sizes_in(uint32_t *counts, uint32_t n_hops, uint32_t n_parts, uint32_t hop)
{
    return (struct sl_sample_sizes){.n_rows = counts + sl_counts_rows(hop),
                                    .n_edges = counts + sl_counts_edges(n_hops, hop),
                                    .positions = counts + sl_counts_request(n_hops, n_parts, hop)};
}

/* ---- arithmetic of one item, host and device ---- */

/* Number of edges that the rule draws for a vertex of this degree. If degree <= fanout: all edges. `weighted` counts
 * only in-neighbours with a positive weight as degree. `replaced` draws `fanout` edges from any list but an empty one;
 * UINT32_MAX stands for all. */
static inline SL_HOST_DEVICE uint32_t sl_sample_count(const struct sl_sample_rule *rule, uint32_t degree)
{
    if (rule->method == SL_SAMPLE_REPLACED && rule->fanout != UINT32_MAX) {
        return degree == 0 ? 0 : rule->fanout;
    }
    return rule->method == SL_SAMPLE_FULL || degree < rule->fanout ? degree : rule->fanout;
}

/* Insert `value` into the n ascending values picked[0], picked[stride], ... Returns 0 if the value is already there.
 * Fanouts are small, so a scan from the end is faster than a binary search. */
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

/* Draw k < degree of the positions 0 .. degree - 1 without replacement, by Floyd's algorithm (Bentley, Floyd 1987).
 * If a value is drawn twice, the largest value of the round replaces it, because no earlier round can have picked
 * it. `vertex` is a dataset id. Position i, in ascending order, is stored in picked_out[i * stride]. */
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

/* Draw k of the positions 0 .. degree - 1 with replacement, degree > 0. They are stored in ascending order. */
SL_INLINE SL_HOST_DEVICE void sl_pick_replaced(const struct sl_draw *draw, uint32_t vertex, uint32_t degree, uint32_t k,
                                               uint32_t *picked_out)
{
    for (uint32_t i0 = 0; i0 < k; i0 += 4) {
        uint32_t bits[4];
        sl_random4(draw, vertex, i0 / 4, bits);
        for (uint32_t j = 0; j < 4 && i0 + j < k; j++) {
            const uint32_t pick = sl_random_below(bits[j], degree);
            uint32_t position = i0 + j;
            for (; position > 0 && picked_out[position - 1] > pick; position--) {
                picked_out[position] = picked_out[position - 1];
            }
            picked_out[position] = pick;
        }
    }
}

/* The slowly changing variate of LABOR's keys. Host only: cos and sin are computed once for all keys. */
SL_EXTERN_C struct sl_labor_turn sl_labor_turn(uint64_t seed, uint64_t step, uint32_t hop,
                                               const struct sl_sample_rule *rule);

/* ---- edges that a step must not sample (--link-exclude) ----
 *
 * A hash table with open addresses. Its size is a power of two, and half of its entries or more are free. An edge is
 * stored as destination << 32 | source. */

#define SL_NO_EDGE UINT64_MAX /* a free entry */

struct sl_excluded {
    const uint64_t *table; /* NULL: no edge is excluded */
    uint32_t mask;         /* number of entries - 1 */
    uint32_t loops;        /* not 0: a self loop takes the place of each edge, else they are dropped */
};

static inline SL_HOST_DEVICE uint64_t sl_edge_key(sl_vertex source, sl_vertex destination)
{
    return (uint64_t)destination << 32 | source;
}
/* The entry where the search for an edge begins. It goes on with the entries after it, from the last to the first. */
static inline SL_HOST_DEVICE uint32_t sl_edge_entry(uint64_t key, uint32_t mask)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
}
static inline SL_HOST_DEVICE bool sl_is_excluded(const struct sl_excluded *excluded, sl_vertex source,
                                                 sl_vertex destination)
{
    const uint64_t key = sl_edge_key(source, destination);
    uint32_t i = sl_edge_entry(key, excluded->mask);
    while (excluded->table[i] != SL_NO_EDGE && excluded->table[i] != key) {
        i = (i + 1) & excluded->mask;
    }
    return excluded->table[i] == key;
}

/* ---- kernels, CPU ---- */

/* The part whose vertices are sampled. All ids are renumbered, except dataset_ids. */
struct sl_sample_part {
    const uint64_t *offsets; /* [n_part + 1]; only differences to offsets[0] are used */
    /* lists of in-neighbours, one for each vertex of the part, ordered by dataset id; sources[0] is entry offsets[0] */
    const sl_vertex *sources;
    const sl_vertex *dataset_ids; /* [N], of all vertices */
    const uint32_t *first;        /* [G + 1], first id of each part of the group */
    uint32_t n_parts;             /* G */
    uint32_t part;                /* index of the sampled part */
    const float *weights;         /* of the edges, as `sources`. NULL: none */
    const uint16_t *relations;    /* the same. NULL: the graph is not typed */
    const uint32_t *rows;         /* the same, in the table of edge features. NULL: none */
    const uint32_t *fanouts;      /* [R], >= 1, by relation. NULL: the rule's, over all */
    struct sl_excluded excluded;  /* after the draw */
};

/* The list of in-neighbours of one vertex. */
struct sl_neighbours {
    const sl_vertex *ids;
    uint32_t degree;
    uint64_t first; /* of the part's edges */
};

static inline SL_HOST_DEVICE struct sl_neighbours sl_neighbours_of(const struct sl_sample_part *part, sl_vertex vertex)
{
    const uint64_t *bounds = part->offsets + (vertex - part->first[part->part]);
    const uint64_t first = bounds[0] - part->offsets[0];
    const struct sl_neighbours list = {part->sources + first, (uint32_t)(bounds[1] - bounds[0]), first};
    return list;
}

/* The next run of one relation, after *run; {0}: the first. Returns false after the last. relations: of the part. NULL:
 * the list is one run, of relation 0. */
static inline SL_HOST_DEVICE bool sl_next_relation(const uint16_t *relations, const struct sl_neighbours *from,
                                                   struct sl_edge_run *run)
{
    if (run->end == from->degree) {
        return false;
    }
    if (relations == NULL) {
        run->end = from->degree;
    } else {
        *run = sl_run_at(relations + from->first, run->end, from->degree);
    }
    return true;
}

/* The next run that is drawn as a list of its own. Without fanouts by relation the list is one run. */
static inline SL_HOST_DEVICE bool sl_next_run(const struct sl_sample_part *part, const struct sl_neighbours *from,
                                              struct sl_edge_run *run)
{
    return sl_next_relation(part->fanouts == NULL ? NULL : part->relations, from, run);
}

/* A run as a list. */
static inline SL_HOST_DEVICE struct sl_neighbours sl_neighbours_in(const struct sl_neighbours *from,
                                                                   const struct sl_edge_run *run)
{
    const struct sl_neighbours list = {from->ids + run->begin, run->end - run->begin, from->first + run->begin};
    return list;
}

/* The rule of a run: it has the fanout of its relation. */
static inline SL_HOST_DEVICE struct sl_sample_rule
sl_rule_of_run(const struct sl_sample_part *part, const struct sl_sample_rule *rule, const struct sl_edge_run *run)
{
    struct sl_sample_rule own = *rule;
    if (part->fanouts != NULL) {
        own.fanout = part->fanouts[run->relation];
    }
    return own;
}

/* Working memory of one PE and ring slot. W = ceil(N / 64). words and touched are zero before and after each call.
 *   words    [W]
 *   touched  [ceil(W / 64)], used by sl_sample_cpu only
 *   ranks    [W]
 *   heap     [fanout], used by labor, slow and weighted on CPUs only */
struct sl_sample_marks {
    uint32_t n_vertices; /* N */
    uint64_t *words;
    uint64_t *touched;
    uint32_t *ranks;
    struct sl_labor_pick *heap;
};

/* Bytes of the marks of a graph of n_vertices vertices, in the order heap, words, touched, ranks. */
static inline size_t sl_marks_bytes(uint32_t n_vertices, uint32_t max_fanout)
{
    size_t n_words = ((size_t)n_vertices + 63) / 64;
    return sizeof(struct sl_labor_pick) * max_fanout + 12 * n_words + 8 * ((n_words + 63) / 64);
}

/* The marks in such bytes. */
static inline struct sl_sample_marks sl_marks_in(void *bytes, uint32_t n_vertices, uint32_t max_fanout)
{
    const uint64_t n_words = ((uint64_t)n_vertices + 63) / 64;
    struct sl_sample_marks marks;
    marks.n_vertices = n_vertices;
    marks.heap = (struct sl_labor_pick *)bytes;
    marks.words = (uint64_t *)(void *)(marks.heap + max_fanout);
    marks.touched = marks.words + n_words;
    marks.ranks = (uint32_t *)(void *)(marks.touched + (n_words + 63) / 64);
    return marks;
}

/* Output arrays of a block. Required capacity: edge_sources and back_rows E, for the edges of all destinations;
 * edge_offsets D + 1; back_offsets T + 1; request T + G + 1. On a GPU all max_rows + 1 edge offsets are written, and
 * arrays of E may be up to max_edges.
 * back_offsets: NULL: without the transposed block. */
struct sl_sample_block {
    uint32_t *edge_offsets, *edge_sources;
    uint32_t *back_offsets, *back_rows;
    uint32_t *request;
    uint32_t max_rows, max_edges; /* entries of edge_offsets less one, and of edge_sources; the CPU ignores them */
    float *edge_weights, *back_weights; /* E; NULL: not written */
    uint16_t *edge_relations, *back_relations;
    uint32_t *edge_rows, *back_edges; /* E; NULL: not written */
};

/* A frontier and its index. The part has the ids first .. first + n_part - 1. words is zero before and after each
 * call. */
struct sl_frontier {
    uint32_t first, n_part;
    sl_vertex *ids;   /* [n_part], ids of the rows so far */
    uint32_t *row_of; /* [n_part], row of a local id (id - first), SL_NONE if none */
    uint64_t *words;  /* [ceil(n_part / 64)], used by merge only (codelets/sampling/exchange.h) */
};

/* Sample the destinations `frontier`: write edges, transposed block, request and sizes. draw: purpose SL_FOR_SAMPLING,
 * step, hop. On a GPU, marks->heap is not used, and the same edges are drawn. Sizes stay on the GPU: grids and
 * working memory are those of max_rows and max_edges. Only if max_edges is large, or says little, as without a limit of
 * the fanout, it waits once for the stream, to know the number of edges. */
SL_DECLARE_LAUNCHER(void, sl_sample, const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                    const struct sl_draw *draw, const sl_vertex *frontier, const struct sl_sample_marks *marks,
                    const struct sl_sample_sizes *sizes, const struct sl_sample_block *block);

/* Complete a block whose n_edges edges have ids as sources, all marked in marks->words. Writes the request, the
 * positions, the transposed block and its sizes. Clears the words. Of `part` only first and n_parts are read. On a GPU
 * the sources need not be marked, n_rows and n_edges are upper bounds, and edge_offsets has max_rows + 1 entries. */
SL_DECLARE_LAUNCHER(void, sl_block_close, const struct sl_sample_part *part, uint32_t n_rows, uint32_t n_edges,
                    const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                    const struct sl_sample_block *block);

/* Mark an id. Number of marked ids that are smaller than an id; ranks: of the words. */
SL_INLINE void sl_mark_cpu(uint64_t *words, sl_vertex id)
{
    words[id / 64] |= UINT64_C(1) << id % 64;
}
SL_INLINE uint32_t sl_rank_cpu(const uint64_t *words, const uint32_t *ranks, sl_vertex id)
{
    const uint64_t below = words[id / 64] & ((UINT64_C(1) << id % 64) - 1);
    return ranks[id / 64] + (uint32_t)__builtin_popcountll(below);
}

/* List the marked ids by owner, and write the ranks. Of `part` only first and n_parts are read. Returns their number.
 */
uint32_t sl_list_marked_cpu(const struct sl_sample_part *part, const uint64_t *words, uint32_t *ranks,
                            uint32_t *list_out);

/* The order of the training vertices in an epoch: renumbered ids sorted by (hash(seed, epoch, dataset id), dataset
 * id). train_dataset_ids, which must ascend on a GPU, and order_out: [n]. new_ids: [N], renumbered id of each dataset
 * id. keys: [n], working memory. */
struct sl_permute_key {
    uint64_t hash;
    sl_vertex dataset_id;
    sl_vertex id;
};
SL_DECLARE_LAUNCHER(void, sl_permute, uint64_t seed, uint64_t epoch, uint32_t n, const sl_vertex *train_dataset_ids,
                    const sl_vertex *new_ids, struct sl_permute_key *keys, sl_vertex *order_out);

/* Remove the rows of the old frontier, of the last level of n_hops. The new frontier gets the ids of order[0 .. n)
 * that the part owns, in this order. Writes the number of rows of level 0, and the flag `stop`, into the counts. */
SL_DECLARE_LAUNCHER(void, sl_seed, uint32_t n, const sl_vertex *order, uint32_t n_hops, bool stop, uint32_t *counts,
                    const struct sl_frontier *frontier);

/* ---- handles ---- */

/* Handles of one part of the graph. They are read only, and StarPU's sequential consistency is off for them. */
struct sl_part_handles {
    starpu_data_handle_t offsets;     /* uint64 [n_part + 1] */
    starpu_data_handle_t sources;     /* uint32 */
    starpu_data_handle_t dataset_ids; /* uint32 [N] */
    starpu_data_handle_t first;       /* uint32 [G + 1] */
    starpu_data_handle_t weights;     /* float, as `sources`. NULL: none are used */
    starpu_data_handle_t relations;   /* uint16, as `sources`. NULL: none are used */
    starpu_data_handle_t rows;        /* uint32, as `sources`. NULL: edges have no features */
    starpu_data_handle_t fanouts;     /* uint32 [R], by relation, of the hop. NULL: the rule's, over all relations */
    starpu_data_handle_t excluded;    /* uint64: the table of a struct sl_excluded. NULL: none */
    uint32_t n_parts, part;
    bool loops; /* of the struct sl_excluded; not used by importance */
};

/* The frontier of one PE in a ring slot. */
struct sl_frontier_handles {
    starpu_data_handle_t ids; /* uint32 at capacity */
    starpu_data_handle_t
        index; /* sl_index_bytes(end - first) bytes (codelets/sampling/exchange.h); not used by sample */
    starpu_data_handle_t counts; /* uint32 [sl_counts_size(n_hops, G)] */
    uint32_t n_hops;             /* L */
    uint32_t first, end;         /* the part's ids first .. end - 1; not used by sample */
};

/* Working memory of sample for one PE in a ring slot. */
struct sl_marks_handles {
    starpu_data_handle_t bytes; /* sl_marks_bytes(n_vertices, max_fanout) bytes, cleared once before the first use */
    uint32_t n_vertices;        /* N */
    uint32_t max_fanout;        /* largest fanout of all hops */
};

/* The block of one PE and hop in a ring slot: vectors of uint32 at capacity. */
struct sl_block {
    starpu_data_handle_t edge_offsets, edge_sources, back_offsets, back_rows;
    starpu_data_handle_t request; /* a list by owner */
    starpu_data_handle_t inverse; /* a list by requester of the rows requested from this PE, written by merge */
    starpu_data_handle_t edge_weights, back_weights;     /* float at capacity. NULL: sums do not use weights */
    starpu_data_handle_t edge_relations, back_relations; /* uint16 at capacity. NULL: sums are not by relation */
    starpu_data_handle_t edge_rows;                      /* uint32 at capacity. NULL: edges have no features */
    starpu_data_handle_t back_edges;                     /* the same. NULL: no attention reads the features */
    bool of_sample; /* the weights only correct the sample (importance.h), and are not of the dataset */
};

#ifndef SL_KERNELS_ONLY

/* ---- the operands that sampling tasks share (tasks/operand.h) ---- */

/* A view begins with it, as its member `hop`. */
struct sl_hop {
    struct sl_task_args head;
    struct sl_matrix offsets, sources, dataset_ids, first, weights, relations, rows, fanouts,
        excluded; /* of the part */
    struct sl_matrix frontier, counts, marks;
    struct sl_matrix edge_offsets, edge_sources, back_offsets, back_rows, request; /* of the block */
    struct sl_matrix edge_weights, back_weights, edge_relations, back_relations, edge_rows, back_edges;
    struct sl_draw draw;
    uint32_t n_hops, n_parts, part;
    uint32_t n_vertices, max_fanout;
    uint32_t loops;
};

/* The roles of a block. */
#define SL_BLOCK_ROLES(view)                                                                                           \
    {"edge offsets", STARPU_W, offsetof(view, hop.edge_offsets), "?", SL_INTS_32},                                     \
        {"edge sources", STARPU_W, offsetof(view, hop.edge_sources), "?", SL_INTS_32},                                 \
        {"back offsets", STARPU_W | SL_OPTIONAL, offsetof(view, hop.back_offsets), "?", SL_INTS_32},                   \
        {"back rows", STARPU_W | SL_OPTIONAL, offsetof(view, hop.back_rows), "?", SL_INTS_32},                         \
    {                                                                                                                  \
        "request", STARPU_W, offsetof(view, hop.request), "?", SL_INTS_32                                              \
    }

/* The roles of what is drawn besides, and of what decides on it. */
#define SL_DRAWN_ROLES(view)                                                                                           \
    {"weights", STARPU_R | SL_OPTIONAL, offsetof(view, hop.weights), "?", SL_FLOATS},                                  \
        {"relations", STARPU_R | SL_OPTIONAL, offsetof(view, hop.relations), "?", SL_INTS_16},                         \
        {"edge relations", STARPU_W | SL_OPTIONAL, offsetof(view, hop.edge_relations), "?", SL_INTS_16},               \
        {"back relations", STARPU_W | SL_OPTIONAL, offsetof(view, hop.back_relations), "?", SL_INTS_16},               \
        {"rows", STARPU_R | SL_OPTIONAL, offsetof(view, hop.rows), "?", SL_INTS_32},                                   \
        {"edge rows", STARPU_W | SL_OPTIONAL, offsetof(view, hop.edge_rows), "?", SL_INTS_32},                         \
        {"back edges", STARPU_W | SL_OPTIONAL, offsetof(view, hop.back_edges), "?", SL_INTS_32},                       \
        {"fanouts", STARPU_R | SL_OPTIONAL, offsetof(view, hop.fanouts), "?", SL_INTS_32},                             \
    {                                                                                                                  \
        "excluded", STARPU_R | SL_OPTIONAL, offsetof(view, hop.excluded), "?", SL_INTS_64                              \
    }

/* In a submission. marks, block: NULL: none. */
struct sl_hop sl_hop_of(const struct sl_task_args *head, uint64_t seed, const struct sl_part_handles *part,
                        const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                        const struct sl_block *block);

/* Inside a task. */
struct sl_sample_part sl_hop_part(const struct sl_hop *hop);
struct sl_sample_block sl_hop_block(const struct sl_hop *hop);
struct sl_sample_sizes sl_hop_sizes(const struct sl_hop *hop);

#endif /* SL_KERNELS_ONLY */

/* ---- submissions: sampling phase; local; one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* Submit the order of an epoch. train_dataset_ids, new_ids: vectors of uint32. order: n ids, written. keys: n struct
 * sl_permute_key, written. It is not a StarPU scratch buffer, because each worker in turn would allocate it. */
enum sl_status sl_permute_submit(const struct sl_task_args *head, uint64_t seed, uint64_t epoch, uint32_t n,
                                 starpu_data_handle_t train_dataset_ids, starpu_data_handle_t new_ids,
                                 starpu_data_handle_t keys, starpu_data_handle_t order);

/* Submit the seeds of a PE: entries begin .. end - 1 of the order belong to the PE's group in this step. Also writes
 * the present value of head->run->stop_wanted into the counts. */
enum sl_status sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin, uint32_t end,
                              const struct sl_frontier_handles *frontier);

/* Submit the sampling of hop head->hop. */
enum sl_status sl_sample_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                const struct sl_sample_rule *rule, uint64_t seed,
                                const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                const struct sl_block *block);

#endif
