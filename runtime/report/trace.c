/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * FxT on and off, the conversion of its trace, and the colours of the Paje trace. */
#include "runtime/report/trace.h"

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

#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/number.h"
#include "tasks/ranks.h"

#define RAW_NAME "trace.fxt" /* name of the kept raw trace; the files of several ranks keep StarPU's names */

/* Free bytes on the disk: needed before a run, and after it. */
#define DISK_BEFORE ((uint64_t)16 << 20)
#define DISK_AFTER ((uint64_t)64 << 10)

/* ---- names of tasks ---- */

bool sl_trace_name_parse(const char *text, size_t n, struct sl_trace_name *out)
{
    char copy[SL_TASK_NAME_BYTES] = "";
    char again[SL_TASK_NAME_BYTES];
    char stage[16];
    char direction[4];
    char operation[48];
    unsigned long long step;
    int s = 0;
    if (n >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, n);
    if (sscanf(copy, "%15[a-z].%3[a-z].%47[^.].hop%u.pe%u.step%llu", stage, direction, operation, &out->hop, &out->pe,
               &step) != 6) {
        return false;
    }
    while (s < SL_N_STAGES && strcmp(stage, sl_stage_name((enum sl_stage)s)) != 0) {
        s++;
    }
    out->stage = (enum sl_stage)s;
    out->step = step;
    snprintf(again, sizeof again, "%s.%s.%s.hop%u.pe%u.step%llu", stage, direction, operation, out->hop, out->pe, step);
    return s < SL_N_STAGES && strlen(direction) == 3 && strstr("fwd bwd upd", direction) != NULL &&
           strcmp(again, copy) == 0;
}

/* ---- the window ---- */

/* The raw trace of StarPU: RAW_NAME with the process's rank. */
static enum sl_status written_path(const char *folder, uint32_t rank, char **out)
{
    return sl_format(out, "%s/" RAW_NAME "_%u", folder, rank);
}

static bool prepared; /* whether the raw trace of this process may be in its folder */

#ifdef STARPU_USE_FXT

static enum sl_status set_variable(const char *name, const char *value)
{
    SL_FAIL_IF(setenv(name, value, 1) != 0, SL_ENOMEM, "no memory to set StarPU's environment");
    return SL_OK;
}

/* Remove the raw trace of a killed run. */
static enum sl_status remove_raw(const char *folder)
{
    SL_FREED char *path = NULL;
    SL_CHECK(written_path(folder, sl_ranks_number(), &path));
    SL_FAIL_IF(unlink(path) != 0 && errno != ENOENT, SL_EIO, "%s: cannot replace it: %s", path, strerror(errno));
    return SL_OK;
}

/* Free bytes on the folder's disk; UINT64_MAX if the disk does not tell. */
static uint64_t free_bytes(const char *folder)
{
    struct statvfs disk;
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
}

static enum sl_status check_disk(const char *folder, uint64_t wanted)
{
    uint64_t found = free_bytes(folder);
    SL_FAIL_IF(found < wanted, SL_EIO,
               "%s: found %llu KiB free on the disk of this folder, expected at least %llu for a trace; free "
               "some, trace fewer steps, or give --trace another folder",
               folder, (unsigned long long)found >> 10, (unsigned long long)wanted >> 10);
    return SL_OK;
}

static enum sl_status prepare(const char *folder)
{
    SL_FREED char *prefix = NULL;
    SL_FAIL_IF(sl_ranks_started() > STARPU_FXT_MAX_FILES, SL_ENOTSUP,
               "--trace: found %u processes of one run, expected at most %d, which StarPU can join", sl_ranks_started(),
               STARPU_FXT_MAX_FILES);
    SL_CHECK(sl_folder_make(folder));
    SL_FAIL_IF(!sl_folder_writable(folder), SL_EIO, "%s: cannot write traces into this folder; give --trace another",
               folder);
    SL_CHECK(remove_raw(folder));
    prepared = true;
    SL_CHECK(check_disk(folder, DISK_BEFORE));
    SL_CHECK(sl_format(&prefix, "%s/", folder));
    SL_CHECK(set_variable("STARPU_FXT_TRACE", "1"));
    SL_CHECK(set_variable("STARPU_FXT_PREFIX", prefix));
    SL_CHECK(set_variable("STARPU_FXT_SUFFIX", RAW_NAME));
    SL_CHECK(set_variable("STARPU_GENERATE_TRACE", "0")); /* sl_trace_finish converts instead */
    starpu_fxt_autostart_profiling(0);
    return SL_OK;
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
#ifdef STARPU_USE_FXT
    if (settings->trace == NULL) { /* whatever the user's environment says */
        return set_variable("STARPU_FXT_TRACE", "0");
    }
    return prepare(settings->trace);
#else
    if (settings->trace != NULL) {
        return no_fxt();
    }
    return SL_OK;
#endif
}

