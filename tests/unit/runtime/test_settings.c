/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/plan/settings.h: defaults as documented, and what options mean together. */
#include "runtime/plan/settings.h"

#include <stdlib.h>
#include <string.h>

#include "data/load.h"
#include "partition/partition.h"
#include "runtime/starling.h"
#include "support/memory.h"
#include "tests/support/test.h"

static int set_up(void **state)
{
    static struct sl_settings settings;
    for (size_t i = 0; i < sl_settings_table(SL_SCHEDULE_MINIBATCH)->n_options; i++) {
        char name[64] = "STARLING_";
        size_t n = strlen(name);
        for (const char *c = sl_settings_table(SL_SCHEDULE_MINIBATCH)->options[i].name; *c != '\0'; c++) {
            name[n++] = *c == '-' ? '_' : (char)(*c - 'a' + 'A');
        }
        unsetenv(name); /* the developer's own settings are not what is tested */
    }
    *state = &settings;
    return sl_settings_init(&settings);
}

static int tear_down(void **state)
{
    sl_settings_free(*state);
    return sl_memory_live() == 0 ? 0 : -1;
}

static void set(struct sl_settings *s, const char *name, const char *text)
{
    assert_int_equal(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), name, text, s), SL_OK);
}

/* Expect the check to refuse, naming the option and the other words. */
static void refused(struct sl_settings *s, const char *option, const char *word)
{
    assert_int_equal(sl_settings_check(s), SL_EINVAL);
    assert_memory_equal(sl_message(), option, strlen(option));
    if (strstr(sl_message(), word) == NULL) {
        fail_msg("'%s' lacks '%s'", sl_message(), word);
    }
}

TEST_WITH(defaults_are_the_documented_ones, set_up, tear_down)
{
    struct sl_settings *s = *state;
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_string_equal(s->dataset, "arxiv");
    assert_true(s->layers == 3 && s->hidden == 256 && s->batch_size == 1024 && s->kappa == 1 && s->depth == 2);
    assert_true(s->dropout == 0.5 && s->input_dropout == 0 && s->lr == 0.003 && s->weight_decay == 0);
    assert_true(s->epochs == 10 && s->seed == 1 && s->eval_every == 1 && s->patience == 0);
    assert_true(s->norm == SL_NORM_NONE && s->sampler == SL_SAMPLER_NEIGHBOR && s->partition == SL_PARTITION_METIS);
    assert_true(s->lr_schedule == SL_LR_NONE && s->placement == SL_PLACEMENT_AUTO && s->resume == SL_RESUME_NO);
    assert_true(s->normalize_features == SL_NORMALIZE_NONE && s->sync == SL_SYNC_ALLREDUCE);
    assert_true(s->gossip_what == SL_GOSSIP_WEIGHT && s->gossip_average_every == 0 && s->gossip_local_size == 1);
    assert_true(!s->gossip_ring && s->means == SL_MEANS_KERNEL && s->watchdog == SL_WATCHDOG_AUTO);
    assert_true(!s->directed && !s->residual && !s->quiet && !s->json && !s->metrics_steps && !s->layer_dependency);
    assert_null(s->data_path);
    assert_null(s->split);
    assert_null(s->cache);
    assert_null(s->sched);
    assert_true(s->pes == 0 && s->group_size == 0 && s->chunks == 0 && s->cpus == 0 && s->gpus == SL_GPUS_ALL);
    assert_true(s->feature_cache == SL_FEATURE_CACHE_AUTO && s->feature_cache_policy == SL_FEATURE_CACHE_LRU);
    assert_int_equal(s->n_fanout, 3);
    assert_true(s->fanout[0] == 10 && s->fanout[2] == 10);
}

