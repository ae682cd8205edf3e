/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Starling: training graph neural networks as a StarPU task graph. This is the whole of what a program may call.
 *
 *   struct sl_settings *settings;
 *   struct sl_session *session;
 *   sl_settings_new(&settings);
 *   sl_settings_set(settings, "dataset", "arxiv");
 *   sl_session_open(settings, NULL, &session);
 *   sl_session_train(session, &(struct sl_report){.stream = stdout});
 *   sl_session_close(session);
 *   sl_settings_delete(settings);
 *
 * A function that can fail returns an enum sl_status; SL_OK is 0, errors are negative,
 * nothing is positive. sl_message() then holds one line for people: what was expected, what was found, what to try. Nothing is
 * printed to streams that were not handed in, and nothing exits. Outputs are set on success only; _close and _delete
 * accept NULL. One failure is no status: after a fault inside a kernel (an illegal address, an error of the GPU's
 * memory) CUDA refuses all further calls of the process, and StarPU ends it with abort(). Where StarPU does not know the machine's
 * buses yet, sl_session_open has it measure them, which resets the GPUs: what the program itself has there before is lost.
 *
 * One session in a process at a time (StarPU is one), and one thread drives it. Sessions may follow each other.
 */
#ifndef STARLING_H
#define STARLING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "partition/arrays.h"
#include "support/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings: the options of coop_sage or of pipe_gnn, by name without the dashes (`coop_sage --help`) ---- */

struct sl_settings;

/* The defaults of coop_sage, which trains on minibatches, or of pipe_gnn, which trains on the full graph. SL_ENOMEM. */
SL_API enum sl_status sl_settings_new(struct sl_settings **out);
SL_API enum sl_status sl_settings_new_pipe(struct sl_settings **out);
SL_API void sl_settings_delete(struct sl_settings *settings);

/* Set one option as the command line would: sl_settings_set(s, "batch-size", "512"). value NULL: the option alone, as a flag.
 * SL_EINVAL: there is none of that name (message: the nearest), or that is no value of it. SL_ENOMEM. */
SL_API enum sl_status sl_settings_set(struct sl_settings *settings, const char *name, const char *value);

/* An option's value as text that sl_settings_set would take; not given: "". Cut at bytes - 1. What is left open is decided, and then
 * found here, once a session is open. SL_EINVAL: no option of that name (message: the nearest). SL_ENOMEM. */
SL_API enum sl_status sl_settings_get(const struct sl_settings *settings, const char *name, char *text, size_t bytes);

/* Take a program's command line and the environment (STARLING_BATCH_SIZE, ..), and check that they agree with each other. --help and
 * its like are answered on the stream, and *run is false. argv's order changes. SL_EINVAL: an option or argument is wrong (message:
 * which, and what would do). SL_ENOMEM. SL_EIO: the stream has an error. */
SL_API enum sl_status sl_settings_parse(struct sl_settings *settings, int argc, char **argv, FILE *stream, bool *run);

/* ---- a session: from the settings to the last file ---- */

struct sl_session;

/* Everything up to the first step: dataset, partition, StarPU, model, and the checkpoint or weights to start from.
 * dataset: partition/arrays.h; borrowed until this returns, when it and its arrays may go. NULL: what the settings name, from files,
 * cache or generator. With arrays the options that say what to load (dataset, data-path, split, features, directed,
 * normalize-features, cache but for `none`) must be as sl_settings_new left them: others are refused, from the environment too. Metrics,
 * models and checkpoints are then of the arrays' name; a checkpoint is gone on with (resume) over the same name and sizes only, and
 * that the rest is the same is the caller's to see to.
 * settings: borrowed until the session is closed; what they leave open (pes, chunks, ..) is filled in.
 * Any status: SL_EINVAL (options that contradict each other or the checkpoint; another session, or the program's own StarPU, is up),
 * SL_ENOTFOUND (no such dataset, no checkpoint to resume), SL_EFILE, SL_ENOMEM (also: the run would need more memory than this
 * process may use, or a GPU has), SL_ESTARPU, .. On failure *out is NULL and StarPU as it was before. */
SL_API enum sl_status sl_session_open(struct sl_settings *settings, const struct sl_dataset *dataset,
                                      struct sl_session **out);

