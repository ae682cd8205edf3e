/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * oneDNN compiles its sgemm kernels at the first call (50 ms), for all shapes together. Each call allocates the memory
 * for its packed copies and frees it again. */
#include "codelets/rows/gemm.h"

#include <cblas.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "codelets/rows/rowwise.h"
#include "support/memory.h"

#if defined(SL_DNNL) && !defined(SL_REAL_DOUBLE)
#define USE_DNNL
#include <dnnl.h>

/* OpenMP's own function. A compiler may lack the header of the OpenMP library that oneDNN is linked with. */
void omp_set_num_threads(int n);

#if DNNL_VERSION_MAJOR == 2 /* the version of this interface */
#define USE_DNNL_BF16
#endif
#endif

/* Up to this number of multiplications OpenBLAS does not copy the factors, and is up to twice as fast. Above it oneDNN
 * is faster at nearly all shapes. */
#define SMALL UINT64_C(1000000)

/* oneDNN gives a row of a bf16 product the same bits for each number of rows from this one on. */
#define FEW_ROWS 64

static int threads_before; /* OpenBLAS's, before sl_gemm_setup; 0: not set up */

void sl_gemm_setup(void)
{
    threads_before = openblas_get_num_threads();
    openblas_set_num_threads(1);
}

void sl_gemm_release(void)
{
    if (threads_before > 0) {
        openblas_set_num_threads(threads_before);
        threads_before = 0;
    }
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

/* oneDNN's status as ours. */
static enum sl_status status_of(dnnl_status_t status)
{
    SL_FAIL_IF(status == dnnl_out_of_memory, SL_ENOMEM, "no memory for oneDNN");
    SL_FAIL_IF(status != dnnl_success, SL_EINTERNAL, "oneDNN refuses it with status %d", (int)status);
    return SL_OK;
}

/* A failed product, with its shapes before the last message. */
static enum sl_status fail_product(enum sl_status st, uint32_t m, uint32_t n, uint32_t k, const char *remedy)
{
    return sl_fail(st, "a product of [%u x %u] and [%u x %u]: %s%s", m, k, k, n, sl_message(), remedy);
}

/* OpenMP stores the number of threads for each calling thread. A worker that never sets 1 would start its own team. */
static enum sl_status by_dnnl(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                              float *c)
{
    omp_set_num_threads(1);
    const enum sl_status st = status_of(dnnl_sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', m, n, k, 1,
                                                   a.entries, a.n_columns, b.entries, b.n_columns, (float)beta, c, n));
    return st == SL_OK ? SL_OK : fail_product(st, m, n, k, "");
}

static enum sl_status by_library(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                                 sl_real *c)
{
    if ((uint64_t)m * n > SMALL / k) {
        return by_dnnl(m, n, k, a, b, beta, c);
    }
    by_openblas(m, n, k, a, b, beta, c);
    return SL_OK;
}

#else

static enum sl_status by_library(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                                 sl_real *c)
{
    by_openblas(m, n, k, a, b, beta, c);
    return SL_OK;
}

#endif

enum sl_status sl_gemm(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta, sl_real *c)
{
    if (a.is_transposed) {
        return by_library(m, n, k, a, b, beta, c);
    }
    const struct sl_rowwise_product product = {.m = m,
                                               .n = n,
                                               .k = k,
                                               .a = a.entries,
                                               .b = b.entries,
                                               .width_a = a.n_columns,
                                               .width_b = b.n_columns,
                                               .b_is_transposed = b.is_transposed,
                                               .beta = beta,
                                               .c = c};
    return sl_rowwise_multiply(sl_rowwise_kernel(0), &product);
}

/* ---- factors in bf16 ---- */

/* A factor as bf16, or widened to sl_real. n_rows: as stored. If it is another now, free *room with sl_free. */
static enum sl_status convert(bool to_bf16, uint32_t n_rows, struct sl_factor *f, void **room)
{
    const size_t n = (size_t)n_rows * f->n_columns;
    if (f->is_bf16 == to_bf16) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(n, to_bf16 ? sizeof(sl_bf16) : sizeof(sl_real), "a factor of another precision", room));
    if (to_bf16) {
        sl_bf16_round(n, f->entries, *room);
    } else {
        sl_bf16_widen(n, f->entries, *room);
    }
    f->entries = *room;
    f->is_bf16 = to_bf16;
    return SL_OK;
}

#ifdef USE_DNNL_BF16

