/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The timeline, and the graph of a step. */
#include "apps/report/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/svg.h"
#include "support/memory.h"

#define WIDTH 1600
#define LEFT 110 /* left edge of the drawings, pixels; names stand to the left */
#define RIGHT 20
#define DRAWN (WIDTH - LEFT - RIGHT)
#define BIN 3 /* pixels of a column of the overview */
#define N_BINS (DRAWN / BIN)
#define OVERVIEW 150 /* height, pixels */
#define LANES 360    /* height of all workers' lanes, at most */
#define BAR 15
#define SHOWN_STEPS 2     /* in the detail */
#define FOREIGN_SHARE 0.1 /* the detail's part of a trace without steps */
#define LEAST_PIXELS 0.4  /* narrower StarPU states are left out */
#define MOST_ARROWS 500

#define COLOUR_STARPU 0x9a9a9a
#define COLOUR_TRANSFER 0xff00c8
#define COLOUR_IDLE 0xf3f3f3

/* The drawing in progress: seconds from_s .. to_s fill DRAWN pixels. */
struct view {
    FILE *stream;
    const struct sl_analysis *analysis;
    const struct sl_trace_data *data;
    double from_s, to_s;
    double y; /* top of the next element */
};

static double x_of(const struct view *v, double s)
{
    return LEFT + DRAWN * (s - v->from_s) / (v->to_s - v->from_s);
}

/* Start a box over a time span. The caller closes the element. */
static void put_span(const struct view *v, double start_s, double end_s, double y, double height, unsigned colour)
{
    double x = x_of(v, fmax(start_s, v->from_s));
    double width = x_of(v, fmin(end_s, v->to_s)) - x;
    sl_svg_box(v->stream, x, y, fmax(width, LEAST_PIXELS), height, colour);
}

/* ---- steps ---- */

/* When a step was sampled (sampling, exchange of its ids) and when it computed. End 0: not in the trace. */
struct step {
    uint64_t step;
    double sample_s[2], compute_s[2]; /* first start, last end */
    bool has_loss;
};

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = ((const struct step *)a)->step;
    uint64_t y = ((const struct step *)b)->step;
    return (x > y) - (x < y);
}

static void widen(double *span, double start_s, double end_s)
{
    bool empty = span[1] == 0;
    span[0] = empty ? start_s : fmin(span[0], start_s);
    span[1] = fmax(span[1], end_s);
}

/* The steps of the trace's tasks, in order. Evaluation belongs to no step. */
static enum sl_status collect_steps(const struct sl_trace_data *data, struct step **out, size_t *n_out)
{
    struct step *step;
    size_t n = 0;
    size_t last = 0;
    enum sl_status st = sl_alloc(data->n_tasks, sizeof *step, "the trace's steps", &step);
    if (st != SL_OK) {
        return st;
    }
    for (size_t i = 0; i < data->n_tasks; i++) {
        const struct sl_trace_task *task = &data->task[i];
        if (task->ran && task->ours && task->stage != SL_STAGE_EVALUATE) {
            struct step one = {.step = task->step, .has_loss = task->stage == SL_STAGE_LOSS};
            widen(task->stage == SL_STAGE_SAMPLE ? one.sample_s : one.compute_s, task->start_s, task->end_s);
            step[n++] = one;
        }
    }
    qsort(step, n, sizeof *step, compare_steps);
    for (size_t i = 1; i < n; i++) {
        if (step[i].step != step[last].step) {
            step[++last] = step[i];
            continue;
        }
        if (step[i].sample_s[1] > 0) {
            widen(step[last].sample_s, step[i].sample_s[0], step[i].sample_s[1]);
        }
        if (step[i].compute_s[1] > 0) {
            widen(step[last].compute_s, step[i].compute_s[0], step[i].compute_s[1]);
        }
        step[last].has_loss |= step[i].has_loss;
    }
    *out = step;
    *n_out = n == 0 ? 0 : last + 1;
    return SL_OK;
}

/* The position of the middle step among the steps with a loss; n if there is none. */
static size_t middle_of(const struct step *step, size_t n)
{
    size_t n_loss = 0;
    size_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        n_loss += step[i].has_loss;
    }
    for (size_t i = 0; i < n; i++) {
        seen += step[i].has_loss;
        if (step[i].has_loss && seen == n_loss / 2 + 1) {
            return i;
        }
    }
    return n;
}

