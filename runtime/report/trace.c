/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * FxT on and off, its conversion, and the colours of the Paje trace. */
#include "runtime/report/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codelets/ranks.h"
#include "runtime/report/report.h"
#include "runtime/report/trace_read.h"
#include "support/file.h"
#include "support/memory.h"

#if defined(STARPU_USE_FXT) && (STARPU_MAJOR_VERSION > 1 || (STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION >= 4))
#define CAN_TRACE 1
#else
#define CAN_TRACE 0
#endif

#define RAW_NAME                                                                                                       \
    "trace.fxt" /* what is kept of one process; of several the files keep the names that StarPU gives them */

#define DISK_BEFORE ((uint64_t)16 << 20) /* bytes free: less than this the traces of one step may have */
#define DISK_AFTER ((uint64_t)64 << 10)

/* ---- the window ---- */

/* What StarPU makes of RAW_NAME: the process's rank is appended. */
static enum sl_status written_path(const char *folder, uint32_t rank, char **out)
{
    return sl_format(out, "%s/" RAW_NAME "_%u", folder, rank);
}

#if CAN_TRACE

/* Set a variable, or remove it where `value` is NULL. */
static enum sl_status set_variable(const char *name, const char *value)
{
    int error = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    return error == 0 ? SL_OK : sl_fail(SL_ENOMEM, "no memory to set StarPU's environment");
}

/* A trace that an earlier run was killed before it could convert. */
static enum sl_status remove_raw(const char *folder)
{
    char *path = NULL;
    enum sl_status st = written_path(folder, sl_ranks_number(), &path);
    if (st == SL_OK && unlink(path) != 0 && errno != ENOENT) {
        st = sl_fail(SL_EIO, "%s: cannot replace it: %s", path, strerror(errno));
    }
    sl_free(path);
    return st;
}

/* What a folder's disk has left; a disk that does not say has enough. */
static uint64_t free_bytes(const char *folder)
{
    struct statvfs disk;
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
}

static enum sl_status check_disk(const char *folder, uint64_t wanted)
{
    uint64_t found = free_bytes(folder);
    return found >= wanted
               ? SL_OK
               : sl_fail(SL_EIO,
                         "%s: found %llu KiB free on the disk of this folder, expected at least %llu for a trace; free "
                         "some, trace fewer steps, or give --trace another folder",
                         folder, (unsigned long long)found >> 10, (unsigned long long)wanted >> 10);
}

static enum sl_status prepare(const char *folder)
{
    char *prefix = NULL;
    enum sl_status st;
    if (sl_ranks_started() > STARPU_FXT_MAX_FILES) {
        st = sl_fail(SL_ENOTSUP, "--trace: found %u processes of one run, expected at most %d, which StarPU can join",
                     sl_ranks_started(), STARPU_FXT_MAX_FILES);
        goto done;
    }
    SL_TRY(st, sl_folder_make(folder), done);
    if (!sl_folder_writable(folder)) {
        st = sl_fail(SL_EIO, "%s: cannot write traces into this folder; give --trace another", folder);
        goto done;
    }
    SL_TRY(st, remove_raw(folder), done);
    SL_TRY(st, check_disk(folder, DISK_BEFORE), done);
    SL_TRY(st, sl_format(&prefix, "%s/", folder), done);
    SL_TRY(st, set_variable("STARPU_FXT_TRACE", "1"), done);
    SL_TRY(st, set_variable("STARPU_FXT_PREFIX", prefix), done);
    SL_TRY(st, set_variable("STARPU_FXT_SUFFIX", RAW_NAME), done);
    SL_TRY(st, set_variable("STARPU_GENERATE_TRACE", "0"), done); /* sl_trace_finish does it */
    starpu_fxt_autostart_profiling(0);
done:
    sl_free(prefix);
    return st;
}

#else