enum sl_status sl_trace_open(const struct sl_settings *settings, uint64_t first_step, uint64_t n_steps,
                             uint64_t epoch_end, struct sl_trace *out)
{
    struct sl_trace trace = {.wanted = true, .ahead = settings->depth};
    *out = (struct sl_trace){0};
    if (settings->trace == NULL) {
        return SL_OK;
    }
    SL_FAIL_IF(first_step >= n_steps, SL_EINVAL,
               "--trace: found no step to train, expected at least one; raise --epochs");
    if (!sl_settings_trace_steps(settings, &trace.first, &trace.last)) { /* the rest of the run's first epoch */
        trace.first = first_step;
        trace.last = epoch_end - 1;
    }
    SL_FAIL_IF(trace.first < first_step || (trace.last >= n_steps && settings->vertex_budget == 0), SL_EINVAL,
               "--trace-steps: found %llu:%llu, expected steps from %llu to %llu, which this run trains",
               (unsigned long long)trace.first, (unsigned long long)trace.last, (unsigned long long)first_step,
               (unsigned long long)n_steps - 1);
    *out = trace;
    return SL_OK;
}

#ifdef STARPU_USE_FXT

/* Mark the following events as this rank's, if the run has several. */
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
#ifdef STARPU_USE_FXT
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
#ifdef STARPU_USE_FXT
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
    SL_IN_C_LOCALE;
    SL_FREED char *path = NULL;
    if (!prepared) {
        return;
    }
    if (written_path(folder, sl_ranks_number(), &path) == SL_OK) {
        unlink(path);
    }
    rmdir(folder); /* if it is empty */
    prepared = false;
}

/* ---- the conversion ---- */

#ifdef STARPU_USE_FXT

/* The kept files of the converter; the last only with several ranks. set_paths has the same order. */
static const char *const kept[] = {"paje.trace", "trace.rec", "data.rec", "tasks.rec", "dag.dot", "comms.rec"};
#define N_KEPT (sizeof kept / sizeof *kept)

static size_t n_kept(void)
{
    return sl_n_ranks() > 1 ? N_KEPT : N_KEPT - 1;
}

/* A file of the converter, which reaches us through a pipe. The converter ignores failed writes; our writer reports
 * them. */
struct channel {
    int from, to; /* ends of the pipe; -1: closed */
    struct sl_writer writer;
};

static void close_end(int *end)
{
    if (*end >= 0) {
        close(*end);
    }
    *end = -1;
}

static void channels_close(struct channel (*channels)[N_KEPT])
{
    for (size_t i = 0; i < N_KEPT; i++) {
        close_end(&(*channels)[i].from);
        close_end(&(*channels)[i].to);
        sl_writer_abort(&(*channels)[i].writer);
    }
}

static enum sl_status channels_open(const char *folder, struct channel *channels)
{
    for (size_t i = 0; i < n_kept(); i++) {
        SL_FREED char *path = NULL;
        int ends[2];
        SL_CHECK(sl_path_join(folder, kept[i], &path));
        SL_CHECK(sl_writer_open(path, &channels[i].writer));
        SL_FAIL_IF(pipe(ends) != 0, SL_EIO, "no pipe for StarPU's converter: %s", strerror(errno));
        channels[i].from = ends[0];
        channels[i].to = ends[1];
    }
    return SL_OK;
}

/* Copy from the pipes to the files until the converter has ended. The writers record errors. */
static enum sl_status copy_output(struct channel *channels)
{
    static char block[1 << 16];
    struct pollfd ends[N_KEPT];
    size_t n_open = n_kept();
    for (size_t i = 0; i < n_kept(); i++) {
        close_end(&channels[i].to);
        ends[i] = (struct pollfd){.fd = channels[i].from, .events = POLLIN};
    }
    while (n_open > 0) {
        SL_FAIL_IF(poll(ends, n_kept(), -1) < 0 && errno != EINTR, SL_EIO, "StarPU's converter was lost: %s",
                   strerror(errno));
        for (size_t i = 0; i < n_kept(); i++) {
            if (ends[i].fd < 0 || ends[i].revents == 0) {
                continue;
            }
            ssize_t n = read(ends[i].fd, block, sizeof block);
            if (n > 0) {
                fwrite(block, 1, (size_t)n, channels[i].writer.stream);
            } else if (n == 0) {
                ends[i].fd = -1; /* poll ignores it */
                n_open--;
            }
        }
    }
    return SL_OK;
}

