/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds and sampled blocks. Distinct sources are found by marking ids in a bitmap and ranking its bits, which sorts them too. */
#include "codelets/sample.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/rows.h"

/* ---- kernels, CPU ---- */

static int pick_less(const struct sl_labor_pick *a, const struct sl_labor_pick *b)
{
    return a->key < b->key || (a->key == b->key && a->position < b->position);
}

/* Restore the max-heap order below entry i. */
static void sift_down(struct sl_labor_pick *heap, uint32_t n, uint32_t i)
{
    for (uint32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && pick_less(&heap[child], &heap[child + 1])) {
            child++;
        }
        if (!pick_less(&heap[i], &heap[child])) {
            return;
        }
        struct sl_labor_pick swapped = heap[i];
        heap[i] = heap[child];
        heap[child] = swapped;
        i = child;
    }
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The k positions with the smallest keys, ascending. */
static void pick_labor(const struct sl_labor_turn *turn, const sl_vertex *neighbours, const sl_vertex *dataset_ids,
                       uint32_t degree, uint32_t k, struct sl_labor_pick *heap, uint32_t *picked)
{
    for (uint32_t i = 0; i < degree; i++) {
        struct sl_labor_pick pick = {.key = sl_labor_key(turn, dataset_ids[neighbours[i]]), .position = i};
        if (i < k) {
            heap[i] = pick;
            if (i == k - 1) {
                for (uint32_t j = k / 2; j-- > 0;) {
                    sift_down(heap, k, j);
                }
            }
        } else if (pick_less(&pick, &heap[0])) {
            heap[0] = pick;
            sift_down(heap, k, 0);
        }
    }
    for (uint32_t i = 0; i < k; i++) {
        picked[i] = heap[i].position;
    }
    qsort(picked, k, sizeof *picked, compare_u32);
}

struct sl_labor_turn sl_labor_turn(uint64_t seed, uint64_t step, uint32_t hop, const struct sl_sample_rule *rule)
{
    uint64_t group = rule->kappa == 0 ? 0 : step / rule->kappa;
    double share = rule->kappa == 0 ? 0 : (double)(step % rule->kappa) / rule->kappa;
    struct sl_labor_turn turn = {.cosine = cos(share * M_PI_2), .sine = share == 0 ? 0 : sin(share * M_PI_2)};
    turn.first = (struct sl_draw){.seed = seed, .purpose = SL_FOR_KAPPA, .step = group};
    turn.first.hop = rule->layer_dependency ? 0 : hop;
    turn.second = turn.first;
    turn.second.step = group + 1;
    return turn;
}

#define AHEAD 32 /* destinations that are drawn together, while what the next ones need is on its way from memory */

/* Where the in-neighbours of a vertex are. */
struct neighbours {
    const sl_vertex *ids;
    uint32_t degree;
};

static inline struct neighbours neighbours_of(const struct sl_sample_part *part, sl_vertex vertex)
{
    const uint64_t *bounds = part->offsets + (vertex - part->first[part->part]);
    return (struct neighbours){part->sources + (bounds[0] - part->offsets[0]), (uint32_t)(bounds[1] - bounds[0])};
}

static void fetch_bounds(const struct sl_sample_part *part, uint32_t n, const sl_vertex *frontier)
{
    for (uint32_t d = 0; d < n; d++) {
        __builtin_prefetch(part->offsets + (frontier[d] - part->first[part->part]));
        __builtin_prefetch(part->dataset_ids + frontier[d]);
    }
}

static inline uint32_t all_positions(struct neighbours from, uint32_t *picked)
{
    for (uint32_t i = 0; i < from.degree; i++) {
        picked[i] = i;
    }
    __builtin_prefetch(from.ids);
    __builtin_prefetch(from.ids + 16);
    return from.degree;
}

/* Pick positions in the in-neighbour list of every one of n destinations; the lists' lines are asked for, not read (but LABOR
 * reads them all). Returns how many edges there are then. */
