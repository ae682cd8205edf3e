/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Requests merged into frontiers, and rows packed for those who asked. */
#include "codelets/exchange.h"

#include <string.h>

#include "codelets/sample.h"

/* ---- kernels, CPU ---- */

/* Append the marked local ids to the frontier, ascending, and clear the marks. */
static uint32_t append_marked(uint32_t first, uint32_t n_part, uint32_t n_rows, sl_vertex *frontier, uint32_t *row_of,
                              uint64_t *words)
{
    uint32_t n_words = (uint32_t)(((uint64_t)n_part + 63) / 64);
    for (uint32_t w = 0; w < n_words; w++) {
        for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
            uint32_t local = 64 * w + (uint32_t)__builtin_ctzll(bits);
            row_of[local] = n_rows;
            frontier[n_rows++] = first + local;
        }
        words[w] = 0;
    }
    return n_rows;
}

uint32_t sl_merge_cpu(uint32_t n_requesters, const uint32_t *const *request, uint32_t first, uint32_t n_part,
                      uint32_t n_rows, sl_vertex *frontier, uint32_t *row_of, uint64_t *words,
                      uint32_t *const *inverse_out)
{
    for (uint32_t p = 0; p < n_requesters; p++) {
        for (uint32_t i = 1; i <= request[p][0]; i++) {
            uint32_t local = request[p][i] - first;
            words[local / 64] |= (uint64_t)(row_of[local] == SL_NONE) << local % 64;
        }
    }
    n_rows = append_marked(first, n_part, n_rows, frontier, row_of, words);
    for (uint32_t p = 0; p < n_requesters; p++) {
        for (uint32_t i = 1; i <= request[p][0]; i++) {
            inverse_out[p][i - 1] = row_of[request[p][i] - first];
        }
    }
    return n_rows;
}

void sl_pack_cpu(uint32_t n, uint32_t n_columns, const struct sl_view *rows, sl_real *packed_out)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy(packed_out + (size_t)i * n_columns, sl_view_row(rows, i, n_columns), n_columns * sizeof *packed_out);
    }
}

/* ---- arguments ---- */

struct merge_args {
    struct sl_task_args head;
    uint32_t n_hops;
    uint32_t n_requesters;
    uint32_t part_first, part_end;
};

struct pack_args {
    struct sl_task_args head;
    uint32_t n_requesters;
    uint32_t n_chunks;
    uint32_t shift;
};

/* ---- task wrappers ---- */

static void merge_cpu_task(void *buffers[], void *cl_arg)
{
    const struct merge_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    uint32_t n = args->n_requesters;
    const uint32_t *request[SL_MAX_PES];
    uint32_t *inverse[SL_MAX_PES];
    for (uint32_t p = 0; p < n; p++) {
        request[p] = sl_buffer_data(buffers[3 + p]);
        inverse[p] = sl_buffer_data(buffers[3 + n + p]);
    }
    uint32_t n_part = args->part_end - args->part_first;
    uint32_t *row_of = sl_buffer_data(buffers[1]);
    uint32_t *counts = sl_buffer_data(buffers[2]);
    uint64_t *words = (uint64_t *)(void *)(row_of + n_part + (n_part & 1));
    uint32_t level = args->head.hop;
    counts[sl_counts_rows(level + 1)] =
        sl_merge_cpu(n, request, args->part_first, n_part, counts[sl_counts_rows(level)], sl_buffer_data(buffers[0]),
                     row_of, words, inverse);
    sl_task_leave(&args->head, start_s);
}

static void pack_cpu_task(void *buffers[], void *cl_arg)
{
    const struct pack_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *chunk[SL_MAX_CHUNKS];
    uint32_t n = args->n_requesters;
    for (uint32_t c = 0; c < args->n_chunks; c++) {
        chunk[c] = sl_buffer_data(buffers[2 * n + c]);
    }
    for (uint32_t r = 0; r < n; r++) {
        struct sl_view rows = {chunk, args->shift, sl_buffer_data(buffers[r])};
        void *packed = buffers[n + r];
        sl_pack_cpu(sl_buffer_rows(packed), sl_buffer_columns(packed), &rows, sl_buffer_data(packed));
    }
    sl_task_leave(&args->head, start_s);
}

