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

#include "codelets/rows/activate.h"
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

/* The parameters of a layer: those of its kind, which the kind lists, then those of a norm, which any layer may have.
 */
enum { SL_MAX_OWN_PARAMETERS = 10, SL_NORM_WEIGHT = SL_MAX_OWN_PARAMETERS, SL_NORM_BIAS, SL_MAX_PARAMETERS };

#define SL_NO_PARAMETER (-1)

/* Whether the layer has this parameter and trains it. */
static inline bool sl_parameter_trained(const struct sl_parameter *parameter)
{
    return parameter->moment1_handle != NULL;
}

/* ---- rows ---- */

/* The row matrices that a layer may have per PE. A layer declares the roles that it needs. The letter G stands for
 * "gradient of": the backward pass makes the rows from SL_ROWS_GH on, the forward pass all others. */
enum sl_role {
    /* The layer's output. */
    SL_ROWS_H,
    /* The output before the activation; the logits in the last layer. */
    SL_ROWS_Z,
    /* The gate of the activation: codelets/rows/activate.h. */
    SL_ROWS_GATE,
    /* Mean or weighted sum over in-neighbours, unless the layer projects first. */
    SL_ROWS_SUM,
    /* y = h W of the input rows, if the layer projects first. */
    SL_ROWS_PROJECTED,
    /* For a layer that activates its input: the activated input rows, and the gate. */
    SL_ROWS_BEFORE,
    SL_ROWS_GATE_BEFORE,
    /* Attention, per destination and head: the logarithm of the sum of exponentials. */
    SL_ROWS_SCALES,
    /* Sums of the features of in-edges. */
    SL_ROWS_EDGES,
    /* For a layer of two products: the output of the first product, the gate of its activation, and the result. For
     * gatv2: the rows R. */
    SL_ROWS_T,
    SL_ROWS_GATE_INNER,
    SL_ROWS_INNER,
    /* Gradients of h, z, the sum, y, and the activated input rows. */
    SL_ROWS_GH,
    SL_ROWS_GZ,
    SL_ROWS_GA,
    SL_ROWS_GY,
    SL_ROWS_GBEFORE,
    /* Attention, per destination: the numbers of the backward pass. */
    SL_ROWS_SIDES,
    /* Gradients of t and of the inner rows. For gatv2: GR, and the rows that add up to the gradient of attn.
     * The latter for gat: to the gradient of the scores of edges. */
    SL_ROWS_GT,
    SL_ROWS_GINNER,
    /* Attention whose messages have features of edges: the gradient of their sums. */
    SL_ROWS_GEDGES,
    /* First layer only: the gradient of its output, as later layers that read this output again return it. */
    SL_ROWS_GINITIAL,
    /* runtime/pipe with bf16 rows only: the returning gradient, rounded. Other chunks read it in place. */
    SL_ROWS_GBACK,
    SL_N_ROLES,
    /* The layer's input: H of the layer below, or the features; and the gradient of the input. */
    SL_ROWS_INPUT = SL_N_ROLES,
    SL_ROWS_GINPUT
};

/* When rows die in training. */
enum sl_row_end {
    /* With the layer's forward pass. */
    SL_UNTIL_FORWARD,
    /* With the layer's backward pass. The output, and the gradient of the input, belong to two layers: the output dies
     * with the backward pass of the layer above, the gradient with this layer's. */
    SL_UNTIL_BACKWARD,
    /* Chunk by chunk in the layer's backward pass. */
    SL_UNTIL_CHUNK
};

/* The rows of a role. width 0: the layer has no such rows. */
struct sl_layer_row {
    uint32_t level, width;
    enum sl_dtype dtype;
    enum sl_row_end end;
};

/* ---- kinds ---- */

struct sl_layer;
struct sl_layer_order;
struct sl_layer_pass; /* runtime/model/pass.h */
struct sl_sum_kind;   /* runtime/model/sums.h */

