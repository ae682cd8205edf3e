/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A traced folder, read back: StarPU's tasks.rec and trace.rec, and with several ranks comms.rec. All are recutils
 * files: lines "Key: value", with empty lines between records. With several ranks StarPU has put all times on rank
 * 0's clock. Every rank's workers are numbered from 0. trace.rec has the events rank by rank, each window between
 * the marks "rankR" and "end". Events outside a window are ignored.
 *
 * Folders may come from anywhere: another machine, another StarPU program, a damaged disk. Tasks with our names
 * (sl_task_name) have a time category, a hop, a PE and a step. For tasks of foreign programs, the name up to the
 * first number is the category. A task with a mark (SL_TASK_MARK) has its codelet's times, and StarPU's time in the
 * task before and after counts as StarPU. A task without a mark has StarPU's times.
 */
#ifndef SL_APPS_REPORT_TRACE_READ_H
#define SL_APPS_REPORT_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/report/trace_name.h"

#define SL_TRACE_MAX_WORKERS 4096 /* of all ranks */
#define SL_TRACE_MAX_STAGES 64    /* ours and foreign; the last collects the rest */
#define SL_TRACE_STAGE_BYTES 48

/* A time category of the trace. The first SL_N_STAGES are the categories of enum sl_stage, even without tasks. */
struct sl_trace_stage {
    char name[SL_TRACE_STAGE_BYTES];
    unsigned colour; /* 0xRRGGBB */
};

/* A task of tasks.rec. Times are seconds from the first submission or task of the trace. */
struct sl_trace_task {
    uint64_t job;     /* StarPU's job number, with the rank in the upper bits; unique */
    const char *name; /* n_name bytes in the file, not NUL-terminated */
    uint32_t n_name;
    uint32_t stage; /* index in sl_trace_data.stage; undefined if the task did not run */
    /* True: the task has a worker, a start and an end. False: a task of StarPU's own, such as a wait for data. */
    bool ran;
    bool ours; /* hop, pe and step are known */
    uint32_t hop, pe;
    uint64_t step;
    uint32_t rank;
    uint32_t worker; /* numbered over all ranks */
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

/* An interval of a worker. A worker's states are in order and without gaps. */
struct sl_trace_state {
    uint32_t worker;
    enum sl_trace_kind kind;
    uint32_t stage; /* time category, if busy */
    bool ours;      /* busy, with a known step */
    bool resumed;   /* continues a state that a pushed state interrupted */
    uint64_t step;
    double start_s, end_s;
};

/* A worker of several ranks: its rank, and its number there. */
struct sl_trace_worker {
    uint32_t rank, number;
};

/* A message between ranks, from its sending to its receipt. */
struct sl_trace_message {
    uint32_t from, to;
    uint64_t bytes;
    double start_s, end_s;
};

struct sl_trace_data {
    uint32_t n_ranks;               /* 0 or 1: one process, and worker and message are empty */
    struct sl_trace_worker *worker; /* n_workers, ordered by rank */
    size_t n_messages;
    struct sl_trace_message *message; /* unordered */
    uint32_t n_workers;               /* one process: 1 + the highest worker with a state */
    /* From the first submission or task to the end of the last task. */
    double makespan_s;
    uint32_t n_stages;
    struct sl_trace_stage stage[SL_TRACE_MAX_STAGES];
    size_t n_tasks; /* ordered by job */
    struct sl_trace_task *task;
    size_t n_deps;
    uint32_t *dep; /* positions in `task`; jobs outside the trace are dropped */
    /* The states, ordered by worker, then time. The states of each worker fill 0 .. makespan_s. */
    size_t n_states;
    struct sl_trace_state *state;
    void *file[2]; /* private: the names */
};

/* The name of a worker in pictures and tables: "worker 3", or with several ranks "rank 1: 3". */
#define SL_TRACE_WORKER_BYTES 32
void sl_trace_worker_name(const struct sl_trace_data *data, uint32_t worker, char out[SL_TRACE_WORKER_BYTES]);

/* Read folder/tasks.rec and folder/trace.rec, and with several ranks folder/comms.rec. The caller frees *out
 * (sl_trace_data_free). SL_EIO: a file is missing. SL_EFILE: a file is not of this form (message: file, line,
 * expected text) or was cut short, no task ran, or a mark does not fit its task. SL_ENOTSUP: too many tasks or
 * workers. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_trace_read(const char *folder, struct sl_trace_data *out);

void sl_trace_data_free(struct sl_trace_data *data);

#endif
