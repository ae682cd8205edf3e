/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Panels in two columns (by epoch, by training time): a row for the loss, a row for each score. Below: stage times. */
#include "apps/report/plot.h"

#include <math.h>
#include <string.h>

#include "apps/report/svg.h"

#define WIDTH 800
#define MARGIN 16
#define N_COLUMNS 2
#define PANEL_HEIGHT 180
#define BAR_HEIGHT 20
#define MOST_POINTS 2000 /* of a curve; a longer curve is thinned */
#define MOST_TITLES 150  /* points of a curve with values under the pointer */
#define MOST_DOTS 25     /* a curve of at most so many points shows each point */
#define LETTER 6.3       /* mean width of a letter of 12 pixels */
#define NAME_BYTES 400   /* of a line of the legend */

/* Left edge and width of the drawn area of each column. */
static const double column_left[N_COLUMNS] = {62, 462};
static const double column_width = 318;

enum x_kind { BY_EPOCH, BY_TIME };

/* An axis: values lo .. hi lie at pixels `from` .. `to`. */
struct axis {
    double lo, hi, tick;
    double from, to;
};

struct drawing {
    FILE *stream;
    const struct sl_curves *curves;
    double y;      /* top of the next element */
    double unit_s; /* of the time axes */
    const char *unit;
};

/* A series of a run: offset of a double in struct sl_curves_epoch. */
struct series {
    const char *name;
    size_t offset;
    bool dashed;
    bool breaks; /* a value that is not finite breaks the curve: the loss has diverged */
};

static double value_of(const struct sl_curves_epoch *epoch, const struct series *series, double factor)
{
    return factor * *(const double *)(const void *)((const char *)epoch + series->offset);
}

static double x_of(const struct drawing *d, enum x_kind kind, const struct sl_curves_epoch *epoch)
{
    if (kind == BY_EPOCH) {
        return epoch->epoch;
    }
    return epoch->end_s / d->unit_s;
}

