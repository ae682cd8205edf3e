/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/plan/settings.h: defaults as documented, and what options mean together. */
#include "runtime/plan/settings.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/ends/pairs.h"
#include "codelets/rows/activate.h"
#include "codelets/rows/row_cache.h"
#include "data/load.h"
#include "partition/partition.h"
#include "runtime/starling.h"
#include "support/memory.h"
#include "tests/support/test.h"

POINTER_OWNER(sl_settings_delete, struct sl_settings)

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

/* Expect the check to refuse, with a message that begins so and has the other words. */
static void refused(struct sl_settings *s, const char *option, const char *word)
{
    assert_int_equal(sl_settings_check(s), SL_EINVAL);
    assert_memory_equal(sl_message(), option, strlen(option));
    if (strstr(sl_message(), word) == NULL) {
        fail_msg("'%s' lacks '%s'", sl_message(), word);
    }
}

/* Options to set, "name=value" or a flag's name, one a word; then the check refuses so, or (NULL) takes them. */
struct step {
    const char *options, *option, *word;
};

/* Each step adds to the options of those before it. A step without options is the last. */
static void take(struct sl_settings *s, const struct step *steps)
{
    for (; steps->options != NULL; steps++) {
        char words[128];
        char *rest;
        snprintf(words, sizeof words, "%s", steps->options);
        for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
            char *value = strchr(word, '=');
            if (value != NULL) {
                *value++ = '\0';
            }
            set(s, word, value);
        }
        if (steps->option != NULL) {
            refused(s, steps->option, steps->word == NULL ? "" : steps->word);
        } else if (sl_settings_check(s) != SL_OK) {
            fail_msg("%s: %s", steps->options, sl_message());
        }
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
    assert_true(s->activation == SL_ACTIVATE_RELU && s->norm == SL_NORM_NONE);
    assert_true(s->sampler == SL_SAMPLER_NEIGHBOR && s->partition == SL_PARTITION_METIS);
    assert_true(strcmp(s->lr_schedule, "none") == 0 && s->placement == SL_PLACEMENT_AUTO && s->resume == SL_RESUME_NO);
    assert_true(s->normalize_features == SL_NORMALIZE_NONE && s->sync == SL_SYNC_ALLREDUCE);
    assert_true(s->gossip_what == SL_GOSSIP_WEIGHT && s->gossip_average_every == 0 && s->gossip_local_size == 1);
    assert_true(!s->gossip_ring && s->means == SL_MEANS_KERNEL && s->watchdog == SL_WATCHDOG_AUTO);
    assert_true(!s->directed && !s->residual && !s->quiet && !s->json && !s->metrics_steps && !s->layer_dependency);
    assert_null(s->data_path);
    assert_null(s->split);
    assert_null(s->cache);
    assert_null(s->sched);
    assert_true(s->pes == 0 && s->group_size == 0 && s->chunks == 0 && s->cpus == 0 && s->gpus == SL_GPUS_ALL);
    assert_true(s->feature_cache == SL_FEATURE_CACHE_AUTO && s->feature_cache_policy == SL_ROW_CACHE_LRU);
    assert_int_equal(s->n_fanout, 3);
    assert_true(s->fanout[0] == 10 && s->fanout[2] == 10);
}

