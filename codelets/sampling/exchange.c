/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Merge requests into frontiers, and pack rows for the requesters. */
#include "codelets/sampling/exchange.h"

#include <assert.h>
#include <string.h>

#include "support/minmax.h"

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

void sl_merge_cpu(const struct sl_requests *requests, const uint32_t *n_rows, const struct sl_frontier *frontier,
                  uint32_t *inverse_out, uint32_t *n_rows_out)
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
    *n_rows_out = append_marked(*n_rows, frontier);
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
}

#define AHEAD 12 /* rows prefetched ahead of the copy */

/* The packed part of a row. */
SL_INLINE const char *piece_of(const struct sl_packing *from, uint32_t row)
{
    const size_t in_chunk = row & ((1u << from->shift) - 1);
    return (const char *)from->chunk[row >> from->shift] + in_chunk * from->row + from->first;
}

void sl_pack_cpu(const struct sl_packing *from, const uint32_t *requester, const uint32_t *n_rows,
                 void *const *packed_out)
{
    for (uint32_t r = 0; r < from->n_requesters; r++) {
        const uint32_t *rows = sl_packed_rows(from->inverse, from->n_parts, requester[r]);
        char *to = packed_out[r];
        for (uint32_t i = 0; i < n_rows[r]; i++, to += from->packed) {
            if (n_rows[r] - i > AHEAD) {
                sl_row_fetch(piece_of(from, rows[i + AHEAD]), from->taken);
            }
            memcpy(to, piece_of(from, rows[i]), from->taken);
            if (from->packed > from->taken) {
                memset(to + from->taken, 0, from->packed - from->taken);
            }
        }
    }
}

void sl_unpack_cpu(size_t row_bytes, uint32_t n, const uint32_t *rows, const void *packed, void *out)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy((char *)out + rows[i] * row_bytes, (const char *)packed + i * row_bytes, row_bytes);
    }
}

/* ---- operations ---- */

/* Each owner has a frontier with its index and counts, and an inverse. */
struct merge {
    struct sl_task_args head;
    struct sl_matrices ids;     /* numbers: the first id of the part */
    struct sl_matrices index;   /* numbers: vertices of the part */
    struct sl_matrices counts;  /* numbers: whether inverse entries are rows of the part */
    struct sl_matrices inverse; /* numbers: the owner */
    struct sl_matrices requests;
};

static enum sl_status merge(const void *view, const void *stream)
{
    const struct merge *v = view;
    struct sl_requests requests = {.n_parts = v->requests.n};
    memcpy(requests.list, v->requests.data, v->requests.n * sizeof *requests.list);
    for (uint32_t i = 0; i < v->ids.n; i++) {
        uint32_t *n_rows = (uint32_t *)v->counts.data[i] + sl_counts_rows(v->head.hop);
        struct sl_frontier frontier = {.first = v->ids.numbers[i],
                                       .n_part = v->index.numbers[i],
                                       .ids = v->ids.data[i],
                                       .row_of = v->index.data[i]};
        frontier.words = (uint64_t *)(void *)(frontier.row_of + frontier.n_part + (frontier.n_part & 1));
        requests.owner = v->inverse.numbers[i];
        requests.of_part = v->counts.numbers[i] != 0;
        SL_CHECK(SL_RUN(stream, sl_merge, &requests, n_rows, &frontier, v->inverse.data[i], n_rows + 1));
    }
    return SL_OK;
}

static struct sl_operation merge_op = {
    SL_OPERATION(merge_op, "sl_merge", SL_STAGE_SAMPLE),
    SL_BODY(merge, struct merge),
    .role = {{"frontier", STARPU_RW | SL_REPEATED, offsetof(struct merge, ids), "?", SL_INTS_32},
             {"index", STARPU_RW | SL_REPEATED, offsetof(struct merge, index), "?", SL_INTS_8},
             {"counts", STARPU_RW | SL_REPEATED, offsetof(struct merge, counts), "?", SL_INTS_32},
             {"inverse", STARPU_W | SL_REPEATED, offsetof(struct merge, inverse), "?", SL_INTS_32},
             {"request", STARPU_R | SL_REPEATED, offsetof(struct merge, requests), "?", SL_INTS_32}},
};

struct pack {
    struct sl_task_args head;
    struct sl_matrix inverse;
    struct sl_matrices rows, packed; /* packed: numbers: the requesters */
    struct sl_packing packing;
};

static enum sl_status pack(const void *view, const void *stream)
{
    const struct pack *v = view;
    struct sl_packing from = v->packing;
    from.chunk = (const void *const *)v->rows.data;
    from.inverse = v->inverse.data;
    return SL_RUN(stream, sl_pack, &from, v->packed.numbers, v->packed.n_rows, v->packed.data);
}

static struct sl_operation pack_op = {
    SL_OPERATION(pack_op, "sl_pack", SL_STAGE_EXCHANGE),
    SL_BODY(pack, struct pack),
    .role = {{"inverse", STARPU_R, offsetof(struct pack, inverse), "?", SL_INTS_32},
             {"rows", STARPU_R | SL_REPEATED, offsetof(struct pack, rows), "? x F", SL_ROWS},
             {"packed", STARPU_W | SL_OR_RW | SL_REPEATED | SL_OPTIONAL, offsetof(struct pack, packed), "? x P",
              SL_ROWS}},
};