/* Start a group of small grey text. */
static void put_small(FILE *stream)
{
    fputs("<g font-size=\"12\" fill=\"#444\">\n", stream);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static double at(const struct axis *axis, double value)
{
    return axis->from + (axis->to - axis->from) * (value - axis->lo) / (axis->hi - axis->lo);
}

/* The ends become multiples of the tick. Equal ends move apart. */
static void widen_to_ticks(struct axis *axis, int n_ticks)
{
    if (!(axis->hi - axis->lo > 1e-9 * fmax(fabs(axis->hi), fabs(axis->lo)))) {
        double room = fmax(fabs(axis->hi) * 0.05, 1e-6);
        axis->lo -= room;
        axis->hi += room;
    }
    axis->tick = sl_svg_tick(axis->hi - axis->lo, n_ticks);
    axis->lo = floor(axis->lo / axis->tick + 1e-9) * axis->tick;
    axis->hi = ceil(axis->hi / axis->tick - 1e-9) * axis->tick;
}

static struct axis x_axis(const struct drawing *d, enum x_kind kind, double left)
{
    struct axis axis = {.lo = 0, .hi = -INFINITY, .from = left, .to = left + column_width};
    if (kind == BY_EPOCH) {
        axis.lo = INFINITY;
    }
    for (uint32_t r = 0; r < d->curves->n; r++) {
        const struct sl_curves_run *run = &d->curves->run[r];
        axis.lo = fmin(axis.lo, x_of(d, kind, &run->epoch[0]));
        axis.hi = fmax(axis.hi, x_of(d, kind, &run->epoch[run->n_epochs - 1]));
    }
    if (kind == BY_EPOCH && axis.hi - axis.lo < 1) {
        axis.lo = fmax(0, axis.lo - 1);
        axis.hi += 1;
    } else if (!(axis.hi > axis.lo)) {
        axis.hi = axis.lo + 1;
    }
    axis.tick = sl_svg_tick(axis.hi - axis.lo, 4);
    if (kind == BY_EPOCH) {
        axis.tick = fmax(1, axis.tick);
    }
    return axis;
}

static void tick_text(double value, double tick, char *out, size_t bytes)
{
    int decimals = sl_svg_decimals(tick);
    if (decimals > 5 || fabs(value) >= 1e6) {
        snprintf(out, bytes, "%.4g", value);
    } else {
        snprintf(out, bytes, "%.*f", decimals, value + 0.0);
    }
    if (strcmp(out, "-0") == 0) {
        snprintf(out, bytes, "0");
    }
}

static void put_grid_line(FILE *stream, double x, double y, const char *direction, double length)
{
    fprintf(stream, "<path d=\"M%.1f %.1f%s%.1f\" stroke=\"#ddd\"/>\n", x, y, direction, length);
}

static void put_ticks(const struct drawing *d, const struct axis *x, const struct axis *y)
{
    char text[40];
    put_small(d->stream);
    double first = ceil(x->lo / x->tick - 1e-9);
    for (int i = 0; (first + i) * x->tick <= x->hi + 1e-9 * x->tick; i++) {
        double value = (first + i) * x->tick;
        put_grid_line(d->stream, at(x, value), y->to, "v", y->from - y->to);
        tick_text(value, x->tick, text, sizeof text);
        sl_svg_text(d->stream, at(x, value), y->from + 17, "middle", text);
    }
    first = ceil(y->lo / y->tick - 1e-9);
    for (int i = 0; (first + i) * y->tick <= y->hi + 1e-9 * y->tick; i++) {
        double value = (first + i) * y->tick;
        put_grid_line(d->stream, x->from, at(y, value), "h", x->to - x->from);
        tick_text(value, y->tick, text, sizeof text);
        sl_svg_text(d->stream, x->from - 7, at(y, value) + 4, "end", text);
    }
    fputs("</g>\n", d->stream);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* Close a <path>, dashed if the series is. */
static void end_line(FILE *stream, const struct series *series)
{
    if (series->dashed) {
        fputs(" stroke-dasharray=\"5 4\"", stream);
    }
    fputs("/>\n", stream);
}

/* The decimals of a value for people. */
static int decimals_of(double factor)
{
    if (factor == 1) {
        return 4;
    }
    return 2;
}

static size_t stride_of(size_t n, size_t most)
{
    return (n + most - 1) / most;
}

/* The points of a curve. Epochs without a value have none, for example epochs without an evaluation. */
static size_t count_points(const struct sl_curves_run *run, const struct series *series)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_epochs; i++) {
        n += isfinite(value_of(&run->epoch[i], series, 1));
    }
    return n;
}

/* True if a curve of n points, thinned to `most`, keeps the point of epoch i, its k-th: each stride-th, the last and
 * the best. */
static bool kept(const struct sl_curves_run *run, size_t i, size_t k, size_t n, size_t most)
{
    return k % stride_of(n, most) == 0 || k + 1 == n || i == run->best;
}

static void put_line(const struct drawing *d, enum x_kind kind, uint32_t r, const struct series *series, double factor,
                     const struct axis *x, const struct axis *y)
{
    const struct sl_curves_run *run = &d->curves->run[r];
    size_t n = count_points(run, series);
    size_t k = 0;
    bool drawing = false;
    fputs("<path d=\"", d->stream);
    for (size_t i = 0; i < run->n_epochs; i++) {
        double value = value_of(&run->epoch[i], series, factor);
        if (!isfinite(value)) {
            drawing = drawing && !series->breaks;
            continue;
        }
        bool is_kept = kept(run, i, k++, n, MOST_POINTS);
        if (drawing && !is_kept) {
            continue;
        }
        const char *form = "L%.1f %.1f";
        if (!drawing) {
            form = "M%.1f %.1fh0"; /* h0: a single point becomes a dot */
        }
        fprintf(d->stream, form, at(x, x_of(d, kind, &run->epoch[i])), at(y, value));
        drawing = true;
    }
    fprintf(d->stream,
            "\" fill=\"none\" stroke=\"#%06x\" stroke-width=\"1.8\" stroke-linejoin=\"round\" stroke-linecap=\"round\"",
            sl_svg_colour(r));
    end_line(d->stream, series);
}

