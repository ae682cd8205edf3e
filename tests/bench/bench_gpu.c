/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * make bench-gpu, first part: each launcher's rate on one GPU, as Markdown: bytes over time beside the copy
 * bandwidth, flops over time beside a large product's, all measured in this run, medians of many.
 *
 * usage: bench_gpu [--quick|--calls] [repeats]
 *
 * --quick: sizes that show that everything runs, and nothing of how fast. --calls: what single calls cost instead
 * (calls.h). Exit status 77: there is no device.
 *
 * Bytes are what must move at least: each row read once per use and written once. Tables are several times the last
 * cache; indices are random, data is random. Times are of events around one launch or, where that takes less than
 * SHORT_S, around SHORT_CALLS of them, one after the other, so that they are not the host's. */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusparse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/optimize.h"
#include "codelets/ends/reduce.h"
#include "codelets/rows/activate.h"
#include "codelets/rows/dense.h"
#include "codelets/rows/dropout.h"
#include "codelets/rows/gather.h"
#include "codelets/sums/aggregate.h"
#include "codelets/sums/attend.h"
#include "codelets/sums/relate.h"
#include "support/random.h"
#include "tests/bench/calls.h"
#include "tests/support/owned.h"

enum { EXIT_NO_DEVICE = 77, MAX_REPEATS = 1000, SHORT_CALLS = 20 };

#define SHORT_S 2e-5
#define FANOUT 10u
#define CLASSES 40u
#define HEADS 8u

/* ---- the device; any failure ends the program, for what it measured before is no use ---- */

static cudaStream_t stream;
static cublasHandle_t cublas;
static struct sl_queue by;
static cusparseHandle_t cusparse;
static cudaEvent_t begin, end;
static int n_repeats = 50;
static uint32_t table_rows = 2000000; /* of 512 bytes: 1 GB */
static uint32_t n_rows = 100000;      /* destinations, frontier rows */
static size_t copy_bytes = (size_t)1 << 30;
static uint32_t product_rows = 8192;
static double copy_bandwidth; /* bytes read and written per second */
static double gemm_rate;      /* flops per second */

