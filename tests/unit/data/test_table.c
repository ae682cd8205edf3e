/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/readers/table.c: edge lists with a header and ids of any kind. */
#include "tests/support/data_fixture.h"

#include <math.h>
#include <unistd.h>

#include "data/load.h"
#include "data/reader.h"
#include "tests/support/floats.h"

#define EDGES "src,dst\n"
#define NODES "id,a,label,split\n"

static enum sl_status read_request(const struct sl_dataset_options *request, struct sl_raw *out)
{
    struct sl_raw_files files;
    *out = (struct sl_raw){0};
    enum sl_status st = sl_reader_table.find(request, &files);
    if (st == SL_OK) {
        st = sl_reader_table.read(&files, out);
        sl_raw_files_free(&files);
    }
    return st;
}

static enum sl_status read_for(const char *path, enum sl_raw_need need, struct sl_raw *out)
{
    const struct sl_dataset_options request = {.dataset = path, .need = need};
    return read_request(&request, out);
}

/* Without nodes.csv the first appearance numbers the vertices, line by line. */
TEST_IN_FOLDER(numbers_by_appearance)
{
    OWNED(sl_raw_free) struct sl_raw raw;
    put_text("a/edges.csv", "weight, src ,dst\n1,dora,-7\n0.5, \"a,\"\"b\" ,dora\n\n2e0,007,7\r\n3,-7,\"\"\" x\"");
    assert_ptr_equal(sl_reader_of(in_folder("a")), &sl_reader_table);
    assert_ok(read_for(in_folder("a"), SL_RAW_FOR_LOOKS, &raw));
    assert_int_equal(raw.n_vertices, 6); /* dora, -7, a,"b, 007, 7, " x */
    assert_int_equal(raw.n_edges, 4);
    assert_memory_equal(raw.from, ((const sl_vertex[]){0, 2, 3, 1}), 4 * sizeof(sl_vertex));
    assert_memory_equal(raw.to, ((const sl_vertex[]){1, 0, 4, 5}), 4 * sizeof(sl_vertex));
    assert_memory_equal(raw.weights, ((const float[]){1, 0.5F, 2, 3}), 4 * sizeof(float));
    assert_int_equal(raw.data.targets.classes[5], -1);
    assert_true(raw.numbered);
    assert_string_equal(raw.data.vertex_names, "dora\n-7\na,\"b\n007\n7\n\" x\n");
    sl_raw_free(&raw);
    assert_survives_no_memory(read_for(in_folder("a"), SL_RAW_FOR_LOOKS, &raw));
}

static char notice[512];

static void note(enum sl_notice kind, const char *line)
{
    (void)kind;
    snprintf(notice, sizeof notice, "%s", line);
}

/* The ids are saved beside the cache, as a nodes.csv that gives the same numbers. */
TEST_IN_FOLDER(saves_the_ids)
{
    struct sl_dataset d[2];
    const char *edges = "src,dst\n\"b,\",c\nc,a\n\""
                        "x\",\"b,\"\nq\"q,a\n";
    OWNED(sl_free_it) char *text;
    size_t bytes;
    put_text("e/edges.csv", edges);
    struct sl_dataset_options options = {.dataset = in_folder("e"), .need = SL_RAW_FOR_LOOKS};
    options.cache = in_folder("copies");
    sl_on_notice(note);
    assert_ok(sl_dataset_load(&options, &d[0]));
    sl_on_notice(NULL);
    const char *said = strstr(notice, "e: the ids of its 5 vertices are in ");
    assert_non_null(said);
    char *file = strchr(notice, '/');
    *strchr(file, ',') = '\0';
    assert_ok(sl_file_read(file, SIZE_MAX - 1, &text, &bytes));
    put_text("again/edges.csv", edges);
    put_bytes("again/nodes.csv", text, bytes);
    options.dataset = in_folder("again");
    options.cache = "none";
    assert_ok(sl_dataset_load(&options, &d[1]));
    assert_int_equal(d[0].graph.n_edges, d[1].graph.n_edges);
    assert_memory_equal(d[0].graph.sources, d[1].graph.sources, d[0].graph.n_edges * sizeof(sl_vertex));
    sl_dataset_free(&d[0]);
    sl_dataset_free(&d[1]);
}

