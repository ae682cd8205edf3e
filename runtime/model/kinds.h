/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Kinds of layers and models, each a table in a file of its own. What is made of a layer's parameters (initial values, names and
 * shapes in files, checkpoints, gossip, estimates, Adam) is read off its table; nobody else knows a parameter by name.
 */
#ifndef SL_RUNTIME_MODEL_KINDS_H
#define SL_RUNTIME_MODEL_KINDS_H

#include "runtime/model/pass.h"

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
    bool norms_input; /* layer norm, of its input rows */

    /* What else follows of the settings for a layer whose place is known: heads, scale, what travels; or NULL. */
    void (*shape)(const struct sl_settings *settings, struct sl_layer *layer);

    /* Submit, for all PEs: Z of the output level from the input rows; and from GZ the partial gradients of the parameters and, but
     * for the first layer, GH of the input rows. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
    enum sl_status (*forward)(const struct sl_at *at);
    enum sl_status (*backward)(const struct sl_at *at);

    /* Submit, for one replica: SL_DERIVED from the parameters; from its gradient those of the parameters. NULL: there is none. */
    enum sl_status (*derive)(const struct sl_at *at, uint32_t replica);
    enum sl_status (*derive_back)(const struct sl_at *at, uint32_t replica);
};

/* A model: --model NAME, and what its layers are. */
struct sl_model_kind {
    const char *name;
    const struct sl_layer_kind *layer;        /* --layers of them */
    const struct sl_layer_kind *first, *last; /* before and after those, or NULL */
};

/* A layer of any kind with its activation, where it has one: Z and H from the input rows; from GH, or of the last layer GZ, all
 * gradients. Submissions as above. */
enum sl_status sl_layer_run(const struct sl_at *at);
enum sl_status sl_layer_run_back(const struct sl_at *at);

/* Layers of the model that the settings describe. */
uint32_t sl_model_layers(const struct sl_settings *settings);

/* By the value of settings->model, in the order of its choices. */
const struct sl_model_kind *sl_model_kind(int model);

/* Layers that aggregate. */
extern const struct sl_layer_kind sl_sage;   /* Hamilton et al. 2017, mean aggregator */
extern const struct sl_layer_kind sl_gcn;    /* Kipf, Welling 2017 */
extern const struct sl_layer_kind sl_gat;    /* Velickovic et al. 2018 */
extern const struct sl_layer_kind sl_gcnii;  /* Chen et al. 2020 */
extern const struct sl_layer_kind sl_resgcn; /* Li et al. 2020, with graph convolutions */

/* Layers at the ends of a model, h W + b of every row: linear, or with an activation after it or, with layer norm, before it. */
extern const struct sl_layer_kind sl_linear_in;
extern const struct sl_layer_kind sl_activated_in;
extern const struct sl_layer_kind sl_linear_out;
extern const struct sl_layer_kind sl_normed_out;

#endif
