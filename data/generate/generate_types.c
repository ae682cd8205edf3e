/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator's typed graphs. The vertices of a type are shuffled into places of their own, in the order of the own
 * type's topics: place p of n_t lives where place p N / n_t of the N own vertices lives. */
#include "data/generate/world.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/memory.h"
#include "support/parallel.h"

#define TOPIC_SHARE 0.55 /* of the edges within a class: share within the topic */
#define MAX_ATTEMPTS 32  /* to find a new target; then the next free vertex is taken */
#define GRAIN 512        /* vertices that one thread makes at a time */

/* A type: its places, and their popularity. */
struct side {
    uint32_t n;
    uint32_t first; /* id of the first vertex in the whole graph */
    const sl_vertex *vertices;
    const uint32_t *places;
    const double *popularity;
    void *own[3]; /* the three arrays, if they are this type's own (sl_free) */
};

struct sides {
    const struct sl_world *world;
    uint32_t n;        /* types, the own type last */
    struct side *side; /* n */
};

/* The choice `choice` of type or relation number i. */
static uint32_t choice_of(enum sl_world_choice choice, uint32_t i)
{
    return choice + SL_WORLD_CHOICES * (i + 1);
}

/* ---- Types ------------------------------------------------------------------------------------------------------- */

static enum sl_status make_side(const struct sl_recipe *recipe, uint32_t t, struct side *side)
{
    const uint32_t n = recipe->other[t].n;
    SL_FREED sl_vertex *vertices = NULL;
    SL_FREED uint32_t *places = NULL;
    SL_FREED double *popularity = NULL;
    SL_CHECK(sl_world_shuffle(recipe, choice_of(CHOICE_PLACE, t), n, &vertices));
    SL_CHECK(sl_alloc(n, sizeof *places, "places", &places));
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *popularity, "popularities", &popularity));
    popularity[0] = 0;
    for (uint32_t p = 0; p < n; p++) {
        const double u = sl_world_unit_for(recipe, choice_of(CHOICE_POPULARITY, t), vertices[p], 0);
        places[vertices[p]] = p;
        popularity[p + 1] = popularity[p] + sl_world_popularity(u);
    }
    side->n = n;
    side->vertices = side->own[0] = SL_TAKE(vertices);
    side->places = side->own[1] = SL_TAKE(places);
    side->popularity = side->own[2] = SL_TAKE(popularity);
    return SL_OK;
}

static void free_sides(struct sides *sides)
{
    for (uint32_t t = 0; sides->side != NULL && t < sides->n; t++) {
        for (int i = 0; i < 3; i++) {
            sl_free(sides->side[t].own[i]);
        }
    }
    sl_free(sides->side);
}

static enum sl_status make_sides(const struct sl_world *world, struct sides *out)
{
    const struct sl_recipe *recipe = world->recipe;
    uint32_t first = 0;
    *out = (struct sides){.world = world, .n = recipe->n_types + 1};
    SL_CHECK(sl_alloc_zero(out->n, sizeof *out->side, "types", &out->side));
    for (uint32_t t = 0; t < recipe->n_types; t++) {
        SL_CHECK(make_side(recipe, t, &out->side[t]));
        out->side[t].first = first;
        first += out->side[t].n;
    }
    out->side[recipe->n_types] =
        (struct side){recipe->n_vertices, first, world->vertices, world->places, world->popularity, {NULL}};
    return SL_OK;
}

/* ---- Edges of a relation ----------------------------------------------------------------------------------------- */

struct relation {
    const struct sides *sides;
    uint32_t r; /* number in the recipe */
    const struct sl_recipe_relation *recipe;
    const struct side *source, *destination;
    uint64_t *first_edge; /* n of the source + 1 */
    sl_vertex *from, *to;
};

static double activity(const void *context, sl_vertex v)
{
    const struct relation *relation = context;
    const struct sl_recipe *recipe = relation->sides->world->recipe;
    return sl_world_activity(sl_world_unit_for(recipe, choice_of(CHOICE_ACTIVITY, relation->r), v, 0));
}

