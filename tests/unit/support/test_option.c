/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/option.h: reading, refusing and printing options. */
#include "support/option.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "tests/support/test.h"

struct fields {
    uint32_t guard_before;
    bool flag;
    bool on;
    uint32_t small;
    uint32_t guard_middle;
    uint64_t large;
    double real;
    double share;
    char *text;
    char *file;
    int choice;
    int again;
    uint32_t list[3];
    uint32_t guard_list;
    uint32_t n_list;
};

#define FIELD(name) offsetof(struct fields, name)
#define OPTION(kind_, name_, field, ...)                                                                               \
    {                                                                                                                  \
        .name = name_, .kind = SL_OPTION_##kind_, .offset = FIELD(field), __VA_ARGS__                                  \
    }

static const struct sl_option options[] = {
    OPTION(FLAG, "flag", flag, .group = "first", .help = "A flag"),
    OPTION(FLAG, "on", on, .group = "first", .initial = "yes", .help = "Another"),
    OPTION(U32, "batch-size", small, .group = "first", .initial = "7", .min = 1, .max = 1000, .argument = "N",
           .unit = "seeds", .help = "A number"),
    OPTION(U64, "large", large, .group = "first", .initial = "1", .argument = "N", .unit = "things",
           .help = "A large number"),
    OPTION(REAL, "real", real, .group = "second", .initial = "0.003", .argument = "X", .help = "A real"),
    OPTION(REAL, "share", share, .group = "second", .initial = "0", .max = 1, .below = true, .argument = "X",
           .help = "A share"),
    OPTION(STRING, "text", text, .group = "second", .initial = "hello", .argument = "NAME", .help = "A text"),
    OPTION(STRING, "file", file, .group = "second", .shown = "'found' by\\itself", .argument = "FILE",
           .help = ".begins with a dot"),
    OPTION(CHOICE, "choice", choice, .group = "second", .choices = "none,layer,batch", .initial = "layer",
           .help = "A choice"),
    OPTION(CHOICE, "again", again, .group = "second", .choices = "no,yes,auto", .bare = "yes", .argument = "auto",
           .help = "A choice that may stand alone"),
    OPTION(U32_LIST, "list", list, .group = "second", .offset_n = FIELD(n_list), .capacity = 3, .min = 1, .max = 99,
           .argument = "N,N", .help = "A list"),
};

static const struct sl_option_note examples[] = {{"tester --batch-size 3 in", "Test a little."}};
static const struct sl_option_note files[] = {{"~/.tester", "Settings."}};

