/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How well a schedule would fill as many devices as it has PEs: the tasks of a trace, as long as they were, each PE
 * doing its own one after the other in the order they were submitted in, as soon as what they depend on is done;
 * sending costs nothing.
 *
 * usage: lanes FOLDER N_PES
 *
 * Prints: seconds of all tasks, seconds of the schedule, the first over N_PES times the second.
 */
#include <stdio.h>
#include <stdlib.h>

#include "apps/report/trace_read.h"
#include "support/memory.h"

static int fail(void)
{
    fprintf(stderr, "lanes: %s\n", sl_message());
    return EXIT_FAILURE;
}

/* When each task of the trace would end, by its place; tasks come after those they depend on. */
static double end_of_all(const struct sl_trace_data *data, uint32_t n_pes, double *free_s, double *end_s)
{
    double last = 0;
    for (size_t t = 0; t < data->n_tasks; t++) {
        const struct sl_trace_task *task = &data->task[t];
        bool placed = task->ran && task->ours && task->pe < n_pes;
        double start = placed ? free_s[task->pe] : 0;
        for (size_t d = task->first_dep; d < task->first_dep + task->n_deps; d++) {
            double before = end_s[data->dep[d]];
            start = before > start ? before : start;
        }
        end_s[t] = start + (placed ? task->end_s - task->start_s : 0);
        if (placed) {
            free_s[task->pe] = end_s[t];
        }
        last = end_s[t] > last ? end_s[t] : last;
    }
    return last;
}

int main(int argc, char **argv)
{
    struct sl_trace_data data;
    double *free_s = NULL;
    double *end_s = NULL;
    double busy = 0;
    uint32_t n_pes = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (n_pes == 0) {
        fprintf(stderr, "usage: lanes FOLDER N_PES\n");
        return 2;
    }
    if (sl_trace_read(argv[1], &data) != SL_OK) {
        return fail();
    }
    if (sl_alloc_zero(n_pes, sizeof *free_s, "PEs", &free_s) != SL_OK ||
        sl_alloc_zero(data.n_tasks, sizeof *end_s, "tasks", &end_s) != SL_OK) {
        return fail();
    }
    double makespan = end_of_all(&data, n_pes, free_s, end_s);
    for (size_t t = 0; t < data.n_tasks; t++) {
        const struct sl_trace_task *task = &data.task[t];
        busy += task->ran && task->ours && task->pe < n_pes ? task->end_s - task->start_s : 0;
    }
    printf("%.4f %.4f %.3f\n", busy, makespan, busy / (n_pes * makespan));
    sl_free(free_s);
    sl_free(end_s);
    sl_trace_data_free(&data);
    return EXIT_SUCCESS;
}
