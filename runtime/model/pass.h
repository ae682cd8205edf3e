/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A pass of a model, forward and perhaps back: the rows of each PE by layer, and where its blocks come from. Layers (kinds.h) are
 * written over it once; a sampled minibatch (runtime/minibatch/sampled.c) and all in-edges of all parts (runtime/full/evaluate.c) are passes.
 *
 * Level l of a PE is its frontier S_p^l (codelets/rows.h): 0 the seeds, L the input rows. A layer takes rows of level `from` to rows
 * of level `level`, which is one less where it aggregates. With all in-edges a PE is a part, and every level is all of its rows.
 */
#ifndef SL_RUNTIME_MODEL_PASS_H
#define SL_RUNTIME_MODEL_PASS_H

#include "codelets/rows.h"
#include "codelets/task.h"
#include "runtime/model/layer.h"
#include "runtime/plan/plan.h"
#include "runtime/store/partials.h"
#include "runtime/store/shards.h"

/* Rows that a layer has of a PE; a kind uses those that it needs. */
enum sl_role {
    SL_ROWS_H,         /* its output */
    SL_ROWS_Z,         /* before the activation; of the last layer the logits */
    SL_ROWS_GATE,      /* a byte each: codelets/activate.h */
    SL_ROWS_SUM,       /* the mean or weighted sum over in-neighbours, where the layer does not project first */
    SL_ROWS_PROJECTED, /* y = h W, where it does, by the rows it takes in */
    SL_ROWS_GH,        /* gradients of h, z, the sum and y */
    SL_ROWS_GZ,
    SL_ROWS_GA,
    SL_ROWS_GY,
    SL_ROWS_BEFORE, /* its input rows after an activation that comes first, that one's gate, and their gradient */
    SL_ROWS_GATE_BEFORE,
    SL_ROWS_GBEFORE,
    SL_ROWS_SCALES, /* attention: the logarithm of each destination's and head's sum of exponentials; its backward's numbers */
    SL_ROWS_SIDES,
    SL_ROWS_GINITIAL, /* of the first layer: what later layers return to its output */
    SL_ROWS_GBACK, /* what travels back, rounded, where rows are of bf16 and are read where they are (runtime/pipe) */
    SL_N_ROLES,
    SL_ROWS_INPUT = SL_N_ROLES, /* what it takes in: the output of the layer below, or the features; and its gradient */
    SL_ROWS_GINPUT
};

/* One PE's. Rows keep their handles for the step that will use them next (sl_rows_keep, as soon as their last reader has been
 * submitted; sl_rows_reshape). */
struct sl_pass_pe {
    struct sl_split split[SL_MAX_LAYERS + 1]; /* by level */
    /* Of the first layer, perhaps its destinations' alone, which are the first; empty where they are sparse. */
    struct sl_rows features;
    struct sl_rows layer[SL_MAX_MODEL_LAYERS][SL_N_ROLES];
};

/* Batch norm of one group: by layer. The handles are kept for the run. */
struct sl_pass_group {
    uint64_t n_rows[SL_MAX_MODEL_LAYERS];
    starpu_data_handle_t statistics[SL_MAX_MODEL_LAYERS];
    starpu_data_handle_t sums[SL_MAX_MODEL_LAYERS];
};

/* What batch norm adds up in training, of the layer in hand, group by group. */
struct sl_pass_moments {
    struct sl_partials moments, sums;
    struct sl_partials unbiased; /* statistics, one per group */
    uint32_t *chunk_rows;        /* rows behind each of the moments */
};

struct sl_block_source;

struct sl_pass {
    const struct sl_plan *plan; /* borrowed, as the next three */
    struct sl_run *run;
    const struct sl_shards *shards;
    struct sl_model *model; /* the plan's replicas of it; shapes are read off the first */
    uint64_t step;
    enum sl_stage stage; /* SL_STAGE_EVALUATE, or the tasks' own */
    bool training;       /* there is a way back; batch norm's statistics are of these rows, else the running ones */
    bool keeps;          /* rows that are done with keep their handles, and their memory, for the next step */
    double dropout, input_dropout;
    uint64_t seed;
    const struct sl_block_source *source;
    void *owner; /* the source's own */
    struct sl_pass_pe *pe;
    const struct sl_runs *runs; /* of each PE's rows, where they are one chunk at every level; NULL: a chunk is a run */
    struct sl_pass_group *group; /* of each group */
    struct sl_pass_moments batch;
};