static uint32_t draw_positions(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                               const struct sl_draw *draw, const struct sl_labor_turn *turn, uint32_t n,
                               const sl_vertex *frontier, struct sl_labor_pick *heap, uint32_t n_edges,
                               uint32_t *offsets_out, uint32_t *edges_out)
{
    for (uint32_t d = 0; d < n; d++) {
        struct neighbours from = neighbours_of(part, frontier[d]);
        uint32_t *picked = edges_out + n_edges;
        if (rule->method == SL_SAMPLE_FULL || from.degree <= rule->fanout) {
            n_edges += all_positions(from, picked);
        } else {
            if (rule->method == SL_SAMPLE_NEIGHBOR) {
                sl_pick_neighbor(draw, part->dataset_ids[frontier[d]], from.degree, rule->fanout, 1, picked);
            } else {
                pick_labor(turn, from.ids, part->dataset_ids, from.degree, rule->fanout, heap, picked);
            }
            for (uint32_t i = 0; i < rule->fanout; i++) {
                __builtin_prefetch(from.ids + picked[i]);
            }
            n_edges += rule->fanout;
        }
        offsets_out[d + 1] = n_edges;
    }
    return n_edges;
}

/* Draw the edges of every destination: edges_out gets ids in the order of the in-neighbour list. */
static uint32_t draw_edges(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                           const struct sl_draw *draw, const struct sl_labor_turn *turn, uint32_t n_rows,
                           const sl_vertex *frontier, struct sl_labor_pick *heap, uint32_t *offsets_out,
                           sl_vertex *edges_out)
{
    uint32_t n_edges = 0;
    offsets_out[0] = 0;
    for (uint32_t d0 = 0; d0 < n_rows; d0 += AHEAD) {
        uint32_t n = n_rows - d0 < AHEAD ? n_rows - d0 : AHEAD;
        uint32_t n_next = n_rows - d0 - n < AHEAD ? n_rows - d0 - n : AHEAD;
        fetch_bounds(part, n_next, frontier + d0 + n);
        n_edges = draw_positions(part, rule, draw, turn, n, frontier + d0, heap, n_edges, offsets_out + d0, edges_out);
        for (uint32_t d = d0; d < d0 + n; d++) {
            const sl_vertex *ids = neighbours_of(part, frontier[d]).ids;
            for (uint32_t e = offsets_out[d]; e < offsets_out[d + 1]; e++) {
                edges_out[e] = ids[edges_out[e]];
            }
        }
    }
    return n_edges;
}

/* List the marked ids by owner, and note before each word how many came before it. Returns how many in all. */
static uint32_t list_marked(const uint32_t *first, uint32_t n_parts, const struct sl_sample_marks *marks,
                            uint32_t *request_out)
{
    uint32_t n_words = (uint32_t)(((uint64_t)first[n_parts] + 63) / 64);
    uint32_t *ids = sl_list_entries(request_out, n_parts);
    uint32_t n = 0;
    uint32_t owner = 0;
    request_out[0] = 0;
    for (uint32_t w = 0; w < n_words; w++) {
        marks->ranks[w] = n;
        for (uint64_t bits = marks->words[w]; bits != 0; bits &= bits - 1) {
            sl_vertex id = 64 * w + (uint32_t)__builtin_ctzll(bits);
            while (id >= first[owner + 1]) {
                request_out[++owner] = n;
            }
            ids[n++] = id;
        }
    }
    while (owner < n_parts) {
        request_out[++owner] = n;
    }
    return n;
}

