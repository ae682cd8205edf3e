/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * apps/report/measured.h, projection.h and scaling.h: a cluster computed by hand, the law of counts, what must
 * not fall or rise, and files that are no run's. */
#include "apps/report/projection.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "apps/report/measured.h"
#include "apps/report/scaling.h"

#define N_PATHS 3
static char path[N_PATHS][64];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N_PATHS; i++) {
        strcpy(path[i], "/tmp/starling-projection-XXXXXX");
        int file = mkstemp(path[i]);
        if (file < 0 || close(file) != 0) {
            return -1;
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < N_PATHS; i++) {
        unlink(path[i]);
    }
    return 0;
}

static void write_text(int i, const char *text)
{
    FILE *file = fopen(path[i], "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* What differs between the runs of these tests; all have one layer, 10 features and 4 classes, and 100 training
 * vertices. */
struct story {
    uint32_t pes, group_size, batch_size;
    double seconds;
    double inputs, edges, row_bytes; /* of an epoch */
};

static const struct story hand = {
    .pes = 2, .group_size = 2, .batch_size = 50, .seconds = 2, .inputs = 400, .edges = 300, .row_bytes = 3000};

#define CONFIG                                                                                                         \
    "{\"event\":\"config\",\"dataset\":\"made\",\"vertices\":1000,\"edges\":5000,\"features\":10,\"classes\":4,"       \
    "\"pes\":%u,\"group_size\":%u,\"devices\":[\"CPU 0\"],\"options\":{\"batch_size\":%u,\"hidden\":8,"                \
    "\"layers\":1,\"fanout\":[3]},\"parameters\":2,\"parameter_bytes\":800}\n"

static void put_epoch(FILE *file, const struct story *s, double seconds, const char *more)
{
    fprintf(file,
            "{\"event\":\"epoch\",\"train_loss\":1,\"seconds\":%.17g,\"vertices\":[100,%.17g],\"edges\":[%.17g],"
            "\"bytes\":{\"ids\":%.17g,\"rows\":%.17g,\"row_gradients\":0},\"stage_seconds\":{\"sample\":0.2,"
            "\"exchange\":%s,\"gather\":0.3,\"aggregate\":0.4,\"dense\":0.5,\"loss\":0.1,\"backward\":0.3,"
            "\"sync\":0.05,\"optimise\":0.05}%s}\n",
            seconds, s->inputs, s->edges, s->row_bytes / 10, s->row_bytes, s->row_bytes > 0 ? "0.1" : "0", more);
}

/* Three epochs, of which the second and third are a warm run's. */
static void write_run(int i, const struct story *s, const char *more)
{
    FILE *file = fopen(path[i], "w");
    assert_non_null(file);
    fputs("no line of ours\n", file);
    fprintf(file, CONFIG, s->pes, s->group_size, s->batch_size);
    put_epoch(file, s, 100, more);
    put_epoch(file, s, s->seconds + 7, more);
    put_epoch(file, s, s->seconds, more);
    assert_int_equal(fclose(file), 0);
}

static void project(uint32_t n, struct sl_projection *out)
{
    const char *paths[N_PATHS];
    for (uint32_t i = 0; i < n; i++) {
        paths[i] = path[i];
    }
    memset(out, 0, sizeof *out);
    assert_int_equal(sl_measured_read(paths, n, out->run), SL_OK);
    out->n_runs = n;
    assert_int_equal(sl_projection_make(out, 0), SL_OK);
}

static struct sl_projected epoch_of(const struct sl_projection *p, const struct sl_cluster *cluster,
                                    enum sl_project_mode mode, uint32_t n_devices)
{
    struct sl_projected out;
    assert_int_equal(sl_projection_epoch(p, cluster, mode, n_devices, &out), SL_OK);
    return out;
}

/* A millisecond, a tenth of one between messages, a byte a microsecond. */
static const struct sl_cluster slow = {.per_machine = 1,
                                       .slowness = 1,
                                       .inside = {.latency_s = 0.0002, .bytes_per_s = 1e7},
                                       .between = {.latency_s = 0.001, .message_s = 0.0001, .bytes_per_s = 1e6}};

static struct sl_projection projection; /* large */

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-12)

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

/* The run's counts, its 2 s of work and 0.05 for the second machine's optimiser, of two devices. Three messages
 * that wait for each other and four in all (request, rows, counts, the wish to stop), 3300 bytes of which each
 * machine sends half; two arrays of 400 bytes: 0.0014 down the chain, 0.0005 for the second, 0.001 + 2 * 0.0005
 * back. */
static void two_that_cooperate_are_as_computed_by_hand(void **state)
{
    (void)state;
    write_run(0, &hand, "");
    project(1, &projection);
    struct sl_projected p = epoch_of(&projection, &slow, SL_PROJECT_COOPERATIVE, 2);
    assert_near(p.n_steps, 1);
    assert_near(p.seeds, 100);
    assert_near(p.input_rows, 400);
    assert_near(p.between_bytes, 3300);
    assert_near(p.part_s[SL_PROJECT_WORK], 1.025);
    assert_near(p.part_s[SL_PROJECT_FIXED], 0);
    assert_near(p.part_s[SL_PROJECT_LINKS], 0.003);
    assert_near(p.part_s[SL_PROJECT_MESSAGES], 0.0004);
    assert_near(p.part_s[SL_PROJECT_BYTES], 0.00165);
    assert_near(p.part_s[SL_PROJECT_SUMS], 0.0039);
    assert_near(p.seconds, 1.025 + 0.003 + 0.0004 + 0.00165 + 0.0039);
    assert_true(p.measured);
}

/* Groups of 50 seeds have half of what 100 have, and send nothing: 0.1 s less, 0.05 more for two optimisers. */
static void gossip_is_as_computed_by_hand(void **state)
{
    (void)state;
    write_run(0, &hand, "");
    project(1, &projection);
    struct sl_projected p = epoch_of(&projection, &slow, SL_PROJECT_GOSSIP, 2);
    assert_near(p.part_s[SL_PROJECT_WORK], 1.95 / 2);
    assert_near(p.part_s[SL_PROJECT_LINKS] + p.part_s[SL_PROJECT_MESSAGES] + p.part_s[SL_PROJECT_BYTES], 0);
    assert_near(p.part_s[SL_PROJECT_SUMS], 0.001 + 2 * 0.0005);
    assert_false(p.measured); /* 50 seeds are less than any run's */
}

/* Two machines of two: groups of 50 seeds inside, whose rows go by the link inside. */
static void machines_that_cooperate_inside_are_as_computed_by_hand(void **state)
{
    (void)state;
    struct sl_cluster two = slow;
    two.per_machine = 2;
    two.slowness = 3;
    write_run(0, &hand, "");
    project(1, &projection);
    struct sl_projected p = epoch_of(&projection, &two, SL_PROJECT_MACHINE, 4);
    assert_near(p.part_s[SL_PROJECT_WORK], 3 * 2.1 / 4); /* two optimisers, four PEs' partial sums */
    assert_near(p.part_s[SL_PROJECT_LINKS], 2 * 0.0002 + 0.001);
    assert_near(p.part_s[SL_PROJECT_MESSAGES], 3 * 0.0001);
    assert_near(p.part_s[SL_PROJECT_BYTES], 3300.0 / 2 / 1e7);
    assert_near(p.between_bytes, 0);
}

/* As it was: two PEs of one process with one worker. */
static void a_run_projected_onto_its_own_machine_takes_its_own_time(void **state)
{
    (void)state;
    struct story wide = hand;
    struct sl_cluster own = {.per_machine = 2, .slowness = 1, .processors = 1};
    wide.pes = 20;
    wide.group_size = 1;
    wide.batch_size = 5;
    wide.seconds = 5; /* dear for its PEs' steps */
    wide.row_bytes = 0;
    write_run(0, &hand, "");
    write_run(1, &wide, "");
    project(2, &projection);
    assert_true(projection.fixed_s > 0);
    assert_near(epoch_of(&projection, &own, SL_PROJECT_COOPERATIVE, 2).seconds, 2);
    own.per_machine = 20;
    projection.batch_size = 5;
    assert_near(epoch_of(&projection, &own, SL_PROJECT_INDEPENDENT, 20).seconds, 5);
}

/* The time f that a PE's step takes is found again: the first run's 2 s are w + 2 f. Of 32 PEs with the same
 * counts, whose partial sums take 0.05 / 2 each, and not of eight, whose steps are too few to tell. */
static void the_fixed_time_of_a_step_is_found(void **state)
{
    (void)state;
    struct story wide = hand;
    double f = 0.03;
    wide.pes = wide.group_size = 32;
    wide.seconds = (1 - f * 2 / 2) * (2 + 30 * 0.05 / 2) + f * 32;
    write_run(0, &hand, "");
    write_run(1, &wide, "");
    wide.pes = wide.group_size = 8;
    wide.seconds = 50;
    write_run(2, &wide, "");
    project(3, &projection);
    assert_true(fabs(projection.fixed_s - f) < 1e-9);
}

/* ---- the law ----------------------------------------------------------------------------------------------------- */

static double rows_of(uint32_t n_devices)
{
    struct sl_projected p = epoch_of(&projection, &slow, SL_PROJECT_COOPERATIVE, n_devices);
    return p.input_rows / p.n_steps;
}

/* 10 seeds: 100 rows; 40: 200. Between them a power of the seeds, beyond the line through both; proportional below. */
static void counts_go_on_by_the_law(void **state)
{
    (void)state;
    struct story one = {.pes = 2, .group_size = 2, .batch_size = 5, .seconds = 1, .edges = 300, .row_bytes = 3000};
    struct story four = one;
    one.inputs = 10 * 100; /* of ten steps */
    four.pes = four.group_size = 8;
    four.inputs = 200 * 2.5;
    write_run(0, &one, "");
    write_run(1, &four, "");
    project(2, &projection);
    /* four has three steps of 33.3 seeds on average */
    double rise = log(four.inputs / 3 / 100) / log(100.0 / 3 / 10);
    assert_near(rows_of(2), 100);
    assert_near(rows_of(8), four.inputs / 3);
    assert_near(rows_of(4), 100 * pow(2, rise));
    double line = (four.inputs / 3 - 100) / (100.0 / 3 - 10);
    assert_true(fabs(rows_of(16) - (four.inputs / 3 + line * (50 - 100.0 / 3))) < 1e-9);
    assert_near(rows_of(1), 50);
    for (uint32_t p = 1; p < 64; p *= 2) { /* W(PB) <= P W(B) */
        assert_true(rows_of(2 * p) <= 2 * rows_of(p) + 1e-9 && rows_of(2 * p) >= rows_of(p) - 1e-9);
    }
    assert_false(epoch_of(&projection, &slow, SL_PROJECT_COOPERATIVE, 16).measured);
    assert_true(epoch_of(&projection, &slow, SL_PROJECT_COOPERATIVE, 8).measured);
}

/* One run tells of no slope: rows grow with the seeds, and no further than the graph. */
static void counts_end_at_the_graph(void **state)
{
    (void)state;
    struct story one = hand;
    one.inputs = 900 * 2;
    one.batch_size = 25; /* two steps of 50 seeds, 900 rows each */
    write_run(0, &one, "");
    project(1, &projection);
    assert_near(rows_of(2), 900);
    assert_near(rows_of(4), 1000);
    assert_near(rows_of(100), 1000);
}

/* ---- what must not fall or rise ---------------------------------------------------------------------------------- */

static void dearer_messages_never_save_time(void **state)
{
    (void)state;
    struct sl_cluster changed[5];
    write_run(0, &hand, "");
    project(1, &projection);
    for (int i = 0; i < 5; i++) {
        changed[i] = slow;
        changed[i].per_machine = 2;
    }
    struct sl_cluster base = changed[0];
    changed[0].between.latency_s *= 2;
    changed[1].between.message_s *= 2;
    changed[2].between.bytes_per_s /= 2;
    changed[3].inside.bytes_per_s /= 2;
    changed[4].slowness *= 2;
    for (int mode = 0; mode < SL_N_PROJECT_MODES; mode++) {
        for (uint32_t p = 2; p <= 64; p *= 2) {
            double s = epoch_of(&projection, &base, mode, p).seconds;
            for (int i = 0; i < 5; i++) {
                assert_true(epoch_of(&projection, &changed[i], mode, p).seconds >= s);
            }
            assert_true(epoch_of(&projection, &changed[4], mode, p).seconds > s);
            assert_true(p == 2 || epoch_of(&projection, &changed[0], mode, p).seconds > s);
        }
    }
}

/* Free messages, and work that is spread. */
static void without_messages_more_devices_never_take_longer(void **state)
{
    (void)state;
    const struct sl_cluster ideal = {.per_machine = 1, .slowness = 1};
    write_run(0, &hand, "");
    project(1, &projection);
    projection.rate_s[SL_STAGE_SYNC] = projection.rate_s[SL_STAGE_OPTIMISE] = 0; /* what each more does again */
    for (int mode = 0; mode < SL_N_PROJECT_MODES; mode++) {
        for (uint32_t p = 2; p <= 32; p *= 2) {
            double before = epoch_of(&projection, &ideal, mode, p).seconds;
            assert_true(epoch_of(&projection, &ideal, mode, 2 * p).seconds <= before);
        }
    }
    struct sl_cluster shared = ideal;
    shared.processors = 2;
    double two = epoch_of(&projection, &ideal, SL_PROJECT_INDEPENDENT, 2).seconds;
    assert_near(epoch_of(&projection, &shared, SL_PROJECT_INDEPENDENT, 2).seconds, two);
    assert_true(epoch_of(&projection, &shared, SL_PROJECT_INDEPENDENT, 8).seconds >= 0.99 * two);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void refuse_file(const char *text, enum sl_status status, const char *words)
{
    const char *const paths[] = {path[0]};
    write_text(0, text);
    assert_int_equal(sl_measured_read(paths, 1, projection.run), status);
    assert_non_null(strstr(sl_message(), words));
    assert_null(strchr(sl_message(), '\n'));
}

static void files_that_are_no_runs_are_refused(void **state)
{
    (void)state;
    static const char *const nowhere[] = {"/nowhere/metrics"};
    char line[1024];
    assert_int_equal(sl_measured_read(nowhere, 1, projection.run), SL_EIO);
    refuse_file("", SL_EFILE, "coop_sage --metrics");
    refuse_file("{\"event\":\"epoch\",\"train_loss\":1}\n[]\nx", SL_EFILE, "found no line of a run");
    snprintf(line, sizeof line, CONFIG, 2, 2, 50);
    refuse_file(line, SL_EFILE, "no trained epoch");
    strcat(line, "{\"event\":\"epoch\",\"train_loss\":1}\n");
    refuse_file(line, SL_EFILE, "no number 'seconds'");
    snprintf(line, sizeof line, CONFIG "{\"event\":\"epoch\",\"train_loss\":1}\n", 3, 2, 50);
    refuse_file(line, SL_EFILE, "3 PEs in groups of 2");
    snprintf(line, sizeof line, CONFIG "{\"event\":\"epoch\",\"train_loss\":1}\n", 0, 2, 50);
    refuse_file(line, SL_EFILE, "found 0 as 'pes'");
    refuse_file("{\"event\":\"config\",\"vertices\":3,\"edges\":3}\n{\"event\":\"epoch\",\"train_loss\":1}\n", SL_EFILE,
                "this version's coop_sage");
}

static void runs_of_other_things_are_refused(void **state)
{
    (void)state;
    const char *const paths[] = {path[0], path[1]};
    char line[1024];
    write_run(0, &hand, "");
    snprintf(line, sizeof line, CONFIG "{\"event\":\"epoch\",\"train_loss\":1}\n", 2, 2, 50);
    memcpy(strstr(line, "[3]"), "[4]", 3);
    write_text(1, line);
    assert_int_equal(sl_measured_read(paths, 2, projection.run), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "another 'fanout'"));
    write_run(0, &hand, ",\"messages\":{\"seconds_of\":[1,2]}");
    assert_int_equal(sl_measured_read(paths, 1, projection.run), SL_OK);
    projection.n_runs = 1;
    assert_int_equal(sl_projection_make(&projection, 0), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "2 processes"));
}

