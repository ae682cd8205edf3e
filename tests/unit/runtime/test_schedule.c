/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What changes from step to step of a run: Adam's t, the learning rate, and the batch of a vertex budget. */
#include "tests/support/kernel.h"

#include <math.h>

#include "runtime/minibatch/sizes.h"
#include "runtime/plan/plan.h"
#include "runtime/train/session.h"

/* t counts over the whole run: 1 at the first step, and it goes on in the second epoch. */
TEST(test_adam_counts_on)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.lr = 0.25;
    settings.weight_decay = 0.125;
    for (uint64_t step = 0; step < 12; step++) {
        struct sl_adam adam = sl_session_adam(&settings, step / 5, step);
        assert_int_equal(adam.t, step + 1);
        assert_true(adam.lr == 0.25 && adam.decay == 0.125);
        assert_true(adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8);
    }
}

/* cosine: from the full rate towards 0, the same within an epoch; step: a tenth after each third. */
TEST(test_learning_rates)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.lr = 1;
    settings.epochs = 6;
    settings.lr_schedule = SL_LR_COSINE;
    assert_true(sl_session_adam(&settings, 0, 0).lr == 1);
    assert_true(sl_session_adam(&settings, 0, 9).lr == 1);
    assert_true(fabs(sl_session_adam(&settings, 2, 20).lr - 0.75) < 1e-12);
    assert_true(fabs(sl_session_adam(&settings, 3, 30).lr - 0.5) < 1e-12);
    assert_true(fabs(sl_session_adam(&settings, 5, 59).lr - 0.25 * (2 - sqrt(3))) < 1e-12);
    settings.lr_schedule = SL_LR_STEP;
    const double step[] = {1, 1, 0.1, 0.1, 0.01, 0.01};
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        assert_true(fabs(sl_session_adam(&settings, epoch, 10 * epoch + 3).lr / step[epoch] - 1) < 1e-12);
    }
}

/* ---- a vertex budget ---- */

static struct sl_budget counted(size_t n, const double *inputs)
{
    struct sl_budget budget = {0};
    for (size_t i = 0; i < n; i++) {
        sl_budget_add(&budget, inputs[i]);
    }
    return budget;
}

TEST(test_budget)
{
    const double inputs[] = {90, 110, 95, 105};
    struct sl_budget budget = counted(4, inputs);
    assert_true(budget.n == 4 && fabs(budget.mean - 100) < 1e-12 && fabs(budget.squares - 250) < 1e-9);
    /* the standard error is sqrt(250 / 3 / 4) = 4.56 */
    assert_int_equal(sl_budget_batch(&budget, 113, 40, 1000), 40);
    assert_int_equal(sl_budget_batch(&budget, 114, 40, 1000), 45);
    assert_int_equal(sl_budget_batch(&budget, 87, 40, 1000), 40);
    assert_int_equal(sl_budget_batch(&budget, 86, 40, 1000), 34);
    assert_int_equal(sl_budget_batch(&budget, 1000, 40, 1000), 400);
    assert_int_equal(sl_budget_batch(&budget, 4000000000U, 40, 1000), 1000);
    assert_int_equal(sl_budget_batch(&budget, 1, 40, 1000), 1);
    assert_int_equal(sl_budget_batch(&budget, 0, 40, 1000), 40);
    budget = counted(1, inputs);
    assert_int_equal(sl_budget_batch(&budget, 1000, 40, 1000), 40);
}

/* A plan whose batch changes after two epochs: steps count on, and an epoch has all seeds. */
TEST(test_new_batch)
{
    struct sl_plan plan = {.n_pes = 1, .n_parts = 1, .n_groups = 1, .n_train = 100, .batch = 30, .n_per_epoch = 4};
    plan.adapts = true;
    plan.n_steps = 20;
    assert_int_equal(sl_plan_horizon(&plan, 0), 4);
    assert_int_equal(sl_plan_horizon(&plan, 7), 8);
    sl_plan_set_batch(&plan, 2, 8, 45, 5);
    assert_int_equal(plan.n_per_epoch, 3);
    assert_int_equal(plan.n_steps, 8 + 3 * 3);
    for (uint64_t step = 8; step < plan.n_steps; step++) {
        struct sl_seeds seeds = sl_plan_seeds(&plan, step);
        assert_int_equal(seeds.epoch, 2 + (step - 8) / 3);
        assert_int_equal(seeds.first, (step - 8) % 3 * 45);
        assert_int_equal(seeds.n, (step - 8) % 3 < 2 ? 45 : 10);
        assert_int_equal(sl_plan_number(&plan, step), (step - 8) % 3);
        assert_int_equal(sl_plan_horizon(&plan, step), 8 + 3 * ((step - 8) / 3 + 1));
    }
    sl_plan_set_batch(&plan, 5, 17, 100, 3); /* a run that is longer than --epochs now says */
    assert_int_equal(plan.n_steps, 17);
}

TEST_MAIN(NULL, NULL)