/* Replace a path of the converter's options. The converter frees it. */
static void set_path(char **path, const char *to)
{
    free(*path);
    *path = strdup(to);
}

/* Direct the kept files into the pipes, and all others to /dev/null. */
static void set_paths(const struct channel *channels, struct starpu_fxt_options *options)
{
    char **const into_pipes[N_KEPT] = {&options->out_paje_path, &options->states_path, &options->data_path,
                                       &options->tasks_path,    &options->dag_path,    &options->comms_path};
    char **const nowhere[] = {&options->activity_path,      &options->distrib_time_path, &options->papi_path,
                              &options->number_events_path, &options->anim_path,         &options->sched_tasks_path};
    for (size_t i = 0; i < n_kept(); i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/fd/%d", channels[i].to);
        set_path(into_pipes[i], path);
    }
    for (size_t i = n_kept(); i < N_KEPT; i++) {
        set_path(into_pipes[i], "/dev/null");
    }
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        set_path(nowhere[i], "/dev/null");
    }
}

/* Convert, in a child process. The child ends with its parent, works in `folder` and is silent: the converter's
 * messages mean nothing to a user. */
static void convert_here(pid_t parent, const char *folder, struct channel *channels)
{
    struct starpu_fxt_options options;
    int nowhere = open("/dev/null", O_WRONLY);
    /* Without its parent the child would wait at a full pipe forever. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(1);
    }
    if (chdir(folder) != 0 || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(nowhere, STDERR_FILENO) < 0) {
        _exit(1);
    }
    close(nowhere);
    for (size_t i = 0; i < n_kept(); i++) {
        close_end(&channels[i].from);
        close(fileno(channels[i].writer.stream));
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
    set_paths(channels, &options);
    starpu_fxt_generate_trace(&options);
    starpu_fxt_options_shutdown(&options);
    _exit(0);
}

static enum sl_status wait_for(pid_t child, const char *raw)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        SL_FAIL_IF(errno != EINTR, SL_ESTARPU, "StarPU's converter was lost: %s", strerror(errno));
    }
    SL_FAIL_IF(!WIFEXITED(status) || WEXITSTATUS(status) != 0, SL_ESTARPU,
               "StarPU could not convert its trace %s; is the disk full, or 'ulimit -n' under 32? 'starpu_fxt_tool "
               "-i' on it tells more",
               raw);
    return SL_OK;
}

static enum sl_status convert(const char *folder, const char *raw)
{
    SL_OWNED(channels_close) struct channel channels[N_KEPT];
    for (size_t i = 0; i < N_KEPT; i++) {
        channels[i] = (struct channel){.from = -1, .to = -1};
    }
    SL_CHECK(channels_open(folder, channels));
    pid_t self = getpid();
    pid_t child = fork();
    if (child == 0) {
        convert_here(self, folder, channels);
    }
    SL_FAIL_IF(child < 0, SL_ENOMEM, "no process for StarPU's converter: %s", strerror(errno));
    enum sl_status copied = copy_output(channels);
    if (copied != SL_OK) {
        kill(child, SIGKILL);
    }
    SL_CHECK(wait_for(child, raw));
    SL_CHECK(copied);
    for (size_t i = 0; i < n_kept(); i++) {
        SL_CHECK(sl_writer_close(&channels[i].writer));
    }
    return SL_OK;
}

/* ---- the Paje trace ---- */

/* Rewrite the definition of a task's state: "6 NAME TYPE NAME "RED GREEN BLUE"". StarPU 1.4 writes colours as
 * 0..255, but viewers expect 0..1. Each state also has ten copies for scheduling contexts, all unused here. Write
 * the state once, with its category's colour. False: the line is something else. */
static bool fix_state(const char *line, size_t n, FILE *stream)
{
    struct sl_trace_name name;
    const char *tab = NULL;
    if (n > 2 && line[0] == '6' && line[1] == '\t') {
        tab = memchr(line + 2, '\t', n - 2);
    }
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

/* True for a task's mark. The report needs such marks; in a viewer they would hide the marks of the steps. */
static bool is_mark(const char *line, size_t n)
{
    static const char value[] = "\"" SL_TASK_MARK;
    size_t bytes = sizeof value - 1;
    const char *quote = NULL;
    if (n > 0 && line[0] == '9') {
        quote = memchr(line, '"', n);
    }
    return quote != NULL && n - (size_t)(quote - line) >= bytes && memcmp(quote, value, bytes) == 0;
}

static enum sl_status copy_paje(const char *from, const char *to)
{
    SL_OWNED(sl_file_unmap) struct sl_map map = {0};
    SL_OWNED(sl_writer_abort) struct sl_writer writer = {0};
    SL_CHECK(sl_file_map(from, &map));
    SL_CHECK(sl_writer_open(to, &writer));
    const char *text = (const char *)map.data;
    for (size_t offset = 0; offset < map.bytes;) {
        const char *end = memchr(text + offset, '\n', map.bytes - offset);
        size_t n = end == NULL ? map.bytes - offset : (size_t)(end - (text + offset)) + 1;
        if (!is_mark(text + offset, n) && !fix_state(text + offset, n, writer.stream)) {
            fwrite(text + offset, 1, n, writer.stream);
        }
        offset += n;
    }
    return sl_writer_close(&writer);
}

/* ---- files into place ---- */

static enum sl_status move(const char *from_folder, const char *from_name, const char *to_folder, const char *to_name)
{
    SL_FREED char *from = NULL;
    SL_FREED char *to = NULL;
    SL_CHECK(sl_path_join(from_folder, from_name, &from));
    SL_CHECK(sl_path_join(to_folder, to_name, &to));
    if (strcmp(from_name, "paje.trace") == 0) {
        return copy_paje(from, to);
    }
    SL_FAIL_IF(rename(from, to) != 0, SL_EIO, "%s: cannot move the trace there: %s", to, strerror(errno));
    return SL_OK;
}

/* Remove a folder of plain files. */
static void remove_folder(const char *folder)
{
    DIR *dir = NULL;
    for (const char *name = sl_folder_next(folder, &dir); name != NULL; name = sl_folder_next(folder, &dir)) {
        unlinkat(dirfd(dir), name, 0);
    }
    rmdir(folder);
}

/* Each rank records the mark "end" last. Without it, a full disk has cut the raw trace short. */
static enum sl_status check_end(const char *work, const char *raw)
{
    static const char mark[] = "\nN: end\n";
    SL_FREED char *path = NULL;
    SL_FREED char *text = NULL;
    size_t bytes;
    uint32_t n = 0;
    SL_CHECK(sl_path_join(work, "trace.rec", &path));
    SL_CHECK(sl_file_read(path, SIZE_MAX - 1, &text, &bytes));
    for (const char *p = strstr(text, mark); p != NULL; p = strstr(p + 1, mark)) {
        n++;
    }
    SL_FAIL_IF(n < sl_n_ranks(), SL_EFILE,
               "%s: found no mark of its end, expected one; it was cut short: was a disk full?", raw);
    return SL_OK;
}

static enum sl_status convert_and_move(const char *folder, const char *work, const char *raw)
{
    SL_CHECK(convert(work, raw));
    SL_CHECK(check_end(work, raw));
    for (size_t i = 0; i < n_kept(); i++) {
        SL_CHECK(move(work, kept[i], folder, kept[i]));
    }
    if (sl_n_ranks() == 1) {
        return move(folder, RAW_NAME "_0", folder, RAW_NAME);
    }
    return SL_OK;
}

/* Check that the raw traces of all ranks are there. *last_out gets the last path, for messages. */
static enum sl_status find_raw(const char *folder, char **last_out)
{
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        sl_free(*last_out);
        *last_out = NULL;
        SL_CHECK(written_path(folder, r, last_out));
        SL_FAIL_IF(!sl_file_exists(*last_out), SL_EIO, "%s: expected StarPU's trace there, found none%s", *last_out,
                   r > 0 ? "; --trace has to be a folder that all ranks share" : "");
    }
    return SL_OK;
}

enum sl_status sl_trace_finish(const char *folder)
{
    SL_IN_C_LOCALE;
    SL_FREED char *raw = NULL;
    SL_FREED char *work = NULL;
    SL_CHECK(sl_ranks_barrier());
    if (sl_rank() > 0) {
        return SL_OK;
    }
    SL_CHECK(find_raw(folder, &raw));
    SL_CHECK(check_disk(folder, DISK_AFTER)); /* on a full disk StarPU's trace is cut short */
    SL_CHECK(sl_format(&work, "%s/convert-XXXXXX", folder));
    SL_FAIL_IF(mkdtemp(work) == NULL, SL_EIO, "%s: cannot make a folder there: %s", folder, strerror(errno));
    enum sl_status st = convert_and_move(folder, work, raw);
    remove_folder(work);
    return st;
}

#else

enum sl_status sl_trace_finish(const char *folder)
{
    SL_IN_C_LOCALE;
    (void)folder;
    return no_fxt();
}

#endif