/* Points of curves with few points are dots. Titles belong to dots, or to invisible circles. */
static void put_points(const struct drawing *d, enum x_kind kind, uint32_t r, const struct series *series,
                       double factor, const struct axis *x, const struct axis *y)
{
    const struct sl_curves_run *run = &d->curves->run[r];
    size_t n = count_points(run, series);
    size_t k = 0;
    for (size_t i = 0; i < run->n_epochs; i++) {
        const struct sl_curves_epoch *epoch = &run->epoch[i];
        double value = value_of(epoch, series, factor);
        if (!isfinite(value) || !kept(run, i, k++, n, MOST_TITLES)) {
            continue;
        }
        double px = at(x, x_of(d, kind, epoch));
        double py = at(y, value);
        if (n <= MOST_DOTS) {
            fprintf(d->stream, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" fill=\"#%06x\"/>\n", px, py,
                    sl_svg_colour(r));
        }
        fprintf(d->stream, "<circle class=\"p\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill-opacity=\"0\"><title>", px, py);
        sl_xml_put(d->stream, run->name, strlen(run->name));
        fprintf(d->stream, ", epoch %.0f, %.3f s: %s %.*f</title></circle>\n", epoch->epoch, epoch->end_s, series->name,
                decimals_of(factor), value);
    }
}