/* A range of places of the destination's type. */
struct range {
    uint32_t begin, end;
};

/* The destination's places beside the own type's places begin .. end - 1: one or more. */
static struct range beside(const struct relation *relation, uint64_t begin, uint64_t end)
{
    const uint64_t n_own = relation->sides->world->recipe->n_vertices;
    const uint64_t n = relation->destination->n;
    struct range range = {(uint32_t)(begin * n / n_own), (uint32_t)(end * n / n_own)};
    if (range.begin == range.end) {
        range.end++;
    }
    return range;
}

/* Where a writer's edges go: to its topic, its class, or anywhere. */
struct aims {
    struct range topic, class, all;
};

static struct aims aims_of(const struct relation *relation, sl_vertex v)
{
    const struct sl_world *world = relation->sides->world;
    const struct side *source = relation->source;
    const uint64_t place = (uint64_t)source->places[v] * world->recipe->n_vertices / source->n;
    const struct sl_home home = sl_world_home(world, (uint32_t)place);
    return (struct aims){.topic = beside(relation, home.topic_begin, home.topic_end),
                         .class = beside(relation, world->class_first[home.class], world->class_first[home.class + 1]),
                         .all = {0, relation->destination->n}};
}

static sl_vertex propose(const struct relation *relation, const struct aims *aims, const uint32_t random[4])
{
    const double kind = sl_world_unit(random[0]);
    const double u = (double)(((uint64_t)random[1] << 32 | random[2]) >> 11) * 0x1p-53;
    const double same = relation->recipe->same_class;
    struct range range = aims->all;
    if (kind < same * TOPIC_SHARE) {
        range = aims->topic;
    } else if (kind < same) {
        range = aims->class;
    }
    return relation->destination->vertices[sl_world_pick(relation->destination->popularity, range.begin, range.end, u)];
}

static bool taken(const sl_vertex *targets, uint32_t n, sl_vertex target)
{
    for (uint32_t i = 0; i < n; i++) {
        if (targets[i] == target) {
            return true;
        }
    }
    return false;
}

/* The target of v's edge number i: none of the earlier targets. */
static sl_vertex choose_target(const struct relation *relation, sl_vertex v, const struct aims *aims,
                               const sl_vertex *targets, uint32_t i)
{
    const struct sl_recipe *recipe = relation->sides->world->recipe;
    struct sl_draw draw = sl_world_draw(recipe, choice_of(CHOICE_EDGE, relation->r));
    uint32_t random[4];
    for (uint32_t attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        sl_random4(&draw, v, i * MAX_ATTEMPTS + attempt, random);
        const sl_vertex target = propose(relation, aims, random);
        if (!taken(targets, i, target)) {
            return target;
        }
    }
    draw = sl_world_draw(recipe, choice_of(CHOICE_FREE, relation->r));
    sl_random4(&draw, v, i, random);
    sl_vertex target = sl_random_below(random[0], relation->destination->n);
    while (taken(targets, i, target)) {
        target = (target + 1) % relation->destination->n;
    }
    return target;
}

static void make_edges(void *context, uint64_t begin, uint64_t end)
{
    const struct relation *relation = context;
    for (uint64_t v = begin; v < end; v++) {
        const struct aims aims = aims_of(relation, (sl_vertex)v);
        const uint64_t first = relation->first_edge[v];
        const uint32_t n = (uint32_t)(relation->first_edge[v + 1] - first);
        sl_vertex *targets = relation->to + first;
        for (uint32_t i = 0; i < n; i++) {
            targets[i] = choose_target(relation, (sl_vertex)v, &aims, targets, i);
        }
        for (uint32_t i = 0; i < n; i++) {
            targets[i] += relation->destination->first;
            relation->from[first + i] = (sl_vertex)v + relation->source->first;
        }
    }
}

