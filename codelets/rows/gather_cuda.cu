/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature rows, one warp per row. With dropout, or if the table has another dtype than X, a lane takes eight columns,
 * which share one draw. All other rows are copied in the widest units that fit. */
#include "codelets/bf16.cuh"

#include "codelets/rows/dropout.h"
#include "codelets/rows/gather.h"
#include "support/convert.h"

/* Rows of a part: from the cache if the cache has the row, else from the table. slot_of NULL: no cache. T: a number, or
 * a unit of bytes. */
template <typename T> struct row_source {
    const T *table;
    const T *cache;
    const uint32_t *slot_of;
    uint32_t n_slots;
    uint32_t n_columns; /* in units of T */

    __device__ const T *row(uint32_t vertex) const
    {
        uint32_t slot = slot_of == nullptr ? SL_NONE : slot_of[vertex];
        return slot >= n_slots ? table + (size_t)vertex * n_columns : cache + (size_t)slot * n_columns;
    }
};

template <typename T>
static __global__ void copy_rows(uint32_t n_rows, row_source<T> source, uint32_t first, const sl_vertex *ids, T *x)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const T *from = source.row(ids[i] - first);
        T *to = x + i * source.n_columns;
        for (uint32_t c = sl_lane(); c < source.n_columns; c += SL_WARP) {
            to[c] = from[c];
        }
    }
}

/* Entries of narrow tables. */
struct f16_entry {
    sl_f16 bits;
};
struct i8_entry {
    int8_t whole;
};

static __device__ float number(sl_real x, float)
{
    return x;
}
static __device__ float number(sl_bf16 x, float)
{
    return sl_wide(x);
}
static __device__ float number(f16_entry x, float)
{
    return sl_f16_float(x.bits);
}
static __device__ float number(i8_entry x, float scale)
{
    return sl_i8_float(x.whole, scale);
}

/* Convert entries F to E. With dropout the converted entry is masked. */
template <typename F, typename E>
static __global__ void convert_rows(struct sl_feature_rows rows, uint32_t n_rows, row_source<F> source, E *x)
{
    const sl_real scale = (sl_real)sl_dropout_scale(rows.threshold);
    const uint32_t n_columns = source.n_columns;
    const uint32_t n_groups = (n_columns + 7) / 8;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const F *from = source.row(rows.ids[i] - rows.first);
        E *to = x + i * n_columns;
        for (uint32_t g = sl_lane(); g < n_groups; g += SL_WARP) {
            uint16_t bits[8];
            if (rows.threshold > 0) {
                sl_dropout_bits(&rows.draw, rows.dataset_ids[rows.ids[i]], g, bits);
            }
            for (uint32_t k = 0; k < 8 && 8 * g + k < n_columns; k++) {
                E entry;
                sl_store(number(from[8 * g + k], rows.scale), &entry);
                if (rows.threshold > 0) {
                    sl_store(sl_wide(entry) * ((sl_real)(bits[k] >= rows.threshold) * scale), &entry);
                }
                to[8 * g + k] = entry;
            }
        }
    }
}

/* Addresses of table and cache, for any dtype. */
struct feature_tables {
    const void *table;
    const void *cache;
    const uint32_t *slot_of;
    uint32_t n_slots;
};

template <typename T> static row_source<T> source_of(const struct feature_tables &from, size_t row_bytes)
{
    return {(const T *)from.table, (const T *)from.cache, from.slot_of, from.n_slots,
            (uint32_t)(row_bytes / sizeof(T))};
}

template <typename F, typename E>
static enum sl_status start_converted(cudaStream_t stream, struct sl_feature_rows rows, uint32_t n_rows,
                                      const struct feature_tables &from, void *x)
{
    const size_t row_bytes = rows.n_columns * sizeof(F);
    rows.table = nullptr; /* host addresses: the kernel uses `source` */
    rows.cache = nullptr;
    return sl_start("sl_gather", stream, sl_warp_blocks(n_rows), convert_rows<F, E>, rows, n_rows,
                    source_of<F>(from, row_bytes), (E *)x);
}

template <typename E>
static enum sl_status start_table(cudaStream_t stream, const struct sl_feature_rows *rows, uint32_t n_rows,
                                  const struct feature_tables &from, void *x)
{
    switch (rows->dtype) {
    case SL_DTYPE_BF16: return start_converted<sl_bf16, E>(stream, *rows, n_rows, from, x);
    case SL_DTYPE_F16: return start_converted<f16_entry, E>(stream, *rows, n_rows, from, x);
    case SL_DTYPE_I8: return start_converted<i8_entry, E>(stream, *rows, n_rows, from, x);
    case SL_DTYPE_REAL: return start_converted<sl_real, E>(stream, *rows, n_rows, from, x);
    default: return sl_fail(SL_EINTERNAL, "sl_gather: found features of %s", sl_dtype_name(rows->dtype));
    }
}

enum sl_status sl_gather_cuda(cudaStream_t stream, const struct sl_feature_rows *rows, uint32_t n_rows,
                              enum sl_dtype dtype, void *x_out)
{
    struct feature_tables from = {rows->table, nullptr, nullptr, 0};
    if (rows->cache != nullptr) {
        const sl_real *mapped;
        SL_CHECK(sl_mapped((const sl_real *)rows->table, "sl_gather", &mapped));
        from = {mapped, rows->cache->rows, rows->cache->slot_of, rows->cache->n_slots};
    }
    if (rows->threshold > 0 || rows->dtype != dtype) {
        return sl_by_dtype(dtype, [&](auto e) { return start_table<decltype(e)>(stream, rows, n_rows, from, x_out); });
    }
    const size_t row_bytes = sl_dtype_bytes(dtype, rows->n_columns);
    const uintptr_t sizes = row_bytes | (uintptr_t)from.table | (uintptr_t)from.cache | (uintptr_t)x_out;
    return sl_by_copy_unit(sizes, [&](auto unit) {
        typedef decltype(unit) T;
        return sl_start("sl_gather", stream, sl_warp_blocks(n_rows), copy_rows<T>, n_rows,
                        source_of<T>(from, row_bytes), rows->first, rows->ids, (T *)x_out);
    });
}
