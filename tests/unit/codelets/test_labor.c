/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/labor.h: the picks of many lists at once are those that sorting each list by its keys gives. */
#include "codelets/sampling/labor.h"
#include "codelets/sampling/sample.h"

#include "tests/support/kernel.h"
#include "tests/support/keyed.h"

#define N_VERTICES 5000
#define N_LISTS 12

/* Short lists that share their keys' making, one just too long for it, and one of several parts. */
static const uint32_t degrees[N_LISTS] = {34, 35, 64, 40, 97, 500, 129, 1024, 1025, 36, 3000, 38};

static void expect_smallest(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, uint32_t k,
                            const struct sl_labor_list *list)
{
    FREED struct keyed *all = need(list->degree, sizeof *all);
    for (uint32_t i = 0; i < list->degree; i++) {
        all[i] = (struct keyed){sl_labor_key(turn, dataset_ids[list->ids[i]]), i};
    }
    sort_smallest(all, list->degree, k);
    for (uint32_t i = 0; i < k; i++) {
        if (list->picked_out[i] != all[i].position) {
            fail_msg("step %llu, degree %u, pick %u of %u: position %u, expected %u",
                     (unsigned long long)turn->first.step, list->degree, i, k, list->picked_out[i], all[i].position);
        }
    }
}

/* Lists over ids that come again now and then, so that keys are equal; steps enough for too low a guess of the k-th
 * key, which one list in a hundred meets. */
static void expect_picks(uint32_t k, uint32_t kappa, uint32_t n_steps)
{
    FREED sl_vertex *dataset_ids = need(N_VERTICES, sizeof *dataset_ids);
    FREED sl_vertex *ids = need(N_VERTICES, sizeof *ids);
    FREED struct sl_labor_pick *heap = need(k, sizeof *heap);
    struct sl_labor_list lists[N_LISTS];
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        dataset_ids[v] = N_VERTICES - 1 - v;
        ids[v] = v % 7 == 3 ? v - 1 : v;
    }
    for (int l = 0; l < N_LISTS; l++) {
        lists[l] = (struct sl_labor_list){ids + 50 * l, degrees[l], need(k, sizeof(uint32_t))};
    }
    for (uint32_t step = 1; step <= n_steps; step++) {
        struct sl_sample_rule rule = {.method = SL_SAMPLE_LABOR, .fanout = k, .kappa = kappa};
        struct sl_labor_turn turn = sl_labor_turn(11, step, 1, &rule);
        sl_labor_pick_cpu(&turn, dataset_ids, k, N_LISTS, lists, heap);
        for (int l = 0; l < N_LISTS; l++) {
            expect_smallest(&turn, dataset_ids, k, &lists[l]);
        }
    }
    for (int l = 0; l < N_LISTS; l++) {
        free(lists[l].picked_out);
    }
}

TEST(test_few)
{
    for (uint32_t kappa = 1; kappa <= 4; kappa += 3) {
        expect_picks(1, kappa, 60);
        expect_picks(4, kappa, 60);
        expect_picks(10, kappa, 60);
        expect_picks(SL_LABOR_FEW, kappa, 10);
    }
}

TEST(test_many)
{
    expect_picks(SL_LABOR_FEW + 1, 1, 10);
    expect_picks(SL_LABOR_FEW + 1, 4, 10);
}

TEST_MAIN(NULL, NULL)