/* Each choice's name must mean the enum of the same name. */
TEST_WITH(choices_match_their_enums, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "norm", "batch");
    assert_int_equal(s->norm, SL_NORM_BATCH);
    set(s, "norm", "layer");
    assert_int_equal(s->norm, SL_NORM_LAYER);
    set(s, "sampler", "labor");
    assert_int_equal(s->sampler, SL_SAMPLER_LABOR);
    set(s, "sampler", "full");
    assert_int_equal(s->sampler, SL_SAMPLER_FULL);
    set(s, "partition", "random");
    assert_int_equal(s->partition, SL_PARTITION_RANDOM);
    set(s, "partition", "none");
    assert_int_equal(s->partition, SL_PARTITION_NONE);
    set(s, "sync", "dissemination");
    assert_int_equal(s->sync, SL_SYNC_DISSEMINATION);
    set(s, "sync", "cube");
    assert_int_equal(s->sync, SL_SYNC_CUBE);
    set(s, "gossip-what", "grad");
    assert_int_equal(s->gossip_what, SL_GOSSIP_GRAD);
    set(s, "lr-schedule", "cosine");
    assert_int_equal(s->lr_schedule, SL_LR_COSINE);
    set(s, "lr-schedule", "step");
    assert_int_equal(s->lr_schedule, SL_LR_STEP);
    set(s, "placement", "home");
    assert_int_equal(s->placement, SL_PLACEMENT_HOME);
    set(s, "placement", "free");
    assert_int_equal(s->placement, SL_PLACEMENT_FREE);
    set(s, "placement", "auto");
    assert_int_equal(s->placement, SL_PLACEMENT_AUTO);
    set(s, "means", "fastest");
    assert_int_equal(s->means, SL_MEANS_FASTEST);
    set(s, "normalize-features", "row");
    assert_int_equal(s->normalize_features, SL_NORMALIZE_ROW);
    set(s, "resume", NULL);
    assert_int_equal(s->resume, SL_RESUME_YES);
    set(s, "resume", "auto");
    assert_int_equal(s->resume, SL_RESUME_AUTO);
}

/* Every option writes its own field: setting one must change the struct, and no two may share bytes. */
TEST_WITH(fields_do_not_overlap, set_up, tear_down)
{
    char taken[sizeof(struct sl_settings)] = {0};
    static const size_t widths[] = {[SL_OPTION_FLAG] = sizeof(bool),
                                    [SL_OPTION_U32] = 4,
                                    [SL_OPTION_U64] = 8,
                                    [SL_OPTION_REAL] = sizeof(double),
                                    [SL_OPTION_STRING] = sizeof(char *),
                                    [SL_OPTION_CHOICE] = sizeof(int),
                                    [SL_OPTION_U32_LIST] = 4 * SL_MAX_LAYERS};
    for (size_t i = 0; i < sl_settings_table(SL_SCHEDULE_MINIBATCH)->n_options; i++) {
        const struct sl_option *o = &sl_settings_table(SL_SCHEDULE_MINIBATCH)->options[i];
        for (size_t b = o->offset; b < o->offset + widths[o->kind]; b++) {
            assert_int_equal(taken[b]++, 0);
        }
    }
}

TEST_WITH(options_are_described_and_grouped, set_up, tear_down)
{
    const char *seen[16];
    size_t n = 0;
    for (size_t i = 0; i < sl_settings_table(SL_SCHEDULE_MINIBATCH)->n_options; i++) {
        const struct sl_option *o = &sl_settings_table(SL_SCHEDULE_MINIBATCH)->options[i];
        assert_non_null(o->help);
        assert_true(strlen(o->help) > 10 && o->help[strlen(o->help) - 1] != '.');
        assert_true(o->kind == SL_OPTION_FLAG || o->argument != NULL || o->choices != NULL);
        assert_ptr_equal(sl_option_find(sl_settings_table(SL_SCHEDULE_MINIBATCH), o->name), o); /* no name twice */
        bool starts = i == 0 || strcmp(o->group, o[-1].group) != 0;
        for (size_t g = 0; starts && g < n; g++) {
            assert_string_not_equal(seen[g], o->group); /* a group in two places */
        }
        if (starts) {
            seen[n++] = o->group;
        }
    }
}

