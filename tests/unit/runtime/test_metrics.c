/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/report/metrics.h: the lines' members, order and exactness. */
#include "runtime/report/metrics.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/memory.h"
#include "tests/support/test.h"

POINTER_OWNER(json_decref, json_t)

static char buffer[16384];
static FILE *stream;        /* to the buffer */
static struct sl_metrics m; /* to the stream */

/* Start writing into the buffer. */
static void to_buffer(void)
{
    memset(buffer, 0, sizeof buffer);
    stream = fmemopen(buffer, sizeof buffer, "w");
    assert_non_null(stream);
    assert_int_equal(sl_metrics_open(NULL, stream, false, &m), SL_OK);
}

/* The one line in the buffer, read as JSON. Writing ends. */
static json_t *line(void)
{
    json_error_t error;
    assert_non_null(strchr(buffer, '\n'));
    assert_ptr_equal(strchr(buffer, '\n'), buffer + strlen(buffer) - 1);
    json_t *json = json_loads(buffer, 0, &error);
    assert_non_null(json);
    fclose(stream);
    return json;
}

static double number(json_t *object, const char *name)
{
    assert_true(json_is_number(json_object_get(object, name)));
    return json_number_value(json_object_get(object, name));
}

/* The text with " instead of '. */
static const char *quoted(const char *text)
{
    static char out[2048];
    snprintf(out, sizeof out, "%s", text);
    for (char *quote = strchr(out, '\''); quote != NULL; quote = strchr(quote, '\'')) {
        *quote = '"';
    }
    return out;
}

/* Writing ends; the one line in the buffer has these members in a row. */
static void expect_members(const char *members)
{
    json_decref(line());
    if (strstr(buffer, quoted(members)) == NULL) {
        fail_msg("expected '%s' in: %s", members, buffer);
    }
}

static struct sl_metrics_epoch an_epoch(void)
{
    return (struct sl_metrics_epoch){
        .epoch = 3,
        .train_loss = 0.1 + 0.2,
        .evaluated = true,
        .scores = {.valid_loss = 1.25,
                   .n = 3,
                   .score = {{.name = "acc", .valid = 0.625, .test = 0.5},
                             {.name = "f1", .valid = 0.4, .test = 0.3},
                             {.name = "auc", .valid = 0.9, .test = 0.8}}},
        .seconds = 1.5,
        .eval_seconds = 0.25,
        .overlap = 0.75,
        .layers = 2,
        .vertices = {10, 50, 5000000000},
        .edges = {40, 160},
        .bytes = {.ids = 1, .rows = 2, .row_gradients = 3, .weights = 4, .features = 5},
        .stage_s = {1, 2, 3, 4, 5, 6, 7, 8, 9},
    };
}

TEST(the_epoch_line_is_as_documented)
{
    to_buffer();
    struct sl_metrics_epoch e = an_epoch();
    e.scores.n = 2;
    assert_int_equal(sl_metrics_epoch(&m, &e), SL_OK);
    expect_members("{'event':'epoch','epoch':3,'train_loss':0.30000000000000004,'valid_loss':1.25,'valid_acc':0.625,"
                   "'test_acc':0.5,'valid_f1':0.4,'test_f1':0.3,'seconds':1.5,'eval_seconds':0.25,'overlap':0.75,"
                   "'vertices':[10,50,5000000000],'edges':[40,160],'bytes':{'ids':1,'rows':2,'row_gradients':3,"
                   "'weights':4,'features':5},'stage_seconds':{'sample':1.0,'exchange':2.0,'gather':3.0,"
                   "'aggregate':4.0,'dense':5.0,'loss':6.0,'backward':7.0,'sync':8.0,'optimise':9.0}}\n");
}

TEST(two_classes_have_auc)
{
    to_buffer();
    struct sl_metrics_epoch e = an_epoch();
    assert_int_equal(sl_metrics_epoch(&m, &e), SL_OK);
    expect_members("'valid_auc':0.9,'test_auc':0.8,'seconds'");
}

