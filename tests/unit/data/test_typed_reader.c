/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of typed datasets (data/readers/typed.c): ids, relations, columns of features, and the binary copy.
 * tests/cli/test_typed_runs.sh has the messages. */
#include "tests/support/npy_fixture.h"

#include "data/load.h"
#include "tests/support/floats.h"

/* Two items with features of width 2, three users without, one shop with a feature; relations user-buys-item and
 * shop-sells-item. Items have classes. */
static const char *const files[][2] = {{"raw/num-node-dict.csv", "item,user,shop\n2,3,1\n"},
                                       {"raw/triplet-type-list.csv", "user,buys,item\nshop,sells,item\n"},
                                       {"raw/relations/user___buys___item/edge.csv", "2,0\n0,0\n1,1\n"},
                                       {"raw/relations/shop___sells___item/edge.csv", "0,1\n0,0\n"},
                                       {"raw/node-feat/item/node-feat.csv", "0.5,0\n2,3\n"},
                                       {"raw/node-feat/shop/node-feat.csv", "7\n"},
                                       {"raw/node-label/item/node-label.csv", "1\n0\n"},
                                       {"split/any/item/train.csv", "1\n"},
                                       {"split/any/item/valid.csv", "0\n"},
                                       {"split/any/item/test.csv", ""}};

static int put_all(void **state)
{
    if (make_folder(state) != 0) {
        return 1;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[160];
        snprintf(name, sizeof name, "small/%s", files[i][0]);
        put_text(name, files[i][1]);
    }
    return 0;
}

static struct sl_dataset_options options_of(const char *cache)
{
    return (struct sl_dataset_options){.dataset = in_folder("small"), .cache = cache};
}

/* Items are 0 and 1, users 2 to 4, the shop 5. Relations: buys 0, sells 1, their reverses 2 and 3. */
static void expect_graph(const struct sl_graph *graph)
{
    const uint64_t offsets[] = {0, 3, 5, 6, 7, 8, 10};
    const sl_vertex sources[] = {2, 4, 5, 3, 5, 0, 1, 0, 0, 1};
    const uint16_t relations[] = {0, 0, 1, 0, 1, 2, 2, 2, 3, 3};
    assert_int_equal(graph->n_vertices, 6);
    assert_int_equal(graph->n_edges, 10);
    assert_int_equal(graph->n_relations, 4);
    assert_memory_equal(graph->offsets, offsets, sizeof offsets);
    assert_memory_equal(graph->sources, sources, sizeof sources);
    assert_memory_equal(graph->relations, relations, sizeof relations);
}

/* Columns: two of the items, one for each user, one of the shop. The table is dense, as a fifth of it is not zero. */
static void expect_features(const struct sl_features *features)
{
    const float wanted[6][6] = {{0.5f, 0, 0, 0, 0, 0}, {2, 3, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0},
                                {0, 0, 0, 1, 0, 0},    {0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 7}};
    assert_int_equal(features->n_rows, 6);
    assert_int_equal(features->n_columns, 6);
    assert_non_null(floats_of(features));
    assert_memory_equal(floats_of(features), wanted, sizeof wanted);
}

static void expect_dataset(const struct sl_dataset *d)
{
    const int32_t classes[] = {1, 0, -1, -1, -1, -1};
    expect_graph(&d->graph);
    expect_features(&d->features);
    assert_memory_equal(d->targets.classes, classes, sizeof classes);
    assert_int_equal(d->train.n, 1);
    assert_int_equal(d->train.ids[0], 1);
    assert_int_equal(d->valid.ids[0], 0);
    assert_int_equal(d->test.n, 0);
}

static int remove_all(void **state)
{
    return remove_folder(state) != 0 || sl_memory_live() != 0;
}

TEST_WITH(reads, put_all, remove_all)
{
    struct sl_dataset_options options = options_of("none");
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_ok(sl_dataset_load(&options, &d));
    expect_dataset(&d);
    sl_dataset_free(&d);
    options.directed = true;
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_relations, 2);
    assert_int_equal(d.graph.n_edges, 5);
}

/* The second load maps the copy of the first. */
TEST_WITH(copies, put_all, remove_all)
{
    const struct sl_dataset_options options = options_of(in_folder("copies"));
    for (int i = 0; i < 2; i++) {
        OWNED(sl_dataset_free) struct sl_dataset d;
        assert_ok(sl_dataset_load(&options, &d));
        assert_true((d.mapping != NULL) == (i == 1));
        expect_dataset(&d);
    }
}