static void put_best(const struct drawing *d, enum x_kind kind, uint32_t r, const struct series *series, double factor,
                     const struct axis *x, const struct axis *y)
{
    const struct sl_curves_run *run = &d->curves->run[r];
    if (run->best == run->n_epochs) {
        return;
    }
    const struct sl_curves_epoch *best = &run->epoch[run->best];
    fprintf(d->stream,
            "<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\" fill=\"#fff\" stroke=\"#%06x\" "
            "stroke-width=\"2.5\"><title>best epoch %.0f: %.*f</title></circle>\n",
            at(x, x_of(d, kind, best)), at(y, value_of(best, series, factor)), sl_svg_colour(r), best->epoch,
            decimals_of(factor), value_of(best, series, factor));
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* A row's key at its right edge: a solid and a dashed line with their names, and the ring of the best epoch. */
static void put_key(const struct drawing *d, const struct series *series, size_t n, bool with_best)
{
    double x = WIDTH - MARGIN - 4;
    put_small(d->stream);
    for (size_t i = n; i-- > 0;) {
        sl_svg_text(d->stream, x, d->y, "end", series[i].name);
        x -= LETTER * (double)strlen(series[i].name) + 8;
        fprintf(d->stream, "<path d=\"M%.1f %.1fh28\" stroke=\"#444\" stroke-width=\"1.8\"", x - 28, d->y - 4);
        end_line(d->stream, &series[i]);
        x -= 28 + 16;
    }
    if (with_best) {
        sl_svg_text(d->stream, x, d->y, "end", "best epoch");
        fprintf(d->stream,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"#fff\" stroke=\"#444\" stroke-width=\"2\"/>\n",
                x - LETTER * 10 - 17, d->y - 4);
    }
    fputs("</g>\n", d->stream);
}

/* A row of panels. series[r][0..1]: the curves of run r. has[r]: the run has the curves. is_best[r]: a ring marks the
 * best epoch on the first curve. */
struct row {
    const char *title;
    double factor; /* 100: the values are printed in percent */
    struct series series[SL_MAX_CURVES][2];
    bool has[SL_MAX_CURVES], is_best[SL_MAX_CURVES];
};

/* The range of the values over all runs. False: no value is finite. */
static bool find_range(const struct drawing *d, const struct row *row, struct axis *out)
{
    *out = (struct axis){.lo = INFINITY, .hi = -INFINITY};
    for (uint32_t r = 0; r < d->curves->n; r++) {
        const struct sl_curves_run *run = &d->curves->run[r];
        for (size_t i = 0; row->has[r] && i < 2 * run->n_epochs; i++) {
            double value = value_of(&run->epoch[i / 2], &row->series[r][i % 2], row->factor);
            if (isfinite(value)) {
                out->lo = fmin(out->lo, value);
                out->hi = fmax(out->hi, value);
            }
        }
    }
    return out->lo <= out->hi;
}

static void put_panel(const struct drawing *d, const struct row *row, enum x_kind kind, struct axis y)
{
    struct axis x = x_axis(d, kind, column_left[kind]);
    char label[60] = "epoch";
    if (kind == BY_TIME) {
        snprintf(label, sizeof label, "training time, %s", d->unit);
    }
    put_ticks(d, &x, &y);
    fprintf(d->stream, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#444\"/>\n", x.from, y.to, y.from,
            x.to);
    put_small(d->stream);
    sl_svg_text(d->stream, (x.from + x.to) / 2, y.from + 35, "middle", label);
    fputs("</g>\n", d->stream);
    for (uint32_t r = 0; r < d->curves->n; r++) {
        for (int s = 1; row->has[r] && s >= 0; s--) {
            put_line(d, kind, r, &row->series[r][s], row->factor, &x, &y);
        }
    }
    for (uint32_t r = 0; r < d->curves->n; r++) {
        for (int s = 1; row->has[r] && s >= 0; s--) {
            put_points(d, kind, r, &row->series[r][s], row->factor, &x, &y);
        }
    }
    for (uint32_t r = 0; r < d->curves->n; r++) {
        if (row->is_best[r]) {
            put_best(d, kind, r, &row->series[r][0], row->factor, &x, &y);
        }
    }
}

/* True if a ring marks the best epoch of a run. */
static bool marks_best(const struct drawing *d, const struct row *row)
{
    bool marks = false;
    for (uint32_t r = 0; r < d->curves->n; r++) {
        marks |= row->is_best[r] && d->curves->run[r].best < d->curves->run[r].n_epochs;
    }
    return marks;
}

static void put_row(struct drawing *d, const struct row *row, const struct series *key)
{
    struct axis y;
    fputs("<g font-weight=\"bold\">", d->stream);
    sl_svg_text(d->stream, MARGIN, d->y, "start", row->title);
    fputs("</g>\n", d->stream);
    put_key(d, key, 2, marks_best(d, row));
    if (!find_range(d, row, &y)) {
        sl_svg_text(d->stream, column_left[0], d->y + 30, "start", "no finite value");
        d->y += 66;
        return;
    }
    widen_to_ticks(&y, 3);
    y.to = d->y + 14;
    y.from = y.to + PANEL_HEIGHT;
    for (int kind = 0; kind < N_COLUMNS; kind++) {
        put_panel(d, row, (enum x_kind)kind, y);
    }
    d->y = y.from + 70;
}

static void put_losses(struct drawing *d)
{
    static const struct series key[2] = {
        {"training", offsetof(struct sl_curves_epoch, train_loss), false, true},
        {"validation", offsetof(struct sl_curves_epoch, valid_loss), true, false},
    };
    struct row row = {.title = "Loss", .factor = 1};
    for (uint32_t r = 0; r < d->curves->n; r++) {
        memcpy(row.series[r], key, sizeof key);
        row.has[r] = true;
    }
    put_row(d, &row, key);
}

/* The position of a score in a run's list; n_scores: the run does not have it. */
static uint32_t find_score(const struct sl_curves_run *run, const char *name)
{
    uint32_t i = 0;
    while (i < run->n_scores && strcmp(run->score[i], name) != 0) {
        i++;
    }
    return i;
}

static void put_score(struct drawing *d, const char *name)
{
    struct sl_curves_score about = sl_curves_score(name);
    char title[80];
    struct row row = {.title = title, .factor = 1};
    static const struct series key[2] = {{"validation", 0, false, false}, {"test", 0, true, false}};
    snprintf(title, sizeof title, "%s (%s)", about.title, name);
    if (about.is_fraction) {
        row.factor = 100;
        snprintf(title, sizeof title, "%s (%s), %%", about.title, name);
    }
    for (uint32_t r = 0; r < d->curves->n; r++) {
        uint32_t i = find_score(&d->curves->run[r], name);
        memcpy(row.series[r], key, sizeof key);
        row.has[r] = i < d->curves->run[r].n_scores;
        row.is_best[r] = row.has[r] && i == d->curves->run[r].best_by;
        row.series[r][0].offset = offsetof(struct sl_curves_epoch, valid) + i * sizeof(double);
        row.series[r][1].offset = offsetof(struct sl_curves_epoch, test) + i * sizeof(double);
    }
    put_row(d, &row, key);
}

/* A row for each score of an evaluated run. A later run's further scores follow. */
static void put_scores(struct drawing *d)
{
    for (uint32_t r = 0; r < d->curves->n; r++) {
        const struct sl_curves_run *run = &d->curves->run[r];
        for (uint32_t i = 0; i < run->n_scores && run->best < run->n_epochs; i++) {
            bool drawn = false;
            for (uint32_t q = 0; q < r; q++) {
                const struct sl_curves_run *before = &d->curves->run[q];
                drawn |= before->best < before->n_epochs && find_score(before, run->score[i]) < before->n_scores;
            }
            if (!drawn) {
                put_score(d, run->score[i]);
            }
        }
    }
}

/* ---- stage times ------------------------------------------------------------------------------------------------- */

static double stage_mean(const struct sl_curves_run *run, size_t from, size_t to, int stage)
{
    double sum_s = 0;
    for (size_t i = from; i < to; i++) {
        sum_s += run->epoch[i].stage_s[stage];
    }
    return sum_s / (double)(to - from);
}

static double stage_sum(const struct sl_curves_run *run, size_t from, size_t to)
{
    double sum_s = 0;
    for (int s = 0; s < SL_N_STAGES; s++) {
        sum_s += stage_mean(run, from, to, s);
    }
    return sum_s;
}

/* The categories with time in a run, in the order of the bars. */
static void put_stage_key(struct drawing *d)
{
    double x = MARGIN;
    put_small(d->stream);
    for (int s = 0; s < SL_N_STAGES; s++) {
        const char *name = sl_stage_name((enum sl_stage)s);
        double most_s = 0;
        for (uint32_t r = 0; r < d->curves->n; r++) {
            most_s = fmax(most_s, stage_mean(&d->curves->run[r], 0, d->curves->run[r].n_epochs, s));
        }
        if (most_s > 0) {
            sl_svg_box(d->stream, x, d->y - 10, 12, 12, sl_stage_colour((enum sl_stage)s));
            fputs(" stroke=\"#888\"/>\n", d->stream);
            sl_svg_text(d->stream, x + 17, d->y, "start", name);
            x += 17 + LETTER * (double)strlen(name) + 16;
        }
    }
    fputs("</g>\n", d->stream);
    d->y += 14;
}

static void put_part(const struct drawing *d, double x, double y, double width, double height, int stage, double mean_s,
                     double sum_s)
{
    sl_svg_box(d->stream, x, y, width, height, sl_stage_colour((enum sl_stage)stage));
    fprintf(d->stream, "><title>%s %.4g s, %.1f %%</title></rect>\n", sl_stage_name((enum sl_stage)stage), mean_s,
            100 * mean_s / sum_s);
}

/* One run: columns over the epochs. Many epochs share a column, which shows their mean. */
static void put_stage_columns(struct drawing *d)
{
    const struct sl_curves_run *run = &d->curves->run[0];
    size_t stride = stride_of(run->n_epochs, 100);
    size_t n = stride_of(run->n_epochs, stride);
    double left = column_left[0];
    double width = (WIDTH - MARGIN - 4 - left) / (double)n;
    struct axis x = {.lo = run->epoch[0].epoch - 0.5, .from = left, .to = WIDTH - MARGIN - 4};
    struct axis y = {.lo = 0, .hi = 0};
    x.hi = x.lo + (double)(n * stride);
    x.tick = fmax(1, sl_svg_tick(x.hi - x.lo, 8));
    for (size_t c = 0; c < n; c++) {
        y.hi = fmax(y.hi, stage_sum(run, c * stride, (size_t)fmin((double)run->n_epochs, (double)((c + 1) * stride))));
    }
    widen_to_ticks(&y, 3);
    y.to = d->y + 10;
    y.from = y.to + PANEL_HEIGHT * 0.8;
    put_ticks(d, &x, &y);
    for (size_t c = 0; c < n; c++) {
        size_t from = c * stride;
        size_t to = (size_t)fmin((double)run->n_epochs, (double)(from + stride));
        double sum_s = stage_sum(run, from, to);
        double below_s = 0;
        for (int s = 0; s < SL_N_STAGES; s++) {
            double mean_s = stage_mean(run, from, to, s);
            if (mean_s > 0) {
                double top = at(&y, below_s + mean_s);
                put_part(d, left + width * ((double)c + 0.08), top, 0.84 * width, at(&y, below_s) - top, s, mean_s,
                         sum_s);
                below_s += mean_s;
            }
        }
    }
    put_small(d->stream);
    sl_svg_text(d->stream, (x.from + x.to) / 2, y.from + 35, "middle", "epoch");
    fputs("</g>\n", d->stream);
    d->y = y.from + 56;
}

static void shorten(const char *text, size_t letters, char *out, size_t bytes);

/* Several runs: a bar for each, the mean of its epochs. */
static void put_stage_bars(struct drawing *d)
{
    double left = 170;
    struct axis x = {.lo = 0, .hi = 0, .from = left, .to = WIDTH - MARGIN - 60};
    struct axis y = {.lo = 0, .hi = 1, .tick = 2, .to = d->y + 6};
    y.from = y.to + d->curves->n * (BAR_HEIGHT + 8) + 4;
    for (uint32_t r = 0; r < d->curves->n; r++) {
        x.hi = fmax(x.hi, stage_sum(&d->curves->run[r], 0, d->curves->run[r].n_epochs));
    }
    widen_to_ticks(&x, 3);
    y.lo = 0.5; /* no tick */
    put_ticks(d, &x, &y);
    for (uint32_t r = 0; r < d->curves->n; r++) {
        const struct sl_curves_run *run = &d->curves->run[r];
        char text[NAME_BYTES];
        double top = y.to + 4 + r * (BAR_HEIGHT + 8.0);
        double sum_s = stage_sum(run, 0, run->n_epochs);
        double below_s = 0;
        for (int s = 0; s < SL_N_STAGES; s++) {
            double mean_s = stage_mean(run, 0, run->n_epochs, s);
            if (mean_s > 0) {
                put_part(d, at(&x, below_s), top, at(&x, below_s + mean_s) - at(&x, below_s), BAR_HEIGHT, s, mean_s,
                         sum_s);
                below_s += mean_s;
            }
        }
        shorten(run->name, 19, text, sizeof text);
        sl_svg_box(d->stream, MARGIN, top + 3, 4, BAR_HEIGHT - 6, sl_svg_colour(r));
        fputs("/>\n<g font-size=\"13\">", d->stream);
        sl_svg_text(d->stream, MARGIN + 10, top + 15, "start", text);
        snprintf(text, sizeof text, "%.3g s", sum_s);
        sl_svg_text(d->stream, at(&x, sum_s) + 6, top + 15, "start", text);
        fputs("</g>\n", d->stream);
    }
    put_small(d->stream);
    sl_svg_text(d->stream, (x.from + x.to) / 2, y.from + 35, "middle", "task time of an epoch, s");
    fputs("</g>\n", d->stream);
    d->y = y.from + 56;
}

static void put_stages(struct drawing *d)
{
    double most_s = 0;
    for (uint32_t r = 0; r < d->curves->n; r++) {
        most_s = fmax(most_s, stage_sum(&d->curves->run[r], 0, d->curves->run[r].n_epochs));
    }
    if (!(most_s > 0)) {
        return;
    }
    fputs("<g font-weight=\"bold\">", d->stream);
    sl_svg_text(d->stream, MARGIN, d->y, "start",
                d->curves->n == 1 ? "Task time of an epoch, all workers together, s"
                                  : "Task time of an epoch, all workers together: mean over the epochs, s");
    fputs("</g>\n", d->stream);
    d->y += 22;
    put_stage_key(d);
    if (d->curves->n == 1) {
        put_stage_columns(d);
    } else {
        put_stage_bars(d);
    }
}

/* ---- legend ------------------------------------------------------------------------------------------------------ */

/* The first letters of a text, with an ellipsis if letters are missing. Wide and narrow letters count alike. */
static void shorten(const char *text, size_t letters, char *out, size_t bytes)
{
    size_t n = 0;
    size_t end = 0;
    while (text[end] != '\0' && n <= letters && end + 8 < bytes) {
        end++;
        while (((unsigned char)text[end] & 0xc0) == 0x80 && end + 8 < bytes) {
            end++;
        }
        n++;
    }
    if (text[end] == '\0' && n <= letters) {
        snprintf(out, bytes, "%s", text);
        return;
    }
    while (end > 0 && ((unsigned char)text[--end] & 0xc0) == 0x80) {
    }
    snprintf(out, bytes, "%.*s\u2026", (int)end, text);
}

static void score_text(const struct sl_curves_run *run, double value, char *out, size_t bytes)
{
    if (!isfinite(value)) {
        snprintf(out, bytes, "-");
    } else if (sl_curves_score(run->score[run->best_by]).is_fraction) {
        snprintf(out, bytes, "%.2f %%", 100 * value);
    } else {
        snprintf(out, bytes, "%.4g", value);
    }
}

/* "best epoch 10: acc 75.75 % valid, 76.75 % test; 12 epochs, 0.21 s each". */
static void result_text(const struct sl_curves_run *run, char *out, size_t bytes)
{
    char epochs[80];
    const char *form = "%zu epochs, %.3g s each";
    if (run->n_epochs == 1) {
        form = "%zu epoch, %.3g s";
    }
    int n = snprintf(epochs, sizeof epochs, form, run->n_epochs, sl_curves_epoch_s(run));
    if (!run->ended) {
        snprintf(epochs + n, sizeof epochs - (size_t)n, "; not ended");
    }
    if (run->best == run->n_epochs) {
        snprintf(out, bytes, "no evaluation; %s", epochs);
        return;
    }
    char valid[40];
    char test[40];
    const struct sl_curves_epoch *best = &run->epoch[run->best];
    score_text(run, best->valid[run->best_by], valid, sizeof valid);
    score_text(run, best->test[run->best_by], test, sizeof test);
    snprintf(out, bytes, "best epoch %.0f: %s %s valid, %s test; %s", best->epoch, run->score[run->best_by], valid,
             test, epochs);
}

/* Dataset and model, if all runs share them. */
static void put_title(struct drawing *d)
{
    static const char *const keys[] = {"dataset", "model"};
    char title[NAME_BYTES] = "";
    char shown[NAME_BYTES];
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *common = NULL;
        for (uint32_t r = 0; r < d->curves->n; r++) {
            const json_t *config = d->curves->run[r].config;
            const json_t *found = json_object_get(config, keys[k]);
            if (found == NULL) {
                found = json_object_get(json_object_get(config, "options"), keys[k]);
            }
            const char *value = json_string_value(found);
            if (value == NULL || (r > 0 && strcmp(value, common) != 0)) {
                common = NULL;
                break;
            }
            common = value;
        }
        if (common != NULL) {
            size_t n = strlen(title);
            snprintf(title + n, sizeof title - n, "%s%.150s", n > 0 ? ", " : "", common);
        }
    }
    shorten(title[0] != '\0' ? title : "Runs", 75, shown, sizeof shown);
    fputs("<g font-size=\"18\" font-weight=\"bold\">", d->stream);
    sl_svg_text(d->stream, MARGIN, d->y, "start", shown);
    fputs("</g>\n", d->stream);
    d->y += 28;
}