/* oneDNN's products for any shape, by [A transposed][B transposed][beta]. They keep nothing between calls (the
 * scratchpad is the caller's, and empty), so all workers share them. */
static struct {
    pthread_once_t once;
    bool has_instructions;
    dnnl_engine_t engine;
    dnnl_primitive_t product[2][2][2];
} bf16 = {.once = PTHREAD_ONCE_INIT};

/* The shape of a matrix as stored, or of its transpose. */
static enum sl_status describe(int64_t n_rows, int64_t n_columns, int64_t leading, int is_transposed,
                               dnnl_data_type_t type, dnnl_memory_desc_t *out)
{
    dnnl_dims_t sizes = {n_rows, n_columns};
    dnnl_dims_t strides = {is_transposed ? 1 : leading, is_transposed ? leading : 1};
    return status_of(dnnl_memory_desc_init_by_strides(out, 2, sizes, type, strides));
}

static enum sl_status set_attributes(int beta, dnnl_primitive_attr_t attributes)
{
    dnnl_post_ops_t ops;
    SL_CHECK(status_of(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user)));
    if (beta == 0) {
        return SL_OK;
    }
    SL_CHECK(status_of(dnnl_post_ops_create(&ops)));
    dnnl_post_ops_append_sum(ops, 1);
    const enum sl_status st = status_of(dnnl_primitive_attr_set_post_ops(attributes, ops));
    dnnl_post_ops_destroy(ops);
    return st;
}

static enum sl_status make_primitive(const dnnl_matmul_desc_t *desc, const_dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t made;
    SL_CHECK(status_of(dnnl_primitive_desc_create(&made, desc, attributes, bf16.engine, NULL)));
    bool needs_room = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0)) > 0;
    dnnl_status_t status = dnnl_unimplemented;
    if (!needs_room) {
        status = dnnl_primitive_create(out, made);
    }
    dnnl_primitive_desc_destroy(made);
    return status_of(status);
}

static enum sl_status make_product(int a_is_transposed, int b_is_transposed, int beta)
{
    const int64_t any = DNNL_RUNTIME_DIM_VAL;
    dnnl_memory_desc_t a;
    dnnl_memory_desc_t b;
    dnnl_memory_desc_t c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attributes;
    enum sl_status st;
    SL_CHECK(status_of(dnnl_primitive_attr_create(&attributes)));
    SL_TRY(st, set_attributes(beta, attributes), done);
    SL_TRY(st, describe(any, any, any, a_is_transposed, dnnl_bf16, &a), done);
    SL_TRY(st, describe(any, any, any, b_is_transposed, dnnl_bf16, &b), done);
    SL_TRY(st, describe(any, any, any, 0, dnnl_f32, &c), done);
    SL_TRY(st, status_of(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c)), done);
    st = make_primitive(&desc, attributes, &bf16.product[a_is_transposed][b_is_transposed][beta]);
done:
    dnnl_primitive_attr_destroy(attributes);
    return st;
}

