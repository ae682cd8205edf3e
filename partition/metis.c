/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The call of METIS: its graph, its constraints, and the capture of its output. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "partition/metis.h"

#include <metis.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/minmax.h"

#define MAX_CONSTRAINTS 4
/* Below, clusters are cut by recursive bisection, as METIS's manual advises. */
#define FEW_PARTS 8
#define IMBALANCE ((real_t)1.03)

/* The graph in METIS's types. */
struct problem {
    idx_t n_vertices;
    idx_t n_constraints;
    idx_t *offsets;    /* N + 1 */
    idx_t *neighbours; /* each undirected edge twice, no self loops */
    idx_t *edges;      /* that a neighbour stands for; NULL: one */
    idx_t *weights;    /* N x n_constraints */
    idx_t *parts;      /* N */
};

static void free_problem(struct problem *problem)
{
    sl_free(problem->offsets);
    sl_free(problem->neighbours);
    sl_free(problem->edges);
    sl_free(problem->weights);
    sl_free(problem->parts);
}

/* ---- The graph --------------------------------------------------------------------------------------------------- */

/* The union of the graph and its reverse. */
static enum sl_status make_undirected(const struct sl_graph *graph, struct sl_graph *out)
{
    sl_vertex *from;
    sl_vertex *to;
    uint64_t n;
    SL_CHECK(sl_graph_list_edges(graph, false, &n, &from, &to));
    enum sl_status st = sl_graph_build(graph->n_vertices, n, from, to, NULL, true, out);
    sl_free(from);
    sl_free(to);
    return st;
}

static enum sl_status fill_graph(const struct sl_graph *graph, struct problem *problem)
{
    SL_CHECK(sl_alloc((size_t)graph->n_vertices + 1, sizeof *problem->offsets, "METIS offsets", &problem->offsets));
    SL_CHECK(sl_alloc(graph->n_edges, sizeof *problem->neighbours, "METIS edges", &problem->neighbours));
    idx_t e = 0;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        problem->offsets[v] = e;
        for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
            if (graph->sources[i] != v) {
                problem->neighbours[e++] = (idx_t)graph->sources[i];
            }
        }
    }
    problem->offsets[graph->n_vertices] = e;
    return SL_OK;
}

enum sl_status sl_metis_undirected(const struct sl_graph *graph, struct sl_graph *both, const struct sl_graph **out)
{
    bool symmetric;
    SL_CHECK(sl_graph_is_symmetric(graph, &symmetric));
    *out = symmetric ? graph : both;
    return symmetric ? SL_OK : make_undirected(graph, both);
}

uint64_t sl_metis_most_edges(void)
{
    return IDX_MAX;
}

static enum sl_status make_graph(const struct sl_graph *graph, struct problem *problem)
{
    SL_OWNED(sl_graph_free) struct sl_graph both = {0};
    const struct sl_graph *undirected;
    SL_CHECK(sl_metis_undirected(graph, &both, &undirected));
    SL_FAIL_IF(undirected->n_edges >= IDX_MAX, SL_EMETIS,
               "METIS was built with integers of %d bits, too few for this graph; try --partition stream",
               IDXTYPEWIDTH);
    return fill_graph(undirected, problem);
}

/* ---- The constraints --------------------------------------------------------------------------------------------- */

/* Omit a constraint with all weights zero: METIS would only lose time. */
static enum sl_status make_weights(const struct sl_dataset *dataset, struct problem *problem)
{
    const struct sl_graph *graph = &dataset->graph;
    bool degrees = graph->n_edges > 0;
    bool train = dataset->train.n > 0;
    bool valid = dataset->valid.n > 0;
    idx_t n = 1 + degrees + train + valid;
    size_t count = (size_t)graph->n_vertices * MAX_CONSTRAINTS;
    SL_CHECK(sl_alloc_zero(count, sizeof *problem->weights, "METIS weights", &problem->weights));
    problem->n_constraints = n;
    for (uint64_t v = 0; v < graph->n_vertices; v++) {
        problem->weights[v * (uint64_t)n] = 1;
        if (degrees) {
            problem->weights[v * (uint64_t)n + 1] = (idx_t)(graph->offsets[v + 1] - graph->offsets[v]);
        }
    }
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        problem->weights[dataset->train.ids[i] * (uint64_t)n + 1 + degrees] = 1;
    }
    for (uint32_t i = 0; i < dataset->valid.n; i++) {
        problem->weights[dataset->valid.ids[i] * (uint64_t)n + 1 + degrees + train] = 1;
    }
    return SL_OK;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

