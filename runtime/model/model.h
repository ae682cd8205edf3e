/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A model: its shape, its parameters with StarPU handles, and their names in files. All of this follows from the
 * tables of the layers' kinds (runtime/model/kinds.h). Hidden layers end in dropout(ReLU(norm(z))) (+ h).
 */
#ifndef SL_RUNTIME_MODEL_MODEL_H
#define SL_RUNTIME_MODEL_MODEL_H

#include "runtime/model/layer.h"
#include "runtime/store/shards.h"
#include "support/safetensors.h"

/* What a model takes from the dataset. */
struct sl_model_data {
    uint32_t n_features, n_outputs;
    uint32_t n_relations;      /* of a typed graph; 0: it has no types */
    bool sparse;               /* the features are CSR */
    uint32_t n_link_relations; /* of triples to train on; 0: none */
    uint32_t n_edge_features;  /* columns of the features of edges; 0: none */
};

static inline struct sl_model_data sl_model_data_of(const struct sl_shards *shards)
{
    return (struct sl_model_data){.n_features = shards->n_features,
                                  .n_outputs = shards->n_outputs,
                                  .n_relations = shards->partition->graph.n_relations,
                                  .sparse = shards->is_sparse,
                                  .n_link_relations = shards->n_link_relations,
                                  .n_edge_features = shards->n_edge_features};
}

/* Fill in layers and parameter shapes of the model that the settings describe. Allocates nothing; there is nothing to
 * free. */
void sl_model_shape(const struct sl_settings *settings, const struct sl_model_data *data, struct sl_model *out);

/* Create the model that the settings describe. Matrices are Xavier uniform with gain sqrt 2 (Glorot, Bengio 2010),
 * biases zero, norms one (weight) and zero (bias), moments zero. Each entry is a function of (seed, parameter, row,
 * column). StarPU must be initialised. SL_EINVAL: a matrix is too large for StarPU. SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_model_init(const struct sl_settings *settings, const struct sl_model_data *data,
                             struct sl_model *out);

/* Make a fresh model replica number `replica` of several: allocate the spare arrays, prefix the names. SL_ENOMEM. */
enum sl_status sl_model_make_replica(struct sl_model *model, uint32_t replica);

/* Unregister the handles, waiting for tasks that use the parameters, and free the memory. An empty model is allowed. */
void sl_model_free(struct sl_model *model);

/* Most tensors that sl_model_tensors may list. */
#define SL_MODEL_TENSORS (SL_MAX_MODEL_LAYERS * (3 * SL_MAX_PARAMETERS + 2))

/* The purpose of a list of tensors. */
enum sl_tensors_for {
    /* Names and shapes of DGL's layers in a ModuleList `layers`. */
    SL_TENSORS_FOR_DGL = SL_NAMES_DGL,
    /* Names and shapes of PyTorch Geometric's layers in a ModuleList `convs`. */
    SL_TENSORS_FOR_PYG = SL_NAMES_PYG,
    /* DGL's names, heads without the axis of one, and Adam's moments (.moment1, .moment2). */
    SL_TENSORS_FOR_CHECKPOINT
};

/* List the model's tensors. Names and shapes come from the tables of the layers' kinds (runtime/model). Norms are
 * called norms.I.weight, norms.I.bias, norms.I.running_mean and norms.I.running_var. Data are copies; free the copies
 * with sl_model_tensors_free. No task may write the model meanwhile: call sl_model_acquire first. SL_ENOMEM. */
enum sl_status sl_model_tensors(const struct sl_model *model, enum sl_tensors_for purpose,
                                struct sl_tensor *tensors_out, uint32_t *n_out);
uint32_t sl_model_count_tensors(const struct sl_model *model, enum sl_tensors_for purpose);
void sl_model_tensors_free(struct sl_tensor *tensors, uint32_t n);

/* Fill the model from the tensors of a checkpoint (`state`) or of a model file. A model file may use DGL's or PyTorch
 * Geometric's names; DGL's are tried first. In the file, an array of a layer with one head may lack the axis
 * of the heads. Call sl_model_acquire first. On failure
 * the model is unchanged. SL_EFILE: a tensor is missing or has another shape (the message gives both shapes), an
 * entry is not finite, or a model file has a tensor that this model lacks. A checkpoint passed as a model file may
 * have further tensors, since a checkpoint's options tell whether it fits. SL_ENOMEM. */
enum sl_status sl_model_set_tensors(struct sl_model *model, bool state, const struct sl_tensors *tensors);

/* The number of outputs of a file's model, by the bias of its last layer. 0: the file has no such tensor. */
uint32_t sl_model_outputs_in(const struct sl_settings *settings, const struct sl_tensors *tensors);

/* Wait until the host may read (STARPU_R) or write (STARPU_RW) the arrays. Pair with sl_model_release. SL_ESTARPU. */
enum sl_status sl_model_acquire(struct sl_model *model, enum starpu_data_access_mode mode);
void sl_model_release(struct sl_model *model);

/* Number of values of the model, running statistics included. */
size_t sl_model_entries(const struct sl_model *model);

/* Bytes of all trained values, equal to the bytes of all gradients. */
uint64_t sl_model_trained_bytes(const struct sl_model *model);

/* Number of trained arrays. Each array is a message of its own. */
uint32_t sl_model_trained_arrays(const struct sl_model *model);

/* Copy all values and running statistics to or from an array of sl_model_entries elements. Call sl_model_acquire
 * first. */
void sl_model_read(const struct sl_model *model, sl_real *values_out);
void sl_model_write(struct sl_model *model, const sl_real *values);

#endif