static const struct sl_option_table table = {
    .program = "tester",
    .summary = "test options",
    .arguments = "IN [OUT]",
    .max_arguments = 2,
    .env_prefix = "SLTEST_",
    .examples = examples,
    .n_examples = 1,
    .files = files,
    .n_files = 1,
    .see_also = "multi(1)",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

static const struct sl_option_table commands[] = {
    {.program = "multi",
     .command = "convert",
     .summary = "convert things",
     .arguments = "DIR",
     .min_arguments = 1,
     .max_arguments = 1,
     .options = options,
     .n_options = 3},
    {.program = "multi", .command = "info", .summary = "show things"},
};

static const struct sl_option_table overview = {
    .program = "multi", .summary = "do several things", .commands = commands, .n_commands = 2};

static int set_up(void **state)
{
    static struct fields fields;
    memset(&fields, 0xa5, sizeof fields);
    *state = &fields;
    return sl_option_defaults(&table, &fields);
}

static int tear_down(void **state)
{
    sl_option_free(&table, *state);
    unsetenv("SLTEST_BATCH_SIZE");
    unsetenv("SLTEST_AGAIN");
    unsetenv("SLTEST_FLAG");
    unsetenv("SLTEST_LARGE");
    return sl_memory_live() == 0 ? 0 : -1;
}

/* Parse a command line of up to 15 words, the last one NULL. */
static enum sl_status parse(struct fields *f, struct sl_option_parse *out, const char *const *words, char **argv_out)
{
    static char buffer[16][256];
    static char *argv[17];
    int argc = 1;
    argv[0] = buffer[0];
    strcpy(buffer[0], "tester");
    for (; words[argc - 1] != NULL; argc++) {
        strcpy(buffer[argc], words[argc - 1]);
        argv[argc] = buffer[argc];
    }
    argv[argc] = NULL;
    enum sl_status st = sl_option_parse(&table, argc, argv, f, out);
    if (st == SL_OK) {
        static enum sl_option_source kept[sizeof options / sizeof *options];
        memcpy(kept, out->sources, sizeof kept);
        sl_free(out->sources);
        out->sources = kept;
    }
    for (int i = 0; argv_out != NULL && i < argc; i++) {
        argv_out[i] = argv[i];
    }
    return st;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Expect a command line to be refused with a message that holds all the given words. */
static void refused(struct fields *f, const char *const *words, const char *const *expected)
{
    struct sl_option_parse p;
    struct fields before = *f;
    assert_int_equal(parse(f, &p, words, NULL), SL_EINVAL);
    for (; *expected != NULL; expected++) {
        if (strstr(sl_message(), *expected) == NULL) {
            fail_msg("message '%s' lacks '%s'", sl_message(), *expected);
        }
    }
    assert_null(strchr(sl_message(), '\n'));
    assert_memory_equal(&before, f, sizeof before);
}

TEST_WITH(defaults_are_read, set_up, tear_down)
{
    struct fields *f = *state;
    assert_false(f->flag);
    assert_true(f->on);
    assert_int_equal(f->small, 7);
    assert_int_equal(f->large, 1);
    assert_true(f->real == 0.003);
    assert_string_equal(f->text, "hello");
    assert_null(f->file);
    assert_int_equal(f->choice, 1);
    assert_int_equal(f->again, 0);
    assert_int_equal(f->n_list, 0);
    assert_int_equal(f->guard_before, 0xa5a5a5a5);
    assert_int_equal(f->guard_middle, 0xa5a5a5a5);
}

TEST_WITH(every_kind_is_set, set_up, tear_down)
{
    struct fields *f = *state;
    struct sl_option_parse p;
    assert_int_equal(
        parse(f, &p,
              WORDS("--flag", "--no-on", "--batch-size", "1000", "--large=18446744073709551615", "--real", "1e-3",
                    "--share", "0.999", "--text=a=b", "--file", "-", "--choice", "batch", "--list=1,99,3"),
              NULL),
        SL_OK);
    assert_int_equal(p.action, SL_OPTION_RUN);
    assert_true(f->flag);
    assert_false(f->on);
    assert_int_equal(f->small, 1000);
    assert_true(f->large == UINT64_MAX);
    assert_true(f->real == 1e-3);
    assert_true(f->share == 0.999);
    assert_string_equal(f->text, "a=b");
    assert_string_equal(f->file, "-");
    assert_int_equal(f->choice, 2);
    assert_int_equal(f->n_list, 3);
    assert_int_equal(f->list[0], 1);
    assert_int_equal(f->list[1], 99);
    assert_int_equal(f->list[2], 3);
    assert_int_equal(f->guard_list, 0xa5a5a5a5);
    assert_int_equal(f->guard_middle, 0xa5a5a5a5);
}

TEST_WITH(the_last_one_counts, set_up, tear_down)
{
    struct fields *f = *state;
    struct sl_option_parse p;
    assert_int_equal(
        parse(f, &p, WORDS("--text", "one", "--text", "two", "--flag", "--flag=no", "--list=5,6", "--list=4"), NULL),
        SL_OK);
    assert_string_equal(f->text, "two");
    assert_false(f->flag);
    assert_int_equal(f->n_list, 1);
    assert_int_equal(parse(f, &p, WORDS("--text="), NULL), SL_OK);
    assert_null(f->text);
}

TEST_WITH(a_choice_may_stand_alone, set_up, tear_down)
{
    struct fields *f = *state;
    struct sl_option_parse p;
    char *argv[17];
    assert_int_equal(parse(f, &p, WORDS("--again", "auto"), argv), SL_OK);
    assert_int_equal(f->again, 1); /* `auto` is an argument then */
    assert_int_equal(p.n_arguments, 1);
    assert_string_equal(argv[1], "auto");
    assert_int_equal(parse(f, &p, WORDS("--again=auto"), NULL), SL_OK);
    assert_int_equal(f->again, 2);
    refused(f, WORDS("--again=maybe"), WORDS("--again", "maybe", "no, yes, auto"));
}

TEST_WITH(arguments_are_handed_back, set_up, tear_down)
{
    struct sl_option_parse p;
    char *argv[17];
    assert_int_equal(parse(*state, &p, WORDS("in", "--flag", "--", "--text"), argv), SL_OK);
    assert_int_equal(p.n_arguments, 2);
    assert_string_equal(argv[1], "in");
    assert_string_equal(argv[2], "--text");
    refused(*state, WORDS("a", "b", "c"), WORDS("'c'", "IN [OUT]"));
}

TEST_WITH(too_few_arguments_are_refused, set_up, tear_down)
{
    struct fields f;
    struct sl_option_parse p;
    char *argv[] = {"convert", NULL};
    assert_int_equal(sl_option_defaults(&commands[0], &f), SL_OK);
    assert_int_equal(sl_option_parse(&commands[0], 1, argv, &f, &p), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "convert: found 0 arguments, expected DIR"));
    char *argv1[] = {"info", "x", NULL};
    assert_int_equal(sl_option_parse(&commands[1], 2, argv1, &f, &p), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "'x'"));
}

