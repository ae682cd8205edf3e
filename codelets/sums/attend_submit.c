/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Attention as tasks. If an operation has A, it runs the kernels of dynamic attention (codelets/sums/dynamic.h). */
#include <assert.h>

#include "codelets/sums/dynamic.h"
#include "support/minmax.h"

/* ---- operations ---- */

/* Features of edges in scores; v.handle NULL: none. */
struct score_operands {
    struct sl_matrix table, v, rows;
};

/* By destination: forward writes z, lse and s; sides reads gz in z, lse, and gs in s. Dynamic attention has r, a, gr
 * and ga. */
struct sums {
    struct sl_task_args head;
    struct sl_edge_operands edges;
    struct sl_matrix r, a, z, s, lse, sides, gr, ga, gv;
    struct score_operands scores;
    struct sl_heads heads;
    int beta;
    bool of_sample; /* the block's weights are */
};

struct full {
    struct sums sums; /* without lse */
    struct sl_parts parts;
};

/* By source. */
struct back {
    struct sl_task_args head;
    struct sl_back_operands block; /* gm: GZ */
    struct sl_chunks sides, gs;    /* gs without rows: messages have no features */
    struct sl_matrix a;            /* of dynamic attention */
    struct score_operands scores;
    struct sl_heads heads;
    struct sl_matrices u; /* of the rows in `packed` */
    struct sl_matrix own_u;
    enum sl_dtype dtype; /* of rows of U */
    bool of_sample;
};

static struct sl_edge_scores scores_in(const struct score_operands *v)
{
    return (struct sl_edge_scores){v->table.n_columns, v->table.data, v->v.data, v->rows.data, NULL, NULL};
}

static struct sl_attend_back back_of(const struct back *v)
{
    return (struct sl_attend_back){.heads = v->heads,
                                   .offsets = v->block.offsets.data,
                                   .rows = v->block.rows.data,
                                   .gz = &v->block.gm,
                                   .sides = &v->sides,
                                   .gs = v->gs.n_columns > 0 ? &v->gs : NULL,
                                   .relations = v->block.back_relations.data,
                                   .weights = v->of_sample ? NULL : v->block.weights.data,
                                   .shares = v->of_sample ? v->block.weights.data : NULL,
                                   .a = v->a.data,
                                   .scores = scores_in(&v->scores)};
}

/* The edges of a block or, with parts, of a part. Weights of a sample are shares. scores: room for the features. */
static struct sl_edges edges_of(const struct sums *v, const struct sl_parts *parts, struct sl_edge_scores *scores)
{
    struct sl_edges edges = sl_edges_in(&v->edges, v->z.n_rows, parts);
    if (v->of_sample) {
        edges.shares = edges.edge_weights;
        edges.edge_weights = NULL;
    }
    if (v->scores.v.handle != NULL) {
        *scores = scores_in(&v->scores);
        edges.scores = scores;
    }
    return edges;
}

static enum sl_status sum(const struct sums *v, const struct sl_parts *parts, const void *stream)
{
    struct sl_edge_scores scores;
    const struct sl_edges edges = edges_of(v, parts, &scores);
    const struct sl_dynamic to = {v->heads, &edges, v->r.data, v->a.data};
    if (v->a.handle != NULL) {
        return SL_CALL(stream, sl_dynamic_forward, &to, v->z.data, v->lse.data);
    }
    scores.s = v->s.data;
    if (parts != NULL) {
        return SL_RUN(stream, sl_attend_full, v->heads, &edges, v->beta, v->z.data);
    }
    return SL_RUN(stream, sl_attend_forward, v->heads, &edges, v->beta, v->z.data, v->lse.data);
}

static enum sl_status forward(const void *view, const void *stream)
{
    return sum(view, NULL, stream);
}

static enum sl_status full(const void *view, const void *stream)
{
    const struct full *v = view;
    return sum(&v->sums, &v->parts, stream);
}

