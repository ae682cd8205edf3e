/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/metis_file.h: METIS's graphs, both ways, and its parts, written. */
#include "tests/support/data_fixture.h"

#include "data/metis_file.h"

static enum sl_status read_graph(const char *path, struct sl_graph *out)
{
    struct sl_raw raw;
    *out = (struct sl_graph){0};
    enum sl_status st = sl_metis_read(path, &raw);
    if (st != SL_OK) {
        return st;
    }
    st = sl_graph_build_weighted(raw.n_vertices, raw.n_edges, raw.from, raw.to, raw.weights.data, false, out);
    sl_raw_free(&raw);
    return st;
}

/* The graph of the METIS manual's figure 2: 7 vertices, 11 edges. */
static const char manual[] = "% the manual's\n7 11\n5 3 2\n1 3 4\n5 4 2 1\n2 3 6 7\n1 3 6\n5 4 7\n6 4\n";

static void assert_manual(const char *path)
{
    struct sl_graph graph;
    assert_ok(read_graph(path, &graph));
    assert_int_equal(graph.n_vertices, 7);
    assert_int_equal(graph.n_edges, 22);
    const uint64_t offsets[] = {0, 3, 6, 10, 14, 17, 20, 22};
    const sl_vertex sources[] = {1, 2, 4, 0, 2, 3, 0, 1, 3, 4, 1, 2, 5, 6, 0, 2, 5, 3, 4, 6, 3, 5};
    assert_memory_equal(graph.offsets, offsets, sizeof offsets);
    assert_memory_equal(graph.sources, sources, sizeof sources);
    sl_graph_free(&graph);
}

static void reads_graphs(void **state)
{
    (void)state;
    struct sl_graph graph;
    assert_manual(put_text("a.graph", manual));
    assert_manual(put_text("b.graph",
                           "7 11 001\r\n5 1 3 2 2 1\r\n1 1 3 2 4 1\r\n5 3 4 2 2 2 1 2\n2 1 3 2 6 2 7 5\n1 1 3 3 6 2\n"
                           "5 2 4 2 7 6\n6 6 4 5"));
    assert_manual(put_text("c.graph",
                           "\n7 11 010 3\n1 2 0 5 3 2\n0 2 2 1 3 4\n4 1 1 5 4 2 1\n2 2 3 2 3 6 7\n%\n1 1 1 1 3 6\n"
                           "2 2 1 5 4 7\n1 2 1 6 4\n\n"));
    assert_manual(put_text("d.graph",
                           "7 11 111 1\n9 1 5 1 3 1 2 1\n9 1 1 1 3 1 4 1\n9 1 5 1 4 1 2 1 1 1\n9 1 2 1 3 1 6 1 7 1\n"
                           "9 1 1 1 3 1 6 1\n9 1 5 1 4 1 7 1\n9 1 6 1 4 1\n"));
    /* Vertices without neighbours have empty lines, and the last one's may be missing. */
    assert_ok(read_graph(put_text("e.graph", "4 1\n\n3\n2\n"), &graph));
    assert_int_equal(graph.n_edges, 2);
    assert_int_equal(graph.offsets[1], 0);
    sl_graph_free(&graph);
    assert_ok(read_graph(put_text("f.graph", "0 0\n"), &graph));
    assert_int_equal(graph.n_vertices, 0);
    sl_graph_free(&graph);
    const char *path = put_text("a.graph", manual);
    assert_survives_no_memory(read_graph(path, &graph));
    sl_graph_free(&graph);
}

static unsigned n_warnings;

static void count_warnings(enum sl_notice kind, const char *line)
{
    n_warnings += kind == SL_NOTICE_WARNING && strstr(line, "weights and sizes are not used") != NULL;
}

/* The weights and sizes of vertices are not used. Those of edges are. */
static void says_what_is_unused(void **state)
{
    (void)state;
    static const char *const formats[][2] = {{"", ""},      {" 000", ""}, {" 001", "e"}, {" 010", "v"},
                                             {" 100", "v"}, {" 10", "v"}, {" 1", "e"}};
    sl_on_notice(count_warnings);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char text[64];
        struct sl_graph graph;
        const char *vertex = formats[i][1][0] == 'v' ? "5 " : "";
        const char *edge = formats[i][1][0] == 'e' ? " 5" : "";
        snprintf(text, sizeof text, "2 1%s\n%s2%s\n%s1%s\n", formats[i][0], vertex, edge, vertex, edge);
        n_warnings = 0;
        assert_ok(read_graph(put_text("w.graph", text), &graph));
        assert_int_equal(n_warnings, formats[i][1][0] == 'v');
        assert_int_equal(graph.weights.data != NULL, formats[i][1][0] == 'e');
        if (formats[i][1][0] == 'e') {
            assert_memory_equal(graph.weights.data, ((const float[]){5, 5}), 2 * sizeof(float));
        }
        sl_graph_free(&graph);
    }
    sl_on_notice(NULL);
}

