/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Shared by all codelets: the run that a task belongs to, operations, how a task is filled and submitted, and how its
 * time is counted.
 *
 * A codelet file has kernels (plain functions), operations and submissions, in this order. A submission fills a view
 * (tasks/operand.h) and ends with sl_view_submit. Without a view (tasks/nccl_lane.c, tasks/bundle.c), it fills a struct
 * sl_task and ends with sl_task_submit. All tasks run through sl_task_cpu and sl_task_cuda (tasks/entry.c), which call
 * the operation's body. A bundle (tasks/bundle.h) calls sl_task_cpu for each of its tasks, or sl_task_body on a stream.
 * Only the empty tasks of runtime/pipe/recompute.c do without.
 */
#ifndef SL_TASKS_TASK_H
#define SL_TASKS_TASK_H

#include "tasks/handle.h"

/* Most PEs of a group, most parts of a graph, and most chunks of a PE's rows. Arguments of kernels have arrays of these
 * sizes. A run may have more PEs than a group. A graph has a part for each PE of a group, or for each graph chunk of a
 * pipeline. */
#define SL_MAX_GROUP 256
#define SL_MAX_PARTS 512
#define SL_MAX_CHUNKS 64

#ifdef SL_KERNELS_ONLY
struct sl_task_args;
#else

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/failure.h"
#include "support/real.h"
#include "tasks/home.h"
#include "tasks/operand.h"

/* Time categories of the metrics: first the sampling phase, then the compute phase. */
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

/* Whether tasks of this time category compute. Sampling and gathering should be hidden behind such tasks. */
static inline int sl_stage_is_compute(uint32_t stage)
{
    return stage >= SL_STAGE_AGGREGATE && stage <= SL_STAGE_OPTIMISE;
}

/* Name of a time category, as in the metrics' stage_seconds ("sample"), and its colour in all pictures, 0xRRGGBB. */
const char *sl_stage_name(enum sl_stage stage);
unsigned sl_stage_colour(enum sl_stage stage);

/* Desired priorities; they are clamped to the range of StarPU's scheduler. SEND: other PEs or ranks wait for the
 * result, so it should travel while the rest is computed. SAMPLE counts as SEND if the run has sample_first. */
enum sl_priority { SL_PRIORITY_SAMPLE = -1, SL_PRIORITY_NORMAL = 0, SL_PRIORITY_COMPUTE = 1, SL_PRIORITY_SEND = 2 };

/* One executed sampling or gathering task, or the compute span of one step; see sl_run_overlap. */
struct sl_span {
    uint64_t step;
    double start_s;
    double end_s;
};

/* The task that a worker currently runs, for the watchdog. */
struct sl_current_task {
    /* Address of the task's arguments, as an identity only: the memory may be freed already. */
    const void *_Atomic args;
    const char *_Atomic name; /* codelet name; NULL: no task */
    _Atomic uint64_t step;
    _Atomic uint32_t pe;
    _Atomic uint32_t stage;
};

/* Measurements of one worker. Only the worker writes them; the host reads them when no task is left. Aligned to a
 * cache line. */
struct sl_worker_log {
    _Alignas(64) double stage_s[SL_N_STAGES];
    struct sl_span *hidden; /* sampling and gathering tasks since the last sl_run_log_reset */
    /* First start and last end of the compute tasks of a step, one entry for each step that this worker has seen. */
    struct sl_span *compute;
    size_t n_hidden, n_compute, hidden_capacity, compute_capacity;
    double device_end_s; /* end of this worker's last CUDA task */
    int n_on_device;     /* CUDA tasks of this worker that have started and not ended */
    struct sl_current_task current;
};

struct sl_operation;
struct sl_task;

/* Receives a run's tasks before StarPU does (tasks/bundle.h). */
struct sl_holder {
    /* Hold the task back, or submit it now (sl_task_hand_over), after all held tasks that it depends on. Errors of
     * sl_task_submit. */
    enum sl_status (*hold)(struct sl_holder *holder, struct sl_task *task, const void *args, size_t args_bytes,
                           enum sl_priority priority);
};

