/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What all codelets share: the run a task belongs to, how a task is filled and submitted, and how its time is counted.
 *
 * A codelet file has kernels (plain functions), task wrappers, codelets and submissions, in this order. Wrappers begin with
 * sl_task_enter and end with sl_task_leave; submissions fill a struct sl_task and end with sl_task_submit, the only place of
 * the program where StarPU is handed a task.
 */
#ifndef SL_CODELETS_TASK_H
#define SL_CODELETS_TASK_H

#include "codelets/handle.h"

/* Most PEs of a group, and most chunks of a PE's rows: what wrappers and kernels keep pointers for. */
#define SL_MAX_PES 256
#define SL_MAX_CHUNKS 64

#ifdef SL_KERNELS_ONLY
struct sl_task_args;
#else

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "codelets/home.h"
#include "support/failure.h"
#include "support/real.h"

/* The stages whose time the metrics report (design of the task graph: sampling phase, then compute phase). */
enum sl_stage {
    SL_STAGE_SAMPLE,
    SL_STAGE_EXCHANGE,
    SL_STAGE_GATHER,
    SL_STAGE_AGGREGATE,
    SL_STAGE_DENSE,
    SL_STAGE_LOSS,
    SL_STAGE_BACKWARD,
    SL_STAGE_SYNC,
    SL_STAGE_OPTIMISE,
    SL_STAGE_EVALUATE,
    SL_N_STAGES
};

/* Whether a stage computes: such tasks are what sampling and gathering are to be hidden behind. */
static inline int sl_stage_is_compute(uint32_t stage)
{
    return stage >= SL_STAGE_AGGREGATE && stage <= SL_STAGE_OPTIMISE;
}

/* A stage's name, as in the metrics' stage_seconds ("sample"), and its colour in every picture, 0xRRGGBB. */
const char *sl_stage_name(enum sl_stage stage);
unsigned sl_stage_colour(enum sl_stage stage);

/* StarPU's range is asked for at run time; these are its wishes. SEND: of what other PEs or ranks wait for, so that it travels
 * while the rest is computed; SAMPLE is as urgent where a run says so. */
enum sl_priority { SL_PRIORITY_SAMPLE = -1, SL_PRIORITY_NORMAL = 0, SL_PRIORITY_COMPUTE = 1, SL_PRIORITY_SEND = 2 };

/* One executed sampling or gathering task, or the compute span of one step; see sl_run_overlap. */
struct sl_span {
    uint64_t step;
    double start_s;
    double end_s;
};

/* The task that a worker is at, for a thread that wonders why nothing moves. */
struct sl_current_task {
    const void *_Atomic args; /* the task's own, which may be gone by now: they tell it from others */
    const char *_Atomic name; /* its codelet's; NULL: it is at none */
    _Atomic uint64_t step;
    _Atomic uint32_t pe;
    _Atomic uint32_t stage;
};

/* What one worker has measured; only that worker writes it, the host reads it when the graph has drained. A line of its own. */
struct sl_worker_log {
    _Alignas(64) double stage_s[SL_N_STAGES];
    struct sl_span *hidden;  /* sampling and gathering tasks, since the last sl_run_log_reset */
    struct sl_span *compute; /* first start and last end of compute tasks, one entry per step seen by this worker */
    size_t n_hidden, n_compute, hidden_capacity, compute_capacity;
    double device_end_s; /* when this worker's last CUDA task ended */
    int n_on_device;     /* of its CUDA tasks that have begun */
    struct sl_current_task current;
};

struct sl_task;

/* Who is given a run's tasks before StarPU is (codelets/bundle.h). */
struct sl_holder {
    /* Hold the task back, or hand it over (sl_task_hand_over), after all that it waits for. As sl_task_submit. */
    enum sl_status (*hold)(struct sl_holder *holder, struct sl_task *task, const void *args, size_t args_bytes,
                           enum sl_priority priority);
};

