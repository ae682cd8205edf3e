/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Clusters by label propagation, METIS on the graph of the clusters, then moves of single vertices. */
#include "partition/stream.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "partition/metis.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"

/* Chosen on ogbn-arxiv and on a graph of ogbn-products' size, for 4 and 64 parts (doc/results.md). */
#define CLUSTER_PASSES 3 /* over the vertices, or until one in FEW moves */
#define MOVE_PASSES 4    /* likewise */
#define FEW 200
#define BLOCK 4096          /* vertices whose neighbours are asked at a time, by several threads */
#define GRAIN 256           /* of them by one */
#define NEIGHBOURS 1024     /* of a vertex that a thread asks; the rest is asked one by one */
#define CLUSTERS 300        /* about the least, */
#define CLUSTERS_OF_PART 10 /* and of a part */
#define TRIES 24            /* of METIS, which keeps the best: TRIES / P. Cuts into few parts differ most */
#define ROOM 1.05           /* of a part, in loads of a mean part */

/* Neighbouring clusters or parts of a vertex, and the edges to each of them: a hash table with open addressing. */
struct votes {
    uint32_t n_slots;        /* a power of two */
    uint32_t *place, *count; /* by slot. No votes: the slot is free */
    uint32_t n, *seen;       /* slots in use, in the order in which they were taken */
};

static uint32_t slot_of(const struct votes *votes, uint32_t q)
{
    uint32_t i = q * UINT32_C(2654435761) & (votes->n_slots - 1);
    while (votes->count[i] != 0 && votes->place[i] != q) {
        i = (i + 1) & (votes->n_slots - 1);
    }
    return i;
}

static uint32_t count_votes(const struct votes *votes, uint32_t q)
{
    return votes->count[slot_of(votes, q)];
}

static void forget(struct votes *votes)
{
    for (uint32_t j = 0; j < votes->n; j++) {
        votes->count[votes->seen[j]] = 0;
    }
    votes->n = 0;
}

/* For at most n_seen places at a time. SL_ENOMEM. */
static enum sl_status open_votes(uint32_t n_seen, struct votes *out)
{
    out->n_slots = 2;
    while (out->n_slots / 2 <= n_seen && out->n_slots < UINT32_C(1) << 31) {
        out->n_slots *= 2;
    }
    SL_CHECK(sl_alloc(n_seen, sizeof *out->seen, "neighbouring clusters", &out->seen));
    SL_CHECK(sl_alloc(out->n_slots, sizeof *out->place, "neighbouring clusters", &out->place));
    return sl_alloc_zero(out->n_slots, sizeof *out->count, "edges to clusters", &out->count);
}

static void close_votes(struct votes *votes)
{
    sl_free(votes->seen);
    sl_free(votes->place);
    sl_free(votes->count);
}

/* Each neighbour of v votes for where it is. */
static void ask_neighbours(const struct sl_graph *graph, uint32_t v, const uint32_t *place, struct votes *votes)
{
    for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
        const uint32_t q = place[graph->sources[i]];
        if (graph->sources[i] == v) {
            continue;
        }
        const uint32_t slot = slot_of(votes, q);
        if (votes->count[slot]++ == 0) {
            votes->place[slot] = q;
            votes->seen[votes->n++] = slot;
        }
    }
}

/* What is cut. */
struct problem {
    uint32_t n_vertices, n_parts;
    uint32_t most_neighbours;    /* of a vertex */
    const struct sl_graph *own;  /* the dataset's: its lists are in-edges */
    const struct sl_graph *both; /* undirected: its lists are neighbours */
    uint8_t *sets;               /* by vertex: IN_TRAIN, IN_VALID */
};
enum { IN_TRAIN = 1, IN_VALID = 2 };

static uint32_t in_degree(const struct problem *p, uint32_t v)
{
    return (uint32_t)(p->own->offsets[v + 1] - p->own->offsets[v]);
}

