/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A pass of a model, forward and perhaps backward: the rows of each PE by layer, and the block source that delivers
 * edges and remote rows. A kind of layer (kinds.h) is written once and works in every pass: over a sampled minibatch
 * (runtime/minibatch/sampled.c), over all in-edges of all parts in evaluation (runtime/full/evaluate.c), and over the
 * full graph in training (runtime/pipe/source.c).
 *
 * Level l of a PE is its frontier S_p^l (tasks/rows.h): level 0 has the seeds, level L the input rows. A layer
 * turns rows of level `from` into rows of level `level`. A layer that aggregates has level = from - 1; any other
 * layer has level = from. In a pass over all in-edges a PE is a part. A level then has all rows of the part, or the
 * rows that scores need (runtime/full/needed.h). All levels have the same chunk boundaries.
 *
 * Throughout the code a variable named `lp` is the struct sl_layer_pass of the layer in hand.
 */
#ifndef SL_RUNTIME_MODEL_PASS_H
#define SL_RUNTIME_MODEL_PASS_H

#include "runtime/model/layer.h"
#include "runtime/plan/plan.h"
#include "runtime/store/partials.h"
#include "runtime/store/shards.h"
#include "tasks/rows.h"
#include "tasks/task.h"

/* The rows of one PE. A matrix keeps its handle for the next step that uses it: sl_rows_keep right after the last
 * reader has been submitted, sl_rows_reshape before the next writer. */
struct sl_pass_pe {
    /* By level. */
    struct sl_split split[SL_MAX_LAYERS + 1];
    /* Input of the first layer. May have only the destinations' rows: the first rows. Empty if features are sparse. */
    struct sl_rows features;
    struct sl_rows layer[SL_MAX_MODEL_LAYERS][SL_N_ROLES];
};

/* Batch norm of one group, by layer. Handles are kept for the run. */
struct sl_pass_group {
    uint64_t n_rows[SL_MAX_MODEL_LAYERS];
    starpu_data_handle_t statistics[SL_MAX_MODEL_LAYERS];
};

/* Sums of batch norm in training. Partials are of the layer in hand, group by group. */
struct sl_pass_moments {
    struct sl_partials moments, sums;
    /* Unbiased statistics, one entry per group. */
    struct sl_partials unbiased;
    /* The number of rows that each entry of `moments` sums. */
    uint32_t *chunk_rows;
    /* [layer][group]: the sum of the group's entries of `sums`. Handles are kept for the run. */
    starpu_data_handle_t *group_sums;
};

struct sl_block_source;

struct sl_pass {
    /* Borrowed, as are run, shards and model. */
    const struct sl_plan *plan;
    struct sl_run *run;
    const struct sl_shards *shards;
    /* The plan's replicas. Shapes are read off the first replica. */
    struct sl_model *model;
    uint64_t step;
    /* SL_STAGE_EVALUATE, or the time category of each task itself. */
    enum sl_stage stage;
    /* The pass has a backward pass, and batch norm takes its statistics from the rows of this pass. Otherwise: the
     * running statistics. */
    bool training;
    /* Rows keep handle and memory for the next step after their last reader. Otherwise rows are dropped. */
    bool keeps;
    double dropout, input_dropout;
    uint64_t seed;
    const struct sl_block_source *source;
    /* The block source's own state. */
    void *owner;
    struct sl_pass_pe *pe;
    /* By PE, if a PE's rows are one chunk at every level: the segments that are summed separately. NULL: one segment
     * per chunk. */
    const struct sl_runs *runs;
    /* By group. NULL if no layer has batch norm. */
    struct sl_pass_group *group;
    struct sl_pass_moments batch;
};

/* Columns first .. first + n - 1 of the travelling rows: one slice. */
struct sl_columns {
    uint32_t first, n;
};