/* Find the middle step among the steps with a loss. False: there is none. */
static bool find_middle_step(const struct sl_trace_data *data, uint64_t *step_out)
{
    struct step *step;
    size_t n;
    if (collect_steps(data, &step, &n) != SL_OK) {
        return false;
    }
    size_t middle = middle_of(step, n);
    if (middle < n) {
        *step_out = step[middle].step;
    }
    sl_free(step);
    return middle < n;
}

/* ---- axis and legend ---- */

static void put_axis(const struct view *v, double y)
{
    double tick = sl_svg_tick(v->to_s - v->from_s, 6);
    bool milli = tick < 0.1;
    int digits = tick < 1 ? 1 : 0;
    if (milli) {
        digits = tick < 1e-3 ? 2 : 0;
    }
    double first = ceil(v->from_s / tick);
    for (int i = 0; (first + i) * tick <= v->to_s; i++) {
        char text[40];
        double s = (first + i) * tick;
        snprintf(text, sizeof text, "%.*f %s", digits, milli ? s * 1e3 : s, milli ? "ms" : "s");
        fprintf(v->stream, "<path d=\"M%.1f %.1fv5\" stroke=\"#444\"/>\n", x_of(v, s), y);
        sl_svg_text(v->stream, x_of(v, s), y + 18, "middle", text);
    }
}

static double put_key(const struct view *v, double x, unsigned colour, const char *name, double share)
{
    char text[SL_TRACE_STAGE_BYTES + 16];
    snprintf(text, sizeof text, "%s %.1f %%", name, 100 * share);
    sl_svg_box(v->stream, x, v->y - 11, 14, 13, colour);
    fputs(" stroke=\"#888\"/>\n", v->stream);
    sl_svg_text(v->stream, x + 19, v->y, "start", text);
    return x + 19 + 8.0 * (double)strlen(text) + 14;
}

static void put_legend(struct view *v)
{
    const struct sl_analysis *a = v->analysis;
    double whole_s = v->data->n_workers * v->data->makespan_s;
    double x = LEFT;
    for (uint32_t s = 0; s < v->data->n_stages; s++) {
        if (a->stage[s].n_tasks > 0) {
            x = put_key(v, x, v->data->stage[s].colour, v->data->stage[s].name,
                        a->stage[s].time.s[SL_TRACE_BUSY] / whole_s);
        }
        if (x > WIDTH - 250) {
            x = LEFT;
            v->y += 22;
        }
    }
    x = put_key(v, x, COLOUR_STARPU, "in StarPU", a->total.s[SL_TRACE_STARPU] / whole_s);
    if (x > WIDTH - 250) {
        x = LEFT;
        v->y += 22;
    }
    x = put_key(v, x, COLOUR_TRANSFER, "transfers", a->total.s[SL_TRACE_TRANSFER] / whole_s);
    put_key(v, x, COLOUR_IDLE, "idle", a->total.s[SL_TRACE_IDLE] / whole_s);
    v->y += 34;
}

/* ---- overview ---- */

/* Layers of the overview: the time categories, StarPU, transfers. The remaining area is idle time. */
static uint32_t layer_of(const struct sl_trace_data *data, const struct sl_trace_state *state)
{
    return state->kind == SL_TRACE_BUSY ? state->stage : data->n_stages + (state->kind == SL_TRACE_TRANSFER);
}

static unsigned layer_colour(const struct sl_trace_data *data, uint32_t layer)
{
    if (layer < data->n_stages) {
        return data->stage[layer].colour;
    }
    return layer == data->n_stages ? COLOUR_STARPU : COLOUR_TRANSFER;
}

/* Seconds of each layer in each column, over all workers. */
static void fill_bins(const struct sl_trace_data *data, double *bin)
{
    double bin_s = data->makespan_s / N_BINS;
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        if (state->kind == SL_TRACE_IDLE) {
            continue;
        }
        double *layer = bin + (size_t)layer_of(data, state) * N_BINS;
        size_t b = (size_t)(state->start_s / bin_s);
        for (; b < N_BINS && (double)b * bin_s < state->end_s; b++) {
            double start_s = fmax(state->start_s, (double)b * bin_s);
            layer[b] += fmax(0, fmin(state->end_s, (double)(b + 1) * bin_s) - start_s);
        }
    }
}

