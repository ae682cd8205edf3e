/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists are walked entry by entry. Each added entry starts the prefetch of a later entry's row. A sum stays in
 * registers until its list ends. Wide rows are cut into stretches of columns, and each stretch walks all lists. */
#include "codelets/sums/pull.h"

#include <assert.h>
#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sums/walk.h"
#include "tasks/rows.h"

/* ---- kernels, CPU: walking ---- */

#define RING 16   /* entries loaded ahead; a power of two */
#define AHEAD 8   /* entries whose rows are prefetched ahead of the entry being added */
#define BEFORE 16 /* entries whose part and factors are prefetched ahead of the entry being loaded */

/* A stretch of columns: its first column, its number of columns, and the number of columns of a whole row. */
struct stretch {
    uint32_t first, n, row;
};

/* A loaded list entry u. */
struct entry {
    const void *row; /* this stretch of u's row; NULL: u's part has no rows */
    sl_real factor;  /* k(u) */
    sl_real own;     /* f(u); in the adjoint of a mean list(u); in a mean unused */
};

/* A walk along all lists of a part, one after the other. */
struct walk {
    enum sl_dtype dtype; /* of the rows */
    const struct sl_pull_lists *lists;
    const struct sl_pull_parts *parts;
    const float *edge_weights; /* NULL: all 1 */
    struct stretch columns;
    uint64_t n, known, next; /* number of entries; entries loaded so far; next entry to add */
    struct entry ring[RING];
};

SL_INLINE struct entry entry_of(const struct walk *walk, enum sl_pull_weights weights, sl_vertex u)
{
    const struct sl_pull_lists *lists = walk->lists;
    uint32_t part = lists->part_of[u];
    struct entry entry = {.factor = walk->parts->factor[part]};
    if (entry.factor != 0) {
        size_t offset = (size_t)(u - lists->first[part]) * walk->columns.row + walk->columns.first;
        entry.row = (const char *)(const void *)walk->parts->rows[part] + sl_dtype_bytes(walk->dtype, offset);
    }
    switch (weights) {
    case SL_PULL_MEAN: break;
    case SL_PULL_MEAN_BACK: entry.own = lists->factors[2 * (size_t)u + 1]; break;
    case SL_PULL_SYMMETRIC: entry.own = lists->factors[2 * (size_t)u]; break;
    }
    return entry;
}

/* Prefetch the numbers that entry_of reads for entry e, if it exists. */
SL_INLINE void fetch_numbers(const struct walk *walk, enum sl_pull_weights weights, uint64_t e)
{
    if (e < walk->n) {
        sl_vertex u = walk->lists->vertices[e];
        __builtin_prefetch(walk->lists->part_of + u);
        if (weights != SL_PULL_MEAN) {
            __builtin_prefetch(walk->lists->factors + 2 * (size_t)u);
        }
    }
}

/* Load one more entry, if there is one, and prefetch its row. */
SL_INLINE void know_one(struct walk *walk, enum sl_pull_weights weights)
{
    if (walk->known < walk->n) {
        fetch_numbers(walk, weights, walk->known + BEFORE);
        struct entry entry = entry_of(walk, weights, walk->lists->vertices[walk->known]);
        if (entry.row != NULL) {
            sl_row_fetch(entry.row, sl_dtype_bytes(walk->dtype, walk->columns.n));
        }
        walk->ring[walk->known++ % RING] = entry;
    }
}

SL_INLINE struct walk walk_from_the_first(enum sl_dtype dtype, const struct sl_pull_lists *lists,
                                          const struct sl_pull_parts *parts, enum sl_pull_weights weights,
                                          struct stretch columns)
{
    struct walk walk = {
        .dtype = dtype, .lists = lists, .parts = parts, .edge_weights = lists->edge_weights, .columns = columns};
    walk.n = lists->offsets[lists->n_rows] - lists->offsets[0];
    while (walk.known < AHEAD && walk.known < walk.n) {
        know_one(&walk, weights);
    }
    return walk;
}

/* The sum over one list. */
struct sum {
    sl_vertex id;
    sl_real share; /* s f(d), or 1 / length of the list */
    uint64_t end;  /* end of the list */
};

/* The sum of row d. Its first entry is the walk's next entry. */
SL_INLINE struct sum sum_of(const struct walk *walk, enum sl_pull_weights weights, uint32_t d)
{
    const struct sl_pull_lists *lists = walk->lists;
    struct sum sum = {.id = lists->first_id + d, .end = lists->offsets[d + 1] - lists->offsets[0]};
    if (weights == SL_PULL_SYMMETRIC) {
        sum.share = lists->scale * lists->factors[2 * (size_t)sum.id];
    } else if (weights == SL_PULL_MEAN && walk->next < sum.end) {
        sum.share = 1 / (sl_real)(sum.end - walk->next);
    }
    return sum;
}