/* One layer of a pass in hand. */
struct sl_layer_pass {
    struct sl_pass *pass;
    /* The layer's index in the model. */
    uint32_t i;
    /* Level of the input and of the output. The output level is also the hop. */
    uint32_t from, level;
    struct sl_layer *layer;
    /* The PEs in hand: pes[0 .. n_pes - 1], or all PEs of this process if pes is NULL. */
    uint32_t n_pes;
    const uint32_t *pes;
    /* Forward: the slice of travelling columns in hand. */
    struct sl_columns columns;
};

/* Store the k-th PE in hand in *p. Return false if k is too large. */
static inline bool sl_layer_pass_pe(const struct sl_layer_pass *lp, uint32_t k, uint32_t *p)
{
    if (k < lp->n_pes) {
        *p = lp->pes == NULL ? lp->pass->plan->first_pe + k : lp->pes[k];
    }
    return k < lp->n_pes;
}

/* The ids of a PE's rows. The id of row r is entry base + r, at every level. */
struct sl_ids_of {
    starpu_data_handle_t ids;
    uint32_t base;
};

/* The block source: the table that delivers blocks to a pass. `ids`, `worker`, `columns`, `lists` and `partials`
 * return information only. All other functions submit tasks, from one thread and in order; they return SL_EINVAL,
 * SL_ESTARPU or SL_ENOMEM on failure. */
struct sl_block_source {
    struct sl_ids_of (*ids)(const struct sl_pass *pass, uint32_t p);

    /* The PE that runs PE p's tasks of this layer at its home. NULL: p itself. */
    uint32_t (*worker)(const struct sl_layer_pass *lp, uint32_t p);

    /* Forward: the number of travelling columns to send and sum at a time. NULL: all columns. A layer sends one
     * slice, sums it into all its chunks, then takes the next slice (sl_sum_chunks). This is possible because a
     * column's sums read no other column. */
    uint32_t (*columns)(const struct sl_layer_pass *lp);

    /* Send the columns in hand of the travelling rows (sl_layer_pass_travels) to the aggregating PEs. */
    enum sl_status (*send)(const struct sl_layer_pass *lp);

    /* The layer calls `arrived` after it has submitted all forward readers of the sent rows. */
    void (*arrived)(const struct sl_layer_pass *lp);

    /* Sum the sent rows along the layer's edges, for the rows of chunk c of the output level, in the columns in hand:
     * out = sum if beta is 0, out += sum if beta is 1. */
    enum sl_status (*sum)(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, int beta, starpu_data_handle_t out);

    /* Sum the features of the in-edges of the rows of chunk c of the output level, as the layer's sum weighs rows. They
     * have no gradient. NULL: no layer over this source has features of edges. */
    enum sl_status (*sum_edges)(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, starpu_data_handle_t out);

    /* The adjoint. send_back: send the returning gradients (sl_layer_pass_returns) to the owners of the source rows.
     * sum_back: PE p adds up the received gradients for its rows of the input level; `out` gets its shape here.
     * returned: as `arrived`, for the way back; the schedule calls it once the layer's backward pass has been
     * submitted. sum_gradient: the gradients of the parameters that the sum reads, of all PEs; NULL if no sum over
     * this source reads any. */
    enum sl_status (*send_back)(const struct sl_layer_pass *lp);
    enum sl_status (*sum_gradient)(const struct sl_layer_pass *lp);
    enum sl_status (*sum_back)(const struct sl_layer_pass *lp, uint32_t p, struct sl_rows *out);
    void (*returned)(const struct sl_layer_pass *lp);

    /* Batch norm over several ranks: send a partial of PE p to every rank that trains p's replica. The partial
     * belongs to the moments or, if `back`, to the sums. `number` is its index in PE p's group, equal in all ranks.
     * NULL: all partials belong to this process. */
    enum sl_status (*share)(const struct sl_layer_pass *lp, uint32_t p, bool back, uint32_t number,
                            starpu_data_handle_t partial);

