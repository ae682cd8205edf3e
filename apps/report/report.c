/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables and sentences, as text and as a page. */
#include "apps/report/report.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/report/advice.h"
#include "apps/report/svg.h"
#include "apps/report/timeline.h"
#include "runtime/report/trace.h"
#include "support/file.h"
#include "support/memory.h"

#define VITE_SECONDS 30
#define TABLE_DIGITS 6 /* of seconds: small categories of a short trace take some hundred microseconds */

static const char *const kind_names[SL_TRACE_N_KINDS] = {"idle", "busy", "StarPU", "transfers"};
static const enum sl_trace_kind kind_order[] = {SL_TRACE_BUSY, SL_TRACE_STARPU, SL_TRACE_TRANSFER, SL_TRACE_IDLE};
#define N_KINDS (sizeof kind_order / sizeof *kind_order)

static double sum_of(const struct sl_shares *shares)
{
    double sum_s = 0;
    for (int k = 0; k < SL_TRACE_N_KINDS; k++) {
        sum_s += shares->s[k];
    }
    return sum_s;
}

/* ---- a table: as text, columns of fixed width; as a page, cells ---- */

struct table {
    FILE *stream;
    bool page;
};

static void start_row(const struct table *t, const char *name, const unsigned *colour)
{
    if (!t->page) {
        fprintf(t->stream, "%-22s", name);
        return;
    }
    fputs("<tr><td>", t->stream);
    if (colour != NULL) {
        fprintf(t->stream, "<span style=\"background:#%06x\">&nbsp;&nbsp;&nbsp;</span> ", *colour);
    }
    sl_xml_put(t->stream, name, strlen(name));
    fputs("</td>", t->stream);
}

static void put_cell(const struct table *t, const char *text)
{
    fprintf(t->stream, t->page ? "<td>%s</td>" : " %12s", text);
}

static void put_number(const struct table *t, int digits, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.*f", digits, value);
    put_cell(t, text);
}

static void end_row(const struct table *t)
{
    fputs(t->page ? "</tr>\n" : "\n", t->stream);
}

static void start_table(const struct table *t, const char *title)
{
    fprintf(t->stream, t->page ? "<h2>%s</h2>\n<table>\n" : "\n%s\n", title);
}

static void end_table(const struct table *t)
{
    fputs(t->page ? "</table>\n" : "", t->stream);
}

static void put_shares(const struct table *t, const struct sl_shares *shares)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        put_number(t, TABLE_DIGITS, shares->s[kind_order[k]]);
    }
    put_number(t, TABLE_DIGITS, sum_of(shares));
}

static void put_kind_names(const struct table *t)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        put_cell(t, kind_names[kind_order[k]]);
    }
    put_cell(t, "sum");
}

static void put_stages(const struct sl_analysis *a, const struct table *t)
{
    const struct sl_trace_data *data = a->data;
    start_table(t, "By time category, seconds of all workers (StarPU, transfers, idle: before its tasks)");
    start_row(t, "time category", NULL);
    put_cell(t, "tasks");
    put_kind_names(t);
    put_cell(t, "under 20 us");
    put_cell(t, "on path");
    end_row(t);
    for (uint32_t s = 0; s < data->n_stages; s++) {
        const struct sl_stage_time *stage = &a->stage[s];
        if (stage->n_tasks > 0) {
            start_row(t, data->stage[s].name, &data->stage[s].colour);
            put_number(t, 0, (double)stage->n_tasks);
            put_shares(t, &stage->time);
            put_number(t, 0, (double)stage->n_tiny);
            put_number(t, TABLE_DIGITS, stage->path_s);
            end_row(t);
        }
    }
    start_row(t, "(after the last task)", NULL);
    put_number(t, 0, 0);
    put_shares(t, &a->tail);
    put_number(t, 0, 0);
    put_number(t, TABLE_DIGITS, 0);
    end_row(t);
    start_row(t, "all", NULL);
    put_number(t, 0, (double)a->n_tasks);
    put_shares(t, &a->total);
    put_number(t, 0, (double)a->n_tiny);
    put_number(t, TABLE_DIGITS, a->path_s);
    end_row(t);
    end_table(t);
}

static void put_workers(const struct sl_analysis *a, const struct table *t)
{
    start_table(t, "By worker, seconds (each sum is the makespan)");
    start_row(t, "worker", NULL);
    put_kind_names(t);
    end_row(t);
    for (uint32_t w = 0; w < a->data->n_workers; w++) {
        char name[SL_TRACE_WORKER_BYTES];
        sl_trace_worker_name(a->data, w, name);
        start_row(t, name, NULL);
        put_shares(t, &a->worker[w]);
        end_row(t);
    }
    end_table(t);
}

