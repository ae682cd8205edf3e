/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sum in a tree, a block of entries at a time, so that the blocks stay in the cache while the partial sums stream
 * past. */
#include "codelets/ends/reduce.h"

#include <assert.h>
#include <string.h>

#include "codelets/ends/tree.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define BLOCK 512 /* entries */
#define ROWS 8    /* rows whose notes are read together: the bytes of a word */
#define AHEAD 256 /* rows that are fetched ahead, if they are touched */

/* ---- kernels, CPU ---- */

/* The terms of a sum. Of matrices with few rows that are not zero: touched has an int8 for each row. */
struct terms {
    uint32_t n;
    const uint32_t *leaf;
    const sl_real *const *partial;
    const int8_t *const *touched;
};

static inline void add_block(size_t n, const sl_real *restrict from, sl_real *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* -0 becomes 0. */
static inline void begin_block(size_t n, const sl_real *restrict from, sl_real *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i] + (sl_real)0;
    }
}

/* Entries first .. end - 1 of the sum of one or more terms. */
SL_CLONES static void sum_range(const struct terms *terms, size_t first, size_t end, sl_real *out)
{
    sl_real room[SL_TREE_DEPTH][BLOCK];
    sl_real *sum[SL_TREE_DEPTH + 1]; /* those that wait, and the one in hand */
    for (uint32_t k = 0; k < SL_TREE_DEPTH; k++) {
        sum[k + 1] = room[k];
    }
    for (; first < end; first += BLOCK, out += BLOCK) {
        const size_t size = sl_min_u64(end - first, BLOCK);
        struct sl_tree tree = {0};
        sum[0] = out;
        for (uint32_t i = 0; i < terms->n; i++) {
            uint32_t at = tree.n;
            if (sl_tree_begins(terms->leaf, i)) {
                begin_block(size, terms->partial[i] + first, sum[at]);
            } else {
                add_block(size, terms->partial[i] + first, sum[at]);
            }
            for (uint32_t n_met = sl_tree_meet(&tree, terms->n, terms->leaf, i); n_met > 0; n_met--, at--) {
                add_block(size, sum[at], sum[at - 1]);
            }
        }
    }
}

void sl_reduce_range(uint32_t n, size_t first, size_t end, const sl_real *const *partials, const uint32_t *leaf,
                     sl_real *out)
{
    const struct terms terms = {.n = n, .partial = partials, .leaf = leaf};
    if (n == 0) {
        memset(out, 0, (end - first) * sizeof *out);
        return;
    }
    sum_range(&terms, first, end, out);
}

void sl_reduce_cpu(uint32_t n, size_t n_entries, const sl_real *const *partials, const uint32_t *leaf, sl_real *out)
{
    sl_reduce_range(n, 0, n_entries, partials, leaf, out);
}

/* A sum of matrices [n_rows x n_columns] with few rows that are not zero. Each matrix, and out, has an int8 for each
 * row: whether a step touched the row. Other rows are zero. */
struct touched_rows {
    uint32_t n_rows, n_columns;
    struct terms terms;
    sl_real *out;
    int8_t *out_touched;
};

/* Whether any partial touches one of rows r .. r + ROWS - 1, or out has. */
SL_INLINE bool any_touched(const struct touched_rows *s, uint32_t r)
{
    uint64_t any;
    memcpy(&any, s->out_touched + r, ROWS);
    for (uint32_t i = 0; i < s->terms.n; i++) {
        uint64_t notes;
        memcpy(&notes, s->terms.touched[i] + r, ROWS);
        any |= notes;
    }
    return any != 0;
}

/* Row r of the sum, with the bits of sl_reduce_cpu: rows that are not touched are zero. */
static void sum_row(const struct touched_rows *s, uint32_t r)
{
    const size_t first = (size_t)r * s->n_columns;
    const bool was = s->out_touched[r];
    s->out_touched[r] = 0;
    for (uint32_t i = 0; i < s->terms.n; i++) {
        if (s->terms.touched[i][r] != 0) {
            s->out_touched[r] = 1;
        }
    }
    if (s->out_touched[r] != 0) {
        sum_range(&s->terms, first, first + s->n_columns, s->out + first);
    } else if (was) {
        memset(s->out + first, 0, s->n_columns * sizeof *s->out);
    }
}

/* Fetch the touched rows of rows r .. r + ROWS - 1. */
static void fetch_rows(const struct touched_rows *s, uint32_t r)
{
    const size_t bytes = s->n_columns * sizeof *s->out;
    for (uint32_t i = 0; i < s->terms.n; i++) {
        for (uint32_t k = sl_next_touched(s->terms.touched[i] + r, 0, ROWS); k < ROWS;
             k = sl_next_touched(s->terms.touched[i] + r, k + 1, ROWS)) {
            sl_row_fetch(s->terms.partial[i] + (size_t)(r + k) * s->n_columns, bytes);
            sl_row_fetch(s->out + (size_t)(r + k) * s->n_columns, bytes);
        }
    }
}

/* A row of out is cleared if only the last step touched it. fresh: the rows of out have not been written. */
static void sum_touched(const struct touched_rows *sum, bool fresh)
{
    uint32_t r = 0;
    if (fresh) {
        memset(sum->out, 0, (size_t)sum->n_rows * sum->n_columns * sizeof *sum->out);
        memset(sum->out_touched, 0, sum->n_rows);
    }
    for (; r + ROWS <= sum->n_rows; r += ROWS) {
        if (r + AHEAD + ROWS <= sum->n_rows) {
            fetch_rows(sum, r + AHEAD);
        }
        if (any_touched(sum, r)) {
            for (uint32_t k = 0; k < ROWS; k++) {
                sum_row(sum, r + k);
            }
        }
    }
    for (; r < sum->n_rows; r++) {
        sum_row(sum, r);
    }
}