static enum sl_status no_fxt(void)
{
    return sl_fail(SL_ENOTSUP,
                   "--trace: StarPU %d.%d here was built without FxT, expected 1.4 with it; ./bootstrap builds "
                   "one, as does StarPU's configure --with-fxt",
                   STARPU_MAJOR_VERSION, STARPU_MINOR_VERSION);
}

#endif

enum sl_status sl_trace_prepare(const struct sl_settings *settings)
{
    if (settings->trace == NULL) { /* StarPU 1.3 traces into /tmp unless told not to */
        return setenv("STARPU_FXT_TRACE", "0", 1) == 0 ? SL_OK
                                                       : sl_fail(SL_ENOMEM, "no memory to set StarPU's environment");
    }
#if CAN_TRACE
    return prepare(settings->trace);
#else
    return no_fxt();
#endif
}

enum sl_status sl_trace_open(const struct sl_settings *settings, uint64_t first_step, uint64_t n_steps,
                             uint32_t n_per_epoch, struct sl_trace *out)
{
    struct sl_trace trace = {.wanted = true, .ahead = settings->depth};
    *out = (struct sl_trace){0};
    if (settings->trace == NULL) {
        return SL_OK;
    }
    if (first_step >= n_steps) {
        return sl_fail(SL_EINVAL, "--trace: found no step to train, expected at least one; raise --epochs");
    }
    if (!sl_settings_trace_steps(settings, &trace.first, &trace.last)) { /* the rest of the run's first epoch */
        trace.first = first_step;
        trace.last = (first_step / n_per_epoch + 1) * n_per_epoch - 1;
    }
    if (trace.first < first_step || trace.last >= n_steps) {
        return sl_fail(SL_EINVAL,
                       "--trace-steps: found %llu:%llu, expected steps from %llu to %llu, which this run trains",
                       (unsigned long long)trace.first, (unsigned long long)trace.last, (unsigned long long)first_step,
                       (unsigned long long)n_steps - 1);
    }
    *out = trace;
    return SL_OK;
}

#if CAN_TRACE

/* Whose events come now, in a trace of several ranks. */
static void mark_rank(void)
{
    char mark[32];
    snprintf(mark, sizeof mark, "rank%u", sl_rank());
    if (sl_n_ranks() > 1) {
        starpu_fxt_trace_user_event_string(mark);
    }
}

#endif

void sl_trace_before_step(struct sl_trace *trace, uint64_t step)
{
#if CAN_TRACE
    if (!trace->wanted) {
        return;
    }
    if (!trace->on && step + trace->ahead >= trace->first) {
        sl_ranks_drain();
        starpu_fxt_start_profiling();
        trace->on = true;
        trace->opened = true;
        mark_rank();
    }
    if (trace->on) {
        char mark[32];
        snprintf(mark, sizeof mark, "step%llu", (unsigned long long)step);
        starpu_fxt_trace_user_event_string(mark);
    }
#else
    (void)trace;
    (void)step;
#endif
}

void sl_trace_after_step(struct sl_trace *trace, uint64_t step)
{
    if (trace->on && step >= trace->last) {
        sl_trace_stop(trace);
    }
}

void sl_trace_stop(struct sl_trace *trace)
{
#if CAN_TRACE
    if (trace->on) {
        sl_ranks_drain();
        starpu_fxt_trace_user_event_string("end");
        starpu_fxt_stop_profiling();
    }
#endif
    trace->on = false;
    trace->wanted = false;
}

void sl_trace_discard(const char *folder)
{
    char *path;
    if (written_path(folder, sl_ranks_number(), &path) == SL_OK) {
        unlink(path);
        sl_free(path);
    }
}

/* ---- the conversion ---- */

#if CAN_TRACE

/* What is kept of the files that the converter makes, the last of several ranks; direct_files has the same order. */
static const char *const kept[] = {"paje.trace", "trace.rec", "data.rec", "tasks.rec", "comms.rec"};
#define N_KEPT (sizeof kept / sizeof *kept)

static size_t n_kept(void)
{
    return sl_n_ranks() > 1 ? N_KEPT : N_KEPT - 1;
}

