/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Several tasks handed to StarPU as one.
 *
 * Where many PEs live on few workers their tasks are short, and StarPU takes longer to keep their order than they take themselves.
 * PEs are dealt to a few lots of neighbours, and the tasks of a lot are held back: a bundle, which runs them one after the other as they
 * were submitted, and names each buffer once. As soon as a task touches what tasks of another lot hold (one of them writes it), all
 * bundles are handed over before it, so that every order that StarPU would have kept is kept. Tasks that are of no lot, sums over all
 * PEs and updates of weights, are handed over by themselves, after what they wait for.
 *
 * What the host does to a handle that a bundle names hands all bundles over first (sl_handle_let_go); who waits for
 * tasks calls sl_bundles_settle before. For CPU workers of one process that are not bound to PEs, and untraced runs: a trace shows
 * tasks.
 */
#ifndef SL_CODELETS_BUNDLE_H
#define SL_CODELETS_BUNDLE_H

#include "codelets/task.h"

/* Tasks of the run are bundled from now on: of n_pes PEs, each lot_size neighbours are a lot, the last perhaps fewer. SL_ENOMEM. */
enum sl_status sl_bundles_open(struct sl_run *run, uint32_t n_pes, uint32_t lot_size);

/* Nothing may be held. A run without bundles is allowed. */
void sl_bundles_close(struct sl_run *run);

/* Hand over all that is held, which is empty afterwards in any case; SL_OK without bundles. One thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_bundles_settle(struct sl_run *run);

#endif