static void need(int good, const char *call)
{
    if (!good) {
        fprintf(stderr, "bench_gpu: %s: %s\n", call, cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
}

static void need_ok(enum sl_status st)
{
    if (st != SL_OK) {
        fprintf(stderr, "bench_gpu: %s\n", sl_message());
        exit(1);
    }
}

/* What release() frees: all memory of the device but the first n_kept blocks. */
static void *held[64];
static size_t n_held, n_kept;

static void release(void)
{
    while (n_held > n_kept) {
        cudaFree(held[--n_held]);
    }
}

static void *room(size_t bytes)
{
    need(n_held < sizeof held / sizeof *held && cudaMalloc(&held[n_held], bytes) == cudaSuccess, "no device memory");
    return held[n_held++];
}

static void *copy_of(const void *host, size_t bytes)
{
    void *data = room(bytes);
    need(cudaMemcpy(data, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess, "copying to the device");
    return data;
}

/* n random numbers of [-1, 1) on the device: a stretch of 2^20 of them again and again. */
static sl_real *reals(size_t n)
{
    enum { STRETCH = 1 << 20 };
    static sl_real *stretch;
    struct sl_draw draw = {.seed = 1, .purpose = SL_FOR_GENERATOR};
    sl_real *data = room(n * sizeof *data);
    if (stretch == NULL) {
        stretch = malloc(STRETCH * sizeof *stretch);
        need(stretch != NULL, "no memory");
        for (uint32_t i = 0; i < STRETCH; i++) {
            stretch[i] = (sl_real)(2 * sl_random_unit(&draw, i, 0) - 1);
        }
    }
    for (size_t done = 0; done < n; done += STRETCH) {
        size_t size = n - done < STRETCH ? n - done : STRETCH;
        need(cudaMemcpy(data + done, stretch, size * sizeof *data, cudaMemcpyHostToDevice) == cudaSuccess, "copying");
    }
    return data;
}

/* n random numbers below `bound`, on the host; free(). */
static uint32_t *indices(size_t n, uint32_t bound, uint64_t seed)
{
    struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GENERATOR};
    uint32_t *data = malloc(n * sizeof *data);
    need(data != NULL, "no memory");
    for (size_t i = 0; i < n; i++) {
        data[i] = sl_random_below((uint32_t)sl_random_u64(&draw, (uint32_t)i, 0), bound);
    }
    return data;
}

/* The same on the device. */
static uint32_t *indices_there(size_t n, uint32_t bound, uint64_t seed)
{
    FREED uint32_t *data = indices(n, bound, seed);
    return copy_of(data, n * sizeof *data);
}

/* ---- timing ---- */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds of one of n calls. */
static float call_s(enum sl_status (*call)(const void *), const void *input, int n)
{
    float ms;
    need(cudaEventRecord(begin, stream) == cudaSuccess, "an event");
    for (int i = 0; i < n; i++) {
        need_ok(call(input));
    }
    need(cudaEventRecord(end, stream) == cudaSuccess, "an event");
    need(cudaEventSynchronize(end) == cudaSuccess, "a launcher");
    need(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess, "an event");
    return ms / 1e3F / (float)n;
}

/* Median seconds of one call, after three to warm up. */
static double median_s(enum sl_status (*call)(const void *), const void *input)
{
    float s[MAX_REPEATS];
    for (int i = 0; i < 3; i++) {
        s[0] = call_s(call, input, 1);
    }
    int n_calls = s[0] < SHORT_S ? SHORT_CALLS : 1;
    for (int i = 0; i < n_repeats; i++) {
        s[i] = call_s(call, input, n_calls);
    }
    qsort(s, (size_t)n_repeats, sizeof *s, compare_floats);
    return s[n_repeats / 2];
}

static void report_bytes(const char *name, const char *shape, double bytes, double s)
{
    printf("| %s | %s | %.1f | %.1f GB/s | %.0f %% |\n", name, shape, s * 1e6, bytes / s / 1e9,
           100 * bytes / s / copy_bandwidth);
}

static void report_flops(const char *name, const char *shape, double flops, double s)
{
    printf("| %s | %s | %.1f | %.2f TFLOP/s | %.0f %% |\n", name, shape, s * 1e6, flops / s / 1e12,
           100 * flops / s / gemm_rate);
}

/* ---- ceilings ---- */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static enum sl_status copy(const void *input)
{
    const struct copy *c = input;
    need(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, stream) == cudaSuccess, "a copy");
    return SL_OK;
}

struct product {
    uint32_t m, k, n;
    const sl_real *x, *w, *bias;
    sl_real *z;
};

static enum sl_status forward_product(const void *input)
{
    const struct product *p = input;
    return sl_dense_forward_cuda(by, SL_DTYPE_REAL, p->m, p->k, p->n, p->x, p->w, p->bias, 0, SL_DTYPE_REAL, p->z);
}

static void measure_ceilings(void)
{
    struct copy c = {room(copy_bytes), reals(copy_bytes / sizeof(sl_real)), copy_bytes};
    copy_bandwidth = 2 * (double)copy_bytes / median_s(copy, &c);
    uint32_t n = product_rows;
    struct product p = {
        n, n, n, c.from, (const sl_real *)c.from + (size_t)n * n, NULL, room((size_t)n * n * sizeof(sl_real))};
    int repeats = n_repeats;
    n_repeats = repeats < 10 ? repeats : 10;
    gemm_rate = 2.0 * n * n * n / median_s(forward_product, &p);
    n_repeats = repeats;
    release();
}

/* ---- gather ---- */

struct gather {
    uint32_t n_columns, threshold;
    const sl_real *table;
    const sl_vertex *ids, *dataset_ids;
    sl_real *x;
};

static enum sl_status gather(const void *input)
{
    const struct gather *g = input;
    struct sl_feature_rows rows = {.n_columns = g->n_columns,
                                   .dtype = SL_DTYPE_REAL,
                                   .table = g->table,
                                   .ids = g->ids,
                                   .threshold = g->threshold,
                                   .draw = {.seed = 1, .purpose = SL_FOR_DROPOUT},
                                   .dataset_ids = g->dataset_ids};
    return sl_gather_cuda(stream, &rows, n_rows, SL_DTYPE_REAL, g->x);
}

static void measure_gather(const sl_real *table, uint32_t n_columns)
{
    char shape[64];
    uint32_t n_table = (uint32_t)((uint64_t)table_rows * 128 / n_columns);
    struct gather g = {.n_columns = n_columns, .table = table};
    g.ids = indices_there(n_rows, n_table, 2);
    g.dataset_ids = indices_there(n_table, n_table, 8);
    g.x = room((size_t)n_rows * n_columns * sizeof *g.x);
    double bytes = 2.0 * n_rows * n_columns * sizeof(sl_real);
    snprintf(shape, sizeof shape, "%u x %u", n_rows, n_columns);
    report_bytes("gather", shape, bytes, median_s(gather, &g));
    g.threshold = sl_dropout_threshold(0.5);
    report_bytes("gather, input dropout", shape, bytes, median_s(gather, &g));
    release();
}

/* ---- aggregate ---- */

/* The sources of one PE, whose rows are one matrix, and the gradients behind it. */
struct matrices {
    void *table, *gradients, *none;
    struct sl_sources x;
    struct sl_chunks gm;
};

static void open_matrices(uint32_t n, uint32_t n_columns, const uint32_t *inverse, const sl_real *table,
                          struct matrices *m)
{
    static const uint32_t zero;
    m->table = (void *)(uintptr_t)table;
    m->gradients = (void *)(uintptr_t)(table + (size_t)n * n_columns);
    m->x = (struct sl_sources){.inverse = {.data = copy_of(inverse, (2 + n) * sizeof *inverse)},
                               .rows = {.each = {.n = 1, .data = &m->table}, .shift = 31},
                               .packed = {.n = 1, .numbers = &zero, .data = &m->none},
                               .n_sources = n,
                               .dtype = SL_DTYPE_REAL};
    m->gm = (struct sl_chunks){.each = {.n = 1, .data = &m->gradients}, .shift = 31};
}

struct block {
    uint32_t n_rows, n_columns, n_sources;
    uint32_t *offsets, *sources, *back_offsets, *back_rows;
    struct matrices rows;
    sl_real *m, *gx;
};

static enum sl_status forward(const void *input)
{
    const struct block *b = input;
    struct sl_edges edges = {.n_rows = b->n_rows, .offsets = b->offsets, .sources = b->sources, .x = &b->rows.x};
    return sl_aggregate_forward_cuda(stream, &edges, b->n_columns, 0, b->n_columns, SL_DTYPE_REAL, b->m);
}

static enum sl_status forward_cusparse(const void *input)
{
    const struct block *b = input;
    struct sl_edges edges = {.n_rows = b->n_rows, .offsets = b->offsets, .sources = b->sources, .x = &b->rows.x};
    return sl_aggregate_forward_cusparse(stream, cusparse, &edges, b->n_columns, 0, b->m);
}

static enum sl_status backward(const void *input)
{
    const struct block *b = input;
    uint32_t zero = 0;
    struct sl_transposed block = {
        .back_offsets = b->back_offsets, .back_rows = b->back_rows, .edge_offsets = b->offsets};
    void *gx = b->gx;
    return sl_aggregate_backward_cuda(stream, &block, &b->rows.gm, b->n_columns, 1, &zero, &b->n_sources, SL_DTYPE_REAL,
                                      &gx);
}

/* The edges in the order of their sources, with offsets by source; free() both. */
static void by_source(uint32_t n_edges, const uint32_t *sources, uint32_t n_sources, uint32_t **offsets_out,
                      uint32_t **edges_out)
{
    uint32_t *offsets = calloc(n_sources + 1, sizeof *offsets);
    uint32_t *edges = malloc(n_edges * sizeof *edges);
    need(offsets != NULL && edges != NULL, "no memory");
    for (uint32_t e = 0; e < n_edges; e++) {
        offsets[sources[e] + 1]++;
    }
    for (uint32_t t = 0; t < n_sources; t++) {
        offsets[t + 1] += offsets[t];
    }
    for (uint32_t e = 0; e < n_edges; e++) {
        edges[offsets[sources[e]]++] = e;
    }
    memmove(offsets + 1, offsets, n_sources * sizeof *offsets);
    offsets[0] = 0;
    *offsets_out = offsets;
    *edges_out = edges;
}

/* A block of n_rows destinations with FANOUT edges each to n_rows * 4 sources, and its transpose. n_hub: as many
 * destinations have an edge to source 0. */
static void make_block(uint32_t n_columns, uint32_t n_hub, const sl_real *table, struct block *out)
{
    uint32_t n_edges = n_rows * FANOUT;
    uint32_t n_sources = 4 * n_rows;
    FREED uint32_t *sources = indices(n_edges, n_sources, 3);
    FREED uint32_t *offsets = malloc((n_rows + 1) * sizeof *offsets);
    FREED uint32_t *inverse =
        indices(2 + n_sources, n_sources, 4); /* a list by owner (codelets/sampling/sample.h), of one */
    FREED uint32_t *back_offsets = NULL;
    FREED uint32_t *back_rows = NULL;
    need(offsets != NULL, "no memory");
    for (uint32_t d = 0; d < n_hub; d++) {
        sources[d * FANOUT] = 0;
    }
    by_source(n_edges, sources, n_sources, &back_offsets, &back_rows);
    inverse[0] = 0;
    inverse[1] = n_sources;
    for (uint32_t d = 0; d <= n_rows; d++) {
        offsets[d] = d * FANOUT;
    }
    for (uint32_t e = 0; e < n_edges; e++) {
        back_rows[e] /= FANOUT;
    }
    *out = (struct block){.n_rows = n_rows, .n_columns = n_columns, .n_sources = n_sources};
    out->offsets = copy_of(offsets, (n_rows + 1) * sizeof *offsets);
    out->sources = copy_of(sources, n_edges * sizeof *sources);
    out->back_offsets = copy_of(back_offsets, (n_sources + 1) * sizeof *back_offsets);
    out->back_rows = copy_of(back_rows, n_edges * sizeof *back_rows);
    open_matrices(n_sources, n_columns, inverse, table, &out->rows);
    out->m = room((size_t)n_rows * n_columns * sizeof *out->m);
    out->gx = room((size_t)n_sources * n_columns * sizeof *out->gx);
}

static void measure_aggregate(const sl_real *table, uint32_t n_columns)
{
    char shape[64];
    struct block b;
    double width = n_columns * sizeof(sl_real);
    make_block(n_columns, 0, table, &b);
    snprintf(shape, sizeof shape, "%u rows of %u edges, width %u", n_rows, FANOUT, n_columns);
    report_bytes("aggregate forward", shape, width * (n_rows * FANOUT + n_rows), median_s(forward, &b));
    report_bytes("aggregate forward, cuSPARSE", shape, width * (n_rows * FANOUT + n_rows),
                 median_s(forward_cusparse, &b));
    snprintf(shape, sizeof shape, "%u rows of %.1f edges, width %u", b.n_sources, (double)n_rows * FANOUT / b.n_sources,
             n_columns);
    report_bytes("aggregate backward", shape, width * (n_rows * FANOUT + b.n_sources), median_s(backward, &b));
    release();
}

/* ---- attend ---- */

struct attention {
    struct block block;
    struct sl_edges edges;
    struct sl_attend_back back;
    struct sl_chunks sides_rows;
    sl_real *lse, *sides;
};

static enum sl_status attend(const void *input)
{
    const struct attention *a = input;
    return sl_attend_forward_cuda(stream, a->back.heads, &a->edges, 0, a->block.m, a->lse);
}

static enum sl_status attend_sides(const void *input)
{
    const struct attention *a = input;
    return sl_attend_sides_cuda(stream, a->back.heads, &a->edges, a->block.rows.gradients, a->lse, a->sides, NULL);
}

static enum sl_status attend_backward(const void *input)
{
    const struct attention *a = input;
    void *const gx = a->block.gx;
    uint32_t zero = 0;
    return sl_attend_backward_cuda(stream, &a->back, 1, &a->block.n_sources, &zero, SL_DTYPE_REAL, &a->block.rows.table,
                                   &gx);
}

/* n_hub: the length of the longest list of the transposed block. */
static void measure_attend(const sl_real *table, uint32_t width, uint32_t n_hub)
{
    const struct sl_heads heads = {width, HEADS, 0};
    struct attention a = {.lse = room((size_t)n_rows * HEADS * sizeof(sl_real)),
                          .sides = room((size_t)n_rows * 4 * HEADS * sizeof(sl_real))};
    const double entry = sizeof(sl_real);
    const double n_terms = n_rows * (FANOUT + 1.0);
    char shape[80];
    make_block(sl_heads_row(heads), n_hub, table, &a.block);
    struct block *b = &a.block;
    void *sides = a.sides;
    a.edges = (struct sl_edges){.n_rows = n_rows, .offsets = b->offsets, .sources = b->sources, .x = &b->rows.x};
    a.sides_rows = (struct sl_chunks){.each = {.n = 1, .data = &sides}, .shift = 31};
    a.back = (struct sl_attend_back){
        .heads = heads, .offsets = b->back_offsets, .rows = b->back_rows, .gz = &b->rows.gm, .sides = &a.sides_rows};
    snprintf(shape, sizeof shape, "%u rows of %u edges, %u heads, width %u", n_rows, FANOUT, HEADS, width);
    report_bytes("attend forward", shape, entry * ((n_terms + n_rows) * (width + HEADS)), median_s(attend, &a));
    report_bytes("attend sides", shape, entry * (n_terms * (width + HEADS) + n_rows * (width + 4.0 * HEADS)),
                 median_s(attend_sides, &a));
    snprintf(shape, sizeof shape, "%u rows of %.1f edges, hub of %u, %u heads, width %u", b->n_sources,
             (double)n_rows * FANOUT / b->n_sources, n_hub, HEADS, width);
    report_bytes("attend backward", shape,
                 entry * (n_rows * FANOUT * (width + 3.0 * HEADS) + 2.0 * b->n_sources * sl_heads_row(heads)),
                 median_s(attend_backward, &a));
    release();
}

/* ---- relate ---- */

enum { DEGREE = 37, RELATIONS = 474, BASES = 2, WIDTH = 100 }; /* as in FB15k-237, for R-GCN */

struct related {
    struct sl_edges edges;
    struct sl_transposed back;
    struct sl_slabs slabs;
    struct matrices rows;
    sl_real *m, *gx, *gc;
};

static enum sl_status relate_forward(const void *input)
{
    const struct related *r = input;
    return sl_relate_forward_cuda(stream, &r->edges, &r->slabs, 0, SL_DTYPE_REAL, r->m);
}

static enum sl_status relate_backward(const void *input)
{
    const struct related *r = input;
    return sl_relate_backward_cuda(stream, &r->back, &r->rows.gm, &r->slabs, 0, r->edges.n_rows, SL_DTYPE_REAL, r->gx);
}

static enum sl_status relate_components(const void *input)
{
    const struct related *r = input;
    return sl_relate_components_cuda(stream, &r->edges, &r->slabs, r->rows.gradients, RELATIONS, r->gc);
}

/* The edges of n rows, to one another, by destination and by source: DEGREE of each, but n / 2 of row 0, both ways.
 * Relations come in runs of about four. */
static uint32_t make_related(uint32_t n, const sl_real *table, struct related *out)
{
    const uint32_t n_hub = n / 2;
    const uint32_t n_edges = n_hub + (n - 1) * DEGREE;
    FREED uint32_t *offsets = malloc((n + 1) * sizeof *offsets);
    FREED uint32_t *sources = indices(n_edges, n, 9);
    FREED uint32_t *inverse =
        malloc((2 + n) * sizeof *inverse); /* a list by owner (codelets/sampling/sample.h), of one */
    FREED uint16_t *relations = malloc(n_edges * sizeof *relations);
    FREED uint16_t *back_relations = malloc(n_edges * sizeof *back_relations);
    FREED uint32_t *back_offsets = NULL;
    FREED uint32_t *back_rows = NULL;
    need(offsets != NULL && inverse != NULL && relations != NULL && back_relations != NULL, "no memory");
    offsets[0] = inverse[0] = 0;
    inverse[1] = n;
    for (uint32_t d = 0; d < n; d++) {
        const uint32_t degree = d == 0 ? n_hub : DEGREE;
        inverse[2 + d] = d;
        offsets[d + 1] = offsets[d] + degree;
        for (uint32_t k = 0; k < degree; k++) {
            relations[offsets[d] + k] = (uint16_t)(k / 4 * 4 * RELATIONS / degree);
        }
    }
    for (uint32_t e = 0; e < n_edges; e += n_edges / n_hub) {
        sources[e] = 0;
    }
    by_source(n_edges, sources, n, &back_offsets, &back_rows);
    for (uint32_t e = 0; e < n_edges; e++) {
        back_relations[e] = relations[back_rows[e]];
        back_rows[e] = back_rows[e] < n_hub ? 0 : 1 + (back_rows[e] - n_hub) / DEGREE;
    }
    *out = (struct related){.edges = {.n_rows = n}, .slabs = sl_slabs_of(WIDTH, BASES * WIDTH)};
    out->slabs.n_bases = BASES;
    out->slabs.c = table;
    out->edges.offsets = out->back.edge_offsets = copy_of(offsets, (n + 1) * sizeof *offsets);
    out->edges.sources = copy_of(sources, n_edges * sizeof *sources);
    out->edges.x = &out->rows.x;
    out->edges.relations = out->back.relations = copy_of(relations, n_edges * sizeof *relations);
    out->back.back_offsets = copy_of(back_offsets, (n + 1) * sizeof *back_offsets);
    out->back.back_rows = copy_of(back_rows, n_edges * sizeof *back_rows);
    out->back.back_relations = copy_of(back_relations, n_edges * sizeof *back_relations);
    open_matrices(n, WIDTH, inverse, table, &out->rows);
    out->m = room((size_t)n * BASES * WIDTH * sizeof *out->m);
    out->gx = room((size_t)n * WIDTH * sizeof *out->gx);
    out->gc = room(RELATIONS * BASES * sizeof *out->gc);
    return n_edges;
}

static void measure_relate(const sl_real *table, uint32_t n)
{
    char shape[96];
    struct related r;
    const double row = WIDTH * sizeof(sl_real);
    const double n_edges = make_related(n, table, &r);
    snprintf(shape, sizeof shape, "%u rows of %d edges and a hub, %d relations, %d bases, width %d", n, DEGREE,
             RELATIONS, BASES, WIDTH);
    report_bytes("relate forward", shape, row * (n_edges + BASES * n), median_s(relate_forward, &r));
    report_bytes("relate backward", shape, row * (BASES * n_edges + n), median_s(relate_backward, &r));
    report_bytes("relate components", shape, row * (n_edges + BASES * n), median_s(relate_components, &r));
    release();
}

/* ---- dense ---- */

static enum sl_status input_product(const void *input)
{
    const struct product *p = input;
    return sl_dense_backward_input_cuda(by, SL_DTYPE_REAL, p->m, p->n, p->k, p->x, p->w, 0, p->z);
}

static enum sl_status weight_product(const void *input)
{
    const struct product *p = input; /* GW [k x n] = X^T GZ, bias its gradient */
    return sl_dense_backward_weight_cuda(by, SL_DTYPE_REAL, p->m, p->k, p->n, p->x, p->w, p->z,
                                         (sl_real *)(uintptr_t)p->bias);
}

static void measure_dense(const sl_real *table, uint32_t m, uint32_t k, uint32_t n)
{
    char shape[64];
    double flops = 2.0 * m * k * n;
    const sl_real *second = table + (size_t)table_rows * 64;
    struct product p = {m, k, n, table, second, second, room((size_t)m * (n > k ? n : k) * sizeof(sl_real))};
    snprintf(shape, sizeof shape, "[%u x %u] [%u x %u]", m, k, k, n);
    report_flops("dense forward", shape, flops, median_s(forward_product, &p));
    report_flops("dense backward, input", shape, flops, median_s(input_product, &p));
    p.bias = room(n * sizeof(sl_real));
    report_flops("dense backward, weight and bias", shape, flops, median_s(weight_product, &p));
    release();
}

/* ---- activation, loss, optimiser ---- */

struct rows {
    struct sl_activate a;
    const sl_real *z, *gh;
    uint8_t *gate;
    sl_real *h, *gw, *gb;
};

static enum sl_status activate(const void *input)
{
    const struct rows *r = input;
    return sl_activate_forward_rows_cuda(stream, &r->a, SL_DTYPE_REAL, r->z, NULL, r->gate, SL_DTYPE_REAL, r->h);
}

static enum sl_status activate_back(const void *input)
{
    const struct rows *r = input;
    struct sl_activate_sums sums = {.gw = r->gw, .gb = r->gb};
    return sl_activate_backward_cuda(stream, &r->a, r->z, r->gate, r->gh, &sums, r->h);
}

static void measure_activate(const sl_real *table, uint32_t n_columns, enum sl_activate_norm norm, const char *name)
{
    char shape[64];
    double entries = (double)n_rows * n_columns;
    struct rows r = {.a = {.n_rows = n_rows, .n_columns = n_columns, .norm = norm}, .z = table};
    r.a.weight = r.a.bias = table;
    r.a.threshold = sl_dropout_threshold(0.5);
    r.a.draw = (struct sl_draw){.seed = 1, .purpose = SL_FOR_DROPOUT};
    r.a.ids = r.a.dataset_ids = indices_there(n_rows, n_rows, 5);
    r.gh = table + (size_t)n_rows * n_columns;
    r.gate = room((size_t)n_rows * n_columns);
    r.h = room((size_t)n_rows * n_columns * sizeof *r.h);
    r.gw = room(n_columns * sizeof *r.gw);
    r.gb = room(n_columns * sizeof *r.gb);
    snprintf(shape, sizeof shape, "%u x %u, dropout, %s", n_rows, n_columns, name);
    report_bytes("activate forward", shape, entries * 9, median_s(activate, &r));
    report_bytes("activate backward", shape, entries * (norm == SL_ACTIVATE_PLAIN ? 9 : 13),
                 median_s(activate_back, &r));
    release();
}

struct small {
    const sl_real *z;
    const sl_vertex *ids;
    const int32_t *labels;
    sl_real *gz, *w, *m, *v;
    double *loss;
    const sl_real *partials[8];
    size_t n_entries;
};

static enum sl_status loss(const void *input)
{
    const struct small *s = input;
    struct sl_loss_rows labels = {.labels = s->labels, .ids = s->ids};
    return sl_loss_cuda(stream, n_rows, CLASSES, s->z, &labels, 1.0 / n_rows, s->gz, s->loss);
}

static enum sl_status optimise(const void *input)
{
    const struct small *s = input;
    struct sl_adam adam = {.lr = 0.003, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 1};
    static const uint32_t leaf[] = {0};
    const sl_real *gradient = s->gz;
    const struct sl_optimize_array array = {s->n_entries, 1, &gradient, leaf, NULL, s->w, s->m, s->v};
    return sl_optimize_cuda(stream, &adam, 1, &array);
}

static enum sl_status reduce(const void *input)
{
    const struct small *s = input;
    static const uint32_t leaf[] = {0, 1, 2, 3, 4, 5, 6, 7};
    return sl_reduce_cuda(stream, 8, s->n_entries, s->partials, leaf, s->gz);
}

static void measure_small(const sl_real *table)
{
    char shape[64];
    struct small s = {.z = table, .n_entries = (size_t)n_rows * CLASSES};
    double entries = (double)s.n_entries;
    s.ids = indices_there(n_rows, n_rows, 6);
    s.labels = (const int32_t *)indices_there(n_rows, CLASSES, 7);
    s.gz = room(s.n_entries * sizeof *s.gz);
    s.w = reals(s.n_entries);
    s.m = reals(s.n_entries);
    s.v = room(s.n_entries * sizeof *s.v);
    need(cudaMemset(s.v, 0, s.n_entries * sizeof *s.v) == cudaSuccess, "clearing");
    s.loss = room(sizeof *s.loss);
    for (int i = 0; i < 8; i++) {
        s.partials[i] = table + (size_t)i * s.n_entries;
    }
    snprintf(shape, sizeof shape, "%u x %u", n_rows, CLASSES);
    report_bytes("loss", shape, entries * 8, median_s(loss, &s));
    snprintf(shape, sizeof shape, "%zu entries", s.n_entries);
    report_bytes("optimise", shape, entries * 28, median_s(optimise, &s));
    snprintf(shape, sizeof shape, "8 x %zu entries", s.n_entries);
    report_bytes("reduce", shape, entries * 36, median_s(reduce, &s));
    release();
}

static void be_quick(void)
{
    table_rows = 20000;
    n_rows = 1000;
    copy_bytes = (size_t)1 << 20;
    product_rows = 64;
}

/* What launchers take for a call stays with the device's pool, as in a run (runtime/machine/gpus.c): events are
 * around launches, not around the driver's calls for memory. */
static void keep_scratch_memory(void)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    need(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess &&
             cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess,
         "the memory pool");
}