/* A file on its way from the converter, which does not look at what becomes of its writes, through a pipe to us, who do. */
struct passage {
    int from, to; /* the pipe's ends; -1: closed */
    struct sl_writer writer;
};

static void close_end(int *end)
{
    if (*end >= 0) {
        close(*end);
    }
    *end = -1;
}

static void passages_close(struct passage *passages)
{
    for (size_t i = 0; i < n_kept(); i++) {
        close_end(&passages[i].from);
        close_end(&passages[i].to);
        sl_writer_abort(&passages[i].writer);
    }
}

static enum sl_status passages_open(const char *folder, struct passage *passages)
{
    char *path = NULL;
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < n_kept(); i++) {
        passages[i] = (struct passage){.from = -1, .to = -1};
    }
    for (size_t i = 0; i < n_kept(); i++) {
        int ends[2];
        SL_TRY(st, sl_path_join(folder, kept[i], &path), failed);
        SL_TRY(st, sl_writer_open(path, &passages[i].writer), failed);
        if (pipe(ends) != 0) {
            st = sl_fail(SL_EIO, "no pipe for StarPU's converter: %s", strerror(errno));
            goto failed;
        }
        passages[i].from = ends[0];
        passages[i].to = ends[1];
        sl_free(path);
        path = NULL;
    }
    return SL_OK;
failed:
    sl_free(path);
    passages_close(passages);
    return st;
}

/* Until the converter has ended. Errors are gathered by the writers. */
static enum sl_status pass_on(struct passage *passages)
{
    static char block[1 << 16];
    struct pollfd ends[N_KEPT];
    size_t n_open = n_kept();
    for (size_t i = 0; i < n_kept(); i++) {
        close_end(&passages[i].to);
        ends[i] = (struct pollfd){.fd = passages[i].from, .events = POLLIN};
    }
    while (n_open > 0) {
        if (poll(ends, n_kept(), -1) < 0 && errno != EINTR) {
            return sl_fail(SL_EIO, "StarPU's converter was lost: %s", strerror(errno));
        }
        for (size_t i = 0; i < n_kept(); i++) {
            ssize_t n = ends[i].fd >= 0 && ends[i].revents != 0 ? read(ends[i].fd, block, sizeof block) : -1;
            if (n > 0) {
                fwrite(block, 1, (size_t)n, passages[i].writer.stream);
            } else if (n == 0) {
                ends[i].fd = -1; /* poll leaves it out */
                n_open--;
            }
        }
    }
    return SL_OK;
}

/* A path of the converter's options, which are its own to free. */
static void direct(char **path, const char *to)
{
    free(*path);
    *path = strdup(to);
}

/* What is kept goes into the pipes; what is not need not be written. */
static void direct_files(const struct passage *passages, struct starpu_fxt_options *options)
{
    char **const into_pipes[N_KEPT] = {&options->out_paje_path, &options->states_path, &options->data_path,
                                       &options->tasks_path, &options->comms_path};
    char **const nowhere[] = {&options->dag_path,        &options->activity_path,      &options->distrib_time_path,
                              &options->papi_path,       &options->number_events_path, &options->anim_path,
                              &options->sched_tasks_path};
    for (size_t i = 0; i < n_kept(); i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/fd/%d", passages[i].to);
        direct(into_pipes[i], path);
    }
    for (size_t i = n_kept(); i < N_KEPT; i++) {
        direct(into_pipes[i], "/dev/null");
    }
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        direct(nowhere[i], "/dev/null");
    }
}

/* In a child process, which ends with its parent, and whose working folder is the one to write into; what the converter says would mean
 * nothing to a user. */
