/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One minibatch as StarPU tasks: the spine. Read step.c from sl_step_sample on: it is the table of stages, in order.
 *
 * P PEs in P/G groups; PE p holds part p mod G and cooperates with the PEs of group p / G. Level l of a PE is its frontier
 * S_p^l: level 0 the seeds, level L the input rows; layer i of the model takes level L - i to level L - i - 1, hop l joins
 * level l + 1 to level l. One thread submits, strictly in step order, because StarPU orders accesses by submission.
 */
#ifndef SL_RUNTIME_STEP_H
#define SL_RUNTIME_STEP_H

#include "codelets/optimize.h"
#include "codelets/rows.h"
#include "codelets/task.h"
#include "runtime/exchange/crossing.h"
#include "runtime/model/model.h"
#include "runtime/model/pass.h"
#include "runtime/store/feature_cache.h"
#include "runtime/store/shards.h"
#include "runtime/store/slot.h"
#include "runtime/sync/replicas.h"

/* Fewest rows of a chunk, as a power of two: smaller tasks cost more than they do. */
#define SL_MIN_CHUNK_SHIFT 6

/* What one PE exchanges in a step; its rows are the pass'. */
struct sl_step_pe {
    uint32_t *counts;             /* the host's copy (codelets/sample.h) */
    starpu_data_handle_t *packed; /* G, of the layer in hand: rows from each owner, NULL where none; the slot's */
    starpu_data_handle_t *sent;   /* G: row gradients to each owner, likewise */
};

/* What all steps of a run share. */
struct sl_steps {
    const struct sl_settings *settings; /* borrowed, as the next three */
    struct sl_run *run;
    struct sl_shards *shards;
    struct sl_feature_cache cache;
    struct sl_model *model; /* n_replicas of them (runtime/sync/replicas.h); shapes are read off the first */
    uint32_t n_replicas;
    uint32_t n_pes;       /* P */
    uint32_t n_groups;    /* P / G */
    uint32_t n_hops;      /* L */
    uint32_t n_per_epoch; /* steps */
    uint64_t n_steps;     /* of the whole run: no step is sampled beyond it */
    uint32_t max_fanout;  /* of any hop */
    uint64_t n_sampled;   /* steps whose sampling phase has been submitted */
    struct sl_slot *slot; /* depth of them; step i samples into slot i mod depth */
    sl_vertex *order[2];  /* training ids of even and odd epochs, in their order */
    starpu_data_handle_t order_handle[2];
    starpu_data_handle_t keys;     /* scratch of the permutation */
    uint64_t n_ordered;            /* epochs whose order has been submitted */
    struct sl_step_pe *slot_pe;    /* [slot][PE]: what compute phases use */
    struct sl_pass_pe *slot_rows;  /* [slot][PE] */
    struct sl_step_pe *pe;         /* those of the step in hand */
    struct sl_pass pass;           /* of the step in hand */
    struct sl_partials *gradients; /* [layer][replica][sum][parameter]: of a replica's PEs and chunks */
    struct sl_partials losses;     /* of all PEs and chunks */
    struct sl_rounds rounds;       /* of gossip, in the step in hand */
    struct sl_crossing crossing;   /* --transport nccl */
};

/* What a step's sample turned out to be, summed over the PEs. */
struct sl_step_sizes {
    uint32_t n_seeds;                                               /* m */
    uint64_t vertices[SL_MAX_LAYERS + 1];                           /* by level */
    uint64_t edges[SL_MAX_LAYERS];                                  /* by hop */
    uint64_t id_bytes, row_bytes, row_gradient_bytes, weight_bytes; /* between PEs */
    uint64_t feature_bytes;                                         /* gathered */
};

/* Prepare the ring. Steps first_step .. n_steps - 1 will be run. model: sl_replicas_count(settings) of them, in a row.
 * SL_ENOMEM, SL_EINVAL. On failure *out is empty. */
enum sl_status sl_steps_open(const struct sl_settings *settings, struct sl_run *run, struct sl_shards *shards,
                             struct sl_model *model, uint64_t first_step, uint64_t n_steps, struct sl_steps *out);

/* Wait for the tasks, release. An empty struct is allowed. */
void sl_steps_close(struct sl_steps *steps);

/* Submit step `step`'s whole work and the sampling of the step that will use its slot next:
 * waits for its sizes (which holds up no worker: later samples and earlier compute are already in the graph), submits the
 * compute phase (waiting for rows kept from the step that used the slot before; with --depth 1 that is the end of the last step),
 * then the sampling phase of step + depth. Calls come in step order. adam: this step's. loss: one double, the step's mean loss over
 * its seeds, written by the graph. Returns the failure of an earlier task where there is one. */
enum sl_status sl_step_submit(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                              starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

/* The two phases on their own, for tests that look in between. */
enum sl_status sl_step_sample(struct sl_steps *steps, uint64_t step);
enum sl_status sl_step_compute(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                               starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

#endif
