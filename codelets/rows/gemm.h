/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The product of two dense matrices on a CPU, in one thread: the threads are StarPU's workers.
 *
 * If A is not transposed, a row of C has the same bits whatever rows are beside it: its bits depend on the row of A and
 * on B. So an output of a layer, and the gradient of a row, does not depend on how rows are split. Such float products
 * have kernels of their own (codelets/rows/rowwise.h).
 *
 * If A is transposed, C is a sum over rows: the gradient of weights. Float products of more than a million
 * multiplications then go to oneDNN, if configured (--with-dnnl). All others go to OpenBLAS. The choice, and the order
 * in which either library adds, depend on the shape alone. So the same product gives the same bits. doc/journal.md has
 * the rates.
 *
 * bf16 products are summed in float. oneDNN 2 computes them if the processor has the instructions (AVX512_BF16, AMX).
 * Otherwise the factors are widened for a float product. oneDNN gives a row the same bits for each number of rows from
 * 64 on, so a product of fewer rows gets rows of zeros.
 */
#ifndef SL_CODELETS_GEMM_H
#define SL_CODELETS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"

/* A factor of a product: a row-major matrix, or its transpose. */
struct sl_factor {
    const void *entries; /* sl_real, or sl_bf16 if it says so */
    uint32_t n_columns;  /* as stored */
    int is_transposed;
    bool is_bf16;
};

/* Address space that OpenBLAS maps for each thread that computes; most of it is never touched. Without the space
 * OpenBLAS retries for ever. */
#define SL_GEMM_SPACE_BYTES ((uint64_t)192 << 20)

/* Call sl_gemm_setup before the first product: OpenBLAS then computes in the calling thread. sl_gemm_release restores
 * OpenBLAS's number of threads; without a setup it does nothing. Not thread safe. */
void sl_gemm_setup(void);
void sl_gemm_release(void);

/* C [m x n] = op(A) op(B) + beta C, op(A) [m x k], op(B) [k x n]. m, n, k: 1 to INT32_MAX. beta 0: C is not read.
 * The factors are sl_real. SL_ENOMEM: no memory for the library's copies of the factors. */
enum sl_status sl_gemm(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                       sl_real *c);

/* The same with bf16 factors. A factor of sl_real is rounded first. SL_EINTERNAL: oneDNN refuses the product. */
enum sl_status sl_gemm_bf16(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                            sl_real *c);

/* One line with the libraries that multiply: "oneDNN 2.6.3, .." */
void sl_gemm_describe(char *text, size_t room);

#endif