/* Shape and initial values of a parameter. */
enum sl_parameter_shape {
    /* This kind has no such parameter. */
    SL_SHAPE_NONE,
    /* n_in x n_out, Xavier uniform with gain sqrt 2. */
    SL_SHAPE_MATRIX,
    /* The same, if the layer skips (--skip). */
    SL_SHAPE_SKIP,
    /* n_out x n_out, initialised likewise. */
    SL_SHAPE_SQUARE,
    /* A matrix n_in x n_out for each relation, each initialised likewise. In memory one above the other, or side by
     * side if the layer projects first. */
    SL_SHAPE_RELATIONS,
    /* The same of the layer's bases. */
    SL_SHAPE_BASES,
    /* For features of edges, if the layer reads them: a matrix of n_edge_features rows and n_out columns, initialised
     * likewise. EDGE_RELATIONS: such a matrix for each relation, one above the other. EDGE_SLABS: side by side. */
    SL_SHAPE_EDGES,
    SL_SHAPE_EDGE_RELATIONS,
    SL_SHAPE_EDGE_SLABS,
    /* The same with n_in columns, one above the other, each initialised likewise. */
    SL_SHAPE_EDGE_ENCODERS,
    /* Not trained: SL_SHAPE_EDGE_RELATIONS that follows from the encoders. */
    SL_SHAPE_EDGE_PRODUCTS,
    /* Not trained, if features of edges are added to messages: such a matrix for each head of each relation. */
    SL_SHAPE_EDGE_MESSAGES,
    /* Relations x bases, Xavier uniform. */
    SL_SHAPE_COMPONENTS,
    /* Relations x n_out, Xavier uniform with gain sqrt 2. */
    SL_SHAPE_RELATION_ROWS,
    /* 1 x n_out, Xavier uniform with gain sqrt 2 of a matrix n_out x 1. In files a matrix of one row. */
    SL_SHAPE_ROW,
    /* 1 x n_out, zero. */
    SL_SHAPE_VECTOR,
    /* 1 x 1, zero. */
    SL_SHAPE_SCALAR,
    /* 1 x 1, zero. Trained if the layer learns epsilon. */
    SL_SHAPE_NUMBER,
    /* 1 x n_out, heads side by side, Xavier uniform by head. If the layer sums by relation: such a vector for each
     * relation, side by side. */
    SL_SHAPE_HEADS,
    /* The same, if the layer reads features of edges. */
    SL_SHAPE_EDGE_HEADS,
    /* Not trained, if the layer reads features of edges: 1 x n_heads n_edge_features. */
    SL_SHAPE_EDGE_SCORES,
    /* Not trained. If the layer projects first: n_in x width of the travelling rows. Otherwise n_in x n_out, as
     * SL_SHAPE_RELATIONS if the layer sums by relation. */
    SL_SHAPE_DERIVED
};

/* Whether a parameter is not trained: its value is computed once a step from the trained parameters. */
static inline bool sl_shape_is_derived(enum sl_parameter_shape shape)
{
    return shape == SL_SHAPE_DERIVED || shape == SL_SHAPE_EDGE_SCORES || shape == SL_SHAPE_EDGE_PRODUCTS ||
           shape == SL_SHAPE_EDGE_MESSAGES;
}

/* A parameter in files. Heads have a leading axis in files: the relations, or one. */
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
    /* The key of the draws of initial values; different for all parameters of a layer. */
    uint32_t key;
    /* The gradient is computed from the derived parameter's gradient. */
    bool by_derived;
    /* Added to every row of the output, before the norm. */
    bool is_output_bias;
    /* If features are sparse, Adam leaves rows without a gradient as they are (codelets/ends/optimize.h). */
    bool by_rows;
};

struct sl_layer_kind {
    const char *name;
    /* The names of all its parameters in files, and of those of its norm, begin with this. NULL: with nothing. */
    const char *prefix;
    /* All parameters except the norm's. The file of the kind names their indices. */
    struct sl_parameter_kind parameter[SL_MAX_OWN_PARAMETERS];
    uint32_t n_parameters;
    /* A vector [n_out] in PyTorch Geometric's files alone: a bias of the output that two other biases make needless. It
     * is written as zeros. A file's values are added to the first of the two, and subtracted from the second. NULL:
     * none. */
    const char *needless_bias;
    int instead[2];
    /* The trained parameter whose gradient has a term of the derived one's besides its partial gradients; 0: none. */
    int also_derived;
    /* The sum over in-neighbours (runtime/model/sums.h). NULL: the layer does not aggregate. */
    const struct sl_sum_kind *sum;
    /* No activation follows. */
    bool linear;
    /* Reads the first layer's output again. */
    bool reads_first;
    /* Sums and products alone read its input. Then the input of the first layer may be float16 or bfloat16 features. */
    bool reads_narrow;
    /* Applies layer norm, activation and dropout to its input rows first. */
    bool norms_input;

    /* Declare the rows of this kind for an order of product and sum. The rows that other kinds have too, and the roles
     * that travel and return, are there already (runtime/model/kinds.h). May be NULL. */
    void (*rows)(const struct sl_layer *layer, struct sl_layer_order *order);

    /* Set what else the settings imply for a layer with a known place: heads, scale, travelling width. May be NULL. */
    void (*shape)(const struct sl_settings *settings, struct sl_layer *layer);

