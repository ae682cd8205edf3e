/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of the PEs of a group, level by level, for tests of sums over blocks.
 */
#ifndef SL_TESTS_LEVEL_FIXTURE_H
#define SL_TESTS_LEVEL_FIXTURE_H

#include "tests/support/group_fixture.h"

#define MAX_CHUNKS 64
#define MAX_PARTS 70

/* Chunks are blocks of their own, so that a step over a chunk's border is seen. The addresses of every second chunk are
 * no multiples of 16. */
struct rows {
    struct sl_split split;
    uint32_t n_columns;
    sl_real *base[MAX_CHUNKS];
};

__attribute__((unused)) static struct rows make_rows(uint32_t n_rows, uint32_t n_columns, uint32_t shift)
{
    struct rows rows = {.split = sl_split_rows(n_rows, MAX_CHUNKS, shift), .n_columns = n_columns};
    for (uint32_t c = 0; c < rows.split.n_chunks; c++) {
        rows.base[c] = poisoned((size_t)sl_split_size(&rows.split, c) * n_columns + c % 2) + c % 2;
    }
    return rows;
}

__attribute__((unused)) static void free_rows(struct rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        free(rows->base[c] - c % 2);
    }
}

__attribute__((unused)) static sl_real *row_at(const struct rows *rows, uint32_t r)
{
    uint32_t size = 1u << rows->split.shift;
    return &rows->base[r / size][(size_t)(r % size) * rows->n_columns];
}

__attribute__((unused)) static struct sl_view view_of(const struct rows *rows, const uint32_t *index)
{
    return (struct sl_view){(const sl_real *const *)rows->base, rows->split.shift, index};
}

/* Rows of each PE of a group at one level. */
struct level {
    struct rows pe[MAX_PARTS];
};

__attribute__((unused)) static struct level make_level(const struct group *group, uint32_t level, uint32_t n_columns,
                                                       uint32_t shift)
{
    struct level rows = {0};
    for (uint32_t p = 0; p < group->n_parts; p++) {
        rows.pe[p] = make_rows(group->pe[p].n_rows[level], n_columns, shift);
    }
    return rows;
}

__attribute__((unused)) static void free_level(const struct group *group, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        free_rows(&level->pe[p]);
    }
}

__attribute__((unused)) static size_t dataset_id(const struct group *group, uint32_t p, uint32_t r)
{
    return group->partition->dataset_ids[group->pe[p].frontier[r]];
}

/* An entry of a level. i: of a table with a row for each dataset id. */
struct entry {
    bool is_one; /* false before the first */
    uint32_t p, r, j;
    size_t i;
    sl_real *x;
};

/* The next entry. False: there is none. */
__attribute__((unused)) static bool next_entry(const struct group *group, const struct level *level, struct entry *at)
{
    at->j += at->is_one;
    at->is_one = true;
    while (at->p < group->n_parts) {
        const struct rows *rows = &level->pe[at->p];
        if (at->j == rows->n_columns) {
            at->j = 0;
            at->r++;
        }
        if (at->r < rows->split.n_rows) {
            at->x = &row_at(rows, at->r)[at->j];
            at->i = dataset_id(group, at->p, at->r) * rows->n_columns + at->j;
            return true;
        }
        at->r = 0;
        at->p++;
    }
    return false;
}

/* Numbers per dataset id. */
__attribute__((unused)) static double *table_of(const struct group *group, const struct level *level)
{
    const uint32_t n_columns = level->pe[0].n_columns;
    double *table = need((size_t)group->partition->graph.n_vertices * n_columns, sizeof *table);
    for (struct entry e = {0}; next_entry(group, level, &e);) {
        table[e.i] = (double)*e.x;
    }
    return table;
}

__attribute__((unused)) static void expect_table(const char *label, const struct group *group,
                                                 const struct level *level, const double *table, double added,
                                                 double tolerance)
{
    for (struct entry e = {0}; next_entry(group, level, &e);) {
        expect_near_at(label, e.i, (double)*e.x, table[e.i] + added, tolerance);
    }
}

#endif