/* The block by source: a stable counting sort of the edges. */
static void transpose(uint32_t n_rows, const uint32_t *offsets, const uint32_t *sources, uint32_t n_sources,
                      uint32_t *back_offsets, uint32_t *back_rows)
{
    memset(back_offsets, 0, ((size_t)n_sources + 1) * sizeof *back_offsets);
    for (uint32_t e = 0; e < offsets[n_rows]; e++) {
        back_offsets[sources[e] + 1]++;
    }
    for (uint32_t t = 0; t < n_sources; t++) {
        back_offsets[t + 1] += back_offsets[t];
    }
    for (uint32_t d = 0; d < n_rows; d++) {
        for (uint32_t e = offsets[d]; e < offsets[d + 1]; e++) {
            back_rows[back_offsets[sources[e]]++] = d;
        }
    }
    memmove(back_offsets + 1, back_offsets, n_sources * sizeof *back_offsets);
    back_offsets[0] = 0;
}

uint32_t sl_sample_cpu(const struct sl_sample_part *part, const struct sl_sample_rule *rule, uint64_t seed,
                       uint64_t step, uint32_t hop, uint32_t n_rows, const sl_vertex *frontier,
                       struct sl_sample_marks *marks, uint32_t *edge_offsets_out, uint32_t *edge_sources_out,
                       uint32_t *back_offsets_out, uint32_t *back_rows_out, uint32_t *request_out)
{
    struct sl_draw draw = {.seed = seed, .step = step, .purpose = SL_FOR_SAMPLING, .hop = hop};
    struct sl_labor_turn turn = sl_labor_turn(seed, step, hop, rule);
    uint32_t n_edges =
        draw_edges(part, rule, &draw, &turn, n_rows, frontier, marks->heap, edge_offsets_out, edge_sources_out);
    for (uint32_t e = 0; e < n_edges; e++) {
        marks->words[edge_sources_out[e] / 64] |= UINT64_C(1) << edge_sources_out[e] % 64;
    }
    uint32_t n_sources = list_marked(part->first, part->n_parts, marks, request_out);
    for (uint32_t e = 0; e < n_edges; e++) {
        sl_vertex id = edge_sources_out[e];
        uint64_t below = marks->words[id / 64] & ((UINT64_C(1) << id % 64) - 1);
        edge_sources_out[e] = marks->ranks[id / 64] + (uint32_t)__builtin_popcountll(below);
    }
    memset(marks->words, 0, ((uint64_t)part->first[part->n_parts] + 63) / 64 * sizeof *marks->words);
    transpose(n_rows, edge_offsets_out, edge_sources_out, n_sources, back_offsets_out, back_rows_out);
    return n_edges;
}

static int compare_keys(const void *a, const void *b)
{
    const struct sl_permute_key *x = a;
    const struct sl_permute_key *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return (x->dataset_id > y->dataset_id) - (x->dataset_id < y->dataset_id);
}

#define PERMUTE_BITS 11 /* the keys are sorted within 2048 ranges of their hash */

/* The hash is worked out twice, to count the ranges and to fill them: cheaper than a place to keep it. */
void sl_permute_cpu(uint64_t seed, uint64_t epoch, uint32_t n, const sl_vertex *train_dataset_ids,
                    const sl_vertex *new_ids, struct sl_permute_key *keys, sl_vertex *order_out)
{
    struct sl_draw draw = {.seed = seed, .step = epoch, .purpose = SL_FOR_PERMUTATION};
    uint32_t end[1 << PERMUTE_BITS] = {0};
    uint32_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        end[sl_random_u64(&draw, train_dataset_ids[i], 0) >> (64 - PERMUTE_BITS)]++;
    }
    for (uint32_t r = 0, sum = 0; r < 1 << PERMUTE_BITS; r++) {
        uint32_t count = end[r];
        end[r] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        sl_vertex id = train_dataset_ids[i];
        uint64_t hash = sl_random_u64(&draw, id, 0);
        keys[end[hash >> (64 - PERMUTE_BITS)]++] = (struct sl_permute_key){hash, id, new_ids[id]};
    }
    for (uint32_t r = 0; r < 1 << PERMUTE_BITS; begin = end[r++]) {
        qsort(keys + begin, end[r] - begin, sizeof *keys, compare_keys);
    }
    for (uint32_t i = 0; i < n; i++) {
        order_out[i] = keys[i].id;
    }
}

