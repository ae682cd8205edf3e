/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sources: the rows of in-neighbours that the destinations of a block, or of a whole part, read; for
 * codelets/sums/aggregate.h and codelets/sums/attend.h.
 *
 * A position is an index into the block's T distinct sources, ordered by owner (codelets/sampling/sample.h). The PE's
 * own sources are rows of its next frontier or of its part's table; the inverse that merge wrote maps a position to the
 * row. Sources of another owner are the rows of the buffer that this owner packed.
 */
#ifndef SL_CODELETS_SOURCES_H
#define SL_CODELETS_SOURCES_H

#include "support/real.h" /* SL_HOST_DEVICE */
#include "tasks/rows.h"
#include "tasks/task.h"

/* Most chunks of all parts together, in evaluation. */
#define SL_MAX_FULL_CHUNKS 1024

struct sl_chunks;
struct sl_sources;
struct sl_parts;
struct sl_weights; /* codelets/sums/aggregate.h */

#ifndef SL_KERNELS_ONLY
/* ---- in a view; the task layer sets the addresses (tasks/operand.h) ---- */

/* Rows of a level or of a part, all chunks: row r is row (r & mask) of chunk r >> shift. */
struct sl_chunks {
    struct sl_matrices each;
    uint32_t shift, n_rows, n_columns;
};

/* Row r, inside a task. */
SL_INLINE const sl_real *sl_chunks_row(const struct sl_chunks *rows, uint32_t r, uint32_t n_columns)
{
    const sl_real *chunk = (const sl_real *)rows->each.data[r >> rows->shift];
    return chunk + (size_t)(r & ((1u << rows->shift) - 1)) * n_columns;
}

/* Sources of a block by position. Positions numbers[q] .. numbers[q + 1] - 1 are the rows of packed slice q, in order.
 * For q = own, position numbers[own] + i is a row of `rows`: entry i of requester own in the inverse. */
struct sl_sources {
    struct sl_matrix inverse;  /* own: a list by PE (codelets/sampling/sample.h) */
    struct sl_chunks rows;     /* own */
    struct sl_matrices packed; /* a slice of each owner, empty for own */
    uint32_t own, n_sources;
    enum sl_dtype dtype; /* of all rows */
};

/* The gradients that an owner adds up, and the matrix that gets the sums. */
struct sl_shares {
    struct sl_matrix g, inverse;
    struct sl_matrices sent; /* a slice of each PE, empty for own */
    uint32_t row0;           /* of g, in the frontier */
    uint32_t t0, n_own, own;
    enum sl_dtype sent_dtype;
};

/* The rows of all parts, in evaluation. */
struct sl_parts {
    struct sl_matrix first;    /* n_parts + 1 ids */
    struct sl_matrices chunks; /* of part 0, then of part 1, .. */
    enum sl_dtype dtype;
    uint32_t n_parts;
    uint32_t own; /* part of the destinations; only attend.h reads it */
    uint32_t n_chunks[SL_MAX_PARTS];
    uint32_t shift[SL_MAX_PARTS];
    uint32_t width[SL_MAX_PARTS];
    uint32_t column[SL_MAX_PARTS]; /* the first column to read */
};

#endif

/* ---- for kernels ---- */

/* Destinations row0 .. row0 + n_rows - 1 of a block or, in evaluation, of a part. The edges of destination d are
 * sources[offsets[d]] .. sources[offsets[d + 1] - 1]. In a part, `sources` begins at offset part_offsets[0]. */
struct sl_edges {
    uint32_t row0, n_rows;
    const uint32_t *offsets;             /* of the whole block. NULL: of a part */
    const uint32_t *sources;             /* positions; in a part ids */
    const struct sl_weights *weights;    /* NULL: the mean */
    const float *edge_weights;           /* as `sources`; NULL: 1 */
    const float *shares;                 /* the same, inside the softmax of attention */
    const uint16_t *relations;           /* the same; of sums by relation */
    const uint64_t *part_offsets;        /* of the whole part */
    const struct sl_sources *x;          /* rows of the sources, of a block */
    const struct sl_parts *parts;        /* of a part: the rows of all parts */
    const struct sl_edge_scores *scores; /* codelets/sums/attend.h; NULL: none */
};

/* The first entry of destination d. */
SL_INLINE uint64_t sl_edges_first(const struct sl_edges *edges, uint32_t d)
{
    return edges->offsets != NULL ? edges->offsets[d] : edges->part_offsets[d] - edges->part_offsets[0];
}

/* ---- for kernels on a CPU ---- */