int main(int argc, char **argv)
{
    struct cudaDeviceProp device;
    int n_devices = 0;
    bool calls = argc > 1 && strcmp(argv[1], "--calls") == 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        fprintf(stderr, "bench_gpu: no CUDA device here\n");
        return EXIT_NO_DEVICE;
    }
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        be_quick();
        argc--;
        argv++;
    } else if (calls) {
        argc--;
        argv++;
    }
    n_repeats = argc > 1 ? atoi(argv[1]) : n_repeats;
    if (argc > 2 || n_repeats < 1 || n_repeats > MAX_REPEATS) {
        fprintf(stderr, "usage: bench_gpu [--quick|--calls] [repeats, 1 to %d]\n", MAX_REPEATS);
        return 2;
    }
    keep_scratch_memory();
    if (calls) {
        return bench_calls(n_repeats);
    }
    need(cudaGetDeviceProperties(&device, 0) == cudaSuccess, "the device's properties");
    need(cudaStreamCreate(&stream) == cudaSuccess && cudaEventCreate(&begin) == cudaSuccess &&
             cudaEventCreate(&end) == cudaSuccess,
         "a stream and events");
    need(cublasCreate(&cublas) == CUBLAS_STATUS_SUCCESS, "cuBLAS");
    by = (struct sl_queue){stream, cublas, false};
    need(cusparseCreate(&cusparse) == CUSPARSE_STATUS_SUCCESS, "cuSPARSE");
    measure_ceilings();
    printf("%s: a copy moves %.0f GB/s (read and written), a float product of %u %.1f TFLOP/s; medians of %d\n\n",
           device.name, copy_bandwidth / 1e9, product_rows, gemm_rate / 1e12, n_repeats);
    printf("| launcher | shape | us | rate | of the ceiling |\n| --- | --- | --- | --- | --- |\n");
    sl_real *table = reals((size_t)table_rows * 128);
    n_kept = n_held;
    for (uint32_t n_columns = 128; n_columns <= 256; n_columns *= 2) {
        measure_gather(table, n_columns);
        measure_aggregate(table, n_columns);
        measure_activate(table, n_columns, SL_ACTIVATE_PLAIN, "no norm");
        measure_activate(table, n_columns, SL_ACTIVATE_LAYER, "layer norm");
    }
    measure_gather(table, 100);
    measure_aggregate(table, CLASSES);
    measure_relate(table, n_rows / 7);
    measure_attend(table, 256, 0);
    measure_attend(table, 256, n_rows / 8);
    measure_dense(table, n_rows / 5, 128, 128);
    measure_dense(table, n_rows, 256, 256);
    measure_dense(table, 2048, 256, CLASSES);
    measure_small(table);
    return 0;
}
