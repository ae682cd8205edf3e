/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Nonzeros of the sparse feature rows that a PE reads: one thread per row, one atomic per warp. */
#include "codelets/sampling/nonzeros.h"

/* ---- kernels ---- */

/* *n_out is zero before. */
SL_KERNEL count_nonzeros(const uint32_t *n_rows, const sl_vertex *ids, uint32_t first, const uint64_t *offsets,
                         uint64_t *n_out)
{
    uint64_t n = 0;
    for (uint64_t i = sl_thread(); i < *n_rows; i += sl_n_threads()) {
        const uint64_t *row = offsets + (ids[i] - first);
        n += row[1] - row[0];
    }
    n = sl_warp_sum(n);
    if (sl_lane() == 0) {
        sl_add_shared(n_out, n);
    }
}

SL_LAUNCHER(sl_nonzeros, uint32_t max_rows, const uint32_t *n_rows, const sl_vertex *ids, uint32_t first,
            const uint64_t *offsets, uint64_t *n_out)
{
    SL_CHECK(SL_CLEAR("sl_nonzeros", n_out, sizeof *n_out));
    return SL_LAUNCH("sl_nonzeros", sl_few_blocks(max_rows), count_nonzeros, n_rows, ids, first, offsets, n_out);
}

#ifndef SL_KERNELS_ONLY
#include <assert.h>

#include "codelets/sampling/sample.h"

/* ---- operations ---- */

struct nonzeros {
    struct sl_task_args head;
    struct sl_matrix frontier, offsets, counts;
    uint32_t n_parts, first;
};

static enum sl_status nonzeros(const void *view, const void *stream)
{
    const struct nonzeros *v = view;
    uint32_t *counts = v->counts.data;
    void *place = counts + sl_counts_nonzeros(v->head.hop, v->n_parts);
    return SL_RUN(stream, sl_nonzeros, v->frontier.n_rows, counts + sl_counts_rows(v->head.hop), v->frontier.data,
                  v->first, v->offsets.data, place);
}

static struct sl_operation nonzeros_op = {
    SL_OPERATION(nonzeros_op, "sl_nonzeros", SL_STAGE_SAMPLE),
    SL_BODY(nonzeros, struct nonzeros),
    .role = {{"frontier", STARPU_R, offsetof(struct nonzeros, frontier), "?", SL_INTS_32},
             {"offsets", STARPU_R, offsetof(struct nonzeros, offsets), "?", SL_INTS_64},
             {"counts", STARPU_RW, offsetof(struct nonzeros, counts), "?", SL_INTS_32}},
};

/* ---- submissions ---- */

enum sl_status sl_nonzeros_submit(const struct sl_task_args *head, uint32_t n_parts, starpu_data_handle_t frontier,
                                  uint32_t first, starpu_data_handle_t offsets, starpu_data_handle_t counts)
{
    struct nonzeros v = {.head = *head,
                         .frontier = sl_matrix_of(frontier),
                         .offsets = sl_matrix_of(offsets),
                         .counts = sl_matrix_of(counts),
                         .n_parts = n_parts,
                         .first = first};
    assert(v.counts.n_rows == sl_counts_size(head->hop, n_parts));
    v.head.work = (sizeof(sl_vertex) + 2 * sizeof(uint64_t)) * (uint64_t)v.frontier.n_rows;
    return sl_view_submit(&nonzeros_op, &v, SL_PRIORITY_SAMPLE);
}

#endif