static enum sl_status sides(const void *view, const void *stream)
{
    const struct sums *v = view;
    struct sl_edge_scores scores;
    const struct sl_edges edges = edges_of(v, NULL, &scores);
    const struct sl_dynamic to = {v->heads, &edges, v->r.data, v->a.data};
    if (v->a.handle != NULL) {
        return SL_CALL(stream, sl_dynamic_sides, &to, v->z.data, v->lse.data, v->sides.data, v->gr.data, v->ga.data);
    }
    scores.gs = v->s.data;
    return SL_RUN(stream, sl_attend_sides, v->heads, &edges, v->z.data, v->lse.data, v->sides.data, v->gv.data);
}

static enum sl_status backward(const void *view, const void *stream)
{
    const struct back *v = view;
    const struct sl_matrices *to = &v->block.packed;
    const struct sl_attend_back block = back_of(v);
    enum sl_status st = SL_OK;
    if (v->a.handle == NULL) {
        return SL_CALL(stream, sl_attend_backward, &block, to->n, to->n_rows, to->numbers, v->dtype, v->u.data,
                       to->data);
    }
    for (uint32_t q = 0; q < to->n && st == SL_OK; q++) {
        st = SL_CALL(stream, sl_dynamic_backward, &block, to->n_rows[q], to->numbers[q], v->dtype, v->u.data[q],
                     to->data[q]);
    }
    return st;
}

static enum sl_status add_self(const void *view, const void *stream, const struct sl_gradient *g)
{
    const struct back *v = view;
    const struct sl_attend_back block = back_of(v);
    /* the destinations are the first rows */
    const uint32_t n = sl_min_u32(sl_max_u32(v->block.gm.n_rows, g->row0) - g->row0, g->n_rows);
    if (v->a.handle != NULL) {
        return SL_CALL(stream, sl_dynamic_self, &block, n, v->dtype, v->own_u.data, g);
    }
    return SL_RUN(stream, sl_attend_self, &block, n, v->dtype, v->own_u.data, g);
}

static enum sl_status add_own(const void *view, const void *stream, const struct sl_asked *asked, int beta,
                              const struct sl_gradient *g)
{
    const struct back *v = view;
    const struct sl_shares *shares = &v->block.shares;
    const struct sl_attend_back block = back_of(v);
    (void)beta;
    if (v->a.handle != NULL) {
        return SL_CALL(stream, sl_dynamic_own, &block, shares->t0, shares->n_own, asked, v->dtype, v->own_u.data, g);
    }
    return SL_RUN(stream, sl_attend_own, &block, shares->t0, shares->n_own, asked, v->dtype, v->own_u.data, g);
}

static enum sl_status accumulate(const void *view, const void *stream)
{
    static const struct sl_share_adders add = {.self = add_self, .own = add_own};
    return sl_accumulate(view, stream, &((const struct back *)view)->block.shares, &add);
}

#define SCORE_ROLES(view, scores)                                                                                      \
    {"edge table", STARPU_R | SL_OPTIONAL, offsetof(view, scores.table), "? x ?"},                                     \
        {"v", STARPU_R | SL_OPTIONAL, offsetof(view, scores.v), "1 x ?"},                                              \
    {                                                                                                                  \
        "edge rows", STARPU_R | SL_OPTIONAL, offsetof(view, scores.rows), "?", SL_INTS_32                              \
    }
/* Of destinations and, below, of sources. */
#define DYNAMIC_ROLES(view, sums)                                                                                      \
    {"r", STARPU_R | SL_OPTIONAL, offsetof(view, sums r), "D x H"},                                                    \
        {"a", STARPU_R | SL_OPTIONAL, offsetof(view, sums a), "1 x H"}, SCORE_ROLES(view, sums scores)
