/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The update of one layer: add the partial gradients, mix them if there are several replicas, and apply Adam.
 */
#ifndef SL_RUNTIME_SYNC_UPDATE_H
#define SL_RUNTIME_SYNC_UPDATE_H

#include "codelets/optimize.h"
#include "runtime/exchange/transport.h"
#include "runtime/model/pass.h"
#include "runtime/sync/replicas.h"

/* The path of gradients. All pointers are borrowed. */
struct sl_update {
    struct sl_transport *transport;
    struct sl_replicas *replicas;           /* rounds of this step are planned */
    const struct sl_transport_turns *turns; /* turns in which ranks add; NULL: one */
};

/* Submit the update of a layer, after all its partial gradients have been submitted. All ranks call; one thread, in
 * order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_update_layer(const struct sl_update *update, const struct sl_layer_pass *lp,
                               const struct sl_adam *adam);

#endif