/* One run: outlives all of its tasks. */
struct sl_run {
    struct sl_failure failure;
    struct sl_worker_log *logs; /* one per StarPU worker */
    unsigned n_workers;
    int min_priority, max_priority; /* the scheduler's range */
    const struct sl_homes
        *homes; /* --placement home: a PE's tasks run at its home only, those without a CUDA implementation
                                     anywhere where homes are GPUs'; NULL: all run anywhere */
    const struct sl_homes *near; /* tasks join the line of their PE's home (codelets/near.h); NULL: another scheduler */
    struct sl_holder *holder;    /* NULL: tasks go to StarPU one by one */
    bool gpus_first;             /* tasks with a CUDA implementation run on GPUs only: CPU workers do the others */
    bool has_cuda;               /* there are CUDA workers */
    uint32_t n_gpus;             /* that StarPU drives, with a worker each */
    uint64_t gpu_bytes;          /* that data may take on one, where StarPU has least; 0: there is none */
    bool evaluate_anywhere; /* evaluation's tasks, which are of parts, go to no PE's home, and join no line of one's */
    bool evaluate_on_cpus;  /* evaluation's rows do not fit a GPU: its tasks are for CPU workers */
    bool
        fastest_means; /* --means fastest: the scheduler may take cuSPARSE for aggregation, whose sums have other last bits */
    bool bf16;         /* --precision bf16: products take their factors so */
    bool tf32;         /* --precision tf32: GPUs multiply so */
    bool traced;       /* tasks get the long names of sl_task_name, and their stage's colour */
    bool sample_first; /* several ranks: samples go before compute tasks */
    bool stop_wanted;  /* several ranks: this one was asked to stop */
    bool stop_agreed;  /* and all have agreed that the step in hand is the last */
};

/* Prepare a run; StarPU is up. SL_ENOMEM. */
enum sl_status sl_run_init(struct sl_run *run);
void sl_run_free(struct sl_run *run);

/* Forget all times measured so far. No task may be running. */
void sl_run_log_reset(struct sl_run *run);

/* Sum over workers of the seconds in each stage. */
void sl_run_stage_seconds(const struct sl_run *run, double seconds_out[SL_N_STAGES]);

/* "sl_sample, PE 0, step 3, on CPU 1; ..": what workers are at, of a GPU's the last that was started there. False: nothing. Any thread. */
bool sl_run_at_work(const struct sl_run *run, char *out, size_t bytes);

/* The share of sampling and gathering time, since the last reset, during which an earlier step was still computing (0..1;
 * 0 when there was none). No task may be running. SL_ENOMEM. */
enum sl_status sl_run_overlap(const struct sl_run *run, double *share_out);

/* The rows of a task in runs: run k has rows first[k] - first[0] .. first[k + 1] - first[0] - 1. */
struct sl_runs {
    uint32_t n;
    const uint32_t *first; /* n + 1 */
};

/* The head of every codelet's argument struct, copied by value into the task. */
struct sl_task_args {
    struct sl_run *run;
    uint64_t step; /* counts over the whole run */
    uint32_t pe;
    uint32_t hop;  /* 0 at the seeds */
    uint64_t work; /* flops, or bytes for sparse kernels: the size base of the performance model */
    enum sl_stage stage;
    /* A product of the task's rows is one of each run, and what it adds up over them, a gradient of weights or a loss, a sum for each, one
     * below the other: neither depends on which runs lie in one task. They have as many rows as the task, and outlive it. NULL: all
     * rows are one run. */
    const struct sl_runs *runs;
    double device_start_s; /* when its CUDA implementation was called; 0: it was not */
};

/* The stage a submission counts its task under: what evaluation runs stays evaluation. */
static inline enum sl_stage sl_task_stage(const struct sl_task_args *head, enum sl_stage stage)
{
    return head->stage == SL_STAGE_EVALUATE ? SL_STAGE_EVALUATE : stage;
}

static inline uint32_t sl_task_n_runs(const struct sl_task_args *head)
{
    return head->runs == NULL ? 1 : head->runs->n;
}

/* Where run k of n_rows begins; k = sl_task_n_runs: n_rows. */
static inline uint32_t sl_task_run(const struct sl_task_args *head, uint32_t n_rows, uint32_t k)
{
    if (head->runs != NULL) {
        return head->runs->first[k] - head->runs->first[0];
    }
    return k == 0 ? 0 : n_rows;
}

/* The runs have n_rows, and `sums`, unless NULL, has n_rows_each rows of n_columns for each. SL_EINVAL. */
enum sl_status sl_task_check_runs(const char *name, const struct sl_task_args *head, uint32_t n_rows,
                                  starpu_data_handle_t sums, uint32_t n_rows_each, uint32_t n_columns);

/* A wrapper's first call: nonzero when the run has failed and the task must return at once. Starts its clock. */
int sl_task_enter(const struct sl_task_args *args, double *start_s_out);

/* A wrapper's last call: counts the time for its stage, and the span for the overlap. In a traced run it also writes the task's
 * mark (SL_TASK_MARK) into the trace. */
void sl_task_leave(const struct sl_task_args *args, double start_s);

/* A wrapper reports this thread's last sl_fail as the run's failure. Its message then names the codelet, the PE, and the step or the
 * evaluation. */
void sl_task_fail(const struct sl_task_args *args, enum sl_status st);

