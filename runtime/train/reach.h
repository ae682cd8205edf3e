/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * An estimate of the vertices and edges in a step of one group, before training.
 */
#ifndef SL_RUNTIME_TRAIN_REACH_H
#define SL_RUNTIME_TRAIN_REACH_H

#include "data/dataset.h"
#include "runtime/plan/settings.h"

/* Vertices by level (0: the seeds) and edges by hop. */
struct sl_reach {
    double vertices[SL_MAX_LAYERS + 1];
    double edges[SL_MAX_LAYERS];
};

/* Expected sizes: the maximum over a few trial steps, plus a margin because steps differ. The trials sample as the
 * sampler does, with random numbers of their own. Dependent sampling (--kappa, --layer-dependency) does not reach
 * more vertices. SL_ENOMEM; SL_EINVAL: a wrong --relation-fanout. */
enum sl_status sl_reach_expect(const struct sl_settings *settings, const struct sl_dataset *dataset,
                               struct sl_reach *out);

#endif