    /* Submit, for all PEs in hand. forward: Z of the output level from the input rows. backward: from GZ the partial
     * gradients of the parameters and, except in the first layer, GH of the input rows. SL_EINVAL, SL_ESTARPU,
     * SL_ENOMEM. */
    enum sl_status (*forward)(const struct sl_layer_pass *lp);
    enum sl_status (*backward)(const struct sl_layer_pass *lp);

    /* Submit, for one replica: the derived parameters from the others; their gradients from the derived ones'. NULL if
     * the kind derives nothing. */
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
    /* The aggregating layer with --edge-features add. NULL: there is none. */
    const struct sl_layer_kind *adding;
};

/* ---- layers ---- */

/* Aggregating layers, --output-layers and `ends`, which are SL_MAX_LAYERS together, a first and a last layer. */
#define SL_MAX_MODEL_LAYERS (SL_MAX_LAYERS + 2)

/* The order in which a layer multiplies and sums. */
struct sl_layer_order {
    /* Rows are multiplied by the weights before the rows travel to the aggregating PEs. */
    bool project_first;
    /* The first layer averages features in the part's table, without a copy (runtime/minibatch/steps.h). */
    bool in_place;
    /* Width of the travelling rows. */
    uint32_t travels;
    /* The role of the gradient of the first product's output. */
    enum sl_role product;
    /* The roles of the rows that travel to the aggregating PEs, and of the gradients that travel back. */
    enum sl_role travelling, returning;
    /* The rows, by role. */
    struct sl_layer_row row[SL_N_ROLES];
};

struct sl_layer {
    const struct sl_layer_kind *kind;
    uint32_t n_in, n_out;
    /* Level of the input rows and of the output rows: L at the model's input, 0 at the seeds. */
    uint32_t from, level;
    /* Reads the features. */
    bool first;
    /* Ends in an activation. */
    bool hidden;
    /* Computes the outputs: of vertices, or of the ends of links. */
    bool last;
    /* enum sl_norm of the activation. */
    int norm;
    /* Of the output, of input rows after a layer norm, and inside the layer. */
    enum sl_activate_kind activation;
    /* The output bias is followed by batch norm. The norm subtracts the bias again, so the gradient of the bias is
     * zero, and is not computed. */
    bool bias_vanishes;
    /* The layer applies activation and dropout, or dropout alone, to its input rows first. */
    bool activates_input;
    /* The output has no dropout, because later layers need the plain output. */
    bool keeps;
    /* Gradients of the rows that travel return to their owners. Those of features do not. */
    bool returns;
    struct sl_layer_order training, evaluation;
    /* The dtype of rows that products or other PEs read, as of the features (--precision). Rows before an activation,
     * rows that tasks add to, and gradients are sl_real; gates are bytes or sl_real. */
    enum sl_dtype row_dtype;
    /* GCNII's beta. */
    double identity;
    /* z += h_self W_skip (--skip). */
    bool skips;
    /* GIN's epsilon is trained. */
    bool learns_epsilon;
    /* Attention heads, of all relations together. */
    uint32_t n_heads;
    /* Relations of the graph; 1 if it is not typed. */
    uint32_t n_relations;
    /* Columns of the features of edges that the layer reads; 0: none. */
    uint32_t n_edge_features;
    /* They are added to messages (--edge-features add). */
    bool adds_edges;
    /* Matrices of which those of the relations are sums (--bases). 0: none. */
    uint32_t n_bases;
    /* Factor of symmetric sums. */
    double scale;
    /* Index among the aggregating layers or among --output-layers, for names. The last layer of a model's kind has the
     * number of aggregating layers. */
    uint32_t number;
    /* The layer is hidden, --residual is on, and n_in == n_out. */
    bool residual;
    struct sl_parameter parameter[SL_MAX_PARAMETERS];
    /* Batch norm: 2 x n_out, the row of means and the row of variances. Otherwise NULL. */
    sl_real *running;
    starpu_data_handle_t running_handle;
};

struct sl_model {
    uint32_t n_layers;
    /* Layers whose rows are vertices: all, but for `ends`. Evaluations run no other layer. */
    uint32_t n_vertex_layers;
    /* enum sl_norm of the layers that --norm applies to. */
    int norm;
    /* One of several replicas (runtime/sync/replicas.h). Names of its tensors begin with "replica.N.", N being
     * `replica`. */
    bool is_replica;
    uint32_t replica;
    struct sl_layer layer[SL_MAX_MODEL_LAYERS];
};

#endif