/* Standard output and error, redirected to a file in memory. */
struct capture {
    int file; /* negative: nothing is redirected */
    int kept[2];
};

static void start_capture(struct capture *capture)
{
    fflush(NULL);
    capture->file = memfd_create("metis", MFD_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        capture->kept[i] = -1;
        if (capture->file >= 0) {
            capture->kept[i] = dup(i + 1);
        }
        if (capture->kept[i] >= 0) {
            dup2(capture->file, i + 1);
        }
    }
}

/* Restore both streams. `output` gets the first line of the captured text. */
static void end_capture(struct capture *capture, char *output, size_t bytes)
{
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2; i++) {
        if (capture->kept[i] >= 0) {
            dup2(capture->kept[i], i + 1);
            close(capture->kept[i]);
        }
    }
    ssize_t n = 0;
    if (capture->file >= 0) {
        n = pread(capture->file, output, bytes - 1, 0);
        close(capture->file);
    }
    output[n > 0 ? n : 0] = '\0';
    output[strcspn(output, "\n")] = '\0';
}

static enum sl_status call(struct problem *problem, idx_t n_parts, uint32_t n_tries, uint64_t seed)
{
    idx_t options[METIS_NOPTIONS];
    real_t imbalance[MAX_CONSTRAINTS] = {IMBALANCE, IMBALANCE, IMBALANCE, IMBALANCE};
    idx_t objective = 0;
    char output[200];
    struct capture capture;
    const bool by_halves = problem->edges != NULL && n_parts < FEW_PARTS;
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_CUT;
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = (idx_t)(seed & 0x7fffffff);
    options[METIS_OPTION_NCUTS] = (idx_t)n_tries;
    start_capture(&capture);
    int code = (by_halves ? METIS_PartGraphRecursive : METIS_PartGraphKway)(
        &problem->n_vertices, &problem->n_constraints, problem->offsets, problem->neighbours, problem->weights, NULL,
        problem->edges, &n_parts, NULL, imbalance, options, &objective, problem->parts);
    end_capture(&capture, output, sizeof output);
    if (code == METIS_OK) {
        return SL_OK;
    }
    const char *instead = problem->edges == NULL ? "stream" : "random";
    SL_FAIL_IF(code == METIS_ERROR_MEMORY, SL_ENOMEM,
               "METIS: no memory to cut the graph into %ld parts; try --partition %s", (long)n_parts, instead);
    return sl_fail(SL_EMETIS, "METIS cannot cut the graph into %ld parts (code %d: %s); try --partition random",
                   (long)n_parts, code, output[0] != '\0' ? output : "no reason given");
}

static enum sl_status solve(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, struct problem *problem)
{
    uint32_t n = dataset->graph.n_vertices;
    SL_CHECK(make_graph(&dataset->graph, problem));
    SL_CHECK(make_weights(dataset, problem));
    SL_CHECK(sl_alloc_zero(n, sizeof *problem->parts, "METIS parts", &problem->parts));
    problem->n_vertices = (idx_t)n;
    const uint64_t bytes = (uint64_t)problem->offsets[n] * (SL_METIS_EDGE_BYTES - sizeof *problem->neighbours);
    SL_CHECK(sl_memory_check(bytes, "METIS"));
    sl_memory_hold("METIS", bytes);
    enum sl_status st = call(problem, (idx_t)n_parts, 1, seed);
    sl_memory_release("METIS", bytes);
    return st;
}

static enum sl_status read_parts(const struct problem *problem, uint32_t n_parts, uint32_t *parts)
{
    for (idx_t v = 0; v < problem->n_vertices; v++) {
        const idx_t part = problem->parts[v];
        SL_FAIL_IF(part < 0 || (uint32_t)part >= n_parts, SL_EMETIS, "METIS put vertex %ld into part %ld of %u",
                   (long)v, (long)part, n_parts);
        parts[v] = (uint32_t)part;
    }
    return SL_OK;
}

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

