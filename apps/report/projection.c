/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The projection: counts, work, messages, and their sum. */
#include "apps/report/projection.h"

#include <math.h>

const char *const sl_project_modes[SL_N_PROJECT_MODES] = {"independent", "gossip", "machine", "cooperative"};
const char *const sl_project_parts[SL_N_PROJECT_PARTS] = {"work", "fixed", "links", "messages", "bytes", "sums"};

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* A count as a function of n. Points are sorted by n; points whose n differ by less than 1 % are averaged. */
struct curve {
    uint32_t n_points;
    double n[SL_MAX_MEASURED], y[SL_MAX_MEASURED], weight[SL_MAX_MEASURED];
    double most;
};

static void add_point(struct curve *c, double n, double y)
{
    uint32_t i = 0;
    while (i < c->n_points && c->n[i] < 0.99 * n) {
        i++;
    }
    if (i < c->n_points && c->n[i] <= 1.01 * n) {
        c->weight[i]++;
        c->n[i] += (n - c->n[i]) / c->weight[i];
        c->y[i] += (y - c->y[i]) / c->weight[i];
        return;
    }
    for (uint32_t j = c->n_points++; j > i; j--) {
        c->n[j] = c->n[j - 1];
        c->y[j] = c->y[j - 1];
        c->weight[j] = c->weight[j - 1];
    }
    c->n[i] = n;
    c->y[i] = y;
    c->weight[i] = 1;
}

/* Slope of the logarithms between points i - 1 and i. */
static double slope(const struct curve *c, uint32_t i)
{
    return log(c->y[i] / c->y[i - 1]) / log(c->n[i] / c->n[i - 1]);
}

/* Slope of the counts beyond point i. Noise must not make the slope negative or more than proportional. */
static double rise(const struct curve *c, uint32_t i)
{
    double proportional = c->y[i] / c->n[i];
    if (i == 0) {
        return proportional;
    }
    return fmin(fmax((c->y[i] - c->y[i - 1]) / (c->n[i] - c->n[i - 1]), 0), proportional);
}

static double interpolate(const struct curve *c, double n)
{
    uint32_t last = c->n_points - 1;
    uint32_t i = 0;
    double y;
    while (i < last && c->n[i] < n) {
        i++;
    }
    if (n > c->n[last]) {
        y = c->y[last] + rise(c, last) * (n - c->n[last]);
    } else if (i == 0) {
        y = c->y[0] * n / c->n[0];
    } else {
        y = c->y[i] * pow(n / c->n[i], slope(c, i));
    }
    return fmin(y, c->most);
}

/* ---- an epoch's counts ------------------------------------------------------------------------------------------- */

/* Sums over all steps and PEs of an epoch. */
struct counts {
    /* models: steps times the number of models that are trained side by side */
    double n_steps, pe_steps, models;
    double vertices[SL_MAX_LAYERS + 1];
    double edges[SL_MAX_LAYERS];
    double rows, ids, gradients; /* bytes between PEs */
};

static double groups_of(const struct sl_measured *run)
{
    return run->pes / run->group_size;
}

/* Mean seeds of a group's step. */
static double group_seeds(const struct sl_measured *run)
{
    return run->vertices[0] / (sl_measured_steps(run) * groups_of(run));
}

/* Bytes of rows if each edge brought a row of its own. */
static double all_rows(const struct sl_measured *shape, const double *edges)
{
    double numbers = 0;
    for (uint32_t h = 0; h < shape->layers; h++) {
        numbers += edges[h] * (h + 1 == shape->layers ? shape->features : shape->hidden);
    }
    return numbers * sizeof(sl_real);
}

static struct counts counts_of(const struct sl_measured *run)
{
    struct counts c = {.n_steps = sl_measured_steps(run),
                       .rows = run->row_bytes,
                       .ids = run->id_bytes,
                       .gradients = run->row_gradient_bytes};
    c.pe_steps = c.n_steps * run->pes;
    c.models = c.n_steps;
    for (uint32_t h = 0; h <= run->layers; h++) {
        c.vertices[h] = run->vertices[h];
        c.edges[h] = h < run->layers ? run->edges[h] : 0;
    }
    return c;
}

/* A count of a group's step with n seeds: edges of hop h, or vertices of hop h. */
static double group_count(const struct sl_projection *p, uint32_t h, bool edges, double n)
{
    struct curve c = {.most = edges ? p->run->n_edges : p->run->n_vertices};
    for (uint32_t i = 0; i < p->n_runs; i++) {
        const struct sl_measured *run = &p->run[i];
        double count = edges ? run->edges[h] : run->vertices[h];
        add_point(&c, group_seeds(run), count / (sl_measured_steps(run) * groups_of(run)));
    }
    return interpolate(&c, n);
}