/* Stop StarPU and release everything. Where --trace was given, sl_trace_finish(DIR) then makes its files. */
SL_API void sl_session_close(struct sl_session *session);

/* What was decided, for people: dataset, partition, workers, memory, warnings; a few lines. SL_EIO. */
SL_API enum sl_status sl_session_describe(const struct sl_session *session, FILE *stream);

/* Sizes of what a session works on. */
struct sl_session_sizes {
    uint32_t n_vertices, n_features, n_classes;
    uint64_t n_edges;     /* directed, as they are trained on */
    uint32_t n_pes;       /* P */
    uint32_t n_parts;     /* G */
    uint32_t n_per_epoch; /* steps */
    uint32_t n_hidden;    /* columns of the embeddings; 0: the model has one layer */
    uint32_t n_weights;   /* arrays of the model, under the names of --save-names */
    uint64_t
        memory_bytes; /* that the run, or the rank that needs most, may need: about, and up to a tenth less than it takes */
};
SL_API void sl_session_sizes(const struct sl_session *session, struct sl_session_sizes *out);

/* ---- training ---- */

struct sl_step_news {
    uint32_t epoch; /* from 1 */
    uint64_t step;  /* from 0, over the whole run */
    double loss;    /* mean over the step's seeds */
};

struct sl_epoch_news {
    uint32_t epoch;                                   /* from 1; 0: evaluation without training */
    double loss;                                      /* mean over the epoch's seeds; NaN where nothing was trained */
    double seconds;                                   /* of training */
    bool evaluated;                                   /* else the scores are NaN */
    double valid_loss, valid_accuracy, test_accuracy; /* 0 .. 1 */
};

/* Where a run reports to, beside the file of --metrics. Callbacks are called by the thread that trains, between submissions, so that
 * they may take their time only once an epoch; of the session's functions they may call sl_session_stop. A callback returns 0 to go
 * on; any other number stops the run, as sl_session_stop does. All may be NULL. */
struct sl_report {
    FILE *stream; /* lines for people, none with --quiet; with --json the metrics' lines instead */
    void *context;
    int (*step)(void *context,
                const struct sl_step_news *news); /* every step in order, a few steps after it was submitted */
    int (*epoch)(void *context, const struct sl_epoch_news *news); /* after all its steps, and its evaluation */
};

/* Train the epochs that are left, evaluate, and write what the settings ask for (checkpoints on the way; model, predictions and
 * embeddings at the end). Once in a session: another session goes on (--checkpoint, --resume). The model is then that of the best
 * validation accuracy, or the last one where nothing was evaluated; of several replicas (--sync) the average.
 * sl_session_stop, a callback that does not return 0, or a signal seen by sl_signals_seen ends it after the step in hand, with
 * everything saved. SL_EINTERRUPT: it ended so before its last step; the message names the signal, if there was one. SL_OK: it came to
 * its end. report: NULL for none. SL_ENUMERIC: the loss is no longer finite. SL_EINVAL: it was trained already. Otherwise the first failure of a
 * task, a file, or StarPU; the graph is drained. */
SL_API enum sl_status sl_session_train(struct sl_session *session, const struct sl_report *report);

/* From a callback, another thread or a signal handler, while the session is open: end sl_session_train after the step in hand. Before
 * sl_session_train: it will end before its first step. When it has ended: nothing. */
SL_API void sl_session_stop(struct sl_session *session);

/* Whether the run has come to the steps that --trace records. NULL: no. */
SL_API bool sl_session_traced(const struct sl_session *session);

/* ---- the model: not while it is trained ----
 *
 * Before sl_session_train it is what training begins with (random, of --load, or of the checkpoint: its last weights, not its best),
 * after it what that has come to. Looking at it changes no bit of the training. After a task has failed, what it is is not said. */

/* Fractions over the split's sets; NaN where a set is empty. */
struct sl_scores {
    double valid_loss; /* mean cross entropy */
    double valid_accuracy, test_accuracy;
    double valid_f1, test_f1; /* macro */
};

/* Exact inference on all vertices. logits: N x C; embeddings: N x n_hidden, the last hidden layer; rows by the dataset's ids; either,
 * and scores, may be NULL. SL_ENOMEM, the failure of a task, of this or of the training. */