/* Small tables may end in blank lines, and have blanks around cells. */
TEST_WITH(reads_blanks, put_all, remove_all)
{
    struct sl_dataset d;
    put_text("small/raw/num-node-dict.csv", " item, user ,shop\r\n2 , 3.0,1\r\n\r\n \n");
    put_text("small/raw/triplet-type-list.csv", "user, buys,item\n shop,sells,item \n\n\n");
    put_text("small/raw/nodetype-has-feat.csv", "item, user\nTrue ,False\n\n");
    put_text("small/split/any/item/train.csv", "1\n\n");
    struct sl_dataset_options options = options_of("none");
    assert_ok(sl_dataset_load(&options, &d));
    expect_dataset(&d);
    assert_string_equal(d.relations, "user,buys,item\nshop,sells,item\n");
    sl_dataset_free(&d);
    put_text("small/raw/num-node-dict.csv", "item,user,shop\n2,,1\n");
    options = options_of("none");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "type 'user': expected a number of vertices below");
}

static char notices[4096];

static void note(enum sl_notice kind, const char *line)
{
    if (kind == SL_NOTICE_WARNING) {
        snprintf(notices + strlen(notices), sizeof notices - strlen(notices), "%s\n", line);
    }
}

/* A relation's num-edge-list is compared with its edges, whatever their form. */
TEST_WITH(compares_counts, put_all, remove_all)
{
    static const int32_t buys[] = {2, 0, 1, 0, 0, 1}; /* (2, 3) */
    static const int64_t count = 4;
    struct sl_dataset_options options;
    struct sl_dataset d;
    for (int binary = 0; binary < 2; binary++) {
        for (int wrong = 0; wrong < 2; wrong++) {
            options = options_of("none");
            put_text("small/raw/relations/user___buys___item/num-edge-list.csv", wrong == 0 ? "3\n" : "4\n");
            if (wrong == 0) {
                assert_survives_no_memory(sl_dataset_load(&options, &d));
                expect_dataset(&d);
                sl_dataset_free(&d);
            } else {
                assert_refused(sl_dataset_load(&options, &d), SL_EFILE,
                               binary == 0 ? "edge.csv:4: expected 4 lines, found 3"
                                           : "num-edge-list.csv: expected 3, the edges of");
            }
        }
        remove(in_folder("small/raw/relations/user___buys___item/edge.csv"));
        put_npy_array("small/raw/relations/user___buys___item/edge.npy", "<i4", "(2, 3)", buys, sizeof buys);
    }
    remove(in_folder("small/raw/relations/user___buys___item/num-edge-list.csv"));
    put_npy_array("small/raw/relations/user___buys___item/num-edge-list.npy", "<i8", "(1,)", &count, sizeof count);
    options = options_of("none");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "num-edge-list.npy: expected 3, the edges of");
}

static uint64_t keep_sizes(const struct sl_raw_sizes *sizes, const void *context)
{
    **(struct sl_raw_sizes *const *)context = *sizes;
    return 0;
}

/* Headers and counts tell the sizes before a list is read: here one is broken. */
TEST_WITH(tells_sizes, put_all, remove_all)
{
    const float table[6] = {0.5f, 0, 1, 2, 3, 4};
    struct sl_raw_sizes sizes = {0};
    struct sl_raw_sizes *const context = &sizes;
    struct sl_dataset_options options = options_of("none");
    struct sl_dataset d;
    put_text("small/raw/relations/user___buys___item/num-edge-list.csv", "3\n");
    put_text("small/raw/relations/user___buys___item/edge.csv", "2,0\nx,0\n1,1\n");
    remove(in_folder("small/raw/node-feat/item/node-feat.csv"));
    put_npy_array("small/raw/node-feat/item/node-feat.npy", "<f4", "(2, 3)", table, sizeof table);
    options.least = keep_sizes;
    options.context = &context;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "edge.csv:2: expected");
    assert_int_equal(sizes.n_vertices, 6);
    assert_int_equal(sizes.n_edges, 3); /* the other relation does not tell */
    assert_int_equal(sizes.n_relations, 2);
    assert_int_equal(sizes.feature_bytes, sizeof table);
}

