/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * METIS's files, read with every number checked. */
#include "data/metis_file.h"

#include <stdio.h>
#include <string.h>

#include "data/number.h"
#include "data/text_lines.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/status.h"

#define MAX_CONSTRAINTS 64

/* A .graph file being read, line by line. */
struct reader {
    struct sl_text text;
    /* the first line */
    uint64_t n_vertices;
    uint64_t n_edges;
    bool sizes, weights, edge_weights;
    uint64_t n_constraints;
    /* the edges so far */
    uint64_t n;
    sl_vertex *from;
    sl_vertex *to;
    float *edge_weight; /* NULL: the file has none */
};

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

/* The next line except comments. */
static bool next_line(struct reader *reader, const char **start, const char **stop)
{
    bool there = sl_text_next(&reader->text, start, stop);
    while (there && *start < *stop && **start == '%') {
        there = sl_text_next(&reader->text, start, stop);
    }
    return there;
}

/* Read the next number of a line. Returns 1; 0 at the line's end; -1 before any other text. */
static int next_number(const char **p, const char *stop, uint64_t *out)
{
    const char *next = sl_text_skip_blanks(*p, stop);
    if (next == stop) {
        return 0;
    }
    next = sl_number_u64(next, stop, out);
    if (next == NULL || (next < stop && !sl_text_is_blank(*next))) {
        return -1;
    }
    *p = next;
    return 1;
}

/* ---- Reading a graph --------------------------------------------------------------------------------------------- */

/* Three digits: vertex sizes, vertex weights, edge weights. */
static bool set_format(struct reader *reader, uint64_t format)
{
    reader->sizes = format / 100 % 10 == 1;
    reader->weights = format / 10 % 10 == 1;
    reader->edge_weights = format % 10 == 1;
    return format <= 111 && format / 10 % 10 <= 1 && format % 10 <= 1;
}

static enum sl_status read_head(struct reader *reader)
{
    const char *start = NULL;
    const char *stop = NULL;
    uint64_t numbers[4] = {0};
    uint64_t surplus;
    int n = 0;
    int found = 0;
    while (next_line(reader, &start, &stop) && sl_text_skip_blanks(start, stop) == stop) {
    }
    while (n < 4 && start != NULL && (found = next_number(&start, stop, &numbers[n])) == 1) {
        n++;
    }
    if (found < 0 || n < 2 || next_number(&start, stop, &surplus) != 0) {
        return sl_text_refuse(&reader->text, "'vertices edges [format [constraints]]'");
    }
    reader->n_vertices = numbers[0];
    reader->n_edges = numbers[1];
    reader->n_constraints = n == 4 ? numbers[3] : 1;
    if (!set_format(reader, numbers[2]) || reader->n_constraints > MAX_CONSTRAINTS) {
        return sl_text_refuse(&reader->text, "a format of three digits 0 or 1, and at most 64 constraints");
    }
    /* A vertex takes a line and a neighbour two characters, so the file's length bounds both numbers. */
    uint64_t bytes = (uint64_t)(reader->text.end - reader->text.p) + 1;
    if (reader->n_vertices >= SL_NONE || reader->n_vertices > bytes || reader->n_edges > bytes / 4) {
        return sl_fail(SL_EFILE, "%s:%llu: %llu vertices and %llu edges do not fit the %llu bytes that follow",
                       reader->text.path, (unsigned long long)reader->text.line, (unsigned long long)reader->n_vertices,
                       (unsigned long long)reader->n_edges, (unsigned long long)bytes - 1);
    }
    return SL_OK;
}

/* Skip the sizes and weights before a vertex's neighbours. */
static bool skip_weights(const struct reader *reader, const char **p, const char *stop)
{
    uint64_t n = reader->sizes + (reader->weights ? reader->n_constraints : 0);
    uint64_t weight;
    for (uint64_t i = 0; i < n; i++) {
        if (next_number(p, stop, &weight) != 1) {
            return false;
        }
    }
    return true;
}

static enum sl_status read_neighbours(struct reader *reader, sl_vertex v, const char *p, const char *stop)
{
    uint64_t neighbour;
    uint64_t weight = 1;
    int found;
    if (!skip_weights(reader, &p, stop)) {
        return sl_text_refuse(&reader->text, "the vertex's weights");
    }
    while ((found = next_number(&p, stop, &neighbour)) == 1) {
        if (neighbour == 0 || neighbour > reader->n_vertices) {
            return sl_fail(SL_EFILE, "%s:%llu: expected neighbours of 1 to %llu, found %llu", reader->text.path,
                           (unsigned long long)reader->text.line, (unsigned long long)reader->n_vertices,
                           (unsigned long long)neighbour);
        }
        if (reader->edge_weights && next_number(&p, stop, &weight) != 1) {
            return sl_text_refuse(&reader->text, "a weight behind each neighbour");
        }
        if (reader->n == 2 * reader->n_edges) {
            return sl_text_refuse(&reader->text,
                                  "no more neighbours: there are twice as many already as the first line has edges");
        }
        if (reader->edge_weights) {
            reader->edge_weight[reader->n] = (float)weight;
        }
        reader->from[reader->n] = (sl_vertex)(neighbour - 1);
        reader->to[reader->n++] = v;
    }
    if (found != 0) {
        return sl_text_refuse(&reader->text, "neighbours separated by blanks");
    }
    return SL_OK;
}

