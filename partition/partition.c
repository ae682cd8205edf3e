/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * From parts to the renumbered graph. metis.c calls METIS, cache.c has the file of parts. */
#include "partition/partition.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/cache.h"
#include "partition/metis.h"
#include "partition/stream.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"
#include "support/random.h"

#define MAX_PARTS 65535
#define GRAIN 1024           /* vertices whose lists one thread renumbers at a time */
#define STRETCH (16 * GRAIN) /* vertices between two releases of pages in low-memory mode */

/* A vertex's list in the split. */
enum stratum { STRATUM_TRAIN, STRATUM_VALID, STRATUM_TEST, STRATUM_REST, N_STRATA };

/* ---- Choosing the parts ------------------------------------------------------------------------------------------ */

static void mark(struct sl_ticket *tickets, const struct sl_ids *ids, enum stratum stratum)
{
    for (uint32_t i = 0; i < ids->n; i++) {
        tickets[ids->ids[i]].group = stratum;
    }
}

/* Shuffle each stratum, and deal the strata one after another round-robin to the parts. The parts' sizes then differ
 * by at most one, in each stratum and in all. */
static enum sl_status choose_at_random(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed,
                                       uint32_t *parts)
{
    uint32_t n = dataset->graph.n_vertices;
    /* hop 255 keeps these numbers apart from the generator's. */
    struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GENERATOR, .hop = 255};
    struct sl_ticket *tickets;
    SL_CHECK(sl_alloc(n, sizeof *tickets, "a random partition", &tickets));
    for (uint32_t v = 0; v < n; v++) {
        tickets[v] = (struct sl_ticket){.group = STRATUM_REST, .item = v, .key = sl_random_u64(&draw, v, 0)};
    }
    mark(tickets, &dataset->train, STRATUM_TRAIN);
    mark(tickets, &dataset->valid, STRATUM_VALID);
    mark(tickets, &dataset->test, STRATUM_TEST);
    qsort(tickets, n, sizeof *tickets, sl_order_tickets);
    for (uint32_t i = 0; i < n; i++) {
        parts[tickets[i].item] = i % n_parts;
    }
    sl_free(tickets);
    return SL_OK;
}

/* ---- parts of few vertices ----
 *
 * METIS leaves parts empty if parts are small. Single vertices then move from the largest part to the smallest one. */

#define SMALL_PART 64 /* mean vertices of a part, at most: larger parts are as METIS made them, unless one is empty */
#define MOST_OF_MEAN 1.3

struct sizes {
    uint32_t n_parts;
    uint32_t *of;    /* vertices by part */
    uint32_t *first; /* by part, its last vertex; SL_NONE: empty */
    uint32_t *next;  /* by vertex, the one before it in its part */
};

static enum sl_status list_parts(uint32_t n, const uint32_t *parts, struct sizes *out)
{
    SL_CHECK(sl_alloc_zero(out->n_parts, sizeof *out->of, "vertices by part", &out->of));
    SL_CHECK(sl_alloc(out->n_parts, sizeof *out->first, "vertices by part", &out->first));
    SL_CHECK(sl_alloc(n, sizeof *out->next, "vertices by part", &out->next));
    memset(out->first, 0xff, out->n_parts * sizeof *out->first); /* SL_NONE */
    for (uint32_t v = 0; v < n; v++) {
        out->of[parts[v]]++;
        out->next[v] = out->first[parts[v]];
        out->first[parts[v]] = v;
    }
    return SL_OK;
}

static void free_sizes(struct sizes *sizes)
{
    sl_free(sizes->of);
    sl_free(sizes->first);
    sl_free(sizes->next);
}

/* In-edges of v from part `to`, less those from part `from`. */
static int64_t gain(const struct sl_graph *graph, const uint32_t *parts, uint32_t v, uint32_t from, uint32_t to)
{
    int64_t sum = 0;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        const uint32_t part = parts[graph->sources[e]];
        sum += (part == to) - (part == from && graph->sources[e] != v);
    }
    return sum;
}

