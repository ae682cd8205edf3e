/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines and bars. */
#include "runtime/report/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/lines.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

#define REDRAW_S 0.1
#define BAR_MAX 40
#define BAR_MIN 8
#define COLUMNS_UNKNOWN 80
#define MUCH_MEMORY 250000000 /* bytes: the user may ask who holds them */
#define LONG_RUN 1000         /* epochs: the line is full, and makes room for the mark of the best epoch */

enum sl_progress_mode sl_progress_mode_of(FILE *stream)
{
    const char *terminal = getenv("TERM");
    bool moves = sl_n_ranks() == 1 && terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
    return moves && isatty(fileno(stream)) ? SL_PROGRESS_BAR : SL_PROGRESS_LINES;
}

void sl_progress_open(FILE *stream, enum sl_progress_mode mode, uint32_t epochs, uint32_t steps_per_epoch,
                      struct sl_progress *out)
{
    *out = (struct sl_progress){
        .stream = stream,
        .mode = mode,
        .epochs = epochs,
        .steps_per_epoch = steps_per_epoch,
        .start_s = sl_clock_s(),
        .score = {.valid = NAN, .is_fraction = true},
    };
}

/* ---- The bar ----------------------------------------------------------------------------------------------------- */

static int terminal_columns(FILE *stream)
{
    struct winsize size;
    bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : COLUMNS_UNKNOWN;
}

/* Seconds until the last step of the last epoch, at the mean pace so far, evaluations included. */
static double time_left_s(const struct sl_progress *p, uint32_t epoch, uint32_t step)
{
    uint64_t done = (uint64_t)(epoch - 1) * p->steps_per_epoch + step;
    uint64_t total = (uint64_t)p->epochs * p->steps_per_epoch;
    if (p->steps_done == 0 || done >= total) {
        return 0;
    }
    return (sl_clock_s() - p->start_s) / (double)p->steps_done * (double)(total - done);
}