/* "seed2: seed 2, lr 0.01". */
static void label_text(const struct sl_curves_run *run, char *out, size_t bytes)
{
    if (run->difference[0] == '\0') {
        snprintf(out, bytes, "%.300s", run->name);
    } else {
        snprintf(out, bytes, "%.150s: %.200s", run->name, run->difference);
    }
}

static void put_legend(struct drawing *d)
{
    for (uint32_t r = 0; r < d->curves->n; r++) {
        const struct sl_curves_run *run = &d->curves->run[r];
        char text[NAME_BYTES];
        char shown[NAME_BYTES];
        label_text(run, text, sizeof text);
        shorten(text, 100, shown, sizeof shown);
        fprintf(d->stream, "<path d=\"M%d %.1fh26\" stroke=\"#%06x\" stroke-width=\"3\"/>\n<g><title>", MARGIN,
                d->y - 5, sl_svg_colour(r));
        sl_xml_put(d->stream, run->name, strlen(run->name));
        fputs(" ", d->stream);
        sl_xml_put(d->stream, run->difference, strlen(run->difference));
        fputs("</title>\n", d->stream);
        sl_svg_text(d->stream, MARGIN + 36, d->y, "start", shown);
        fputs("</g>\n<g font-size=\"12\" fill=\"#444\">", d->stream);
        result_text(run, text, sizeof text);
        sl_svg_text(d->stream, MARGIN + 36, d->y + 16, "start", text);
        fputs("</g>\n", d->stream);
        d->y += 40;
    }
    d->y += 12;
}

