/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Means over sampled in-neighbours, and the transposed sums. Rows come from all over memory, so they are asked for well before
 * they are added: a ring holds the terms to come. They are added in order, four at a time, so that the output row is read and
 * written once per four. */
#include "codelets/aggregate.h"

#ifdef SL_CUDA
#include <starpu_cusparse.h>
#endif
#include <string.h>

#include "codelets/sample.h"

/* ---- kernels, CPU ---- */

#define RING 64  /* terms known ahead; a power of two */
#define AHEAD 24 /* terms whose rows are on their way while one is added */

/* One term of a sum: a row and its weight. */
struct term {
    const sl_real *row;
    sl_real weight;
};

SL_INLINE void fetch_row(const sl_real *row, uint32_t n_columns)
{
    for (uint32_t c = 0; c < n_columns; c += 64 / sizeof *row) {
        __builtin_prefetch(row + c);
    }
}

SL_INLINE void add_scaled(uint32_t n_columns, sl_real *restrict out, const sl_real *restrict row, sl_real weight)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * row[j];
    }
}

/* out += four terms, in order. */
SL_INLINE void add_four(struct term a, struct term b, struct term c, struct term d, uint32_t n_columns,
                        sl_real *restrict out)
{
    const sl_real *restrict ra = a.row;
    const sl_real *restrict rb = b.row;
    const sl_real *restrict rc = c.row;
    const sl_real *restrict rd = d.row;
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] = (((out[j] + a.weight * ra[j]) + b.weight * rb[j]) + c.weight * rc[j]) + d.weight * rd[j];
    }
}

/* out += the terms first .. end - 1 of the ring, in order; at most RING. */
SL_INLINE void add_terms(const struct term *ring, uint64_t first, uint64_t end, uint32_t n_columns, sl_real *out)
{
    uint64_t i = first;
    for (; i + 4 <= end; i += 4) {
        add_four(ring[i % RING], ring[(i + 1) % RING], ring[(i + 2) % RING], ring[(i + 3) % RING], n_columns, out);
    }
    for (; i < end; i++) {
        add_scaled(n_columns, out, ring[i % RING].row, ring[i % RING].weight);
    }
}

/* The row of the source at a position. */
SL_INLINE const sl_real *source_row(const struct sl_sources *x, uint32_t position, uint32_t n_columns)
{
    uint32_t q = 0;
    while (position >= x->first[q + 1]) {
        q++;
    }
    return sl_view_row(&x->view[q], position - x->first[q], n_columns);
}

/* Sums over a list of edges that is walked once, from its first to its last: the rows of the next ones are on their way from
 * memory while one is added. */
struct edge_walk {
    const struct sl_sources *x;
    const uint32_t *positions; /* [n] */
    uint64_t n, known;
    struct term ring[RING];
};

/* out += weight * the rows of the edges first .. end - 1, in order. */
SL_INLINE void add_sources(struct edge_walk *walk, uint64_t first, uint64_t end, sl_real weight, uint32_t n_columns,
                           sl_real *out)
{
    for (uint64_t done = first; done < end; done += RING - AHEAD) {
        uint64_t stop = end - done < RING - AHEAD ? end : done + RING - AHEAD;
        uint64_t ahead = walk->n - stop < AHEAD ? walk->n : stop + AHEAD;
        for (; walk->known < ahead; walk->known++) {
            struct term *term = &walk->ring[walk->known % RING];
            term->row = source_row(walk->x, walk->positions[walk->known], n_columns);
            fetch_row(term->row, n_columns);
        }
        for (uint64_t e = done; e < stop; e++) {
            walk->ring[e % RING].weight = weight;
        }
        add_terms(walk->ring, done, stop, n_columns, out);
    }
}

/* One destination's mean of the edges first .. end - 1. */
SL_INLINE void mean_of_sources(struct edge_walk *walk, uint64_t first, uint64_t end, uint32_t n_columns, int beta,
                               sl_real *out)
{
    if (!beta) {
        memset(out, 0, n_columns * sizeof *out);
    }
    if (first < end) {
        add_sources(walk, first, end, 1 / (sl_real)(end - first), n_columns, out);
    }
}