/* One run. It outlives all of its tasks. */
struct sl_run {
    struct sl_failure failure;
    struct sl_worker_log *logs; /* [n_workers] */
    unsigned n_workers;
    int min_priority, max_priority; /* priorities of the scheduler */
    /* --placement home: a PE's tasks run at its home only. If homes are GPUs, tasks without a CUDA
     * implementation run anywhere. NULL: all tasks run anywhere. */
    const struct sl_homes *homes;
    /* Homes for the scheduler of tasks/near.h: a task joins the queue of its PE's home. NULL: another scheduler. */
    const struct sl_homes *near;
    struct sl_holder *holder; /* NULL: tasks go to StarPU one by one */
    /* Tasks with a CUDA implementation run on GPUs only, other tasks on CPU workers. */
    bool gpus_first;
    bool has_cuda;   /* there are CUDA workers */
    uint32_t n_gpus; /* GPUs that StarPU drives; one that is alone may have two workers */
    /* Bytes that StarPU may use on a GPU, smallest over all GPUs; 0: no GPU. */
    uint64_t gpu_bytes;
    /* Evaluation tasks belong to parts, not PEs: they ignore `homes` and `near`. */
    bool evaluate_anywhere;
    /* Evaluation's rows do not fit on a GPU, so evaluation tasks run on CPU workers. */
    bool evaluate_on_cpus;
    /* --means fastest: the scheduler may choose cuSPARSE for aggregation. The last bits of cuSPARSE's sums differ. */
    bool fastest_means;
    enum sl_dtype row_dtype; /* --precision: SL_DTYPE_REAL or SL_DTYPE_BF16 */
    bool tf32;
    bool traced;       /* tasks get long names (sl_task_name) and the colour of their time category */
    bool sample_first; /* several ranks: sampling tasks have priority over compute tasks */
    bool stop_wanted;  /* several ranks: this rank was asked to stop */
    bool stop_agreed;  /* several ranks: all ranks agreed that the current step is the last */
};

/* Initialise a run. StarPU is running. SL_ENOMEM. */
enum sl_status sl_run_init(struct sl_run *run);
void sl_run_free(struct sl_run *run);

/* Reset all measured times. No task may be running. */
void sl_run_log_reset(struct sl_run *run);

/* Seconds in each time category, summed over workers. */
void sl_run_stage_seconds(const struct sl_run *run, double seconds_out[SL_N_STAGES]);

/* List the running tasks: "sl_sample, PE 0, step 3, on CPU 1; ..". For a GPU, lists the task started last. Returns
 * false if no worker runs a task. Any thread. */
bool sl_run_at_work(const struct sl_run *run, char *out, size_t bytes);

/* Fraction of sampling and gathering time, since the last reset, during which an earlier step was computing: 0 .. 1,
 * 0 without such tasks. No task may be running. SL_ENOMEM. */
enum sl_status sl_run_overlap(const struct sl_run *run, double *share_out);

/* The head of each codelet's argument struct, copied by value into the task. */
struct sl_task_args {
    struct sl_run *run;
    const struct sl_operation *operation; /* sl_task_submit sets it, and `stage` if the operation has one */
    uint64_t step;                        /* counts over the whole run */
    uint32_t pe;
    uint32_t hop; /* 0 at the seeds */
    /* Flops, or bytes for sparse kernels: size base of the performance model. */
    uint64_t work;
    enum sl_stage stage;
    /* Segments of the task's rows, or NULL: one segment. A product over the rows is computed segment by segment. A
     * sum over rows (a weight gradient, a loss) gives one result for each segment, stacked one below the other. So the
     * same segments give the same results, however tasks divide the segments. The segments cover all rows of the task
     * and outlive it. */
    const struct sl_runs *runs;
    double device_start_s; /* time of the call of the CUDA implementation; 0: not called */
};

/* The time category of a submission: a task of evaluation always counts as evaluation. */
static inline enum sl_stage sl_task_stage(const struct sl_task_args *head, enum sl_stage stage)
{
    return head->stage == SL_STAGE_EVALUATE ? SL_STAGE_EVALUATE : stage;
}

/* ---- operations ---- */

/* One kind of task. An implementation gets the task's buffers and a copy of the arguments. If an implementation fails,
 * the run fails with the message of the implementation, the operation's name, the PE and the step. */
struct sl_operation {
    enum sl_stage stage; /* time category; SL_N_STAGES: each submission says it */
    struct starpu_codelet codelet;
    struct starpu_perfmodel model;
    /* For both devices, with the operation's view (tasks/operand.h) of `bytes` bytes: SL_BODY and SL_RUN. The task
     * layer has filled the view. stream: a struct sl_queue; NULL: on a CPU. On a stream it starts kernels and returns:
     * StarPU regards the task as ended when the stream has reached this point. */
    enum sl_status (*body)(const void *view, const void *stream);
    size_t bytes;
    /* Without a view, on CPUs and on a stream: */
    enum sl_status (*cpu)(void *buffers[], const void *args);
    enum sl_status (*cuda)(void *buffers[], void *args, const void *stream);
    /* The buffers. Before the first optional or repeated buffer, roles are also indices in buffers[]. */
    struct sl_buffer_role role[SL_MAX_ROLES + 1]; /* the one after the last has no name */
};