/* Draw the area between `below` and the upper edge of the layer. `below` then becomes the upper edge. */
static void put_layer(const struct view *v, const double *layer, double *below, unsigned colour)
{
    double full_s = v->data->makespan_s / N_BINS * v->data->n_workers;
    double bottom = v->y + OVERVIEW;
    fputs("<path d=\"M", v->stream);
    for (int b = 0; b < N_BINS; b++) {
        fprintf(v->stream, "%d %.1fh%d", LEFT + b * BIN, bottom - OVERVIEW * (below[b] + layer[b]) / full_s, BIN);
        fputc(b + 1 < N_BINS ? 'L' : ' ', v->stream);
    }
    for (int b = N_BINS - 1; b >= 0; b--) {
        fprintf(v->stream, "L%d %.1fh-%d", LEFT + (b + 1) * BIN, bottom - OVERVIEW * below[b] / full_s, BIN);
        below[b] += layer[b];
    }
    fprintf(v->stream, "z\" fill=\"#%06x\"/>\n", colour);
}

static enum sl_status put_overview(struct view *v)
{
    uint32_t n_layers = v->data->n_stages + 2;
    double below[N_BINS] = {0};
    double *bin;
    enum sl_status st = sl_alloc_zero((size_t)n_layers * N_BINS, sizeof *bin, "the overview", &bin);
    if (st != SL_OK) {
        return st;
    }
    fill_bins(v->data, bin);
    sl_svg_text(v->stream, LEFT, v->y - 6, "start", "The whole trace: all workers' time, by time category");
    sl_svg_box(v->stream, LEFT, v->y, N_BINS * BIN, OVERVIEW, COLOUR_IDLE);
    fputs(" stroke=\"#888\"/>\n", v->stream);
    sl_svg_text(v->stream, LEFT - 8, v->y + 10, "end", "100 %");
    sl_svg_text(v->stream, LEFT - 8, v->y + OVERVIEW, "end", "0 %");
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        uint32_t s = layer;
        if (layer >= v->data->n_stages || v->analysis->stage[s].n_tasks > 0) {
            put_layer(v, bin + (size_t)layer * N_BINS, below, layer_colour(v->data, layer));
        }
    }
    put_axis(v, v->y + OVERVIEW);
    sl_free(bin);
    return SL_OK;
}

/* ---- detail ---- */

static void put_lane(const struct view *v, uint32_t worker, double y, double height)
{
    const struct sl_trace_data *data = v->data;
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        if (state->worker != worker || state->kind == SL_TRACE_IDLE || state->kind == SL_TRACE_BUSY ||
            state->end_s <= v->from_s || state->start_s >= v->to_s) {
            continue;
        }
        double start_s = state->start_s;
        while (i + 1 < data->n_states && state[1].worker == worker && state[1].kind == state->kind) {
            state++;
            i++;
        }
        if (x_of(v, state->end_s) - x_of(v, start_s) >= LEAST_PIXELS) {
            put_span(v, start_s, state->end_s, y, height,
                     state->kind == SL_TRACE_STARPU ? COLOUR_STARPU : COLOUR_TRANSFER);
            fputs("/>\n", v->stream);
        }
    }
}

/* Tasks are drawn last: nothing hides a task. Each has its name and time as a tooltip. */
static void put_tasks(const struct view *v, double y, double height)
{
    const struct sl_trace_data *data = v->data;
    for (size_t i = 0; i < data->n_tasks; i++) {
        const struct sl_trace_task *task = &data->task[i];
        if (!task->ran || task->end_s <= v->from_s || task->start_s >= v->to_s || task->worker >= data->n_workers) {
            continue;
        }
        put_span(v, task->start_s, task->end_s, y + task->worker * height, height - 4, data->stage[task->stage].colour);
        fputs("><title>", v->stream);
        sl_xml_put(v->stream, task->name, task->n_name);
        fprintf(v->stream, " %.3f ms</title></rect>\n", (task->end_s - task->start_s) * 1e3);
    }
}