    /* lists: the first list of partial gradients of a replica's parameter; the transport says how many lists follow
     * each other. partials: the list that PE p adds to. */
    struct sl_partials *(*lists)(const struct sl_layer_pass *lp, uint32_t replica, int parameter);
    struct sl_partials *(*partials)(const struct sl_layer_pass *lp, uint32_t p, int parameter);
};

/* ---- building blocks of layers; submissions return SL_EINVAL, SL_ESTARPU or SL_ENOMEM on failure ---- */

/* Layer i, with all PEs of this process in hand. */
struct sl_layer_pass sl_pass_layer(struct sl_pass *pass, uint32_t i);
struct sl_task_args sl_layer_pass_head(const struct sl_layer_pass *lp, uint32_t p);

/* Whether the slice of columns in hand is the last slice. */
bool sl_layer_pass_ends(const struct sl_layer_pass *lp);

/* Rows of a role. The gradient of the input is GH of the layer below; the first layer has none. */
struct sl_rows *sl_layer_pass_rows(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role);

/* The role that forward writes (Z, or H if no activation follows), and the role of its gradient, which backward
 * reads. */
enum sl_role sl_layer_pass_result(const struct sl_layer_pass *lp);
enum sl_role sl_layer_pass_result_gradient(const struct sl_layer_pass *lp);

/* The order of product and sum in this pass; PE p's rows that travel to the aggregating PEs; PE p's gradients that
 * travel back. */
const struct sl_layer_order *sl_layer_pass_order(const struct sl_layer_pass *lp);
const struct sl_rows *sl_layer_pass_travels(const struct sl_layer_pass *lp, uint32_t p);
const struct sl_rows *sl_layer_pass_returns(const struct sl_layer_pass *lp, uint32_t p);

/* The declaration of a role's rows in this pass. */
const struct sl_layer_row *sl_layer_pass_row(const struct sl_layer_pass *lp, enum sl_role role);

/* Give PE p's rows of a role the shape and dtype that the layer declares. Rows that exist because a layer runs again
 * (runtime/pipe/recompute.h) keep their handles. */
enum sl_status sl_layer_pass_shape(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role);

/* The same for all PEs in hand. */
enum sl_status sl_layer_pass_shape_all(const struct sl_layer_pass *lp, enum sl_role role);

/* Call after the last reader has been submitted: keeps the rows for the next step, or drops the rows if the pass
 * keeps nothing. */
void sl_layer_pass_done(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role);

/* Call `end` (sl_rows_keep or sl_rows_drop) for all rows of a PE but the features. */
void sl_pass_end_rows(struct sl_pass_pe *pe, uint32_t n_layers, void (*end)(struct sl_rows *rows));

/* The first row of chunk c of a level. The row has the same number at every higher level. */
uint32_t sl_layer_pass_chunk_row(const struct sl_layer_pass *lp, uint32_t p, uint32_t level, uint32_t c);

/* The chunk of the input level with a given row, and the row's index in this chunk. sl_layer_pass_self: of the rows of
 * the vertices of chunk c of the output level. */
struct sl_layer_pass_place {
    uint32_t chunk, row;
};
struct sl_layer_pass_place sl_layer_pass_place(const struct sl_layer_pass *lp, uint32_t p, uint32_t row);
struct sl_layer_pass_place sl_layer_pass_self(const struct sl_layer_pass *lp, uint32_t p, uint32_t c);

/* A parameter of the replica that PE p trains; the next partial of the parameter's gradient. */
starpu_data_handle_t sl_layer_pass_value(const struct sl_layer_pass *lp, uint32_t p, int parameter);
enum sl_status sl_layer_pass_partial(const struct sl_layer_pass *lp, uint32_t p, int parameter,
                                     starpu_data_handle_t *out);

/* z = h W + bias (beta 0) or z += h W + bias (beta 1). h: the input rows from `row` on, dense or sparse. bias: may be
 * NULL. */
enum sl_status sl_multiply(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter,
                           starpu_data_handle_t bias, int beta, starpu_data_handle_t z);

