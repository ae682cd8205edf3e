/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Nonzeros of the sparse feature rows that a PE reads. */
#include "codelets/nonzeros.h"

#include <assert.h>

#include "codelets/sample.h"

/* ---- kernels, CPU ---- */

void sl_nonzeros_cpu(uint32_t max_rows, const uint32_t *n_rows, const sl_vertex *ids, uint32_t first,
                     const uint64_t *offsets, uint64_t *n_out)
{
    uint64_t n = 0;
    (void)max_rows;
    for (uint32_t i = 0; i < *n_rows; i++) {
        const uint64_t *row = offsets + (ids[i] - first);
        n += row[1] - row[0];
    }
    *n_out = n;
}

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