static uint32_t n_neighbours(const struct problem *p, uint32_t v)
{
    return (uint32_t)(p->both->offsets[v + 1] - p->both->offsets[v]);
}

/* What vertex v adds to the loads of its part. */
static void loads_of(const struct problem *p, uint32_t v, uint32_t out[SL_N_LOADS])
{
    out[0] = 1;
    out[1] = in_degree(p, v);
    out[2] = (p->sets[v] & IN_TRAIN) != 0;
    out[3] = (p->sets[v] & IN_VALID) != 0;
}

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

struct clusters {
    uint32_t *of;           /* by vertex */
    uint32_t *size, *edges; /* by cluster: vertices, in-edges */
    uint64_t most_vertices, most_edges;
    struct votes votes;
    uint32_t first, wanted[BLOCK]; /* of a block of vertices */
};

static void close_clusters(struct clusters *c)
{
    close_votes(&c->votes);
    sl_free(c->size);
    sl_free(c->edges);
}

/* Whether cluster q, which has not gone, has room for so many in-edges. */
static bool takes(const struct clusters *c, uint32_t q, uint32_t edges)
{
    return c->size[q] > 0 && c->size[q] < c->most_vertices && (uint64_t)c->edges[q] + edges <= c->most_edges;
}

/* Move vertex v to cluster q, if q has room. Returns whether it moved. */
static bool put(const struct problem *p, uint32_t v, uint32_t q, struct clusters *c)
{
    const uint32_t old = c->of[v];
    const uint32_t edges = in_degree(p, v);
    if (q == old || !takes(c, q, edges)) {
        return false;
    }
    c->size[old]--;
    c->edges[old] -= edges;
    c->of[v] = q;
    c->size[q]++;
    c->edges[q] += edges;
    return true;
}

/* The cluster of most of the neighbours of v that has room, if they are more than in its own. */
static uint32_t favourite(const struct problem *p, uint32_t v, const struct clusters *c, struct votes *votes)
{
    uint32_t best = c->of[v];
    ask_neighbours(p->both, v, c->of, votes);
    uint32_t most = count_votes(votes, best);
    for (uint32_t j = 0; j < votes->n; j++) {
        const uint32_t q = votes->place[votes->seen[j]];
        if (votes->count[votes->seen[j]] > most && takes(c, q, in_degree(p, v))) {
            best = q;
            most = votes->count[votes->seen[j]];
        }
    }
    forget(votes);
    return best;
}

struct asking {
    const struct problem *p;
    struct clusters *c;
};

/* Vertices begin .. end - 1 of a block. Those of many neighbours are left out. */
static void ask_block(void *context, uint64_t begin, uint64_t end)
{
    const struct asking *asking = context;
    struct clusters *c = asking->c;
    uint32_t place[4 * NEIGHBOURS];
    uint32_t count[4 * NEIGHBOURS] = {0};
    uint32_t seen[NEIGHBOURS];
    struct votes votes = {4 * NEIGHBOURS, place, count, 0, seen};
    for (uint64_t i = begin; i < end; i++) {
        const uint32_t v = c->first + (uint32_t)i;
        if (n_neighbours(asking->p, v) <= NEIGHBOURS) {
            c->wanted[i] = favourite(asking->p, v, c, &votes);
        }
    }
}

/* Vertices join the clusters of most of their neighbours. All vertices of a block choose before the first one moves.
 * They move in order, if there is still room. Returns how many moved. */
static uint32_t join(const struct problem *p, struct clusters *c)
{
    uint32_t moved = 0;
    for (uint64_t first = 0; first < p->n_vertices; first += BLOCK) {
        const uint32_t n = (uint32_t)sl_min_u64(BLOCK, p->n_vertices - first);
        c->first = (uint32_t)first;
        sl_parallel_for(n, GRAIN, ask_block, &(struct asking){p, c});
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t v = c->first + i;
            const bool many = n_neighbours(p, v) > NEIGHBOURS;
            moved += put(p, v, many ? favourite(p, v, c, &c->votes) : c->wanted[i], c);
        }
    }
    return moved;
}