/* Rows by position or by id. Those from first[q] to first[q + 1] - 1 are the items of view[q], in order. widths: of
 * rows. NULL: all rows have the width that the kernel reads. */
struct sl_source_rows {
    uint32_t n_owners;
    const uint32_t *first;
    const uint32_t *widths;
    struct sl_view view[SL_MAX_PARTS];
    /* Own rows, by row, for the self terms of symmetric sums. chunk NULL: the self term of a destination is the source
     * with the same id. */
    struct sl_view own;
    const sl_real *chunk[SL_MAX_FULL_CHUNKS]; /* of parts */
};

/* The row at a position. */
SL_INLINE const char *sl_source_row(enum sl_dtype dtype, const struct sl_source_rows *x, uint32_t position,
                                    uint32_t n_columns)
{
    uint32_t q = 0;
    for (uint32_t n = x->n_owners; n > 1; n -= n / 2) {
        q += position >= x->first[q + n / 2] ? n / 2 : 0;
    }
    const uint32_t width = x->widths == NULL ? n_columns : x->widths[q];
    return (const char *)sl_view_row_of(dtype, &x->view[q], position - x->first[q], width);
}

/* The rows of the sources, of part q from column column[q] on. Returns their dtype. */
enum sl_dtype sl_edges_rows(const struct sl_edges *edges, struct sl_source_rows *out);

/* The own row of the first destination, in the memory of the sources' rows. Reads no list: lists may be on a device. */
SL_EXTERN_C const void *sl_edges_own_row(const struct sl_edges *edges, uint32_t n_columns);

/* ---- for kernels on a device ---- */

/* Rows in chunks, as a kernel parameter. */
struct sl_device_rows {
    uint32_t n_chunks;
    uint32_t shift; /* row r is row (r & mask) of chunk r >> shift */
    const sl_real *chunk[SL_MAX_CHUNKS];
};

/* struct sl_sources as a kernel parameter. */
struct sl_device_sources {
    uint32_t n_owners, own, n_sources;
    const uint32_t *inverse; /* a list by PE (codelets/sampling/sample.h) */
    struct sl_device_rows rows;
    const sl_real *packed[SL_MAX_GROUP]; /* NULL for own and for empty ranges */
    uint32_t first[SL_MAX_GROUP];
    enum sl_dtype dtype; /* of all rows */
};

/* struct sl_parts, for launchers: the chunks of part q begin with chunk[base[q]], from the first column to read on. */
struct sl_part_list {
    uint32_t n_parts, n_chunks;
    const uint32_t *first;
    enum sl_dtype dtype;
    uint16_t base[SL_MAX_PARTS];
    uint8_t shift[SL_MAX_PARTS];
    uint32_t width[SL_MAX_PARTS];
    const sl_real *chunk[SL_MAX_FULL_CHUNKS];
};

SL_EXTERN_C void sl_chunks_on_device(const struct sl_chunks *rows, struct sl_device_rows *out);
SL_EXTERN_C void sl_sources_on_device(const struct sl_sources *sources, struct sl_device_sources *out);
SL_EXTERN_C void sl_parts_on_device(const struct sl_parts *parts, struct sl_part_list *out);

/* ---- for submissions ---- */

struct sl_block;          /* codelets/sampling/sample.h */
struct sl_vertex_factors; /* codelets/sums/aggregate.h */

/* Sources of one PE's block as handles. */
struct sl_source_handles {
    uint32_t n_owners;     /* G */
    uint32_t own;          /* index of this PE among the owners */
    const uint32_t *first; /* G + 1 positions */
    /* Own rows, all chunks: the next level, or the part. */
    const struct sl_rows *rows;
    /* Own inverse: the row of position p is entry p - first[own] of requester own. */
    starpu_data_handle_t inverse;
    /* G slices; empty for own, and for an owner without sources. */
    const struct sl_slice *packed;
    const struct sl_vertex_factors *weights; /* NULL: the mean */
};

/* The columns to sum: columns first .. first + n - 1 of the sums, columns start[q] .. start[q] + n - 1 of part q's
 * rows. */
struct sl_full_columns {
    uint32_t first, n;
    const uint32_t *start; /* n_parts */
};

/* The input of evaluation over whole parts. */
struct sl_full_sources {
    starpu_data_handle_t offsets, sources; /* of the part: 64-bit offsets, ids */
    starpu_data_handle_t first;            /* n_parts + 1 ids */
    uint32_t n_parts;
    const struct sl_rows *rows;              /* n_parts: rows of each part, all chunks */
    uint64_t n_edges;                        /* of the destinations, a rough count for the performance model */
    sl_vertex first_id;                      /* of the part; only with weights */
    const struct sl_vertex_factors *weights; /* NULL: the mean */
    starpu_data_handle_t edge_weights;       /* of the part: float, as `sources`; NULL: 1 */
    starpu_data_handle_t edge_relations;     /* the same: uint16, of sums by relation */
    starpu_data_handle_t edge_rows;          /* the same: uint32, rows of features, of attention that reads them */
    struct sl_full_columns columns;
};

