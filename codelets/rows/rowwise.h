/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rowwise: products C = A op(B) whose bits in a row depend on that row of A and on B alone, for codelets/rows/gemm.h.
 *
 * The factors are cut into stretches of SL_ROWWISE_DEPTH columns of A. In a stretch an entry of C is one chain of
 * fused multiply-adds, from its first column to its last, that begins with 0. The sums of the stretches are added in
 * order. So neither the number of rows or columns nor the place of an entry can change its bits. The kernels with AVX2
 * and with AVX-512 give the same bits. The plain kernel rounds between multiplication and addition.
 *
 * The kernels read A in place, and B unless it is transposed or wide.
 */
#ifndef SL_CODELETS_ROWWISE_H
#define SL_CODELETS_ROWWISE_H

#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#if defined(__GNUC__) && defined(__x86_64__) && !defined(SL_REAL_DOUBLE)
#define SL_ROWWISE_X86
#endif

#define SL_ROWWISE_DEPTH 256

/* One stretch: C [m x n] = A [m x k] B [k x n] + beta C, row-major. width_x: from row to row of X. */
struct sl_rowwise_stretch {
    uint32_t m, n, k; /* k: at most SL_ROWWISE_DEPTH */
    const sl_real *a, *b;
    sl_real *c;
    size_t width_a, width_b, width_c;
    int beta;
};

struct sl_rowwise_kernel {
    const char *name;
    void (*multiply)(const struct sl_rowwise_stretch *stretch);
};

/* The kernels that this processor has, the fastest first. NULL: there is no kernel i. */
const struct sl_rowwise_kernel *sl_rowwise_kernel(uint32_t i);

struct sl_rowwise_product {
    uint32_t m, n, k;
    const sl_real *a, *b; /* A [m x k]; B [k x n], stored transposed if b_is_transposed */
    uint32_t width_a, width_b;
    int b_is_transposed;
    int beta; /* 0: C is not read */
    sl_real *c;
};

#ifdef SL_ROWWISE_X86
void sl_rowwise_avx512(const struct sl_rowwise_stretch *stretch);
void sl_rowwise_avx2(const struct sl_rowwise_stretch *stretch);
#endif

/* m, n, k: 1 to INT32_MAX. SL_ENOMEM: no memory for a copy of some columns of B. */
enum sl_status sl_rowwise_multiply(const struct sl_rowwise_kernel *kernel, const struct sl_rowwise_product *product);

#endif
