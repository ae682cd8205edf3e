/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Merge requests into frontiers, and pack rows for the requesters. */
#include "codelets/exchange.h"

#include <assert.h>
#include <string.h>

/* ---- kernels, CPU ---- */

/* Append the marked local ids to the frontier in ascending order, and clear the marks. */
static uint32_t append_marked(uint32_t n_rows, const struct sl_frontier *frontier)
{
    uint32_t n_words = (uint32_t)(((uint64_t)frontier->n_part + 63) / 64);
    for (uint32_t w = 0; w < n_words; w++) {
        for (uint64_t bits = frontier->words[w]; bits != 0; bits &= bits - 1) {
            uint32_t local = 64 * w + (uint32_t)__builtin_ctzll(bits);
            frontier->row_of[local] = n_rows;
            frontier->ids[n_rows++] = frontier->first + local;
        }
        frontier->words[w] = 0;
    }
    return n_rows;
}

uint32_t sl_merge_cpu(const struct sl_requests *requests, uint32_t n_rows, const struct sl_frontier *frontier,
                      uint32_t *inverse_out)
{
    const uint32_t n_parts = requests->n_parts;
    const uint32_t owner = requests->owner;
    const uint32_t *row_of = frontier->row_of;
    const uint32_t first = frontier->first;
    for (uint32_t p = 0; p < n_parts; p++) {
        const uint32_t *ids = sl_list_of(requests->list[p], n_parts, owner);
        for (uint32_t i = 0; i < sl_list_count(requests->list[p], owner); i++) {
            uint32_t local = ids[i] - first;
            frontier->words[local / 64] |= (uint64_t)(row_of[local] == SL_NONE) << local % 64;
        }
    }
    n_rows = append_marked(n_rows, frontier);
    uint32_t *rows = sl_list_entries(inverse_out, n_parts);
    uint32_t n = 0;
    inverse_out[0] = 0;
    for (uint32_t p = 0; p < n_parts; p++) {
        const uint32_t *ids = sl_list_of(requests->list[p], n_parts, owner);
        for (uint32_t i = 0; i < sl_list_count(requests->list[p], owner); i++) {
            rows[n++] = requests->of_part ? ids[i] - first : row_of[ids[i] - first];
        }
        inverse_out[p + 1] = n;
    }
    return n_rows;
}

#define AHEAD 12 /* rows prefetched ahead of the copy */

void sl_pack_cpu(enum sl_dtype dtype, uint32_t n, uint32_t n_columns, const struct sl_view *rows, void *packed_out)
{
    const size_t bytes = sl_dtype_bytes(dtype, n_columns);
    for (uint32_t i = 0; i < n; i++) {
        if (n - i > AHEAD) {
            sl_row_fetch(sl_view_row_of(dtype, rows, i + AHEAD, n_columns), bytes);
        }
        memcpy((char *)packed_out + i * bytes, sl_view_row_of(dtype, rows, i, n_columns), bytes);
    }
}

void sl_unpack_cpu(size_t row_bytes, uint32_t n, const uint32_t *rows, const void *packed, void *out)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy((char *)out + rows[i] * row_bytes, (const char *)packed + i * row_bytes, row_bytes);
    }
}

/* ---- arguments ---- */

struct merge_args {
    struct sl_task_args head;
    uint32_t n_parts, n_owners;
    struct merging {
        uint32_t owner;
        bool of_part;
        uint32_t part_first, part_end;
    } merging[SL_MAX_GROUP]; /* submitted up to merging[n_owners - 1] */
};

struct pack_args {
    struct sl_task_args head;
    uint32_t n_parts;
    uint32_t n_requesters;
    uint32_t n_chunks;
    uint32_t shift;
    struct packed {
        uint32_t requester;
        struct sl_slice_args rows;
    } packed[SL_MAX_GROUP]; /* submitted up to packed[n_requesters - 1] */
};

/* ---- implementations ---- */

/* Each owner has a buffer of each role before MERGE_REQUEST. The owners follow each other, then the requests. */
enum { MERGE_IDS, MERGE_INDEX, MERGE_COUNTS, MERGE_INVERSE, MERGE_REQUEST };
enum { PACK_INVERSE, PACK_ROWS, PACK_PACKED };

#define ONE_ASKS 2 /* positions before the entries, in a list with one requester */

static void task_requests(void *buffers[], const struct merge_args *args, struct sl_requests *out)
{
    *out = (struct sl_requests){.n_parts = args->n_parts};
    for (uint32_t p = 0; p < args->n_parts; p++) {
        out->list[p] = sl_buffer_data(buffers[MERGE_REQUEST * args->n_owners + p]);
    }
}

/* buffers: of one owner. */
static struct sl_frontier task_frontier(void *buffers[], const struct merging *merging)
{
    struct sl_frontier frontier = {.first = merging->part_first,
                                   .n_part = merging->part_end - merging->part_first,
                                   .ids = sl_buffer_data(buffers[MERGE_IDS]),
                                   .row_of = sl_buffer_data(buffers[MERGE_INDEX])};
    frontier.words = (uint64_t *)(void *)(frontier.row_of + frontier.n_part + (frontier.n_part & 1));
    return frontier;
}

