/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the generator's files share: the places of vertices, and its random numbers (data/generate/generate.h).
 */
#ifndef SL_DATA_GENERATE_WORLD_H
#define SL_DATA_GENERATE_WORLD_H

#include "data/generate/recipe.h"
#include "data/raw.h"
#include "support/random.h"

/* The purpose of a random number; it is the counter's `step`. Types and relations add SL_WORLD_CHOICES times their
 * number plus one. */
enum sl_world_choice {
    CHOICE_PLACE,
    CHOICE_CLASS_ORDER,
    CHOICE_STRAY,
    CHOICE_POPULARITY,
    CHOICE_ACTIVITY,
    CHOICE_SPLIT,
    CHOICE_EDGE,
    CHOICE_FREE,
    CHOICE_PARTNER,
    CHOICE_CLASS_CENTRE,
    CHOICE_TOPIC_CENTRE,
    CHOICE_NOISE,
    CHOICE_WORDS,
    CHOICE_VOCABULARY,
    SL_WORLD_CHOICES
};

/* The places 0 .. N - 1, and the vertices, classes and topics there. */
struct sl_world {
    const struct sl_recipe *recipe;
    uint32_t *class_first; /* C + 1: first place of each class */
    uint32_t *topic_first; /* C + 1: number of topics before each class */
    sl_vertex *vertices;   /* N: place -> vertex */
    uint32_t *places;      /* N: vertex -> place */
    bool *stray;           /* N, by vertex: it lives in another class than its label's */
    double *popularity;    /* N + 1: sum over the places before */
    uint64_t *first_edge;  /* N + 1: number of edges of the vertices before */
    float *class_centres;  /* C x F */
    float *topic_centres;  /* topics x F */
    double same_class;     /* probability that the generator means an edge to stay in its home class */
};

/* The class of a place, its topic (numbered over all classes), and the topic's range of places. */
struct sl_home {
    uint32_t class;
    uint32_t topic;
    uint32_t topic_begin, topic_end;
};

struct sl_home sl_world_home(const struct sl_world *world, uint32_t place);

/* A place in [begin, end), in proportion to popularity; u is uniform in (0, 1). `popularity` sums over the places
 * before. */
uint32_t sl_world_pick(const double *popularity, uint32_t begin, uint32_t end, double u);

/* The popularity of a vertex, by the Pareto law; u is uniform in (0, 1). */
double sl_world_popularity(double u);

/* The vertices that edges start from. */
struct sl_writers {
    uint64_t n;
    uint64_t n_edges; /* at most n * most */
    uint64_t most;    /* edges of one writer */
    double (*activity)(const void *context, sl_vertex v);
    const void *context;
};

/* Distribute the edges in proportion to activity. If there are enough edges, every writer gets one first. Edges above
 * the bound go round-robin. first_edge: n + 1, the number of edges of the writers before. */
void sl_world_share_edges(const struct sl_writers *writers, uint64_t *first_edge);

/* The activity of a vertex, by the log-normal law; u is uniform in (0, 1). */
double sl_world_activity(double u);

/* The numbers 0 .. n - 1 in random order (sl_free). SL_ENOMEM. */
enum sl_status sl_world_shuffle(const struct sl_recipe *recipe, uint32_t choice, uint32_t n, uint32_t **out);

/* Add the recipe's other types and relations to its own vertices in *raw. SL_ENOMEM. */
enum sl_status sl_world_add_types(const struct sl_world *world, struct sl_raw *raw);

static inline struct sl_draw sl_world_draw(const struct sl_recipe *recipe, uint32_t choice)
{
    return (struct sl_draw){.seed = recipe->seed, .step = choice, .purpose = SL_FOR_GENERATOR};
}

/* A uniform number in (0, 1) from 32 bits. */
static inline double sl_world_unit(uint32_t bits)
{
    return (bits + 0.5) * 0x1p-32;
}

static inline double sl_world_unit_for(const struct sl_recipe *recipe, uint32_t choice, uint32_t item, uint32_t index)
{
    struct sl_draw draw = sl_world_draw(recipe, choice);
    uint32_t r[4];
    sl_random4(&draw, item, index, r);
    return sl_world_unit(r[0]);
}

#endif