/* A relation's num-edge-list is an input: no output may replace it, and a copy is made anew when it changes. */
TEST_WITH(notes_counts, put_all, remove_all)
{
    struct sl_dataset_options options = options_of("none");
    struct sl_dataset d;
    char cache[4096];
    const char *count = put_text("small/raw/relations/user___buys___item/num-edge-list.csv", "3\n");
    options.outputs[0] = count;
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "num-edge-list.csv: found a file of the dataset");
    snprintf(cache, sizeof cache, "%s", in_folder("copies"));
    options = options_of(cache);
    assert_ok(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    put_text("small/raw/relations/user___buys___item/num-edge-list.csv", "33\n");
    options = options_of(cache);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "edge.csv:4: expected 33 lines, found 3");
}

/* Narrow features of types become float32. */
TEST_WITH(widens_features, put_all, remove_all)
{
    static const uint16_t halves[] = {0x3800, 0, 0x4000, 0x4200}; /* 0.5, 0, 2, 3 */
    const struct sl_dataset_options options = options_of("none");
    OWNED(sl_dataset_free) struct sl_dataset d;
    remove(in_folder("small/raw/node-feat/item/node-feat.csv"));
    put_npy_array("small/raw/node-feat/item/node-feat.npy", "<f2", "(2, 2)", halves, sizeof halves);
    assert_ok(sl_dataset_load(&options, &d));
    expect_dataset(&d);
}

/* All tables but the small ones may be arrays. A table that is there twice is refused, and others are named. */
TEST_WITH(reads_arrays, put_all, remove_all)
{
    static const int32_t buys[] = {2, 0, 1, 0, 0, 1}; /* (2, 3) */
    static const float features[] = {0.5f, 0, 2, 3};
    static const uint8_t labels[] = {1, 0};
    static const uint8_t train[] = {0, 1};
    struct sl_dataset_options options;
    OWNED(sl_dataset_free) struct sl_dataset d;
    static const char *const tables[] = {"raw/relations/user___buys___item/edge", "raw/node-feat/item/node-feat",
                                         "raw/node-label/item/node-label", "split/any/item/train"};
    for (int twice = 0; twice < 2; twice++) {
        put_npy_array("small/raw/relations/user___buys___item/edge.npy", "<i4", "(2, 3)", buys, sizeof buys);
        put_npy_array("small/raw/node-feat/item/node-feat.npy", "<f4", "(2, 2)", features, sizeof features);
        put_npy_array("small/raw/node-label/item/node-label.npy", "|u1", "(2,)", labels, sizeof labels);
        put_npy_array("small/split/any/item/train.npy", "|b1", "(2,)", train, sizeof train);
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
            char name[128];
            char words[256];
            snprintf(name, sizeof name, "small/%s.csv", tables[i]);
            if (twice == 1) {
                put_text(name, "1\n");
                snprintf(words, sizeof words, "%s.csv: the table is there twice, also as", tables[i]);
                options = options_of("none");
                assert_refused(sl_dataset_load(&options, &d), SL_EFILE, words);
            }
            remove(in_folder(name));
        }
        options = options_of("none");
        notices[0] = '\0';
        sl_on_notice(note);
        assert_survives_no_memory(sl_dataset_load(&options, &d));
        sl_on_notice(NULL);
        assert_string_equal(notices, "");
        expect_dataset(&d);
        sl_dataset_free(&d);
    }
    put_text("small/raw/relations/user___buys___item/edge_feat.csv", "1\n");
    put_text("small/raw/relations/user___buys___item/edge_reltype.csv", "0\n");
    put_text("small/raw/node-feat/items/node-feat.csv", "1\n");
    put_text("small/raw/node-feat/user/features.csv", "1\n");
    put_text("small/raw/relations/a___b___c/edge.csv", "0,0\n");
    put_text("small/raw/relations/user___buys___item/num-node-list.csv", "9\n");
    put_text("small/raw/num-edge-list.csv", "9\n");
    put_text("small/raw/num-node-list.csv", "9\n");
    put_text("small/raw/edge.csv", "0,0\n");
    put_text("small/raw/node-feat.csv", "1\n");
    put_text("small/raw/node-label.csv", "1\n");
    put_text("small/split/any/item/val.csv", "0\n");
    put_text("small/split/any/user/train.csv", "0\n");
    options = options_of("none");
    sl_on_notice(note);
    assert_ok(sl_dataset_load(&options, &d));
    sl_on_notice(NULL);
    assert_non_null(strstr(notices, "user___buys___item/edge_feat.csv: is not used"));
    assert_non_null(strstr(notices, "node-feat/items: is not used"));
    assert_non_null(strstr(notices, "node-feat/user/features.csv: is not used"));
    assert_non_null(strstr(notices, "relations/a___b___c: is not used"));
    assert_non_null(strstr(notices, "split/any/item/val.csv: is not used"));
    assert_non_null(strstr(notices, "user___buys___item/num-node-list.csv: is not used"));
    static const char *const plain[] = {"num-edge-list", "num-node-list", "edge", "node-feat", "node-label"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        char words[64];
        snprintf(words, sizeof words, "raw/%s.csv: is not used", plain[i]);
        assert_non_null(strstr(notices, words));
    }
    assert_non_null(strstr(notices, "split/any/user: is not used"));
    assert_null(strstr(notices, "edge_reltype"));
}