/* The term of the vertex itself, with symmetric weights. */
SL_INLINE struct sl_term own_term(const struct walk *walk, enum sl_pull_weights weights, const struct sum *sum)
{
    if (weights != SL_PULL_SYMMETRIC) {
        return (struct sl_term){.row = NULL};
    }
    struct entry entry = entry_of(walk, weights, sum->id);
    return (struct sl_term){.row = entry.row, .weight = entry.factor * (sum->share * entry.own)};
}

/* The term of an entry u, without the weight of its edge. */
SL_INLINE struct sl_term term_of(const struct entry *entry, enum sl_pull_weights weights, const struct sum *sum,
                                 sl_vertex u)
{
    switch (weights) {
    case SL_PULL_MEAN: return (struct sl_term){.row = entry->row, .weight = entry->factor * sum->share};
    case SL_PULL_MEAN_BACK: return (struct sl_term){.row = entry->row, .weight = entry->factor / entry->own};
    case SL_PULL_SYMMETRIC: break;
    }
    return (struct sl_term){.row = entry->row, .weight = u == sum->id ? 0 : entry->factor * (sum->share * entry->own)};
}

/* The term of the walk's next entry. */
SL_INLINE struct sl_term next_term(struct walk *walk, enum sl_pull_weights weights, const struct sum *sum)
{
    know_one(walk, weights);
    struct sl_term term = term_of(&walk->ring[walk->next % RING], weights, sum, walk->lists->vertices[walk->next]);
    if (walk->edge_weights != NULL) {
        term.weight *= (sl_real)walk->edge_weights[walk->next];
    }
    walk->next++;
    return term;
}

/* ---- kernels, CPU: adding ---- */

/* LANES: elements of a vector. The vectors have LANES sl_real, LANES words of four bytes, and LANES bf16. */
#define LANES ((uint32_t)(64 / sizeof(sl_real)))
#define VECTOR __attribute__((vector_size(64)))
#define HALF_VECTOR __attribute__((vector_size(64 / sizeof(sl_real) * sizeof(sl_bf16))))
#define WORD_VECTOR __attribute__((vector_size(64 / sizeof(sl_real) * sizeof(uint32_t))))
#define MOST 8 /* vectors per stretch */

/* First column of vector i of the n vectors that cover a stretch. The last vector ends with the stretch and may
 * overlap the one before. */
SL_INLINE uint32_t first_column(struct stretch columns, uint32_t n, uint32_t i)
{
    return i + 1 < n ? i * LANES : columns.n - LANES;
}

/* Load a vector, beginning with `column`; bf16 is widened. */
SL_INLINE void load(enum sl_dtype dtype, const void *row, uint32_t column, sl_real VECTOR *out)
{
    if (dtype == SL_DTYPE_REAL) {
        memcpy(out, (const sl_real *)row + column, sizeof *out);
        return;
    }
    sl_bf16 HALF_VECTOR halves;
    memcpy(&halves, (const sl_bf16 *)row + column, sizeof halves);
    uint32_t WORD_VECTOR bits = __builtin_convertvector(halves, uint32_t WORD_VECTOR) << 16;
    *out = __builtin_convertvector((float WORD_VECTOR)bits, sl_real VECTOR);
}

SL_INLINE void add_vectors(enum sl_dtype dtype, struct sl_term term, struct stretch columns, uint32_t n,
                           sl_real VECTOR *sum)
{
    sl_real VECTOR x;
    if (term.row == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        load(dtype, term.row, first_column(columns, n, i), &x);
        sum[i] += term.weight * x;
    }
}

/* All sums for a stretch of n vectors. n is a constant at compile time. */
SL_INLINE void pull_vectors(struct walk walk, enum sl_pull_weights weights, uint32_t n, int beta, sl_real *out)
{
    struct stretch columns = walk.columns;
    for (uint32_t d = 0; d < walk.lists->n_rows; d++) {
        sl_real *row = out + (size_t)d * columns.row + columns.first;
        sl_real VECTOR lane[MOST] = {{0}};
        if (beta) {
            for (uint32_t i = 0; i < n; i++) {
                memcpy(&lane[i], row + first_column(columns, n, i), sizeof *lane);
            }
        }
        struct sum sum = sum_of(&walk, weights, d);
        add_vectors(walk.dtype, own_term(&walk, weights, &sum), columns, n, lane);
        while (walk.next < sum.end) {
            add_vectors(walk.dtype, next_term(&walk, weights, &sum), columns, n, lane);
        }
        for (uint32_t i = 0; i < n; i++) {
            memcpy(row + first_column(columns, n, i), &lane[i], sizeof *lane);
        }
    }
}