/* ---- whole pictures ---------------------------------------------------------------------------------------------- */

/* Seconds, minutes or hours, by the longest run. */
static void choose_unit(struct drawing *d)
{
    double most_s = 0;
    for (uint32_t r = 0; r < d->curves->n; r++) {
        most_s = fmax(most_s, d->curves->run[r].epoch[d->curves->run[r].n_epochs - 1].end_s);
    }
    d->unit_s = 1;
    d->unit = "s";
    if (most_s > 3 * 3600) {
        d->unit_s = 3600;
        d->unit = "hours";
    } else if (most_s > 600) {
        d->unit_s = 60;
        d->unit = "minutes";
    }
}

enum sl_status sl_plot_svg(const struct sl_curves *curves, FILE *stream)
{
    struct drawing d = {.curves = curves, .y = 32};
    struct sl_svg_body body;
    enum sl_status st = sl_svg_open(&body);
    if (st != SL_OK) {
        return st;
    }
    d.stream = body.stream;
    choose_unit(&d);
    put_title(&d);
    put_legend(&d);
    put_losses(&d);
    put_scores(&d);
    put_stages(&d);
    return sl_svg_close(&body, SL_OK, WIDTH, d.y, stream);
}

static void put_cell(FILE *stream, const char *text)
{
    fputs("<td>", stream);
    sl_xml_put(stream, text, strlen(text));
    fputs("</td>", stream);
}

static void put_table(const struct sl_curves *curves, FILE *stream)
{
    fputs("<table class=\"words\">\n<tr><th>run</th><th>differs in</th><th>result</th><th>peak memory</th></tr>\n",
          stream);
    for (uint32_t r = 0; r < curves->n; r++) {
        const struct sl_curves_run *run = &curves->run[r];
        char text[NAME_BYTES];
        fputs("<tr>", stream);
        put_cell(stream, run->name);
        put_cell(stream, run->difference);
        result_text(run, text, sizeof text);
        put_cell(stream, text);
        snprintf(text, sizeof text, "-");
        if (isfinite(run->peak_bytes)) {
            snprintf(text, sizeof text, "%.2f GB", run->peak_bytes / 1e9);
        }
        put_cell(stream, text);
        fputs("</tr>\n", stream);
    }
    fputs("</table>\n", stream);
}

enum sl_status sl_plot_page(const struct sl_curves *curves, FILE *stream)
{
    sl_page_begin(stream, "Starling runs", 1000);
    enum sl_status st = sl_plot_svg(curves, stream);
    if (st == SL_OK) {
        put_table(curves, stream);
        sl_page_end(stream);
    }
    return st;
}