/* ---- codelets ---- */

static struct starpu_perfmodel merge_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_merge", .size_base = sl_task_size_base};
static struct starpu_perfmodel pack_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_pack", .size_base = sl_task_size_base};

static struct starpu_codelet merge_cl = {
    .name = "sl_merge",
    .cpu_funcs = {merge_cpu_task},
    /* RW frontier, index, counts; R one request per requester; W one inverse per requester */
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &merge_model,
};

static struct starpu_codelet pack_cl = {
    .name = "sl_pack",
    .cpu_funcs = {pack_cpu_task},
    .nbuffers = STARPU_VARIABLE_NBUFFERS, /* R inverses; W packed, as many; R all chunks of the rows */
    .model = &pack_model,
};

/* ---- submissions ---- */

enum sl_status sl_merge_submit(const struct sl_task_args *head, uint32_t n_hops, uint32_t n_requesters,
                               const starpu_data_handle_t *request, uint32_t part_first, uint32_t part_end,
                               starpu_data_handle_t frontier, starpu_data_handle_t index, starpu_data_handle_t counts,
                               const starpu_data_handle_t *inverse)
{
    struct merge_args args = {.head = *head, .n_hops = n_hops, .n_requesters = n_requesters};
    struct sl_task task;
    size_t room = starpu_vector_get_nx(index);
    if (n_requesters > SL_MAX_PES || part_end < part_first || room < sl_index_bytes(part_end - part_first)) {
        return sl_fail(SL_EINVAL, "sl_merge: %u requesters (at most %d), ids %u to %u with an index of %zu bytes",
                       n_requesters, SL_MAX_PES, part_first, part_end, room);
    }
    args.part_first = part_first;
    args.part_end = part_end;
    args.head.stage = SL_STAGE_SAMPLE;
    args.head.work = 16 * (uint64_t)starpu_vector_get_nx(frontier);
    sl_task_begin(&task, &merge_cl);
    sl_task_add(&task, frontier, STARPU_RW);
    sl_task_add(&task, index, STARPU_RW);
    sl_task_add(&task, counts, STARPU_RW);
    for (uint32_t p = 0; p < n_requesters; p++) {
        sl_task_add(&task, request[p], STARPU_R);
    }
    for (uint32_t p = 0; p < n_requesters; p++) {
        sl_task_add(&task, inverse[p], STARPU_W);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

/* What one requester asks for must fit the rows. */
static enum sl_status check_pack(const struct sl_rows *rows, starpu_data_handle_t inverse, starpu_data_handle_t packed)
{
    uint32_t n = sl_handle_rows(packed);
    uint32_t n_columns = sl_handle_columns(packed);
    if (n_columns == rows->n_columns && n <= starpu_vector_get_nx(inverse) && rows->split.n_chunks <= SL_MAX_CHUNKS) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "sl_pack: %u x %u asked of rows of width %u in %u chunks", n, n_columns, rows->n_columns,
                   rows->split.n_chunks);
}

enum sl_status sl_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t n_requesters,
                              const starpu_data_handle_t *inverse, const starpu_data_handle_t *packed)
{
    struct pack_args args = {.head = *head, .n_requesters = n_requesters};
    struct sl_task task;
    args.n_chunks = rows->split.n_chunks;
    args.shift = rows->split.shift;
    args.head.stage = SL_STAGE_EXCHANGE;
    args.head.work = 0;
    for (uint32_t r = 0; r < n_requesters; r++) {
        enum sl_status st = check_pack(rows, inverse[r], packed[r]);
        if (st != SL_OK) {
            return st;
        }
        args.head.work += 2 * sizeof(sl_real) * (uint64_t)sl_handle_rows(packed[r]) * rows->n_columns;
    }
    sl_task_begin(&task, &pack_cl);
    for (uint32_t r = 0; r < n_requesters; r++) {
        sl_task_add(&task, inverse[r], STARPU_R);
    }
    for (uint32_t r = 0; r < n_requesters; r++) {
        sl_task_add(&task, packed[r], STARPU_W);
    }
    for (uint32_t c = 0; c < args.n_chunks; c++) {
        sl_task_add(&task, rows->chunk[c], STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