SL_INLINE void add_columns(enum sl_dtype dtype, struct sl_term term, uint32_t n_columns, sl_real *out)
{
    if (term.row != NULL) {
        sl_add_row(dtype, n_columns, out, term.row, 0, term.weight);
    }
}

/* The same for rows narrower than a vector. */
SL_INLINE void pull_narrow(struct walk walk, enum sl_pull_weights weights, int beta, sl_real *out)
{
    struct stretch columns = walk.columns;
    for (uint32_t d = 0; d < walk.lists->n_rows; d++) {
        sl_real *row = out + (size_t)d * columns.row + columns.first;
        struct sum sum = sum_of(&walk, weights, d);
        if (!beta) {
            memset(row, 0, columns.n * sizeof *row);
        }
        add_columns(walk.dtype, own_term(&walk, weights, &sum), columns.n, row);
        while (walk.next < sum.end) {
            add_columns(walk.dtype, next_term(&walk, weights, &sum), columns.n, row);
        }
    }
}

SL_INLINE void pull_stretch(struct walk walk, enum sl_pull_weights weights, int beta, sl_real *out)
{
    switch ((walk.columns.n + LANES - 1) / LANES) {
    case 1: pull_vectors(walk, weights, 1, beta, out); return;
    case 2: pull_vectors(walk, weights, 2, beta, out); return;
    case 3: pull_vectors(walk, weights, 3, beta, out); return;
    case 4: pull_vectors(walk, weights, 4, beta, out); return;
    case 5: pull_vectors(walk, weights, 5, beta, out); return;
    case 6: pull_vectors(walk, weights, 6, beta, out); return;
    case 7: pull_vectors(walk, weights, 7, beta, out); return;
    case MOST: pull_vectors(walk, weights, MOST, beta, out); return;
    }
}

/* Cut the columns into as few stretches as possible, of nearly equal width. */
SL_INLINE void pull_rows(enum sl_dtype dtype, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                         enum sl_pull_weights weights, uint32_t n_columns, int beta, sl_real *out)
{
    const uint32_t n = (n_columns + MOST * LANES - 1) / (MOST * LANES);
    if (n_columns < LANES) {
        struct stretch all = {0, n_columns, n_columns};
        pull_narrow(walk_from_the_first(dtype, lists, parts, weights, all), weights, beta, out);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = (uint32_t)((uint64_t)n_columns * i / n);
        uint32_t end = (uint32_t)((uint64_t)n_columns * (i + 1) / n);
        struct stretch columns = {.first = first, .n = end - first, .row = n_columns};
        pull_stretch(walk_from_the_first(dtype, lists, parts, weights, columns), weights, beta, out);
    }
}

SL_INLINE void pull_by(enum sl_dtype dtype, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                       uint32_t n_columns, int beta, sl_real *out)
{
    switch (lists->weights) {
    case SL_PULL_MEAN: pull_rows(dtype, lists, parts, SL_PULL_MEAN, n_columns, beta, out); return;
    case SL_PULL_MEAN_BACK: pull_rows(dtype, lists, parts, SL_PULL_MEAN_BACK, n_columns, beta, out); return;
    case SL_PULL_SYMMETRIC: pull_rows(dtype, lists, parts, SL_PULL_SYMMETRIC, n_columns, beta, out); return;
    }
}

/* Two functions: in one function the compiler takes several times as long. */
SL_CLONES static void pull_real(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                                uint32_t n_columns, int beta, sl_real *out)
{
    pull_by(SL_DTYPE_REAL, lists, parts, n_columns, beta, out);
}

SL_CLONES static void pull_bf16(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                                uint32_t n_columns, int beta, sl_real *out)
{
    pull_by(SL_DTYPE_BF16, lists, parts, n_columns, beta, out);
}

#define ROUNDED_ROWS 256 /* rows summed in float before they are rounded */