/* The adjoint of sl_multiply by the weights, for one chunk gz: GW and the gradient of the bias. Each dense chunk writes
 * a partial of its own. Sparse chunks add to one partial per PE, in order, because their matrices are large. bias,
 * here and below: SL_NO_PARAMETER for none. A gradient that vanishes (bias_vanishes in struct sl_layer) gets no
 * partials: the empty sum is zero. */
enum sl_status sl_multiply_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter, int bias,
                                starpu_data_handle_t gz);

/* For a layer that projects first. sl_project: y = h W + b, all input rows of all PEs. sl_project_back, one PE: the
 * gradients of W and b from gy and, unless this is the first layer, gh = gy W^T. */
enum sl_status sl_project(const struct sl_layer_pass *lp, int parameter, int bias);
enum sl_status sl_project_back(const struct sl_layer_pass *lp, uint32_t p, int parameter, int bias);

/* All readers of y in the forward pass have been submitted: release y, unless the backward pass reads it. Block sources
 * whose rows travel only forward call this in `arrived`. */
void sl_project_done(const struct sl_layer_pass *lp);

/* One chunk of dense rows, X and G being rows of roles: G = X W + b (beta 0) or G += X W + b (beta 1). */
enum sl_status sl_product(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role x, int parameter,
                          int bias, int beta, enum sl_role g);

/* The same chunk: the gradient of X, from the rows of G's gradient. */
enum sl_status sl_product_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role gradient,
                               int parameter, enum sl_role gx);

/* The same chunk: the gradients of W and of the bias, from the rows of X and of G's gradient. */
enum sl_status sl_weight_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role input,
                                  enum sl_role gradient, int parameter, int bias);

/* A layer's work on chunk c of PE p. The result, and SUM unless the layer projects first, have their shape by then. */
typedef enum sl_status sl_chunk_work(const struct sl_layer_pass *lp, uint32_t p, uint32_t c);

/* Call `work` for all chunks of all PEs in hand. */
enum sl_status sl_each_chunk(const struct sl_layer_pass *lp, sl_chunk_work *work);

/* Send and sum rows, slice by slice. For each chunk call `begin` once (may be NULL), then `combine` once per slice of
 * columns. Work that needs the complete sum goes into the last `combine` call (sl_layer_pass_ends). */
enum sl_status sl_sum_chunks(const struct sl_layer_pass *lp, enum sl_role result, sl_chunk_work *begin,
                             sl_chunk_work *combine);

/* Multiply and sum into Z, for a layer that can multiply before or after its sum. The layer's order decides which comes
 * first. `begin` and `combine` are as in sl_sum_chunks. */
enum sl_status sl_convolve(const struct sl_layer_pass *lp, int parameter, sl_chunk_work *begin, sl_chunk_work *combine);

/* The first part of the adjoint of sl_convolve, or of sl_sum_chunks with a product: sends the returning gradients, and
 * makes those of W, of the bias, and of the sum's own parameters. */
enum sl_status sl_convolve_gradients(const struct sl_layer_pass *lp, int parameter, int bias);

/* The second part for one PE. Computes the gradients of the rows that travelled. If the layer projects first, calls
 * sl_project_back on these gradients. */
enum sl_status sl_convolve_back(const struct sl_layer_pass *lp, uint32_t p, int parameter);

/* Set every row of chunk z to the bias; the bias's gradient, one partial per chunk of gz, all PEs. */
enum sl_status sl_bias(const struct sl_layer_pass *lp, uint32_t p, int bias, starpu_data_handle_t z);
enum sl_status sl_bias_back(const struct sl_layer_pass *lp, int bias);

/* The adjoint of z += h_self W, not in the first layer: GH of PE p's self rows += G W^T, G being the rows of a role. */
enum sl_status sl_self_rows_back(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role, int parameter);

/* The adjoint of a residual: GH of PE p's input rows += GH of its output rows. */
enum sl_status sl_residual_back(const struct sl_layer_pass *lp, uint32_t p);

#endif
