/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows with weights on a GPU: cuBLAS for dense rows, one warp per row for sparse rows. */
#include "codelets/bf16.cuh"

#include <cublas_v2.h>

#include "codelets/bias.h"
#include "codelets/dense.h"
#include "codelets/dropout.h"

#define ALL 0xffffffffu
#define WARPS (SL_THREADS / SL_WARP) /* per block */

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

static enum sl_status gemm(const char *name, const struct sl_dense_cuda &blas, const struct product &p)
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

static enum sl_status compute(struct sl_dense_cuda blas, const struct forward &f)
{
    enum sl_status st = SL_OK;
    int beta = f.beta;
    if (f.n_rows == 0 || f.n_out == 0) {
        return SL_OK;
    }
    if (beta == 0 && (f.bias != NULL || f.n_in == 0)) {
        st = sl_bias_forward_cuda(blas.stream, f.n_rows, f.n_out, f.bias, f.z);
        beta = 1;
    }
    if (st != SL_OK || f.n_in == 0) {
        return st;
    }
    return gemm("sl_dense_forward", blas,
                {f.n_rows, f.n_out, f.n_in, {f.x, f.n_in, 0}, {f.w, f.n_out, 0}, beta, f.z, f.dtype});
}

enum sl_status sl_dense_forward_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                     const void *x, const sl_real *w, const sl_real *bias, int beta,
                                     enum sl_dtype z_dtype, void *z_out)
{
    (void)z_dtype; /* SL_DTYPE_REAL */
    return compute(blas, {n_rows, n_in, n_out, SL_DTYPE_REAL, x, w, bias, beta, (sl_real *)z_out});
}

enum sl_status sl_dense_backward_input_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                            const sl_real *gz, const sl_real *w, int beta, sl_real *gx_out)
{
    const char *name = "sl_dense_backward_input";
    if (n_rows == 0 || n_in == 0 || (n_out == 0 && beta != 0)) {
        return SL_OK;
    }
    if (n_out == 0) {
        return sl_bias_forward_cuda(blas.stream, n_rows, n_in, NULL, gx_out);
    }
    return gemm(name, blas, {n_rows, n_in, n_out, {gz, n_out, 0}, {w, n_out, 1}, beta, gx_out, SL_DTYPE_REAL});
}

enum sl_status sl_dense_backward_weight_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                             const void *x, const sl_real *gz, sl_real *gw_out, sl_real *gb_out)
{
    const char *name = "sl_dense_backward_weight";
    enum sl_status st;
    if (n_rows > 0 && n_in > 0 && n_out > 0) {
        st = gemm(name, blas, {n_in, n_out, n_rows, {x, n_in, 1}, {gz, n_out, 0}, 0, gw_out, SL_DTYPE_REAL});
    } else {
        st = sl_bias_forward_cuda(blas.stream, n_in, n_out, NULL, gw_out);
    }
    if (st != SL_OK || gb_out == NULL) {
        return st;
    }
    return sl_bias_backward_cuda(blas.stream, n_rows, n_out, gz, 0, gb_out);
}

/* ---- dense rows, bf16 ---- */

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
    enum sl_status st = rounded->take(n * sizeof(sl_bf16), "a factor in bf16");
    if (st == SL_OK) {
        st = start_rounding(name, stream, n, from, rounded->as<sl_bf16>());
    }
    return st;
}

#define STRETCH_ROWS 16384 /* rows computed in float before they are rounded */

/* bf16 Z, a slab of rows at a time in float. all.z is not read. */
static enum sl_status compute_rounded(struct sl_dense_cuda blas, const struct forward &all, sl_bf16 *z_out)
{
    const uint32_t most = all.n_rows < STRETCH_ROWS ? all.n_rows : STRETCH_ROWS;
    sl_scratch room(blas.stream);
    enum sl_status st = room.take((size_t)most * all.n_out * sizeof(sl_real), "rows before they are rounded");
    for (uint32_t i = 0; i < all.n_rows && st == SL_OK; i += most) {
        struct forward some = all;
        some.n_rows = all.n_rows - i < most ? all.n_rows - i : most;
        some.x = (const sl_bf16 *)all.x + (size_t)i * all.n_in;
        some.z = room.as<sl_real>();
        st = compute(blas, some);
        if (st == SL_OK) {
            st = start_rounding("sl_dense_forward", blas.stream, (uint64_t)some.n_rows * all.n_out, some.z,
                                z_out + (size_t)i * all.n_out);
        }
    }
    return st;
}

