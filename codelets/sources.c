/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sources: checks, arguments, and views inside tasks. */
#include "codelets/sources.h"

#include <string.h>

#include "codelets/sample.h"

/* ---- submissions ---- */

/* The dtype that handles of rows have in common. */
struct tally {
    uint32_t n, n_others; /* handles; those of another dtype than the first */
    enum sl_dtype dtype;  /* of the first handle */
};

static void count(struct tally *tally, starpu_data_handle_t handle)
{
    enum sl_dtype dtype = sl_handle_dtype(handle);
    if (tally->n++ == 0) {
        tally->dtype = dtype;
    }
    tally->n_others += dtype != tally->dtype;
}

static enum sl_status common_dtype(const char *name, const struct tally *tally, enum sl_dtype *dtype)
{
    *dtype = tally->n > 0 ? tally->dtype : SL_DTYPE_REAL;
    if (tally->n_others == 0) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "%s: %u of %u matrices of rows in %s, expected all or none", name,
                   tally->n - tally->n_others, tally->n, sl_dtype_name(*dtype));
}

/* All chunks have one dtype. */
static void count_rows(struct tally *tally, const struct sl_rows *rows)
{
    if (rows->split.n_chunks > 0) {
        count(tally, rows->chunk[0]);
    }
}

enum sl_status sl_sources_dtype(const char *name, const struct sl_source_handles *x, enum sl_dtype *dtype)
{
    struct tally tally = {0};
    count_rows(&tally, x->rows);
    for (uint32_t q = 0; q < x->n_owners; q++) {
        if (q != x->own && x->packed[q].handle != NULL && x->packed[q].n_rows > 0) {
            count(&tally, x->packed[q].handle);
        }
    }
    return common_dtype(name, &tally, dtype);
}

enum sl_status sl_parts_dtype(const char *name, uint32_t n_parts, const struct sl_rows *rows, enum sl_dtype *dtype)
{
    struct tally tally = {0};
    for (uint32_t q = 0; q < n_parts; q++) {
        count_rows(&tally, &rows[q]);
    }
    return common_dtype(name, &tally, dtype);
}

enum sl_dtype sl_dtype_read(const struct sl_task_args *head, enum sl_dtype dtype)
{
    return dtype == SL_DTYPE_BF16 && head->run->narrow != SL_DTYPE_F32 ? head->run->narrow : dtype;
}

enum sl_status sl_sums_dtype(const char *name, const struct sl_task_args *head, starpu_data_handle_t m,
                             enum sl_dtype *dtype)
{
    const enum sl_dtype sums = sl_handle_dtype(m);
    SL_FAIL_IF(sums != *dtype && sums != SL_DTYPE_REAL, SL_EINVAL, "%s: sums in bf16, expected rows in bf16, too",
               name);
    *dtype = sl_dtype_read(head, *dtype);
    return SL_OK;
}

enum sl_status sl_source_args_fill(const char *name, const struct sl_source_handles *sources,
                                   struct sl_source_args *out)
{
    const struct sl_split *split = &sources->rows->split;
    SL_FAIL_IF(sources->n_owners > SL_MAX_GROUP || split->n_chunks > SL_MAX_CHUNKS, SL_EINVAL,
               "%s: %u owners (at most %d), %u chunks (at most %d)", name, sources->n_owners, SL_MAX_GROUP,
               split->n_chunks, SL_MAX_CHUNKS);
    out->n_owners = sources->n_owners;
    out->own = sources->own;
    out->n_chunks = split->n_chunks;
    out->shift = split->shift;
    memcpy(out->first, sources->first, (sources->n_owners + 1) * sizeof *out->first);
    return sl_sources_dtype(name, sources, &out->dtype);
}

void sl_source_args_add(struct sl_task *task, unsigned role, const struct sl_source_handles *sources,
                        struct sl_source_args *args)
{
    sl_task_add_each(task, role, sources->rows->split.n_chunks, sources->rows->chunk, STARPU_R);
    for (uint32_t q = 0; q < sources->n_owners; q++) {
        if (q != sources->own) {
            args->packed[q] = sl_task_add_slice(task, role + 1, &sources->packed[q], STARPU_R);
        }
    }
}

void sl_share_args_fill(uint32_t row0, const struct sl_split *gradients, const struct sl_share_sources *from,
                        struct sl_share_args *out)
{
    out->row0 = row0;
    out->n_destinations = gradients->n_rows;
    out->t0 = from->t0;
    out->n_own = from->n_own;
    out->n_chunks = gradients->n_chunks;
    out->shift = gradients->shift;
    out->n_peers = from->n_peers;
    out->own = from->own;
}