static void refuses_bad_graphs(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "bad:0: expected 'vertices edges"},
        {"3\n", "bad:1: expected 'vertices edges"},
        {"% x\nthree 2\n", "bad:2: expected 'vertices edges"},
        {"3 2 0 1 5\n2\n1 3\n2\n", "bad:1: expected 'vertices edges"},
        {"3 2 2\n2\n1 3\n2\n", "a format of three digits"},
        {"3 2 11 99\n2\n1 3\n2\n", "at most 64 constraints"},
        {"999999 2\n2\n1 3\n2\n", "do not fit"},
        {"3 999999999999\n2\n1 3\n2\n", "do not fit"},
        {"5 2\n2\n1 3\n2\n", "expected the lines of 5 vertices, found 3"},
        {"3 2\n2\n1 4\n2\n", "bad:3: expected neighbours of 1 to 3, found 4"},
        {"3 2\n2\n1 0\n2\n", "bad:3: expected neighbours of 1 to 3, found 0"},
        {"3 2\n2\n1 x\n2\n", "bad:3: expected neighbours separated by blanks"},
        {"3 2\n2\n1 -3\n2\n", "bad:3: expected neighbours separated by blanks"},
        {"3 2\n2\n1 3\n2 1\n", "bad:4: expected no more neighbours"},
        {"3 2\n2\n1\n2\n       ", "expected 2 edges, listed from both ends, found 3"},
        {"3 2\n2\n1 3\n1\n", "expected every edge to be listed from both ends"},
        {"3 2\n2\n1 3\n2\n1\n", "bad:5: expected nothing after the last vertex"},
        {"3 2 001\n2\n1 1 3 1\n2 1\n", "bad:2: expected a weight behind each neighbour"},
        {"3 2 001\n2 1\n1 1 3 -1\n2 1\n", "bad:3: expected a weight behind each neighbour"},
        {"3 2 001\n2 1\n1 1 3 nan\n2 1\n", "bad:3: expected a weight behind each neighbour"},
        {"3 2 001\n2 1\n1 1 3 1\n2 7\n", "from both ends with the same weight"},
        {"3 2 010\n1 2\n\n1 2\n", "bad:3: expected the vertex's weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_graph graph;
        assert_refused(read_graph(put_text("bad", cases[i].text), &graph), SL_EFILE, cases[i].message);
        assert_null(graph.offsets);
    }
}

static void writes_graphs(void **state)
{
    (void)state;
    struct sl_graph graph;
    char *text;
    size_t bytes;
    const char *path = in_folder("w.graph");
    assert_ok(read_graph(put_text("a.graph", manual), &graph));
    assert_survives_no_memory(sl_metis_write_graph(path, &graph));
    assert_manual(path);
    sl_graph_free(&graph);
    /* A self loop is left out, and the count of edges with it; vertex 2 has no other neighbour. */
    assert_ok(sl_graph_build(3, 2, (sl_vertex[]){0, 2}, (sl_vertex[]){1, 2}, true, &graph));
    assert_ok(sl_metis_write_graph(path, &graph));
    assert_ok(sl_file_read(path, 100, &text, &bytes));
    assert_string_equal(text, "3 1\n2\n1\n\n");
    sl_free(text);
    sl_graph_free(&graph);
    assert_ok(sl_graph_build(3, 1, (sl_vertex[]){0}, (sl_vertex[]){1}, false, &graph));
    assert_refused(sl_metis_write_graph(path, &graph), SL_EINVAL, "undirected");
    assert_refused(sl_metis_write_graph(in_folder("no/x"), &graph), SL_EINVAL, "undirected");
    sl_graph_free(&graph);
}

static void writes_parts(void **state)
{
    (void)state;
    const uint32_t parts[] = {0, 3, 1, 0, 65534};
    const char *path = in_folder("p");
    char *text;
    size_t bytes;
    assert_survives_no_memory(sl_metis_write_parts(path, 5, parts));
    assert_ok(sl_file_read(path, 100, &text, &bytes));
    assert_string_equal(text, "0\n3\n1\n0\n65534\n");
    sl_free(text);
}

static void survives_mutations(void **state)
{
    (void)state;
    for (int i = 0; i < 4000; i++) {
        unsigned char data[256];
        struct sl_graph graph;
        memcpy(data, manual, sizeof manual - 1);
        const char *path = put_bytes("mutant", data, mutate(data, sizeof manual - 1, sizeof data));
        if (read_graph(path, &graph) == SL_OK) {
            bool symmetric;
            for (uint64_t e = 0; e < graph.n_edges; e++) {
                assert_true(graph.sources[e] < graph.n_vertices);
            }
            assert_ok(sl_graph_is_symmetric(&graph, &symmetric));
            assert_true(symmetric);
            sl_graph_free(&graph);
        }
    }
}

static int nothing_left(void **state)
{
    (void)state;
    return sl_memory_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_folder(reads_graphs),  with_folder(says_what_is_unused), with_folder(refuses_bad_graphs),
        with_folder(writes_graphs), with_folder(writes_parts),        with_folder(survives_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