SL_CLONES void sl_aggregate_forward_cpu(uint32_t n_rows, uint32_t n_columns, const uint32_t *offsets,
                                        const uint32_t *edge_sources, const struct sl_sources *x, int beta,
                                        sl_real *m_out)
{
    struct edge_walk walk = {.x = x, .positions = edge_sources, .n = offsets[n_rows], .known = offsets[0]};
    for (uint32_t d = 0; d < n_rows; d++) {
        mean_of_sources(&walk, offsets[d], offsets[d + 1], n_columns, beta, m_out + (size_t)d * n_columns);
    }
}

/* The same for the block by source: the terms are gradients of destinations, each divided by its degree. */
struct back_walk {
    const uint32_t *back_rows;
    const uint32_t *edge_offsets;
    const struct sl_view *gm;
    uint64_t n, known;
    struct term ring[RING];
};

/* out += the terms first .. end - 1. */
SL_INLINE void add_back(struct back_walk *walk, uint64_t first, uint64_t end, uint32_t n_columns, sl_real *out)
{
    for (uint64_t done = first; done < end; done += RING - AHEAD) {
        uint64_t stop = end - done < RING - AHEAD ? end : done + RING - AHEAD;
        uint64_t ahead = walk->n - stop < AHEAD ? walk->n : stop + AHEAD;
        for (; walk->known < ahead; walk->known++) {
            uint32_t d = walk->back_rows[walk->known];
            sl_real degree = (sl_real)(walk->edge_offsets[d + 1] - walk->edge_offsets[d]);
            walk->ring[walk->known % RING] = (struct term){sl_view_row(walk->gm, d, n_columns), 1 / degree};
            fetch_row(walk->ring[walk->known % RING].row, n_columns);
        }
        add_terms(walk->ring, done, stop, n_columns, out);
    }
}

SL_CLONES void sl_aggregate_backward_cpu(uint32_t n, uint32_t n_columns, uint32_t t0, const uint32_t *back_offsets,
                                         const uint32_t *back_rows, const uint32_t *edge_offsets,
                                         const struct sl_view *gm, sl_real *out)
{
    const uint32_t *bounds = back_offsets + t0;
    struct back_walk walk = {
        .back_rows = back_rows, .edge_offsets = edge_offsets, .gm = gm, .n = bounds[n], .known = bounds[0]};
    memset(out, 0, (size_t)n * n_columns * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(&walk, bounds[i], bounds[i + 1], n_columns, out + (size_t)i * n_columns);
    }
}

SL_CLONES void sl_accumulate_sent_cpu(uint32_t n, uint32_t n_columns, const uint32_t *inverse, const sl_real *sent,
                                      uint32_t row0, uint32_t n_rows, sl_real *g)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - row0; /* wraps below row0, and is then too large */
        if (row < n_rows) {
            add_scaled(n_columns, g + (size_t)row * n_columns, sent + (size_t)i * n_columns, 1);
        }
    }
}

/* Only the rows of this block of g are added to; the walk starts afresh after those that are passed over. */
SL_CLONES void sl_accumulate_own_cpu(uint32_t n, uint32_t n_columns, uint32_t t0, const uint32_t *inverse,
                                     const uint32_t *back_offsets, const uint32_t *back_rows,
                                     const uint32_t *edge_offsets, const struct sl_view *gm, uint32_t row0,
                                     uint32_t n_rows, sl_real *g)
{
    const uint32_t *bounds = back_offsets + t0;
    struct back_walk walk = {
        .back_rows = back_rows, .edge_offsets = edge_offsets, .gm = gm, .n = bounds[n], .known = bounds[0]};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - row0;
        if (row >= n_rows) {
            continue;
        }
        walk.known = walk.known < bounds[i] ? bounds[i] : walk.known;
        add_back(&walk, bounds[i], bounds[i + 1], n_columns, g + (size_t)row * n_columns);
    }
}