TEST(feature_caches_are_there_where_used)
{
    to_buffer();
    struct sl_metrics_epoch e = an_epoch();
    e.cached = true;
    e.cache = (struct sl_metrics_cache){.rows = 5000000000, .hits = 70};
    assert_int_equal(sl_metrics_epoch(&m, &e), SL_OK);
    expect_members("'feature_cache':{'rows':5000000000,'hits':70}");
}

TEST(what_was_not_evaluated_is_null)
{
    to_buffer();
    struct sl_metrics_epoch e = an_epoch();
    e.evaluated = false;
    e.train_loss = NAN;
    e.overlap = INFINITY;
    assert_int_equal(sl_metrics_epoch(&m, &e), SL_OK);
    expect_members("'train_loss':null,'valid_loss':null,'valid_acc':null,'test_acc':null,'valid_f1':null,"
                   "'test_f1':null,'valid_auc':null,'test_auc':null,'seconds':1.5,'eval_seconds':0.25,'overlap':null,");
}

TEST(losses_read_back_exactly)
{
    static const double losses[] = {1.0 / 3, 5e-324, 1.7976931348623157e308, 0, 2.302585092994046};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        to_buffer();
        assert_int_equal(sl_metrics_step(&m, 2, UINT64_C(1) << 40, losses[i]), SL_OK);
        OWNED(json_decref_it) json_t *json = line();
        assert_ptr_equal(strstr(buffer, quoted("{'event':'step','epoch':2,'step':1099511627776,'loss':")), buffer);
        assert_true(number(json, "loss") == losses[i]);
    }
}

TEST(the_config_line_holds_all_options)
{
    static const char *const devices[] = {"CPU 0", "CPU 1"};
    OWNED(sl_settings_free) struct sl_settings s;
    assert_int_equal(sl_settings_init(&s), SL_OK);
    assert_int_equal(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), "save", "caf\xe9", &s),
                     SL_OK); /* no UTF-8 */
    assert_int_equal(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), "seed", "18446744073709551615", &s),
                     SL_OK);
    assert_int_equal(sl_settings_check(&s), SL_OK);
    to_buffer();
    const struct sl_metrics_config c = {.version = "0.1",
                                        .dataset = "arxiv-synthetic",
                                        .synthetic = true,
                                        .vertices = 7,
                                        .edges = 11,
                                        .features = 96,
                                        .outputs = 40,
                                        .pes = 4,
                                        .group_size = 2,
                                        .devices = devices,
                                        .n_devices = 2,
                                        .options = &s,
                                        .edge_cut = 5,
                                        .parameters = 6,
                                        .parameter_bytes = 172704};
    assert_int_equal(sl_metrics_config(&m, &c), SL_OK);
    OWNED(json_decref_it) json_t *json = line();
    assert_ptr_equal(
        strstr(buffer, quoted("{'event':'config','version':'0.1','dataset':'arxiv-synthetic','synthetic':true,"
                              "'vertices':7,'edges':11,'features':96,'classes':40,'pes':4,'group_size':2,"
                              "'devices':['CPU 0','CPU 1'],'options':{")),
        buffer);
    assert_non_null(strstr(buffer, quoted("},'edge_cut':5,'parameters':6,'parameter_bytes':172704}\n")));
    json_t *options = json_object_get(json, "options");
    assert_int_equal(json_object_size(options), sl_settings_table(SL_SCHEDULE_MINIBATCH)->n_options);
    assert_true(number(options, "batch_size") == 1024 && number(options, "lr") == 0.003);
    assert_true(json_is_false(json_object_get(options, "layer_dependency")));
    assert_true(json_is_null(json_object_get(options, "split")));
    assert_string_equal(json_string_value(json_object_get(options, "save")), "caf?");
    assert_string_equal(json_string_value(json_object_get(options, "seed")), "18446744073709551615");
    assert_string_equal(json_string_value(json_object_get(options, "partition")), "metis");
    assert_int_equal(json_array_size(json_object_get(options, "fanout")), 3);
}