/* Each choice's name must mean the enum of the same name. No option is left out. */
TEST_WITH(choices_match_their_enums, set_up, tear_down)
{
    static const struct {
        const char *option;
        size_t offset;
        const char *names[10];
        int values[9];
    } cases[] = {
#define CASE(option, field, ...) {option, offsetof(struct sl_settings, field), __VA_ARGS__}
        CASE("model", model, {"sage", "gcn", "gat", "gatv2", "gcnii", "resgcn", "gin", "rgcn", "rgat"},
             {SL_MODEL_SAGE, SL_MODEL_GCN, SL_MODEL_GAT, SL_MODEL_GATV2, SL_MODEL_GCNII, SL_MODEL_RESGCN, SL_MODEL_GIN,
              SL_MODEL_RGCN, SL_MODEL_RGAT}),
        CASE("activation", activation, {"relu", "elu", "gelu", "leaky_relu"},
             {SL_ACTIVATE_RELU, SL_ACTIVATE_ELU, SL_ACTIVATE_GELU, SL_ACTIVATE_LEAKY_RELU}),
        CASE("norm", norm, {"none", "layer", "batch"}, {SL_NORM_NONE, SL_NORM_LAYER, SL_NORM_BATCH}),
        CASE("sampler", sampler, {"neighbor", "labor", "full"},
             {SL_SAMPLER_NEIGHBOR, SL_SAMPLER_LABOR, SL_SAMPLER_FULL}),
        CASE("edge-weights", edge_weights, {"none", "probability", "factor", "both"},
             {SL_EDGE_WEIGHTS_NONE, SL_EDGE_WEIGHTS_PROBABILITY, SL_EDGE_WEIGHTS_FACTOR, SL_EDGE_WEIGHTS_BOTH}),
        CASE("edge-features", edge_features, {"none", "concat", "add"},
             {SL_EDGE_FEATURES_NONE, SL_EDGE_FEATURES_CONCAT, SL_EDGE_FEATURES_ADD}),
        CASE("partition", partition, {"metis", "random", "none", "stream"},
             {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE, SL_PARTITION_STREAM}),
        CASE("sync", sync, {"allreduce", "dissemination", "cube"},
             {SL_SYNC_ALLREDUCE, SL_SYNC_DISSEMINATION, SL_SYNC_CUBE}),
        CASE("gossip-what", gossip_what, {"grad", "weight"}, {SL_GOSSIP_GRAD, SL_GOSSIP_WEIGHT}),
        CASE("optimizer", optimizer, {"adam", "adamw"}, {SL_OPTIMIZER_ADAM, SL_OPTIMIZER_ADAMW}),
        CASE("placement", placement, {"free", "home", "auto"},
             {SL_PLACEMENT_FREE, SL_PLACEMENT_HOME, SL_PLACEMENT_AUTO}),
        CASE("transport", transport, {"starpu", "nccl"}, {SL_TRANSPORT_STARPU, SL_TRANSPORT_NCCL}),
        CASE("means", means, {"kernel", "fastest"}, {SL_MEANS_KERNEL, SL_MEANS_FASTEST}),
        CASE("precision", precision, {"float", "bf16", "tf32"},
             {SL_PRECISION_FLOAT, SL_PRECISION_BF16, SL_PRECISION_TF32}),
        CASE("normalize-features", normalize_features, {"none", "row", "column"},
             {SL_NORMALIZE_NONE, SL_NORMALIZE_ROW, SL_NORMALIZE_COLUMN}),
        CASE("feature-cache-policy", feature_cache_policy, {"lru", "degree", "s3-fifo", "sieve", "clock"},
             {SL_ROW_CACHE_LRU, SL_ROW_CACHE_DEGREE, SL_ROW_CACHE_S3_FIFO, SL_ROW_CACHE_SIEVE, SL_ROW_CACHE_CLOCK}),
        CASE("save-names", save_names, {"dgl", "pyg"}, {SL_NAMES_DGL, SL_NAMES_PYG}),
        CASE("resume", resume, {"no", "yes", "auto"}, {SL_RESUME_NO, SL_RESUME_YES, SL_RESUME_AUTO}),
        CASE("objective", objective, {"auto", "class", "labels", "regression", "link"},
             {SL_OBJECTIVE_AUTO, SL_OBJECTIVE_CLASS, SL_OBJECTIVE_LABELS, SL_OBJECTIVE_REGRESSION, SL_OBJECTIVE_LINK}),
        CASE("loss", loss, {"squared", "absolute"}, {SL_LOSS_SQUARED, SL_LOSS_ABSOLUTE}),
        CASE("link-loss", link_loss, {"binary", "softmax"}, {SL_PAIRS_BINARY, SL_PAIRS_SOFTMAX}),
        CASE("link-exclude", link_exclude, {"reverse", "self", "none"},
             {SL_LINK_EXCLUDE_REVERSE, SL_LINK_EXCLUDE_SELF, SL_LINK_EXCLUDE_NONE}),
        CASE("decoder", decoder, {"dot", "distmult", "mlp"}, {SL_DECODER_DOT, SL_DECODER_DISTMULT, SL_DECODER_MLP}),
    };
    const struct sl_option_table *table = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    uint32_t n_choices = 0;
    for (size_t i = 0; i < table->n_options; i++) {
        n_choices += table->options[i].kind == SL_OPTION_CHOICE;
    }
    assert_int_equal(n_choices, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; cases[i].names[k] != NULL; k++) {
            set(*state, cases[i].option, cases[i].names[k]);
            assert_int_equal(*(const int *)(const void *)((const char *)*state + cases[i].offset), cases[i].values[k]);
        }
    }
    set(*state, "resume", NULL);
    assert_int_equal(((const struct sl_settings *)*state)->resume, SL_RESUME_YES);
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
    static const struct step steps[] = {
        {"sampler=full kappa=8", "--kappa: expected --sampler neighbor or labor with 8", NULL},
        {"kappa=0", "--kappa: expected --sampler neighbor or labor with 0", NULL},
        {"sampler=neighbor", NULL, NULL},
        {"edge-weights=probability", "--kappa 0 cannot be used with --edge-weights probability", NULL},
        {"edge-weights=none replace", "--kappa 0 cannot be used with --replace", NULL},
        {"replace=no sampler=labor layer-dependency", NULL, NULL},
        {"kappa=1 sampler=full", "--layer-dependency", "labor"},
        {0},
    };
    take(*state, steps);
}