/* Of the vertices of a part, where the list has the one whose move costs the fewest cut edges. */
static uint32_t *find_cheapest(const struct sl_graph *graph, uint32_t from, uint32_t to, const uint32_t *parts,
                               const struct sizes *sizes)
{
    uint32_t *best = &sizes->first[from];
    int64_t most = INT64_MIN;
    for (uint32_t *at = best; *at != SL_NONE; at = &sizes->next[*at]) {
        const int64_t found = gain(graph, parts, *at, from, to);
        if (found > most) {
            most = found;
            best = at;
        }
    }
    return best;
}

/* at: where the list of part `from` has the vertex. */
static void move(uint32_t *at, uint32_t from, uint32_t to, uint32_t *parts, const struct sizes *sizes)
{
    const uint32_t v = *at;
    *at = sizes->next[v];
    sizes->next[v] = sizes->first[to];
    sizes->first[to] = v;
    parts[v] = to;
    sizes->of[from]--;
    sizes->of[to]++;
}

/* Move vertices until no part is empty and, if parts are small, until none is larger than MOST_OF_MEAN of the mean. */
static enum sl_status even_out(const struct sl_graph *graph, uint32_t n_parts, uint32_t *parts)
{
    const uint32_t n = graph->n_vertices;
    const double mean = (double)n / n_parts;
    SL_OWNED(free_sizes) struct sizes sizes = {.n_parts = n_parts};
    SL_CHECK(list_parts(n, parts, &sizes));
    for (;;) {
        uint32_t least = 0, most = 0;
        for (uint32_t q = 1; q < n_parts; q++) {
            least = sizes.of[q] < sizes.of[least] ? q : least;
            most = sizes.of[q] > sizes.of[most] ? q : most;
        }
        const bool even = sizes.of[most] <= fmax(ceil(mean), MOST_OF_MEAN * mean);
        if (sizes.of[least] > 0 && (even || mean > SMALL_PART)) {
            return SL_OK;
        }
        if (mean <= SMALL_PART) {
            move(find_cheapest(graph, most, least, parts, &sizes), most, least, parts, &sizes);
        } else { /* an empty part takes half of the largest one */
            for (uint32_t n_moved = sizes.of[most] / 2; n_moved > 0; n_moved--) {
                move(&sizes.first[most], most, least, parts, &sizes);
            }
        }
    }
}

static enum sl_status choose(const struct sl_dataset *dataset, enum sl_partition_method method, uint32_t n_parts,
                             uint64_t seed, uint32_t *parts)
{
    const uint32_t n = dataset->graph.n_vertices;
    if (method == SL_PARTITION_RANDOM) {
        return choose_at_random(dataset, n_parts, seed, parts);
    }
    if (method == SL_PARTITION_NONE || n <= n_parts) { /* equal ranges of the dataset's order */
        const uint32_t n_ranges = method == SL_PARTITION_NONE ? n_parts : n;
        for (uint64_t v = 0; v < n; v++) {
            parts[v] = (uint32_t)(v * n_ranges / n);
        }
        return SL_OK;
    }
    if (method == SL_PARTITION_STREAM) {
        SL_CHECK(sl_stream_partition(dataset, n_parts, seed, parts));
    } else {
        SL_CHECK(sl_metis_partition(dataset, n_parts, seed, parts));
    }
    return even_out(&dataset->graph, n_parts, parts);
}

