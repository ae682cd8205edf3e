/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What changes from step to step of a run: Adam's t, the learning rate, and the batch of a vertex budget. */
#include "tests/support/kernel.h"

#include <math.h>

#include "codelets/ends/optimize.h"
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

/* cosine: from the full rate towards 0, the same within an epoch; step: a tenth after each third; step:N:X and the
 * warm-up: as torch.optim.lr_scheduler.StepLR and LinearLR. */
TEST(test_learning_rates)
{
    static const struct {
        const char *schedule;
        uint32_t warmup;
        uint64_t epoch, step;
        double rate;
    } cases[] = {
        {"none", 0, 5, 59, 1},
        {"none", 4, 0, 0, 0.25},
        {"none", 4, 0, 2, 0.75},
        {"none", 4, 0, 3, 1},
        {"none", 4, 5, 59, 1},
        {"cosine", 0, 0, 0, 1},
        {"cosine", 0, 0, 9, 1},
        {"cosine", 0, 2, 20, 0.75},
        {"cosine", 0, 3, 30, 0.5},
        {"cosine", 25, 2, 19, 0.6},
        {"step", 0, 1, 13, 1},
        {"step", 0, 2, 23, 0.1},
        {"step", 0, 5, 53, 0.01},
        {"step:2:0.5", 0, 1, 19, 1},
        {"step:2:0.5", 0, 2, 20, 0.5},
        {"step:2:0.5", 0, 5, 59, 0.25},
        {"step:2:0.5", 40, 2, 29, 0.375},
        {"step:1:1", 0, 5, 50, 1},
    };
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.lr = 1;
    settings.epochs = 6;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sl_settings_set(&settings, "lr-schedule", cases[i].schedule), SL_OK);
        settings.lr_warmup = cases[i].warmup;
        const double rate = sl_session_adam(&settings, cases[i].epoch, cases[i].step).lr;
        assert_true(fabs(rate / cases[i].rate - 1) < 1e-12);
    }
}

/* 18 steps in 6 epochs towards a target: PyTorch's Adam or AdamW with LinearLR(1 / 5, 1, 4), StepLR(6, 0.5). */
static void check_torch(const char *optimizer, const double *wanted)
{
    const double target[] = {0.25, 0.5, -1};
    sl_real w[] = {1, -0.5, 2}, m[3] = {0}, v[3] = {0};
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    assert_int_equal(sl_settings_set(&settings, "optimizer", optimizer), SL_OK);
    assert_int_equal(sl_settings_set(&settings, "lr-schedule", "step:2:0.5"), SL_OK);
    settings.lr = 0.1;
    settings.weight_decay = 0.25;
    settings.lr_warmup = 5;
    settings.epochs = 6;
    for (uint64_t step = 0; step < 18; step++) {
        const struct sl_adam adam = sl_session_adam(&settings, step / 3, step);
        sl_real gradient[3];
        const sl_real *const partials[] = {gradient};
        const uint32_t leaf[] = {0};
        const struct sl_optimize_array array = {3, 1, partials, leaf, NULL, w, m, v};
        for (int i = 0; i < 3; i++) {
            gradient[i] = (sl_real)((double)w[i] - target[i]);
        }
        sl_optimize_cpu(&adam, 1, &array);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(fabs((double)w[i] - wanted[i]) < (sizeof(sl_real) == sizeof(double) ? 1e-9 : 1e-5));
    }
}

TEST(test_as_torch)
{
    check_torch("adam", (const double[]){0.25236394737726786, 0.26669455828679317, 1.1662048942487213});
    check_torch("adamw", (const double[]){0.1868952394421112, 0.29422423141291054, 0.8654474454135632});
}

TEST(test_bad_schedules)
{
    static const char *const bad[] = {"cosin",    "step:",     "step:2",     "step:2:",     "step:0:0.5",  "step:2:0",
                                      "step:2:2", "step:-1:1", "step:2:nan", "step:2:0.5x", "step:2:0.5:1"};
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sl_settings_set(&settings, "lr-schedule", bad[i]), SL_OK);
        assert_int_equal(sl_settings_check(&settings), SL_EINVAL);
        expect_message(sl_message(), "--lr-schedule", bad[i]);
    }
}

/* Values may be in any case, and checkpoints compare one text. */
TEST(test_schedules_in_any_case)
{
    static const char *const texts[][2] = {
        {"Cosine", "cosine"}, {"STEP:2:5E-1", "step:2:5e-1"}, {"Constant", "none"}, {"none", "none"}};
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(sl_settings_set(&settings, "lr-schedule", texts[i][0]), SL_OK);
        assert_int_equal(sl_settings_check(&settings), SL_OK);
        assert_string_equal(settings.lr_schedule, texts[i][1]);
    }
}

/* 10 seeds, 4 in a step. */
TEST(test_drop_last)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.pes = settings.group_size = 2;
    settings.batch_size = 2;
    settings.epochs = 3;
    assert_int_equal(sl_plan_make(&settings, 10).n_per_epoch, 3);
    settings.drop_last = true;
    struct sl_plan plan = sl_plan_make(&settings, 10);
    assert_true(plan.n_per_epoch == 2 && plan.n_steps == 6);
    assert_int_equal(sl_plan_seeds(&plan, 3).n, 4);
    assert_int_equal(sl_plan_make(&settings, 8).n_per_epoch, 2);
    assert_int_equal(sl_plan_make(&settings, 3).n_per_epoch, 0);
    settings.epochs = 0;
    assert_int_equal(sl_plan_make(&settings, 3).n_per_epoch, 1);
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