TEST_WITH(the_group_size_divides_the_pes, set_up, tear_down)
{
    struct sl_settings *s = *state;
    static const struct step steps[] = {
        {"group-size=3", NULL, NULL}, /* the number of PEs is not known yet */
        {"pes=4", "--group-size: found 3", "--pes, which is 4"},
        {"group-size=8", "--group-size: found 8", "4"},
        {0},
    };
    take(s, steps);
    s->group_size = 0;
    assert_int_equal(sl_settings_check(s), SL_OK);
    assert_int_equal(s->group_size, 4);
}

TEST_WITH(gossip_is_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    static const struct step before[] = {
        {"gossip-ring", "--gossip-ring: expected --sync dissemination", "cube"},
        {"gossip-local-size=2", "--gossip-local-size: expected --sync dissemination or cube with 2", NULL},
        {"gossip-average-every=10", "--gossip-average-every: expected", "--sync"},
        {"sync=cube", NULL, NULL}, /* the number of PEs is not known yet */
        {"pes=6", "--sync: found cube with 3 nodes", "even number; use dissemination"},
        {0},
    };
    static const struct step after[] = {
        {"gossip-local-size=4", "--gossip-local-size: found 4", "a divisor of the replicas, which are 6"},
        {"gossip-local-size=3", NULL, NULL},
        {"gossip-local-size=2 sync=dissemination", NULL, NULL},
        {"group-size=6", "--gossip-local-size: found 2", "which are 1"},
        {"gossip-local-size=1 sync=cube", NULL, NULL}, /* one node */
        {0},
    };
    take(s, before);
    assert_int_equal(s->group_size, 1);
    take(s, after);
}

TEST_WITH(models_are_checked, set_up, tear_down)
{
    static const struct step steps[] = {
        {"output-layers=2", NULL, NULL},
        {"model=resgcn", "--output-layers 2 cannot be used with --model resgcn", "already ends"},
        {"model=gcnii", "--output-layers 2 cannot be used with --model gcnii", "already ends"},
        {"model=sage output-layers=253", "--output-layers: found 253, expected fewer than 256 together with --layers",
         "3"},
        {"output-layers=252", NULL, NULL},
        {"output-layers=0", NULL, NULL},
        {"heads=4", "--heads", "--model gat"},
        {"model=gat", NULL, NULL},
        {"heads=7", "--heads: found 7", "a divisor of --hidden, which is 256"},
        {"heads=8 alpha=0.3", "--alpha", "--model gcnii"},
        {"alpha=0.1 lambda=1", "--lambda", "--model gcnii"},
        {"model=gcnii", NULL, NULL},
        {"residual", "--residual", "--model gcnii"},
        {"lambda=0.5 model=resgcn", "--residual", "--model resgcn"},
        {"residual=no norm=batch", "--norm", "--model resgcn"},
        {"norm=none", NULL, NULL},
        {0},
    };
    take(*state, steps);
}

TEST_WITH(outputs_are_checked, set_up, tear_down)
{
    struct sl_settings *s = *state;
    static const struct step steps[] = {
        {"resume", "--resume", "--checkpoint"},
        {"checkpoint=folder", NULL, NULL},
        {"load=file", "--resume", "--load"},
        {"resume=auto", NULL, NULL},
        {"metrics-steps", "--metrics-steps", "--json"},
        {"metrics=same embed=same", "--embed: found 'same'", "--metrics"},
        {"embed=other", NULL, NULL},
        {"patience=3 eval-every=0", "--patience", "--eval-every 0"},
        {"eval-every=1 save-names=pyg", NULL,
         NULL}, /* a program asks for weights by these names, a command line for a file */
        {0},
    };
    char *argv[] = {"coop_sage", NULL};
    bool run;
    take(s, steps);
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
    OWNED(sl_settings_delete_it) struct sl_settings *pipe;
    static const struct step narrow[] = {
        {"precision=bf16", NULL, NULL}, {"gpus=2", NULL, NULL}, {"gpus=0", NULL, NULL}, {0}};
    static const struct step wide[] = {{"precision=tf32", "--precision tf32", "--gpus 0"},
                                       {"gpus=2", NULL, NULL},
                                       {"precision=float", NULL, NULL},
                                       {0}};
    static const struct step of_pipes[] = {{"precision=tf32 gpus=0", "--precision tf32", "--gpus 0"},
                                           {"precision=bf16 gpus=2", NULL, NULL},
                                           {"precision=tf32", NULL, NULL},
                                           {0}};
    take(s, narrow);
    assert_true(sl_settings_row_dtype(s) == SL_DTYPE_BF16);
    for (int model = SL_MODEL_SAGE; model <= SL_MODEL_RESGCN; model++) {
        s->model = model;
        assert_int_equal(sl_settings_check(s), SL_OK);
    }
    take(s, wide);
    assert_true(sl_settings_row_dtype(s) == SL_DTYPE_REAL);
    assert_int_equal(sl_settings_new_pipe(&pipe), SL_OK);
    take(pipe, of_pipes);
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
