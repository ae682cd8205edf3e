/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The product of two dense matrices on a CPU, in one thread: StarPU's workers are the threads.
 *
 * Float products of more than a million multiplications go to oneDNN, where it is (configure --with-dnnl); all others to OpenBLAS. The
 * choice, like the order in which either library adds, is a function of the shape, so that the same product gives the same bits;
 * a row's last bits may differ with the number of rows beside it. doc/measurements.md has the rates of both.
 *
 * Products of bf16 are added up in float. oneDNN 2 has them where the processor has instructions for them (AVX512_BF16, AMX);
 * elsewhere the factors are widened, and the product is one of float.
 */
#ifndef SL_CODELETS_GEMM_H
#define SL_CODELETS_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"

/* A factor of a product: a matrix, row major, or its transpose. */
struct sl_factor {
    const sl_real *entries;
    uint32_t n_columns; /* as stored */
    int is_transposed;
};

struct sl_factor_bf16 {
    const sl_bf16 *entries;
    uint32_t n_columns; /* as stored */
    int is_transposed;
};

/* Address space that OpenBLAS maps for each thread that computes, most of which is never touched; without it OpenBLAS tries again for
 * ever. */
#define SL_GEMM_SPACE_BYTES ((uint64_t)192 << 20)

/* Before the first product: OpenBLAS computes in the calling thread alone. sl_gemm_release gives OpenBLAS back the number of threads
 * that it had; harmless without the other. Neither is thread safe. */
void sl_gemm_setup(void);
void sl_gemm_release(void);

/* C [m x n] = op(A) op(B) + beta C, op(A) [m x k], op(B) [k x n]; m, n, k at least 1 and at most INT32_MAX. With beta 0 C is not read.
 * SL_ENOMEM: no room for the library's copies of the factors. */
enum sl_status sl_gemm(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                       sl_real *c);

/* The same of factors in bf16. SL_EINTERNAL: oneDNN refuses it. */
enum sl_status sl_gemm_bf16(uint32_t m, uint32_t n, uint32_t k, struct sl_factor_bf16 a, struct sl_factor_bf16 b,
                            int beta, sl_real *c);

/* Which libraries multiply, in a line: "oneDNN 2.6.3, .." */
void sl_gemm_describe(char *text, size_t room);

#endif