TEST_WITH(bad_numbers_are_refused, set_up, tear_down)
{
    static const char *const whole[] = {"",
                                        "0",
                                        "1001",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1x",
                                        "0x10",
                                        "1e2",
                                        "1.0",
                                        "4294967297",
                                        "18446744073709551617",
                                        "18446744073709551620",
                                        "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char word[64];
        snprintf(word, sizeof word, "--batch-size=%s", whole[i]);
        refused(*state, WORDS(word), WORDS("--batch-size", whole[i], "a whole number from 1 to 1000"));
    }
    refused(*state, WORDS("--large=18446744073709551616"), WORDS("from 0 to 18446744073709551615"));
    static const char *const real[] = {"",      "nan", "inf", "-inf", "1e999", "0x1p3",
                                       "1.0.0", "--1", "1,5", " 1",   "e",     "-1e-9"};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        char word[64];
        snprintf(word, sizeof word, "--real=%s", real[i]);
        refused(*state, WORDS(word), WORDS("--real", real[i], "a number of at least 0"));
    }
    refused(*state, WORDS("--share", "1"), WORDS("--share", "from 0 to below 1"));
    refused(*state, WORDS("--share", "-0.1"), WORDS("--share", "from 0 to below 1"));
}

TEST_WITH(bad_lists_choices_and_flags_are_refused, set_up, tear_down)
{
    static const char *const lists[] = {"", ",", "1,", ",1", "1,,2", "1 2", "0", "100", "1,2,3,4", "a", "1,b"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char word[64];
        snprintf(word, sizeof word, "--list=%s", lists[i]);
        refused(*state, WORDS(word), WORDS("--list", lists[i], "1 to 3 whole numbers from 1 to 99"));
    }
    static const char *const choices[] = {"", "lay", "layers", "none,layer", "LAYERS", ","};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char word[64];
        snprintf(word, sizeof word, "--choice=%s", choices[i]);
        refused(*state, WORDS(word), WORDS("--choice", "one of none, layer, batch"));
    }
    refused(*state, WORDS("--flag=perhaps"), WORDS("--flag", "yes or no"));
    refused(*state, WORDS("--no-flag=yes"), WORDS("--no-flag", "expected none"));
}

TEST_WITH(a_missing_value_is_refused, set_up, tear_down)
{
    refused(*state, WORDS("--batch-size"), WORDS("--batch-size", "no value", "a whole number from 1 to 1000"));
    refused(*state, WORDS("--file", "--flag"), WORDS("--file", "no value", "FILE"));
}

TEST_WITH(an_unknown_name_gets_the_nearest, set_up, tear_down)
{
    refused(*state, WORDS("--batchsize", "3"), WORDS("--batchsize", "mean --batch-size?"));
    refused(*state, WORDS("--batch_size=3"), WORDS("--batch_size", "mean --batch-size?"));
    refused(*state, WORDS("--cohice", "none"), WORDS("mean --choice?"));
    refused(*state, WORDS("--bat", "none"), WORDS("mean --batch-size?"));
    refused(*state, WORDS("--zzzzzzzz"), WORDS("--zzzzzzzz", "--help"));
    refused(*state, WORDS("--no-text"), WORDS("--no-text")); /* only flags have a --no- */
    refused(*state, WORDS("-x"), WORDS("-x", "--help"));
    char name[201] = "--";
    memset(name + 2, 'q', 198);
    refused(*state, WORDS(name), WORDS("--qqqq"));
    assert_null(strstr(sl_message(), "mean"));
}

/* ---- Properties ---- */

static const struct sl_option habits[] = {
    OPTION(U32, "batch-size", small, .group = "first", .programs = 1, .initial = "7", .max = 1000, .common = true,
           .needs = "choice=layer,batch", .help = "A number of seeds, told at length", .brief = "A number"),
    OPTION(U64, "large", large, .group = "first", .programs = 2, .help = "A large number"),
    OPTION(STRING, "file", file, .group = "second", .argument = "FILE", .help = "A file"),
    OPTION(FLAG, "flag", flag, .group = "second", .leads = true, .needs = "file", .help = "A flag"),
    OPTION(CHOICE, "choice", choice, .group = "second", .choices = "none,layer,batch",
           .synonyms = "off=none,ln=layer,batchnorm=batch", .help = "A choice"),
    OPTION(U32_LIST, "list", list, .group = "second", .offset_n = FIELD(n_list), .capacity = 3, .min = 1, .word = "-1",
           .help = "A list"),
};
#define N_HABITS (sizeof habits / sizeof *habits)