static enum sl_status make_relation(const struct sides *sides, uint32_t r, sl_vertex *from, sl_vertex *to)
{
    const struct sl_recipe_relation *recipe = &sides->world->recipe->between[r];
    struct relation relation = {.sides = sides,
                                .r = r,
                                .recipe = recipe,
                                .source = &sides->side[recipe->source],
                                .destination = &sides->side[recipe->destination],
                                .from = from,
                                .to = to};
    const struct sl_writers writers = {relation.source->n, recipe->n_edges, (relation.destination->n + 1) / 2, activity,
                                       &relation};
    SL_FREED uint64_t *first_edge = NULL;
    SL_CHECK(sl_alloc((size_t)relation.source->n + 1, sizeof *first_edge, "degrees", &first_edge));
    sl_world_share_edges(&writers, first_edge);
    relation.first_edge = first_edge;
    sl_parallel_for(relation.source->n, GRAIN, make_edges, &relation);
    return SL_OK;
}

/* Put the other relations before the own edges. */
static enum sl_status add_edges(const struct sides *sides, uint64_t n_edges, struct sl_raw *raw)
{
    const struct sl_recipe *recipe = sides->world->recipe;
    const uint32_t first = sides->side[recipe->n_types].first;
    const uint64_t n_other = n_edges - raw->n_edges;
    uint64_t n = 0;
    SL_CHECK(sl_alloc(n_edges, sizeof *raw->relations, "relations of edges", &raw->relations));
    SL_CHECK(sl_realloc(&raw->from, n_edges, sizeof *raw->from, "edge list"));
    SL_CHECK(sl_realloc(&raw->to, n_edges, sizeof *raw->to, "edge list"));
    for (uint64_t e = raw->n_edges; e-- > 0;) {
        raw->from[n_other + e] = raw->from[e] + first;
        raw->to[n_other + e] = raw->to[e] + first;
        raw->relations[n_other + e] = (uint16_t)recipe->n_relations;
    }
    for (uint32_t r = 0; r < recipe->n_relations; r++) {
        SL_CHECK(make_relation(sides, r, raw->from + n, raw->to + n));
        for (const uint64_t end = n + recipe->between[r].n_edges; n < end; n++) {
            raw->relations[n] = (uint16_t)r;
        }
    }
    raw->n_edges = n_edges;
    raw->n_relations = recipe->n_relations + 1;
    return SL_OK;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* As in a typed folder, each vertex of another type has a column of its own. */
static enum sl_status join_features(const struct sl_recipe *recipe, struct sl_features *features)
{
    struct sl_features tables[SL_RECIPE_TYPES + 1] = {0};
    for (uint32_t t = 0; t < recipe->n_types; t++) {
        tables[t].n_rows = recipe->other[t].n;
    }
    tables[recipe->n_types] = *features;
    struct sl_features all;
    SL_CHECK(sl_features_join("generator", recipe->n_types + 1, tables, &all));
    sl_features_free(features);
    *features = all;
    return SL_OK;
}

static void move_ids(uint32_t first, struct sl_ids *ids)
{
    for (uint32_t i = 0; i < ids->n; i++) {
        ids->ids[i] += first;
    }
}

enum sl_status sl_world_add_types(const struct sl_world *world, struct sl_raw *raw)
{
    SL_OWNED(free_sides) struct sides sides = {0};
    uint64_t n_vertices;
    uint64_t n_edges;
    sl_recipe_total(world->recipe, &n_vertices, &n_edges);
    SL_CHECK(make_sides(world, &sides));
    const uint32_t first = sides.side[world->recipe->n_types].first;
    SL_CHECK(add_edges(&sides, n_edges, raw));
    SL_CHECK(sl_targets_place(first, (uint32_t)n_vertices, &raw->data.targets));
    SL_CHECK(join_features(world->recipe, &raw->data.features));
    raw->n_vertices = (uint32_t)n_vertices;
    for (int i = 0; i < SL_N_LISTS; i++) {
        move_ids(first, &raw->data.lists[i]);
    }
    return SL_OK;
}
