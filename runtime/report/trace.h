/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * FxT traces of some steps of a run. Tracing is switched on before StarPU starts. A window of steps is recorded.
 * After StarPU has stopped and written its trace, sl_trace_finish converts it. With several ranks, all ranks trace into
 * the same folder and open and close their windows at the same steps. Rank 0 converts for all. StarPU puts the traces
 * on one clock.
 *
 * FxT records from just before the first step's sampling is submitted. Recording stops when the tasks of the last
 * step, and the samples ahead of that step, have ended. No task runs when the window opens or closes, so each
 * recorded task is complete. With --depth 2 the window of steps 10:12 also has the compute phases of steps 8 and
 * 9, and the sampling of steps 13 and 14.
 *
 * Files of a traced folder:
 *   paje.trace     for ViTE; each time category has its colour (sl_stage_colour)
 *   tasks.rec      StarPU's list of tasks, with times, workers and dependencies (recutils)
 *   trace.rec      StarPU's list of each worker's state changes
 *   data.rec       StarPU's list of handles
 *   dag.dot        StarPU's graph of the tasks, for Graphviz
 *   trace.fxt      the raw trace, for starpu_fxt_tool; with several ranks trace.fxt_0, trace.fxt_1, ..
 *   comms.rec      with several ranks, the messages between them
 */
#ifndef SL_RUNTIME_REPORT_TRACE_H
#define SL_RUNTIME_REPORT_TRACE_H

#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "tasks/task.h"

/* The window of a run. */
struct sl_trace {
    bool wanted;    /* --trace was given, and the window is not over */
    bool on;        /* FxT records */
    bool opened;    /* the window was open at some time */
    uint64_t first; /* first and last step of the window, inclusive */
    uint64_t last;
    uint64_t ahead; /* depth: sampling is submitted this many steps ahead */
};

/* Before starpu_init: make --trace's folder, and tell StarPU to trace into it without recording yet. Without
 * --trace: tell StarPU not to trace. (From a process's second traced run on, FxT prints a harmless message on
 * standard error: its first file could not be renamed.) SL_ENOTSUP: StarPU was built without FxT, or is older than
 * 1.4. SL_EIO, SL_ENOMEM. */
enum sl_status sl_trace_prepare(const struct sl_settings *settings);

/* Choose the window of a run from `first_step` to `n_steps` - 1, whose first epoch ends before step epoch_end.
 * SL_EINVAL: --trace-steps lies outside, or there is no step. */
enum sl_status sl_trace_open(const struct sl_settings *settings, uint64_t first_step, uint64_t n_steps,
                             uint64_t epoch_end, struct sl_trace *out);

/* Call both around each step's submission, in step order. The calls open the window, mark the step as a user event,
 * and close the window. Opening and closing wait for all tasks. */
void sl_trace_before_step(struct sl_trace *trace, uint64_t step);
void sl_trace_after_step(struct sl_trace *trace, uint64_t step);

/* Close a window that is still open at the end of a run. */
void sl_trace_stop(struct sl_trace *trace);

/* ---- names of tasks in a trace, read back ---- */

/* The parts of a task's name. */
struct sl_trace_name {
    enum sl_stage stage;
    uint32_t hop;
    uint32_t pe;
    uint64_t step;
};

/* Parse one of our task names. False: a foreign name. `text` need not be NUL-terminated. */
bool sl_trace_name_parse(const char *text, size_t n, struct sl_trace_name *out);

#endif