static const struct sl_option_alias aliases[] = {
    {"batch-size", "bs,seeds"}, {"large", "big"}, {"there is no device", "device,gpu"}};
static struct sl_option habits_of[2][N_HABITS];
static struct sl_option_table programs[2];

static void open_programs(void)
{
    for (unsigned p = 0; p < 2; p++) {
        programs[p] = (struct sl_option_table){.program = p == 0 ? "one" : "two",
                                               .summary = "test habits",
                                               .aliases = aliases,
                                               .n_aliases = 3,
                                               .sibling = &programs[!p],
                                               .examples = examples,
                                               .n_examples = 1,
                                               .options = habits_of[p]};
        programs[p].n_options = sl_option_select(habits, N_HABITS, 1U << p, habits_of[p]);
    }
}

TEST_WITH(programs_have_options_of_their_own, set_up, tear_down)
{
    open_programs();
    assert_int_equal(programs[0].n_options, N_HABITS - 1);
    assert_int_equal(programs[1].n_options, N_HABITS - 1);
    assert_null(sl_option_find(&programs[0], "large"));
    assert_null(sl_option_find(&programs[1], "batch-size"));
    assert_string_equal(sl_option_in_order(&programs[0], 0)->name, "flag"); /* it leads */
    assert_string_equal(sl_option_in_order(&programs[0], 1)->name, "batch-size");
    assert_string_equal(sl_option_in_order(&programs[0], 4)->name, "list");
    assert_null(sl_option_in_order(&programs[0], 5));
}

TEST_WITH(other_programs_names_are_answered, set_up, tear_down)
{
    static const char *const cases[][2] = {
        {"bs", "--bs: one has no such option; did you mean --batch-size?"},
        {"BATCH_SIZE", "--BATCH_SIZE: one has no such option; did you mean --batch-size?"},
        {"Train_Batch_Size", "--Train_Batch_Size: one has no such option; did you mean --batch-size?"},
        {"num-seeds", "--num-seeds: one has no such option; did you mean --batch-size?"},
        {"file-name", "--file-name: one has no such option; did you mean --file?"},
        {"gpu", "--gpu: one has no such option; there is no device"},
        {"devise", "--devise: one has no such option; there is no device"},
        {"large", "--large: one has no such option; two has --large"},
        {"big", "--big: one has no such option; two has --large"},
        {"batch-siz", "--batch-siz: one has no such option; did you mean --batch-size?"},
        {"qqqq", "--qqqq: one has no such option; one --help-all lists its options"}};
    open_programs();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sl_option_set(&programs[0], cases[i][0], "1", *state), SL_EINVAL);
        assert_string_equal(sl_message(), cases[i][1]);
    }
}

TEST_WITH(choices_have_synonyms, set_up, tear_down)
{
    static const char *const cases[][2] = {{"LAYER", "layer"}, {"ln", "layer"},    {"Batchnorm", "batch"},
                                           {"OFF", "none"},    {"Batch", "batch"}, {"none", "none"}};
    struct fields *f = *state;
    open_programs();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWNED(sl_free_it) char *text;
        assert_int_equal(sl_option_set(&programs[0], "choice", cases[i][0], f), SL_OK);
        assert_int_equal(sl_option_get(&programs[0], "choice", f, &text), SL_OK);
        assert_string_equal(text, cases[i][1]);
    }
    assert_int_equal(sl_option_set(&programs[0], "choice", "batchnor", f), SL_EINVAL);
    assert_int_equal(sl_option_set(&programs[0], "choice", "ln=layer", f), SL_EINVAL);
    f->choice = 0;
}

TEST_WITH(lists_have_words, set_up, tear_down)
{
    struct fields f = {0};
    OWNED(sl_free_it) char *text;
    open_programs();
    assert_int_equal(sl_option_set(&programs[0], "list", "5,-1,7", &f), SL_OK);
    assert_true(f.n_list == 3 && f.list[0] == 5 && f.list[1] == UINT32_MAX && f.list[2] == 7);
    assert_int_equal(sl_option_check(&programs[0], &f), SL_OK);
    assert_int_equal(sl_option_get(&programs[0], "list", &f, &text), SL_OK);
    assert_string_equal(text, "5,-1,7");
    assert_int_equal(sl_option_set(&programs[0], "list", "-2", &f), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "or -1"));
    assert_int_equal(sl_option_set(&programs[0], "list", "-11", &f), SL_EINVAL);
    assert_int_equal(sl_option_set(&programs[0], "list", "-1,", &f), SL_EINVAL);
}