static void convert_here(pid_t parent, const char *folder, struct passage *passages)
{
    struct starpu_fxt_options options;
    int nowhere = open("/dev/null", O_WRONLY);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) { /* it would wait at a full pipe for ever */
        _exit(1);
    }
    if (chdir(folder) != 0 || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(nowhere, STDERR_FILENO) < 0) {
        _exit(1);
    }
    close(nowhere);
    for (size_t i = 0; i < n_kept(); i++) {
        close_end(&passages[i].from);
        close(fileno(passages[i].writer.stream));
    }
    starpu_fxt_options_init(&options);
    options.ninputfiles = sl_n_ranks();
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        if (written_path("..", r, &options.filenames[r]) != SL_OK) {
            _exit(1);
        }
    }
    options.per_task_colour = 1;
    options.use_task_color = 1;
    direct_files(passages, &options);
    starpu_fxt_generate_trace(&options);
    starpu_fxt_options_shutdown(&options);
    _exit(0);
}

static enum sl_status wait_for(pid_t child, const char *raw)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return sl_fail(SL_ESTARPU, "StarPU's converter was lost: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return sl_fail(
            SL_ESTARPU,
            "StarPU could not convert its trace %s; is the disk full, or 'ulimit -n' under 32? 'starpu_fxt_tool "
            "-i' on it tells more",
            raw);
    }
    return SL_OK;
}

static enum sl_status convert(const char *folder, const char *raw)
{
    struct passage passages[N_KEPT];
    enum sl_status st = passages_open(folder, passages);
    if (st != SL_OK) {
        return st;
    }
    pid_t self = getpid();
    pid_t child = fork();
    if (child == 0) {
        convert_here(self, folder, passages);
    }
    if (child < 0) {
        st = sl_fail(SL_ENOMEM, "no process for StarPU's converter: %s", strerror(errno));
        goto done;
    }
    enum sl_status passed = pass_on(passages);
    if (passed != SL_OK) {
        kill(child, SIGKILL);
    }
    SL_TRY(st, wait_for(child, raw), done);
    SL_TRY(st, passed, done);
    for (size_t i = 0; i < n_kept(); i++) {
        SL_TRY(st, sl_writer_close(&passages[i].writer), done);
    }
done:
    passages_close(passages);
    return st;
}

/* ---- the Paje trace ---- */

/* A definition of a task's state: "6 NAME TYPE NAME "RED GREEN BLUE"". StarPU 1.4 writes colours of 0..255 where viewers expect
 * 0..1, and defines each state again for ten scheduling contexts that we do not use: write it once, with its stage's colour.
 * False: it is something else. */
static bool mend_state(const char *line, size_t n, FILE *stream)
{
    struct sl_trace_name name;
    const char *tab = n > 2 && line[0] == '6' && line[1] == '\t' ? memchr(line + 2, '\t', n - 2) : NULL;
    if (tab == NULL) {
        return false;
    }
    const char *type = tab + 1;
    size_t left = n - (size_t)(type - line);
    size_t alias = (size_t)(tab - line) - 2;
    if (left > 3 && memcmp(type, "Ctx", 3) == 0) { /* NAME_1 .. NAME_10 */
        while (alias > 0 && line[2 + alias - 1] != '_') {
            alias--;
        }
        return alias > 0 && sl_trace_name_parse(line + 2, alias - 1, &name);
    }
    if (left < 3 || memcmp(type, "WS\t", 3) != 0 || !sl_trace_name_parse(line + 2, alias, &name)) {
        return false;
    }
    unsigned c = sl_stage_colour(name.stage);
    fprintf(stream, "6\t%.*s\tWS\t%.*s\t\"%.3f %.3f %.3f\"\n", (int)alias, line + 2, (int)alias, line + 2,
            (c >> 16 & 255) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
    return true;
}

/* A task's mark: it is for the report, and in a viewer would hide those of the steps. */
static bool is_mark(const char *line, size_t n)
{
    static const char value[] = "\"" SL_TASK_MARK;
    size_t bytes = sizeof value - 1;
    const char *quote = n > 0 && line[0] == '9' ? memchr(line, '"', n) : NULL;
    return quote != NULL && n - (size_t)(quote - line) >= bytes && memcmp(quote, value, bytes) == 0;
}

static enum sl_status copy_paje(const char *from, const char *to)
{
    struct sl_map map;
    struct sl_writer writer;
    enum sl_status st = sl_file_map(from, &map);
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, sl_writer_open(to, &writer), unmap);
    const char *text = (const char *)map.data;
    for (size_t at = 0; at < map.bytes;) {
        const char *end = memchr(text + at, '\n', map.bytes - at);
        size_t n = end == NULL ? map.bytes - at : (size_t)(end - (text + at)) + 1;
        if (!is_mark(text + at, n) && !mend_state(text + at, n, writer.stream)) {
            fwrite(text + at, 1, n, writer.stream);
        }
        at += n;
    }
    st = sl_writer_close(&writer);
unmap:
    sl_file_unmap(&map);
    return st;
}

