/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The parts of a model: parameters with their StarPU handles, layers, and kinds of layers. A kind is a table in a
 * file of its own (runtime/model/kinds.h). Initial values, names and shapes in files, checkpoints, gossip, estimates
 * and Adam all read this table. No other code knows a parameter by name.
 */
#ifndef SL_RUNTIME_MODEL_LAYER_H
#define SL_RUNTIME_MODEL_LAYER_H

#include <starpu.h>

#include "runtime/plan/settings.h"
#include "support/real.h"
#include "support/status.h"

/* ---- parameters ---- */

/* One array [n_rows x n_columns] of sl_real, row-major, with its gradient and Adam's moments of the same shape. The
 * model owns the memory. */
struct sl_parameter {
    /* 0: this layer has no such parameter. */
    uint32_t n_rows, n_columns;
    sl_real *value, *gradient, *moment1, *moment2;
    starpu_data_handle_t value_handle, gradient_handle, moment1_handle, moment2_handle;
    /* With several replicas: room to mix values or gradients of replicas. Otherwise NULL. */
    sl_real *spare;
    starpu_data_handle_t spare_handle;
};

/* The parameters of a layer. The kind says which parameters exist. A kind with one weight matrix calls it SL_NEIGH.
 * SL_DERIVED is not trained: its value is computed once a step from the trained parameters. */
enum {
    SL_SELF,
    SL_NEIGH,
    SL_BIAS,
    SL_NORM_WEIGHT,
    SL_NORM_BIAS,
    SL_ATTENTION_SOURCE,
    SL_ATTENTION_TARGET,
    SL_DERIVED,
    SL_N_PARAMETERS
};

/* Whether the layer has this parameter and trains it. */
static inline bool sl_parameter_trained(const struct sl_parameter *parameter)
{
    return parameter->moment1_handle != NULL;
}

/* ---- kinds ---- */

struct sl_layer;
struct sl_layer_pass; /* runtime/model/pass.h */

/* Shape and initial values of a parameter. */
enum sl_parameter_shape {
    /* This kind has no such parameter. */
    SL_SHAPE_NONE,
    /* n_in x n_out, Xavier uniform with gain sqrt 2. */
    SL_SHAPE_MATRIX,
    /* 1 x n_out, zero. */
    SL_SHAPE_VECTOR,
    /* 1 x n_out, heads side by side, Xavier uniform by head. */
    SL_SHAPE_HEADS,
    /* Not trained. n_in x n_out; if the layer projects first: n_in x width of the travelling rows. */
    SL_SHAPE_DERIVED
};

/* A parameter in files. Heads have a leading axis of length one in files. */
struct sl_parameter_name {
    /* # stands for the layer's number. */
    const char *text;
    /* Files have the matrix as n_out x n_in. */
    bool transposed;
};

struct sl_parameter_kind {
    enum sl_parameter_shape shape;
    /* Name in the state dicts of DGL's and of PyTorch Geometric's layers. */
    struct sl_parameter_name name[SL_N_NAMES];
    /* The gradient is computed from SL_DERIVED's gradient. */
    bool by_derived;
};

/* The edge weights of a sum over in-neighbours. */
enum sl_weigh {
    SL_WEIGH_MEAN,
    /* The graph convolution's weights (`factors` in struct sl_shards): codelets/aggregate.h. */
    SL_WEIGH_SYMMETRIC,
    /* codelets/attend.h. */
    SL_WEIGH_ATTENTION
};

struct sl_layer_kind {
    const char *name;
    /* All parameters except the norm's; any hidden layer may have a norm. */
    struct sl_parameter_kind parameter[SL_N_PARAMETERS];
    enum sl_weigh weigh;
    /* No activation follows. */
    bool linear;
    /* Reads the first layer's output again. */
    bool reads_first;
    /* Applies layer norm and activation to its input rows first. */
    bool norms_input;

    /* Set what else the settings imply for a layer with a known place: heads, scale, travelling width. May be NULL. */
    void (*shape)(const struct sl_settings *settings, struct sl_layer *layer);

    /* Submit, for all PEs in hand. forward: Z of the output level from the input rows. backward: from GZ the partial
     * gradients of the parameters and, except in the first layer, GH of the input rows. SL_EINVAL, SL_ESTARPU,
     * SL_ENOMEM. */
    enum sl_status (*forward)(const struct sl_layer_pass *lp);
    enum sl_status (*backward)(const struct sl_layer_pass *lp);

    /* Submit, for one replica: SL_DERIVED from the parameters; the parameters' gradients from SL_DERIVED's gradient.
     * NULL if the kind has no SL_DERIVED. */
    enum sl_status (*derive)(const struct sl_layer_pass *lp, uint32_t replica);
    enum sl_status (*derive_back)(const struct sl_layer_pass *lp, uint32_t replica);
};

/* A model (--model NAME) and its layers. */
struct sl_model_kind {
    const char *name;
    /* The aggregating layer, --layers times. */
    const struct sl_layer_kind *layer;
    /* The first and the last layer, or NULL. */
    const struct sl_layer_kind *first, *last;
};

/* ---- layers ---- */

#define SL_MAX_MODEL_LAYERS (SL_MAX_LAYERS + 2) /* aggregating layers, a first and a last layer */

/* The order in which a layer multiplies and sums. */
struct sl_layer_order {
    /* Rows are multiplied by the weights before the rows travel to the aggregating PEs. */
    bool project_first;
    /* The first layer averages features in the part's table, without a copy (runtime/minibatch/steps.h). */
    bool in_place;
    /* Width of the travelling rows. */
    uint32_t travels;
};

struct sl_layer {
    const struct sl_layer_kind *kind;
    uint32_t n_in, n_out;
    /* Level of the input rows and of the output rows: L at the model's input, 0 at the seeds. */
    uint32_t from, level;
    /* Ends in an activation. */
    bool hidden;
    /* Computes the logits. */
    bool last;
    /* enum sl_norm of the activation. */
    int norm;
    /* SL_BIAS is followed by batch norm. The norm subtracts the bias again, so the gradient of the bias is zero, and is
     * not computed. */
    bool bias_vanishes;
    /* The layer applies activation and dropout to its input rows first. */
    bool activates_input;
    /* The output has no dropout, because later layers need the plain output. */
    bool keeps;
    struct sl_layer_order training, evaluation;
    /* GCNII's beta. */
    double identity;
    /* Attention heads. */
    uint32_t n_heads;
    /* Factor of symmetric sums. */
    double scale;
    /* Index among the aggregating layers, for names. A last layer has the number of aggregating layers. */
    uint32_t number;
    /* The layer is hidden, --residual is on, and n_in == n_out. */
    bool residual;
    /* Matrices: n_in x n_out; all further parameters: 1 x n_out. */
    struct sl_parameter parameter[SL_N_PARAMETERS];
    /* Batch norm: 2 x n_out, the row of means and the row of variances. Otherwise NULL. */
    sl_real *running;
    starpu_data_handle_t running_handle;
};

/* Bytes of an output number: the rows' dtype after an activation, otherwise sl_real, because later layers add to such
 * rows. */
static inline size_t sl_layer_element(const struct sl_layer *layer, size_t row_element)
{
    return layer->hidden ? row_element : sizeof(sl_real);
}

struct sl_model {
    uint32_t n_layers;
    /* enum sl_norm of the layers that --norm applies to. */
    int norm;
    /* One of several replicas (runtime/sync/replicas.h). Names of its tensors begin with "replica.N.", N being
     * `replica`. */
    bool is_replica;
    uint32_t replica;
    struct sl_layer layer[SL_MAX_MODEL_LAYERS];
};

#endif