TEST_WITH(options_need_others, set_up, tear_down)
{
    struct fields f;
    bool same;
    open_programs();
    assert_int_equal(sl_option_defaults(&programs[0], &f), SL_OK);
    assert_int_equal(sl_option_check_needs(&programs[0], &f), SL_OK);
    f.small = 8;
    assert_int_equal(sl_option_is_default(&programs[0].options[0], &f, &same), SL_OK);
    assert_false(same);
    assert_int_equal(sl_option_check_needs(&programs[0], &f), SL_EINVAL);
    assert_string_equal(sl_message(), "--batch-size: expected --choice layer or batch with 8");
    f.choice = 2;
    assert_int_equal(sl_option_check_needs(&programs[0], &f), SL_OK);
    f.flag = true;
    assert_int_equal(sl_option_check_needs(&programs[0], &f), SL_EINVAL);
    assert_string_equal(sl_message(), "--flag: expected --file FILE with it");
    assert_int_equal(sl_option_set(&programs[0], "file", "there", &f), SL_OK);
    assert_int_equal(sl_option_check_needs(&programs[0], &f), SL_OK);
    sl_option_free(&programs[0], &f);
}

TEST_WITH(actions_come_first, set_up, tear_down)
{
    static const struct {
        const char *word;
        enum sl_option_action action;
    } cases[] = {{"-h", SL_OPTION_HELP},         {"--help-all", SL_OPTION_HELP_ALL},
                 {"--help", SL_OPTION_HELP},     {"--version", SL_OPTION_VERSION},
                 {"--print-man", SL_OPTION_MAN}, {"--print-completion", SL_OPTION_COMPLETION}};
    struct sl_option_parse p;
    setenv("SLTEST_BATCH_SIZE", "nonsense", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(*state, &p, WORDS("--flag", cases[i].word, "--nonsense"), NULL), SL_OK);
        assert_int_equal(p.action, cases[i].action);
    }
}

TEST_WITH(the_command_line_beats_the_environment, set_up, tear_down)
{
    struct fields *f = *state;
    struct sl_option_parse p;
    setenv("SLTEST_BATCH_SIZE", "30", 1);
    setenv("SLTEST_AGAIN", "1", 1);
    setenv("SLTEST_FLAG", "true", 1);
    setenv("SLTEST_LARGE", "", 1);
    assert_int_equal(parse(f, &p, WORDS("--no-flag"), NULL), SL_OK);
    assert_int_equal(f->small, 30);
    assert_int_equal(f->again, 1);
    assert_false(f->flag);
    assert_int_equal(f->large, 1);
    assert_int_equal(p.sources[0], SL_FROM_COMMAND_LINE);
    assert_int_equal(p.sources[1], SL_FROM_DEFAULT);
    assert_int_equal(p.sources[2], SL_FROM_ENVIRONMENT);
    assert_int_equal(p.sources[3], SL_FROM_DEFAULT);
    setenv("SLTEST_BATCH_SIZE", "30k", 1);
    assert_int_equal(parse(f, &p, WORDS("--batch-size=4"), NULL),
                     SL_OK); /* a bad one that is overruled does not matter */
    assert_int_equal(parse(f, &p, WORDS("--flag"), NULL), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "SLTEST_BATCH_SIZE: found '30k', expected a whole number from 1 to 1000"));
}

TEST_WITH(values_read_back_from_their_text, set_up, tear_down)
{
    struct fields *f = *state;
    struct fields second;
    struct sl_option_parse p;
    assert_int_equal(sl_option_defaults(&table, &second), SL_OK);
    assert_int_equal(parse(f, &p,
                           WORDS("--flag", "--no-on", "--batch-size=3", "--large=18446744073709551615",
                                 "--real=0.1000000000000000055", "--share=0.30000000000000004", "--text=x y",
                                 "--choice=batch", "--again=auto", "--list=9,8"),
                           NULL),
                     SL_OK);
    for (size_t i = 0; i < table.n_options; i++) {
        OWNED(sl_free_it) char *text;
        assert_int_equal(sl_option_text(&options[i], f, &text), SL_OK);
        assert_int_equal(sl_option_set(&table, options[i].name, text, &second), SL_OK);
    }
    assert_true(second.flag && !second.on && second.small == 3 && second.large == UINT64_MAX);
    assert_true(second.real == f->real && second.share == f->share && second.choice == 2 && second.again == 2);
    assert_true(second.n_list == 2 && second.list[0] == 9 && second.list[1] == 8);
    assert_string_equal(second.text, "x y");
    OWNED(sl_free_it) char *text;
    assert_int_equal(sl_option_text(sl_option_find(&table, "real"), f, &text), SL_OK);
    assert_string_equal(text, "0.1"); /* the shortest form */
    sl_option_free(&table, &second);
}

