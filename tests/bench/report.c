/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Four tables: figures, codelets, floor, what is beside it. */
#include "tests/bench/report.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"

/* ---- medians ---- */

struct spread {
    double low, median, high;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct spread spread_of(const double *values, uint32_t n)
{
    double sorted[PROBE_MAX_REPEATS];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, compare);
    return (struct spread){sorted[0], (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[n - 1]};
}

/* "| name | median | low .. high |" of values times `scale`. */
static void print_spread(FILE *stream, const char *name, const double *values, uint32_t n, double scale,
                         const char *unit)
{
    struct spread s = spread_of(values, n);
    fprintf(stream, "| %s | %.4g%s | %.4g .. %.4g |\n", name, scale * s.median, unit, scale * s.low, scale * s.high);
}

/* ---- the run ---- */

static void print_run(const struct bench_report *r, FILE *stream)
{
    const struct sl_settings *s = r->settings;
    const struct bench_shape *shape = &r->probe->shape;
    fprintf(stream, "### %s: %s\n\n", r->title, r->dataset);
    fprintf(stream, "Starling %s, %u workers, scheduler %s; %u layers, hidden %u, fanout ", PACKAGE_VERSION,
            r->n_workers, r->sched, s->layers, s->hidden);
    for (uint32_t i = 0; i < s->n_fanout; i++) {
        fprintf(stream, "%s%u", i > 0 ? "," : "", s->fanout[i]);
    }
    fprintf(stream, ", %u PEs in groups of %u, batch %u each, %u chunks, depth %u, %llu steps an epoch.\n\n", s->pes,
            s->group_size, s->batch_size, s->chunks, s->depth, (unsigned long long)shape->n_steps);
}

/* Epoch / floor in processor time: what the ratio would be had no other program run. Idle workers use processor
 * time, too. */
static void print_undisturbed(const struct bench_report *r, double floor_s, FILE *stream)
{
    double ratio[PROBE_MAX_REPEATS];
    for (uint32_t i = 0; i < r->probe->n_repeats; i++) {
        ratio[i] = r->probe->seconds[i] * r->probe->cores[i] / r->n_workers / floor_s;
    }
    print_spread(stream, "epoch / floor, in processor time", ratio, r->probe->n_repeats, 1, "");
}

static void print_figures(const struct bench_report *r, FILE *stream)
{
    const struct probe *p = r->probe;
    uint32_t n = p->n_repeats;
    double floor_s = bench_floor_seconds(r->floor, r->rates) / r->n_workers;
    fprintf(stream, "| figure | median of %u epochs | range |\n| --- | --- | --- |\n", n);
    print_spread(stream, "epoch", p->seconds, n, 1, " s");
    fprintf(stream, "| floor | %.4g s | |\n", floor_s);
    print_spread(stream, "**epoch / floor**", p->seconds, n, 1 / floor_s, "");
    print_undisturbed(r, floor_s, stream);
    fprintf(stream, "| floor, were products bound by their library | %.4g s | |\n",
            bench_floor_seconds(r->floor, r->library) / r->n_workers);
    print_spread(stream, "overlap", p->overlap, n, 1, "");
    print_spread(stream, "workers' time outside codelets", p->outside, n, 100, " %");
    print_spread(stream, "StarPU profile: idle", p->idle, n, 100, " %");
    print_spread(stream, "StarPU profile: scheduling and the rest", p->scheduling, n, 100, " %");
    print_spread(stream, "cores that the process had", p->cores, n, 1, "");
    fprintf(stream, "| peak memory, training | %.0f MB | |\n", (double)p->peak_rss_bytes / 1e6);
    fprintf(stream, "| peak memory, with the evaluation | %.0f MB | |\n", (double)r->peak_rss_bytes / 1e6);
    fprintf(stream, "| pool blocks of the first epoch, after it | %llu, %llu (%.0f MB) | |\n\n",
            (unsigned long long)p->first_blocks, (unsigned long long)p->later_blocks, (double)p->pool_bytes / 1e6);
}

/* ---- codelets ---- */

/* How the units of a limit are written. */
struct unit {
    double scale;
    const char *name;
};

static struct unit unit_of(enum bench_limit limit)
{
    switch (limit) {
    case BENCH_LINES: return (struct unit){1e-6, "M lines/s"};
    case BENCH_DRAWS: return (struct unit){1e-6, "M draws/s"};
    case BENCH_MARKS: return (struct unit){1e-6, "M marks/s"};
    case BENCH_ORDER: return (struct unit){1e-6, "M edges/s"};
    case BENCH_ROWS:
    case BENCH_COPY: return (struct unit){1e-9, "GB/s"};
    case BENCH_PRODUCT:
    case BENCH_PRODUCT_INPUT:
    case BENCH_PRODUCT_WEIGHT: break;
    }
    return (struct unit){1e-9, "GFLOP/s"};
}

/* All work that is counted of one codelet. Where that is of several kinds, its rate is in units of the first. */
struct share {
    bool counted; /* there is some */
    enum bench_limit limit;
    double units;
    double ceiling_s; /* what a core needs for all of it at its ceilings, one kind after the other */
};

static struct share share_of(const struct bench_report *r, const char *codelet)
{
    struct share share = {0};
    for (uint32_t i = 0; i < r->floor->n; i++) {
        const struct bench_work *work = &r->floor->work[i];
        if (strcmp(work->codelet, codelet) == 0 && work->units > 0) {
            share.limit = share.counted ? share.limit : work->limit;
            share.counted = true;
            share.units += work->limit == share.limit ? work->units : 0;
            share.ceiling_s += work->units / r->rates[i];
        }
    }
    return share;
}

static void print_codelet(const struct bench_report *r, const struct probe_codelet *codelet, FILE *stream)
{
    struct share share = share_of(r, codelet->name);
    struct unit unit = unit_of(share.limit);
    double n_tasks = codelet->n_tasks > 0 ? (double)codelet->n_tasks : 1;
    double available = spread_of(r->probe->seconds, r->probe->n_repeats).median * r->n_workers;
    fprintf(stream, "| %s | %llu | %.1f | %.1f | %.1f %% |", codelet->name, (unsigned long long)codelet->n_tasks,
            1e6 * codelet->seconds / n_tasks, 1e6 * codelet->cpu_seconds / n_tasks, 100 * codelet->seconds / available);
    if (share.counted) {
        fprintf(stream, " %.3g %s | %.3g | %.0f %% |\n", unit.scale * share.units / codelet->cpu_seconds, unit.name,
                unit.scale * share.units / share.ceiling_s, 100 * share.ceiling_s / codelet->cpu_seconds);
    } else {
        fprintf(stream, " | | |\n");
    }
}

static void print_codelets(const struct bench_report *r, FILE *stream)
{
    fprintf(stream,
            "| codelet | tasks an epoch | us each | processor us | share of the epoch | rate | its ceiling | of it |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < r->probe->n_codelets; i++) {
        print_codelet(r, &r->probe->codelet[i], stream);
    }
    fprintf(stream, "\n");
}

/* ---- floor ---- */

static void print_shape(const struct bench_work *work, FILE *stream)
{
    switch (work->limit) {
    case BENCH_PRODUCT: fprintf(stream, "%u x %u by %u x %u", work->m, work->k, work->k, work->n); break;
    case BENCH_PRODUCT_INPUT: fprintf(stream, "%u x %u by (%u x %u)^T", work->m, work->k, work->n, work->k); break;
    case BENCH_PRODUCT_WEIGHT: fprintf(stream, "(%u x %u)^T by %u x %u", work->k, work->m, work->k, work->n); break;
    case BENCH_ROWS: fprintf(stream, "%u rows of %u from %u", work->m, work->n, work->k); break;
    case BENCH_LINES: fprintf(stream, "lines from %u", work->k); break;
    case BENCH_DRAWS: fprintf(stream, "draws"); break;
    case BENCH_MARKS: fprintf(stream, "%u marks among %u", work->m, work->k); break;
    case BENCH_ORDER: fprintf(stream, "%u edges by %u sources", work->m, work->k); break;
    case BENCH_COPY: fprintf(stream, "copy of %u bytes", work->k); break;
    }
}

static void print_work(const struct bench_work *work, double units, double rate, double library, FILE *stream)
{
    struct unit unit = unit_of(work->limit);
    char layer[16] = "";
    if (work->layer >= 0) {
        snprintf(layer, sizeof layer, "%d", work->layer);
    }
    fprintf(stream, "| %s | %s | ", work->codelet, layer);
    print_shape(work, stream);
    fprintf(stream, " | %.3g %s |", unit.scale * rate, unit.name);
    if (library != rate) {
        fprintf(stream, " %.3g", unit.scale * library);
    }
    fprintf(stream, " | %.2f |\n", 1e3 * units / rate);
}

static void print_floor(const struct bench_report *r, FILE *stream)
{
    fprintf(stream, "| work of the floor | layer or hop | one task | ceiling of a core | of its library | core ms |\n"
                    "| --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < r->floor->n; i++) {
        const struct bench_work *work = &r->floor->work[i];
        if (work->floor_units > 0) {
            print_work(work, work->floor_units, r->rates[i], r->library[i], stream);
        }
    }
    fprintf(stream, "| all | | | | | %.2f |\n\n", 1e3 * bench_floor_seconds(r->floor, r->rates));
}

/* What is counted for the codelets' own ceilings alone. */
static void print_beside(const struct bench_report *r, FILE *stream)
{
    fprintf(stream, "| beside the floor | layer or hop | one task | ceiling of a core | of its library | core ms |\n"
                    "| --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < r->floor->n; i++) {
        const struct bench_work *work = &r->floor->work[i];
        if (work->units > work->floor_units) {
            print_work(work, work->units - work->floor_units, r->rates[i], r->library[i], stream);
        }
    }
    fprintf(stream, "\n");
}

enum sl_status bench_report_print(const struct bench_report *r, FILE *stream)
{
    print_run(r, stream);
    print_figures(r, stream);
    print_codelets(r, stream);
    print_floor(r, stream);
    print_beside(r, stream);
    return fflush(stream) != 0 || ferror(stream) ? sl_fail(SL_EIO, "the bench's report cannot be written") : SL_OK;
}
