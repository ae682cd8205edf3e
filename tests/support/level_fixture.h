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

/* Numbers per dataset id. */
__attribute__((unused)) static double *table_of(const struct group *group, const struct level *level)
{
    uint32_t n_columns = level->pe[0].n_columns;
    double *table = need((size_t)group->partition->graph.n_vertices * n_columns, sizeof *table);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < level->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < n_columns; j++) {
                table[dataset_id(group, p, r) * n_columns + j] = (double)row_at(&level->pe[p], r)[j];
            }
        }
    }
    return table;
}

__attribute__((unused)) static void expect_table(const char *label, const struct group *group,
                                                 const struct level *level, const double *table, double added,
                                                 double tolerance)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                size_t i = dataset_id(group, p, r) * rows->n_columns + j;
                expect_near_at(label, i, (double)row_at(rows, r)[j], table[i] + added, tolerance);
            }
        }
    }
}

#endif