/* Many ids: the hash table grows, and each id keeps its number. */
TEST_IN_FOLDER(numbers_many)
{
    enum { MANY = 5000 };
    static char text[MANY * 32];
    OWNED(sl_raw_free) struct sl_raw raw;
    size_t n = (size_t)snprintf(text, sizeof text, EDGES);
    for (uint32_t e = 0; e < MANY; e++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "n%u,n%u\n", e * 2654435761U, (e + 1) * 2654435761U);
    }
    put_bytes("many/edges.csv", text, n);
    assert_ok(read_for(in_folder("many"), SL_RAW_FOR_LOOKS, &raw));
    assert_int_equal(raw.n_vertices, MANY + 1);
    for (uint32_t e = 0; e < MANY; e++) {
        assert_true(raw.from[e] == e && raw.to[e] == e + 1);
    }
}

/* nodes.csv numbers the vertices, whatever the edges say first. Several labels are numbers. */
TEST_IN_FOLDER(numbers_by_nodes)
{
    OWNED(sl_raw_free) struct sl_raw raw;
    put_text("g/edges.csv", "source\ttarget\nb\ta\n");
    put_text("g/nodes.csv", "y\tnode_id\tsplit\tlabel_2\n1.5\ta\ttrain\t\n\tb\t\t-2\nnan\tc\tvalidation\t3\n");
    assert_ptr_equal(sl_reader_of(in_folder("g")), &sl_reader_table);
    const struct sl_dataset_options request = {.dataset = in_folder("g"), .features = "degree"};
    assert_ok(read_request(&request, &raw));
    assert_int_equal(raw.n_vertices, 3);
    assert_true(raw.from[0] == 1 && raw.to[0] == 0);
    assert_int_equal(raw.data.targets.type, SL_TARGET_NUMBER);
    assert_int_equal(raw.data.targets.width, 2);
    assert_true(raw.data.targets.numbers[0] == 1.5F && isnan(raw.data.targets.numbers[1]) &&
                raw.data.targets.numbers[5] == 3);
    assert_true(raw.data.train.n == 1 && raw.data.train.ids[0] == 0 && raw.data.valid.n == 1 &&
                raw.data.valid.ids[0] == 2);
    assert_int_equal(raw.data.features.n_rows, 0);
    sl_raw_free(&raw);
    assert_survives_no_memory(read_request(&request, &raw));
}

/* Without labels, a folder serves inference; vertices of the split without a label leave it. */
TEST_IN_FOLDER(serves_inference)
{
    OWNED(sl_raw_free) struct sl_raw raw;
    put_text("g/edges.csv", EDGES "x,y\n");
    put_text("g/nodes.csv", "id,\"a\"\"\",b\ny,1,2\nx,3,4\n");
    assert_refused(read_for(in_folder("g"), SL_RAW_FOR_TRAINING, &raw), SL_EFILE,
                   "found a folder of edges.csv, expected labels and a split too: add columns label and split");
    assert_ok(read_for(in_folder("g"), SL_RAW_FOR_INFERENCE, &raw));
    assert_int_equal(raw.data.features.n_columns, 2);
    assert_string_equal(raw.data.feature_names, "a\"\nb\n");
    assert_true(((const float *)raw.data.features.dense.data)[2] == 3);
    sl_raw_free(&raw);
    put_text("g/nodes.csv", NODES "y,1,,test\nx,2,0,test\n");
    assert_ok(read_for(in_folder("g"), SL_RAW_FOR_INFERENCE, &raw));
    assert_true(raw.n_dropped == 1 && raw.data.test.n == 1 && raw.data.test.ids[0] == 1);
}