/* Evaluation's destinations: 64-bit offsets, of which the first row's is the origin of `sources`. */
SL_CLONES static void aggregate_full(uint32_t n_rows, uint32_t n_columns, const uint64_t *offsets,
                                     const sl_vertex *sources, const struct sl_sources *x, int beta, sl_real *m_out)
{
    struct edge_walk walk = {.x = x, .positions = sources, .n = offsets[n_rows] - offsets[0]};
    for (uint32_t d = 0; d < n_rows; d++) {
        mean_of_sources(&walk, offsets[d] - offsets[0], offsets[d + 1] - offsets[0], n_columns, beta,
                        m_out + (size_t)d * n_columns);
    }
}

/* ---- arguments ---- */

struct forward_args {
    struct sl_task_args head;
    uint32_t row0;
    uint32_t n_owners;
    uint32_t own;
    uint32_t n_chunks, shift; /* of the own rows */
    int beta;
    uint8_t packed[SL_MAX_PES / 8]; /* bit q: owner q's packed buffer is among the buffers */
    uint32_t first[SL_MAX_PES + 1]; /* submitted up to first[n_owners] only */
};

struct backward_args {
    struct sl_task_args head;
    uint32_t n_chunks, shift;
    uint32_t n_owners;
    uint32_t t0[SL_MAX_PES]; /* submitted up to t0[n_owners - 1] only */
};

struct accumulate_args {
    struct sl_task_args head;
    uint32_t row0;
    uint32_t t0, n_own;
    uint32_t n_chunks, shift;
    uint32_t n_peers, own;
    uint8_t sent[SL_MAX_PES / 8]; /* bit p: what PE p sent is among the buffers */
};

struct full_args {
    struct sl_task_args head;
    uint32_t row0;
    uint32_t n_parts;
    int beta;
    uint32_t chunks[SL_MAX_PES]; /* chunks of each part's rows */
    uint32_t shift[SL_MAX_PES];
};