TEST_WITH(fanout_has_one_number_per_layer, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "fanout", "5,15");
    set(s, "layers", "3");
    refused(s, "--fanout: found 2 numbers", "--layers is 3");
    s->layers = 0; /* left open */
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(s->layers == 2 && s->fanout[0] == 5 && s->fanout[1] == 15);
    set(s, "fanout", "5,-1");
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(s->fanout[0] == 5 && s->fanout[1] == SL_FANOUT_ALL);
    set(s, "fanout", "-1");
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(s->n_fanout == 2 && s->fanout[0] == SL_FANOUT_ALL && s->fanout[1] == SL_FANOUT_ALL);
    set(s, "fanout", "5");
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(s->n_fanout == 2 && s->fanout[0] == 5 && s->fanout[1] == 5);
}

TEST_WITH(a_second_check_changes_nothing, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "pes", "6");
    set(s, "group-size", "2");
    assert_int_equal(sl_settings_check(s), SL_OK);
    struct sl_settings before = *s;
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_memory_equal(&before, s, sizeof before);
}

TEST_WITH(kappa_and_layer_dependency_need_a_sampler, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "sampler", "full");
    set(s, "kappa", "8");
    refused(s, "--kappa: expected --sampler neighbor or labor with 8", "");
    set(s, "kappa", "0");
    refused(s, "--kappa: expected --sampler neighbor or labor with 0", "");
    set(s, "sampler", "neighbor");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "edge-weights", "probability");
    refused(s, "--kappa 0 cannot be used with --edge-weights probability", "");
    set(s, "edge-weights", "none");
    set(s, "replace", NULL);
    refused(s, "--kappa 0 cannot be used with --replace", "");
    set(s, "replace", "no");
    set(s, "sampler", "labor");
    set(s, "layer-dependency", NULL);
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "kappa", "1");
    set(s, "sampler", "full");
    refused(s, "--layer-dependency", "labor");
}

TEST_WITH(the_group_size_divides_the_pes, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "group-size", "3"); /* the number of PEs is not known yet */
    assert_int_equal(sl_settings_check(s), SL_OK);
    s->pes = 4;
    refused(s, "--group-size: found 3", "--pes, which is 4");
    s->group_size = 8;
    refused(s, "--group-size: found 8", "4");
    s->group_size = 0;
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_int_equal(s->group_size, 4);
}

TEST_WITH(gossip_is_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "gossip-ring", NULL);
    refused(s, "--gossip-ring: expected --sync dissemination", "cube");
    set(s, "gossip-local-size", "2");
    refused(s, "--gossip-local-size: expected --sync dissemination or cube with 2", "");
    set(s, "gossip-average-every", "10");
    refused(s, "--gossip-average-every: expected", "--sync");
    set(s, "sync", "cube");
    assert_int_equal(sl_settings_check(s), SL_OK); /* the number of PEs is not known yet */
    s->pes = 6;
    refused(s, "--sync: found cube with 3 nodes", "even number; use dissemination");
    assert_int_equal(s->group_size, 1);
    set(s, "gossip-local-size", "4");
    refused(s, "--gossip-local-size: found 4", "a divisor of the replicas, which are 6");
    set(s, "gossip-local-size", "3");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "gossip-local-size", "2");
    set(s, "sync", "dissemination");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "group-size", "6");
    refused(s, "--gossip-local-size: found 2", "which are 1");
    set(s, "gossip-local-size", "1");
    set(s, "sync", "cube");
    assert_int_equal(sl_settings_check(s), SL_OK); /* one node */
}

TEST_WITH(models_are_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "heads", "4");
    refused(s, "--heads", "--model gat");
    set(s, "model", "gat");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "heads", "7");
    refused(s, "--heads: found 7", "a divisor of --hidden, which is 256");
    set(s, "heads", "8");
    set(s, "alpha", "0.3");
    refused(s, "--alpha", "--model gcnii");
    set(s, "alpha", "0.1");
    set(s, "lambda", "1");
    refused(s, "--lambda", "--model gcnii");
    set(s, "model", "gcnii");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "residual", NULL);
    refused(s, "--residual", "--model gcnii");
    set(s, "lambda", "0.5");
    set(s, "model", "resgcn");
    refused(s, "--residual", "--model resgcn");
    s->residual = false;
    set(s, "norm", "batch");
    refused(s, "--norm", "--model resgcn");
    set(s, "norm", "none");
    assert_int_equal(sl_settings_check(s), SL_OK);
}