/* Both tables compressed, with a long header; a file that was cut short. */
TEST_IN_FOLDER(reads_gzip)
{
    enum { MANY = 500 };
    static char text[MANY * 16];
    struct sl_raw raw;
    put_gzip("z/edges.csv.gz", EDGES "b,a\n");
    size_t n = (size_t)snprintf(text, sizeof text, "id,label,split");
    for (int i = 0; i < MANY; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ",f%d", i);
    }
    for (int v = 0; v < 2; v++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "\n%c,%d,train", 'a' + v, v);
        for (int i = 0; i < MANY; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, ",%d", i + v);
        }
    }
    put_gzip("z/nodes.csv.gz", text);
    assert_ptr_equal(sl_reader_of(in_folder("z")), &sl_reader_table);
    assert_ok(read_for(in_folder("z"), SL_RAW_FOR_TRAINING, &raw));
    assert_true(raw.n_vertices == 2 && raw.from[0] == 1 && raw.to[0] == 0 && raw.data.train.n == 2);
    assert_int_equal(raw.data.features.n_columns, MANY);
    assert_true(((const float *)raw.data.features.dense.data)[2 * MANY - 1] == MANY);
    sl_raw_free(&raw);
    assert_survives_no_memory(read_for(in_folder("z"), SL_RAW_FOR_TRAINING, &raw));
    sl_raw_free(&raw);
    assert_int_equal(truncate(in_folder("z/nodes.csv.gz"), 100), 0);
    assert_refused(read_for(in_folder("z"), SL_RAW_FOR_LOOKS, &raw), SL_EFILE, "z/nodes.csv.gz: damaged or cut short");
}