/* Several ranks: the sums of their workers, and their messages in the window. */
static void put_ranks(const struct sl_analysis *a, const struct table *t)
{
    const struct sl_trace_data *data = a->data;
    start_table(t, "By rank, seconds of its workers; messages to others");
    start_row(t, "rank", NULL);
    put_kind_names(t);
    put_cell(t, "sent");
    put_cell(t, "MB sent");
    put_cell(t, "received");
    put_cell(t, "MB received");
    end_row(t);
    for (uint32_t r = 0; r < data->n_ranks; r++) {
        char name[32];
        uint64_t n[2] = {0}; /* sent, received */
        double bytes[2] = {0};
        struct sl_shares shares = {{0}};
        for (uint32_t w = 0; w < data->n_workers; w++) {
            if (data->worker[w].rank != r) {
                continue;
            }
            for (int k = 0; k < SL_TRACE_N_KINDS; k++) {
                shares.s[k] += a->worker[w].s[k];
            }
        }
        for (size_t i = 0; i < data->n_messages; i++) {
            const struct sl_trace_message *m = &data->message[i];
            n[0] += m->from == r;
            n[1] += m->to == r;
            bytes[0] += m->from == r ? (double)m->bytes : 0;
            bytes[1] += m->to == r ? (double)m->bytes : 0;
        }
        snprintf(name, sizeof name, "rank %u", r);
        start_row(t, name, NULL);
        put_shares(t, &shares);
        for (int way = 0; way < 2; way++) {
            put_number(t, 0, (double)n[way]);
            put_number(t, TABLE_DIGITS, bytes[way] / 1e6);
        }
        end_row(t);
    }
    end_table(t);
}

static void put_busy(const struct sl_analysis *a, const struct table *t)
{
    const struct sl_trace_data *data = a->data;
    start_table(t, "By worker and time category, seconds busy");
    start_row(t, "worker", NULL);
    for (uint32_t s = 0; s < data->n_stages; s++) {
        if (a->stage[s].n_tasks > 0) {
            put_cell(t, s < SL_N_STAGES ? data->stage[s].name : "foreign");
        }
    }
    end_row(t);
    for (uint32_t w = 0; w < data->n_workers; w++) {
        char name[SL_TRACE_WORKER_BYTES];
        sl_trace_worker_name(a->data, w, name);
        start_row(t, name, NULL);
        for (uint32_t s = 0; s < data->n_stages; s++) {
            if (a->stage[s].n_tasks > 0) {
                put_number(t, TABLE_DIGITS, a->worker_stage_s[(size_t)w * data->n_stages + s]);
            }
        }
        end_row(t);
    }
    end_table(t);
}

/* ---- sentences ---- */

static void put_line(const struct table *t, const char *text)
{
    if (t->page) {
        fputs("<p>", t->stream);
        sl_xml_put(t->stream, text, strlen(text));
        fputs("</p>\n", t->stream);
    } else {
        fprintf(t->stream, "%s\n", text);
    }
}

static void put_share(const struct table *t, const char *label, double value)
{
    char text[200];
    int width = t->page ? 0 : 58;
    if (isnan(value)) {
        snprintf(text, sizeof text, "%-*s -", width, label);
    } else {
        snprintf(text, sizeof text, "%-*s %.4f", width, label, value);
    }
    put_line(t, text);
}

static void put_summary(const struct sl_analysis *a, const struct table *t)
{
    const struct sl_trace_data *data = a->data;
    double whole_s = data->n_workers * data->makespan_s;
    char text[400];
    snprintf(text, sizeof text,
             "makespan %.4f s: %llu tasks on %u workers, %.1f %% busy, %.1f %% in StarPU, %.1f %% in transfers, "
             "%.1f %% idle",
             data->makespan_s, (unsigned long long)a->n_tasks, data->n_workers,
             sl_percent(a->total.s[SL_TRACE_BUSY], whole_s), sl_percent(a->total.s[SL_TRACE_STARPU], whole_s),
             sl_percent(a->total.s[SL_TRACE_TRANSFER], whole_s), sl_percent(a->total.s[SL_TRACE_IDLE], whole_s));
    put_line(t, text);
    snprintf(text, sizeof text, "critical path %.4f s, %.1f %% of the makespan, %zu tasks", a->path_s,
             sl_percent(a->path_s, data->makespan_s), a->n_path);
    put_line(t, text);
    snprintf(text, sizeof text, "tasks under 20 us: %llu of %llu", (unsigned long long)a->n_tiny,
             (unsigned long long)a->n_tasks);
    put_line(t, text);
    put_share(t, "overlap of sampling and gathering with earlier steps", a->overlap);
    put_share(t, "hidden: sampling and gathering with compute beside them", a->hidden_sampling);
    put_share(t, "hidden: row exchange with compute beside it", a->hidden_exchange);
}

static void put_path(const struct sl_analysis *a, const struct table *t)
{
    start_table(t, "Critical path, by time category, seconds");
    for (uint32_t s = 0; s < a->data->n_stages; s++) {
        if (a->stage[s].path_s > 0) {
            start_row(t, a->data->stage[s].name, &a->data->stage[s].colour);
            put_number(t, TABLE_DIGITS, a->stage[s].path_s);
            end_row(t);
        }
    }
    end_table(t);
}