static enum sl_status merge_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct merge_args *args = cl_arg;
    struct sl_requests requests;
    uint32_t level = args->head.hop;
    task_requests(buffers, args, &requests);
    for (uint32_t i = 0; i < args->n_owners; i++) {
        void **own = buffers + MERGE_REQUEST * i;
        struct sl_frontier frontier = task_frontier(own, &args->merging[i]);
        uint32_t *counts = sl_buffer_data(own[MERGE_COUNTS]);
        requests.owner = args->merging[i].owner;
        requests.of_part = args->merging[i].of_part;
        counts[sl_counts_rows(level + 1)] =
            sl_merge_cpu(&requests, counts[sl_counts_rows(level)], &frontier, sl_buffer_data(own[MERGE_INVERSE]));
    }
    return SL_OK;
}

static enum sl_status pack_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct pack_args *args = cl_arg;
    const sl_real *chunk[SL_MAX_CHUNKS];
    const uint32_t *inverse = sl_buffer_data(buffers[PACK_INVERSE]);
    sl_chunks_data(buffers + PACK_ROWS, args->n_chunks, chunk);
    for (uint32_t r = 0; r < args->n_requesters; r++) {
        const struct packed *packed = &args->packed[r];
        struct sl_view rows = {chunk, args->shift, sl_list_of(inverse, args->n_parts, packed->requester)};
        void *to = buffers[packed->rows.buffer];
        sl_pack_cpu(sl_buffer_dtype(to), packed->rows.n_rows, sl_buffer_columns(to), &rows,
                    sl_slice_data(buffers, &packed->rows));
    }
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status merge_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct merge_args *args = cl_arg;
    struct sl_requests requests;
    enum sl_status st = SL_OK;
    task_requests(buffers, args, &requests);
    for (uint32_t i = 0; i < args->n_owners && st == SL_OK; i++) {
        void **own = buffers + MERGE_REQUEST * i;
        struct sl_frontier frontier = task_frontier(own, &args->merging[i]);
        requests.owner = args->merging[i].owner;
        requests.of_part = args->merging[i].of_part;
        st = sl_merge_cuda(stream, &requests, args->head.hop, sl_buffer_data(own[MERGE_COUNTS]), &frontier,
                           sl_buffer_data(own[MERGE_INVERSE]));
    }
    return st;
}

static enum sl_status pack_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct pack_args *args = cl_arg;
    const sl_real *chunk[SL_MAX_CHUNKS];
    void *packed[SL_MAX_GROUP];
    uint32_t requester[SL_MAX_GROUP];
    uint32_t n_rows[SL_MAX_GROUP];
    size_t row_bytes = 0;
    sl_chunks_data(buffers + PACK_ROWS, args->n_chunks, chunk);
    for (uint32_t r = 0; r < args->n_requesters; r++) {
        requester[r] = args->packed[r].requester;
        packed[r] = sl_slice_data(buffers, &args->packed[r].rows);
        n_rows[r] = args->packed[r].rows.n_rows;
        void *to = buffers[args->packed[r].rows.buffer];
        row_bytes = sl_dtype_bytes(sl_buffer_dtype(to), sl_buffer_columns(to));
    }
    return sl_pack_cuda(stream, row_bytes, args->n_chunks, args->shift, (const void *const *)chunk, args->n_parts,
                        sl_buffer_data(buffers[PACK_INVERSE]), args->n_requesters, requester, n_rows, packed);
}
#endif

/* ---- operations ---- */

static struct sl_operation merge_op = {
    SL_OPERATION(merge_op, "sl_merge", SL_STAGE_SAMPLE),
    .cpu = merge_cpu_task,
    SL_CUDA_FUNC(merge_cuda_task),
    .role = {{"frontier", STARPU_RW | SL_REPEATED},
             {"index", STARPU_RW | SL_REPEATED},
             {"counts", STARPU_RW | SL_REPEATED},
             {"inverse", STARPU_W | SL_REPEATED},
             {"request", STARPU_R | SL_REPEATED}},
};

static struct sl_operation pack_op = {
    SL_OPERATION(pack_op, "sl_pack", SL_STAGE_EXCHANGE),
    .cpu = pack_cpu_task,
    SL_CUDA_FUNC(pack_cuda_task),
    .role = {{"inverse", STARPU_R}, {"rows", STARPU_R | SL_REPEATED}, {"packed", STARPU_W | SL_OR_RW | SL_REPEATED}},
};

struct unpack {
    struct sl_task_args head;
    struct sl_matrix packed, rows, out;
};

static enum sl_status unpack(const void *view, const void *stream)
{
    const struct unpack *v = view;
    return SL_RUN(stream, sl_unpack, sl_dtype_bytes(v->out.dtype, v->out.n_columns), v->packed.n_rows, v->rows.data,
                  v->packed.data, v->out.data);
}