uint32_t sl_seed_cpu(uint32_t n, const sl_vertex *order, uint32_t first, uint32_t end, uint32_t n_old,
                     sl_vertex *frontier, uint32_t *row_of)
{
    for (uint32_t r = 0; r < n_old; r++) {
        row_of[frontier[r] - first] = SL_NONE;
    }
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] >= first && order[i] < end) {
            row_of[order[i] - first] = n_rows;
            frontier[n_rows++] = order[i];
        }
    }
    return n_rows;
}

/* ---- arguments ---- */

struct permute_args {
    struct sl_task_args head;
    uint64_t seed;
    uint64_t epoch;
    uint32_t n;
};

struct seed_args {
    struct sl_task_args head;
    uint32_t n_hops;
    uint32_t begin, end;
    uint32_t part_first, part_end;
};

struct sample_args {
    struct sl_task_args head;
    uint64_t seed;
    struct sl_sample_rule rule;
    uint32_t n_hops;
    uint32_t n_parts, part;
    uint32_t n_vertices;
    uint32_t max_fanout;
};

/* ---- task wrappers ---- */

static void permute_cpu_task(void *buffers[], void *cl_arg)
{
    const struct permute_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    sl_permute_cpu(args->seed, args->epoch, args->n, sl_buffer_data(buffers[0]), sl_buffer_data(buffers[1]),
                   sl_buffer_data(buffers[2]), sl_buffer_data(buffers[3]));
    sl_task_leave(&args->head, start_s);
}

static void seed_cpu_task(void *buffers[], void *cl_arg)
{
    const struct seed_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    uint32_t *counts = sl_buffer_data(buffers[3]);
    const sl_vertex *order = sl_buffer_data(buffers[0]);
    counts[0] =
        sl_seed_cpu(args->end - args->begin, order + args->begin, args->part_first, args->part_end,
                    counts[sl_counts_rows(args->n_hops)], sl_buffer_data(buffers[1]), sl_buffer_data(buffers[2]));
    sl_task_leave(&args->head, start_s);
}

static struct sl_sample_part task_part(void *buffers[], const struct sample_args *args)
{
    return (struct sl_sample_part){sl_buffer_data(buffers[0]),
                                   sl_buffer_data(buffers[1]),
                                   sl_buffer_data(buffers[2]),
                                   sl_buffer_data(buffers[3]),
                                   args->n_parts,
                                   args->part};
}

static struct sl_sample_marks task_marks(void *buffers[], const struct sample_args *args)
{
    struct sl_sample_marks marks = {.heap = sl_buffer_data(buffers[5])};
    marks.words = (uint64_t *)(void *)(marks.heap + args->max_fanout);
    marks.ranks = (uint32_t *)(void *)(marks.words + ((uint64_t)args->n_vertices + 63) / 64);
    return marks;
}

static void sample_cpu_task(void *buffers[], void *cl_arg)
{
    const struct sample_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    struct sl_sample_part part = task_part(buffers, args);
    struct sl_sample_marks marks = task_marks(buffers, args);
    uint32_t *counts = sl_buffer_data(buffers[6]);
    const uint32_t *request = sl_buffer_data(buffers[11]);
    uint32_t hop = args->head.hop;
    counts[sl_counts_edges(args->n_hops, hop)] =
        sl_sample_cpu(&part, &args->rule, args->seed, args->head.step, hop, counts[sl_counts_rows(hop)],
                      sl_buffer_data(buffers[4]), &marks, sl_buffer_data(buffers[7]), sl_buffer_data(buffers[8]),
                      sl_buffer_data(buffers[9]), sl_buffer_data(buffers[10]), sl_buffer_data(buffers[11]));
    memcpy(counts + sl_counts_request(args->n_hops, args->n_parts, hop), request,
           ((size_t)args->n_parts + 1) * sizeof *request);
    sl_task_leave(&args->head, start_s);
}