static void put_advice(const struct sl_analysis *a, const struct table *t)
{
    fputs(t->page ? "<h2>Most worth changing</h2>\n<ol>\n"
                  : "\nMost worth changing (at most this much of the makespan)\n",
          t->stream);
    for (uint32_t i = 0; i < a->n_advice; i++) {
        const struct sl_advice *advice = &a->advice[i];
        double share = sl_percent(advice->gain_s, a->data->makespan_s);
        fprintf(t->stream, t->page ? "<li><b>%.3f s (%.1f %%)</b> " : "  %.3f s (%.1f %%)  ", advice->gain_s, share);
        if (t->page) {
            sl_xml_put(t->stream, advice->text, strlen(advice->text));
        } else {
            fputs(advice->text, t->stream);
        }
        fputs(t->page ? "</li>\n" : "\n", t->stream);
    }
    if (a->n_advice == 0) {
        put_line(t, "  nothing above 0.1 %");
    }
    fputs(t->page ? "</ol>\n" : "", t->stream);
}

static void put_all(const struct sl_analysis *a, const struct table *t)
{
    put_advice(a, t);
    put_stages(a, t);
    if (a->data->n_ranks > 1) {
        put_ranks(a, t);
    }
    put_workers(a, t);
    put_busy(a, t);
    put_path(a, t);
}

/* The text of report.txt. */
static void print_report(const struct sl_analysis *analysis, FILE *stream)
{
    struct table text = {.stream = stream};
    put_summary(analysis, &text);
    put_all(analysis, &text);
}

static enum sl_status print_page(const struct sl_analysis *a, FILE *stream)
{
    struct table page = {.stream = stream, .page = true};
    enum sl_status st;
    sl_page_begin(stream, "Starling trace", 1640);
    fputs("<h1>Where the time went</h1>\n", stream);
    put_summary(a, &page);
    SL_TRY(st, sl_timeline_write(a, stream), done);
    put_all(a, &page);
    sl_page_end(stream);
done:
    return st;
}

/* ---- files ---- */

static enum sl_status print_text(const struct sl_analysis *a, FILE *stream)
{
    print_report(a, stream);
    return SL_OK;
}

static enum sl_status write_file(const char *folder, const char *name, const struct sl_analysis *a,
                                 enum sl_status (*print)(const struct sl_analysis *a, FILE *stream))
{
    struct sl_writer writer = {0};
    char *path = NULL;
    enum sl_status st;
    SL_TRY(st, sl_path_join(folder, name, &path), done);
    SL_TRY(st, sl_writer_open(path, &writer), done);
    SL_TRY(st, print(a, writer.stream), abort);
    st = sl_writer_close(&writer);
    goto done;
abort:
    sl_writer_abort(&writer);
done:
    sl_free(path);
    return st;
}

/* In a child process: become ViTE, without a display. alarm() ends ViTE after VITE_SECONDS. */
static void become_vite(const char *folder)
{
    if (chdir(folder) == 0 && freopen("/dev/null", "w", stdout) != NULL && freopen("/dev/null", "w", stderr) != NULL) {
        setenv("QT_QPA_PLATFORM", "offscreen", 1);
        alarm(VITE_SECONDS);
        execlp("vite", "vite", "-e", "vite.svg.part", "paje.trace", (char *)NULL);
    }
    _exit(127);
}

/* Let ViTE draw the trace if it is installed. A failure of ViTE is no failure of the report. */
static enum sl_status draw_with_vite(const char *folder)
{
    char *trace = NULL;
    char *part = NULL;
    char *whole = NULL;
    int status = 0;
    enum sl_status st;
    SL_TRY(st, sl_path_join(folder, "paje.trace", &trace), done);
    SL_TRY(st, sl_path_join(folder, "vite.svg.part", &part), done);
    SL_TRY(st, sl_path_join(folder, "vite.svg", &whole), done);
    fflush(NULL); /* or the child would write buffered output a second time */
    pid_t child = -1;
    if (sl_file_exists(trace)) {
        child = fork();
    }
    if (child == 0) {
        become_vite(folder);
    }
    if (child > 0) {
        bool drawn = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!drawn || rename(part, whole) != 0) {
            unlink(part);
        }
    }
done:
    sl_free(whole);
    sl_free(part);
    sl_free(trace);
    return st;
}

enum sl_status sl_report_write(const char *folder)
{
    struct sl_trace_data data;
    struct sl_analysis analysis;
    enum sl_status st = sl_trace_read(folder, &data);
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, sl_analysis_make(&data, &analysis), free_data);
    sl_analysis_advise(&analysis);
    SL_TRY(st, write_file(folder, "timeline.svg", &analysis, sl_timeline_write), done);
    SL_TRY(st, write_file(folder, "dag.dot", &analysis, sl_dag_write), done);
    SL_TRY(st, write_file(folder, "report.txt", &analysis, print_text), done);
    SL_TRY(st, write_file(folder, "report.html", &analysis, print_page), done);
    st = draw_with_vite(folder);
done:
    sl_analysis_free(&analysis);
free_data:
    sl_trace_data_free(&data);
    return st;
}

enum sl_status sl_report_finish(const char *folder)
{
    enum sl_status st = sl_trace_finish(folder);
    if (st != SL_OK || sl_process_number() > 0) {
        return st;
    }
    st = sl_report_write(folder);
    if (st == SL_EFILE) {
        sl_trace_remove(folder);
    }
    return st;
}