/* The middle of a rank's lanes. */
static double middle_of_rank(const struct sl_trace_data *data, uint32_t rank, double y, double height)
{
    uint32_t n_before = 0;
    uint32_t n = 0;
    for (uint32_t w = 0; w < data->n_workers; w++) {
        n_before += data->worker[w].rank < rank;
        n += data->worker[w].rank == rank;
    }
    return y + (n_before + n / 2.0) * height - 2;
}

/* Messages with more bytes first. */
static int compare_messages(const void *a, const void *b)
{
    uint64_t x = (*(const struct sl_trace_message *const *)a)->bytes;
    uint64_t y = (*(const struct sl_trace_message *const *)b)->bytes;
    return (x < y) - (x > y);
}

/* Several ranks: draw an arrow per message, from its sending in the sender's lanes to its receipt in the receiver's.
 * If there are too many messages, only the largest are drawn. */
static enum sl_status put_messages(const struct view *v, double y, double height)
{
    const struct sl_trace_data *data = v->data;
    const struct sl_trace_message **shown;
    size_t n = 0;
    enum sl_status st = sl_alloc(data->n_messages, sizeof *shown, "messages", &shown);
    if (st != SL_OK) {
        return st;
    }
    for (size_t i = 0; i < data->n_messages; i++) {
        const struct sl_trace_message *m = &data->message[i];
        if (m->start_s >= v->from_s && m->end_s <= v->to_s) {
            shown[n++] = m;
        }
    }
    qsort(shown, n, sizeof *shown, compare_messages);
    if (n > 0) {
        fputs("<marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
              "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker>\n",
              v->stream);
    }
    for (size_t i = 0; i < n && i < MOST_ARROWS; i++) {
        fprintf(v->stream,
                "<path d=\"M%.2f %.1fL%.2f %.1f\" stroke=\"#000\" fill=\"none\" marker-end=\"url(#arrow)\"><title>"
                "message of %llu bytes from rank %u to rank %u, %.3f ms</title></path>\n",
                x_of(v, shown[i]->start_s), middle_of_rank(data, shown[i]->from, y, height), x_of(v, shown[i]->end_s),
                middle_of_rank(data, shown[i]->to, y, height), (unsigned long long)shown[i]->bytes, shown[i]->from,
                shown[i]->to, (shown[i]->end_s - shown[i]->start_s) * 1e3);
    }
    sl_free(shown);
    return SL_OK;
}

static void put_step_bars(struct view *v, const struct step *step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[40];
        bool sampled = step[i].sample_s[1] > v->from_s && step[i].sample_s[0] < v->to_s;
        bool computed = step[i].compute_s[1] > v->from_s && step[i].compute_s[0] < v->to_s;
        if (!sampled && !computed) {
            continue;
        }
        snprintf(name, sizeof name, "step %llu", (unsigned long long)step[i].step);
        sl_svg_text(v->stream, LEFT - 8, v->y + BAR - 4, "end", name);
        if (sampled && step[i].sample_s[1] > 0) {
            put_span(v, step[i].sample_s[0], step[i].sample_s[1], v->y, BAR - 8,
                     v->data->stage[SL_STAGE_SAMPLE].colour);
            fputs("><title>sampled</title></rect>\n", v->stream);
        }
        if (computed && step[i].compute_s[1] > 0) {
            put_span(v, step[i].compute_s[0], step[i].compute_s[1], v->y + BAR - 8, BAR - 8, 0x444444);
            fputs("><title>computed</title></rect>\n", v->stream);
        }
        v->y += BAR + 2;
    }
}

/* Mark when steps begin to compute. The user events of the Paje trace mark the earlier submission instead. */
static void put_marks(const struct view *v, const struct step *step, size_t n, double bottom)
{
    for (size_t i = 0; i < n; i++) {
        double s = step[i].compute_s[0];
        if (step[i].compute_s[1] > 0 && s >= v->from_s && s < v->to_s) {
            fprintf(v->stream, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#c00\" stroke-dasharray=\"5 3\" fill=\"none\"/>\n",
                    x_of(v, s), v->y - 2, bottom);
        }
    }
}

/* Choose the time span of the detail. With steps: SHOWN_STEPS steps from the middle one on, or the whole trace if no
 * step has a loss. Without steps: a part in the middle. */