/* Join vertices that are still alone. Those with their first neighbours in one cluster, as the leaves of a star, form
 * clusters. So do those without neighbours. */
static enum sl_status gather(const struct problem *p, struct clusters *c)
{
    SL_FREED uint32_t *last = NULL; /* by cluster, and behind them for no cluster: the last cluster of such vertices */
    SL_CHECK(sl_alloc((size_t)p->n_vertices + 1, sizeof *last, "vertices left alone", &last));
    memset(last, 0xff, ((size_t)p->n_vertices + 1) * sizeof *last);
    for (uint32_t v = 0; v < p->n_vertices; v++) {
        const uint64_t end = p->both->offsets[v + 1];
        uint64_t i = p->both->offsets[v];
        uint32_t beside = p->n_vertices;
        if (c->size[c->of[v]] > 1) {
            continue;
        }
        while (i < end && p->both->sources[i] == v) {
            i++;
        }
        if (i < end) {
            beside = c->of[p->both->sources[i]];
        }
        if (last[beside] == UINT32_MAX || !put(p, v, last[beside], c)) {
            last[beside] = c->of[v];
        }
    }
    return SL_OK;
}

/* Number the clusters that have vertices, in the order of their first. Returns how many there are. */
static uint32_t renumber(uint32_t n, struct clusters *c)
{
    uint32_t *number = c->size;
    uint32_t n_clusters = 0;
    memset(number, 0xff, n * sizeof *number);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t *id = &number[c->of[v]];
        if (*id == UINT32_MAX) {
            *id = n_clusters++;
        }
        c->of[v] = *id;
    }
    return n_clusters;
}

/* of: gets the cluster of each vertex. */
static enum sl_status find_clusters(const struct problem *p, uint32_t *of, uint32_t *n_out)
{
    const uint32_t n = p->n_vertices;
    const uint64_t n_least = sl_max_u64(CLUSTERS, (uint64_t)p->n_parts * CLUSTERS_OF_PART);
    SL_OWNED(close_clusters)
    struct clusters c = {.of = of, .most_vertices = n / n_least + 1, .most_edges = p->own->n_edges / n_least + 1};
    SL_CHECK(sl_alloc(n, sizeof *c.size, "vertices of clusters", &c.size));
    SL_CHECK(sl_alloc(n, sizeof *c.edges, "edges of clusters", &c.edges));
    SL_CHECK(open_votes(p->most_neighbours, &c.votes));
    for (uint32_t v = 0; v < n; v++) {
        of[v] = v;
        c.size[v] = 1;
        c.edges[v] = in_degree(p, v);
    }
    uint32_t moved = n;
    for (int pass = 0; pass < CLUSTER_PASSES && moved > n / FEW; pass++) {
        moved = join(p, &c);
    }
    SL_CHECK(gather(p, &c));
    *n_out = renumber(n, &c);
    return SL_OK;
}

/* ---- The graph of the clusters ----------------------------------------------------------------------------------- */

/* The members of each cluster: those of cluster q are members_out[first_out[q]] and on. */
static enum sl_status list_members(uint32_t n, const uint32_t *cluster, uint32_t n_clusters, uint32_t **first_out,
                                   uint32_t **members_out)
{
    SL_CHECK(sl_alloc_zero((size_t)n_clusters + 2, sizeof **first_out, "clusters", first_out));
    SL_CHECK(sl_alloc(n, sizeof **members_out, "members of clusters", members_out));
    uint32_t *next = *first_out + 1;
    for (uint32_t v = 0; v < n; v++) {
        next[cluster[v] + 1]++;
    }
    for (uint32_t q = 0; q < n_clusters; q++) {
        next[q + 1] += next[q];
    }
    for (uint32_t v = 0; v < n; v++) {
        (*members_out)[next[cluster[v]]++] = v;
    }
    return SL_OK;
}

