/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows with weights on a GPU: cuBLAS for dense rows, one warp per row for sparse rows. */
#include "codelets/bf16.cuh"

#include <cublas_v2.h>

#include "codelets/cub.cuh"
#include "codelets/rows/bias.h"
#include "codelets/rows/dense.h"
#include "codelets/rows/dropout.h"

/* ---- dense rows ---- */

/* A factor of a product: a matrix, or its transpose. */
struct factor {
    const void *entries;
    uint32_t n_columns; /* as stored */
    int is_transposed;
};

/* C [m x n] = op(A) op(B) + beta C, op(A) [m x k], all row-major. dtype: of both factors. */
struct product {
    uint32_t m, n, k;
    struct factor a, b;
    int beta;
    sl_real *c;
    enum sl_dtype dtype;
};

/* cuBLAS is column-major and sees the transposes: C^T = op(B)^T op(A)^T. */
static cublasStatus_t multiply(cublasHandle_t cublas, const struct product &p)
{
    const float one = 1;
    const float keep = (float)p.beta;
    const cublasOperation_t op_b = p.b.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_a = p.a.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int m = (int)p.m;
    const int n = (int)p.n;
    const int k = (int)p.k;
    const int ldb = (int)p.b.n_columns;
    const int lda = (int)p.a.n_columns;
    if (p.dtype == SL_DTYPE_BF16) {
        return cublasGemmEx(cublas, op_b, op_a, n, m, k, &one, p.b.entries, CUDA_R_16BF, ldb, p.a.entries, CUDA_R_16BF,
                            lda, &keep, p.c, CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }
    return cublasSgemm(cublas, op_b, op_a, n, m, k, &one, (const float *)p.b.entries, ldb, (const float *)p.a.entries,
                       lda, &keep, p.c, n);
}

static enum sl_status gemm(const char *name, const struct sl_queue &blas, const struct product &p)
{
    cublasStatus_t status = cublasSetStream(blas.cublas, blas.stream);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasSetMathMode(blas.cublas, blas.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = multiply(blas.cublas, p);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        return SL_OK;
    }
    return sl_fail(SL_ECUDA, "%s: cuBLAS failed on a product [%u x %u] [%u x %u]: %s", name, p.m, p.k, p.k, p.n,
                   cublasGetStatusString(status));
}

/* Z = X W + bias, or Z += X W, in float. dtype: of X and W. */
struct forward {
    uint32_t n_rows, n_in, n_out;
    enum sl_dtype dtype;
    const void *x, *w;
    const sl_real *bias; /* or NULL */
    int beta;
    sl_real *z;
};

static enum sl_status compute(struct sl_queue blas, const struct forward &f)
{
    int beta = f.beta;
    if (f.n_rows == 0 || f.n_out == 0) {
        return SL_OK;
    }
    if (beta == 0 && (f.bias != NULL || f.n_in == 0)) {
        SL_CHECK(sl_bias_forward_cuda(blas.stream, f.n_rows, f.n_out, f.bias, f.z));
        beta = 1;
    }
    if (f.n_in == 0) {
        return SL_OK;
    }
    return gemm("sl_dense_forward", blas,
                {f.n_rows, f.n_out, f.n_in, {f.x, f.n_in, 0}, {f.w, f.n_out, 0}, beta, f.z, f.dtype});
}

/* Rounds V to T. */
template <typename T, typename V> static __global__ void round_numbers(uint64_t n_items, const V *from, T *to)
{
    for (uint64_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        sl_store(from[i], to + i);
    }
}

static enum sl_status start_rounding(const char *name, cudaStream_t stream, uint64_t n, const sl_real *from,
                                     sl_bf16 *to)
{
    if (n % 4 == 0 && ((uintptr_t)from | sl_quad_address(SL_DTYPE_BF16, to)) % sizeof(float4) == 0) {
        return sl_start(name, stream, sl_blocks(n / 4), round_numbers<ushort4, float4>, n / 4, (const float4 *)from,
                        (ushort4 *)to);
    }
    return sl_start(name, stream, sl_blocks(n), round_numbers<sl_bf16, float>, n, from, to);
}

/* A factor rounded to bf16, in scratch memory. */
static enum sl_status round_factor(const char *name, cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                   const sl_real *from, sl_scratch *rounded)
{
    const uint64_t n = (uint64_t)n_rows * n_columns;
    SL_CHECK(rounded->take(n * sizeof(sl_bf16), "a factor in bf16"));
    return start_rounding(name, stream, n, from, rounded->as<sl_bf16>());
}

#define STRETCH_ROWS 16384 /* rows computed in float before they are rounded */

/* bf16 Z, a slab of rows at a time in float. all.z is not read. */
static enum sl_status compute_rounded(struct sl_queue blas, const struct forward &all, sl_bf16 *z_out)
{
    const uint32_t most = sl_least<uint32_t>(all.n_rows, STRETCH_ROWS);
    sl_scratch room(blas.stream);
    SL_CHECK(room.take((size_t)most * all.n_out * sizeof(sl_real), "rows before they are rounded"));
    for (uint32_t i = 0; i < all.n_rows; i += most) {
        struct forward some = all;
        some.n_rows = sl_least(all.n_rows - i, most);
        some.x = (const sl_bf16 *)all.x + (size_t)i * all.n_in;
        some.z = room.as<sl_real>();
        SL_CHECK(compute(blas, some));
        SL_CHECK(start_rounding("sl_dense_forward", blas.stream, (uint64_t)some.n_rows * all.n_out, some.z,
                                z_out + (size_t)i * all.n_out));
    }
    return SL_OK;
}

enum sl_status sl_dense_forward_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in,
                                     uint32_t n_out, const void *x, const sl_real *w, const sl_real *bias, int beta,
                                     enum sl_dtype z_dtype, void *z_out)
{
    struct forward f = {n_rows, n_in, n_out, dtype, x, w, bias, beta, (sl_real *)z_out};
    if (dtype == SL_DTYPE_REAL || n_rows == 0 || n_out == 0) {
        return compute(blas, f);
    }
    sl_scratch rounded(blas.stream);
    SL_CHECK(round_factor("sl_dense_forward", blas.stream, n_in, n_out, w, &rounded));
    f.w = rounded.as<sl_bf16>();
    return z_dtype == SL_DTYPE_REAL ? compute(blas, f) : compute_rounded(blas, f, (sl_bf16 *)z_out);
}