static void choose_detail(struct view *v, const struct step *step, size_t n)
{
    size_t first = middle_of(step, n);
    double makespan_s = v->data->makespan_s;
    v->from_s = 0;
    v->to_s = makespan_s;
    if (n > 0 && first == n) {
        return;
    }
    if (n == 0) {
        v->from_s = makespan_s * (0.5 - FOREIGN_SHARE / 2);
        v->to_s = makespan_s * (0.5 + FOREIGN_SHARE / 2);
        return;
    }
    size_t last = first;
    while (last + 1 < n && last + 1 < first + SHOWN_STEPS && step[last + 1].has_loss) {
        last++;
    }
    v->from_s = fmax(0, step[first].compute_s[0] - 0.02 * (step[last].compute_s[1] - step[first].compute_s[0]));
    v->to_s = fmin(makespan_s, step[last].compute_s[1]);
}

static enum sl_status put_detail(struct view *v, const struct step *step, size_t n)
{
    enum sl_status st = SL_OK;
    double height = fmax(14, fmin(64, LANES / (double)v->data->n_workers));
    choose_detail(v, step, n);
    sl_svg_text(v->stream, LEFT, v->y - 8, "start",
                n > 0 ? "Steps in its middle, task by task; dashed: a step begins to compute"
                      : "Its middle, task by task");
    double lanes = v->y;
    for (uint32_t w = 0; w < v->data->n_workers; w++) {
        char name[SL_TRACE_WORKER_BYTES];
        double y = lanes + w * height;
        sl_trace_worker_name(v->data, w, name);
        sl_svg_text(v->stream, LEFT - 8, y + height / 2 + 3, "end", name);
        sl_svg_box(v->stream, LEFT, y, DRAWN, height - 4, COLOUR_IDLE);
        fputs(" stroke=\"#ccc\"/>\n", v->stream);
        put_lane(v, w, y, height - 4);
    }
    put_tasks(v, lanes, height);
    if (v->data->n_ranks > 1) {
        SL_TRY(st, put_messages(v, lanes, height), done);
    }
    put_marks(v, step, n, lanes + v->data->n_workers * height);
    v->y = lanes + v->data->n_workers * height;
    put_axis(v, v->y);
    v->y += 52;
    if (n > 0) {
        sl_svg_text(v->stream, LEFT, v->y - 8, "start",
                    "Each step: when it was sampled (blue), when it gathered and computed (dark)");
        put_step_bars(v, step, n);
        v->y += 8;
    }
done:
    return st;
}

static void put_title(struct view *v)
{
    const struct sl_analysis *a = v->analysis;
    double whole_s = v->data->n_workers * v->data->makespan_s;
    char title[160];
    snprintf(title, sizeof title, "%llu tasks on %u workers in %.3f s: %.1f %% busy, %.1f %% idle",
             (unsigned long long)a->n_tasks, v->data->n_workers, v->data->makespan_s,
             100 * a->total.s[SL_TRACE_BUSY] / whole_s, 100 * a->total.s[SL_TRACE_IDLE] / whole_s);
    fputs("<g font-size=\"18\">", v->stream);
    sl_svg_text(v->stream, LEFT, v->y, "start", title);
    fputs("</g>\n", v->stream);
    v->y += 28;
}

/* Draw all but the frame: its height is known only at the end. */
static enum sl_status put_body(struct view *v)
{
    struct step *step = NULL;
    size_t n = 0;
    enum sl_status st;
    SL_TRY(st, collect_steps(v->data, &step, &n), done);
    put_title(v);
    put_legend(v);
    SL_TRY(st, put_overview(v), done);
    v->y += OVERVIEW + 60;
    st = put_detail(v, step, n);
done:
    sl_free(step);
    return st;
}

enum sl_status sl_timeline_write(const struct sl_analysis *analysis, FILE *stream)
{
    struct view v = {
        .analysis = analysis, .data = analysis->data, .from_s = 0, .to_s = analysis->data->makespan_s, .y = 28};
    struct sl_svg_body body;
    enum sl_status st = sl_svg_open(&body);
    if (st != SL_OK) {
        return st;
    }
    v.stream = body.stream;
    st = put_body(&v);
    return sl_svg_close(&body, st, WIDTH, v.y, stream);
}

/* ---- the graph of one step ---- */

#define FIRST_ON_PATH UINT32_MAX

/* State while edges are written. critical[i]: 0 if task i is not on the path, else 1 + position of the task before
 * it, or FIRST_ON_PATH. */
