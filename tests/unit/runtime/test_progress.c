/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/report/progress.h: stable lines, and the bar on a terminal. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pseudo terminals */
#endif
#include "runtime/report/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/lines.h"
#include "tests/support/test.h"

static char buffer[8192];

static FILE *to_buffer(void)
{
    memset(buffer, 0, sizeof buffer);
    return fmemopen(buffer, sizeof buffer, "w");
}

static struct sl_metrics_epoch an_epoch(uint32_t epoch)
{
    return (struct sl_metrics_epoch){
        .epoch = epoch,
        .train_loss = 1.23456,
        .evaluated = true,
        .scores = {.n = 1, .score = {{.valid = 0.67123, .test = 0.5, .is_fraction = true}}},
        .seconds = 1.2345,
        .eval_seconds = 0.5};
}

TEST(lines_are_stable)
{
    struct sl_progress p;
    FILE *stream = to_buffer();
    struct sl_metrics_epoch e = an_epoch(3);
    sl_progress_open(stream, SL_PROGRESS_LINES, 10, 4, &p);
    sl_progress_step(&p, 3, 1, 2.5); /* draws nothing */
    sl_progress_epoch(&p, &e);
    e.epoch = 4;
    e.best = true;
    sl_progress_epoch(&p, &e);
    e.best = false;
    e.evaluated = false;
    e.epoch = 10;
    e.train_loss = NAN;
    sl_progress_epoch(&p, &e);
    e = an_epoch(10);
    e.sampled = true;
    sl_progress_epoch(&p, &e);
    fclose(stream);
    assert_string_equal(buffer, "epoch  3/10 loss 1.2346 valid 67.12 % test 50.00 % time 1.234 s eval 0.500 s\n"
                                "epoch  4/10 loss 1.2346 valid 67.12 % test 50.00 % time 1.234 s eval 0.500 s *\n"
                                "epoch 10/10 loss      - valid       - test       - time 1.234 s eval 0.500 s\n"
                                "epoch 10/10 loss 1.2346 valid 67.12 % test 50.00 % time 1.234 s sampled 0.500 s\n");
}

/* Numbers of any size leave the line within 80 columns, unless the loss says that training has failed. */
TEST(lines_are_short)
{
    static const double numbers[] = {0, 0.0001, 0.99999, 9.9999, 12.3456, 99.9999, 123.456, 9999.4};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sl_progress p;
        FILE *stream = to_buffer();
        struct sl_metrics_epoch e = an_epoch(1000);
        e.train_loss = e.seconds = e.eval_seconds = numbers[i];
        e.scores.score[0].valid = e.scores.score[0].test = 1;
        e.best = true;
        e.sampled = i % 2 == 1;
        sl_progress_open(stream, SL_PROGRESS_LINES, 1000, 4, &p);
        sl_progress_epoch(&p, &e);
        fclose(stream);
        assert_memory_equal(buffer, "epoch 1000/1000 loss ", 21);
        assert_non_null(strstr(buffer, " valid 100.0 % test 100.0 % time "));
        assert_non_null(strstr(buffer, " s*\n"));
        assert_true(strlen(buffer) <= 81 + (e.sampled ? 3 : 0));
    }
}

/* A text may begin with a blank. */
TEST(a_clause_may_be_empty)
{
    FILE *stream = to_buffer();
    sl_print_line(stream, "label", " a, b");
    fclose(stream);
    assert_non_null(strstr(buffer, " a, b\n"));
}

TEST(the_summary_is_a_table)
{
    struct sl_progress p;
    struct sl_metrics_summary s = {
        .evaluated = true,
        .best = {.n = 2,
                 .best_by = 1,
                 .score = {{.name = "mse", .valid = 0.1, .test = 0.2},
                           {.name = "f1_micro", .valid = 0.67123, .test = 1, .is_fraction = true}}},
        .best_epoch = 7,
        .seconds = 12.3456};
    FILE *stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_LINES, 10, 4, &p);
    sl_progress_summary(&p, &s);
    s.evaluated = false;
    sl_progress_summary(&p, &s);
    fclose(stream);
    assert_string_equal(buffer, "best epoch 7  valid 67.12 %  test 100.0 %  time 12.346 s\n"
                                "score       valid      test\n"
                                "mse        0.1000    0.2000\n"
                                "f1_micro  67.12 %   100.0 %\n");
    stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_LINES, 10, 4, &p);
    s.epochs = 10;
    s.peak_rss_bytes = 123456789;
    s.best.n = 0;
    sl_progress_summary(&p, &s);
    s.evaluated = true;
    s.n_ranks = 1;
    s.best.score[1] = (struct sl_score){.valid = 0.06789, .test = 123456};
    sl_progress_summary(&p, &s);
    fclose(stream);
    assert_string_equal(buffer, "time      10 epochs, 1.235 s each\nmemory    0.12 GB at most\n"
                                "best epoch 7  valid 0.0679  test 123456  time 12.346 s\n" /* no fractions */
                                "score       valid      test\ntime      10 epochs, 1.235 s each\n"
                                "memory    0.12 GB at most\n");
    stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_LINES, 10, 4, &p);
    s.evaluated = false;
    s.held = "rows 0.20 GB";
    sl_progress_summary(&p, &s); /* too little to ask */
    s.peak_rss_bytes = 300000000;
    sl_progress_summary(&p, &s);
    s.held = "";
    s.evaluated = s.sampled = true;
    sl_progress_summary(&p, &s);
    fclose(stream);
    assert_string_equal(buffer, "time      10 epochs, 1.235 s each\nmemory    0.12 GB at most\n"
                                "time      10 epochs, 1.235 s each\nmemory    0.30 GB at most\n"
                                "reserved  rows 0.20 GB\n"
                                "best epoch 7  valid 0.0679  test 123456  time 12.346 s\n"
                                "sampled     valid      test\ntime      10 epochs, 1.235 s each\n"
                                "memory    0.30 GB at most\n");
}

