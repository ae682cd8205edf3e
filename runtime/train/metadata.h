/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The metadata of a model's file and of a checkpoint: all that changes an output (runtime/plan/model_file.h).
 */
#ifndef SL_RUNTIME_TRAIN_METADATA_H
#define SL_RUNTIME_TRAIN_METADATA_H

#include "runtime/train/session.h"

/* Metadata, and storage for their strings. */
struct sl_labels {
    struct sl_metadata *entry;
    uint32_t n, capacity;
};

/* Add an entry; the strings are copied. A real number gets all its digits. SL_ENOMEM. */
enum sl_status sl_labels_add(struct sl_labels *labels, const char *key, const char *value);
enum sl_status sl_labels_add_whole(struct sl_labels *labels, const char *key, uint64_t value);
enum sl_status sl_labels_add_real(struct sl_labels *labels, const char *key, double value);

/* Add the description of the session's model. with_options: also the options of the model, which a checkpoint has
 * already. SL_ENOMEM. */
enum sl_status sl_labels_add_model(struct sl_labels *labels, const struct sl_session *session, bool with_options);

/* Release all. An empty struct is allowed. */
void sl_labels_free(struct sl_labels *labels);

#endif