/* The terms that an owner adds to the gradients of its sources: from its own block, and from the other PEs of the
 * group. */
struct sl_share_sources {
    uint32_t t0, n_own;          /* own sources: positions t0 .. t0 + n_own - 1 */
    uint32_t n_peers;            /* G */
    uint32_t own;                /* index of this PE among the peers */
    const struct sl_slice *sent; /* G slices of gradients; empty for own, and for a PE that requested nothing */
};

#ifndef SL_KERNELS_ONLY
/* Views. `numbers` and slices are read until the submission returns. */
struct sl_chunks sl_chunks_of(const struct sl_rows *rows);
struct sl_sources sl_sources_of(const struct sl_source_handles *sources);
struct sl_shares sl_shares_of(const struct sl_share_sources *from, starpu_data_handle_t inverse, uint32_t row0,
                              starpu_data_handle_t g);
/* column: NULL: all 0. chunks: room for the handles. */
struct sl_parts sl_parts_of(starpu_data_handle_t first, uint32_t n_parts, const struct sl_rows *rows,
                            const uint32_t *column, starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS]);

/* By destination, of a block with the rows x, or of a part. */
struct sl_edge_operands {
    struct sl_matrix offsets, sources, relations, weights;
    uint32_t row0;
    struct sl_sources x;
};
struct sl_edge_operands sl_edges_of_block(const struct sl_block *block, uint32_t row0,
                                          const struct sl_source_handles *sources);
struct sl_edge_operands sl_edges_of_part(const struct sl_full_sources *sources, uint32_t row0);
/* parts: NULL: of a block. */
struct sl_edges sl_edges_in(const struct sl_edge_operands *operands, uint32_t n_rows, const struct sl_parts *parts);

/* Rows of all slices. */
uint64_t sl_slices_rows(const struct sl_matrices *slices);

/* Rows of tables of roles, for members of a view. F columns; sent gradients may be bf16. An operation that needs no
 * relations or weights of edges leaves them out. */
#define SL_EDGE_ROLES(view, edges, offset_entries)                                                                     \
    {"edge offsets", STARPU_R, offsetof(view, edges.offsets), "?", offset_entries},                                    \
        {"edge sources", STARPU_R, offsetof(view, edges.sources), "?", SL_INTS_32},                                    \
        {"relations", STARPU_R | SL_OPTIONAL, offsetof(view, edges.relations), "?", SL_INTS_16},                       \
    {                                                                                                                  \
        "edge weights", STARPU_R | SL_OPTIONAL, offsetof(view, edges.weights), "?", SL_FLOATS                          \
    }
#define SL_SOURCE_ROLES(view, x)                                                                                       \
    {"own inverse", STARPU_R, offsetof(view, x.inverse), "?", SL_INTS_32},                                             \
        {"own rows", STARPU_R | SL_REPEATED, offsetof(view, x.rows.each), "? x F", SL_ROWS},                           \
    {                                                                                                                  \
        "packed rows", STARPU_R | SL_REPEATED | SL_OPTIONAL, offsetof(view, x.packed), "? x F", SL_ROWS                \
    }
#define SL_SHARE_ROLES(view, shares)                                                                                   \
    {"gradient", STARPU_W, offsetof(view, shares.g), "D x F"},                                                         \
        {"own inverse", STARPU_R, offsetof(view, shares.inverse), "?", SL_INTS_32},                                    \
    {                                                                                                                  \
        "packed gradients", STARPU_R | SL_REPEATED | SL_OPTIONAL, offsetof(view, shares.sent), "? x F", SL_ROWS        \
    }
#define SL_PART_ROLES(view, parts)                                                                                     \
    {"first", STARPU_R, offsetof(view, parts.first), "?", SL_INTS_32},                                                 \
    {                                                                                                                  \
        "rows", STARPU_R | SL_REPEATED, offsetof(view, parts.chunks), "? x ?", SL_ROWS                                 \
    }
#endif

/* Bytes moved by a sum of n_terms rows into n_rows rows. */
static inline uint64_t sl_sum_bytes(uint64_t n_terms, uint32_t n_rows, uint32_t n_columns)
{
    return (n_terms + n_rows) * n_columns * sizeof(sl_real);
}

#endif