TEST_WITH(outputs_are_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "resume", NULL);
    refused(s, "--resume", "--checkpoint");
    set(s, "checkpoint", "folder");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "load", "file");
    refused(s, "--resume", "--load");
    set(s, "resume", "auto");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "metrics-steps", NULL);
    refused(s, "--metrics-steps", "--json");
    set(s, "metrics", "same");
    set(s, "embed", "same");
    refused(s, "--embed: found 'same'", "--metrics");
    set(s, "embed", "other");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "patience", "3");
    set(s, "eval-every", "0");
    refused(s, "--patience", "--eval-every 0");
    set(s, "eval-every", "1");
    set(s, "save-names", "pyg"); /* a program asks for weights by these names, a command line for a file */
    assert_int_equal(sl_settings_check(s), SL_OK);
    char *argv[] = {"coop_sage", NULL};
    bool run;
    assert_int_equal(sl_settings_parse(s, 1, argv, stdout, &run), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "--save FILE"));
    set(s, "save", "model");
    set(s, "load", ""); /* its file would be read */
    assert_int_equal(sl_settings_parse(s, 1, argv, stdout, &run), SL_OK);
    assert_true(run);
}

TEST_WITH(a_dash_means_json, set_up, tear_down)
{
    struct sl_settings *s = *state;
    set(s, "metrics", "-");
    set(s, "metrics-steps", NULL);
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(s->json);
    assert_null(s->metrics);
}

TEST_WITH(ranges_hold, set_up, tear_down)
{
    static const char *const bad[][2] = {
        {"layers", "0"},          {"layers", "257"},       {"hidden", "0"},
        {"dropout", "1"},         {"input-dropout", "1"},  {"pes", "0"},
        {"group-size", "0"},      {"batch-size", "0"},     {"depth", "0"},
        {"chunks", "0"},          {"fanout", "5,0"},       {"lr", "-0.1"},
        {"weight-decay", "-1"},   {"gpus", "-1"},          {"gpus", "some"},
        {"feature-cache", "all"}, {"feature-cache", "-1"}, {"feature-cache", "4294967295"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), bad[i][0], bad[i][1], *state),
                         SL_EINVAL);
    }
    set(*state, "epochs", "0");
    set(*state, "patience", "0");
    set(*state, "cpus", "0");
    set(*state, "gpus", "0");
    assert_int_equal(((struct sl_settings *)*state)->gpus, 0);
    set(*state, "gpus", "all");
    set(*state, "feature-cache", "0");
    assert_int_equal(((struct sl_settings *)*state)->feature_cache, 0);
    set(*state, "feature-cache", "auto");
    set(*state, "layers", "256");
    assert_int_equal(sl_settings_check(*state), SL_OK);
}