enum sl_status sl_dense_backward_input_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in,
                                            uint32_t n_out, const sl_real *gz, const sl_real *w, int beta,
                                            sl_real *gx_out)
{
    const char *name = "sl_dense_backward_input";
    struct product p = {n_rows, n_in, n_out, {gz, n_out, 0}, {w, n_out, 1}, beta, gx_out, dtype};
    sl_scratch rounded_gz(blas.stream);
    sl_scratch rounded_w(blas.stream);
    if (n_rows == 0 || n_in == 0 || (n_out == 0 && beta != 0)) {
        return SL_OK;
    }
    if (n_out == 0) {
        return sl_bias_forward_cuda(blas.stream, n_rows, n_in, NULL, gx_out);
    }
    if (dtype != SL_DTYPE_REAL) {
        SL_CHECK(round_factor(name, blas.stream, n_rows, n_out, gz, &rounded_gz));
        SL_CHECK(round_factor(name, blas.stream, n_in, n_out, w, &rounded_w));
        p.a.entries = rounded_gz.as<sl_bf16>();
        p.b.entries = rounded_w.as<sl_bf16>();
    }
    return gemm(name, blas, p);
}

enum sl_status sl_dense_backward_weight_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in,
                                             uint32_t n_out, const void *x, const sl_real *gz, sl_real *gw_out,
                                             sl_real *gb_out)
{
    const char *name = "sl_dense_backward_weight";
    struct product p = {n_in, n_out, n_rows, {x, n_in, 1}, {gz, n_out, 0}, 0, gw_out, dtype};
    sl_scratch rounded(blas.stream);
    if (n_rows == 0 || n_in == 0 || n_out == 0) {
        SL_CHECK(sl_bias_forward_cuda(blas.stream, n_in, n_out, NULL, gw_out));
    } else {
        if (dtype != SL_DTYPE_REAL) {
            SL_CHECK(round_factor(name, blas.stream, n_rows, n_out, gz, &rounded));
            p.b.entries = rounded.as<sl_bf16>();
        }
        SL_CHECK(gemm(name, blas, p));
    }
    return gb_out == NULL ? SL_OK : sl_bias_backward_cuda(blas.stream, n_rows, n_out, gz, 0, gb_out);
}

/* ---- sparse rows ---- */

/* The dropout of the rows' entries. */
struct mask {
    uint32_t threshold;
    sl_real scale;
};