static int bit(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static void set_bit(uint8_t *bits, uint32_t i)
{
    bits[i / 8] |= (uint8_t)(1 << i % 8);
}

/* ---- task wrappers ---- */

/* The bases of n chunks that are consecutive buffers. */
static void chunk_bases(void *buffers[], uint32_t n, const sl_real **bases_out)
{
    for (uint32_t c = 0; c < n; c++) {
        bases_out[c] = sl_buffer_data(buffers[c]);
    }
}

static void forward_cpu_task(void *buffers[], void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *own[SL_MAX_CHUNKS];
    const sl_real *packed[SL_MAX_PES];
    struct sl_view view[SL_MAX_PES];
    chunk_bases(buffers + 4, args->n_chunks, own);
    uint32_t next = 4 + args->n_chunks;
    for (uint32_t q = 0; q < args->n_owners; q++) {
        packed[q] = bit(args->packed, q) ? sl_buffer_data(buffers[next++]) : NULL;
        view[q] = (struct sl_view){&packed[q], 31, NULL};
    }
    view[args->own] =
        (struct sl_view){own, args->shift, sl_list_of(sl_buffer_data(buffers[2]), args->n_owners, args->own)};
    struct sl_sources sources = {args->n_owners, args->first, view};
    const uint32_t *edge_offsets = sl_buffer_data(buffers[0]);
    sl_aggregate_forward_cpu(sl_buffer_rows(buffers[3]), sl_buffer_columns(buffers[3]), edge_offsets + args->row0,
                             sl_buffer_data(buffers[1]), &sources, args->beta, sl_buffer_data(buffers[3]));
    sl_task_leave(&args->head, start_s);
}

static void backward_cpu_task(void *buffers[], void *cl_arg)
{
    const struct backward_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *bases[SL_MAX_CHUNKS];
    chunk_bases(buffers + 3 + args->n_owners, args->n_chunks, bases);
    struct sl_view gm = {bases, args->shift, NULL};
    for (uint32_t q = 0; q < args->n_owners; q++) {
        void *packed = buffers[3 + q];
        sl_aggregate_backward_cpu(sl_buffer_rows(packed), sl_buffer_columns(packed), args->t0[q],
                                  sl_buffer_data(buffers[1]), sl_buffer_data(buffers[2]), sl_buffer_data(buffers[0]),
                                  &gm, sl_buffer_data(packed));
    }
    sl_task_leave(&args->head, start_s);
}

static void accumulate_cpu_task(void *buffers[], void *cl_arg)
{
    const struct accumulate_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *bases[SL_MAX_CHUNKS];
    sl_real *g = sl_buffer_data(buffers[3]);
    uint32_t n_rows = sl_buffer_rows(buffers[3]);
    uint32_t n_columns = sl_buffer_columns(buffers[3]);
    chunk_bases(buffers + 5, args->n_chunks, bases);
    struct sl_view gm = {bases, args->shift, NULL};
    void **next = buffers + 5 + args->n_chunks;
    const uint32_t *inverse = sl_buffer_data(buffers[4]);
    memset(g, 0, (size_t)n_rows * n_columns * sizeof *g);
    for (uint32_t p = 0; p < args->n_peers; p++) {
        const uint32_t *rows = sl_list_of(inverse, args->n_peers, p);
        if (p == args->own) {
            sl_accumulate_own_cpu(args->n_own, n_columns, args->t0, rows, sl_buffer_data(buffers[1]),
                                  sl_buffer_data(buffers[2]), sl_buffer_data(buffers[0]), &gm, args->row0, n_rows, g);
        } else if (bit(args->sent, p)) {
            void *sent = *next++;
            sl_accumulate_sent_cpu(sl_buffer_rows(sent), n_columns, rows, sl_buffer_data(sent), args->row0, n_rows, g);
        }
    }
    sl_task_leave(&args->head, start_s);
}

static void full_cpu_task(void *buffers[], void *cl_arg)
{
    const struct full_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *bases[SL_MAX_FULL_CHUNKS];
    struct sl_view view[SL_MAX_PES];
    uint32_t next = 0;
    for (uint32_t q = 0; q < args->n_parts; q++) {
        view[q] = (struct sl_view){bases + next, args->shift[q], NULL};
        chunk_bases(buffers + 4 + next, args->chunks[q], bases + next);
        next += args->chunks[q];
    }
    const uint64_t *offsets = sl_buffer_data(buffers[0]);
    const sl_vertex *sources = sl_buffer_data(buffers[1]);
    struct sl_sources x = {args->n_parts, sl_buffer_data(buffers[2]), view};
    aggregate_full(sl_buffer_rows(buffers[3]), sl_buffer_columns(buffers[3]), offsets + args->row0,
                   sources + (offsets[args->row0] - offsets[0]), &x, args->beta, sl_buffer_data(buffers[3]));
    sl_task_leave(&args->head, start_s);
}

#ifdef SL_CUDA
/* n_chunks consecutive buffers as rows. */
static struct sl_device_rows device_rows(void *buffers[], uint32_t n_chunks, uint32_t shift)
{
    struct sl_device_rows rows = {.n_chunks = n_chunks, .shift = shift};
    chunk_bases(buffers, n_chunks, rows.chunk);
    return rows;
}

static struct sl_device_sources device_sources(const struct forward_args *args, void *buffers[])
{
    struct sl_device_sources x = {.n_owners = args->n_owners,
                                  .own = args->own,
                                  .inverse = sl_buffer_data(buffers[2]),
                                  .rows = device_rows(buffers + 4, args->n_chunks, args->shift)};
    uint32_t next = 4 + args->n_chunks;
    for (uint32_t q = 0; q < args->n_owners; q++) {
        x.packed[q] = bit(args->packed, q) ? sl_buffer_data(buffers[next++]) : NULL;
    }
    memcpy(x.first, args->first, (args->n_owners + 1) * sizeof *x.first);
    return x;
}

static void forward_cuda_task(void *buffers[], void *cl_arg)
{
    struct forward_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    struct sl_device_sources x = device_sources(args, buffers);
    const uint32_t *edge_offsets = sl_buffer_data(buffers[0]);
    enum sl_status st = sl_aggregate_forward_cuda(
        starpu_cuda_get_local_stream(), sl_buffer_rows(buffers[3]), sl_buffer_columns(buffers[3]),
        edge_offsets + args->row0, sl_buffer_data(buffers[1]), &x, args->beta, sl_buffer_data(buffers[3]));
    sl_task_leave_cuda(&args->head, st);
}

static void forward_cusparse_task(void *buffers[], void *cl_arg)
{
    struct forward_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    struct sl_device_sources x = device_sources(args, buffers);
    const uint32_t *edge_offsets = sl_buffer_data(buffers[0]);
    enum sl_status st = sl_aggregate_forward_cusparse(
        starpu_cuda_get_local_stream(), starpu_cusparse_get_local_handle(), sl_buffer_rows(buffers[3]),
        sl_buffer_columns(buffers[3]), edge_offsets + args->row0, sl_buffer_data(buffers[1]), &x, args->beta,
        sl_buffer_data(buffers[3]));
    sl_task_leave_cuda(&args->head, st);
}

#define COPY_SHARE 64 /* of the bytes that data may take, so many parts; launchers have a fifteenth (runtime/gpus.c) */

/* cuSPARSE has to be wanted, counts edges and sources in 31 bits, and takes a copy of the sources' rows, for which the GPU must have
 * room that StarPU does not know of. */
static int forward_can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    const struct forward_args *args = task->cl_arg;
    const struct sl_run *run = args->head.run;
    (void)worker;
    if (implementation == 0 || !run->fastest_means) {
        return implementation == 0;
    }
    uint64_t n_sources = args->first[args->n_owners];
    uint64_t copy_bytes = n_sources * sl_handle_columns(STARPU_TASK_GET_HANDLE(task, 3)) * sizeof(sl_real);
    return sl_handle_columns(STARPU_TASK_GET_HANDLE(task, 1)) <= INT32_MAX && n_sources <= INT32_MAX &&
           (run->gpu_bytes == 0 || copy_bytes <= run->gpu_bytes / COPY_SHARE);
}

