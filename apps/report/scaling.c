/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of a projection. */
#include "apps/report/scaling.h"

#include <errno.h>
#include <string.h>

#include "support/memory.h"

/* The projections for one number of devices. */
struct row {
    uint32_t n_devices;
    bool known[SL_N_PROJECT_MODES];
    struct sl_projected projected[SL_N_PROJECT_MODES];
};

static bool is_shown(const struct sl_cluster *cluster, int mode)
{
    return mode != SL_PROJECT_MACHINE || cluster->per_machine > 1;
}

static bool cooperates(int mode)
{
    return mode == SL_PROJECT_MACHINE || mode == SL_PROJECT_COOPERATIVE;
}

static enum sl_status fill(const struct sl_projection *projection, const struct sl_cluster *cluster, struct row *row)
{
    enum sl_status st = SL_OK;
    for (int mode = 0; st == SL_OK && mode < SL_N_PROJECT_MODES; mode++) {
        row->known[mode] = is_shown(cluster, mode) && (projection->exchanged || !cooperates(mode));
        if (row->known[mode]) {
            st = sl_projection_epoch(projection, cluster, mode, row->n_devices, &row->projected[mode]);
        }
    }
    return st;
}

static const char *largest_part(const struct sl_projected *p)
{
    int largest = 0;
    for (int part = 1; part < SL_N_PROJECT_PARTS; part++) {
        largest = p->part_s[part] > p->part_s[largest] ? part : largest;
    }
    return sl_project_parts[largest];
}

static void print_head(const struct sl_cluster *cluster, FILE *stream)
{
    fprintf(stream, "%7s %6s %8s", "devices", "steps", "seeds");
    for (int mode = 0; mode < SL_N_PROJECT_MODES; mode++) {
        if (is_shown(cluster, mode)) {
            fprintf(stream, "  %20s", sl_project_modes[mode]);
        }
    }
    fputc('\n', stream);
}

static void print_row(const struct sl_cluster *cluster, const struct row *row, FILE *stream)
{
    const struct sl_projected *any = &row->projected[SL_PROJECT_INDEPENDENT];
    fprintf(stream, "%7u %6.0f %8.0f", row->n_devices, any->n_steps, any->seeds);
    for (int mode = 0; mode < SL_N_PROJECT_MODES; mode++) {
        const struct sl_projected *p = &row->projected[mode];
        if (row->known[mode]) {
            fprintf(stream, "  %c%10.4f %-8s", p->measured ? ' ' : '>', p->seconds, largest_part(p));
        } else if (is_shown(cluster, mode)) {
            fprintf(stream, "  %11s %-8s", "-", "");
        }
    }
    fputc('\n', stream);
}

/* The row with the next larger number of devices than row `best`; `best` if there is none. */
static uint32_t next_of(const struct row *rows, uint32_t n, uint32_t best)
{
    uint32_t next = best;
    for (uint32_t i = 0; i < n; i++) {
        bool larger = rows[i].n_devices > rows[best].n_devices;
        next = larger && (next == best || rows[i].n_devices < rows[next].n_devices) ? i : next;
    }
    return next;
}

static void print_end(const struct row *rows, uint32_t n, int mode, FILE *stream)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        best = rows[i].projected[mode].seconds < rows[best].projected[mode].seconds ? i : best;
    }
    uint32_t next = next_of(rows, n, best);
    fprintf(stream, "%-12s shortest on %u devices, %.4f s", sl_project_modes[mode], rows[best].n_devices,
            rows[best].projected[mode].seconds);
    if (next != best) {
        fprintf(stream, "; on %u %.4f s, most of it %s", rows[next].n_devices, rows[next].projected[mode].seconds,
                largest_part(&rows[next].projected[mode]));
    }
    fputc('\n', stream);
}

enum sl_status sl_scaling_print(const struct sl_projection *projection, const struct sl_cluster *cluster,
                                const uint32_t *devices, uint32_t n, FILE *stream)
{
    struct row *rows;
    enum sl_status st = sl_alloc_zero(n, sizeof *rows, "projected epochs", &rows);
    if (st != SL_OK) {
        return st;
    }
    for (uint32_t i = 0; i < n; i++) {
        rows[i].n_devices = devices[i];
        SL_TRY(st, fill(projection, cluster, &rows[i]), done);
    }
    print_head(cluster, stream);
    for (uint32_t i = 0; i < n; i++) {
        print_row(cluster, &rows[i], stream);
    }
    for (int mode = 0; mode < SL_N_PROJECT_MODES; mode++) {
        if (rows[0].known[mode]) {
            print_end(rows, n, mode, stream);
        }
    }
    if (ferror(stream)) {
        st = sl_fail(SL_EIO, "the table cannot be written: %s", strerror(errno));
    }
done:
    sl_free(rows);
    return st;
}
