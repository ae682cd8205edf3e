/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The order in which a step's tasks are submitted, and their priorities: what other PEs wait for goes first, so that it
 * travels while weights' gradients, which nobody waits for until the layer's update, are computed. */
#include "tests/support/run_fixture.h"

#include "data/load.h"

static struct {
    uint32_t n_sent;    /* rows and gradients that PEs have packed for others, sums and weights */
    uint32_t n_back;    /* of them gradients, */
    uint32_t n_weights; /* and gradients of weights, since the last layer's update began */
    uint32_t n_late;    /* gradients packed after some of weights */
    uint32_t n_slow;    /* of what is sent, not of the first priority */
} seen;

static bool is(const struct starpu_task *task, const char *name)
{
    return strcmp(task->cl->name, name) == 0;
}

static void look(const struct starpu_task *task)
{
    bool back = is(task, "sl_aggregate_backward") || is(task, "sl_attend_backward") || is(task, "sl_relate_backward");
    if (back || is(task, "sl_pack") || is(task, "sl_reduce") || is(task, "sl_optimize")) {
        seen.n_sent++;
        seen.n_slow += task->priority != SL_PRIORITY_SEND;
    }
    seen.n_back += back;
    seen.n_late += back && seen.n_weights > 0;
    seen.n_weights += is(task, "sl_dense_backward_weight") || is(task, "sl_bias_backward");
    if (is(task, "sl_optimize")) {
        seen.n_weights = 0;
    }
}

/* Visible: the linker refuses hidden ones where another library, such as StarPU-MPI's, calls what is wrapped. */
#pragma GCC visibility push(default)
int __real_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task)
{
    if (task->cl != NULL && task->cl->name != NULL) {
        look(task);
    }
    return __real_starpu_task_submit(task);
}
#pragma GCC visibility pop

TEST(test_what_is_sent_goes_first)
{
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 301, .n_columns = 12, .n_classes = 4, .seed = 31};
    for (int model = 0; model < n_models(); model++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        OWNED(outcome_free) struct outcome got;
        settings_with("pes=2 group-size=2 chunks=2 layers=3 hidden=16 fanout=4,5,6 batch-size=30 partition=random",
                      &settings);
        settings.model = model;
        memset(&seen, 0, sizeof seen);
        shape.n_relations = is_typed(model) ? 3 : 0;
        make_dataset(&shape, &dataset);
        run_steps(&dataset, &settings, 1, &got);
        if (seen.n_back < 2 || seen.n_sent <= seen.n_back || seen.n_slow > 0 || seen.n_late > 0) {
            fail_msg("%s: found %u tasks that others wait for, %u without priority; %u of gradients, %u after weights'",
                     model_name(model), seen.n_sent, seen.n_slow, seen.n_back, seen.n_late);
        }
        forget_partitions();
    }
}

TEST_MAIN(group_up, group_down)