/* Weights of one relation, as text and as an array: the other relation has 1, and reverses have the weights of their
 * edges, from the folder and from the binary copy. Weights of another number of edges, or no weights, are refused. */
TEST_WITH(reads_weights, put_all, remove_all)
{
    static const float weights[] = {0.5f, 0, 2};
    static const float wanted[] = {0, 0.5f, 1, 2, 1, 0, 2, 0.5f, 1, 1};
    static const struct {
        const char *text, *words;
    } wrong[] = {{"1\n2\n", "edge-weight.csv"},
                 {"1\n2\n3\n4\n", "edge-weight.csv"},
                 {"1\nnan\n3\n", "edge-weight.csv:2: expected the weight of an edge"},
                 {"1\n-2\n3\n", "edge-weight.csv:2: expected the weight of an edge"}};
    const char *text = "small/raw/relations/user___buys___item/edge-weight.csv";
    struct sl_dataset_options options;
    struct sl_dataset d;
    char cache[4096];
    snprintf(cache, sizeof cache, "%s", in_folder("copies"));
    options = options_of(cache);
    assert_ok(sl_dataset_load(&options, &d)); /* the copy without weights is made anew */
    assert_null(d.graph.weights);
    sl_dataset_free(&d);
    for (int turn = 0; turn < 4; turn++) {
        put_text(text, "0.5\n0\n2\n");
        if (turn >= 2) {
            remove(in_folder(text));
            put_npy_array("small/raw/relations/user___buys___item/edge-weight.npy", "<f4", "(3,)", weights,
                          sizeof weights);
        }
        options = options_of(turn % 2 == 0 ? cache : "none");
        notices[0] = '\0';
        sl_on_notice(note);
        assert_ok(sl_dataset_load(&options, &d));
        sl_on_notice(NULL);
        assert_string_equal(notices, "");
        expect_dataset(&d);
        assert_memory_equal(d.graph.weights, wanted, sizeof wanted);
        sl_dataset_free(&d);
    }
    remove(in_folder("small/raw/relations/user___buys___item/edge-weight.npy"));
    put_text(text, "0.5\n0\n2\n");
    options = options_of("none");
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text(text, wrong[i].text);
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, wrong[i].words);
    }
}

/* A relation may have no edges: its number stays. Labels may be names. */
TEST_WITH(reads_an_empty_relation, put_all, remove_all)
{
    char cache[4096];
    snprintf(cache, sizeof cache, "%s", in_folder("copies"));
    for (int npy = 0; npy < 2; npy++) {
        put_text("small/raw/node-label/item/node-label.csv", "tea\ncake\n");
        put_text("small/raw/relations/user___buys___item/edge.csv", "");
        if (npy == 1) {
            remove(in_folder("small/raw/relations/user___buys___item/edge.csv"));
            put_npy_array("small/raw/relations/user___buys___item/edge.npy", "<i8", "(2, 0)", "", 0);
        }
        for (int cached = 0; cached < 2; cached++) {
            const struct sl_dataset_options options = options_of(cache);
            OWNED(sl_dataset_free) struct sl_dataset d;
            assert_ok(sl_dataset_load(&options, &d));
            assert_int_equal(d.graph.n_relations, 4);
            assert_int_equal(d.graph.n_edges, 4);
            assert_memory_equal(d.graph.relations, ((const uint16_t[]){1, 1, 3, 3}), 4 * sizeof(uint16_t));
            assert_string_equal(d.class_names, "cake\ntea\n");
            assert_int_equal(d.targets.classes[0], 1);
        }
    }
}