TEST_IN_FOLDER(refuses_bad_tables)
{
    static const struct {
        const char *edges, *nodes, *message;
    } cases[] = {
        {"", NODES, "edges.csv:0: expected a header with the columns src and dst"},
        {"0,1\n", NODES, "edges.csv:1: expected a header with the columns src and dst"},
        {"src,dst,src\n", NODES, "edges.csv:1: expected a header with the columns src and dst"},
        {EDGES "a,b\n", "a,label,split\n", "nodes.csv:1: expected a header with one column id"},
        {EDGES "a,b\n", NODES "a,1,0,train\n", "edges.csv:2: column 'dst': expected an id of nodes.csv, found 'b'"},
        {EDGES "a\n", NODES "a,1,0,train\n", "edges.csv:2: expected as many columns as the header has"},
        {EDGES "a,a,1\n", NODES "a,1,0,train\n", "edges.csv:2: expected as many columns as the header has"},
        {EDGES ",a\n", NODES "a,1,0,train\n", "edges.csv:2: column 'src': expected an id of nodes.csv, found ''"},
        {EDGES, NODES "a,1,0,train\na,1,0,test\n", "nodes.csv:3: column 'id': expected an id that no other line has"},
        {EDGES, NODES ",1,0,train\n", "nodes.csv:2: column 'id': expected an id that no other line has, found ''"},
        {EDGES, NODES "a,one,0,train\n", "nodes.csv:2: column 'a': expected a finite number, a feature"},
        {EDGES, NODES "a,,0,train\n", "nodes.csv:2: column 'a': expected a finite number, a feature"},
        {EDGES, NODES "a,1e99,0,train\n", "nodes.csv:2: column 'a': expected a finite number, a feature"},
        {EDGES, NODES "a,1,0.5,train\nb,1,zero,train\n",
         "nodes.csv:3: column 'label': expected a number, as other labels are fractions, found 'zero'"},
        {EDGES, "id,a,label,label_b,split\na,1,0,one,\n",
         "nodes.csv:2: column 'label_b': expected a class from 0 to 65535"},
        {EDGES, "id,a,label,y\na,1,0,1\n", "nodes.csv:1: column 4: found a second column of labels"},
        {EDGES, ",id,a,label,split\n0,a,1,0,train\n", "nodes.csv:1: column 1 has no name; name it or leave it out"},
        {EDGES, "\"\",id,a,label,split\n0,a,1,0,train\n", "nodes.csv:1: column 1 has no name; name it or leave it out"},
        {EDGES, "Unnamed: 0,id,a,label,split\n0,a,1,0,train\n", "nodes.csv:1: column 1 has no name of its own; name"},
        {EDGES, "id,train_mask,label,split\na,1,0,train\n", "column 2: found 'train_mask', which is no feature"},
        {EDGES, "id,a,Label\na,1,0\n", "nodes.csv:1: column 3: found 'Label', which is no feature; expected small"},
        {EDGES, "id,a,a,label,split\na,1,2,0,train\n", "nodes.csv:1: column 'a' is there twice"},
        {",src,dst\n0,a,a\n", NODES "a,1,0,train\n", "edges.csv:1: column 1 has no name; name it or leave it out"},
        {EDGES, "name|label\na|1\n",
         "nodes.csv:1: expected a header with one column id, and at most one column split: "
         "'id,label,split', found 'name|label'"},
        {"src|dst\n", NODES "a,1,0,train\n",
         "edges.csv:1: expected a header with the columns src and dst, and perhaps "
         "weight: 'src,dst', found 'src|dst'"},
        {"# a graph\n0 1\n", NODES "a,1,0,train\n", "edges.csv:1: expected a header with the columns src and dst"},
        {EDGES, NODES "a,1,0,training\n", "nodes.csv:2: column 'split': expected train, valid, test or nothing"},
        {EDGES, NODES "a,1,,train\n", "split 'file': vertex 0 of train has no label"},
        {EDGES, NODES "a,1,70000,train\n", "targets are whole numbers, but not classes"},
        {"src,dst,weight\na,a,-1\n", NODES "a,1,0,train\n",
         "edges.csv:2: column 'weight': expected the weight of an edge"},
        {"src,dst,weight\na,a,1\na,a,inf\n", NODES "a,1,0,train\n",
         "edges.csv:3: column 'weight': expected the weight of an edge"},
        {"src,dst,weight\na,a,1\na,a,nan\n", NODES "a,1,0,train\n",
         "edges.csv:3: column 'weight': expected the weight of an edge"},
        {"src,dst,weight\na,a,\n", NODES "a,1,0,train\n", "column 'weight': expected the weight of an edge"},
        {EDGES, "id,label,split\na,0,train\n", "which has no features; --features can be degree"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_raw raw;
        put_text("bad/edges.csv", cases[i].edges);
        put_text("bad/nodes.csv", cases[i].nodes);
        assert_refused(read_for(in_folder("bad"), SL_RAW_FOR_TRAINING, &raw), SL_EFILE, cases[i].message);
        assert_null(raw.from);
    }
    struct sl_raw raw;
    struct sl_dataset_options request = {.dataset = in_folder("bad"), .targets = SL_TARGETS_CLASSES};
    put_text("bad/edges.csv", EDGES "a,a\n");
    put_text("bad/nodes.csv", NODES "a,1,0.5,train\n");
    assert_refused(read_request(&request, &raw), SL_EFILE, "expected one column of classes");
    request.split = "time";
    assert_refused(read_request(&request, &raw), SL_EINVAL, "has no split 'time'");
}

/* The same graph in the words of others: SNAP, networkx; with other separators. */
TEST_IN_FOLDER(reads_other_headers)
{
    static const struct {
        const char *name, *edges, *nodes;
    } cases[] = {
        {"edges.csv", "src,dst,weight\na,b,2\nc,a,3\n", "id,x,label,split\na,1,0,train\nb,2,1,valid\nc,3,0,test\n"},
        {"edges.csv", "from;to;weight\na;b;2\nc;a;3\n", "id;x;label;split\na;1;0;train\nb;2;1;valid\nc;3;0;test\n"},
        {"edges.csv", "FromNodeId\tToNodeId\tweight\na\tb\t2\nc\ta\t3\n",
         "\xef\xbb\xbfid\tx\tlabel\tsplit\r\na\t1\t0\ttrain\r\nb\t2\t1\tvalid\r\nc\t3\t0\ttest \r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWNED(sl_raw_free) struct sl_raw raw;
        char file[64];
        snprintf(file, sizeof file, "o%zu/%s", i, cases[i].name);
        put_text(file, cases[i].edges);
        snprintf(file, sizeof file, "o%zu/nodes.csv", i);
        put_text(file, cases[i].nodes);
        snprintf(file, sizeof file, "o%zu", i);
        assert_ok(read_for(in_folder(file), SL_RAW_FOR_TRAINING, &raw));
        assert_true(raw.n_vertices == 3 && raw.n_edges == 2 && raw.from[1] == 2 && raw.to[0] == 1);
        assert_memory_equal(raw.weights, ((const float[]){2, 3}), 2 * sizeof(float));
        assert_memory_equal(raw.data.targets.classes, ((const int32_t[]){0, 1, 0}), 3 * sizeof(int32_t));
        assert_true(raw.data.features.n_columns == 1 && floats_of(&raw.data.features)[2] == 3);
        assert_true(raw.data.train.ids[0] == 0 && raw.data.valid.ids[0] == 1 && raw.data.test.ids[0] == 2);
        assert_string_equal(raw.data.vertex_names, "a\nb\nc\n");
        assert_null(raw.data.class_names);
    }
}

/* Labels that are text: the classes have names. Several columns are named, too. */
TEST_IN_FOLDER(reads_names_of_classes)
{
    OWNED(sl_raw_free) struct sl_raw raw;
    struct sl_dataset_options request = {.dataset = in_folder("n")};
    put_text("n/edges.csv", EDGES "u,v\n");
    put_text("n/nodes.csv", NODES "u,1,gold,train\nv,2,\"b \"\"x\"\"\",valid\nw,3,,\nx,4,gold,test\n");
    for (int choice = 0; choice < 2; choice++) {
        request.targets = choice == 0 ? SL_TARGETS_ANY : SL_TARGETS_CLASSES;
        assert_ok(read_request(&request, &raw));
        assert_string_equal(raw.data.class_names, "b \"x\"\ngold\n");
        assert_memory_equal(raw.data.targets.classes, ((const int32_t[]){1, 0, -1, 1}), 4 * sizeof(int32_t));
        assert_int_equal(raw.data.targets.n_classes, 2);
        sl_raw_free(&raw);
    }
    assert_survives_no_memory(read_request(&request, &raw));
    sl_raw_free(&raw);
    request.targets = SL_TARGETS_NUMBERS;
    assert_refused(read_request(&request, &raw), SL_EFILE, "nodes.csv:2: column 'label': expected a class");
    request.targets = SL_TARGETS_ANY;
    put_text("n/nodes.csv", "id,label_cat,f,label_a dog,split\nu,1,1,0,train\nv,0,1,1,valid\n");
    assert_ok(read_request(&request, &raw));
    assert_string_equal(raw.data.class_names, "cat\na dog\n");
    sl_raw_free(&raw);
    /* Whole floats, as pandas writes a column with gaps. */
    put_text("n/nodes.csv", NODES "u,1,60.0,train\nv,2,,\n");
    sl_on_notice(note);
    assert_ok(read_request(&request, &raw));
    sl_on_notice(NULL);
    assert_non_null(strstr(notice, "nodes.csv: labels are floats without fractions: taken as 61 classes"));
    assert_int_equal(raw.data.targets.classes[0], 60);
}

/* A table that is there twice is refused. */
TEST_IN_FOLDER(refuses_two_tables)
{
    struct sl_raw raw;
    put_text("w/edges.csv", EDGES "u,v\n");
    put_gzip("w/edges.csv.gz", EDGES "u,v\n");
    assert_refused(read_for(in_folder("w"), SL_RAW_FOR_LOOKS, &raw), SL_EFILE,
                   "w/edges.csv: the table is there twice, also as ");
    put_text("v/edges.csv", EDGES "u,v\n");
    put_text("v/nodes.csv", NODES);
    put_gzip("v/nodes.csv.gz", NODES);
    assert_refused(read_for(in_folder("v"), SL_RAW_FOR_LOOKS, &raw), SL_EFILE, "v/nodes.csv.gz; expected one of them");
}

/* A column of the edges that is not read gives notice. */
TEST_IN_FOLDER(says_what_is_not_read)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    put_text("s/edges.csv", "src,dst,time\na,b,3\n");
    const struct sl_dataset_options options = {.dataset = in_folder("s"), .cache = "none", .need = SL_RAW_FOR_LOOKS};
    sl_on_notice(note);
    assert_ok(sl_dataset_load(&options, &d));
    sl_on_notice(NULL);
    assert_non_null(strstr(notice, "edges.csv: column 'time': is not used"));
    put_text("t/edges.csv", "src,dst,label,split,id\na,b,0,train,7\n"); /* roles that only vertices have */
    put_text("t/nodes.csv", NODES "a,1,0,train\nb,1,0,test\n");
    OWNED(sl_raw_files_free) struct sl_raw_files files;
    const struct sl_dataset_options request = {.dataset = in_folder("t")};
    assert_ok(sl_reader_table.find(&request, &files));
    char lines[3 * 512];
    const char *e = in_folder("t/edges.csv");
    snprintf(lines, sizeof lines, "%s: column 'label'\n%s: column 'split'\n%s: column 'id'\n", e, e, e);
    assert_string_equal(files.unused, lines);
}

TEST_MAIN(NULL, NULL)
