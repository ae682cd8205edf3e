/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/plan/plan.h: the stages and ways of full-graph training dealt to ranks, for every small number of each.
 */
#include "tests/support/kernel.h"

#include <stdlib.h>

#include "runtime/plan/plan.h"
#include "runtime/train/session.h"

#define CHUNKS 3 /* of a way */

/* A rank's plan, without StarPU, which would have to say where PEs live. */
static struct sl_plan plan_of(uint32_t n_ranks, uint32_t rank, uint32_t n_stages, uint32_t n_ways)
{
    uint32_t n_crews = n_ranks < n_stages ? n_ranks : n_stages;
    uint32_t n_chunks = CHUNKS * n_ways;
    struct sl_plan plan = {.n_pes = n_crews * n_chunks,
                           .n_parts = n_chunks,
                           .n_groups = n_crews,
                           .n_replicas = 1,
                           .n_ranks = n_ranks,
                           .rank = rank,
                           .n_ways = n_ways,
                           .n_crews = n_crews};
    plan.first_pe = sl_plan_first_pe(&plan, rank);
    plan.end_pe = sl_plan_first_pe(&plan, rank + 1);
    return plan;
}

/* Each PE is of one rank, each rank has PEs, of whole ways of one crew, and its crew's plan says the same. */
static void check_rank(const struct sl_plan *plan)
{
    struct sl_plan own = sl_plan_of_crew(plan);
    uint32_t before = sl_plan_crew(plan) * plan->n_parts;
    assert_true(plan->first_pe < plan->end_pe);
    assert_true(plan->first_pe % CHUNKS == 0 && plan->end_pe % CHUNKS == 0);
    for (uint32_t p = 0; p < plan->n_pes; p++) {
        assert_int_equal(sl_plan_rank(plan, p) == plan->rank, sl_plan_here(plan, p));
    }
    assert_int_equal(own.n_pes, plan->n_parts);
    assert_int_equal(own.first_pe + before, plan->first_pe);
    assert_int_equal(own.end_pe + before, plan->end_pe);
    for (uint32_t q = 0; q < own.n_pes; q++) {
        assert_int_equal(sl_plan_rank(&own, q), sl_plan_rank(plan, before + q));
        assert_true(sl_plan_scorer(plan, q) < plan->n_ranks);
        assert_true(q == 0 || sl_plan_scorer(plan, q - 1) <= sl_plan_scorer(plan, q));
    }
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        struct sl_rank_range crew = sl_plan_crew_ranks(plan, sl_plan_crew(plan));
        uint32_t n = sl_plan_first_pe(&own, r + 1) - sl_plan_first_pe(&own, r);
        assert_int_equal(n > 0, r >= crew.begin && r < crew.end);
    }
}

/* A part is scored by a rank that holds it. */
static void check_scorers(const struct sl_plan *plan)
{
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        assert_true(sl_plan_scorer(plan, q) != plan->rank || sl_plan_holds(plan, q));
    }
}

TEST(test_crews)
{
    for (uint32_t n_stages = 1; n_stages <= 5; n_stages++) {
        for (uint32_t n_ranks = 1; n_ranks <= 9; n_ranks++) {
            uint32_t least = sl_plan_largest_crew(n_ranks, n_stages);
            for (uint32_t n_ways = least; n_ways <= least + 3; n_ways++) {
                for (uint32_t rank = 0; rank < n_ranks; rank++) {
                    struct sl_plan plan = plan_of(n_ranks, rank, n_stages, n_ways);
                    check_rank(&plan);
                    check_scorers(&plan);
                }
            }
        }
    }
}

/* Each crew has neighbouring stages, one at the least; more ranks than stages give each stage a crew. */
TEST(test_stages)
{
    for (uint32_t n_stages = 1; n_stages <= 9; n_stages++) {
        for (uint32_t n_ranks = 1; n_ranks <= 12; n_ranks++) {
            struct sl_plan plan = plan_of(n_ranks, 0, n_stages, 12);
            uint32_t crew = 0;
            for (uint32_t stage = 0; stage < n_stages; stage++) {
                uint32_t here = sl_plan_crew_of_stage(&plan, stage, n_stages);
                assert_true(here == crew || here == crew + 1);
                crew = here;
            }
            assert_int_equal(crew + 1, plan.n_crews);
        }
    }
}

/* By hand: of four ranks two share each of two stages' three ways; of two ranks each has two of four stages. */
TEST(test_by_hand)
{
    struct sl_plan shared = plan_of(4, 1, 2, 3);
    struct sl_plan apart = plan_of(2, 1, 4, 2);
    assert_int_equal(shared.first_pe, 2 * CHUNKS);
    assert_int_equal(shared.end_pe, 3 * CHUNKS);
    assert_int_equal(sl_plan_rank(&shared, 3 * CHUNKS), 2);
    assert_true(sl_plan_shares_ways(&shared));
    assert_int_equal(apart.first_pe, 2 * CHUNKS);
    assert_int_equal(apart.end_pe, 4 * CHUNKS);
    assert_int_equal(sl_plan_crew_of_stage(&apart, 1, 4), 0);
    assert_int_equal(sl_plan_crew_of_stage(&apart, 2, 4), 1);
    assert_false(sl_plan_shares_ways(&apart));
}

/* What a launcher says is refused before MPI is asked; also of settings whose stages are not decided yet. */
TEST(test_processes)
{
    struct sl_settings s = {.schedule = SL_SCHEDULE_PIPE, .stages = 3, .ways = 200, .gpus = SL_GPUS_ALL};
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "300", 1);
    assert_int_equal(sl_ranks_check_settings(&s), SL_OK);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    assert_int_equal(sl_ranks_check_settings(&s), SL_OK);
    s.pes = 2; /* chunks of a run before, of which there may be fewer than processes */
    assert_int_equal(sl_ranks_check_settings(&s), SL_OK);
    s.ways = 1;
    assert_int_equal(sl_ranks_check_settings(&s), SL_EINVAL);
    s.stages = 0;
    assert_int_equal(sl_ranks_check_settings(&s), SL_OK);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST_MAIN(NULL, NULL)