/* Choose the pieces, or read them from the cache file. A failed write of the cache file is no failure. */
static enum sl_status choose_or_read(const struct sl_dataset *dataset, const struct sl_partition_rule *rule,
                                     uint32_t n_pieces, uint32_t *pieces)
{
    uint32_t n_vertices = dataset->graph.n_vertices;
    const char *file = rule->cache_file;
    uint64_t key = 0;
    if (file != NULL) {
        key = sl_cache_parts_key(dataset, (int)rule->method, n_pieces, rule->seed);
        if (sl_cache_read_parts(file, key, n_vertices, n_pieces, pieces)) {
            return SL_OK;
        }
    }
    SL_CHECK(choose(dataset, rule->method, n_pieces, rule->seed, pieces));
    if (file != NULL) {
        sl_cache_write_parts(file, key, n_vertices, n_pieces, pieces);
    }
    return SL_OK;
}

/* ---- Renumbering ------------------------------------------------------------------------------------------------- */

#define NO_ID UINT32_MAX

/* Give vertex v the next id of its piece. next[k] is the next id of piece k. */
static void assign_id(const uint32_t *pieces, sl_vertex v, uint32_t *next, struct sl_partition *partition)
{
    uint32_t id = next[pieces[v]]++;
    partition->new_ids[v] = id;
    partition->dataset_ids[id] = v;
}

/* Give ids to all vertices reachable from the id `from` inside its piece. `from` is the last id of the piece so
 * far. */
static void assign_reached(const struct sl_graph *graph, const uint32_t *pieces, uint32_t from, uint32_t *next,
                           struct sl_partition *partition)
{
    uint32_t piece = pieces[partition->dataset_ids[from]];
    for (uint32_t id = from; id < next[piece]; id++) {
        sl_vertex v = partition->dataset_ids[id];
        for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
            sl_vertex u = graph->sources[i];
            if (pieces[u] == piece && partition->new_ids[u] == NO_ID) {
                assign_id(pieces, u, next, partition);
            }
        }
    }
}

/* Number the vertices piece by piece: within a piece in the dataset's order, or breadth first. */
static void number(const struct sl_graph *graph, const uint32_t *pieces, bool breadth_first,
                   struct sl_partition *partition)
{
    uint32_t *next = partition->piece; /* all zero */
    uint32_t per_part = partition->n_pieces / partition->n_parts;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        next[pieces[v] + 1]++;
        partition->new_ids[v] = NO_ID;
    }
    for (uint32_t k = 0; k < partition->n_pieces; k++) {
        next[k + 1] += next[k];
    }
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        if (partition->new_ids[v] != NO_ID) {
            continue;
        }
        assign_id(pieces, v, next, partition);
        if (breadth_first) {
            assign_reached(graph, pieces, partition->new_ids[v], next, partition);
        }
    }
    /* Each entry is now the start of the next piece. */
    memmove(next + 1, next, partition->n_pieces * sizeof *next);
    next[0] = 0;
    for (uint32_t q = 0; q <= partition->n_parts; q++) {
        partition->first[q] = partition->piece[q * per_part];
    }
}

/* The graph in old and in new numbers. The new offsets are known. */
struct renumbering {
    const struct sl_dataset *dataset;
    const struct sl_partition *partition;
    const uint32_t *parts;
    uint64_t first;         /* id of a loop's first index */
    sl_vertex *sources;     /* lists of the new graph; NULL: the part is not held */
    _Atomic uint64_t n_cut; /* edges between parts, so far */
};

static void renumber_lists(void *context, uint64_t begin, uint64_t end)
{
    struct renumbering *r = context;
    const struct sl_partition *partition = r->partition;
    const struct sl_graph *old = &r->dataset->graph;
    uint64_t n_cut = 0;
    for (uint64_t id = r->first + begin; id < r->first + end; id++) {
        sl_vertex v = partition->dataset_ids[id];
        sl_vertex *list = r->sources == NULL ? NULL : r->sources + partition->graph.offsets[id];
        if (list != NULL) {
            sl_graph_copy_edges(old, old->offsets[v], old->offsets[v + 1] - old->offsets[v], &partition->graph,
                                partition->graph.offsets[id]);
        }
        for (uint64_t i = old->offsets[v]; i < old->offsets[v + 1]; i++) {
            sl_vertex u = old->sources[i];
            if (list != NULL) {
                *list++ = partition->new_ids[u];
            }
            n_cut += r->parts[u] != r->parts[v];
        }
    }
    atomic_fetch_add(&r->n_cut, n_cut);
}