uint64_t sl_share_args_add(struct sl_task *task, unsigned role, const struct sl_share_sources *from,
                           struct sl_share_args *args)
{
    uint64_t n = from->n_own;
    for (uint32_t p = 0; p < from->n_peers; p++) {
        if (p != from->own) {
            args->sent[p] = sl_task_add_slice(task, role, &from->sent[p], STARPU_R);
            n += args->sent[p].n_rows;
        }
    }
    return n;
}

enum sl_status sl_part_args_fill(const char *name, uint32_t n_parts, const struct sl_rows *rows, const uint32_t *column,
                                 struct sl_part_args *out)
{
    uint64_t n_chunks = 0;
    SL_FAIL_IF(n_parts > SL_MAX_GROUP, SL_EINVAL, "%s: %u parts (at most %d)", name, n_parts, SL_MAX_GROUP);
    out->n_parts = n_parts;
    for (uint32_t q = 0; q < n_parts; q++) {
        out->chunks[q] = rows[q].split.n_chunks;
        out->shift[q] = rows[q].split.shift;
        out->width[q] = rows[q].n_columns;
        out->column[q] = column == NULL ? 0 : column[q];
        n_chunks += rows[q].split.n_chunks;
    }
    SL_FAIL_IF(n_chunks > SL_MAX_FULL_CHUNKS, SL_EINVAL, "%s: %llu chunks (at most %d)", name,
               (unsigned long long)n_chunks, SL_MAX_FULL_CHUNKS);
    return sl_parts_dtype(name, n_parts, rows, &out->dtype);
}

void sl_part_args_add(struct sl_task *task, unsigned role, uint32_t n_parts, const struct sl_rows *rows)
{
    for (uint32_t q = 0; q < n_parts; q++) {
        sl_task_add_each(task, role, rows[q].split.n_chunks, rows[q].chunk, STARPU_R);
    }
}

/* ---- inside tasks ---- */

void sl_sources_view(const struct sl_source_args *args, void *buffers[], void *inverse, void *chunks[],
                     struct sl_source_views *out)
{
    sl_chunks_data(chunks, args->n_chunks, out->own);
    for (uint32_t q = 0; q < args->n_owners; q++) {
        out->packed[q] = sl_slice_data(buffers, &args->packed[q]);
        out->view[q] = (struct sl_view){&out->packed[q], 31, NULL};
    }
    out->view[args->own] =
        (struct sl_view){out->own, args->shift, sl_list_of(sl_buffer_data(inverse), args->n_owners, args->own)};
    out->rows = (struct sl_view){out->own, args->shift, NULL};
    out->x = (struct sl_sources){args->n_owners, args->first, out->view, &out->rows};
}

void sl_parts_view(const struct sl_part_args *args, void *chunks[], struct sl_part_views *out)
{
    const size_t bytes = sl_dtype_bytes(args->dtype, 1);
    for (uint32_t q = 0, next = 0; q < args->n_parts; q++) {
        out->view[q] = (struct sl_view){out->chunk + next, args->shift[q], NULL};
        for (uint32_t c = 0; c < args->chunks[q]; c++, next++) {
            out->chunk[next] = (const void *)((const char *)sl_buffer_data(chunks[next]) + args->column[q] * bytes);
        }
    }
}

#ifdef SL_CUDA
struct sl_device_rows sl_device_rows_of(void *chunks[], uint32_t n_chunks, uint32_t shift)
{
    struct sl_device_rows rows = {.n_chunks = n_chunks, .shift = shift};
    sl_chunks_data(chunks, n_chunks, rows.chunk);
    return rows;
}

struct sl_device_sources sl_device_sources_of(const struct sl_source_args *args, void *buffers[], void *inverse,
                                              void *chunks[])
{
    struct sl_device_sources x = {.n_owners = args->n_owners,
                                  .own = args->own,
                                  .inverse = sl_buffer_data(inverse),
                                  .rows = sl_device_rows_of(chunks, args->n_chunks, args->shift),
                                  .dtype = args->dtype};
    for (uint32_t q = 0; q < args->n_owners; q++) {
        x.packed[q] = sl_slice_data(buffers, &args->packed[q]);
    }
    memcpy(x.first, args->first, (args->n_owners + 1) * sizeof *x.first);
    return x;
}

void sl_device_parts_of(const struct sl_part_args *args, const struct sl_part_views *views,
                        struct sl_device_part parts_out[SL_MAX_GROUP])
{
    for (uint32_t q = 0, next = 0; q < args->n_parts; q++) {
        parts_out[q] = (struct sl_device_part){args->chunks[q], args->shift[q], args->width[q], views->chunk + next};
        next += args->chunks[q];
    }
}
#endif