static void setup_bf16(void)
{
    unsigned isa = dnnl_get_effective_cpu_isa();
    bf16.has_instructions = (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16 &&
                            dnnl_engine_create(&bf16.engine, dnnl_cpu, 0) == dnnl_success;
    for (int i = 0; i < 8 && bf16.has_instructions; i++) {
        bf16.has_instructions = make_product(i & 1, i >> 1 & 1, i >> 2) == SL_OK;
    }
}

/* Run a product. shape and data: the factors, then the result. */
static dnnl_status_t execute(const_dnnl_primitive_t product, const dnnl_memory_desc_t shape[3], void *const data[3])
{
    static const int roles[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_exec_arg_t args[3];
    dnnl_stream_t stream = NULL;
    int n = 0;
    dnnl_status_t status = dnnl_stream_create(&stream, bf16.engine, dnnl_stream_default_flags);
    while (n < 3 && status == dnnl_success) {
        args[n].arg = roles[n];
        status = dnnl_memory_create(&args[n].memory, &shape[n], bf16.engine, data[n]);
        if (status == dnnl_success) {
            n++;
        }
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_execute(product, stream, 3, args);
    }
    while (n-- > 0) {
        dnnl_memory_destroy(args[n].memory);
    }
    if (stream != NULL) {
        dnnl_stream_destroy(stream);
    }
    return status;
}

static enum sl_status by_dnnl_bf16(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                                   float *c)
{
    dnnl_memory_desc_t shape[3];
    void *const data[3] = {(void *)(uintptr_t)a.entries, (void *)(uintptr_t)b.entries, c};
    omp_set_num_threads(1);
    enum sl_status st;
    SL_TRY(st, describe(m, k, a.n_columns, a.is_transposed, dnnl_bf16, &shape[0]), failed);
    SL_TRY(st, describe(k, n, b.n_columns, b.is_transposed, dnnl_bf16, &shape[1]), failed);
    SL_TRY(st, describe(m, n, n, 0, dnnl_f32, &shape[2]), failed);
    SL_TRY(st, status_of(execute(bf16.product[a.is_transposed != 0][b.is_transposed != 0][beta != 0], shape, data)),
           failed);
    return SL_OK;
failed:
    return fail_product(st, m, n, k, "; --precision float needs no bf16 product");
}

/* A product of few rows, with rows of zeros up to FEW_ROWS. A is not transposed. */
static enum sl_status multiply_few(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                                   float *c)
{
    SL_FREED sl_bf16 *rows = NULL;
    SL_FREED float *room = NULL;
    enum sl_status st;
    SL_CHECK(sl_alloc((size_t)FEW_ROWS * k, sizeof *rows, "rows of a factor", &rows));
    SL_CHECK(sl_alloc((size_t)FEW_ROWS * n, sizeof *room, "rows of a product", &room));
    for (uint32_t i = 0; i < m; i++) {
        memcpy(rows + (size_t)i * k, (const sl_bf16 *)a.entries + (size_t)i * a.n_columns, k * sizeof *rows);
    }
    memset(rows + (size_t)m * k, 0, (size_t)(FEW_ROWS - m) * k * sizeof *rows);
    if (beta != 0) {
        memcpy(room, c, (size_t)m * n * sizeof *c);
        memset(room + (size_t)m * n, 0, (size_t)(FEW_ROWS - m) * n * sizeof *room);
    }
    st = by_dnnl_bf16(FEW_ROWS, n, k, (struct sl_factor){rows, k, 0, true}, b, beta, room);
    memcpy(c, room, (size_t)m * n * sizeof *c);
    return st;
}

static enum sl_status multiply_bf16(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b,
                                    int beta, float *c)
{
    if (m == 0) {
        return SL_OK;
    }
    if (a.is_transposed || m >= FEW_ROWS) {
        return by_dnnl_bf16(m, n, k, a, b, beta, c);
    }
    return multiply_few(m, n, k, a, b, beta, c);
}

static bool has_bf16(void)
{
    pthread_once(&bf16.once, setup_bf16);
    return bf16.has_instructions;
}

#else

#define multiply_bf16 sl_gemm

static bool has_bf16(void)
{
    return false;
}

#endif

enum sl_status sl_gemm_bf16(uint32_t m, uint32_t n, uint32_t k, struct sl_factor a, struct sl_factor b, int beta,
                            sl_real *c)
{
    const uint32_t a_rows = a.is_transposed ? k : m;
    const uint32_t b_rows = b.is_transposed ? n : k;
    void *room[4] = {NULL};
    enum sl_status st;
    SL_TRY(st, convert(true, a_rows, &a, &room[0]), done);
    SL_TRY(st, convert(true, b_rows, &b, &room[1]), done);
    if (has_bf16()) {
        st = multiply_bf16(m, n, k, a, b, beta, c);
    } else {
        SL_TRY(st, convert(false, a_rows, &a, &room[2]), done);
        SL_TRY(st, convert(false, b_rows, &b, &room[3]), done);
        st = sl_gemm(m, n, k, a, b, beta, c);
    }
done:
    for (int i = 0; i < 4; i++) {
        sl_free(room[i]);
    }
    return st;
}

/* ---- the libraries in use ---- */

void sl_gemm_describe(char *text, size_t room)
{
    const char *rows = sl_rowwise_kernel(0)->name;
    const char *of_bf16 = has_bf16() ? "bf16 by oneDNN" : "bf16 as float";
#ifdef USE_DNNL
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, room, "rows by %s; weight gradients by oneDNN %d.%d.%d, up to %u multiplications %s; %s", rows,
             version->major, version->minor, version->patch, (unsigned)SMALL, openblas_get_config(), of_bf16);
#else
    snprintf(text, room, "rows by %s; weight gradients by %s; %s", rows, openblas_get_config(), of_bf16);
#endif
}