#define SIDES_ROLES                                                                                                    \
    {"sides", STARPU_R | SL_REPEATED, offsetof(struct back, sides.each), "? x S"},                                     \
        {"gs", STARPU_R | SL_REPEATED, offsetof(struct back, gs.each), "? x E"},                                       \
        {"a", STARPU_R | SL_OPTIONAL, offsetof(struct back, a), "1 x H"}, SCORE_ROLES(struct back, scores)

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_attend_forward", SL_STAGE_AGGREGATE),
    SL_BODY(forward, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             DYNAMIC_ROLES(struct sums, ),
             {"z", STARPU_W | SL_OR_RW, offsetof(struct sums, z), "D x H"},
             {"lse", STARPU_W, offsetof(struct sums, lse), "D x L"},
             {"s", STARPU_W | SL_OPTIONAL, offsetof(struct sums, s), "D x ?"},
             SL_SOURCE_ROLES(struct sums, edges.x)},
};

static struct sl_operation sides_op = {
    SL_OPERATION(sides_op, "sl_attend_sides", SL_STAGE_BACKWARD),
    SL_BODY(sides, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             DYNAMIC_ROLES(struct sums, ),
             {"gz", STARPU_R, offsetof(struct sums, z), "D x H"},
             {"lse", STARPU_R, offsetof(struct sums, lse), "D x L"},
             {"gs", STARPU_R | SL_OPTIONAL, offsetof(struct sums, s), "D x ?"},
             {"sides", STARPU_W, offsetof(struct sums, sides), "D x S"},
             {"gr", STARPU_W | SL_OPTIONAL, offsetof(struct sums, gr), "D x H"},
             {"ga", STARPU_W | SL_OPTIONAL, offsetof(struct sums, ga), "D x H"},
             {"gv", STARPU_W | SL_OPTIONAL, offsetof(struct sums, gv), "D x ?"},
             SL_SOURCE_ROLES(struct sums, edges.x)},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_attend_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x H"),
             SIDES_ROLES,
             SL_PACKED_ROLE(struct back, block),
             {"u", STARPU_R | SL_REPEATED, offsetof(struct back, u), "? x F", SL_ROWS}},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_attend_accumulate", SL_STAGE_BACKWARD),
    SL_BODY(accumulate, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x H"),
             SIDES_ROLES,
             {"u", STARPU_R, offsetof(struct back, own_u), "D x F", SL_ROWS},
             SL_SHARE_ROLES(struct back, block.shares)},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_attend_full", SL_STAGE_AGGREGATE),
    SL_BODY(full, struct full),
    .role = {SL_EDGE_ROLES(struct full, sums.edges, SL_INTS_64),
             DYNAMIC_ROLES(struct full, sums.),
             {"z", STARPU_W | SL_OR_RW, offsetof(struct full, sums.z), "D x H"},
             {"s", STARPU_W | SL_OPTIONAL, offsetof(struct full, sums.s), "D x ?"},
             SL_PART_ROLES(struct full, parts)},
};

/* ---- submissions ---- */

/* H, K and R of static attention. n_columns: of rows of U; width: H; n_scores: RK, of lse. relations NULL: edges have
 * none. */
static struct sl_heads static_heads(uint32_t n_columns, uint32_t width, uint32_t n_scores,
                                    starpu_data_handle_t relations)
{
    const bool has_slabs = relations != NULL && width > 0 && n_columns > 2 * n_scores + width;
    const uint32_t n_slabs = has_slabs ? (n_columns - 2 * n_scores) / width : 1;
    const struct sl_heads heads = {width, n_scores / n_slabs, relations != NULL ? n_slabs : 0};
    assert(n_scores == sl_heads_scores(heads) && n_columns == sl_heads_row(heads));
    return heads;
}

/* a NULL: of static attention. */
static struct sl_heads heads_of(uint32_t n_columns, uint32_t width, uint32_t n_scores, starpu_data_handle_t relations,
                                starpu_data_handle_t a)
{
    struct sl_heads heads = {width, n_scores, 0};
    if (a == NULL) {
        heads = static_heads(n_columns, width, n_scores, relations);
    }
    assert(heads.n_heads >= 1 && heads.n_heads <= SL_MAX_HEADS && width % heads.n_heads == 0);
    assert(a == NULL || n_columns == width);
    return heads;
}

