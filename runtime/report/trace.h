/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's FxT traces of some steps of a run: switched on before StarPU starts, recording for a window of steps, converted and
 * reported on after StarPU has stopped (it writes its trace then). Of several ranks each traces into the same folder, and rank 0
 * converts and reports, for all; the windows open and close at the same steps, and StarPU puts them on one clock.
 *
 * FxT records from just before the sampling of the first step is submitted until the tasks of the last step, and the samples
 * ahead of it, have ended. No task runs when the window opens or closes, so every task in it is seen whole. The window of steps
 * 10:12 with --depth 2 thus also holds the compute phase of steps 8 and 9, and the sampling of 13 and 14.
 *
 * What a traced folder holds in the end:
 *   paje.trace     opens in ViTE; each stage in its colour (sl_stage_colour)
 *   tasks.rec      StarPU's list of tasks, with times, workers and dependencies (recutils)
 *   trace.rec      StarPU's list of state changes, of each worker
 *   data.rec       StarPU's list of handles
 *   trace.fxt      the raw trace, for starpu_fxt_tool; of several ranks trace.fxt_0, trace.fxt_1 ..
 *   comms.rec      of several ranks, the messages between them
 *   and what runtime/report/report.h writes: timeline.svg, dag.dot, report.txt, report.html; vite.svg where ViTE is there.
 */
#ifndef SL_RUNTIME_REPORT_TRACE_H
#define SL_RUNTIME_REPORT_TRACE_H

#include "runtime/plan/settings.h"
#include "runtime/starling.h"

/* The window of a run. */
struct sl_trace {
    bool wanted;    /* not yet over, and --trace was given */
    bool on;        /* FxT records */
    bool opened;    /* it was on at some time */
    uint64_t first; /* steps, both belong to it */
    uint64_t last;
    uint64_t ahead; /* depth: how many steps before a step its sampling is submitted */
};

/* Before starpu_init: make --trace's folder and tell StarPU to trace into it, without recording yet; without --trace, tell it
 * not to trace at all. (From a process's second traced run on, FxT itself says on standard error that it could not rename its
 * first file; that is harmless.) SL_ENOTSUP: StarPU was built without FxT, or is older than 1.4. SL_EIO, SL_ENOMEM. */
enum sl_status sl_trace_prepare(const struct sl_settings *settings);

/* Decide the window of a run that goes from `first_step` to `n_steps` - 1. SL_EINVAL: --trace-steps lies outside, or there is
 * no step. */
enum sl_status sl_trace_open(const struct sl_settings *settings, uint64_t first_step, uint64_t n_steps,
                             uint32_t n_per_epoch, struct sl_trace *out);

/* Around each step's submission, in step order: open the window in time, mark the step as a user event, close the window. The
 * two that open and close it wait for all tasks. */
void sl_trace_before_step(struct sl_trace *trace, uint64_t step);
void sl_trace_after_step(struct sl_trace *trace, uint64_t step);

/* Close a window that is still open, at the end of a run. */
void sl_trace_stop(struct sl_trace *trace);

#endif