/* "1:02:03", "2:03"; at most 99 hours. */
static void print_duration(double seconds, char *out, size_t bytes)
{
    unsigned s = seconds < 359999 ? (unsigned)(seconds + 0.5) : 359999;
    if (s >= 3600) {
        snprintf(out, bytes, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(out, bytes, "%u:%02u", s / 60, s % 60);
    }
}

/* A number in `columns`, with as many decimals as fit, `decimals` at most. Larger numbers take more columns. */
static void print_number(double value, int columns, int decimals, char *out, size_t bytes)
{
    do {
        snprintf(out, bytes, "%*.*f", columns, decimals, value);
    } while ((int)strlen(out) > columns && --decimals >= 0);
    if ((int)strlen(out) > 2 * columns) {
        snprintf(out, bytes, "%*.0e", columns, value);
    }
}

/* "67.12 %", "100.0 %"; NaN: "-". Always seven columns wide. */
static void print_percent(double fraction, char *out, size_t bytes)
{
    char number[32];
    if (isfinite(fraction)) {
        print_number(100 * fraction, 5, 2, number, sizeof number);
        snprintf(out, bytes, "%s %%", number);
    } else {
        snprintf(out, bytes, "%7s", "-");
    }
}

/* A score in the same width: "67.12 %", or "0.1234". */
static void print_score(const struct sl_score *score, double value, char *out, size_t bytes)
{
    if (score->is_fraction || !isfinite(value)) {
        print_percent(value, out, bytes);
    } else {
        print_number(value, 7, 4, out, bytes);
    }
}

/* "[######......] " in the width left on the line; nothing if that is too narrow. */
static void print_bar(FILE *stream, int width, uint32_t step, uint32_t steps)
{
    width = width > BAR_MAX ? BAR_MAX : width;
    if (width < BAR_MIN || steps == 0) {
        return;
    }
    int full = (int)((uint64_t)width * sl_min_u64(step, steps) / steps);
    fputc('[', stream);
    for (int i = 0; i < width; i++) {
        fputc(i < full ? '#' : '.', stream);
    }
    fputs("] ", stream);
}

static void draw(struct sl_progress *p, uint32_t epoch, uint32_t step, double loss)
{
    char head[64];
    char tail[128];
    char valid[16];
    char left[16];
    print_score(&p->score, p->score.valid, valid, sizeof valid);
    print_duration(time_left_s(p, epoch, step), left, sizeof left);
    snprintf(head, sizeof head, "epoch %u/%u ", epoch, p->epochs);
    snprintf(tail, sizeof tail, "%u/%u  loss %.4f  valid %s  left %s", step, p->steps_per_epoch, loss,
             valid + strspn(valid, " "), left);
    int room = terminal_columns(p->stream) - (int)(strlen(head) + strlen(tail)) - 4;
    fprintf(p->stream, "\r%s", head);
    print_bar(p->stream, room, step, p->steps_per_epoch);
    fprintf(p->stream, "%s\033[K", tail);
    fflush(p->stream);
}

void sl_progress_step(struct sl_progress *progress, uint32_t epoch, uint32_t step, double loss)
{
    progress->steps_done++;
    if (progress->mode != SL_PROGRESS_BAR) {
        return;
    }
    double now = sl_clock_s();
    if (progress->bar_shown && now - progress->drawn_s < REDRAW_S && step != progress->steps_per_epoch) {
        return;
    }
    draw(progress, epoch, step, loss);
    progress->drawn_s = now;
    progress->bar_shown = 1;
}

void sl_progress_clear(struct sl_progress *progress)
{
    if (progress->bar_shown) {
        fputs("\r\033[K", progress->stream);
        fflush(progress->stream);
        progress->bar_shown = 0;
    }
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

void sl_progress_epoch(struct sl_progress *progress, const struct sl_metrics_epoch *e)
{
    char valid[16];
    char test[16];
    int loss_columns = 6;
    const char *mark = " *";
    char loss[32] = "     -";
    char train_s[32];
    char eval_s[32];
    const struct sl_score *score = &e->scores.score[e->scores.best_by];
    sl_progress_clear(progress);
    if (e->evaluated) {
        progress->score = *score;
    }
    if (progress->mode == SL_PROGRESS_NONE) {
        return;
    }
    print_score(score, e->evaluated ? score->valid : NAN, valid, sizeof valid);
    print_score(score, e->evaluated ? score->test : NAN, test, sizeof test);
    if (progress->epochs >= LONG_RUN) {
        loss_columns--;
        mark = "*";
    }
    if (isfinite(e->train_loss)) {
        print_number(e->train_loss, loss_columns, loss_columns - 2, loss, sizeof loss);
    }
    if (!e->best) {
        mark = "";
    }
    print_number(e->seconds, 5, 3, train_s, sizeof train_s);
    print_number(e->eval_seconds, 5, 3, eval_s, sizeof eval_s);
    fprintf(progress->stream, "epoch %*u/%u loss %s valid %s test %s time %s s %s %s s%s\n",
            snprintf(NULL, 0, "%u", progress->epochs), e->epoch, progress->epochs, loss, valid, test, train_s,
            e->sampled ? "sampled" : "eval", eval_s, mark);
    fflush(progress->stream);
}

static void print_waits(FILE *stream, const struct sl_waits *waits)
{
    char hidden[16];
    print_percent(waits->hidden_s / waits->message_s, hidden, sizeof hidden);
    sl_print_line(stream, "messages", "%.3f s, %s of it hidden; workers waited %.3f s for them", waits->message_s,
                  hidden + strspn(hidden, " "), waits->waited_s);
}

static void print_best(FILE *stream, const struct sl_metrics_summary *summary)
{
    char valid[16];
    char test[16];
    char epoch[16] = "-";
    const struct sl_score *best = &summary->best.score[summary->best.best_by];
    if (!isnan(best->valid)) {
        snprintf(epoch, sizeof epoch, "%u", summary->best_epoch);
    }
    print_score(best, best->valid, valid, sizeof valid);
    print_score(best, best->test, test, sizeof test);
    fprintf(stream, "best epoch %s  valid %s  test %s  time %.3f s\n", epoch, valid + strspn(valid, " "),
            test + strspn(test, " "), summary->seconds);
    fprintf(stream, "%-*s  valid      test\n", SL_LINE_INDENT, summary->sampled ? "sampled" : "score");
    for (uint32_t i = 0; i < summary->best.n; i++) {
        const struct sl_score *score = &summary->best.score[i];
        print_score(score, score->valid, valid, sizeof valid);
        print_score(score, score->test, test, sizeof test);
        fprintf(stream, "%-*s%7s   %7s\n", SL_LINE_INDENT, score->name, valid, test);
    }
}

static void print_costs(FILE *stream, const struct sl_metrics_summary *summary)
{
    const char *of_rank = "";
    if (summary->n_ranks > 1) {
        of_rank = " in a rank";
    }
    if (summary->epochs > 0) {
        sl_print_line(stream, "time", "%.8g %s, %.3f s each", round(100 * summary->epochs) / 100,
                      sl_noun((uint64_t)ceil(summary->epochs), "epoch", "epochs"), summary->seconds / summary->epochs);
    }
    if (summary->peak_rss_bytes > 0) {
        sl_print_line(stream, "memory", "%.2f GB at most%s", (double)summary->peak_rss_bytes / 1e9, of_rank);
    }
    if (summary->peak_rss_bytes >= MUCH_MEMORY && summary->held != NULL && summary->held[0] != '\0') {
        sl_print_line(stream, "reserved", "%s", summary->held);
    }
}

void sl_progress_summary(struct sl_progress *progress, const struct sl_metrics_summary *summary)
{
    sl_progress_clear(progress);
    if (progress->mode == SL_PROGRESS_NONE) {
        return;
    }
    if (summary->n_ranks > 1) {
        print_waits(progress->stream, &summary->waits);
    }
    if (summary->evaluated) {
        print_best(progress->stream, summary);
    }
    print_costs(progress->stream, summary);
    fflush(progress->stream);
}
