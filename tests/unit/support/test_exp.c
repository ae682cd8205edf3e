/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/exp.h against the C library's exponential. */
#include "support/exp.h"

#include "tests/support/kernel.h"

/* Far below what softmax would notice: the stated bound, over the whole range. */
TEST(test_exponential)
{
    for (int i = 0; i <= 870000; i++) {
        float x = -(float)i / 10000;
        double e = exp((double)x);
        double got = (double)sl_exp_nonpositive(x);
        if (fabs(got - e) > 2e-7 * e) {
            fail_msg("exp(%.9g): %.17g, expected %.17g", (double)x, got, e);
        }
    }
}

TEST(test_ends)
{
    assert_true(sl_exp_nonpositive(0) == 1);
    assert_true(sl_exp_nonpositive((sl_real)-INFINITY) == 0);
    assert_true(sl_exp_nonpositive((sl_real)-1e30) == 0);
    assert_true(isnan(sl_exp_nonpositive((sl_real)NAN)));
}

TEST_MAIN(NULL, NULL)