#define ONE_ASKS 2 /* positions before the entries, in a list with one requester */

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
    .role = {{"packed", STARPU_R, offsetof(struct unpack, packed), "D x F", SL_ROWS},
             {"rows", STARPU_R, offsetof(struct unpack, rows), "D", SL_INTS_32},
             {"out", STARPU_RW, offsetof(struct unpack, out), "? x F", SL_ROWS}},
};

/* ---- submissions ---- */

enum sl_status sl_merge_submit(const struct sl_task_args *head, uint32_t n_parts, const starpu_data_handle_t *request,
                               uint32_t n_owners, const struct sl_merging *owners)
{
    starpu_data_handle_t handles[4][SL_MAX_GROUP];
    uint32_t numbers[4][SL_MAX_GROUP];
    struct merge v = {.head = *head,
                      .ids = {.n = n_owners, .handles = handles[0], .numbers = numbers[0]},
                      .index = {.n = n_owners, .handles = handles[1], .numbers = numbers[1]},
                      .counts = {.n = n_owners, .handles = handles[2], .numbers = numbers[2]},
                      .inverse = {.n = n_owners, .handles = handles[3], .numbers = numbers[3]},
                      .requests = {.n = n_parts, .handles = request}};
    assert(n_parts <= SL_MAX_GROUP && n_owners <= n_parts);
    for (uint32_t i = 0; i < n_owners; i++) {
        const struct sl_frontier_handles *frontier = &owners[i].frontier;
        const uint32_t n_part = frontier->end - frontier->first;
        const starpu_data_handle_t own[] = {frontier->ids, frontier->index, frontier->counts, owners[i].inverse};
        const uint32_t own_numbers[] = {frontier->first, n_part, owners[i].of_part, owners[i].owner};
        assert(owners[i].owner < n_parts && starpu_vector_get_nx(frontier->index) >= sl_index_bytes(n_part));
        for (int k = 0; k < 4; k++) {
            handles[k][i] = own[k];
            numbers[k][i] = own_numbers[k];
        }
        v.head.work += 16 * (uint64_t)starpu_vector_get_nx(frontier->ids);
    }
    return sl_view_submit(&merge_op, &v, SL_PRIORITY_SAMPLE);
}

static enum sl_status submit_pack(struct pack *v, const struct sl_rows *rows, uint32_t column, uint32_t n_columns)
{
    const size_t element = sl_handle_element(rows->chunk[0]);
    v->rows = (struct sl_matrices){.n = rows->split.n_chunks, .handles = rows->chunk};
    v->packing.n_chunks = rows->split.n_chunks;
    v->packing.shift = rows->split.shift;
    v->packing.row = (uint32_t)(rows->n_columns * element);
    v->packing.first = (uint32_t)(column * element);
    v->packing.taken = (uint32_t)(sl_min_u32(rows->n_columns - column, n_columns) * element);
    v->packing.packed = (uint32_t)(n_columns * element);
    v->packing.n_requesters = v->packed.n;
    for (uint32_t r = 0; r < v->packed.n; r++) {
        v->head.work += 2 * (uint64_t)v->packed.slices[r].n_rows * v->packing.packed;
    }
    return sl_view_submit(&pack_op, v, SL_PRIORITY_SEND);
}

enum sl_status sl_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t n_parts,
                              starpu_data_handle_t inverse, uint32_t n_requesters, const uint32_t *requester,
                              const struct sl_slice *packed)
{
    struct pack v = {.head = *head,
                     .inverse = sl_matrix_of(inverse),
                     .packed = {.n = n_requesters, .slices = packed, .numbers = requester},
                     .packing.n_parts = n_parts};
    assert(n_requesters <= n_parts && n_parts < v.inverse.n_rows);
    for (uint32_t r = 0; r < n_requesters; r++) {
        assert(requester[r] < n_parts && packed[r].n_rows < v.inverse.n_rows - n_parts);
    }
    return submit_pack(&v, rows, 0, rows->n_columns);
}

enum sl_status sl_pack_listed_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                     starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed)
{
    const uint32_t requester = 0;
    const struct sl_slice all = {.handle = packed, .n_rows = sl_handle_rows(packed)};
    struct pack v = {.head = *head,
                     .inverse = sl_matrix_rows(list, i0, all.n_rows),
                     .packed = {.n = 1, .slices = &all, .numbers = &requester}};
    assert(column < rows->n_columns);
    return submit_pack(&v, rows, column, sl_handle_columns(packed));
}

enum sl_status sl_unpack_submit(const struct sl_task_args *head, starpu_data_handle_t packed, starpu_data_handle_t rows,
                                starpu_data_handle_t out)
{
    struct unpack v = {.head = *head, .packed = sl_matrix_of(packed), .out = sl_matrix_of(out)};
    v.rows = sl_matrix_rows(rows, ONE_ASKS, v.packed.n_rows);
    assert(v.packed.n_rows <= v.out.n_rows);
    v.head.work = 2 * sl_dtype_bytes(v.out.dtype, sl_matrix_entries(&v.packed));
    return sl_view_submit(&unpack_op, &v, SL_PRIORITY_COMPUTE);
}