static void backward_cuda_task(void *buffers[], void *cl_arg)
{
    struct backward_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    struct sl_device_rows gm = device_rows(buffers + 3 + args->n_owners, args->n_chunks, args->shift);
    sl_real *packed[SL_MAX_PES];
    uint32_t n[SL_MAX_PES];
    for (uint32_t q = 0; q < args->n_owners; q++) {
        packed[q] = sl_buffer_data(buffers[3 + q]);
        n[q] = sl_buffer_rows(buffers[3 + q]);
    }
    enum sl_status st = sl_aggregate_backward_cuda(starpu_cuda_get_local_stream(), args->n_owners, n,
                                                   sl_buffer_columns(buffers[3]), args->t0, sl_buffer_data(buffers[1]),
                                                   sl_buffer_data(buffers[2]), sl_buffer_data(buffers[0]), &gm, packed);
    sl_task_leave_cuda(&args->head, st);
}

/* All shares in turn; the first that there is overwrites what was cleared. */
static enum sl_status accumulate_cuda(const struct accumulate_args *args, void *buffers[], cudaStream_t stream)
{
    sl_real *g = sl_buffer_data(buffers[3]);
    uint32_t n_rows = sl_buffer_rows(buffers[3]);
    uint32_t n_columns = sl_buffer_columns(buffers[3]);
    struct sl_device_rows gm = device_rows(buffers + 5, args->n_chunks, args->shift);
    void **next = buffers + 5 + args->n_chunks;
    const uint32_t *inverse = sl_buffer_data(buffers[4]);
    int beta = 0;
    enum sl_status st = sl_accumulate_clear_cuda(stream, n_rows, n_columns, g);
    for (uint32_t p = 0; p < args->n_peers && st == SL_OK; p++) {
        if (p == args->own) {
            st = sl_accumulate_own_cuda(stream, args->n_own, n_columns, args->t0, args->n_peers, p, inverse,
                                        sl_buffer_data(buffers[1]), sl_buffer_data(buffers[2]),
                                        sl_buffer_data(buffers[0]), &gm, args->row0, n_rows, beta, g);
            beta = 1;
        } else if (bit(args->sent, p)) {
            void *sent = *next++;
            st = sl_accumulate_sent_cuda(stream, sl_buffer_rows(sent), n_columns, args->n_peers, p, inverse,
                                         sl_buffer_data(sent), args->row0, n_rows, beta, g);
            beta = 1;
        }
    }
    return st;
}

