/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/log.h: levels per module, whole lines. */
#include "support/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char buffer[8192];
static FILE *stream;

/* Open the log with a level specification onto the buffer. */
static enum sl_status open_log(const char *spec)
{
    memset(buffer, 0, sizeof buffer);
    stream = fmemopen(buffer, sizeof buffer, "w");
    assert_non_null(stream);
    return sl_log_open(spec, stream);
}

static int close_log(void **state)
{
    (void)state;
    sl_log_open(NULL, NULL);
    if (stream != NULL) {
        fclose(stream);
        stream = NULL;
    }
    return 0;
}

static void nothing_is_logged_unless_opened(void **state)
{
    (void)state;
    for (int m = 0; m < SL_LOG_N_MODULES; m++) {
        assert_false(sl_log_on((enum sl_log_module)m, SL_LOG_WARN));
    }
    sl_log(SL_LOG_DATA, SL_LOG_WARN, "to nowhere"); /* must not follow the missing stream */
}

static void warnings_are_the_default(void **state)
{
    (void)state;
    assert_int_equal(open_log(NULL), SL_OK);
    sl_log(SL_LOG_STEP, SL_LOG_WARN, "slot %d grew", 3);
    sl_log(SL_LOG_STEP, SL_LOG_INFO, "not this one");
    fflush(stream);
    assert_non_null(strstr(buffer, "] warn step: slot 3 grew\n"));
    assert_null(strstr(buffer, "not this one"));
}

static void later_entries_win(void **state)
{
    (void)state;
    assert_int_equal(open_log("all+debug,comm+trace,data+off"), SL_OK);
    assert_true(sl_log_on(SL_LOG_STEP, SL_LOG_DEBUG));
    assert_false(sl_log_on(SL_LOG_STEP, SL_LOG_TRACE));
    assert_true(sl_log_on(SL_LOG_COMM, SL_LOG_TRACE));
    assert_false(sl_log_on(SL_LOG_DATA, SL_LOG_WARN));
    close_log(NULL);
    assert_int_equal(open_log("comm+trace,all+info"), SL_OK);
    assert_false(sl_log_on(SL_LOG_COMM, SL_LOG_DEBUG));
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    static const char *const specs[] = {"all", "nothing+warn",  "all+loud", "+warn", "all+", "comm+trace,x",
                                        ",",   "all+warn+info", "al+warn"};
    assert_int_equal(open_log("all+info"), SL_OK);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        assert_int_equal(sl_log_open(specs[i], stream), SL_EINVAL);
        assert_non_null(strstr(sl_message(), "STARLING_LOG: found '"));
        assert_false(sl_log_on(SL_LOG_COMM, SL_LOG_DEBUG)); /* nothing has changed */
    }
}

static void long_lines_are_cut_and_stay_lines(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(open_log(""), SL_OK);
    sl_log(SL_LOG_RUN, SL_LOG_WARN, "%s", text);
    fflush(stream);
    assert_int_equal(buffer[strlen(buffer) - 1], '\n');
    assert_true(strlen(buffer) < SL_MESSAGE_BYTES + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_is_logged_unless_opened, close_log),
        cmocka_unit_test_teardown(warnings_are_the_default, close_log),
        cmocka_unit_test_teardown(later_entries_win, close_log),
        cmocka_unit_test_teardown(mistakes_are_refused, close_log),
        cmocka_unit_test_teardown(long_lines_are_cut_and_stay_lines, close_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
