/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How many vertices and edges a group's step comes to hold, before one is sampled.
 */
#ifndef SL_RUNTIME_TRAIN_REACH_H
#define SL_RUNTIME_TRAIN_REACH_H

#include "partition/dataset.h"
#include "runtime/plan/settings.h"

/* By level (0: the seeds) and hop. */
struct sl_reach {
    double vertices[SL_MAX_LAYERS + 1];
    double edges[SL_MAX_LAYERS];
};

/* No more than these, by fanout and the graph's size alone. */
struct sl_reach sl_reach_bound(const struct sl_settings *settings, const struct sl_dataset *dataset);

/* The most of a few steps that are drawn as the sampler would, with random numbers of their own, and a little over, as steps differ.
 * Each hop reads the lists of the vertices it begins with. Whose dependence makes steps alike (--kappa, --layer-dependency) reaches no
 * more. SL_ENOMEM. */
enum sl_status sl_reach_expect(const struct sl_settings *settings, const struct sl_dataset *dataset,
                               struct sl_reach *out);

#endif