/* By how many bits numbers of this sum must be shortened, so that METIS can add them up. */
static int excess_bits(uint64_t sum)
{
    int bits = 0;
    while (sum >> bits > IDX_MAX / 4) {
        bits++;
    }
    return bits;
}

static enum sl_status fill_clusters(const struct sl_cluster_graph *graph, struct problem *problem)
{
    const uint64_t n_neighbours = graph->offsets[graph->n];
    uint64_t total[SL_N_LOADS] = {0}, n_edges = 0;
    SL_CHECK(sl_alloc((size_t)graph->n + 1, sizeof *problem->offsets, "METIS offsets", &problem->offsets));
    SL_CHECK(sl_alloc(n_neighbours, sizeof *problem->neighbours, "METIS edges", &problem->neighbours));
    SL_CHECK(sl_alloc(n_neighbours, sizeof *problem->edges, "METIS edges", &problem->edges));
    SL_CHECK(
        sl_alloc((size_t)graph->n * MAX_CONSTRAINTS, sizeof *problem->weights, "METIS weights", &problem->weights));
    SL_CHECK(sl_alloc_zero(graph->n, sizeof *problem->parts, "METIS parts", &problem->parts));
    for (uint32_t q = 0; q < graph->n; q++) {
        for (int k = 0; k < SL_N_LOADS; k++) {
            total[k] += graph->loads[q][k];
        }
    }
    for (uint64_t e = 0; e < n_neighbours; e++) {
        n_edges += graph->edges[e];
    }
    const int edge_bits = excess_bits(n_edges);
    for (uint64_t e = 0; e < n_neighbours; e++) {
        problem->neighbours[e] = (idx_t)graph->neighbours[e];
        problem->edges[e] = (idx_t)sl_max_u32(graph->edges[e] >> edge_bits, 1);
    }
    idx_t *weight = problem->weights;
    for (uint32_t q = 0; q < graph->n; q++) {
        problem->offsets[q] = (idx_t)graph->offsets[q];
        for (int k = 0; k < SL_N_LOADS; k++) {
            if (total[k] > 0) { /* METIS would only lose time */
                *weight++ = (idx_t)(graph->loads[q][k] >> excess_bits(total[k]));
            }
        }
    }
    problem->offsets[graph->n] = (idx_t)n_neighbours;
    problem->n_vertices = (idx_t)graph->n;
    problem->n_constraints = (idx_t)((weight - problem->weights) / graph->n);
    return SL_OK;
}

enum sl_status sl_metis_cut(const struct sl_cluster_graph *graph, uint32_t n_parts, uint32_t n_tries, uint64_t seed,
                            uint32_t *parts)
{
    SL_OWNED(free_problem) struct problem problem = {0};
    SL_FAIL_IF(
        graph->n >= IDX_MAX || graph->offsets[graph->n] >= IDX_MAX, SL_EMETIS,
        "METIS was built with integers of %d bits, too few for the graph of the clusters; try --partition random",
        IDXTYPEWIDTH);
    SL_CHECK(fill_clusters(graph, &problem));
    SL_CHECK(call(&problem, (idx_t)n_parts, n_tries, seed));
    return read_parts(&problem, n_parts, parts);
}

/* ---- The dataset's graph ----------------------------------------------------------------------------------------- */

enum sl_status sl_metis_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts)
{
    SL_OWNED(free_problem) struct problem problem = {0};
    SL_FAIL_IF(
        dataset->graph.n_vertices >= IDX_MAX || dataset->graph.n_edges >= IDX_MAX, SL_EMETIS,
        "METIS was built with integers of %d bits, too few for %u vertices and %llu edges; try --partition stream",
        IDXTYPEWIDTH, dataset->graph.n_vertices, (unsigned long long)dataset->graph.n_edges);
    SL_CHECK(solve(dataset, n_parts, seed, &problem));
    return read_parts(&problem, n_parts, parts);
}