TEST(the_summary_line_is_as_documented)
{
    struct sl_metrics_summary s = {
        .evaluated = true,
        .best = {.n = 2,
                 .best_by = 1,
                 .score = {{.name = "f1", .valid = 0.4, .test = 0.3}, {.name = "acc", .valid = 0.5, .test = 0.25}}},
        .best_epoch = 4,
        .seconds = 8,
        .peak_rss_bytes = 123456789};
    assert_true(sl_metrics_peak_rss_bytes() > 1000000);
    to_buffer();
    assert_int_equal(sl_metrics_summary(&m, &s), SL_OK);
    expect_members("{'event':'summary','best_valid_acc':0.5,'test_f1_at_best':0.3,'test_acc_at_best':0.25,"
                   "'best_epoch':4,'seconds':8.0,'peak_rss_bytes':123456789}\n");
    s.best.score[1].valid = NAN; /* no epoch is the best */
    to_buffer();
    assert_int_equal(sl_metrics_summary(&m, &s), SL_OK);
    expect_members("'test_acc_at_best':0.25,'best_epoch':null,");
    s.evaluated = false;
    to_buffer();
    assert_int_equal(sl_metrics_summary(&m, &s), SL_OK);
    expect_members("'best_valid_acc':null,");
    assert_non_null(strstr(buffer, quoted("'best_epoch':null,")));
}

/* Reals have as few digits as give the same bits again; texts stay. */
TEST(reals_are_short)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.24, "0.24"}, {0.1 + 0.2, "0.30000000000000004"},
                 {2, "2.0"},     {-0.5, "-0.5"},
                 {1e300, "1e"},  {1e-7, "1e-07"},
                 {0, "0.0"},     {12345678, "12345678.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[64];
        to_buffer();
        assert_int_equal(sl_metrics_step(&m, 1, 2, cases[i].value), SL_OK);
        snprintf(wanted, sizeof wanted, "\"loss\":%s", cases[i].text);
        OWNED(json_decref_it) json_t *json = line();
        assert_non_null(strstr(buffer, wanted));
        assert_true(number(json, "loss") == cases[i].value);
    }
    to_buffer();
    const char *name = "a\\\"0.23999999999999999, 1.50 \"\\";
    const struct sl_settings none = {.schedule = SL_SCHEDULE_MINIBATCH};
    const struct sl_metrics_config c = {.version = "0.1", .dataset = name, .options = &none};
    assert_int_equal(sl_metrics_config(&m, &c), SL_OK);
    OWNED(json_decref_it) json_t *json = line();
    assert_string_equal(json_string_value(json_object_get(json, "dataset")), name);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static char path[64];

static int set_up_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/starling-metrics-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down_file(void **state)
{
    (void)state;
    return remove(path);
}

