/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a model is made of: parameters in StarPU's hands, layers, and their kinds, each a table in a file of its own
 * (runtime/model/kinds.h). What is made of a layer's parameters (initial values, names and shapes in files, checkpoints, gossip,
 * estimates, Adam) is read off its table; nobody else knows a parameter by name.
 */
#ifndef SL_RUNTIME_MODEL_LAYER_H
#define SL_RUNTIME_MODEL_LAYER_H

#include <starpu.h>

#include "runtime/plan/settings.h"
#include "support/real.h"
#include "support/status.h"

/* ---- parameters ---- */

/* One trained array: rows x columns, row major, of sl_real, and the arrays that follow it. Memory is the model's. */
struct sl_parameter {
    uint32_t n_rows, n_columns; /* 0: this layer has none */
    sl_real *value, *gradient, *moment1, *moment2;
    starpu_data_handle_t value_handle, gradient_handle, moment1_handle, moment2_handle;
    sl_real *spare; /* of a replica among several: where its values or gradients are mixed; else NULL */
    starpu_data_handle_t spare_handle;
};

/* Of a layer; which of them it has, its kind says: one weight matrix is SL_NEIGH. SL_DERIVED is not trained, but computed from those
 * that are, once a step. */
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

/* Whether a layer has this parameter, and it is trained. */
static inline bool sl_parameter_trained(const struct sl_parameter *parameter)
{
    return parameter->moment1_handle != NULL;
}

/* ---- kinds ---- */

struct sl_layer;
struct sl_layer_pass; /* runtime/model/pass.h */

/* A trained array of a layer. */
enum sl_parameter_shape {
    SL_SHAPE_NONE,   /* this kind has no such parameter */
    SL_SHAPE_MATRIX, /* n_in x n_out: Xavier uniform with gain sqrt 2 */
    SL_SHAPE_VECTOR, /* 1 x n_out: zero */
    SL_SHAPE_HEADS,  /* 1 x n_out, heads side by side: the same bound */
    SL_SHAPE_DERIVED /* n_in x n_out, or what travels where that is projected: not trained */
};

/* A parameter in files. Heads have an axis of one in front. */
struct sl_parameter_name {
    const char *text; /* # stands for the layer's number */
    bool transposed;  /* files hold the matrix output by input */
};

struct sl_parameter_kind {
    enum sl_parameter_shape shape;
    struct sl_parameter_name
        name[SL_N_NAMES]; /* as the state dicts of DGL's and of PyTorch Geometric's layers have it */
    bool by_derived;      /* its gradient comes of SL_DERIVED's */
};

/* What a sum over in-neighbours is weighed by. */
enum sl_weigh {
    SL_WEIGH_MEAN,
    SL_WEIGH_SYMMETRIC, /* the graph convolution's (struct sl_shards, factors): codelets/aggregate.h */
    SL_WEIGH_ATTENTION  /* codelets/attend.h */
};

struct sl_layer_kind {
    const char *name;
    struct sl_parameter_kind parameter[SL_N_PARAMETERS]; /* but for the norm's, which all hidden layers may have */
    enum sl_weigh weigh;
    bool linear;      /* no activation follows */
    bool reads_first; /* the first layer's output, again */
    bool norms_input; /* layer norm, of its input rows, before they are activated */

    /* What else follows of the settings for a layer whose place is known: heads, scale, what travels; or NULL. */
    void (*shape)(const struct sl_settings *settings, struct sl_layer *layer);

    /* Submit, for all PEs: Z of the output level from the input rows; and from GZ the partial gradients of the parameters and, but
     * for the first layer, GH of the input rows. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
    enum sl_status (*forward)(const struct sl_layer_pass *lp);
    enum sl_status (*backward)(const struct sl_layer_pass *lp);

    /* Submit, for one replica: SL_DERIVED from the parameters; from its gradient those of the parameters. NULL: there is none. */
    enum sl_status (*derive)(const struct sl_layer_pass *lp, uint32_t replica);
    enum sl_status (*derive_back)(const struct sl_layer_pass *lp, uint32_t replica);
};

/* A model: --model NAME, and what its layers are. */
struct sl_model_kind {
    const char *name;
    const struct sl_layer_kind *layer;        /* --layers of them */
    const struct sl_layer_kind *first, *last; /* before and after those, or NULL */
};

/* ---- layers ---- */

#define SL_MAX_MODEL_LAYERS (SL_MAX_LAYERS + 2) /* those that aggregate, one before and one after */

/* In which order a layer multiplies and sums. */
struct sl_layer_order {
    bool project_first; /* rows are multiplied by their weights before they travel to the PEs that sum them */
    bool in_place;      /* means of features are taken where those lie (runtime/minibatch/steps.h) */
    uint32_t travels;   /* width of the rows that travel */
};

struct sl_layer {
    const struct sl_layer_kind *kind;
    uint32_t n_in, n_out;
    uint32_t from, level; /* L at the input, 0 at the seeds: of the rows it takes in, and of those it gives */
    bool hidden;          /* ends in activation */
    bool last;            /* gives the logits */
    int norm;             /* enum sl_norm, of its activation */
    bool bias_vanishes;   /* batch norm takes out again what SL_BIAS adds: its gradient is zero, and is not computed */
    bool activates_input; /* its input rows are activated, and have dropout, before it takes them in */
    bool keeps;           /* its output has no dropout: later layers read it as it is */
    struct sl_layer_order training, evaluation;
    double identity;  /* GCNII's beta */
    uint32_t n_heads; /* of attention */
    double scale;     /* of symmetric sums */
    uint32_t number;  /* among the layers that aggregate, for names; of one after them how many those are */
    bool residual;    /* hidden, asked for, and n_in == n_out */
    struct sl_parameter parameter[SL_N_PARAMETERS]; /* matrices: n_in x n_out; the others: 1 x n_out */
    sl_real *running;                               /* batch norm: 2 x n_out, mean row and variance row; else NULL */
    starpu_data_handle_t running_handle;
};

/* Bytes of a number of its output, which has the rows' precision where it was activated: what is handed on without is summed up. */
static inline size_t sl_layer_element(const struct sl_layer *layer, size_t row_element)
{
    return layer->hidden ? row_element : sizeof(sl_real);
}

struct sl_model {
    uint32_t n_layers;
    int norm;         /* enum sl_norm, of the layers that --norm is for */
    bool is_replica;  /* one of several (runtime/sync/replicas.h): */
    uint32_t replica; /* its tensors' names begin with "replica.N." */
    struct sl_layer layer[SL_MAX_MODEL_LAYERS];
};

#endif