/* Append the list of cluster q, without q. */
static enum sl_status append_list(const struct votes *votes, uint32_t q, uint64_t *capacity, struct sl_cluster_graph *g)
{
    uint64_t e = g->offsets[q];
    if (e + votes->n > *capacity) {
        *capacity = sl_max_u64(2 * *capacity, e + votes->n);
        SL_CHECK(sl_realloc(&g->neighbours, *capacity, sizeof *g->neighbours, "neighbours of clusters"));
        SL_CHECK(sl_realloc(&g->edges, *capacity, sizeof *g->edges, "edges between clusters"));
    }
    for (uint32_t j = 0; j < votes->n; j++) {
        if (votes->place[votes->seen[j]] != q) {
            g->neighbours[e] = votes->place[votes->seen[j]];
            g->edges[e++] = votes->count[votes->seen[j]];
        }
    }
    g->offsets[q + 1] = e;
    return SL_OK;
}

static enum sl_status contract(const struct problem *p, const uint32_t *cluster, struct sl_cluster_graph *out)
{
    SL_FREED uint32_t *first = NULL, *members = NULL;
    SL_OWNED(close_votes) struct votes votes = {0};
    uint64_t capacity = 0;
    SL_CHECK(list_members(p->n_vertices, cluster, out->n, &first, &members));
    SL_CHECK(open_votes(out->n, &votes));
    SL_CHECK(sl_alloc_zero((size_t)out->n + 1, sizeof *out->offsets, "lists of clusters", &out->offsets));
    SL_CHECK(sl_alloc_zero(out->n, sizeof *out->loads, "loads of clusters", &out->loads));
    for (uint32_t q = 0; q < out->n; q++) {
        for (uint32_t j = first[q]; j < first[q + 1]; j++) {
            uint32_t loads[SL_N_LOADS];
            loads_of(p, members[j], loads);
            for (int k = 0; k < SL_N_LOADS; k++) {
                out->loads[q][k] += loads[k];
            }
            ask_neighbours(p->both, members[j], cluster, &votes);
        }
        SL_CHECK(append_list(&votes, q, &capacity, out));
        forget(&votes);
    }
    return SL_OK;
}

/* ---- Moves ------------------------------------------------------------------------------------------------------- */

struct moves {
    uint32_t *parts;
    uint64_t (*load)[SL_N_LOADS]; /* by part */
    uint64_t most[SL_N_LOADS];    /* of a part */
    struct votes votes;
};

static void close_moves(struct moves *m)
{
    close_votes(&m->votes);
    sl_free(m->load);
}

/* Whether part q has room for a vertex with these loads. Loads of zero need none. */
static bool has_room(const struct moves *m, uint32_t q, const uint32_t loads[SL_N_LOADS])
{
    for (int k = 0; k < SL_N_LOADS; k++) {
        if (loads[k] > 0 && m->load[q][k] + loads[k] > m->most[k]) {
            return false;
        }
    }
    return true;
}

/* Vertex v moves to the part that has room and most of its neighbours. It leaves a part that is too full for any part
 * with neighbours and room. Returns whether it moved. */
static bool move(const struct problem *p, uint32_t v, struct moves *m)
{
    const uint32_t old = m->parts[v];
    uint32_t loads[SL_N_LOADS];
    uint32_t best = old;
    loads_of(p, v, loads);
    for (int k = 0; k < SL_N_LOADS; k++) {
        m->load[old][k] -= loads[k];
    }
    ask_neighbours(p->both, v, m->parts, &m->votes);
    uint32_t most = has_room(m, old, loads) ? count_votes(&m->votes, old) : 0;
    for (uint32_t j = 0; j < m->votes.n; j++) {
        const uint32_t slot = m->votes.seen[j];
        const uint32_t q = m->votes.place[slot];
        if (q != old && m->votes.count[slot] > most && has_room(m, q, loads)) {
            best = q;
            most = m->votes.count[slot];
        }
    }
    forget(&m->votes);
    for (int k = 0; k < SL_N_LOADS; k++) {
        m->load[best][k] += loads[k];
    }
    m->parts[v] = best;
    return best != old;
}

