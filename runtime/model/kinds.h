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
};

struct sl_parameter_kind {
    enum sl_parameter_shape shape;
    const char *stem, *suffix; /* "STEM.LAYER.SUFFIX" in files, as DGL's state dict has it */
    bool transposed;           /* files hold the matrix output by input */
};

struct sl_layer_kind {
    const char *name;
    struct sl_parameter_kind parameter[SL_N_PARAMETERS]; /* but for the norm's, which all hidden layers may have */
    bool symmetric; /* sums have the graph convolution's weights (struct sl_shards, factors); else they are means */

    /* Submit, for all PEs: Z of the output level from the input rows; and from GZ the partial gradients of the parameters and, but
     * for the first layer, GH of the input rows. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
    enum sl_status (*forward)(const struct sl_at *at);
    enum sl_status (*backward)(const struct sl_at *at);
};

/* A model: --model NAME, and what its layers are. */
struct sl_model_kind {
    const char *name;
    const struct sl_layer_kind *layer;
};

/* A layer of any kind with its activation, where it has one: Z and H from the input rows; from GH, or of the last layer GZ, all
 * gradients. Submissions as above. */
enum sl_status sl_layer_run(const struct sl_at *at);
enum sl_status sl_layer_run_back(const struct sl_at *at);

/* By the value of settings->model, in the order of its choices. */
const struct sl_model_kind *sl_model_kind(int model);

extern const struct sl_layer_kind sl_sage; /* Hamilton et al. 2017, mean aggregator */
extern const struct sl_layer_kind sl_gcn;  /* Kipf, Welling 2017 */

#endif