/* ---- CUDA implementations; SL_CUDA: this build has them ----
 *
 * They are asynchronous: the function starts kernels on starpu_cuda_get_local_stream() and returns; StarPU calls the task ended
 * when the stream has got there. A wrapper begins with sl_task_enter_cuda and ends with sl_task_leave_cuda. The task's time is
 * counted when it has ended, from its call or, where the worker's device was still busy, from the end of the task before. */

/* The codelet's CUDA implementation, or two of them, among its initialisers. Of two, a scheduler without performance models takes
 * the first that can run the task, one with them the faster. */
#ifndef SL_CUDA_FUNC
#ifdef SL_CUDA
#define SL_CUDA_FUNC(function) .cuda_funcs = {function}, .cuda_flags = {STARPU_CUDA_ASYNC}
#define SL_CUDA_FUNCS(first, second) .cuda_funcs = {first, second}, .cuda_flags = {STARPU_CUDA_ASYNC, STARPU_CUDA_ASYNC}
#else
#define SL_CUDA_FUNC(function) .cuda_funcs = {NULL}
#define SL_CUDA_FUNCS(first, second) .cuda_funcs = {NULL}
#endif
#endif

/* Nonzero when the run has failed and the task must return at once. args: the task's own copy. */
int sl_task_enter_cuda(struct sl_task_args *args);

/* st: what the launcher said; a failure becomes the run's. */
void sl_task_leave_cuda(const struct sl_task_args *args, enum sl_status st);

/* Size base and footprint for performance models; they read the head of the arguments. Footprint: work in classes of an eighth
 * of a power of two, so that history models see few sizes. */
size_t sl_task_size_base(struct starpu_task *task, unsigned n_implementation);
uint32_t sl_task_footprint(struct starpu_task *task);

#define SL_TASK_INLINE 16

/* A task being filled. */
struct sl_task {
    struct starpu_codelet *codelet;
    unsigned n_buffers;
    unsigned capacity;
    enum sl_status status; /* first failure while filling; sl_task_submit gives it back */
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
    starpu_data_handle_t inline_handles[SL_TASK_INLINE];
    enum starpu_data_access_mode inline_modes[SL_TASK_INLINE];
};

/* Start a task of a codelet. The struct must stay where it is until sl_task_submit. */
void sl_task_begin(struct sl_task *task, struct starpu_codelet *codelet);

/* Append a buffer with its mode. Codelets with a fixed number of buffers state the modes themselves and must agree. */
void sl_task_add(struct sl_task *task, starpu_data_handle_t handle, enum starpu_data_access_mode mode);

/* Append the slice's matrix, unless the last buffer is that one; mode STARPU_R, or STARPU_W, which for rows that are not the matrix'
 * first keeps the others. Slices of one matrix are added one after the other, for writing that of the lowest rows first. SL_EINVAL,
 * which sl_task_submit gives back: rows that the matrix does not have. */
struct sl_slice_args sl_task_add_slice(struct sl_task *task, const struct sl_slice *slice,
                                       enum starpu_data_access_mode mode);

/* What a traced task is called: "STAGE.DIRECTION.OPERATION.hopH.peP.stepS", without blanks, which Paje files cannot hold.
 * Direction: fwd, bwd (row and weight gradients) or upd (their sum, and the weights). Operation: the codelet's name without
 * "sl_" and without its direction. Cut at SL_TASK_NAME_BYTES. */
#define SL_TASK_NAME_BYTES 96
void sl_task_name(const struct sl_task_args *args, const char *codelet_name, char out[SL_TASK_NAME_BYTES]);

/* A traced task's mark, a user event "sl_codelet.JOB.NANOSECONDS" at its end: StarPU's number of the task, and the time that
 * sl_task_leave counted. StarPU's own start of a task comes before it records each of the task's buffers, microseconds in
 * which nothing is computed; by its mark a trace tells the codelet from that, and its times are the metrics' times. CUDA
 * implementations leave none: they end after the call that started them. */
#define SL_TASK_MARK "sl_codelet."

/* Submit: copies `args` (whose head is a struct sl_task_args), sets the name, priority and placement (where there are GPUs, what
 * works on a cache of feature rows runs on them), and translates StarPU's answer. Where the run has a holder the task may be
 * held back. SL_ESTARPU, SL_ENOMEM. The struct sl_task is spent either way. */
enum sl_status sl_task_submit(struct sl_task *task, const void *args, size_t args_bytes, enum sl_priority priority);

/* For holders: the same, to StarPU at once; and, on a worker, whose codelet is at work in a task that does several's, or NULL. */
enum sl_status sl_task_hand_over(struct sl_task *task, const void *args, size_t args_bytes, enum sl_priority priority);
void sl_task_in_hand(const char *codelet_name);

#endif /* SL_KERNELS_ONLY */

#endif