/* Fraction of all_rows between PEs of groups with this size. */
static double row_share(const struct sl_projection *p, uint32_t group_size)
{
    struct curve c = {.most = 1};
    if (group_size <= 1) {
        return 0;
    }
    for (uint32_t i = 0; i < p->n_runs; i++) {
        const struct sl_measured *run = &p->run[i];
        if (run->group_size > 1 && run->row_bytes > 0) {
            add_point(&c, run->group_size, run->row_bytes / all_rows(run, run->edges));
        }
    }
    return interpolate(&c, group_size);
}

static struct counts project_counts(const struct sl_projection *p, uint32_t n_pes, uint32_t group_size, double models)
{
    const struct sl_measured *shape = p->run;
    double n_seeds = shape->vertices[0];
    struct counts c = {.n_steps = ceil(n_seeds / ((double)n_pes * p->batch_size))};
    double n_groups = (double)n_pes / group_size;
    double n = n_seeds / (c.n_steps * n_groups);
    c.pe_steps = c.n_steps * n_pes;
    c.models = c.n_steps * models;
    c.vertices[0] = n_seeds;
    for (uint32_t h = 0; h < shape->layers; h++) {
        c.vertices[h + 1] = c.n_steps * n_groups * group_count(p, h + 1, false, n);
        c.edges[h] = c.n_steps * n_groups * group_count(p, h, true, n);
    }
    c.rows = row_share(p, group_size) * all_rows(shape, c.edges);
    c.ids = c.rows * p->id_share;
    c.gradients = c.rows * p->gradient_share;
    return c;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* Edges, each times its summed columns. */
static double added(const struct sl_measured *shape, const struct counts *c)
{
    return all_rows(shape, c->edges);
}

/* Multiplications of the products: rows by columns in and out. */
static double multiplied(const struct sl_measured *shape, const struct counts *c)
{
    double sum = 0;
    for (uint32_t h = 0; h < shape->layers; h++) {
        double in = h + 1 == shape->layers ? shape->features : shape->hidden;
        double out = h == 0 ? shape->classes : shape->hidden;
        sum += c->vertices[h] * in * out;
    }
    return sum;
}

static double drawn(const struct sl_measured *shape, const struct counts *c)
{
    double sum = 0;
    for (uint32_t h = 0; h < shape->layers; h++) {
        sum += c->edges[h];
    }
    return sum;
}

static double units(const struct sl_measured *shape, const struct counts *c, enum sl_stage stage)
{
    switch (stage) {
    case SL_STAGE_SAMPLE: return drawn(shape, c);
    case SL_STAGE_EXCHANGE: return c->rows + c->ids + c->gradients;
    case SL_STAGE_GATHER: return c->vertices[shape->layers];
    case SL_STAGE_AGGREGATE: return added(shape, c);
    case SL_STAGE_DENSE:
    case SL_STAGE_BACKWARD: return multiplied(shape, c);
    case SL_STAGE_LOSS: return c->vertices[0];
    case SL_STAGE_SYNC: return c->pe_steps;
    case SL_STAGE_OPTIMISE: return c->models;
    default: return 0;
    }
}

/* Seconds of all workers per second of task time. */
static double idle_factor(const struct sl_measured *run)
{
    double busy = 0;
    for (int k = 0; k < SL_N_STAGES; k++) {
        busy += run->stage_s[k];
    }
    return busy > 0 ? run->seconds * run->n_workers / busy : 1;
}

/* Seconds of all devices at the first run's rates, with the cost per step spread over the work. */
static double work_at_rates(const struct sl_projection *p, const struct counts *c)
{
    double sum = 0;
    for (int k = 0; k < SL_N_STAGES; k++) {
        sum += p->rate_s[k] * units(p->run, c, k);
    }
    return sum;
}

static bool of_one_process(const struct sl_measured *run)
{
    return run->n_ranks == 1;
}

static void set_rates(struct sl_projection *p)
{
    for (uint32_t i = 0; i < p->n_runs; i++) {
        const struct sl_measured *run = &p->run[i];
        struct counts c = counts_of(run);
        double factor = idle_factor(run);
        if (!of_one_process(run)) {
            continue;
        }
        for (int k = 0; k < SL_N_STAGES; k++) {
            double u = units(run, &c, k);
            bool wanted = i == 0 || (k == SL_STAGE_EXCHANGE && p->rate_s[k] == 0);
            if (wanted && u > 0) {
                p->rate_s[k] = run->stage_s[k] * factor / u;
            }
        }
    }
}

/* True if the run's time shows the cost of a step. A run with about as many steps as the first shows little but
 * noise. */
static bool tells_of_steps(const struct sl_measured *run, const struct sl_measured *first)
{
    return of_one_process(run) && sl_measured_steps(run) * run->pes >= 10 * sl_measured_steps(first) * first->pes;
}

/* The model: the first run's time is w + f s, where s is the number of its PEs' steps. Another run, with work w_i at
 * the same rates and s_i steps, takes (1 - f s / w) w_i + f s_i. Fit f by least squares. */
static void fit_fixed(struct sl_projection *p)
{
    struct counts first = counts_of(p->run);
    double w = work_at_rates(p, &first);
    double above = 0;
    double below = 0;
    for (uint32_t i = 1; i < p->n_runs; i++) {
        const struct sl_measured *run = &p->run[i];
        struct counts c = counts_of(run);
        double w_i = work_at_rates(p, &c);
        double x = c.pe_steps - first.pe_steps * w_i / w;
        if (tells_of_steps(run, p->run)) {
            above += x * (run->seconds * run->n_workers - w_i);
            below += x * x;
        }
    }
    p->fixed_s = 0;
    if (below > 0) {
        p->fixed_s = fmin(fmax(above / below, 0), w / first.pe_steps);
    }
}

static void set_shares(struct sl_projection *p)
{
    uint32_t largest = 1;
    for (uint32_t i = 0; i < p->n_runs; i++) {
        const struct sl_measured *run = &p->run[i];
        if (run->group_size > largest && run->row_bytes > 0) {
            largest = run->group_size;
            p->exchanged = true;
            p->id_share = run->id_bytes / run->row_bytes;
            p->gradient_share = run->row_gradient_bytes / run->row_bytes;
        }
    }
}

enum sl_status sl_projection_make(struct sl_projection *p, uint32_t batch_size)
{
    if (!of_one_process(p->run)) {
        return sl_fail(SL_EINVAL,
                       "the first file is of a run of %u processes, which wait for each other: expected one of a "
                       "single process, of which the rates of work are taken",
                       p->run->n_ranks);
    }
    p->batch_size = batch_size > 0 ? batch_size : p->run->batch_size;
    p->exchanged = false;
    p->fixed_s = p->id_share = p->gradient_share = 0;
    for (int k = 0; k < SL_N_STAGES; k++) {
        p->rate_s[k] = 0;
    }
    set_rates(p);
    set_shares(p);
    fit_fixed(p);
    return SL_OK;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The groups and machines of a projection. */
struct wiring {
    enum sl_project_mode mode;
    double n_devices, n_machines, per_machine, group_size;
    double group_machines; /* machines of a group */
    double elsewhere;      /* partners of a PE on other machines */
    double share;          /* of a group's bytes between PEs: the share between machines */
};

static struct wiring wire(const struct sl_cluster *cluster, enum sl_project_mode mode, uint32_t n_devices)
{
    struct wiring w = {.mode = mode, .n_devices = n_devices, .per_machine = fmin(cluster->per_machine, n_devices)};
    w.n_machines = w.n_devices / w.per_machine;
    w.group_size = 1;
    if (mode == SL_PROJECT_COOPERATIVE) {
        w.group_size = w.n_devices;
    } else if (mode == SL_PROJECT_MACHINE) {
        w.group_size = w.per_machine;
    }
    w.group_machines = fmax(w.group_size / w.per_machine, 1);
    w.elsewhere = fmax(w.group_size - w.per_machine, 0);
    w.share = w.group_size > 1 ? w.elsewhere / (w.group_size - 1) : 0;
    return w;
}

static double bytes_s(const struct sl_link *link, double bytes)
{
    return link->bytes_per_s > 0 ? bytes / link->bytes_per_s : 0;
}

static double step_links(const struct wiring *w, const struct sl_cluster *cluster, double layers)
{
    bool counted = w->mode != SL_PROJECT_GOSSIP && w->n_machines > 1;
    double links = 3 * layers - 1;
    double seconds = 0;
    if (w->elsewhere > 0) {
        seconds = links * cluster->between.latency_s;
    } else if (w->group_size > 1) {
        seconds = links * cluster->inside.latency_s;
    }
    return counted ? seconds + cluster->between.latency_s : seconds;
}

/* Messages of one machine in a step. */
static double step_messages(const struct wiring *w, double layers)
{
    double counts = w->mode == SL_PROJECT_GOSSIP ? 0 : (w->per_machine + 1) * (w->n_machines - 1);
    double requests = w->per_machine * layers * (w->group_machines - 1);
    double rows = w->per_machine * (2 * layers - 1) * w->elsewhere;
    return counts + requests + rows;
}

/* Arrays go down the chain one after another. The last machine sends each array to all further machines. */
static double step_sums(const struct wiring *w, const struct sl_link *link, const struct sl_measured *shape)
{
    double arrays = shape->n_parameters;
    double one = bytes_s(link, shape->parameter_bytes / arrays);
    double others = w->n_machines - 1;
    if (others <= 0) {
        return 0;
    }
    if (w->mode == SL_PROJECT_GOSSIP) {
        double senders = w->per_machine * (w->n_devices - w->per_machine) / (w->n_devices - 1);
        return link->latency_s + senders * arrays * (link->message_s + one);
    }
    return others * (link->latency_s + one) + (arrays - 1) * (link->message_s + one) + link->latency_s +
           others * arrays * (link->message_s + one);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* True if seeds and group size are within the range of the runs. */
static bool is_measured(const struct sl_projection *p, const struct counts *c, const struct wiring *w)
{
    double n = c->vertices[0] * w->group_size / c->pe_steps;
    double most = 0;
    double least = INFINITY;
    double largest = 1;
    for (uint32_t i = 0; i < p->n_runs; i++) {
        most = fmax(most, group_seeds(&p->run[i]));
        least = fmin(least, group_seeds(&p->run[i]));
        largest = fmax(largest, p->run[i].group_size);
    }
    return n >= 0.99 * least && n <= 1.01 * most && w->group_size <= largest;
}

static void add_work(const struct sl_projection *p, const struct sl_cluster *cluster, const struct counts *c,
                     const struct wiring *w, struct sl_projected *out)
{
    struct counts first = counts_of(p->run);
    double rest = 1 - p->fixed_s * first.pe_steps / work_at_rates(p, &first);
    double serving = w->n_devices;
    if (cluster->processors > 0) {
        serving = fmin(cluster->processors, serving);
    }
    out->part_s[SL_PROJECT_WORK] = work_at_rates(p, c) * rest * cluster->slowness / serving;
    out->part_s[SL_PROJECT_FIXED] = p->fixed_s * c->pe_steps * cluster->slowness / serving;
}

static void add_messages(const struct sl_projection *p, const struct sl_cluster *cluster, const struct counts *c,
                         const struct wiring *w, struct sl_projected *out)
{
    double between_pes = c->rows + c->ids + c->gradients;
    double away = between_pes * w->share;
    out->between_bytes = away;
    out->part_s[SL_PROJECT_LINKS] = c->n_steps * step_links(w, cluster, p->run->layers);
    out->part_s[SL_PROJECT_MESSAGES] = c->n_steps * step_messages(w, p->run->layers) * cluster->between.message_s;
    out->part_s[SL_PROJECT_BYTES] = bytes_s(&cluster->between, away / w->n_machines) +
                                    bytes_s(&cluster->inside, (between_pes - away) / w->n_machines);
    out->part_s[SL_PROJECT_SUMS] = c->n_steps * step_sums(w, &cluster->between, p->run);
}

static enum sl_status check(const struct sl_projection *p, const struct sl_cluster *cluster, const struct wiring *w)
{
    if (cluster->per_machine == 0 || fmod(w->n_devices, w->per_machine) != 0) {
        return sl_fail(SL_EINVAL, "found %g devices by %u a machine, expected whole machines", w->n_devices,
                       cluster->per_machine);
    }
    if (w->group_size > 1 && !p->exchanged) {
        return sl_fail(SL_EINVAL,
                       "what cooperating PEs send was not measured: expected also a file of a run with --pes and "
                       "--group-size of 2 or more");
    }
    if (w->n_devices > p->run->vertices[0]) {
        return sl_fail(SL_EINVAL,
                       "found %g devices for %g training vertices, expected one or more for each; name fewer --devices",
                       w->n_devices, p->run->vertices[0]);
    }
    return SL_OK;
}

enum sl_status sl_projection_epoch(const struct sl_projection *p, const struct sl_cluster *cluster,
                                   enum sl_project_mode mode, uint32_t n_devices, struct sl_projected *out)
{
    struct wiring w = wire(cluster, mode, n_devices);
    enum sl_status st = check(p, cluster, &w);
    if (st != SL_OK) {
        return st;
    }
    double models = mode == SL_PROJECT_GOSSIP ? w.n_devices : w.n_machines;
    struct counts c = project_counts(p, n_devices, (uint32_t)w.group_size, models);
    *out = (struct sl_projected){.n_steps = c.n_steps,
                                 .seeds = c.vertices[0] / c.n_steps,
                                 .input_rows = c.vertices[p->run->layers],
                                 .measured = is_measured(p, &c, &w)};
    add_work(p, cluster, &c, &w, out);
    add_messages(p, cluster, &c, &w, out);
    for (int part = 0; part < SL_N_PROJECT_PARTS; part++) {
        out->seconds += out->part_s[part];
    }
    return SL_OK;
}