struct dag {
    const struct sl_trace_data *data;
    FILE *stream;
    bool *shown;
    uint32_t *critical;
    uint32_t *seen; /* 1 + position of the task whose dependencies last reached this task */
    uint32_t *stack;
};

static void put_node(const struct dag *dag, uint32_t i)
{
    const struct sl_trace_task *task = &dag->data->task[i];
    unsigned c = dag->data->stage[task->stage].colour;
    bool dark = 0.3 * (c >> 16 & 255) + 0.59 * (c >> 8 & 255) + 0.11 * (c & 255) < 140;
    fprintf(dag->stream, "  t%u [label=\"", i);
    for (uint32_t k = 0; k < task->n_name; k++) {
        char letter = task->name[k];
        bool odd = letter == '"' || letter == '\\' || (unsigned char)letter < ' ';
        fputc(odd ? '?' : letter, dag->stream);
    }
    fprintf(dag->stream, "\\n%.3f ms\", fillcolor=\"#%06x\", fontcolor=%s%s];\n", (task->end_s - task->start_s) * 1e3,
            c, dark ? "white" : "black", dag->critical[i] != 0 ? ", color=red, penwidth=4" : "");
}

/* Edges into a task from its shown dependencies, direct or through StarPU's own tasks (not shown). */
static void put_edges(const struct dag *dag, uint32_t i)
{
    const struct sl_trace_data *data = dag->data;
    size_t n = 0;
    dag->stack[n++] = i;
    while (n > 0) {
        const struct sl_trace_task *task = &data->task[dag->stack[--n]];
        for (uint32_t d = 0; d < task->n_deps; d++) {
            uint32_t dep = data->dep[task->first_dep + d];
            if (dag->seen[dep] == i + 1) {
                continue;
            }
            dag->seen[dep] = i + 1;
            if (dag->shown[dep]) {
                fprintf(dag->stream, "  t%u -> t%u%s;\n", dep, i,
                        dag->critical[i] == dep + 1 ? " [color=red, penwidth=3]" : "");
            } else if (!data->task[dep].ran) {
                dag->stack[n++] = dep;
            }
        }
    }
}

static enum sl_status dag_open(const struct sl_analysis *a, FILE *stream, struct dag *dag)
{
    const struct sl_trace_data *data = a->data;
    uint64_t step = 0;
    bool stepped = find_middle_step(data, &step);
    uint32_t n_shown = 0;
    enum sl_status st;
    *dag = (struct dag){.data = data, .stream = stream};
    SL_TRY(st, sl_alloc_zero(data->n_tasks, sizeof *dag->shown, "the graph", &dag->shown), done);
    SL_TRY(st, sl_alloc_zero(data->n_tasks, sizeof *dag->critical, "the graph", &dag->critical), done);
    SL_TRY(st, sl_alloc_zero(data->n_tasks, sizeof *dag->seen, "the graph", &dag->seen), done);
    SL_TRY(st, sl_alloc_zero(data->n_tasks + 1, sizeof *dag->stack, "the graph", &dag->stack), done);
    for (size_t i = 0; i < data->n_tasks; i++) {
        const struct sl_trace_task *task = &data->task[i];
        bool wanted =
            stepped ? task->ours && task->step == step && task->stage != SL_STAGE_EVALUATE : n_shown < SL_DAG_MAX_TASKS;
        dag->shown[i] = task->ran && wanted;
        n_shown += dag->shown[i];
    }
    for (size_t i = 0; i < a->n_path; i++) {
        dag->critical[a->path[i]] = i == 0 ? FIRST_ON_PATH : a->path[i - 1] + 1;
    }
done:
    return st;
}

enum sl_status sl_dag_write(const struct sl_analysis *analysis, FILE *stream)
{
    struct dag dag;
    enum sl_status st;
    SL_TRY(st, dag_open(analysis, stream, &dag), done);
    fputs("digraph step {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", stream);
    for (uint32_t i = 0; i < analysis->data->n_tasks; i++) {
        if (dag.shown[i]) {
            put_node(&dag, i);
            put_edges(&dag, i);
        }
    }
    fputs("}\n", stream);
done:
    sl_free(dag.shown);
    sl_free(dag.critical);
    sl_free(dag.seen);
    sl_free(dag.stack);
    return st;
}