static enum sl_status move_vertices(const struct problem *p, uint32_t *parts)
{
    SL_OWNED(close_moves) struct moves m = {.parts = parts};
    uint64_t total[SL_N_LOADS] = {0};
    SL_CHECK(sl_alloc_zero(p->n_parts, sizeof *m.load, "loads of parts", &m.load));
    SL_CHECK(open_votes(p->n_parts, &m.votes));
    for (uint32_t v = 0; v < p->n_vertices; v++) {
        uint32_t loads[SL_N_LOADS];
        loads_of(p, v, loads);
        for (int k = 0; k < SL_N_LOADS; k++) {
            m.load[parts[v]][k] += loads[k];
            total[k] += loads[k];
        }
    }
    for (int k = 0; k < SL_N_LOADS; k++) {
        m.most[k] = (uint64_t)ceil(ROOM * (double)total[k] / p->n_parts);
    }
    uint32_t moved = p->n_vertices;
    for (int pass = 0; pass < MOVE_PASSES && moved > p->n_vertices / FEW; pass++) {
        moved = 0;
        for (uint32_t v = 0; v < p->n_vertices; v++) {
            moved += move(p, v, &m);
        }
    }
    return SL_OK;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

static enum sl_status mark_sets(const struct sl_dataset *dataset, uint8_t **out)
{
    SL_CHECK(sl_alloc_zero(dataset->graph.n_vertices, 1, "the sets of vertices", out));
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        (*out)[dataset->train.ids[i]] |= IN_TRAIN;
    }
    for (uint32_t i = 0; i < dataset->valid.n; i++) {
        (*out)[dataset->valid.ids[i]] |= IN_VALID;
    }
    return SL_OK;
}

static void free_sets(struct problem *p)
{
    sl_free(p->sets);
}

static void free_clusters(struct sl_cluster_graph *graph)
{
    sl_free(graph->offsets);
    sl_free(graph->neighbours);
    sl_free(graph->edges);
    sl_free(graph->loads);
}

/* parts: first the clusters, then their parts. The sets are not in memory while clusters are found. */
static enum sl_status cut(const struct sl_dataset *dataset, struct problem *p, uint64_t seed, uint32_t *parts)
{
    SL_OWNED(free_clusters) struct sl_cluster_graph small = {0};
    SL_FREED uint32_t *part = NULL;
    SL_CHECK(find_clusters(p, parts, &small.n));
    SL_CHECK(mark_sets(dataset, &p->sets));
    SL_CHECK(contract(p, parts, &small));
    SL_CHECK(sl_alloc(small.n, sizeof *part, "parts of clusters", &part));
    SL_CHECK(sl_metis_cut(&small, p->n_parts, sl_max_u32(TRIES / p->n_parts, 1), seed, part));
    for (uint32_t v = 0; v < p->n_vertices; v++) {
        parts[v] = part[parts[v]];
    }
    return SL_OK;
}

enum sl_status sl_stream_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts)
{
    SL_OWNED(sl_graph_free) struct sl_graph both = {0};
    SL_OWNED(free_sets)
    struct problem p = {.n_vertices = dataset->graph.n_vertices, .n_parts = n_parts, .own = &dataset->graph};
    SL_CHECK(sl_metis_undirected(p.own, &both, &p.both));
    for (uint32_t v = 0; v < p.n_vertices; v++) {
        p.most_neighbours = sl_max_u32(p.most_neighbours, n_neighbours(&p, v));
    }
    SL_CHECK(cut(dataset, &p, seed, parts));
    return move_vertices(&p, parts);
}