/* ---- operations ---- */

uint32_t sl_reduce_list(const struct sl_matrices *matrices, uint32_t first, uint32_t end, uint32_t n_rows,
                        uint32_t n_columns, const sl_real **partials, uint32_t *leaf)
{
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        for (uint32_t k = 0; k < matrices->n_rows[i] / n_rows; k++, n++) {
            const uint32_t place = sl_tree_place(n, leaf, matrices->numbers[i] + k);
            memmove(partials + place + 1, partials + place, (n - place) * sizeof *partials);
            partials[place] = (const sl_real *)matrices->data[i] + (size_t)k * n_rows * n_columns;
        }
    }
    return n;
}

struct reduce {
    struct sl_task_args head;
    struct sl_matrix out;
    struct sl_matrices partials;
    uint32_t n; /* partials in all matrices */
};

static enum sl_status reduce(const void *view, const void *stream)
{
    const struct reduce *v = view;
    SL_FREED const sl_real **partials = NULL;
    SL_FREED uint32_t *leaf = NULL;
    SL_CHECK(sl_alloc(v->n, sizeof *partials, "the partials of a sum", &partials));
    SL_CHECK(sl_alloc(v->n, sizeof *leaf, "the leaves of a sum", &leaf));
    sl_reduce_list(&v->partials, 0, v->partials.n, v->out.n_rows, v->out.n_columns, partials, leaf);
    return SL_RUN(stream, sl_reduce, v->n, sl_matrix_entries(&v->out), partials, leaf, v->out.data);
}

static struct sl_operation reduce_op = {
    SL_OPERATION(reduce_op, "sl_reduce", SL_STAGE_SYNC),
    SL_BODY(reduce, struct reduce),
    .role = {{"out", STARPU_W, offsetof(struct reduce, out), "? x F"},
             {"partials", STARPU_R | SL_REPEATED, offsetof(struct reduce, partials), "? x F"}},
};

struct reduce_touched {
    struct sl_task_args head;
    struct sl_matrix out, out_touched;
    struct sl_matrices partials, touched;
    bool fresh;
};

static enum sl_status reduce_touched(const void *view, const void *stream)
{
    const struct reduce_touched *v = view;
    const struct touched_rows s = {.n_rows = v->out.n_rows,
                                   .n_columns = v->out.n_columns,
                                   .terms = {.n = v->partials.n,
                                             .leaf = v->partials.numbers,
                                             .partial = (const sl_real *const *)v->partials.data,
                                             .touched = (const int8_t *const *)v->touched.data},
                                   .out = v->out.data,
                                   .out_touched = v->out_touched.data};
    if (stream == NULL) {
        sum_touched(&s, v->fresh);
        return SL_OK;
    }
    /* A GPU sums all rows, and notes all. The bits are the same. */
    SL_CHECK(SL_RUN(stream, sl_reduce, s.terms.n, sl_matrix_entries(&v->out), s.terms.partial, s.terms.leaf, s.out));
    return sl_fill(stream, 1, s.n_rows, s.out_touched);
}

static struct sl_operation reduce_touched_op = {
    SL_OPERATION(reduce_touched_op, "sl_reduce_touched", SL_STAGE_SYNC),
    SL_BODY(reduce_touched, struct reduce_touched),
    .role = {{"out", STARPU_W | SL_OR_RW, offsetof(struct reduce_touched, out), "D x F"},
             {"touched rows", STARPU_W | SL_OR_RW, offsetof(struct reduce_touched, out_touched), "1 x D", SL_INTS_8},
             {"partials", STARPU_R | SL_REPEATED, offsetof(struct reduce_touched, partials), "D x F"},
             {"touched rows of partials", STARPU_R | SL_REPEATED, offsetof(struct reduce_touched, touched), "1 x D",
              SL_INTS_8}},
};

/* ---- submissions ---- */

enum sl_status sl_reduce_touched_submit(const struct sl_task_args *head, const struct sl_touched_sum *sum)
{
    struct reduce_touched v = {.head = *head,
                               .out = sl_matrix_of(sum->out),
                               .out_touched = sl_matrix_of(sum->out_touched),
                               .partials = {.n = sum->n, .handles = sum->partials, .numbers = sum->leaf},
                               .touched = {.n = sum->n, .handles = sum->touched},
                               .fresh = sum->fresh};
    v.out.is_kept = !sum->fresh;
    v.out_touched.is_kept = !sum->fresh;
    v.head.work = (uint64_t)v.out.n_rows * (sum->n + 1);
    return sl_view_submit(&reduce_touched_op, &v, SL_PRIORITY_SEND);
}

enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                const uint32_t *leaf, starpu_data_handle_t out)
{
    struct reduce v = {
        .head = *head, .out = sl_matrix_of(out), .partials = {.n = n, .handles = partials, .numbers = leaf}};
    for (uint32_t i = 0; i < n; i++) {
        assert(sl_handle_rows(partials[i]) != 0);
        assert(sl_handle_rows(partials[i]) % v.out.n_rows == 0);
        v.n += sl_handle_rows(partials[i]) / v.out.n_rows;
    }
    return sl_view_submit(&reduce_op, &v, SL_PRIORITY_SEND);
}