static void put_file(const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

/* The file must hold this and then `n` lines that begin as the step event does. */
static void assert_file(const char *start, int n)
{
    FILE *file = fopen(path, "r");
    memset(buffer, 0, sizeof buffer);
    size_t got = fread(buffer, 1, sizeof buffer - 1, file);
    fclose(file);
    assert_true(got >= strlen(start));
    assert_memory_equal(buffer, start, strlen(start));
    const char *at = buffer + strlen(start);
    for (; n > 0; n--) {
        assert_memory_equal(at, "{\"event\":\"step\"", 15);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
}

static void write_steps(bool append, int n)
{
    assert_int_equal(sl_metrics_open(path, NULL, append, &m), SL_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(sl_metrics_step(&m, 1, (uint64_t)i, 0.5), SL_OK);
    }
    assert_int_equal(sl_metrics_close(&m), SL_OK);
}

TEST_WITH(an_existing_file_is_emptied_or_gone_on_with, set_up_file, tear_down_file)
{
    put_file("old\n");
    write_steps(true, 2);
    assert_file("old\n", 2);
    write_steps(false, 1);
    assert_file("", 1);
}

TEST_WITH(an_unfinished_last_line_is_removed, set_up_file, tear_down_file)
{
    put_file("old\nolder\n{\"event\":\"st");
    write_steps(true, 1);
    assert_file("old\nolder\n", 1);
    put_file("{\"no end");
    write_steps(true, 1);
    assert_file("", 1);
    remove(path);
    write_steps(true, 1);
    assert_file("", 1);
}

/* Lines as the run writes them, and one that is not ours. */
#define CONFIG "{\"event\":\"config\",\"pes\":2}\n"
#define STEP(n) "{\"event\":\"step\",\"epoch\":1,\"step\":" #n ",\"loss\":1.5}\n"
#define EPOCH(n) "{\"event\":\"epoch\",\"epoch\":" #n "}\n"
#define SUMMARY "{\"event\":\"summary\"}\n"
#define NOTE "a [note\n"

/* A file of these lines, cut back to a checkpoint, is its first `bytes` bytes, and is gone on with. */
static void expect_rewound(const char *lines, uint64_t n_epochs, uint64_t n_steps, size_t bytes)
{
    char kept[2048];
    snprintf(kept, sizeof kept, "%.*s", (int)bytes, lines);
    put_file(lines);
    assert_int_equal(sl_metrics_open(path, NULL, true, &m), SL_OK);
    assert_int_equal(sl_metrics_rewind(&m, n_epochs, n_steps), SL_OK);
    assert_int_equal(sl_metrics_step(&m, 1, n_steps, 1), SL_OK);
    assert_int_equal(sl_metrics_close(&m), SL_OK);
    assert_file(kept, 1);
}

/* Of a run of two steps an epoch. */
TEST_WITH(a_file_is_cut_back_to_the_checkpoint, set_up_file, tear_down_file)
{
    static const char killed[] = CONFIG EPOCH(1) EPOCH(2) NOTE EPOCH(3) SUMMARY;
    static const char steps[] = CONFIG STEP(0) STEP(1) EPOCH(1) STEP(2) STEP(3) EPOCH(2);
    static const char ended[] = CONFIG STEP(0) SUMMARY;
    static const char resumed[] = CONFIG STEP(0) CONFIG STEP(1) EPOCH(1) CONFIG EPOCH(2);
    static const char late[] = CONFIG EPOCH(1) SUMMARY CONFIG EPOCH(2); /* as an older version left it */
    expect_rewound("", 1, 2, 0);
    expect_rewound(NOTE, 0, 0, strlen(NOTE));
    expect_rewound(killed, 2, 4, strlen(CONFIG EPOCH(1) EPOCH(2) NOTE));
    expect_rewound(killed, 1, 3, strlen(CONFIG EPOCH(1)));
    expect_rewound(killed, 0, 0, strlen(CONFIG));
    expect_rewound(killed, 3, 6, strlen(killed) - strlen(SUMMARY));
    expect_rewound(steps, 1, 3, strlen(CONFIG STEP(0) STEP(1) EPOCH(1) STEP(2)));
    expect_rewound(steps, 0, 1, strlen(CONFIG STEP(0)));
    expect_rewound(steps, 2, 4, strlen(steps));
    expect_rewound(ended, 0, 1, strlen(CONFIG STEP(0)));
    expect_rewound(resumed, 1, 2, strlen(resumed) - strlen(EPOCH(2)));
    expect_rewound(resumed, 0, 1, strlen(CONFIG STEP(0) CONFIG));
    expect_rewound(late, 2, 4, strlen(late));
    expect_rewound(EPOCH(0) SUMMARY, 0, 0, 0);
}

TEST_WITH(earlier_runs_in_the_file_stay, set_up_file, tear_down_file)
{
    static const char two[] = CONFIG EPOCH(1) EPOCH(2) SUMMARY CONFIG EPOCH(1) EPOCH(2);
    static const char step_by_step[] = CONFIG STEP(0) STEP(1) EPOCH(1) SUMMARY CONFIG STEP(0) STEP(1);
    expect_rewound(two, 1, 2, strlen(two) - strlen(EPOCH(2)));
    expect_rewound(two, 0, 0, strlen(two) - strlen(EPOCH(1) EPOCH(2)));
    expect_rewound(step_by_step, 0, 1, strlen(step_by_step) - strlen(STEP(1)));
    expect_rewound(step_by_step, 0, 0, strlen(step_by_step) - strlen(STEP(0) STEP(1)));
}

TEST_WITH(what_was_not_gone_on_with_is_not_cut, set_up_file, tear_down_file)
{
    m = (struct sl_metrics){0};
    assert_int_equal(sl_metrics_rewind(&m, 0, 0), SL_OK);
    assert_int_equal(sl_metrics_open(path, NULL, false, &m), SL_OK);
    assert_int_equal(sl_metrics_step(&m, 1, 5, 1), SL_OK);
    assert_int_equal(sl_metrics_rewind(&m, 0, 0), SL_OK);
    assert_int_equal(sl_metrics_close(&m), SL_OK);
    assert_file("", 1);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(sl_metrics_open("/dev/full", NULL, true, &m), SL_OK);
        assert_int_equal(sl_metrics_rewind(&m, 0, 0), SL_OK);
        sl_metrics_close(&m);
    }
}

TEST_WITH(each_line_is_there_at_once, set_up_file, tear_down_file)
{
    assert_int_equal(sl_metrics_open(path, NULL, false, &m), SL_OK);
    assert_int_equal(sl_metrics_step(&m, 1, 0, 1), SL_OK);
    assert_file("", 1); /* before it is closed */
    assert_int_equal(sl_metrics_close(&m), SL_OK);
}

TEST_WITH(file_and_stream_get_the_same, set_up_file, tear_down_file)
{
    static char second[4096];
    stream = fmemopen(second, sizeof second, "w");
    assert_int_equal(sl_metrics_open(path, stream, false, &m), SL_OK);
    assert_int_equal(sl_metrics_step(&m, 1, 0, 1), SL_OK);
    assert_int_equal(sl_metrics_close(&m), SL_OK);
    fclose(stream);
    assert_file(second, 0);
}

TEST_WITH(trouble_is_a_status, set_up_file, tear_down_file)
{
    assert_int_equal(sl_metrics_open("/nowhere/at/all", NULL, false, &m), SL_EIO);
    assert_non_null(strstr(sl_message(), "/nowhere/at/all"));
    assert_int_equal(sl_metrics_step(&m, 1, 0, 1), SL_OK); /* empty: writes nowhere */
    assert_int_equal(sl_metrics_close(&m), SL_OK);
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_int_equal(sl_metrics_open("/dev/full", NULL, true, &m), SL_OK);
    assert_int_equal(sl_metrics_step(&m, 1, 0, 1), SL_EIO);
    sl_metrics_close(&m);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void *rationed_malloc(size_t bytes)
{
    void *block = NULL;
    return sl_alloc(bytes, 1, "jansson", &block) == SL_OK ? block : NULL;
}

/* jansson's memory is rationed, too, so that each of its failures is met. */
TEST(memory_may_run_out)
{
    OWNED(sl_settings_free) struct sl_settings s;
    const char *const devices[] = {"CPU 0"};
    assert_int_equal(sl_settings_init(&s), SL_OK);
    assert_int_equal(sl_settings_check(&s), SL_OK);
    const struct sl_metrics_config c = {
        .version = "0", .dataset = "d", .devices = devices, .n_devices = 1, .options = &s};
    const struct sl_metrics_epoch e = an_epoch();
    to_buffer();
    long live = sl_memory_live();
    json_set_alloc_funcs(rationed_malloc, sl_free);
    for (int which = 0; which < 2; which++) {
        enum sl_status st = SL_ENOMEM;
        for (long allow = 0; st != SL_OK; allow++) {
            sl_memory_ration(allow);
            st = which == 0 ? sl_metrics_epoch(&m, &e) : sl_metrics_config(&m, &c);
            sl_memory_ration(-1);
            assert_true(st == SL_OK || st == SL_ENOMEM);
            assert_int_equal(sl_memory_live(), live);
            assert_true((st == SL_OK) == (buffer[0] != '\0'));
            assert_true(allow < 2000);
        }
        json_set_alloc_funcs(malloc, free);
        fclose(stream);
        to_buffer();
        json_set_alloc_funcs(rationed_malloc, sl_free);
    }
    json_set_alloc_funcs(malloc, free);
    fclose(stream);
}

TEST_MAIN(NULL, NULL)