TEST_WITH(one_option_can_be_set, set_up, tear_down)
{
    struct fields *f = *state;
    assert_int_equal(sl_option_set(&table, "flag", NULL, f), SL_OK);
    assert_true(f->flag);
    assert_int_equal(sl_option_set(&table, "again", NULL, f), SL_OK);
    assert_int_equal(f->again, 1);
    assert_int_equal(sl_option_set(&table, "large", NULL, f), SL_EINVAL);
    assert_int_equal(sl_option_set(&table, "larg", "1", f), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "--large"));
}

/* A word beside the numbers: read, written back, and named where something else was typed. */
TEST_WITH(a_number_may_be_a_word, set_up, tear_down)
{
    const struct sl_option counted[] = {{.name = "n",
                                         .kind = SL_OPTION_U32,
                                         .offset = FIELD(small),
                                         .initial = "all",
                                         .word = "all",
                                         .max = 8,
                                         .help = ""}};
    const struct sl_option_table t = {.program = "t", .summary = "", .options = counted, .n_options = 1};
    struct fields f;
    OWNED(sl_free_it) char *text;
    assert_int_equal(sl_option_defaults(&t, &f), SL_OK);
    assert_true(f.small == UINT32_MAX);
    assert_int_equal(sl_option_text(&counted[0], &f, &text), SL_OK);
    assert_string_equal(text, "all");
    sl_free(text);
    assert_int_equal(sl_option_set(&t, "n", "8", &f), SL_OK);
    assert_int_equal(f.small, 8);
    assert_int_equal(sl_option_text(&counted[0], &f, &text), SL_OK);
    assert_string_equal(text, "8");
    const char *bad[] = {"9", "4294967295", "al", "alll", "ALL", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sl_option_set(&t, "n", bad[i], &f), SL_EINVAL);
        assert_non_null(strstr(sl_message(), "all or a whole number from 0 to 8"));
        assert_int_equal(f.small, 8);
    }
    assert_int_equal(sl_option_set(&table, "batch-size", "all", *state), SL_EINVAL);
    assert_null(strstr(sl_message(), "all or"));
}

/* Expect the check to refuse what the fields hold, with this message, and fill them with the defaults again. */
static void value_refused(struct fields *f, const char *message)
{
    assert_int_equal(sl_option_check(&table, f), SL_EINVAL);
    assert_string_equal(sl_message(), message);
    sl_option_free(&table, f);
    assert_int_equal(sl_option_defaults(&table, f), SL_OK);
    assert_int_equal(sl_option_check(&table, f), SL_OK);
}

/* Fields that a program has filled are held to the ranges of the command line, and refused in the same words. */
TEST_WITH(filled_fields_are_checked, set_up, tear_down)
{
    struct fields *f = *state;
    assert_int_equal(sl_option_check(&table, f), SL_OK);
    f->small = 0; /* not its default */
    value_refused(f, "--batch-size: found '0', expected a whole number from 1 to 1000");
    f->small = 1001;
    value_refused(f, "--batch-size: found '1001', expected a whole number from 1 to 1000");
    f->real = -1;
    value_refused(f, "--real: found '-1', expected a number of at least 0");
    f->real = INFINITY;
    value_refused(f, "--real: found 'inf', expected a number of at least 0");
    f->share = 1;
    value_refused(f, "--share: found '1', expected a number from 0 to below 1");
    f->share = NAN;
    assert_int_equal(sl_option_check(&table, f), SL_EINVAL);
    f->share = 0;
    f->choice = 3;
    value_refused(f, "--choice: found '3', expected one of none, layer, batch");
    f->choice = -1;
    value_refused(f, "--choice: found '-1', expected one of none, layer, batch");
    f->n_list = 4;
    value_refused(f, "--list: found '4 numbers', expected 1 to 3 whole numbers from 1 to 99, separated by commas");
    f->n_list = 2;
    f->list[0] = 99;
    f->list[1] = 100;
    value_refused(f, "--list: found '99,100', expected 1 to 3 whole numbers from 1 to 99, separated by commas");
    f->n_list = 1;
    f->list[0] = 0;
    value_refused(f, "--list: found '0', expected 1 to 3 whole numbers from 1 to 99, separated by commas");
}