static struct mask mask_of(const struct sl_sparse_rows *x)
{
    struct mask mask;
    mask.threshold = sl_dropout_threshold(x->dropout);
    mask.scale = (sl_real)sl_dropout_scale(mask.threshold);
    return mask;
}

/* Entry e, of row i, after dropout. */
static __device__ sl_real entry_value(const struct sl_sparse_rows &x, struct mask mask, uint32_t i, uint64_t e)
{
    sl_real value = x.values[e];
    if (mask.threshold > 0) {
        uint32_t column = x.columns[e];
        uint32_t kept = sl_dropout_mask(&x.draw, x.dataset_ids[x.ids[i]], column / 8, mask.threshold);
        value *= kept >> column % 8 & 1 ? mask.scale : 0;
    }
    return value;
}

#define IN_FLIGHT 8 /* rows read at a time */

/* Adds the terms of the first `count` lanes (1 .. SL_WARP): *sum += coefficient * rows[index], in lane order, each lane
 * at its column c of rows of n_items. A lane without a term passes coefficient 0 and the index of another lane. */
template <typename T>
static __device__ void add_terms(uint32_t count, sl_real coefficient, uint32_t index, const T *rows, uint32_t n_items,
                                 uint32_t c, T *sum)
{
    for (uint32_t k = 0; k < count; k += IN_FLIGHT) {
        T item[IN_FLIGHT];
#pragma unroll
        for (uint32_t j = 0; j < IN_FLIGHT; j++) {
            uint32_t row = __shfl_sync(SL_ALL_LANES, index, (int)(k + j));
            item[j] = rows[(size_t)row * n_items + c];
        }
#pragma unroll
        for (uint32_t j = 0; j < IN_FLIGHT; j++) {
            *sum = sl_plus(*sum, sl_times(__shfl_sync(SL_ALL_LANES, coefficient, (int)(k + j)), item[j]));
        }
    }
}

/* One warp for SL_WARP items of a row. Lanes beyond the end of the row repeat its first item and store nothing. Z:
 * stored type of an item. */
template <typename T, typename Z>
static __global__ void multiply_rows(struct sl_sparse_rows x, struct mask mask, uint32_t n_rows, uint32_t n_items,
                                     const T *w, const T *bias, int beta, Z *z)
{
    const uint32_t n_tiles = sl_tiles(n_items);
    for (uint64_t item = sl_warp(); item < (uint64_t)n_rows * n_tiles; item += sl_n_warps()) {
        uint32_t i = (uint32_t)(item / n_tiles);
        uint32_t column = (uint32_t)(item % n_tiles) * SL_WARP + sl_lane();
        uint32_t c = column < n_items ? column : 0;
        Z *out = z + (size_t)i * n_items + c;
        const uint64_t *range = x.offsets + (x.ids[i] - x.first);
        const uint64_t end = range[1];
        T sum = sl_nothing(T());
        if (beta != 0) {
            sum = sl_wide(*out);
        } else if (bias != NULL) {
            sum = bias[c];
        }
        for (uint64_t e = range[0]; e < end; e += SL_WARP) {
            uint32_t count = end - e < SL_WARP ? (uint32_t)(end - e) : SL_WARP;
            bool has = sl_lane() < count;
            uint64_t own = has ? e + sl_lane() : e;
            add_terms(count, has ? entry_value(x, mask, i, own) : 0, x.columns[own], w, n_items, c, &sum);
        }
        if (column < n_items) {
            sl_store(sum, out);
        }
    }
}

template <typename T, typename Z>
static enum sl_status start_multiply_rows(cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_rows,
                                          uint32_t n_items, const sl_real *w, const sl_real *bias, int beta, void *z)
{
    return sl_start("sl_dense_sparse_forward", stream, sl_warp_blocks((uint64_t)n_rows * sl_tiles(n_items)),
                    multiply_rows<T, Z>, *x, mask_of(x), n_rows, n_items, (const T *)w, (const T *)bias, beta, (Z *)z);
}