/* Types with features of one width share the columns. */
TEST_WITH(shares_columns, put_all, remove_all)
{
    const struct sl_dataset_options options = options_of("none");
    OWNED(sl_dataset_free) struct sl_dataset d;
    put_text("small/raw/node-feat/user/node-feat.csv", "1,1\n2,2\n3,4\n");
    put_text("small/raw/node-feat/shop/node-feat.csv", "7,8\n");
    assert_ok(sl_dataset_load(&options, &d));
    const float wanted[] = {0.5f, 0, 2, 3, 1, 1, 2, 2, 3, 4, 7, 8};
    assert_int_equal(d.features.n_columns, 2);
    assert_memory_equal(floats_of(&d.features), wanted, sizeof wanted);
}

/* The users' purchases are links: 2,0 and 1,1 to train on, 0,0 and 2,1 to find. What the shop sells stays an edge. */
static struct sl_dataset_options put_links(void)
{
    struct sl_dataset_options options = options_of("none");
    put_text("small/split/deals/train.csv", "2,0,0\n1,0,1\n");
    put_text("small/split/deals/valid.csv", "0,0,0\n");
    put_text("small/split/deals/test.csv", "2,0,1\n");
    put_text("small/split/deals/test_neg.csv", "1,0,0\n");
    options.split = "deals";
    options.need = SL_RAW_FOR_LINKS;
    return options;
}

TEST_WITH(reads_links, put_all, remove_all)
{
    const sl_vertex sources[] = {4, 5, 3, 5, 1, 0, 0, 1};
    const uint16_t relations[] = {0, 1, 0, 1, 2, 2, 3, 3};
    const struct sl_dataset_options options = put_links();
    struct sl_dataset d;
    assert_int_equal(sl_dataset_load(&options, &d), SL_OK);
    const struct sl_links *links = d.links.list;
    assert_int_equal(d.graph.n_edges, 8);
    assert_memory_equal(d.graph.sources, sources, sizeof sources);
    assert_memory_equal(d.graph.relations, relations, sizeof relations);
    assert_true(links[SL_LINKS_TRAIN].n == 2 && links[SL_LINKS_TRAIN].from[1] == 3 && links[SL_LINKS_TRAIN].to[1] == 1);
    assert_true(links[SL_LINKS_VALID].n == 1 && links[SL_LINKS_VALID].from[0] == 2 && links[SL_LINKS_VALID].to[0] == 0);
    assert_true(links[SL_LINKS_TEST].from[0] == 4 && links[SL_LINKS_TEST_NEGATIVE].from[0] == 3);
    assert_int_equal(d.links.n_relations, 2);
    assert_true(d.links.ends[0].first[0] == 2 && d.links.ends[0].n[0] == 3);
    assert_true(d.links.ends[0].first[1] == 0 && d.links.ends[0].n[1] == 2);
    sl_dataset_free(&d);
    put_text("small/split/deals/test.csv", "2,1,1\n");
    assert_int_equal(sl_dataset_load(&options, &d), SL_EFILE);
    assert_non_null(strstr(sl_message(), "expected a head of relation 1, an id below 1, found 2"));
    put_npy_array("small/split/deals/valid.npy", "<i4", "(2, 1)", "\0\0\0\0\0\0\0\0", 8);
    const struct sl_dataset_options again = put_links();
    assert_refused(sl_dataset_load(&again, &d), SL_EFILE, "deals/valid.csv: the table is there twice, also as ");
}

/* A model's split of links is found among others. */
TEST_WITH(finds_the_usual_links, put_all, remove_all)
{
    struct sl_dataset_options options = put_links();
    OWNED(sl_dataset_free) struct sl_dataset d;
    options.split = NULL;
    options.usual_split = "deals";
    options.need = SL_RAW_FOR_PAIRS;
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.links.list[SL_LINKS_TRAIN].n, 2);
    sl_dataset_free(&d);
    remove(in_folder("small/raw/triplet-type-list.csv")); /* now a plain dataset */
    put_text("small/raw/num-node-list.csv", "6\n");
    put_text("small/raw/node-feat.csv", "1\n2\n3\n4\n5\n6\n");
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.links.list[SL_LINKS_TRAIN].n, 2);
}