/* First initialisers of an operation. The first form has no performance model. The model of the second form is a
 * regression over `work`. The third form has a history of measurements, for work whose cost is no simple function. */
#define SL_PLAIN_OPERATION(text, category)                                                                             \
    .stage = category, .codelet.name = text, .codelet.cpu_funcs = {sl_task_cpu},                                       \
    .codelet.nbuffers = STARPU_VARIABLE_NBUFFERS
#define SL_OPERATION(object, text, category)                                                                           \
    SL_PLAIN_OPERATION(text, category), .codelet.model = &(object).model, .model.symbol = text,                        \
                                        .model.type = STARPU_REGRESSION_BASED, .model.size_base = sl_task_size_base
#define SL_HISTORY_OPERATION(object, text, category)                                                                   \
    SL_PLAIN_OPERATION(text, category), .codelet.model = &(object).model, .model.symbol = text,                        \
                                        .model.type = STARPU_HISTORY_BASED, .model.footprint = sl_task_footprint

/* Initialisers of a codelet that GPUs run, too, if this build has CUDA: by one implementation, or by one of two. The
 * body of two asks StarPU for the number. A scheduler with performance models takes the faster. A scheduler without
 * them takes the first that can run the task. */
#ifndef SL_ON_GPUS
#ifdef SL_CUDA
#define SL_ON_GPUS .codelet.cuda_funcs = {sl_task_cuda}, .codelet.cuda_flags = {STARPU_CUDA_ASYNC}
#define SL_ON_GPUS_TWICE                                                                                               \
    .codelet.cuda_funcs = {sl_task_cuda, sl_task_cuda}, .codelet.cuda_flags = {STARPU_CUDA_ASYNC, STARPU_CUDA_ASYNC}
#else
#define SL_ON_GPUS .codelet.cuda_funcs = {NULL}
#define SL_ON_GPUS_TWICE SL_ON_GPUS
#endif
#endif

/* Initialisers of one implementation for both devices, with a view of this type. Its body calls KERNEL_cpu, which
 * cannot fail (SL_RUN drops its value) or returns a status (SL_CALL), or KERNEL_cuda with the same arguments behind the
 * stream. SL_CALL_QUEUE: behind the struct sl_queue. */