/* A program that fills the struct by itself is held to the same ranges. */
TEST_WITH(filled_fields_are_held_to_the_ranges, set_up, tear_down)
{
    struct sl_settings *s = *state;
    static const struct {
        const char *name;
        size_t offset;
        uint32_t good, bad;
    } fields[] = {{"pes", offsetof(struct sl_settings, pes), 256, 65537},
                  {"group-size", offsetof(struct sl_settings, group_size), 0, 257},
                  {"chunks", offsetof(struct sl_settings, chunks), 64, 65},
                  {"depth", offsetof(struct sl_settings, depth), 64, 65},
                  {"depth", offsetof(struct sl_settings, depth), 1, 0},
                  {"gossip-local-size", offsetof(struct sl_settings, gossip_local_size), 1, 0},
                  {"gossip-local-size", offsetof(struct sl_settings, gossip_local_size), 1, 65537},
                  {"fanout", offsetof(struct sl_settings, fanout), 1, 0},
                  {"batch-size", offsetof(struct sl_settings, batch_size), 1 << 24, (1 << 24) + 1},
                  {"layers", offsetof(struct sl_settings, layers), 3, 257},
                  {"hidden", offsetof(struct sl_settings, hidden), 65536, 65537},
                  {"cpus", offsetof(struct sl_settings, cpus), 4096, 4097},
                  {"gpus", offsetof(struct sl_settings, gpus), SL_GPUS_ALL, 4097},
                  {"sync", offsetof(struct sl_settings, sync), SL_SYNC_ALLREDUCE, 3}};
    assert_int_equal(sl_settings_check(s), SL_OK);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char option[64];
        uint32_t *field = (uint32_t *)(void *)((char *)s + fields[i].offset);
        snprintf(option, sizeof option, "--%s: found '%u', expected", fields[i].name, fields[i].bad);
        *field = fields[i].bad;
        if (strcmp(fields[i].name, "fanout") == 0) {
            snprintf(option, sizeof option, "--fanout: found '0,10,10', expected");
        }
        refused(s, option, "");
        *field = fields[i].good;
        assert_int_equal(sl_settings_check(s), SL_OK);
    }
    s->dropout = 1;
    refused(s, "--dropout: found '1'", "0 to 0.9999");
    s->dropout = 0;
    s->sync = SL_SYNC_DISSEMINATION;
    s->pes = 65537;
    s->group_size = 1;
    refused(s, "--pes: found '65537'", "from 1 to 65536");
}

/* A run may have more PEs than a group. */
TEST_WITH(groups_are_limited, set_up, tear_down)
{
    struct sl_settings *s = *state;
    s->pes = 514;
    refused(s, "--group-size: found none with --pes 514", "use --group-size 2,");
    s->group_size = 257;
    refused(s, "--group-size: found '257'", "from 1 to 256");
    s->group_size = 2;
    assert_int_equal(sl_settings_check(s), SL_OK);
    s->pes = 512;
    s->group_size = 256;
    assert_int_equal(sl_settings_check(s), SL_OK);
    s->group_size = 0;
    refused(s, "--group-size: found none with --pes 512", "use --group-size 256,");
    s->sync = SL_SYNC_CUBE;
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_int_equal(s->group_size, 1);
}

TEST_WITH(memory_may_run_out, set_up, tear_down)
{
    struct sl_settings s;
    long live = sl_memory_live();
    sl_memory_ration(0);
    assert_int_equal(sl_settings_init(&s), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_int_equal(sl_memory_live(), live);
    sl_settings_free(NULL);
}

TEST_WITH(the_precision_is_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    struct sl_settings *pipe;
    set(s, "precision", "bf16");
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(sl_settings_row_dtype(s) == SL_DTYPE_BF16);
    set(s, "gpus", "2");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "gpus", "0");
    for (int model = SL_MODEL_SAGE; model <= SL_MODEL_RESGCN; model++) {
        s->model = model;
        assert_int_equal(sl_settings_check(s), SL_OK);
    }
    set(s, "precision", "tf32");
    refused(s, "--precision tf32", "--gpus 0");
    set(s, "gpus", "2");
    assert_int_equal(sl_settings_check(s), SL_OK);
    set(s, "precision", "float");
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_true(sl_settings_row_dtype(s) == SL_DTYPE_REAL);
    assert_int_equal(sl_settings_new_pipe(&pipe), SL_OK);
    set(pipe, "precision", "tf32");
    set(pipe, "gpus", "0");
    refused(pipe, "--precision tf32", "--gpus 0");
    for (int i = 0; i < 2; i++) {
        set(pipe, "precision", i == 0 ? "bf16" : "tf32");
        set(pipe, "gpus", "2");
        assert_int_equal(sl_settings_check(pipe), SL_OK);
    }
    sl_settings_delete(pipe);
}

static char notices[1024];

static void keep(enum sl_notice kind, const char *line)
{
    assert_int_equal(kind, SL_NOTICE_WARNING);
    strncat(notices, line, sizeof notices - strlen(notices) - 2);
    strcat(notices, "\n");
}