static struct sl_operation unpack_op = {
    SL_OPERATION(unpack_op, "sl_unpack", SL_STAGE_EXCHANGE),
    SL_BODY(unpack, struct unpack),
    .role = {{"packed", STARPU_R, offsetof(struct unpack, packed), "D x F", SL_ANY},
             {"rows", STARPU_R, offsetof(struct unpack, rows), "D", SL_INTS_32},
             {"out", STARPU_RW, offsetof(struct unpack, out), "? x F", SL_ANY}},
};

/* ---- submissions ---- */

static void check_merging(uint32_t n_parts, const struct sl_merging *merging)
{
    const struct sl_frontier_handles *frontier = &merging->frontier;
    size_t room = starpu_vector_get_nx(frontier->index);
    assert(merging->owner < n_parts);
    assert(frontier->end >= frontier->first);
    assert(room >= sl_index_bytes(frontier->end - frontier->first));
}

enum sl_status sl_merge_submit(const struct sl_task_args *head, uint32_t n_parts, const starpu_data_handle_t *request,
                               uint32_t n_owners, const struct sl_merging *owners)
{
    struct merge_args args = {.head = *head, .n_parts = n_parts, .n_owners = n_owners};
    struct sl_task task;
    assert(n_parts <= SL_MAX_GROUP);
    assert(n_owners <= n_parts);
    args.head.work = 0;
    sl_task_begin(&task, &merge_op);
    for (uint32_t i = 0; i < n_owners; i++) {
        const struct sl_frontier_handles *frontier = &owners[i].frontier;
        check_merging(n_parts, &owners[i]);
        args.merging[i] = (struct merging){owners[i].owner, owners[i].of_part, frontier->first, frontier->end};
        args.head.work += 16 * (uint64_t)starpu_vector_get_nx(frontier->ids);
        sl_task_add(&task, MERGE_IDS, frontier->ids, STARPU_RW);
        sl_task_add(&task, MERGE_INDEX, frontier->index, STARPU_RW);
        sl_task_add(&task, MERGE_COUNTS, frontier->counts, STARPU_RW);
        sl_task_add(&task, MERGE_INVERSE, owners[i].inverse, STARPU_W);
    }
    sl_task_add_each(&task, MERGE_REQUEST, n_parts, request, STARPU_R);
    size_t bytes = offsetof(struct merge_args, merging) + n_owners * sizeof *args.merging;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_SAMPLE);
}

/* The rows of one requester must fit the owner's rows and the inverse. */
static void check_pack(const struct sl_rows *rows, starpu_data_handle_t inverse, uint32_t n_parts, uint32_t requester,
                       const struct sl_slice *packed)
{
    uint32_t n = packed->n_rows;
    uint32_t n_columns = sl_handle_columns(packed->handle);
    uint32_t room = starpu_vector_get_nx(inverse);
    size_t element = sl_handle_element(packed->handle);
    assert(rows->split.n_chunks <= 0 || sl_handle_element(rows->chunk[0]) == element);
    assert(n_columns == rows->n_columns);
    assert(requester < n_parts);
    assert(room > n_parts);
    assert(n < room - n_parts);
}

enum sl_status sl_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t n_parts,
                              starpu_data_handle_t inverse, uint32_t n_requesters, const uint32_t *requester,
                              const struct sl_slice *packed)
{
    struct pack_args args = {.head = *head, .n_parts = n_parts, .n_requesters = n_requesters};
    struct sl_task task;
    assert(n_parts <= SL_MAX_GROUP);
    assert(n_requesters <= n_parts);
    assert(rows->split.n_chunks <= SL_MAX_CHUNKS);
    args.n_chunks = rows->split.n_chunks;
    args.shift = rows->split.shift;
    args.head.work = 0;
    for (uint32_t r = 0; r < n_requesters; r++) {
        check_pack(rows, inverse, n_parts, requester[r], &packed[r]);
        args.head.work += 2 * sl_handle_element(packed[r].handle) * (uint64_t)packed[r].n_rows * rows->n_columns;
    }
    sl_task_begin(&task, &pack_op);
    sl_task_add(&task, PACK_INVERSE, inverse, STARPU_R);
    sl_task_add_each(&task, PACK_ROWS, args.n_chunks, rows->chunk, STARPU_R);
    for (uint32_t r = 0; r < n_requesters; r++) {
        args.packed[r] = (struct packed){requester[r], sl_task_add_slice(&task, PACK_PACKED, &packed[r], STARPU_W)};
    }
    size_t bytes = offsetof(struct pack_args, packed) + n_requesters * sizeof *args.packed;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_SEND);
}

enum sl_status sl_unpack_submit(const struct sl_task_args *head, starpu_data_handle_t packed, starpu_data_handle_t rows,
                                starpu_data_handle_t out)
{
    struct unpack v = {.head = *head, .packed = sl_matrix_of(packed), .out = sl_matrix_of(out)};
    v.rows = sl_matrix_rows(rows, ONE_ASKS, v.packed.n_rows);
    assert(v.packed.n_rows <= v.out.n_rows && v.packed.dtype == v.out.dtype);
    v.head.work = 2 * sl_dtype_bytes(v.out.dtype, sl_matrix_entries(&v.packed));
    return sl_view_submit(&unpack_op, &v, SL_PRIORITY_COMPUTE);
}