enum sl_status sl_dense_sparse_forward_cuda(cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_rows,
                                            uint32_t n_out, const sl_real *w, const sl_real *bias, int beta,
                                            enum sl_dtype z_dtype, void *z_out)
{
    bool quads =
        n_out % 4 == 0 && ((uintptr_t)w | (uintptr_t)bias | sl_quad_address(z_dtype, z_out)) % sizeof(float4) == 0;
    return sl_by_dtype(z_dtype, [&](auto entry) {
        typedef decltype(entry) Z;
        typedef typename sl_stored<Z, float4>::type z_quad;
        if (quads) {
            return start_multiply_rows<float4, z_quad>(stream, x, n_rows, n_out / 4, w, bias, beta, z_out);
        }
        return start_multiply_rows<float, Z>(stream, x, n_rows, n_out, w, bias, beta, z_out);
    });
}

/* ---- sparse weight gradient ----
 *
 * Row c of GW is the sum, over the rows i with an entry in column c, of the entry times row i of GZ. Entries are stored
 * by row. A stable sort by column makes a list of each column, in row order.
 *
 * Only the device knows the number of entries of the rows. So each row has a slot for each entry of the fullest row of
 * the part, and slots without an entry are sorted behind the last column. Rows are taken in tiles of at most TILE_SLOTS
 * slots. The sums of a tile are added to the sums of the tiles before it.
 *
 * The sorted slots are cut into stretches of equal length. A list within one stretch is added by one block. A longer
 * list is added stretch by stretch, and then the sums of its stretches are added in order. */

#define TILE_SLOTS (1u << 22) /* 80 MiB of scratch memory */
#define STRETCH 2048          /* slots */

struct lists {
    uint32_t n_slots; /* rows x max_row */
    uint32_t max_row;
    sl_real *values;                    /* of each slot with an entry */
    uint32_t *columns, *slots;          /* as stored; columns[slot] is n_in if the slot has no entry */
    uint32_t *by_column, *sorted_slots; /* both, sorted by column */
    uint32_t *first;                    /* n_in + 1: the start of each column's list */
    sl_real *pieces;                    /* sums of a stretch's part of two long lists: 2 x stretches x n_out */
};

/* Dropped entries are skipped. */
static __global__ void fill_slots(struct sl_sparse_rows x, struct mask mask, uint32_t n_in, struct lists lists)
{
    for (uint64_t slot = sl_thread(); slot < lists.n_slots; slot += sl_n_threads()) {
        const uint32_t i = (uint32_t)slot / lists.max_row;
        const uint64_t *range = x.offsets + (x.ids[i] - x.first);
        const uint64_t e = range[0] + (uint32_t)slot % lists.max_row;
        const sl_real value = e < range[1] ? entry_value(x, mask, i, e) : 0;
        lists.values[slot] = value;
        lists.columns[slot] = value != 0 ? x.columns[e] : n_in;
        lists.slots[slot] = (uint32_t)slot;
    }
}

/* first[c]: the number of slots of smaller columns. */
static __global__ void find_lists(uint32_t n_in, struct lists lists)
{
    for (uint64_t c = sl_thread(); c <= n_in; c += sl_n_threads()) {
        uint32_t first = 0;
        for (uint32_t n = lists.n_slots; n > 0;) {
            const uint32_t half = n / 2;
            const bool smaller = lists.by_column[first + half] < c;
            first += smaller ? half + 1 : 0;
            n = smaller ? n - half - 1 : half;
        }
        lists.first[c] = first;
    }
}

#define LEAST_TERMS 32 /* terms worth a warp */

/* start + the terms of the sorted slots begin .. end - 1, at column c of GZ, for the first warp of the block. Each warp
 * adds consecutive terms, the first warp then adds the warps' sums. */
template <typename T>
static __device__ T sum_terms(const struct lists &lists, uint32_t begin, uint32_t end, const T *gz, uint32_t n_items,
                              uint32_t c, T start)
{
    __shared__ T sums[SL_WARPS][SL_WARP];
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t share = (end - begin + SL_WARPS - 1) / SL_WARPS;
    const uint32_t length = share < LEAST_TERMS ? LEAST_TERMS : share;
    const uint32_t own_end = end - begin < (warp + 1) * length ? end : begin + (warp + 1) * length;
    T sum = warp == 0 ? start : sl_nothing(T());
    for (uint32_t t = begin + warp * length; t < own_end; t += SL_WARP) {
        uint32_t count = sl_least<uint32_t>(own_end - t, SL_WARP);
        bool has = sl_lane() < count;
        uint32_t slot = lists.sorted_slots[has ? t + sl_lane() : t];
        add_terms(count, has ? lists.values[slot] : 0, slot / lists.max_row, gz, n_items, c, &sum);
    }
    sums[warp][sl_lane()] = sum;
    __syncthreads();
    for (uint32_t k = 1; warp == 0 && k * length < end - begin; k++) {
        sum = sl_plus(sum, sums[k][sl_lane()]);
    }
    __syncthreads();
    return sum;
}