static void accumulate_cuda_task(void *buffers[], void *cl_arg)
{
    struct accumulate_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    sl_task_leave_cuda(&args->head, accumulate_cuda(args, buffers, starpu_cuda_get_local_stream()));
}

static void full_cuda_task(void *buffers[], void *cl_arg)
{
    struct full_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    const sl_real *bases[SL_MAX_FULL_CHUNKS];
    struct sl_device_part parts[SL_MAX_PES];
    uint32_t next = 0;
    for (uint32_t q = 0; q < args->n_parts; q++) {
        parts[q] = (struct sl_device_part){args->chunks[q], args->shift[q], bases + next};
        chunk_bases(buffers + 4 + next, args->chunks[q], bases + next);
        next += args->chunks[q];
    }
    enum sl_status st = sl_aggregate_full_cuda(starpu_cuda_get_local_stream(), sl_buffer_rows(buffers[3]),
                                               sl_buffer_columns(buffers[3]), sl_buffer_data(buffers[0]), args->row0,
                                               sl_buffer_data(buffers[1]), args->n_parts, sl_buffer_data(buffers[2]),
                                               parts, args->beta, sl_buffer_data(buffers[3]));
    sl_task_leave_cuda(&args->head, st);
}
#endif

/* ---- codelets ---- */

static struct starpu_perfmodel forward_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_aggregate_forward", .size_base = sl_task_size_base};
static struct starpu_perfmodel backward_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_aggregate_backward", .size_base = sl_task_size_base};
static struct starpu_perfmodel accumulate_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_accumulate", .size_base = sl_task_size_base};
static struct starpu_perfmodel full_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_aggregate_full", .size_base = sl_task_size_base};

static struct starpu_codelet forward_cl = {
    .name = "sl_aggregate_forward",
    .cpu_funcs = {forward_cpu_task},
    SL_CUDA_FUNCS(forward_cuda_task, forward_cusparse_task),
#ifdef SL_CUDA
    .can_execute = forward_can_execute,
#endif
    /* R edge offsets, edge sources, own inverse; W or RW mean; R chunks of the own rows, packed buffers of the others */
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &forward_model,
};

static struct starpu_codelet backward_cl = {
    .name = "sl_aggregate_backward",
    .cpu_funcs = {backward_cpu_task},
    SL_CUDA_FUNC(backward_cuda_task),
    /* R edge offsets, back offsets, back rows; W packed, one per owner; R chunks of the mean's gradient */
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &backward_model,
};

static struct starpu_codelet accumulate_cl = {
    .name = "sl_accumulate",
    .cpu_funcs = {accumulate_cpu_task},
    SL_CUDA_FUNC(accumulate_cuda_task),
    /* R edge offsets, back offsets, back rows; W gradient; R own inverse, chunks of the mean's gradient, then the packed
     * gradients of other PEs */
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &accumulate_model,
};