/* rows: of the edges, in the order of their lists. */
static struct score_operands operands_of(const struct sl_edge_score_handles *scores, starpu_data_handle_t rows)
{
    assert(scores->v == NULL || (scores->table != NULL && rows != NULL));
    if (scores->v == NULL) {
        rows = NULL;
    }
    return (struct score_operands){sl_matrix_of(scores->table), sl_matrix_of(scores->v), sl_matrix_of(rows)};
}

/* The edges and rows of destinations, but for the heads. Weights of edges count only if edges have relations, and
 * dynamic attention reads neither. The rows of a chunk of destinations lie within one chunk of U. */
static struct sums sums_of(const struct sl_task_args *head, struct sl_edge_operands edges, const struct sl_rows *u,
                           uint64_t n_edges, const struct sl_attend_operands *operands, starpu_data_handle_t z)
{
    struct sums v = {.head = *head,
                     .edges = edges,
                     .r = sl_matrix_of(operands->r),
                     .a = sl_matrix_of(operands->a),
                     .z = sl_matrix_of(z),
                     .s = sl_matrix_of(operands->s)};
    const uint64_t end = (uint64_t)edges.row0 + v.z.n_rows;
    assert(end <= u->split.n_rows);
    assert(v.z.n_rows == 0 || edges.row0 >> u->split.shift == (end - 1) >> u->split.shift);
    if (operands->a != NULL) {
        v.edges.relations = sl_matrix_of(NULL);
    }
    if (v.edges.relations.handle == NULL) {
        v.edges.weights = sl_matrix_of(NULL);
    }
    v.head.work = sl_sum_bytes(n_edges, v.z.n_rows, u->n_columns);
    return v;
}

/* Of a block. */
static struct sums targets_of(const struct sl_task_args *head, const struct sl_attend_targets *to,
                              starpu_data_handle_t z, starpu_data_handle_t lse)
{
    const struct sl_rows *u = to->sources->rows;
    struct sums v =
        sums_of(head, sl_edges_of_block(to->block, to->row0, to->sources), u, to->n_edges, &to->operands, z);
    v.of_sample = to->block->of_sample;
    v.lse = sl_matrix_of(lse);
    v.scores = operands_of(&to->operands.scores, to->block->edge_rows);
    v.heads = heads_of(u->n_columns, v.z.n_columns, v.lse.n_columns, v.edges.relations.handle, to->operands.a);
    return v;
}