/* 0 is what an option without a default begins with, and a word's number is out of the range of the others. */
TEST_WITH(open_fields_and_words_are_allowed, set_up, tear_down)
{
    const struct sl_option counted[] = {
        {.name = "n", .kind = SL_OPTION_U32, .offset = FIELD(small), .word = "all", .min = 1, .max = 8, .help = ""}};
    const struct sl_option_table t = {.program = "t", .summary = "", .options = counted, .n_options = 1};
    struct fields *f = *state;
    static const uint32_t good[] = {0, 1, 8, UINT32_MAX};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        f->small = good[i];
        assert_int_equal(sl_option_check(&t, f), SL_OK);
    }
    f->small = 9;
    assert_int_equal(sl_option_check(&t, f), SL_EINVAL);
    assert_string_equal(sl_message(), "--n: found '9', expected all or a whole number from 1 to 8");
}

TEST_WITH(bad_defaults_are_a_status, set_up, tear_down)
{
    const struct sl_option bad[] = {
        {.name = "text", .kind = SL_OPTION_STRING, .offset = FIELD(text), .initial = "x", .help = ""},
        {.name = "n", .kind = SL_OPTION_U32, .offset = FIELD(small), .initial = "0", .min = 1, .help = ""}};
    const struct sl_option_table t = {.program = "t", .summary = "", .options = bad, .n_options = 2};
    struct fields f;
    long live = sl_memory_live();
    assert_int_equal(sl_option_defaults(&t, &f), SL_EINVAL);
    assert_null(f.text);
    assert_int_equal(sl_memory_live(), live);
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

/* What an action prints, in a buffer that the next call overwrites. */
static const char *printed(const struct sl_option_table *t, enum sl_option_action action)
{
    static char buffer[16384];
    FILE *stream = fmemopen(buffer, sizeof buffer, "w");
    assert_non_null(stream);
    assert_int_equal(sl_option_print(t, action, "1.2.3", stream), SL_OK);
    fclose(stream);
    return buffer;
}

static void assert_holds(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

TEST_WITH(the_help_lists_all, set_up, tear_down)
{
    const char *help = printed(&table, SL_OPTION_HELP);
    for (size_t i = 0; i < table.n_options; i++) {
        assert_holds(help, options[i].name);
        assert_holds(help, options[i].help);
    }
    assert_holds(help, "Usage: tester [OPTION]... IN [OUT]\nTest options.\n");
    assert_holds(help, "\nFirst:\n");
    assert_holds(help, "\nSecond:\n");
    assert_holds(help, "--batch-size N");
    assert_holds(help, "[7 seeds]");
    assert_holds(help, "A large number [1]"); /* not "1 things" */
    assert_holds(help, "--choice none|layer|batch");
    assert_holds(help, "--again[=auto]");
    assert_holds(help, "--no-on");
    assert_holds(help, "SLTEST_");
    assert_null(strstr(help, "print-man"));
    for (const char *line = help; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 80);
    }
}

TEST_WITH(the_short_help_has_common_options, set_up, tear_down)
{
    open_programs();
    const char *help = printed(&programs[0], SL_OPTION_HELP);
    assert_holds(help, "--batch-size TEXT       A number [7]\n");
    assert_holds(help, "print all 5 options");
    assert_holds(help, "Examples:\n  Test a little.\n      tester --batch-size 3 in\n");
    assert_null(strstr(help, "--choice"));
    assert_null(strstr(help, "Second:"));
    help = printed(&programs[0], SL_OPTION_HELP_ALL);
    assert_holds(help, "--batch-size TEXT       A number of seeds, told at length [7]\n");
    assert_holds(help, "\nSecond:\n");
    assert_holds(help, "--choice");
    help = printed(&programs[1], SL_OPTION_HELP); /* without common options it has all */
    assert_holds(help, "--large");
    assert_holds(help, "--choice");
}

TEST_WITH(the_version_is_one_line, set_up, tear_down)
{
    assert_string_equal(printed(&table, SL_OPTION_VERSION), "tester 1.2.3\n");
}

TEST_WITH(the_man_page_is_safe_roff, set_up, tear_down)
{
    const char *man = printed(&table, SL_OPTION_MAN);
    assert_holds(man, ".TH TESTER 1 \"20");
    assert_holds(man, "\" \"Starling 1.2.3\" \"Starling\"");
    assert_holds(man, ".SH NAME\ntester \\- test options\n");
    assert_holds(man, ".B \\-\\-batch\\-size N\n");
    assert_holds(man, "(default: 7 seeds)");
    assert_holds(man, "\\&.begins with a dot");
    assert_holds(man, "by\\eitself");
    assert_holds(man, "SLTEST_");
    assert_holds(man, ".SH EXIT STATUS");
    assert_holds(man, ".SH FILES\n.TP\n.B ~/.tester\nSettings.\n");
    assert_holds(man, "Test a little.\n.PP\n.RS 4\n.nf\ntester \\-\\-batch\\-size 3 in\n.fi\n.RE\n");
    assert_holds(man, ".SH SEE ALSO\nmulti(1)\n");
    assert_null(strstr(printed(&overview, SL_OPTION_MAN), ".SH EXAMPLES"));
    assert_holds(printed(&overview, SL_OPTION_MAN), ".SH COMMAND CONVERT\n");
}

/* Run bash on the completion of `t` for a command line whose last word is being typed; NULL: there is no bash. */
static const char *completed(const struct sl_option_table *t, const char *line)
{
    static char answer[4096];
    char path[] = "/tmp/starling-completion-XXXXXX";
    char command[512];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *script = fdopen(fd, "w");
    fputs(printed(t, SL_OPTION_COMPLETION), script);
    fprintf(script, "COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _%s\nprintf '%%s ' \"${COMPREPLY[@]}\"\n",
            line, t->program);
    fclose(script);
    snprintf(command, sizeof command, "command -v bash >/dev/null || exit 77; bash %s", path);
    FILE *pipe = popen(command, "r");
    size_t n = fread(answer, 1, sizeof answer - 1, pipe);
    answer[n] = '\0';
    int rc = pclose(pipe);
    remove(path);
    if (rc == 77 << 8) {
        return NULL;
    }
    assert_int_equal(rc, 0);
    return answer;
}

TEST_WITH(the_completion_completes, set_up, tear_down)
{
    const char *answer = completed(&table, "tester --cho");
    if (answer == NULL) {
        skip();
    }
    assert_string_equal(answer, "--choice ");
    assert_string_equal(completed(&table, "tester --choice la"), "layer ");
    assert_string_equal(completed(&table, "tester --choice = ba"), "batch ");
    assert_string_equal(completed(&table, "tester --choice ="), "none layer batch ");
    assert_string_equal(completed(&table, "tester --batch-size 1"), " ");
    assert_non_null(strstr(completed(&table, "tester --file /etc/passw"), "/etc/passwd "));
    assert_string_equal(completed(&overview, "multi c"), "convert ");
    assert_string_equal(completed(&overview, "multi convert --bat"), "--batch-size ");
    assert_string_equal(completed(&overview, "multi info --bat"), " ");
}

TEST_WITH(the_overview_lists_commands, set_up, tear_down)
{
    const char *help = printed(&overview, SL_OPTION_HELP);
    assert_holds(help, "Usage: multi COMMAND [OPTION]...\n");
    assert_holds(help, "  convert                 convert things\n");
    assert_holds(printed(&commands[0], SL_OPTION_HELP), "Usage: multi convert [OPTION]... DIR\n");
}

TEST_WITH(values_are_printed_with_their_source, set_up, tear_down)
{
    char buffer[2048];
    struct sl_option_parse p;
    assert_int_equal(parse(*state, &p, WORDS("--batch-size=12"), NULL), SL_OK);
    FILE *stream = fmemopen(buffer, sizeof buffer, "w");
    assert_int_equal(sl_option_print_values(&table, *state, p.sources, stream), SL_OK);
    fclose(stream);
    assert_holds(buffer, "batch-size 12 (command line)\n");
    assert_holds(buffer, "choice layer (default)\n");
    assert_holds(buffer, "file - (default)\n");
}

TEST_WITH(a_full_disk_is_a_status, set_up, tear_down)
{
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) {
        skip();
    }
    assert_int_equal(sl_option_print(&table, SL_OPTION_HELP, "1", full), SL_EIO);
    fclose(full);
}

TEST_WITH(memory_may_run_out, set_up, tear_down)
{
    enum sl_status st = SL_ENOMEM;
    struct fields f;
    struct sl_option_parse p;
    long live = sl_memory_live();
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = sl_option_defaults(&table, &f);
        if (st == SL_OK) {
            st = parse(&f, &p, WORDS("--text=longer", "--file=x"), NULL);
            sl_option_free(&table, &f);
        }
        sl_memory_ration(-1);
        assert_int_equal(sl_memory_live(), live);
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_true(allow < 10);
    }
}

TEST_MAIN(NULL, NULL)