TEST(nothing_is_nothing)
{
    struct sl_progress p;
    const struct sl_metrics_epoch e = an_epoch(1);
    const struct sl_metrics_summary s = {.evaluated = true};
    FILE *stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_NONE, 1, 1, &p);
    sl_progress_step(&p, 1, 1, 1);
    sl_progress_epoch(&p, &e);
    sl_progress_clear(&p);
    sl_progress_summary(&p, &s);
    fclose(stream);
    assert_string_equal(buffer, "");
}

/* A bar in a buffer, drawn for one step. */
static void draw(uint32_t epoch, uint32_t step, double valid_acc)
{
    struct sl_progress p;
    FILE *stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_BAR, 3, 4, &p);
    p.start_s -= 10; /* as if it had taken ten seconds */
    p.score = (struct sl_score){.valid = valid_acc, .is_fraction = true};
    sl_progress_step(&p, epoch, step, 1.5);
    fclose(stream);
}

TEST(the_bar_shows_share_loss_accuracy_and_time)
{
    draw(1, 1, NAN);
    assert_memory_equal(buffer, "\repoch 1/3 [", 12);
    assert_non_null(strstr(buffer, "1/4  loss 1.5000  valid -  left 1:50\033[K")); /* 11 steps of 10 s */
    size_t width = strspn(strchr(buffer, '[') + 1, "#.");
    size_t full = strspn(strchr(buffer, '[') + 1, "#");
    assert_true(width >= 8 && full == width / 4);
    draw(3, 4, 0.5);
    width = strspn(strchr(buffer, '[') + 1, "#.");
    assert_int_equal(strspn(strchr(buffer, '[') + 1, "#"), width);
    assert_non_null(strstr(buffer, "valid 50.00 %  left 0:00"));
    assert_true(strlen(buffer) <= 80 + 4); /* one line of a terminal, and the control characters */
}

TEST(the_bar_is_not_drawn_too_often)
{
    struct sl_progress p;
    FILE *stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_BAR, 1, 1000, &p);
    for (uint32_t i = 1; i <= 1000; i++) {
        sl_progress_step(&p, 1, i, 1);
    }
    fclose(stream);
    int drawn = 0;
    for (const char *c = buffer; *c != '\0'; c++) {
        drawn += *c == '\r';
    }
    assert_true(drawn >= 2 && drawn < 50); /* the first, the last, and ten a second */
    assert_non_null(strstr(buffer, "1000/1000"));
}

TEST(the_line_replaces_the_bar)
{
    struct sl_progress p;
    const struct sl_metrics_epoch e = an_epoch(1);
    FILE *stream = to_buffer();
    sl_progress_open(stream, SL_PROGRESS_BAR, 3, 4, &p);
    sl_progress_step(&p, 1, 1, 1.5);
    sl_progress_epoch(&p, &e);
    sl_progress_clear(&p); /* there is none any more */
    sl_progress_step(&p, 2, 1, 1.5);
    fclose(stream);
    char *line = strstr(buffer, "\033[K\r\033[Kepoch 1/3 loss 1.2346");
    assert_non_null(line);
    assert_non_null(strstr(line, "eval 0.500 s\n\repoch 2/3 [")); /* nothing between */
    assert_non_null(strstr(line, "valid 67.12 %  left"));         /* from the evaluation */
}

TEST(a_terminal_gets_the_bar)
{
    struct winsize size = {.ws_row = 24, .ws_col = 50};
    FILE *stream = to_buffer();
    setenv("TERM", "xterm", 1);
    assert_int_equal(sl_progress_mode_of(stream), SL_PROGRESS_LINES);
    fclose(stream);
    int other = posix_openpt(O_RDWR | O_NOCTTY);
    if (other < 0 || grantpt(other) != 0 || unlockpt(other) != 0) {
        skip();
    }
    stream = fopen(ptsname(other), "w");
    assert_non_null(stream);
    assert_int_equal(ioctl(fileno(stream), TIOCSWINSZ, &size), 0);
    assert_int_equal(sl_progress_mode_of(stream), SL_PROGRESS_BAR);
    setenv("TERM", "dumb", 1);
    assert_int_equal(sl_progress_mode_of(stream), SL_PROGRESS_LINES);
    unsetenv("TERM");
    assert_int_equal(sl_progress_mode_of(stream), SL_PROGRESS_LINES);
    struct sl_progress p;
    sl_progress_open(stream, SL_PROGRESS_BAR, 3, 4, &p);
    sl_progress_step(&p, 1, 1, 1.5);
    ssize_t n = read(other, buffer, sizeof buffer - 1);
    assert_true(n > 0 && n <= 50 + 4); /* the terminal's width is respected: no room for a bar */
    buffer[n] = '\0';
    assert_null(strchr(buffer, '#'));
    fclose(stream);
    close(other);
}

TEST_MAIN(NULL, NULL)