static struct starpu_codelet full_cl = {
    .name = "sl_aggregate_full",
    .cpu_funcs = {full_cpu_task},
    SL_CUDA_FUNC(full_cuda_task),
    .nbuffers = STARPU_VARIABLE_NBUFFERS, /* R offsets, sources, first; W or RW mean; R all chunks of all parts */
    .model = &full_model,
};

/* ---- submissions ---- */

static void add_chunks(struct sl_task *task, const struct sl_rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        sl_task_add(task, rows->chunk[c], STARPU_R);
    }
}

/* Bytes moved by a sum of n_terms rows into n_rows rows. */
static uint64_t sum_bytes(uint64_t n_terms, uint32_t n_rows, uint32_t n_columns)
{
    return (n_terms + n_rows) * n_columns * sizeof(sl_real);
}

enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                           starpu_data_handle_t edge_sources, uint32_t row0, uint64_t n_edges,
                                           const struct sl_source_handles *sources, int beta, starpu_data_handle_t m)
{
    struct forward_args args = {.head = *head, .row0 = row0, .n_owners = sources->n_owners, .own = sources->own};
    struct sl_task task;
    uint32_t n_columns = sl_handle_columns(m);
    if (n_columns != sources->rows->n_columns || sources->n_owners > SL_MAX_PES ||
        sources->rows->split.n_chunks > SL_MAX_CHUNKS) {
        return sl_fail(SL_EINVAL, "sl_aggregate_forward: a mean of width %u of rows of width %u, %u owners, %u chunks",
                       n_columns, sources->rows->n_columns, sources->n_owners, sources->rows->split.n_chunks);
    }
    args.n_chunks = sources->rows->split.n_chunks;
    args.shift = sources->rows->split.shift;
    args.beta = beta;
    memcpy(args.first, sources->first, (sources->n_owners + 1) * sizeof *args.first);
    args.head.stage = SL_STAGE_AGGREGATE;
    args.head.work = sum_bytes(n_edges, sl_handle_rows(m), n_columns);
    sl_task_begin(&task, &forward_cl);
    sl_task_add(&task, edge_offsets, STARPU_R);
    sl_task_add(&task, edge_sources, STARPU_R);
    sl_task_add(&task, sources->inverse, STARPU_R);
    sl_task_add(&task, m, beta ? STARPU_RW : STARPU_W);
    add_chunks(&task, sources->rows);
    for (uint32_t q = 0; q < sources->n_owners; q++) {
        if (q != sources->own && sources->packed[q] != NULL) {
            set_bit(args.packed, q);
            sl_task_add(&task, sources->packed[q], STARPU_R);
        }
    }
    size_t bytes = offsetof(struct forward_args, first) + (sources->n_owners + 1) * sizeof *args.first;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                            starpu_data_handle_t back_offsets, starpu_data_handle_t back_rows,
                                            const struct sl_rows *gm, uint64_t n_edges, uint32_t n_owners,
                                            const uint32_t *t0, const starpu_data_handle_t *packed)
{
    struct backward_args args = {.head = *head, .n_chunks = gm->split.n_chunks, .shift = gm->split.shift};
    struct sl_task task;
    uint32_t n_rows = 0;
    args.n_owners = n_owners;
    for (uint32_t q = 0; q < n_owners; q++) {
        uint32_t n_columns = sl_handle_columns(packed[q]);
        if (n_columns != gm->n_columns || args.n_chunks > SL_MAX_CHUNKS || n_owners > SL_MAX_PES) {
            return sl_fail(
                SL_EINVAL,
                "sl_aggregate_backward: width %u from gradients of width %u, %u chunks, %u owners (at most %d)",
                n_columns, gm->n_columns, args.n_chunks, n_owners, SL_MAX_PES);
        }
        args.t0[q] = t0[q];
        n_rows += sl_handle_rows(packed[q]);
    }
    args.head.stage = SL_STAGE_BACKWARD;
    args.head.work = sum_bytes(n_edges, n_rows, gm->n_columns);
    sl_task_begin(&task, &backward_cl);
    sl_task_add(&task, edge_offsets, STARPU_R);
    sl_task_add(&task, back_offsets, STARPU_R);
    sl_task_add(&task, back_rows, STARPU_R);
    for (uint32_t q = 0; q < n_owners; q++) {
        sl_task_add(&task, packed[q], STARPU_W);
    }
    add_chunks(&task, gm);
    size_t bytes = offsetof(struct backward_args, t0) + n_owners * sizeof *args.t0;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g)
{
    struct accumulate_args args = {.head = *head, .row0 = row0, .t0 = shares->t0, .n_own = shares->n_own};
    struct sl_task task;
    uint64_t n_terms = shares->n_own;
    if (sl_handle_columns(g) != shares->gm->n_columns || shares->n_peers > SL_MAX_PES ||
        shares->gm->split.n_chunks > SL_MAX_CHUNKS) {
        return sl_fail(SL_EINVAL, "sl_accumulate: width %u from gradients of width %u, %u peers, %u chunks",
                       sl_handle_columns(g), shares->gm->n_columns, shares->n_peers, shares->gm->split.n_chunks);
    }
    args.n_chunks = shares->gm->split.n_chunks;
    args.shift = shares->gm->split.shift;
    args.n_peers = shares->n_peers;
    args.own = shares->own;
    sl_task_begin(&task, &accumulate_cl);
    sl_task_add(&task, shares->edge_offsets, STARPU_R);
    sl_task_add(&task, shares->back_offsets, STARPU_R);
    sl_task_add(&task, shares->back_rows, STARPU_R);
    sl_task_add(&task, g, STARPU_W);
    sl_task_add(&task, shares->inverse, STARPU_R);
    add_chunks(&task, shares->gm);
    for (uint32_t p = 0; p < shares->n_peers; p++) {
        if (p != shares->own && shares->sent[p] != NULL) {
            set_bit(args.sent, p);
            n_terms += sl_handle_rows(shares->sent[p]);
            sl_task_add(&task, shares->sent[p], STARPU_R);
        }
    }
    args.head.stage = SL_STAGE_BACKWARD;
    args.head.work = sum_bytes(n_terms, sl_handle_rows(g), sl_handle_columns(g));
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, starpu_data_handle_t offsets,
                                        starpu_data_handle_t sources, starpu_data_handle_t first, uint32_t n_parts,
                                        uint32_t row0, uint64_t n_edges, const struct sl_rows *rows, int beta,
                                        starpu_data_handle_t m)
{
    struct full_args args = {.head = *head, .row0 = row0, .n_parts = n_parts, .beta = beta};
    struct sl_task task;
    uint64_t n_chunks = 0;
    for (uint32_t q = 0; q < n_parts && n_parts <= SL_MAX_PES; q++) {
        n_chunks += rows[q].split.n_chunks;
    }
    if (n_parts > SL_MAX_PES || n_chunks > SL_MAX_FULL_CHUNKS || sl_handle_columns(m) != rows[0].n_columns) {
        return sl_fail(SL_EINVAL, "sl_aggregate_full: %u parts, %llu chunks (at most %d), width %u of rows of width %u",
                       n_parts, (unsigned long long)n_chunks, SL_MAX_FULL_CHUNKS, sl_handle_columns(m),
                       rows[0].n_columns);
    }
    sl_task_begin(&task, &full_cl);
    sl_task_add(&task, offsets, STARPU_R);
    sl_task_add(&task, sources, STARPU_R);
    sl_task_add(&task, first, STARPU_R);
    sl_task_add(&task, m, beta ? STARPU_RW : STARPU_W);
    for (uint32_t q = 0; q < n_parts; q++) {
        args.chunks[q] = rows[q].split.n_chunks;
        args.shift[q] = rows[q].split.shift;
        add_chunks(&task, &rows[q]);
    }
    args.head.stage = sl_task_stage(head, SL_STAGE_AGGREGATE);
    args.head.work = sum_bytes(n_edges, sl_handle_rows(m), sl_handle_columns(m));
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}