/* Columns first .. first + n - 1 of what travels: a slice of those. */
struct sl_columns {
    uint32_t first, n;
};

/* A layer in hand. */
struct sl_layer_pass {
    struct sl_pass *pass;
    uint32_t i;
    uint32_t from, level; /* of what it takes in, of what it gives; the level is the hop, too */
    struct sl_layer *layer;
    uint32_t n_pes;            /* whose rows are in hand: */
    const uint32_t *pes;       /* these, or NULL: all of this process */
    struct sl_columns columns; /* forward, of what travels */
};

/* The k-th PE in hand, into *p; false beyond the last. */
static inline bool sl_layer_pass_pe(const struct sl_layer_pass *lp, uint32_t k, uint32_t *p)
{
    if (k < lp->n_pes) {
        *p = lp->pes == NULL ? lp->pass->plan->first_pe + k : lp->pes[k];
    }
    return k < lp->n_pes;
}

/* The ids of a PE's rows: row r of any level is entry base + r. */
struct sl_ids_of {
    starpu_data_handle_t ids;
    uint32_t base;
};

/* Where blocks come from. All but `ids`, `lists` and `partials` submit tasks: one thread, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
struct sl_block_source {
    struct sl_ids_of (*ids)(const struct sl_pass *pass, uint32_t p);

    /* The PE that works for PE p at this layer, where that is another one; NULL: p itself. */
    uint32_t (*worker)(const struct sl_layer_pass *lp, uint32_t p);

    /* How many columns of the rows that travel are sent and summed at a time, forward; NULL: all. Sums of a column do not depend on the
     * others: a layer sends, and then sums into all its chunks, for each slice of columns (sl_sum_chunks). */
    uint32_t (*columns)(const struct sl_layer_pass *lp);

    /* The rows that travel (sl_layer_pass_travels), of them the columns in hand, go to the PEs that aggregate them; call `arrived` when all who
     * read them in this layer have been submitted. */
    enum sl_status (*send)(const struct sl_layer_pass *lp);
    void (*arrived)(const struct sl_layer_pass *lp);

    /* Rows of chunk c of the output level = or += (beta) what the layer's edges give them of the rows that travelled, in the columns in
     * hand. */
    enum sl_status (*sum)(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, int beta, starpu_data_handle_t out);

    /* The adjoint: what travels back (sl_layer_pass_returns) does, and every owner adds up those of its
     * rows of the input level into `out` of each PE. */
    enum sl_status (*send_back)(const struct sl_layer_pass *lp);
    enum sl_status (*sum_back)(const struct sl_layer_pass *lp, uint32_t p, struct sl_rows *out);
    void (*returned)(const struct sl_layer_pass *lp);

    /* A partial of PE p's, number `number` of a list that all ranks have the same numbers in, is read by all who train its replica: the
     * moments of batch norm or, back, its sums. NULL: they are of this process. */
    enum sl_status (*share)(const struct sl_layer_pass *lp, uint32_t p, bool back, uint32_t number,
                            starpu_data_handle_t partial);

    /* The lists of partial gradients of a parameter of one replica, as many as the transport says; the one that PE p adds to. */
    struct sl_partials *(*lists)(const struct sl_layer_pass *lp, uint32_t replica, int parameter);
    struct sl_partials *(*partials)(const struct sl_layer_pass *lp, uint32_t p, int parameter);
};

/* ---- what layers are written with; submissions, with the statuses above ---- */

/* Layer i of all PEs of this process. */
struct sl_layer_pass sl_pass_layer(struct sl_pass *pass, uint32_t i);
struct sl_task_args sl_layer_pass_head(const struct sl_layer_pass *lp, uint32_t p);

/* Whether the slice of columns in hand is the last. */
bool sl_layer_pass_ends(const struct sl_layer_pass *lp);

/* A layer's rows, and those of its input's gradient, which are the layer's below. */
struct sl_rows *sl_layer_pass_rows(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role);
struct sl_rows *sl_layer_pass_input_gradient(const struct sl_layer_pass *lp, uint32_t p);

/* Where forward leaves its result (Z, or H where no activation follows), and backward finds the gradient of it. */
enum sl_role sl_layer_pass_result(const struct sl_layer_pass *lp);
enum sl_role sl_layer_pass_result_gradient(const struct sl_layer_pass *lp);

/* Whether this pass over the layer multiplies before it sums. What of it travels to the PEs that aggregate, and what travels back. */
const struct sl_layer_order *sl_layer_pass_order(const struct sl_layer_pass *lp);
const struct sl_rows *sl_layer_pass_travels(const struct sl_layer_pass *lp, uint32_t p);
const struct sl_rows *sl_layer_pass_returns(const struct sl_layer_pass *lp, uint32_t p);