/* ---- files into place ---- */

static enum sl_status move(const char *from_folder, const char *from_name, const char *to_folder, const char *to_name)
{
    char *from = NULL;
    char *to = NULL;
    enum sl_status st;
    SL_TRY(st, sl_path_join(from_folder, from_name, &from), done);
    SL_TRY(st, sl_path_join(to_folder, to_name, &to), done);
    if (strcmp(from_name, "paje.trace") == 0) {
        st = copy_paje(from, to);
    } else if (rename(from, to) != 0) {
        st = sl_fail(SL_EIO, "%s: cannot move the trace there: %s", to, strerror(errno));
    }
done:
    sl_free(to);
    sl_free(from);
    return st;
}

/* Remove a folder of plain files. */
static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir)) {
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(folder);
}

static enum sl_status convert_and_move(const char *folder, const char *work, const char *raw)
{
    enum sl_status st;
    SL_TRY(st, convert(work, raw), done);
    for (size_t i = 0; i < n_kept(); i++) {
        SL_TRY(st, move(work, kept[i], folder, kept[i]), done);
    }
    st = sl_n_ranks() == 1 ? move(folder, RAW_NAME "_0", folder, RAW_NAME) : SL_OK;
done:
    return st;
}

/* What was made of a trace of StarPU's that does not tell of a whole run, as where the disk took less than it said. */
static void remove_kept(const char *folder)
{
    for (size_t i = 0; i < n_kept(); i++) {
        char *path;
        if (sl_path_join(folder, kept[i], &path) == SL_OK) {
            unlink(path);
            sl_free(path);
        }
    }
}

/* All ranks' are there; *last_out is the last's, for messages. */
static enum sl_status find_raw(const char *folder, char **last_out)
{
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        sl_free(*last_out);
        *last_out = NULL;
        SL_TRY(st, written_path(folder, r, last_out), done);
        if (!sl_file_exists(*last_out)) {
            st = sl_fail(SL_EIO, "%s: expected StarPU's trace there, found none%s", *last_out,
                         r > 0 ? "; --trace has to be a folder that all ranks share" : "");
            goto done;
        }
    }
done:
    return st;
}

enum sl_status sl_trace_finish(const char *folder)
{
    char *raw = NULL;
    char *work = NULL;
    enum sl_status st;
    SL_TRY(st, sl_ranks_barrier(), done);
    if (sl_rank() > 0) {
        return SL_OK;
    }
    SL_TRY(st, find_raw(folder, &raw), done);
    SL_TRY(st, check_disk(folder, DISK_AFTER), done); /* full: StarPU's trace is cut short */
    SL_TRY(st, sl_format(&work, "%s/convert-XXXXXX", folder), done);
    if (mkdtemp(work) == NULL) {
        st = sl_fail(SL_EIO, "%s: cannot make a folder there: %s", folder, strerror(errno));
        goto done;
    }
    st = convert_and_move(folder, work, raw);
    remove_folder(work);
    SL_TRY(st, st, done);
    st = sl_report_write(folder);
    if (st == SL_EFILE) {
        remove_kept(folder);
    }
done:
    sl_free(work);
    sl_free(raw);
    return st;
}

#else

enum sl_status sl_trace_finish(const char *folder)
{
    (void)folder;
    return no_fxt();
}

#endif