enum sl_status sl_attend_forward_submit(const struct sl_task_args *head, const struct sl_attend_targets *to, int beta,
                                        starpu_data_handle_t z, starpu_data_handle_t lse)
{
    struct sums v = targets_of(head, to, z, lse);
    assert(beta == 0 || to->operands.a == NULL);
    v.beta = beta;
    v.z.is_kept = beta != 0;
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_sides_submit(const struct sl_task_args *head, const struct sl_attend_targets *to,
                                      starpu_data_handle_t gz, starpu_data_handle_t lse,
                                      const struct sl_attend_sides *out)
{
    struct sums v = targets_of(head, to, gz, lse);
    v.sides = sl_matrix_of(out->sides);
    v.gr = sl_matrix_of(out->gr);
    v.ga = sl_matrix_of(out->ga);
    v.gv = sl_matrix_of(out->gv);
    assert(v.gv.n_columns == v.scores.v.n_columns);
    assert(v.sides.n_columns == sl_attend_side(v.heads, v.a.handle != NULL));
    return sl_view_submit(&sides_op, &v, SL_PRIORITY_COMPUTE);
}

/* The number of scores, from the width of sides. */
static uint32_t n_scores_in(const struct sl_attend_gradients *gradients)
{
    const uint32_t n = gradients->sides->n_columns;
    return gradients->a != NULL ? (n - gradients->gz->n_columns) / 2 : n / 4;
}

static struct back back_view(const struct sl_task_args *head, const struct sl_block *block,
                             const struct sl_attend_gradients *gradients, starpu_data_handle_t u)
{
    const struct sl_split *gz = &gradients->gz->split;
    const struct sl_split *sides = &gradients->sides->split;
    assert(gz->n_rows == sides->n_rows && gz->n_chunks == sides->n_chunks && gz->shift == sides->shift);
    struct back v = {.head = *head,
                     .block = sl_back_of(block, gradients->gz),
                     .sides = sl_chunks_of(gradients->sides),
                     .a = sl_matrix_of(gradients->a),
                     .scores = operands_of(&gradients->scores, block->back_edges),
                     .heads = heads_of(sl_handle_columns(u), gradients->gz->n_columns, n_scores_in(gradients),
                                       block->back_relations, gradients->a),
                     .dtype = sl_handle_dtype(u),
                     .of_sample = block->of_sample};
    assert(gradients->sides->n_columns == sl_attend_side(v.heads, gradients->a != NULL));
    if (gradients->gs != NULL) {
        v.gs = sl_chunks_of(gradients->gs);
        assert(v.gs.n_columns == v.scores.v.n_columns);
    }
    v.block.edge_offsets = v.block.relations = sl_matrix_of(NULL);
    if (gradients->a != NULL) {
        v.block.back_relations = sl_matrix_of(NULL);
    }
    if (v.block.back_relations.handle == NULL) {
        v.block.weights = sl_matrix_of(NULL);
    }
    return v;
}

enum sl_status sl_attend_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_attend_gradients *gradients, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *u,
                                         const struct sl_slice *gu)
{
    struct back v = back_view(head, block, gradients, u[0].handle);
    v.block.packed = (struct sl_matrices){.n = n_owners, .slices = gu, .numbers = t0};
    v.u = (struct sl_matrices){.n = n_owners, .slices = u};
    v.head.work = sl_sum_bytes(n_edges, sl_slices_rows(&v.block.packed), v.block.gm.n_columns + v.sides.n_columns);
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_SEND);
}

enum sl_status sl_attend_accumulate_submit(const struct sl_task_args *head, const struct sl_attend_shares *shares,
                                           uint32_t row0, starpu_data_handle_t u, starpu_data_handle_t gu)
{
    struct back v = back_view(head, shares->block, &shares->gradients, u);
    struct sl_shares *to = &v.block.shares;
    *to = sl_shares_of(&shares->from, shares->block->inverse, row0, gu);
    v.own_u = sl_matrix_of(u);
    v.head.work = sl_sum_bytes(to->n_own + sl_slices_rows(&to->sent), v.own_u.n_rows, v.own_u.n_columns);
    return sl_view_submit(&accumulate_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t part, uint32_t row0, uint32_t n_scores,
                                     const struct sl_attend_operands *operands, int beta, starpu_data_handle_t z)
{
    starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS];
    const struct sl_rows *u = &sources->rows[part];
    struct full v = {.sums = sums_of(head, sl_edges_of_part(sources, row0), u, sources->n_edges, operands, z),
                     .parts = sl_parts_of(sources->first, sources->n_parts, sources->rows, NULL, chunks)};
    struct sums *sums = &v.sums;
    assert(part < sources->n_parts && (beta == 0 || operands->a == NULL));
    sums->scores = operands_of(&operands->scores, operands->scores.rows);
    v.parts.own = part;
    sums->heads = heads_of(u->n_columns, sums->z.n_columns, n_scores, sums->edges.relations.handle, operands->a);
    sums->beta = beta;
    sums->z.is_kept = beta != 0;
    return sl_view_submit(&full_op, &v, SL_PRIORITY_NORMAL);
}