/* Set the offsets of part q's lists, from `begin` on. Returns the end of the last list. */
static uint64_t find_offsets(const struct sl_graph *old, uint32_t q, bool is_held, uint64_t begin,
                             struct sl_partition *partition)
{
    uint64_t *offsets = partition->graph.offsets;
    for (uint32_t id = partition->first[q]; id < partition->first[q + 1]; id++) {
        sl_vertex v = partition->dataset_ids[id];
        if (is_held) {
            offsets[id] = begin;
        }
        begin += old->offsets[v + 1] - old->offsets[v];
    }
    return begin;
}

/* Copy the graph in new numbers, with each list in its old order. Count the edges between parts. */
static void renumber(const struct sl_dataset *dataset, const uint32_t *parts, const bool *held,
                     struct sl_partition *partition)
{
    struct renumbering r = {.dataset = dataset, .partition = partition, .parts = parts};
    uint64_t n_edges = 0;
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        uint64_t end = partition->first[q + 1];
        bool is_held = held == NULL || held[q];
        partition->graph.offsets[partition->first[q]] = n_edges;
        n_edges = find_offsets(&dataset->graph, q, is_held, n_edges, partition);
        partition->graph.offsets[end] = n_edges;
        r.sources = is_held ? partition->graph.sources : NULL;
        for (r.first = partition->first[q]; r.first < end; r.first += STRETCH) {
            uint64_t n = sl_min_u64(end - r.first, STRETCH);
            sl_parallel_for(n, GRAIN, renumber_lists, &r);
            sl_dataset_drop_pages(dataset);
        }
    }
    partition->n_cut = atomic_load(&r.n_cut);
}

/* ---- Balance ----------------------------------------------------------------------------------------------------- */

/* Largest load over mean load; 1 if all loads are zero. */
static double largest_over_mean(const uint64_t *loads, uint32_t n_parts)
{
    uint64_t sum = 0;
    uint64_t most = 0;
    for (uint32_t q = 0; q < n_parts; q++) {
        sum += loads[q];
        most = sl_max_u64(loads[q], most);
    }
    return sum == 0 ? 1 : (double)most * n_parts / (double)sum;
}

static double list_balance(const struct sl_ids *ids, const uint32_t *parts, uint32_t n_parts, uint64_t *loads)
{
    memset(loads, 0, n_parts * sizeof *loads);
    for (uint32_t i = 0; i < ids->n; i++) {
        loads[parts[ids->ids[i]]]++;
    }
    return largest_over_mean(loads, n_parts);
}

static enum sl_status set_balance(const struct sl_dataset *dataset, const uint32_t *parts,
                                  struct sl_partition *partition)
{
    uint32_t n_parts = partition->n_parts;
    const uint32_t *first = partition->first;
    uint64_t *loads;
    SL_CHECK(sl_alloc(n_parts, sizeof *loads, "partition loads", &loads));
    for (uint32_t q = 0; q < n_parts; q++) {
        loads[q] = first[q + 1] - first[q];
    }
    partition->balance[0] = largest_over_mean(loads, n_parts);
    for (uint32_t q = 0; q < n_parts; q++) {
        loads[q] = partition->graph.offsets[first[q + 1]] - partition->graph.offsets[first[q]];
    }
    partition->balance[1] = largest_over_mean(loads, n_parts);
    partition->balance[2] = list_balance(&dataset->train, parts, n_parts, loads);
    partition->balance[3] = list_balance(&dataset->valid, parts, n_parts, loads);
    sl_free(loads);
    return SL_OK;
}

/* ---- Making a partition ------------------------------------------------------------------------------------------ */

