/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A model: its shape, its parameters in StarPU's hands, and their names in files, read off the tables of its layers' kinds
 * (runtime/model/kinds.h). Hidden layers end in dropout(ReLU(norm(z))) (+ h).
 */
#ifndef SL_RUNTIME_MODEL_MODEL_H
#define SL_RUNTIME_MODEL_MODEL_H

#include "runtime/files/safetensors.h"
#include "runtime/model/layer.h"

/* The layers and the parameters' shapes of the model that the settings describe: no array, no handle, nothing to free. */
void sl_model_shape(const struct sl_settings *settings, uint32_t n_features, uint32_t n_classes, bool sparse,
                    struct sl_model *out);

/* Make the model that the settings describe: Xavier uniform with gain sqrt 2 for matrices (Glorot, Bengio 2010), biases
 * zero, norms one and zero, moments zero. Each entry is a function of (seed, parameter, row, column). StarPU is up.
 * SL_ENOMEM, SL_EINVAL. On failure *out is empty. */
enum sl_status sl_model_init(const struct sl_settings *settings, uint32_t n_features, uint32_t n_classes, bool sparse,
                             struct sl_model *out);

/* Make a fresh model replica number `replica` of several: spare arrays, and names of its own. SL_ENOMEM. */
enum sl_status sl_model_make_replica(struct sl_model *model, uint32_t replica);

/* Unregister the handles (waits for the tasks that use them) and release the memory. An empty model is allowed. */
void sl_model_free(struct sl_model *model);

/* The most tensors that sl_model_tensors lists for one model. */
#define SL_MODEL_TENSORS (SL_MAX_MODEL_LAYERS * (3 * SL_N_PARAMETERS + 2))

/* What a model's tensors are listed for. */
enum sl_tensors_for {
    SL_TENSORS_FOR_DGL = SL_NAMES_DGL, /* names and shapes of DGL's layers, in a ModuleList `layers` */
    SL_TENSORS_FOR_PYG = SL_NAMES_PYG, /* of PyTorch Geometric's, in `convs` */
    SL_TENSORS_FOR_CHECKPOINT /* DGL's names, heads without an axis of one, and Adam's moments (.moment1, .moment2) */
};

/* List the model's tensors with the names and shapes that the tables of its layers' kinds give (runtime/model), and of norms
 * norms.I.weight, norms.I.bias, norms.I.running_mean, norms.I.running_var. Data are copies, to be released with
 * sl_model_tensors_free. No task may be writing the model (acquire first). SL_ENOMEM. */
enum sl_status sl_model_tensors(const struct sl_model *model, enum sl_tensors_for what, struct sl_tensor *tensors_out,
                                uint32_t *n_out);
uint32_t sl_model_count_tensors(const struct sl_model *model, enum sl_tensors_for what);
void sl_model_tensors_free(struct sl_tensor *tensors, uint32_t n);

/* Fill the model from a checkpoint's tensors (`state`), or from a file's with either library's names: each tensor is looked for by
 * DGL's, then by the other. Heads may lack their axis of one. SL_EFILE: a tensor is missing, or its shape is not this model's
 * (message: both shapes), or an entry is no finite number, or the file has a tensor that is not the model's (a checkpoint, given as
 * a model's file, may have more: its options tell whether it fits). On failure the model is as it was. The same rule of acquiring. */
enum sl_status sl_model_set_tensors(struct sl_model *model, bool state, const struct sl_tensors *tensors);

/* The classes that a file's model tells apart, by the bias of its last layer; 0: it has none of that name. */
uint32_t sl_model_classes_in(const struct sl_settings *settings, const struct sl_tensors *tensors);

/* Wait until no task writes the parameters any more, so that the host may read or write the arrays; pair with a release. */
enum sl_status sl_model_acquire(struct sl_model *model, enum starpu_data_access_mode mode);
void sl_model_release(struct sl_model *model);

/* Copies of all values and running statistics, for keeping the best; the array has sl_model_entries elements. */
size_t sl_model_entries(const struct sl_model *model);

/* What is trained: the bytes of one set of values, or of gradients. */
uint64_t sl_model_trained_bytes(const struct sl_model *model);
uint32_t
sl_model_trained_arrays(const struct sl_model *model); /* in so many arrays, of which each travels on its own */
void sl_model_read(const struct sl_model *model, sl_real *values_out);
void sl_model_write(struct sl_model *model, const sl_real *values);

#endif