/* Give a role's rows the shape of a level: [rows x width] of sl_real, of the features' precision (BEFORE, SUM, PROJECTED, GBACK, and
 * H where it was activated), or of bytes (the gate). Rows that are computed again (runtime/pipe/recompute.h) keep the handles
 * that they have. */
enum sl_status sl_layer_pass_shape(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role, uint32_t level,
                                   uint32_t width);

/* The last reader has been submitted: kept for the next step, or dropped where there is none. */
void sl_layer_pass_done(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role);

/* The row where chunk c of a level begins, which is the same row of every higher level; the chunk of the input that holds a row,
 * and the row's place in it. */
uint32_t sl_layer_pass_chunk_row(const struct sl_layer_pass *lp, uint32_t p, uint32_t level, uint32_t c);
struct sl_layer_pass_place {
    uint32_t chunk, row;
};
struct sl_layer_pass_place sl_layer_pass_place(const struct sl_layer_pass *lp, uint32_t p, uint32_t row);

/* A parameter of the replica that PE p trains; a further partial of its gradient. */
starpu_data_handle_t sl_layer_pass_value(const struct sl_layer_pass *lp, uint32_t p, int parameter);
enum sl_status sl_layer_pass_partial(const struct sl_layer_pass *lp, uint32_t p, int parameter,
                                     starpu_data_handle_t *out);

/* z, a chunk whose first row is `row` of the input level, = or += (beta) h W (+ bias, or NULL), of dense or sparse input rows. */
enum sl_status sl_multiply(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter,
                           starpu_data_handle_t bias, int beta, starpu_data_handle_t z);

/* Its adjoint by the weights: GW, and the gradient of SL_BIAS where asked for, of one chunk of gz. Dense chunks leave a partial each;
 * sparse ones, whose matrices are large, add to one partial per PE, one after the other. A gradient that vanishes (struct sl_layer,
 * bias_vanishes) has no partials, here and below: the sum of none is zero. */
enum sl_status sl_multiply_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter, bool with_bias,
                                starpu_data_handle_t gz);

/* Projecting first: y = h W for all rows of the input level of all PEs; of one PE the gradient of W from gy, and gh = gy W^T where a
 * layer below wants it. */
enum sl_status sl_project(const struct sl_layer_pass *lp, int parameter);
enum sl_status sl_project_back(const struct sl_layer_pass *lp, uint32_t p, int parameter);

/* All who read y have been submitted: a source calls it, in `arrived` where rows travel once. */
void sl_project_done(const struct sl_layer_pass *lp);

/* Not projecting first: ga = gz W^T unless nothing below wants it; and, submitted after a source's send_back, to be computed
 * while gradients travel, the gradient of W (and SL_BIAS) from the sums and gz. */
enum sl_status sl_sum_back(const struct sl_layer_pass *lp, int parameter);
enum sl_status sl_sum_gradient(const struct sl_layer_pass *lp, int parameter, bool with_bias);

/* What a layer does with chunk c of PE p, whose rows of the result, and SUM where the layer does not project first, have their shape. */
typedef enum sl_status sl_chunk_work(const struct sl_layer_pass *lp, uint32_t p, uint32_t c);

/* The forward of a layer once what travels is there: of each chunk what comes before its sum (begin, or NULL), and the sum and what
 * comes behind it (combine), which is called for each slice of columns that the source takes at a time: behind it is behind the last. */
enum sl_status sl_sum_chunks(const struct sl_layer_pass *lp, enum sl_role result, sl_chunk_work *begin,
                             sl_chunk_work *combine);

/* The forward of a layer that multiplies before or after it sums, as its widths ask for: rows travel, projected or as they are, and the
 * result is Z. */
enum sl_status sl_convolve(const struct sl_layer_pass *lp, int parameter, sl_chunk_work *begin, sl_chunk_work *combine);

/* The layer's bias in every row of chunk z; the gradient of it, a partial for each chunk of gz of all PEs. */
enum sl_status sl_bias(const struct sl_layer_pass *lp, uint32_t p, starpu_data_handle_t z);
enum sl_status sl_bias_back(const struct sl_layer_pass *lp);

/* GH of the input rows += GH of the output, the adjoint of a residual, of PE p's rows. */
enum sl_status sl_residual_back(const struct sl_layer_pass *lp, uint32_t p);

#endif