#define SL_BODY(function, type) .body = function, .bytes = sizeof(type), SL_ON_GPUS
#ifdef SL_CUDA
#define SL_RUN(stream, kernel, ...)                                                                                    \
    ((stream) == NULL ? (kernel##_cpu(__VA_ARGS__), SL_OK)                                                             \
                      : kernel##_cuda(*(const cudaStream_t *)(stream), __VA_ARGS__))
#define SL_CALL(stream, kernel, ...)                                                                                   \
    ((stream) == NULL ? kernel##_cpu(__VA_ARGS__) : kernel##_cuda(*(const cudaStream_t *)(stream), __VA_ARGS__))
#define SL_CALL_QUEUE(queue, kernel, ...)                                                                              \
    ((queue) == NULL ? kernel##_cpu(__VA_ARGS__) : kernel##_cuda(*(const struct sl_queue *)(queue), __VA_ARGS__))
#else
#define SL_RUN(stream, kernel, ...) ((void)(stream), kernel##_cpu(__VA_ARGS__), SL_OK)
#define SL_CALL(stream, kernel, ...) ((void)(stream), kernel##_cpu(__VA_ARGS__))
#define SL_CALL_QUEUE SL_CALL
#endif

/* In a body: set all bytes. SL_ECUDA. */
enum sl_status sl_fill(const void *stream, int value, size_t bytes, void *data);

/* What StarPU calls for a task: sl_task_enter, the implementation, sl_task_fail if it failed, sl_task_leave. */
void sl_task_cpu(void *buffers[], void *args);
void sl_task_cuda(void *buffers[], void *args);

/* The body alone, with the view filled. stream: as for `body`. */
enum sl_status sl_task_body(void *buffers[], void *args, const void *stream);

/* ---- the start and the end of a task ---- */

/* Starts the clock. Returns nonzero if the run has failed; the task must then not run. */
int sl_task_enter(const struct sl_task_args *args, double *start_s_out);

/* Adds the time to its category, and the span to the overlap. In a traced run, also writes the task's mark
 * (SL_TASK_MARK) into the trace. */
void sl_task_leave(const struct sl_task_args *args, double start_s);

/* The start of a CUDA task, like sl_task_enter. args: the task's own copy. The task's time is counted at its end. It
 * begins with this call or, if the device was still busy, with the end of the previous task. */
int sl_task_enter_cuda(struct sl_task_args *args);

/* Make this thread's last sl_fail the run's failure. Adds the codelet, the PE, and the step or the evaluation to its
 * message. */
void sl_task_fail(const struct sl_task_args *args, enum sl_status st);

/* Size base and footprint for performance models, from the head of the arguments. The footprint groups `work` into
 * classes of an eighth of a power of two, so that history models see few sizes. */
size_t sl_task_size_base(struct starpu_task *task, unsigned n_implementation);
uint32_t sl_task_footprint(struct starpu_task *task);

#define SL_TASK_INLINE 16

/* A task that is being filled. */
struct sl_task {
    struct sl_operation *operation;
    unsigned n_fixed; /* roles before the first optional or repeated role */
    unsigned given;   /* a bit for each role that has a buffer */
    unsigned n_buffers;
    unsigned capacity;
    enum sl_status status; /* first error while filling; sl_task_submit returns it */
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
    starpu_data_handle_t inline_handles[SL_TASK_INLINE];
    enum starpu_data_access_mode inline_modes[SL_TASK_INLINE];
};

/* Begin a task. The struct must not move until sl_task_submit. */
void sl_task_begin(struct sl_task *task, struct sl_operation *operation);

/* Append a buffer. sl_task_submit returns SL_EINTERNAL if the buffer does not fit the operation's roles: another mode,
 * a second buffer of a role that is not repeated, or a wrong index. */
void sl_task_add(struct sl_task *task, unsigned role, starpu_data_handle_t handle, enum starpu_data_access_mode mode);

/* Append n buffers of a repeated role. */
void sl_task_add_each(struct sl_task *task, unsigned role, uint32_t n, const starpu_data_handle_t *handles,
                      enum starpu_data_access_mode mode);

/* Name of a traced task: "CATEGORY.DIRECTION.OPERATION.hopH.peP.stepS". It has no blanks, because Paje files do not
 * allow them. DIRECTION: fwd, bwd (row and weight gradients) or upd (sum of gradients, and weights). OPERATION: the
 * codelet's name without "sl_" and without a direction. Longer names are cut at SL_TASK_NAME_BYTES. */
#define SL_TASK_NAME_BYTES 96
void sl_task_name(const struct sl_task_args *args, const char *codelet_name, char out[SL_TASK_NAME_BYTES]);

/* Mark of a traced task: a user event "sl_codelet.JOB.NANOSECONDS" at its end, with StarPU's job number and the time
 * that sl_task_leave counted. StarPU's own start event precedes the records of the task's buffers, which take some
 * microseconds. The mark separates the codelet's time from these records, so times in a trace equal the metrics'
 * times. CUDA implementations leave no mark, because they end after the call that started them. */
#define SL_TASK_MARK "sl_codelet."

/* Submit a task. Completes the head of `args`, a struct sl_task_args, and copies `args`. Sets name, priority and
 * placement; with GPUs, a task that uses a cache of feature rows runs on a GPU. If the run has a holder, the holder may
 * hold the task back.
 * The struct sl_task cannot be submitted again, even after a failure. SL_EINTERNAL: a buffer is missing or does not fit
 * its role; the message names the codelet, the PE and the step. SL_ESTARPU, SL_ENODEV: no worker can run the task.
 * SL_ENOMEM. */
enum sl_status sl_task_submit(struct sl_task *task, void *args, size_t args_bytes, enum sl_priority priority);

/* Submit a task of an operation with a view. The view's head has the run, step, PE and hop, and its operands have their
 * handles. The head's work, if it is 0, becomes the bytes of the operands. Copies the view. SL_EINTERNAL: an operand
 * does not fit the operation's roles. Otherwise as sl_task_submit. */
enum sl_status sl_view_submit(struct sl_operation *operation, void *view, enum sl_priority priority);

/* For holders: sl_task_submit, but to StarPU at once. */
enum sl_status sl_task_hand_over(struct sl_task *task, const void *args, size_t args_bytes, enum sl_priority priority);

#endif /* SL_KERNELS_ONLY */

#endif