static void refuse_epoch(const struct sl_cluster *cluster, enum sl_project_mode mode, uint32_t n, const char *words)
{
    struct sl_projected out;
    assert_int_equal(sl_projection_epoch(&projection, cluster, mode, n, &out), SL_EINVAL);
    assert_non_null(strstr(sl_message(), words));
}

static void what_cannot_be_projected_is_refused(void **state)
{
    (void)state;
    struct sl_cluster four = slow;
    struct story alone = hand;
    four.per_machine = 4;
    alone.group_size = 1;
    alone.row_bytes = 0;
    write_run(0, &alone, "");
    project(1, &projection);
    refuse_epoch(&slow, SL_PROJECT_COOPERATIVE, 2, "--group-size of 2");
    refuse_epoch(&four, SL_PROJECT_INDEPENDENT, 6, "6 devices by 4");
    refuse_epoch(&slow, SL_PROJECT_INDEPENDENT, 101, "101 devices for 100");
    assert_near(epoch_of(&projection, &four, SL_PROJECT_INDEPENDENT, 1).n_steps, 2); /* a machine not full */
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void the_table_says_where_each_way_ends(void **state)
{
    (void)state;
    static const uint32_t devices[] = {2, 100, 4};
    struct sl_cluster far = slow;
    char text[4096] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    far.between.latency_s = 0.01;
    write_run(0, &hand, "");
    project(1, &projection);
    assert_int_equal(sl_scaling_print(&projection, &far, devices, 3, stream), SL_OK);
    fclose(stream);
    assert_non_null(
        strstr(text, "devices  steps    seeds           independent                gossip           cooperative\n"));
    assert_non_null(strstr(text, "      2      1      100  >"));
    assert_non_null(strstr(text, "      1.07"));
    assert_non_null(strstr(text, "gossip       shortest on 100 devices, "));
    const char *end = strstr(text, "cooperative  shortest on 4 devices, 0.");
    assert_non_null(end);
    assert_non_null(strstr(end, " s; on 100 1."));
    assert_non_null(strstr(end, "most of it sums\n"));
    assert_null(strstr(text, "machine"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_cooperate_are_as_computed_by_hand),
        cmocka_unit_test(gossip_is_as_computed_by_hand),
        cmocka_unit_test(machines_that_cooperate_inside_are_as_computed_by_hand),
        cmocka_unit_test(a_run_projected_onto_its_own_machine_takes_its_own_time),
        cmocka_unit_test(the_fixed_time_of_a_step_is_found),
        cmocka_unit_test(counts_go_on_by_the_law),
        cmocka_unit_test(counts_end_at_the_graph),
        cmocka_unit_test(dearer_messages_never_save_time),
        cmocka_unit_test(without_messages_more_devices_never_take_longer),
        cmocka_unit_test(files_that_are_no_runs_are_refused),
        cmocka_unit_test(runs_of_other_things_are_refused),
        cmocka_unit_test(what_cannot_be_projected_is_refused),
        cmocka_unit_test(the_table_says_where_each_way_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