enum sl_status sl_pull_cpu(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts, uint32_t n_parts,
                           enum sl_dtype dtype, uint32_t n_columns, int beta, enum sl_dtype out_dtype, void *out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, out_dtype, lists->n_rows, n_columns, out);
    struct sl_pull_lists some = *lists;
    enum sl_status st;
    (void)n_parts;
    slab.beta = beta;
    for (; sl_rounded_next(&slab, &st); some.first_id += slab.n, some.offsets += slab.n) {
        const uint64_t skipped = some.offsets[0] - lists->offsets[0];
        some.n_rows = slab.n;
        some.vertices = lists->vertices + skipped;
        some.edge_weights = lists->edge_weights == NULL ? NULL : lists->edge_weights + skipped;
        if (dtype == SL_DTYPE_BF16) {
            pull_bf16(&some, parts, n_columns, beta, slab.room);
        } else {
            pull_real(&some, parts, n_columns, beta, slab.room);
        }
    }
    return st;
}

/* ---- operations ---- */

static enum sl_status pull(const void *view, const void *stream)
{
    const struct sl_pull *v = view;
    const struct sl_pull_lists lists = {.n_rows = v->out.n_rows,
                                        .first_id = v->first_id,
                                        .offsets = v->offsets.data,
                                        .vertices = v->vertices.data,
                                        .part_of = v->part_of.data,
                                        .first = v->first.data,
                                        .factors = v->factors.data,
                                        .edge_weights = v->edge_weights.data,
                                        .weights = v->weights,
                                        .scale = v->scale};
    struct sl_pull_parts parts = {.rows = {NULL}};
    memcpy(parts.factor, v->factor, sizeof parts.factor);
    for (uint32_t i = 0; i < v->rows.n; i++) {
        parts.rows[v->rows.numbers[i]] = v->rows.data[i];
    }
    return SL_CALL(stream, sl_pull, &lists, &parts, v->n_parts, v->dtype, v->out.n_columns, v->beta, v->out.dtype,
                   v->out.data);
}

static struct sl_operation pull_op = {
    SL_OPERATION(pull_op, "sl_pull", SL_N_STAGES),
    SL_BODY(pull, struct sl_pull),
    .role = {{"offsets", STARPU_R, offsetof(struct sl_pull, offsets), "?", SL_INTS_64},
             {"vertices", STARPU_R, offsetof(struct sl_pull, vertices), "?", SL_INTS_32},
             {"part of", STARPU_R, offsetof(struct sl_pull, part_of), "N", SL_ANY},
             {"first", STARPU_R, offsetof(struct sl_pull, first), "?", SL_INTS_32},
             {"out", STARPU_W | SL_OR_RW, offsetof(struct sl_pull, out), "D x F", SL_ROWS_OR_REALS},
             {"factors", STARPU_R | SL_OPTIONAL, offsetof(struct sl_pull, factors), "? x ?", SL_ANY},
             {"edge weights", STARPU_R | SL_OPTIONAL, offsetof(struct sl_pull, edge_weights), "?", SL_FLOATS},
             {"rows", STARPU_R | SL_REPEATED, offsetof(struct sl_pull, rows), "? x F", SL_ROWS}},
};

/* ---- submissions ---- */

enum sl_status sl_pull_submit(struct sl_pull *pull, uint64_t n_edges, const starpu_data_handle_t *rows,
                              const double *factor, int beta, starpu_data_handle_t out)
{
    starpu_data_handle_t read[SL_MAX_PARTS];
    uint32_t part[SL_MAX_PARTS];
    const enum sl_stage stage = pull->head.stage == SL_STAGE_BACKWARD ? SL_STAGE_BACKWARD : SL_STAGE_AGGREGATE;
    pull->out = sl_matrix_of(out);
    pull->out.is_kept = beta != 0;
    pull->beta = beta;
    pull->rows = (struct sl_matrices){.handles = read, .numbers = part};
    assert(pull->n_parts <= SL_MAX_PARTS);
    assert(pull->offsets.n_rows > pull->out.n_rows);
    assert(pull->weights == SL_PULL_MEAN || pull->factors.handle != NULL);
    for (uint32_t q = 0; q < pull->n_parts; q++) {
        pull->factor[q] = (sl_real)factor[q]; /* a factor too small for sl_real is 0 */
        if (pull->factor[q] != 0) {
            part[pull->rows.n] = q;
            read[pull->rows.n++] = rows[q];
        }
    }
    pull->dtype = pull->rows.n > 0 ? sl_handle_dtype(read[0]) : pull->out.dtype;
    pull->head.stage = sl_task_stage(&pull->head, stage);
    pull->head.work = n_edges * sl_dtype_bytes(pull->dtype, pull->out.n_columns) +
                      sl_dtype_bytes(pull->out.dtype, sl_matrix_entries(&pull->out));
    return sl_view_submit(&pull_op, pull, SL_PRIORITY_NORMAL);
}