/* Whether the list of a column ends in a later stretch than it begins. */
static __device__ bool is_long(const struct lists &lists, uint32_t column)
{
    const uint32_t begin = lists.first[column];
    const uint32_t end = lists.first[column + 1];
    return begin < end && begin / STRETCH != (end - 1) / STRETCH;
}

/* One block for SL_WARP items of the sums of a stretch. At most two long lists have a part in a stretch. The sum of a
 * list that began before is pieces[2 s]. The sum of a list that begins here and goes on is pieces[2 s + 1]. */
template <typename T>
static __global__ void sum_stretches(uint32_t n_in, struct lists lists, uint32_t n_items, const T *gz)
{
    T *pieces = (T *)lists.pieces;
    const uint32_t n_tiles = sl_tiles(n_items);
    const uint32_t n_stretches = (lists.n_slots + STRETCH - 1) / STRETCH;
    for (uint64_t item = blockIdx.x; item < (uint64_t)n_stretches * n_tiles; item += gridDim.x) {
        const uint32_t stretch = (uint32_t)(item / n_tiles);
        const uint32_t begin = stretch * STRETCH;
        const uint32_t end = lists.n_slots - begin < STRETCH ? lists.n_slots : begin + STRETCH;
        const uint32_t item_column = (uint32_t)(item % n_tiles) * SL_WARP + sl_lane();
        const uint32_t c = item_column < n_items ? item_column : 0;
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t column = lists.by_column[k == 0 ? begin : end - 1];
            if (column == n_in || !is_long(lists, column) || (lists.first[column] < begin) != (k == 0)) {
                continue; /* all threads of the block */
            }
            const uint32_t from = k == 0 ? begin : lists.first[column];
            const uint32_t to = sl_least(lists.first[column + 1], end);
            const T sum = sum_terms(lists, from, to, gz, n_items, c, sl_nothing(T()));
            if (threadIdx.x < SL_WARP && item_column < n_items) {
                pieces[((size_t)2 * stretch + k) * n_items + c] = sum;
            }
        }
    }
}

/* One block for SL_WARP items of a row of GW. */
template <typename T>
static __global__ void sum_lists(uint32_t n_in, struct lists lists, uint32_t n_items, const T *gz, int beta, T *gw)
{
    const T *pieces = (const T *)lists.pieces;
    const uint32_t n_tiles = sl_tiles(n_items);
    for (uint64_t item = blockIdx.x; item < (uint64_t)n_in * n_tiles; item += gridDim.x) {
        const uint32_t row = (uint32_t)(item / n_tiles);
        const uint32_t column = (uint32_t)(item % n_tiles) * SL_WARP + sl_lane();
        const uint32_t c = column < n_items ? column : 0;
        const uint32_t begin = lists.first[row];
        const uint32_t end = lists.first[row + 1];
        T *out = gw + (size_t)row * n_items + c;
        const bool stores = threadIdx.x < SL_WARP && column < n_items;
        if (begin == end && beta != 0) {
            continue; /* all threads of the block */
        }
        T sum = beta != 0 && stores ? *out : sl_nothing(T());
        if (is_long(lists, row)) {
            sum = sl_plus(sum, pieces[(size_t)(2 * (begin / STRETCH) + 1) * n_items + c]);
            for (uint32_t s = begin / STRETCH + 1; s <= (end - 1) / STRETCH; s++) {
                sum = sl_plus(sum, pieces[(size_t)2 * s * n_items + c]);
            }
        } else if (begin < end) {
            sum = sum_terms(lists, begin, end, gz, n_items, c, sum);
        }
        if (stores) {
            *out = sum;
        }
    }
}

/* Rows of a tile. */
static uint32_t tile_rows(const struct sl_sparse_rows *x, uint32_t n_rows)
{
    uint32_t most = x->max_row == 0 ? n_rows : TILE_SLOTS / x->max_row;
    if (most < 1) {
        return 1;
    }
    return sl_least(most, n_rows);
}