/* A training link has the weight of its edge, and one that is no edge has 1: also if they are listed twice. */
TEST_WITH(reads_weights_of_links, put_all, remove_all)
{
    static const float wanted[] = {0.5f, 1, 1, 2, 1, 1, 2, 0.5f, 1, 1};
    const struct sl_dataset_options options = put_links();
    OWNED(sl_dataset_free) struct sl_dataset d;
    put_text("small/raw/relations/user___buys___item/edge-weight.csv", "0.5\n0\n2\n");
    put_text("small/split/deals/train.csv", "2,0,0\n1,0,1\n0,0,1\n2,0,0\n0,0,1\n");
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_edges, 10);
    assert_memory_equal(d.graph.weights, wanted, sizeof wanted);
}

TEST_WITH(links_survive_no_memory, put_all, remove_all)
{
    const struct sl_dataset_options options = put_links();
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_survives_no_memory(sl_dataset_load(&options, &d));
}

/* raw/nodetype-has-feat and -label must say what is there. */
TEST_WITH(compares_marks, put_all, remove_all)
{
    static const struct {
        const char *file, *text, *words; /* NULL: taken */
    } cases[] = {
        {"feat", "item,user,shop\nTrue,False,True\n", NULL},
        {"label", "item,user,shop\r\nTrue,False,False\r\n", NULL},
        {"feat", "user\nTrue\n", "type 'user' has True, expected a file raw/node-feat/user/node-feat.csv.gz"},
        {"label", "shop\nTrue\n", "type 'shop' has True, expected a file raw/node-label/shop/node-label.csv.gz"},
        {"feat", "item,shop\nTrue,False\n", "type 'shop' has False, expected no file, found one in raw/node-feat/shop"},
        {"feat", "item,house\nTrue,True\n", "found type 'house'"},
        {"feat", "item\nyes\n", "expected True or False, found 'yes'"},
        {"feat", "item,shop\nTrue\n", "found fewer"},
        {"feat", "item\n", "found fewer"},
        {"feat", "item\nTrue,False\n", "found more"},
        {"feat", "item\nTrue\nTrue\n", "nodetype-has-feat.csv:3: expected 2 lines, found more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sl_dataset_options options = options_of("none");
        struct sl_dataset d;
        char name[160];
        snprintf(name, sizeof name, "small/raw/nodetype-has-%s.csv", cases[i].file);
        put_text(name, cases[i].text);
        if (cases[i].words != NULL) {
            assert_refused(sl_dataset_load(&options, &d), SL_EFILE, cases[i].words);
        } else {
            assert_ok(sl_dataset_load(&options, &d));
            expect_dataset(&d);
            sl_dataset_free(&d);
        }
        remove(in_folder(name));
    }
}

/* A byte 0 is refused, in UTF-16, too. */
TEST_WITH(refuses_bytes_zero, put_all, remove_all)
{
    static const char *const names[] = {"num-node-dict", "triplet-type-list", "nodetype-has-feat",
                                        "nodetype-has-label"};
    static const char *const texts[] = {"\xff\xfei!t!e!m!\n!2!\n!", "it!em,user,shop\n2,3,1\n",
                                        "item,user,shop\n2,3,1!"};
    for (size_t i = 0; i < 4 * sizeof texts / sizeof *texts; i++) {
        const struct sl_dataset_options options = options_of("none");
        const char *text = texts[i / 4];
        struct sl_dataset d;
        char name[160];
        char words[160];
        snprintf(name, sizeof name, "small/raw/%s.csv", names[i % 4]);
        FILE *file = fopen(in_folder(name), "wb");
        assert_non_null(file);
        for (const char *p = text; *p != '\0'; p++) {
            fputc(*p == '!' ? '\0' : *p, file);
        }
        assert_int_equal(fclose(file), 0);
        snprintf(words, sizeof words, "%s.csv:%d: expected text in UTF-8, found a byte 0", names[i % 4],
                 text == texts[2] ? 2 : 1);
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, words);
        if (i % 4 < 2) {
            put_text(name, files[i % 4][1]);
        } else {
            remove(in_folder(name));
        }
    }
}

TEST_WITH(survives_no_memory, put_all, remove_all)
{
    const struct sl_dataset_options options = options_of("none");
    OWNED(sl_dataset_free) struct sl_dataset d;
    put_text("small/raw/nodetype-has-feat.csv", "item,shop\nTrue,True\n");
    assert_survives_no_memory(sl_dataset_load(&options, &d));
}

TEST_MAIN(NULL, NULL)