static enum sl_status read_edges(struct reader *reader)
{
    const char *start;
    const char *stop;
    for (uint64_t v = 0; v < reader->n_vertices; v++) {
        bool there = next_line(reader, &start, &stop);
        if (!there && v + 1 < reader->n_vertices) {
            return sl_fail(SL_EFILE, "%s:%llu: expected the lines of %llu vertices, found %llu", reader->text.path,
                           (unsigned long long)reader->text.line + 1, (unsigned long long)reader->n_vertices,
                           (unsigned long long)v);
        }
        if (there) {
            enum sl_status st = read_neighbours(reader, (sl_vertex)v, start, stop);
            if (st != SL_OK) {
                return st;
            }
        }
    }
    while (next_line(reader, &start, &stop)) {
        if (sl_text_skip_blanks(start, stop) != stop) {
            return sl_text_refuse(&reader->text, "nothing after the last vertex's line");
        }
    }
    return SL_OK;
}

/* Check that every edge is listed from both ends, with the same weight. */
static enum sl_status check_edges(const struct reader *reader)
{
    struct sl_graph graph;
    bool symmetric = false;
    if (reader->n != 2 * reader->n_edges) {
        return sl_fail(SL_EFILE, "%s: expected %llu edges, listed from both ends, found %llu neighbours",
                       reader->text.path, (unsigned long long)reader->n_edges, (unsigned long long)reader->n);
    }
    enum sl_status st = sl_graph_build_weighted((uint32_t)reader->n_vertices, reader->n, reader->from, reader->to,
                                                reader->edge_weight, false, &graph);
    if (st != SL_OK) {
        return st;
    }
    st = sl_graph_is_symmetric(&graph, &symmetric);
    sl_graph_free(&graph);
    if (st == SL_OK && !symmetric) {
        st = sl_fail(SL_EFILE, "%s: expected every edge to be listed from both ends%s, found one that is not",
                     reader->text.path, reader->edge_weights ? " with the same weight" : "");
    }
    return st;
}

/* Hand the edges over. */
static enum sl_status give_edges(struct reader *reader, struct sl_raw *out)
{
    struct sl_raw raw = {.n_vertices = (uint32_t)reader->n_vertices, .n_edges = reader->n};
    enum sl_status st = sl_targets_make_unknown(raw.n_vertices, &raw.targets);
    if (st != SL_OK) {
        return st;
    }
    raw.from = reader->from;
    raw.to = reader->to;
    if (reader->edge_weights) {
        raw.weights = sl_column_take(SL_DTYPE_F32, raw.n_edges, 1, reader->edge_weight);
    }
    reader->from = NULL;
    reader->to = NULL;
    reader->edge_weight = NULL;
    *out = raw;
    return SL_OK;
}

static enum sl_status read_all(struct reader *reader, struct sl_raw *out)
{
    enum sl_status st;
    SL_TRY(st, read_head(reader), done);
    SL_TRY(st, sl_alloc(2 * reader->n_edges, sizeof *reader->from, "edge list", &reader->from), done);
    SL_TRY(st, sl_alloc(2 * reader->n_edges, sizeof *reader->to, "edge list", &reader->to), done);
    if (reader->edge_weights) {
        SL_TRY(st, sl_alloc(2 * reader->n_edges, sizeof(float), "edge weights", &reader->edge_weight), done);
    }
    SL_TRY(st, read_edges(reader), done);
    SL_TRY(st, check_edges(reader), done);
    SL_TRY(st, give_edges(reader, out), done);
    if (reader->sizes || reader->weights) {
        sl_notify(SL_NOTICE_WARNING, "%s: vertex weights and sizes are not used: every vertex counts as one",
                  reader->text.path);
    }
done:
    sl_free(reader->from);
    sl_free(reader->to);
    sl_free(reader->edge_weight);
    return st;
}

enum sl_status sl_metis_read(const char *path, struct sl_raw *out)
{
    struct sl_map map;
    *out = (struct sl_raw){0};
    enum sl_status st = sl_file_map(path, &map);
    if (st != SL_OK) {
        return st;
    }
    const char *text = map.data != NULL ? (const char *)map.data : "";
    struct reader reader = {.text = {.path = path, .p = text, .end = text + map.bytes, .line = 0}};
    st = read_all(&reader, out);
    sl_file_unmap(&map);
    return st;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static void put_graph(FILE *stream, const struct sl_graph *graph)
{
    uint64_t n_loops = 0;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            n_loops += graph->sources[e] == v;
        }
    }
    fprintf(stream, "%u %llu\n", graph->n_vertices, (unsigned long long)(graph->n_edges - n_loops) / 2);
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        const char *blank = "";
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (graph->sources[e] != v) {
                fprintf(stream, "%s%u", blank, graph->sources[e] + 1);
                blank = " ";
            }
        }
        fputc('\n', stream);
    }
}

enum sl_status sl_metis_write_graph(const char *path, const struct sl_graph *graph)
{
    struct sl_writer writer;
    struct sl_graph bare = *graph;
    bool symmetric;
    if (graph->weights.data != NULL) {
        sl_notify(SL_NOTICE_WARNING, "%s: weights of edges are left out: METIS has whole numbers only", path);
    }
    bare.weights = (struct sl_column){0};
    enum sl_status st = sl_graph_is_symmetric(&bare, &symmetric);
    if (st == SL_OK && !symmetric) {
        st = sl_fail(SL_EINVAL, "%s: METIS's graphs are undirected, and this one is not; leave --directed away", path);
    }
    if (st == SL_OK) {
        st = sl_writer_open(path, &writer);
    }
    if (st != SL_OK) {
        return st;
    }
    put_graph(writer.stream, graph);
    return sl_writer_close(&writer);
}

enum sl_status sl_metis_write_parts(const char *path, uint32_t n_vertices, const uint32_t *parts)
{
    struct sl_writer writer;
    enum sl_status st = sl_writer_open(path, &writer);
    if (st != SL_OK) {
        return st;
    }
    for (uint32_t v = 0; v < n_vertices; v++) {
        fprintf(writer.stream, "%u\n", parts[v]);
    }
    return sl_writer_close(&writer);
}