#ifdef SL_CUDA
static void permute_cuda_task(void *buffers[], void *cl_arg)
{
    struct permute_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    enum sl_status st =
        sl_permute_cuda(starpu_cuda_get_local_stream(), args->seed, args->epoch, args->n, sl_buffer_data(buffers[0]),
                        sl_buffer_data(buffers[1]), sl_buffer_data(buffers[2]), sl_buffer_data(buffers[3]));
    sl_task_leave_cuda(&args->head, st);
}

static void seed_cuda_task(void *buffers[], void *cl_arg)
{
    struct seed_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    const sl_vertex *order = sl_buffer_data(buffers[0]);
    enum sl_status st = sl_seed_cuda(starpu_cuda_get_local_stream(), args->end - args->begin, order + args->begin,
                                     args->part_first, args->part_end, args->n_hops, sl_buffer_data(buffers[3]),
                                     sl_buffer_data(buffers[1]), sl_buffer_data(buffers[2]));
    sl_task_leave_cuda(&args->head, st);
}

static void sample_cuda_task(void *buffers[], void *cl_arg)
{
    struct sample_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    struct sl_sample_part part = task_part(buffers, args);
    struct sl_sample_marks marks = task_marks(buffers, args);
    uint32_t max_rows = sl_buffer_columns(buffers[7]) - 1;
    enum sl_status st =
        sl_sample_cuda(starpu_cuda_get_local_stream(), &part, &args->rule, args->seed, args->head.step, args->n_hops,
                       args->head.hop, args->n_vertices, max_rows, sl_buffer_data(buffers[4]), &marks,
                       sl_buffer_data(buffers[6]), sl_buffer_data(buffers[7]), sl_buffer_data(buffers[8]),
                       sl_buffer_data(buffers[9]), sl_buffer_data(buffers[10]), sl_buffer_data(buffers[11]));
    sl_task_leave_cuda(&args->head, st);
}
#endif

/* ---- codelets ---- */

static struct starpu_perfmodel permute_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_permute", .size_base = sl_task_size_base};
static struct starpu_perfmodel seed_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_seed", .size_base = sl_task_size_base};
static struct starpu_perfmodel sample_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_sample", .size_base = sl_task_size_base};