/* With NAME=1 in the environment. */
static const char *notices_of(const char *name, bool options_are_read)
{
    notices[0] = '\0';
    sl_on_notice(keep);
    assert_int_equal(setenv(name, "1", 1), 0);
    sl_settings_check_environment(options_are_read);
    assert_int_equal(unsetenv(name), 0);
    sl_on_notice(NULL);
    return notices;
}

TEST_WITH(unknown_variables_are_named, set_up, tear_down)
{
    static const char *const known[] = {"STARLING_EPOCHS", "STARLING_STAGES", "STARLING_DATA",   "STARLING_OUT",
                                        "STARLING_PARTS",  "STARLING_TO",     "STARLING_METHOD", "STARLING_DATA_PATH",
                                        "STARPU_SCHED",    "STARLINGS",       "STARLING_LIBRARY"};
    static const char *const unknown[][2] = {
        {"STARLING_BATCHSIZE", "STARLING_BATCH_SIZE"}, {"STARLING_EPOCH", "STARLING_EPOCHS"},
        {"STARLING_STAGE", "STARLING_STAGES"},         {"STARLING_DATE", "STARLING_DATA"},
        {"STARLING_NUM_EPOCHS", "STARLING_EPOCHS"},    {"STARLING_NUM_STAGES", "STARLING_STAGES"},
        {"STARLING_epochs", "STARLING_EPOCHS"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_string_equal(notices_of(known[i], true), "");
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char expected[160];
        snprintf(expected, sizeof expected, "%s is set, but no program of Starling reads it; did you mean %s?\n",
                 unknown[i][0], unknown[i][1]);
        assert_string_equal(notices_of(unknown[i][0], true), expected);
    }
    assert_string_equal(notices_of("STARLING_NONSENSE_OF_MINE", true),
                        "STARLING_NONSENSE_OF_MINE is set, but no program of Starling reads it\n");
    assert_string_equal(notices_of("STARLING_DATA", false), "");
    assert_string_equal(notices_of("STARLING_DATE", false),
                        "STARLING_DATE is set, but no program of Starling reads it; did you mean STARLING_DATA?\n");
    static const char *const epochs[] = {"STARLING_EPOCHS", "STARLING_EPOCH", "STARLING_NUM_EPOCHS"};
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        char expected[160];
        snprintf(expected, sizeof expected,
                 "%s is set, but only programs take options from the environment; set --epochs here\n", epochs[i]);
        assert_string_equal(notices_of(epochs[i], false), expected);
    }
}

/* Names in other programs: aliases, and names that a rule finds. */
TEST_WITH(other_programs_names_are_answered, set_up, tear_down)
{
    struct sl_settings *settings = *state;
    const char *names = /* the name, and the option */
        "num-epochs epochs, n-epochs epochs, nhid hidden, hidden-channels hidden, hidden_dim hidden, "
        "num-layers layers, n_layers layers, num-heads heads, fan-out fanout, num_neighbors fanout, wd weight-decay, "
        "learning-rate lr, lr-scheduler lr-schedule, num-workers cpus, num_gpus gpus, device gpus, root data-path, "
        "eval_steps eval-every, dt precision, amp precision, save-model save, model-path load, random-seed seed, "
        "early-stopping patience, batch_size batch-size, log-every metrics-steps, ckpt-dir checkpoint, "
        "num-parts pes, data dataset, task objective, dropout-rate dropout, residuals residual, feat-drop dropout";
    char name[40];
    char answer[40];
    for (int n = 0; sscanf(names, "%39s %39[a-z-]%n", name, answer, &n) == 2; names += n + (names[n] == ',')) {
        char expected[160];
        snprintf(expected, sizeof expected, "--%s: coop_sage has no such option; did you mean --%s?", name, answer);
        assert_int_equal(sl_settings_set(settings, name, "1"), SL_EINVAL);
        assert_string_equal(sl_message(), expected);
    }
    assert_int_equal(names[0], '\0');
    assert_int_equal(sl_settings_set(settings, "eval-batch-size", "1"), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "; evaluation takes all in-neighbours, without batches"));
}

TEST_MAIN(NULL, NULL)
