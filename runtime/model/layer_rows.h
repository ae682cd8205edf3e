/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Declarations of a layer's rows. They tell a pass when to shape and release rows (runtime/model/pass.h). The memory
 * estimate counts the declared rows (runtime/train/memory_need.h).
 */
#ifndef SL_RUNTIME_MODEL_LAYER_ROWS_H
#define SL_RUNTIME_MODEL_LAYER_ROWS_H

#include "runtime/model/layer.h"
#include "runtime/model/sums.h"

/* Fill order->row, product, travelling and returning. All other members of the layer and of the order are set. */
void sl_layer_declare_rows(const struct sl_layer *layer, struct sl_layer_order *order);

/* For sl_layer_kind.rows, which may set order->product before. Rows of a layer that sums its input rows, then
 * multiplies: the sum and its gradient. */
void sl_declare_sum(const struct sl_layer *layer, struct sl_layer_order *order);

/* Rows of a layer that multiplies first: y, which dies at `end`, and its gradient. */
void sl_declare_projected(const struct sl_layer *layer, enum sl_row_end end, struct sl_layer_order *order);

/* sl_declare_sum or, if the order says so, sl_declare_projected. */
void sl_declare_convolution(const struct sl_layer *layer, struct sl_layer_order *order);

/* Whether the layer sums over in-neighbours. */
static inline bool sl_layer_aggregates(const struct sl_layer *layer)
{
    return layer->kind->sum != NULL;
}

/* The number of matrices that the layer has side by side or one above the other: one, or one for each relation. */
static inline uint32_t sl_layer_slabs(const struct sl_layer *layer)
{
    return sl_layer_aggregates(layer) && layer->kind->sum->by_relation ? layer->n_relations : 1;
}

#endif