static enum sl_status allocate(const struct sl_graph *graph, uint32_t n_parts, uint32_t n_pieces,
                               struct sl_partition *out)
{
    size_t n = graph->n_vertices;
    out->n_parts = n_parts;
    out->n_pieces = n_pieces;
    out->graph.n_vertices = graph->n_vertices;
    out->graph.n_edges = graph->n_edges;
    SL_CHECK(sl_alloc_zero((size_t)n_parts + 1, sizeof *out->first, "partition", &out->first));
    SL_CHECK(sl_alloc_zero((size_t)n_pieces + 1, sizeof *out->piece, "partition", &out->piece));
    SL_CHECK(sl_alloc(n, sizeof *out->dataset_ids, "partition", &out->dataset_ids));
    SL_CHECK(sl_alloc(n, sizeof *out->new_ids, "partition", &out->new_ids));
    SL_CHECK(sl_alloc_zero(n + 1, sizeof *out->graph.offsets, "graph offsets", &out->graph.offsets));
    out->graph.n_relations = graph->relations != NULL ? graph->n_relations : 0;
    return sl_graph_alloc_edges(graph->n_edges, graph, &out->graph);
}

/* `parts` holds the piece of each vertex on entry, and its part on return. */
static enum sl_status make_from_pieces(const struct sl_dataset *dataset, const struct sl_partition_rule *rule,
                                       uint32_t n_pieces, uint32_t *parts, struct sl_partition *out)
{
    const struct sl_graph *graph = &dataset->graph;
    SL_OWNED(sl_partition_free) struct sl_partition made = {0};
    SL_CHECK(allocate(graph, rule->n_parts, n_pieces, &made));
    number(graph, parts, rule->of_pieces, &made);
    sl_dataset_drop_pages(dataset);
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        parts[v] /= n_pieces / rule->n_parts;
    }
    renumber(dataset, parts, rule->held, &made);
    SL_CHECK(set_balance(dataset, parts, &made));
    *out = SL_TAKE(made);
    return SL_OK;
}

uint32_t sl_partition_pieces(enum sl_partition_method method, uint32_t n_vertices, uint32_t n_parts)
{
    bool runs = method == SL_PARTITION_METIS && n_parts > 0 && SL_PARTITION_PIECES % n_parts == 0 &&
                n_vertices >= SL_PARTITION_PIECES * SL_PARTITION_PIECES;
    return runs ? SL_PARTITION_PIECES : n_parts;
}

enum sl_status sl_partition_make(const struct sl_dataset *dataset, const struct sl_partition_rule *rule,
                                 struct sl_partition *out)
{
    const uint32_t n = dataset->graph.n_vertices;
    uint32_t n_pieces = rule->n_parts;
    SL_FREED uint32_t *parts = NULL;
    *out = (struct sl_partition){0};
    SL_FAIL_IF(rule->n_parts == 0 || rule->n_parts > MAX_PARTS, SL_EINVAL,
               "partition: expected 1 to %d parts, found %u", MAX_PARTS, rule->n_parts);
    if (rule->n_parts > n) {
        sl_notify(SL_NOTICE_WARNING, "%.200s: found %u vertices for %u parts: %u parts are empty", dataset->name, n,
                  rule->n_parts, rule->n_parts - n);
    }
    if (rule->of_pieces) {
        n_pieces = sl_partition_pieces(rule->method, n, rule->n_parts);
    }
    SL_CHECK(sl_alloc_zero(n, sizeof *parts, "parts", &parts));
    if (n_pieces > 1) {
        SL_CHECK(choose_or_read(dataset, rule, n_pieces, parts));
    }
    return make_from_pieces(dataset, rule, n_pieces, parts, out);
}

void sl_partition_free(struct sl_partition *partition)
{
    sl_free(partition->first);
    sl_free(partition->piece);
    sl_free(partition->dataset_ids);
    sl_free(partition->new_ids);
    sl_graph_free(&partition->graph);
    *partition = (struct sl_partition){0};
}