enum sl_status sl_dense_forward_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                          const void *x, const sl_real *w, const sl_real *bias, int beta,
                                          enum sl_dtype z_dtype, void *z_out)
{
    if (n_rows == 0 || n_out == 0) {
        return SL_OK;
    }
    sl_scratch rounded(blas.stream);
    enum sl_status st = round_factor("sl_dense_forward", blas.stream, n_in, n_out, w, &rounded);
    if (st != SL_OK) {
        return st;
    }
    const struct forward f = {n_rows, n_in, n_out,           SL_DTYPE_BF16, x, rounded.as<sl_bf16>(),
                              bias,   beta, (sl_real *)z_out};
    return z_dtype == SL_DTYPE_REAL ? compute(blas, f) : compute_rounded(blas, f, (sl_bf16 *)z_out);
}

enum sl_status sl_dense_backward_input_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                 uint32_t n_out, const sl_real *gz, const sl_real *w, int beta,
                                                 sl_real *gx_out)
{
    const char *name = "sl_dense_backward_input";
    sl_scratch rounded_gz(blas.stream);
    sl_scratch rounded_w(blas.stream);
    enum sl_status st;
    if (n_rows == 0 || n_out == 0 || n_in == 0) {
        return sl_dense_backward_input_cuda(blas, n_rows, n_in, n_out, gz, w, beta, gx_out);
    }
    SL_TRY(st, round_factor(name, blas.stream, n_rows, n_out, gz, &rounded_gz), done);
    SL_TRY(st, round_factor(name, blas.stream, n_in, n_out, w, &rounded_w), done);
    st = gemm(name, blas,
              {n_rows,
               n_in,
               n_out,
               {rounded_gz.as<sl_bf16>(), n_out, 0},
               {rounded_w.as<sl_bf16>(), n_out, 1},
               beta,
               gx_out,
               SL_DTYPE_BF16});
done:
    return st;
}

enum sl_status sl_dense_backward_weight_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                  uint32_t n_out, const void *x, const sl_real *gz, sl_real *gw_out,
                                                  sl_real *gb_out)
{
    const char *name = "sl_dense_backward_weight";
    sl_scratch rounded(blas.stream);
    enum sl_status st;
    if (n_rows == 0 || n_out == 0 || n_in == 0) {
        return sl_dense_backward_weight_cuda(blas, n_rows, n_in, n_out, NULL, gz, gw_out, gb_out);
    }
    SL_TRY(st, round_factor(name, blas.stream, n_rows, n_out, gz, &rounded), done);
    SL_TRY(st,
           gemm(name, blas,
                {n_in, n_out, n_rows, {x, n_in, 1}, {rounded.as<sl_bf16>(), n_out, 0}, 0, gw_out, SL_DTYPE_BF16}),
           done);
    if (gb_out != NULL) {
        st = sl_bias_backward_cuda(blas.stream, n_rows, n_out, gz, 0, gb_out);
    }
done:
    return st;
}

/* ---- sparse rows ---- */

static __device__ float nothing(float)
{
    return 0;
}

static __device__ float4 nothing(float4)
{
    return make_float4(0, 0, 0, 0);
}

/* y += a x */
static __device__ void add_scaled(float a, float x, float *y)
{
    *y += a * x;
}

static __device__ void add_scaled(float a, float4 x, float4 *y)
{
    y->x += a * x.x;
    y->y += a * x.y;
    y->z += a * x.z;
    y->w += a * x.w;
}

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
            uint32_t row = __shfl_sync(ALL, index, (int)(k + j));
            item[j] = rows[(size_t)row * n_items + c];
        }
#pragma unroll
        for (uint32_t j = 0; j < IN_FLIGHT; j++) {
            add_scaled(__shfl_sync(ALL, coefficient, (int)(k + j)), item[j], sum);
        }
    }
}

/* One warp for SL_WARP items of a row. Lanes beyond the end of the row repeat its first item and store nothing. Z:
 * stored type of an item. */
