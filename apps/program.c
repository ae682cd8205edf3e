/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * From the command line to the exit code. */
#include "apps/program.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define EXIT_BY_SIGINT (128 + SIGINT)
#define USAGE_S 2           /* other ranks report an error of their own command line after this time */
#define MOMENT_NS 200000000 /* rank 0 reports at once, other ranks after this time */

static int complain(const char *program, int code)
{
    if (sl_process_number() == 0) {
        fprintf(stderr, "%s: %s\n", program, sl_message());
    } else { /* if rank 0 has the same error, it has reported it, and the launcher ends this rank */
        nanosleep(&(struct timespec){.tv_sec = USAGE_S}, NULL);
        fprintf(stderr, "%s: rank %u: %s\n", program, sl_process_number(), sl_message());
    }
    return code;
}

static const char *program_name;

/* End all processes: the others would wait for this failed process. If all have failed, rank 0 reports first,
 * without a pause. Within a process the first thread reports, a worker or the training thread. */
static void end_all(void)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (sl_process_count() > 1) {
        while (atomic_flag_test_and_set(&reported)) {
            pause(); /* until the process ends */
        }
        nanosleep(&(struct timespec){.tv_nsec = sl_process_number() == 0 ? 0 : MOMENT_NS}, NULL);
        fprintf(stderr, "%s: rank %u: %s\n", program_name, sl_process_number(), sl_message());
        fflush(stderr);
        sl_process_abort(EXIT_FAILED);
    }
}

/* End all processes after a run without progress, or after the failure of a task with remote dependents. */
static void give_up(void)
{
    end_all();
    fprintf(stderr, "%s: %s\n", program_name, sl_message());
    _exit(EXIT_FAILED);
}

/* Make the trace's files. If the run failed, or ended before the steps to trace, remove its raw trace. */
static enum sl_status finish_trace(const char *folder, enum sl_status st, bool traced, bool verbose)
{
    bool ended = st == SL_OK || st == SL_EINTERRUPT;
    if (!ended || !traced) {
        sl_trace_discard(folder);
        if (ended && verbose) {
            printf("trace     none: the run ended before the steps to trace\n");
        }
        return st;
    }
    enum sl_status finished = sl_trace_finish(folder);
    if (finished == SL_OK && verbose) {
        printf("trace     starling report %s\n", folder);
    }
    return finished == SL_OK ? st : finished;
}

static bool is_set(const struct sl_settings *settings, const char *flag)
{
    char text[8];
    return sl_settings_get(settings, flag, text, sizeof text) == SL_OK && text[0] == 'y';
}

/* *signal_out: the signal that asked to stop, or 0. */
static enum sl_status run(struct sl_settings *settings, int *signal_out)
{
    const struct sl_report report = {.size = sizeof report, .stream = stdout};
    struct sl_session *session = NULL;
    char folder[4096];
    enum sl_status st;
    SL_TRY(st, sl_session_open(settings, NULL, &session), done);
    SL_TRY(st, sl_signals_install(), done);
    st = sl_session_train(session, &report);
done:
    if (st != SL_OK && st != SL_EINTERRUPT) {
        end_all();
    }
    *signal_out = sl_signals_seen();
    sl_signals_restore();
    bool traced = sl_session_traced(session);
    sl_session_close(session);
    if (sl_settings_get(settings, "trace", folder, sizeof folder) == SL_OK && folder[0] != '\0') {
        bool verbose = sl_process_number() == 0 && !is_set(settings, "quiet") && !is_set(settings, "json");
        st = finish_trace(folder, st, traced, verbose);
    }
    return st;
}

/* An interrupted run has saved everything. Batch systems that sent the signal see success; a shell sees SIGINT. */
static int run_to_code(const char *program, struct sl_settings *settings)
{
    int number = 0;
    signal(SIGPIPE, SIG_IGN); /* lines that nobody reads are lost, as on a full disk; the model is not */
    enum sl_status st = run(settings, &number);
    if (st == SL_EINTERRUPT) {
        return number == SIGINT ? EXIT_BY_SIGINT : EXIT_GOOD;
    }
    return st == SL_OK ? EXIT_GOOD : complain(program, EXIT_FAILED);
}

int run_program(const char *program, enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv)
{
    struct sl_settings *settings;
    bool runs = false;
    int code = EXIT_GOOD;
    program_name = program;
    sl_process_on_failure(give_up);
    show_notices(program, false);
    if (defaults(&settings) != SL_OK) {
        return complain(program, EXIT_FAILED);
    }
    enum sl_status st = sl_settings_parse(settings, argc, argv, stdout, &runs);
    show_notices(program, is_set(settings, "quiet"));
    if (st != SL_OK) {
        code = complain(program, st == SL_EIO || st == SL_EFILE ? EXIT_FAILED : EXIT_USAGE);
    } else if (runs && sl_process_join(settings) != SL_OK) {
        code = complain(program, EXIT_USAGE);
    } else if (runs) {
        code = run_to_code(program, settings);
    }
    sl_settings_delete(settings);
    return flush_output(program, code);
}
