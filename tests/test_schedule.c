/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What changes from step to step of a run: Adam's t, and the learning rate. */
#include "tests/kernel.h"

#include <math.h>

#include "runtime/train/loop.h"

/* t counts over the whole run: 1 at the first step, and it goes on in the second epoch. */
static void test_adam_counts_on(void **state)
{
    struct sl_settings settings;
    (void)state;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.lr = 0.25;
    settings.weight_decay = 0.125;
    for (uint64_t step = 0; step < 12; step++) {
        struct sl_adam adam = sl_session_adam(&settings, step, 5);
        assert_int_equal(adam.t, step + 1);
        assert_true(adam.lr == 0.25 && adam.decay == 0.125);
        assert_true(adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8);
    }
    sl_settings_free(&settings);
}

/* cosine: from the full rate towards 0, the same within an epoch; step: a tenth after each third. */
static void test_learning_rates(void **state)
{
    struct sl_settings settings;
    (void)state;
    assert_int_equal(sl_settings_init(&settings), SL_OK);
    settings.lr = 1;
    settings.epochs = 6;
    settings.lr_schedule = SL_LR_COSINE;
    assert_true(sl_session_adam(&settings, 0, 10).lr == 1);
    assert_true(sl_session_adam(&settings, 9, 10).lr == 1);
    assert_true(fabs(sl_session_adam(&settings, 20, 10).lr - 0.75) < 1e-12);
    assert_true(fabs(sl_session_adam(&settings, 30, 10).lr - 0.5) < 1e-12);
    assert_true(fabs(sl_session_adam(&settings, 59, 10).lr - 0.25 * (2 - sqrt(3))) < 1e-12);
    settings.lr_schedule = SL_LR_STEP;
    const double step[] = {1, 1, 0.1, 0.1, 0.01, 0.01};
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        assert_true(fabs(sl_session_adam(&settings, 10 * epoch + 3, 10).lr / step[epoch] - 1) < 1e-12);
    }
    sl_settings_free(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam_counts_on),
        cmocka_unit_test(test_learning_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