template <typename T, typename Z>
static __global__ void multiply_rows(struct sl_sparse_rows x, struct mask mask, uint32_t n_rows, uint32_t n_items,
                                     const T *w, const T *bias, int beta, Z *z)
{
    const uint32_t n_tiles = (n_items + SL_WARP - 1) / SL_WARP;
    for (uint64_t item = sl_warp(); item < (uint64_t)n_rows * n_tiles; item += sl_n_warps()) {
        uint32_t i = (uint32_t)(item / n_tiles);
        uint32_t column = (uint32_t)(item % n_tiles) * SL_WARP + sl_lane();
        uint32_t c = column < n_items ? column : 0;
        Z *out = z + (size_t)i * n_items + c;
        const uint64_t *range = x.offsets + (x.ids[i] - x.first);
        const uint64_t end = range[1];
        T sum = nothing(T());
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
    return sl_start("sl_dense_sparse_forward", stream,
                    sl_warp_blocks((uint64_t)n_rows * ((n_items + SL_WARP - 1) / SL_WARP)), multiply_rows<T, Z>, *x,
                    mask_of(x), n_rows, n_items, (const T *)w, (const T *)bias, beta, (Z *)z);
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
 * by row. They are first sorted into lists by column, each in row order:
 *   1. Rows are cut into slabs of consecutive rows. One warp per slab counts its entries by column.
 *   2. The counts give the place of each slab's entries in the list of each column.
 *   3. The warps go over their slabs again, and put the entries there.
 * A row has a column at most once: the lanes of a warp, at entries of one row, never write to the same place, and need
 * no atomics. The lists do not depend on the slabs.
 *
 * Only the device knows the number of entries of the rows. So rows are taken in tiles. A tile has at most TILE_TERMS
 * entries, even if all its rows were as full as the fullest row of the part. The sums of a tile are added to the sums
 * of the tiles before it. */

#define TILE_TERMS (1u << 23)  /* 64 MiB of terms */
#define MOST_COUNTS (1u << 23) /* columns x slabs: 32 MiB of counts */
#define MOST_SLABS 1024
#define LEAST_ROWS 8 /* per slab */

struct term {
    uint32_t row;
    sl_real value;
};

struct lists {
    uint32_t n_slabs;
    uint32_t slab_rows;
    /* n_in x n_slabs. Later: the first place of a slab's entries in the column's list. */
    uint32_t *counts;
    uint32_t *first; /* n_in + 1: the start of each column's list */
    struct term *terms;
};

/* Count the entries (terms NULL), or put each entry at its place and count again: a count moves from the first place of
 * a slab to the end of its places. Dropped entries are skipped. */
static __global__ void list_entries(struct sl_sparse_rows x, struct mask mask, uint32_t n_rows, struct lists lists,
                                    struct term *terms)
{
    for (uint64_t s = sl_warp(); s < lists.n_slabs; s += sl_n_warps()) {
        uint64_t end = (s + 1) * lists.slab_rows < n_rows ? (s + 1) * lists.slab_rows : n_rows;
        for (uint64_t i = s * lists.slab_rows; i < end; i++) {
            const uint64_t *range = x.offsets + (x.ids[i] - x.first);
            const uint64_t past = range[1];
            for (uint64_t e = range[0] + sl_lane(); e < past; e += SL_WARP) {
                sl_real value = entry_value(x, mask, (uint32_t)i, e);
                uint32_t column = x.columns[e];
                uint32_t *count = lists.counts + (size_t)column * lists.n_slabs + s;
                if (value != 0) {
                    if (terms != NULL) {
                        terms[lists.first[column] + *count] = {(uint32_t)i, value};
                    }
                    ++*count;
                }
            }
            __syncwarp(); /* the next row may count the same columns, in other lanes */
        }
    }
}

/* One warp per column. Counts become exclusive sums; the total of the column goes to `first`. */
static __global__ void add_up_slabs(uint32_t n_in, struct lists lists)
{
    const uint32_t lane = sl_lane();
    for (uint64_t column = sl_warp(); column < n_in; column += sl_n_warps()) {
        uint32_t *counts = lists.counts + column * lists.n_slabs;
        uint32_t before = 0;
        for (uint32_t s0 = 0; s0 < lists.n_slabs; s0 += SL_WARP) {
            bool inside = s0 + lane < lists.n_slabs;
            uint32_t count = inside ? counts[s0 + lane] : 0;
            uint32_t sum = count; /* of the lanes up to this lane */
            for (uint32_t distance = 1; distance < SL_WARP; distance *= 2) {
                uint32_t other = __shfl_sync(ALL, sum, (int)(lane >= distance ? lane - distance : lane));
                sum += lane >= distance ? other : 0;
            }
            if (inside) {
                counts[s0 + lane] = before + sum - count;
            }
            before += __shfl_sync(ALL, sum, SL_WARP - 1);
        }
        if (lane == 0) {
            lists.first[column] = before;
        }
    }
}

/* One block. Totals become exclusive sums; each thread takes consecutive columns. */
static __global__ void add_up_columns(uint32_t n_in, uint32_t *first)
{
    __shared__ uint32_t totals[SL_THREADS];
    const uint64_t length = ((uint64_t)n_in + SL_THREADS - 1) / SL_THREADS;
    const uint64_t begin = threadIdx.x * length < n_in ? threadIdx.x * length : n_in;
    const uint64_t end = n_in - begin < length ? n_in : begin + length;
    uint32_t sum = 0;
    for (uint64_t c = begin; c < end; c++) {
        sum += first[c];
    }
    totals[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (uint32_t t = 0; t < threadIdx.x; t++) {
        sum += totals[t];
    }
    for (uint64_t c = begin; c < end; c++) {
        uint32_t total = first[c];
        first[c] = sum;
        sum += total;
    }
    if (threadIdx.x == SL_THREADS - 1) {
        first[n_in] = sum;
    }
}

#define LEAST_TERMS 32 /* terms worth a warp */

/* One block for SL_WARP items of a row of GW. Each warp adds consecutive terms of the list, the first warp then adds
 * the warps' sums. */
template <typename T>
static __global__ void sum_lists(uint32_t n_in, struct lists lists, uint32_t n_items, const T *gz, int beta, T *gw)
{
    __shared__ T stretch[WARPS][SL_WARP];
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t n_tiles = (n_items + SL_WARP - 1) / SL_WARP;
    for (uint64_t item = blockIdx.x; item < (uint64_t)n_in * n_tiles; item += gridDim.x) {
        uint32_t row = (uint32_t)(item / n_tiles);
        uint32_t column = (uint32_t)(item % n_tiles) * SL_WARP + sl_lane();
        uint32_t c = column < n_items ? column : 0;
        T *out = gw + (size_t)row * n_items + c;
        const struct term *terms = lists.terms + lists.first[row];
        uint32_t n = lists.first[row + 1] - lists.first[row];
        if (n == 0 && beta != 0) {
            continue; /* all threads of the block */
        }
        uint32_t length = (n + WARPS - 1) / WARPS < LEAST_TERMS ? LEAST_TERMS : (n + WARPS - 1) / WARPS;
        uint64_t begin = (uint64_t)warp * length < n ? (uint64_t)warp * length : n;
        uint64_t end = n - begin < length ? n : begin + length;
        T sum = warp == 0 && beta != 0 ? *out : nothing(T());
        for (uint64_t t = begin; t < end; t += SL_WARP) {
            uint32_t count = end - t < SL_WARP ? (uint32_t)(end - t) : SL_WARP;
            bool has = sl_lane() < count;
            struct term own = terms[has ? t + sl_lane() : t];
            add_terms(count, has ? own.value : 0, own.row, gz, n_items, c, &sum);
        }
        stretch[warp][sl_lane()] = sum;
        __syncthreads();
        if (warp == 0 && column < n_items) {
            for (uint32_t k = 1; (uint64_t)k * length < n; k++) {
                add_scaled(1, stretch[k][sl_lane()], &sum);
            }
            *out = sum;
        }
        __syncthreads();
    }
}

static void cut_slabs(uint32_t n_rows, uint32_t n_in, struct lists *out)
{
    uint32_t most = MOST_COUNTS / n_in;
    if (most > MOST_SLABS) {
        most = MOST_SLABS;
    } else if (most < 1) {
        most = 1;
    }
    out->slab_rows = (uint32_t)(((uint64_t)n_rows + most - 1) / most);
    out->slab_rows = out->slab_rows < LEAST_ROWS ? LEAST_ROWS : out->slab_rows;
    out->n_slabs = (uint32_t)(((uint64_t)n_rows + out->slab_rows - 1) / out->slab_rows);
}

/* Rows of a tile. */
static uint32_t tile_rows(const struct sl_sparse_rows *x, uint32_t n_rows)
{
    uint32_t most = x->max_row == 0 ? n_rows : TILE_TERMS / x->max_row;
    if (most < 1) {
        return 1;
    }
    return most < n_rows ? most : n_rows;
}

/* Scratch memory for the lists of a tile of n_rows rows. n_rows, n_in >= 1. */
static enum sl_status take_lists(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in, sl_scratch *room,
                                 struct lists *out)
{
    size_t n_terms = (size_t)n_rows * x->max_row;
    cut_slabs(n_rows, n_in, out);
    size_t n_counts = (size_t)n_in * out->n_slabs;
    enum sl_status st = room->take(n_terms * sizeof *out->terms + (n_counts + n_in + 1) * sizeof *out->counts,
                                   "the entries of sparse rows by column");
    if (st == SL_OK) {
        out->terms = room->as<struct term>();
        out->counts = (uint32_t *)(out->terms + n_terms);
        out->first = out->counts + n_counts;
    }
    return st;
}

/* Sort the entries of a tile's rows into lists. `out` has room for at least as many rows, and keeps its slabs. */
static enum sl_status make_lists(const char *name, cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_rows,
                                 uint32_t n_in, struct lists *out)
{
    enum sl_status st;
    out->n_slabs = (n_rows - 1) / out->slab_rows + 1;
    size_t n_counts = (size_t)n_in * out->n_slabs;
    SL_TRY(st, sl_cuda_status(cudaMemsetAsync(out->counts, 0, n_counts * sizeof *out->counts, stream), name), failed);
    SL_TRY(st,
           sl_start(name, stream, sl_warp_blocks(out->n_slabs), list_entries, *x, mask_of(x), n_rows, *out,
                    (struct term *)NULL),
           failed);
    SL_TRY(st, sl_start(name, stream, sl_warp_blocks(n_in), add_up_slabs, n_in, *out), failed);
    SL_TRY(st, sl_start(name, stream, 1, add_up_columns, n_in, out->first), failed);
    st = sl_start(name, stream, sl_warp_blocks(out->n_slabs), list_entries, *x, mask_of(x), n_rows, *out, out->terms);
failed:
    return st;
}

/* GW from the lists. n_in, n_items >= 1. */
template <typename T>
static enum sl_status start_sum_lists(const char *name, cudaStream_t stream, uint32_t n_in, const struct lists *lists,
                                      uint32_t n_items, const T *gz, int beta, T *gw)
{
    uint64_t n_blocks = (uint64_t)n_in * ((n_items + SL_WARP - 1) / SL_WARP);
    return sl_start(name, stream, n_blocks < SL_MAX_BLOCKS ? (unsigned)n_blocks : SL_MAX_BLOCKS, sum_lists<T>, n_in,
                    *lists, n_items, gz, beta, gw);
}

/* GW by tiles of rows. n_rows, n_in, n_out >= 1. */
static enum sl_status add_tiles(cudaStream_t stream, const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in,
                                uint32_t n_out, const sl_real *gz, int beta, sl_real *gw)
{
    const char *name = "sl_dense_sparse_backward_weight";
    const uint32_t most = tile_rows(x, n_rows);
    struct lists lists = {};
    sl_scratch room(stream);
    enum sl_status st;
    SL_TRY(st, take_lists(x, most, n_in, &room, &lists), failed);
    for (uint32_t row = 0; row < n_rows; row += most) {
        struct sl_sparse_rows tile = *x;
        const sl_real *tile_gz = gz + (size_t)row * n_out;
        tile.ids += row;
        SL_TRY(st, make_lists(name, stream, &tile, n_rows - row < most ? n_rows - row : most, n_in, &lists), failed);
        if (sl_in_quads(n_out, tile_gz, gw, NULL)) {
            const float4 *quads = (const float4 *)tile_gz;
            SL_TRY(st, start_sum_lists(name, stream, n_in, &lists, n_out / 4, quads, beta, (float4 *)gw), failed);
        } else {
            SL_TRY(st, start_sum_lists(name, stream, n_in, &lists, n_out, tile_gz, beta, gw), failed);
        }
        beta = 1;
    }
failed:
    return st;
}

enum sl_status sl_dense_sparse_backward_weight_cuda(cudaStream_t stream, const struct sl_sparse_rows *x,
                                                    uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                                    int beta, sl_real *gw_out, sl_real *gb_out)
{
    enum sl_status st = SL_OK;
    if (n_rows == 0 && beta == 0) {
        st = sl_bias_forward_cuda(stream, n_in, n_out, NULL, gw_out);
    } else if (n_rows > 0 && n_in > 0 && n_out > 0) {
        st = add_tiles(stream, x, n_rows, n_in, n_out, gz, beta, gw_out);
    }
    if (st != SL_OK || gb_out == NULL) {
        return st;
    }
    return sl_bias_backward_cuda(stream, n_rows, n_out, gz, beta, gb_out);
}
