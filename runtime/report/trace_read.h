/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A traced folder read back: StarPU's tasks.rec and trace.rec (recutils: "Key: value" lines, records apart by empty lines), and of
 * several ranks comms.rec. Of these StarPU has put all times on rank 0's clock, and all ranks' workers begin at 0: trace.rec has one
 * rank's events after the other's, between the marks "rankR" and "end" of its window; what lies outside is left out.
 *
 * Folders may come from anywhere: another machine, another StarPU program, a damaged disk. Tasks that carry our names
 * (sl_task_name) have a stage, a hop, a PE and a step; of other programs' tasks each name, up to a number, is a stage.
 * A task that left its mark (SL_TASK_MARK) has its codelet's times, what StarPU did in the task before and after counts as StarPU;
 * one without has StarPU's times.
 */
#ifndef SL_RUNTIME_REPORT_TRACE_READ_H
#define SL_RUNTIME_REPORT_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codelets/task.h"

#define SL_TRACE_MAX_WORKERS 4096 /* of all ranks */
#define SL_TRACE_MAX_STAGES 64    /* ours, and names of foreign tasks; the last takes all further ones */
#define SL_TRACE_STAGE_BYTES 48

/* A task's name taken apart. */
struct sl_trace_name {
    enum sl_stage stage;
    uint32_t hop;
    uint32_t pe;
    uint64_t step;
};

/* Take one of our names apart; false where it is none. `text` need not end in a NUL. */
bool sl_trace_name_parse(const char *text, size_t n, struct sl_trace_name *out);

/* A stage of the trace; the first SL_N_STAGES are ours, with their numbers, whether or not a task has them. */
struct sl_trace_stage {
    char name[SL_TRACE_STAGE_BYTES];
    unsigned colour; /* 0xRRGGBB */
};

/* A task of tasks.rec. Times are seconds from the first submission or task of the trace. */
struct sl_trace_task {
    uint64_t job;     /* StarPU's number, behind the rank's; unique */
    const char *name; /* in the mapped file, not NUL-terminated; n_name bytes */
    uint32_t n_name;
    uint32_t stage; /* in sl_trace_data.stage; meaningless where it did not run */
    bool ran;       /* it has a worker, a start and an end; others are StarPU's own, such as waits for data */
    bool ours;      /* hop, pe and step are known */
    uint32_t hop, pe;
    uint64_t step;
    uint32_t rank;
    uint32_t worker; /* counted over all ranks */
    double start_s, end_s;
    size_t first_dep; /* its n_deps entries in sl_trace_data.dep */
    uint32_t n_deps;
};

enum sl_trace_kind {
    SL_TRACE_IDLE,     /* nothing to do */
    SL_TRACE_BUSY,     /* in a task's codelet */
    SL_TRACE_STARPU,   /* scheduling, releasing dependencies, callbacks, recording the trace */
    SL_TRACE_TRANSFER, /* fetching input, pushing output */
    SL_TRACE_N_KINDS
};

/* What a worker did for a while. A worker's states are in order and leave no gap between them. */
struct sl_trace_state {
    uint32_t worker;
    enum sl_trace_kind kind;
    uint32_t stage; /* busy */
    bool ours;      /* busy, and step is known */
    bool resumed;   /* the rest of a state that another one, pushed on it, had interrupted */
    uint64_t step;
    double start_s, end_s;
};

/* A worker of several ranks: its own number there. */
struct sl_trace_worker {
    uint32_t rank, number;
};

/* A message from rank to rank: from when it was sent until it was received. */
struct sl_trace_message {
    uint32_t from, to;
    uint64_t bytes;
    double start_s, end_s;
};

struct sl_trace_data {
    uint32_t n_ranks;               /* 0, 1: one process; the next four are of several */
    struct sl_trace_worker *worker; /* n_workers, by rank */
    size_t n_messages;
    struct sl_trace_message *message; /* in no order */
    uint32_t n_workers;               /* of one process, one more than the highest with a state */
    double makespan_s;                /* from the first submission (or task) to the end of the last task */
    uint32_t n_stages;
    struct sl_trace_stage stage[SL_TRACE_MAX_STAGES];
    size_t n_tasks; /* by job */
    struct sl_trace_task *task;
    size_t n_deps;
    uint32_t *dep;   /* positions in `task`; jobs outside the trace are left out */
    size_t n_states; /* cut to 0 .. makespan_s; by worker, then time: each worker's fill the makespan */
    struct sl_trace_state *state;
    void *file[2]; /* what the names point into; private */
};

/* What pictures and tables call a worker: "worker 3", of several ranks "rank 1: 3". */
#define SL_TRACE_WORKER_BYTES 32
void sl_trace_worker_name(const struct sl_trace_data *data, uint32_t worker, char out[SL_TRACE_WORKER_BYTES]);

/* Read folder/tasks.rec and folder/trace.rec, of several ranks folder/comms.rec. SL_EIO: one is missing. SL_EFILE: not such a
 * file (message: file, line, what was expected) or one that was cut short, no task ran in it, or a mark that does not fit its
 * task. SL_ENOTSUP: too many tasks or workers. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_trace_read(const char *folder, struct sl_trace_data *out);

void sl_trace_data_free(struct sl_trace_data *data);

#endif