SL_API enum sl_status sl_session_evaluate(struct sl_session *session, struct sl_scores *scores, float *logits,
                                          float *embeddings);

/* An array of the model, by its number below n_weights, as --save-names calls it. */
struct sl_weight {
    char name[128];
    uint32_t n_dims;   /* 1 .. 3 */
    uint64_t shape[3]; /* n_dims of them */
};

/* Its name and shape, and its values, row major, into `values` (NULL: not wanted), which has room for all.
 * SL_EINVAL: there are not so many. SL_ENOMEM, SL_ESTARPU. */
SL_API enum sl_status sl_session_weight(struct sl_session *session, uint32_t i, struct sl_weight *out, float *values);

/* ---- several processes: mpirun -np 4 coop_sage .. ----
 *
 * Where mpirun or srun has started several processes of a program, their sessions are one run: each has its share of the PEs, and all get
 * the same losses and the same model. sl_session_open, sl_session_train and sl_session_close are then calls of all of them, with the
 * same settings; process 0 alone writes files and lines for people, and callbacks are called in each. sl_session_evaluate and
 * sl_session_weight are not there. With gossip (--sync) steps are reported when their epoch ends, and so does a run that is to stop.
 * One that fails leaves the others waiting: it ends all with sl_process_abort, before it closes its session. In a build without
 * MPI sl_session_open refuses such a start. */

/* How many the launcher's environment speaks of, 1 without one; the number of this one among them. */
SL_API uint32_t sl_process_count(void);
SL_API uint32_t sl_process_number(void);

/* Join the others, and refuse settings that are not there over several processes; sl_session_open does, too. SL_ENOTSUP, SL_EINVAL. */
SL_API enum sl_status sl_process_join(const struct sl_settings *settings);

/* Have this called, in a thread whose sl_message says why, where sl_session_train does not get to return: of several processes by a task
 * that fails, before any other process gets to see what it has left; and, with --watchdog, where nothing moves any more, in the only
 * process, too. For sl_process_abort, or the end of the process. NULL, the default: sl_session_train returns a task's failure, and
 * --watchdog is refused. Before sl_session_open. */
SL_API void sl_process_on_failure(void (*hook)(void));

/* End all processes of the run, with this code. Any thread. Returns where this is the only one, or not joined yet. */
SL_API void sl_process_abort(int code);

/* ---- streams, traces and signals, for programs like coop_sage ---- */

/* First of all: open standard streams that the program was started without, so that reading and writing them fails. Else the first
 * files that are opened take their numbers, and lines for people end up in a file of the run's. */
SL_API void sl_streams_open(void);

/* After a traced session was closed, by all processes of the run, of which process 0 does it: convert the raw trace in the
 * folder of --trace with StarPU's converter and write the report. Takes seconds. A child process converts, so that a converter
 * that gives up does not take the caller along. SL_EIO: the raw trace is not there, or a file cannot be written. SL_ESTARPU:
 * StarPU's converter failed. SL_ENOTSUP: StarPU was built without FxT, or the report cannot hold so many tasks or workers. SL_EFILE: the
 * raw trace is not whole; what was converted of it is removed. Files are replaced whole; on other failures the older ones stay. */
SL_API enum sl_status sl_trace_finish(const char *folder);

/* After a run that failed: remove the raw trace, which will not be converted. */
SL_API void sl_trace_discard(const char *folder);

/* Let SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP and SIGXCPU end sl_session_train after the step in hand, with SL_EINTERRUPT. A second
 * signal ends the program at once, except a repeated SIGHUP or SIGXCPU, which the system itself sends. A signal that is ignored stays
 * ignored (nohup, background jobs). One at a time in a process; not thread safe. SL_EINVAL: installed already. SL_EIO: the
 * system refuses. sl_session_stop needs none of this. */
SL_API enum sl_status sl_signals_install(void);

/* The number of the signal that asked to stop, since sl_signals_install; 0: none. Any thread may ask, at any time. */
SL_API int sl_signals_seen(void);

/* Give the signals back what they had before sl_signals_install, and forget a signal that was seen: a later sl_session_train is not
 * stopped by it. Harmless if nothing is installed. */
SL_API void sl_signals_restore(void);

#ifdef __cplusplus
}
#endif

#endif