static struct starpu_codelet permute_cl = {
    .name = "sl_permute",
    .cpu_funcs = {permute_cpu_task},
    SL_CUDA_FUNC(permute_cuda_task),
    .nbuffers = 4, /* train dataset ids, new ids, keys, order */
    .modes = {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
    .model = &permute_model,
};

static struct starpu_codelet seed_cl = {
    .name = "sl_seed",
    .cpu_funcs = {seed_cpu_task},
    SL_CUDA_FUNC(seed_cuda_task),
    .nbuffers = 4, /* order, frontier, index, counts */
    .modes = {STARPU_R, STARPU_RW, STARPU_RW, STARPU_RW},
    .model = &seed_model,
};

static struct starpu_codelet sample_cl = {
    .name = "sl_sample",
    .cpu_funcs = {sample_cpu_task},
    SL_CUDA_FUNC(sample_cuda_task),
    /* R offsets, sources, dataset ids, first, frontier; RW marks, counts; W edge offsets, edge sources, back offsets,
     * back rows, request: more than a codelet can state */
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &sample_model,
};

/* ---- submissions ---- */

enum sl_status sl_permute_submit(const struct sl_task_args *head, uint64_t seed, uint64_t epoch, uint32_t n,
                                 starpu_data_handle_t train_dataset_ids, starpu_data_handle_t new_ids,
                                 starpu_data_handle_t keys, starpu_data_handle_t order)
{
    struct permute_args args = {.head = *head, .seed = seed, .epoch = epoch, .n = n};
    struct sl_task task;
    if (starpu_vector_get_nx(order) < n || starpu_vector_get_nx(keys) < n) {
        return sl_fail(SL_EINVAL, "sl_permute: %u training ids, but room for %u", n, starpu_vector_get_nx(order));
    }
    args.head.stage = SL_STAGE_SAMPLE;
    args.head.work = (uint64_t)n * sizeof(struct sl_permute_key);
    sl_task_begin(&task, &permute_cl);
    sl_task_add(&task, train_dataset_ids, STARPU_R);
    sl_task_add(&task, new_ids, STARPU_R);
    sl_task_add(&task, keys, STARPU_W);
    sl_task_add(&task, order, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_seed_submit(const struct sl_task_args *head, uint32_t n_hops, starpu_data_handle_t order,
                              uint32_t begin, uint32_t end, uint32_t part_first, uint32_t part_end,
                              starpu_data_handle_t frontier, starpu_data_handle_t index, starpu_data_handle_t counts)
{
    struct seed_args args = {.head = *head, .n_hops = n_hops, .begin = begin, .end = end};
    struct sl_task task;
    if (begin > end || end > starpu_vector_get_nx(order)) {
        return sl_fail(SL_EINVAL, "sl_seed: entries %u to %u of an order of %u", begin, end,
                       starpu_vector_get_nx(order));
    }
    args.part_first = part_first;
    args.part_end = part_end;
    args.head.stage = SL_STAGE_SAMPLE;
    args.head.work = 4 * (uint64_t)(end - begin);
    sl_task_begin(&task, &seed_cl);
    sl_task_add(&task, order, STARPU_R);
    sl_task_add(&task, frontier, STARPU_RW);
    sl_task_add(&task, index, STARPU_RW);
    sl_task_add(&task, counts, STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_sample_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                const struct sl_sample_rule *rule, uint64_t seed, uint32_t n_hops, uint32_t n_vertices,
                                uint32_t max_fanout, starpu_data_handle_t frontier, starpu_data_handle_t marks,
                                starpu_data_handle_t counts, const struct sl_block *block)
{
    struct sample_args args = {.head = *head, .seed = seed, .rule = *rule, .n_hops = n_hops};
    struct sl_task task;
    if (part->n_parts > SL_MAX_PES || starpu_vector_get_nx(marks) < sl_marks_bytes(n_vertices, max_fanout) ||
        (rule->method == SL_SAMPLE_LABOR && rule->fanout > max_fanout)) {
        return sl_fail(SL_EINVAL, "sl_sample: %u parts (at most %d), fanout %u (at most %u)", part->n_parts, SL_MAX_PES,
                       rule->fanout, max_fanout);
    }
    args.n_parts = part->n_parts;
    args.part = part->part;
    args.n_vertices = n_vertices;
    args.max_fanout = max_fanout;
    args.head.stage = SL_STAGE_SAMPLE;
    args.head.work = 64 * (uint64_t)starpu_vector_get_nx(block->edge_sources);
    sl_task_begin(&task, &sample_cl);
    sl_task_add(&task, part->offsets, STARPU_R);
    sl_task_add(&task, part->sources, STARPU_R);
    sl_task_add(&task, part->dataset_ids, STARPU_R);
    sl_task_add(&task, part->first, STARPU_R);
    sl_task_add(&task, frontier, STARPU_R);
    sl_task_add(&task, marks, STARPU_RW);
    sl_task_add(&task, counts, STARPU_RW);
    sl_task_add(&task, block->edge_offsets, STARPU_W);
    sl_task_add(&task, block->edge_sources, STARPU_W);
    sl_task_add(&task, block->back_offsets, STARPU_W);
    sl_task_add(&task, block->back_rows, STARPU_W);
    sl_task_add(&task, block->request, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
