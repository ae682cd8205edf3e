/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * oneDNN's sgemm is one set of kernels compiled when it is first called (50 ms), not one for each shape; it takes the room for its
 * packed copies with each call, and gives it back. */
#include "codelets/gemm.h"

#include <cblas.h>
#include <stdio.h>

#if defined(SL_DNNL) && !defined(SL_REAL_DOUBLE)
#define USE_DNNL
#include <dnnl.h>

/* OpenMP's own, declared here because a compiler may lack the header of the library that oneDNN is linked with. */
void omp_set_num_threads(int n);
#endif

/* With no more multiplications OpenBLAS has kernels that do not copy the factors, and is up to twice as fast; with more, oneDNN is
 * the faster at nearly all shapes. */
#define SMALL UINT64_C(1000000)

void sl_gemm_setup(void)
{
    openblas_set_num_threads(1);
}

static void by_openblas(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                        sl_real *c)
{
    enum CBLAS_TRANSPOSE op_a = a.is_transposed ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE op_b = b.is_transposed ? CblasTrans : CblasNoTrans;
    blasint lda = (blasint)a.n_columns;
    blasint ldb = (blasint)b.n_columns;
#ifdef SL_REAL_DOUBLE
    cblas_dgemm(CblasRowMajor, op_a, op_b, (blasint)m, (blasint)n, (blasint)k, 1, a.entries, lda, b.entries, ldb, beta,
                c, (blasint)n);
#else
    cblas_sgemm(CblasRowMajor, op_a, op_b, (blasint)m, (blasint)n, (blasint)k, 1, a.entries, lda, b.entries, ldb,
                (float)beta, c, (blasint)n);
#endif
}

#ifdef USE_DNNL

/* OpenMP keeps the number of threads for each thread that asks. A worker that never said 1 would start a team of its own. */
static enum sl_status by_dnnl(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                              float *c)
{
    omp_set_num_threads(1);
    dnnl_status_t status = dnnl_sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', m, n, k, 1, a.entries,
                                      a.n_columns, b.entries, b.n_columns, (float)beta, c, n);
    if (status == dnnl_success) {
        return SL_OK;
    }
    return sl_fail(status == dnnl_out_of_memory ? SL_ENOMEM : SL_EINTERNAL,
                   "a product of [%u x %u] and [%u x %u]: %s (oneDNN's status %d)", m, k, k, n,
                   status == dnnl_out_of_memory ? "no memory for oneDNN's copies" : "oneDNN refuses it", (int)status);
}

enum sl_status sl_gemm(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta, sl_real *c)
{
    if ((uint64_t)m * n > SMALL / k) {
        return by_dnnl(m, n, k, a, b, beta, c);
    }
    by_openblas(m, n, k, a, b, beta, c);
    return SL_OK;
}

void sl_gemm_describe(char *text, size_t room)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, room, "oneDNN %d.%d.%d; up to %u multiplications %s", version->major, version->minor, version->patch,
             (unsigned)SMALL, openblas_get_config());
}

#else

enum sl_status sl_gemm(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta, sl_real *c)
{
    by_openblas(m, n, k, a, b, beta, c);
    return SL_OK;
}

void sl_gemm_describe(char *text, size_t room)
{
    snprintf(text, room, "%s", openblas_get_config());
}

#endif