/* Scratch memory for the lists of a tile, and for the sums of its stretches. */
static enum sl_status take_lists(uint32_t n_in, uint32_t n_out, sl_scratch *room, struct lists *lists)
{
    const size_t n = lists->n_slots;
    const size_t n_pieces = 2 * ((n + STRETCH - 1) / STRETCH) * n_out;
    SL_CHECK(room->take((n_pieces + n) * sizeof(sl_real) + (4 * n + n_in + 1) * sizeof(uint32_t),
                        "the entries of sparse rows by column"));
    lists->pieces = room->as<sl_real>();
    lists->values = lists->pieces + n_pieces;
    lists->columns = (uint32_t *)(lists->values + n);
    lists->slots = lists->columns + n;
    lists->by_column = lists->slots + n;
    lists->sorted_slots = lists->by_column + n;
    lists->first = lists->sorted_slots + n;
    return SL_OK;
}

/* Sort the entries of rows into lists. */
static enum sl_status make_lists(const char *name, cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_in,
                                 const struct lists *lists)
{
    int n_bits = 1;
    while (n_bits < 32 && n_in >> n_bits > 0) {
        n_bits++;
    }
    SL_CHECK(sl_start(name, stream, sl_blocks(lists->n_slots), fill_slots, *x, mask_of(x), n_in, *lists));
    SL_CHECK(sl_sort_pairs(stream, lists->n_slots, n_bits, lists->columns, lists->slots, lists->by_column,
                           lists->sorted_slots));
    return sl_start(name, stream, sl_blocks((uint64_t)n_in + 1), find_lists, n_in, *lists);
}

/* GW from the lists. n_in, n_items >= 1. */
template <typename T>
static enum sl_status start_sums(const char *name, cudaStream_t stream, uint32_t n_in, const struct lists *lists,
                                 uint32_t n_items, const T *gz, int beta, T *gw)
{
    const uint64_t n_tiles = sl_tiles(n_items);
    const uint64_t n_stretches = (lists->n_slots + STRETCH - 1) / STRETCH;
    if (n_stretches > 1) {
        SL_CHECK(sl_start(name, stream, sl_blocks(n_stretches * n_tiles * SL_THREADS), sum_stretches<T>, n_in, *lists,
                          n_items, gz));
    }
    return sl_start(name, stream, sl_blocks(n_in * n_tiles * SL_THREADS), sum_lists<T>, n_in, *lists, n_items, gz, beta,
                    gw);
}

/* GW by tiles of rows. n_rows, n_in, n_out >= 1. */
static enum sl_status add_tiles(cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in,
                                uint32_t n_out, const sl_real *gz, int beta, sl_real *gw)
{
    const char *name = "sl_dense_sparse_backward_weight";
    const uint32_t most = tile_rows(x, n_rows);
    struct lists lists = {};
    sl_scratch room(stream);
    lists.max_row = x->max_row;
    lists.n_slots = most * x->max_row;
    SL_CHECK(take_lists(n_in, n_out, &room, &lists));
    for (uint32_t row = 0; row < n_rows; row += most) {
        struct sl_sparse_rows tile = *x;
        const sl_real *tile_gz = gz + (size_t)row * n_out;
        tile.ids += row;
        lists.n_slots = sl_least(n_rows - row, most) * x->max_row;
        SL_CHECK(make_lists(name, stream, &tile, n_in, &lists));
        if (sl_in_quads(n_out, tile_gz, gw, NULL)) {
            const float4 *quads = (const float4 *)tile_gz;
            SL_CHECK(start_sums(name, stream, n_in, &lists, n_out / 4, quads, beta, (float4 *)gw));
        } else {
            SL_CHECK(start_sums(name, stream, n_in, &lists, n_out, tile_gz, beta, gw));
        }
        beta = 1;
    }
    return SL_OK;
}

enum sl_status sl_dense_sparse_backward_weight_cuda(cudaStream_t stream, const struct sl_sparse_rows *x,
                                                    uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                                    int beta, sl_real *gw_out, sl_real *gb_out)
{
    if (n_rows == 0 && beta == 0) {
        SL_CHECK(sl_bias_forward_cuda(stream, n_in, n_out, NULL, gw_out));
    } else if (n_rows > 0 && n_in > 0 && n_out > 0) {
        SL_CHECK(add_tiles(stream, x, n_rows, n_in, n_out, gz, beta, gw_out));
    }
    return gb_out == NULL ? SL_OK : sl_bias_backward_cuda(stream, n_rows, n_out, gz, beta, gb_out);
}
