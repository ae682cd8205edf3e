/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator. It shuffles the vertices into places. A class is a range of places, and a topic is a range within
 * its class. One prefix sum of popularities thus serves every choice "within a range, in proportion to popularity". */
#include "data/generate/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/features.h"
#include "data/generate/world.h"
#include "support/compare.h"
#include "support/memory.h"
#include "support/parallel.h"
#include "support/random.h"

#define TOPIC_VERTICES 128     /* mean size of a topic */
#define SIZE_RATIO 0.85        /* size of a class over that of the next larger class, up to 40 classes */
#define MAX_STRAYS 0.28        /* share of vertices that live in another class than their label's */
#define STRAYS_PER_MIXING 0.82 /* MAX_STRAYS' share per (1 - homophily): few strays if classes hardly mix */
#define STRAY_POPULARITY 0.3   /* of a stray; other vertices have 1 */
#define STRAY_ACTIVITY 0.5
#define TOPIC_SHARE 0.55   /* of the edges within a class: share within the topic */
#define PARTNER_SHARE 0.75 /* of the edges between classes: share to a partner topic */
#define N_PARTNERS 3
#define CLASS_SIGNAL 0.22 /* against noise of standard deviation 1 */
#define TOPIC_SIGNAL 0.22
#define ROUNDING 1e4    /* features are multiples of 1 / ROUNDING, so that a short text holds them exactly */
#define MAX_ATTEMPTS 32 /* to find a new target; then the next free vertex is taken */
#define SAME_KIND 16    /* attempts with one kind of edge */
#define MIN_WORDS 8
#define MAX_WORDS 24
#define CLASS_WORDS 48 /* words of a class's vocabulary */
#define TOPIC_WORDS 12
#define CLASS_WORD_SHARE 0.22
#define TOPIC_WORD_SHARE 0.08

/* ---- Random numbers ---------------------------------------------------------------------------------------------- */

/* A number of 0 .. n - 1 with density about 1 / (1 + x). */
static uint32_t zipf(uint32_t bits, uint32_t n)
{
    double x = exp(sl_world_unit(bits) * log(1.0 + n)) - 1;
    return x < n ? (uint32_t)x : n - 1;
}

/* ---- Classes and topics ------------------------------------------------------------------------------------------ */

/* Class sizes fall geometrically, in a random order of the classes. A class has at least 2 vertices. */
static void set_class_sizes(const uint32_t *order, struct sl_world *world)
{
    const struct sl_recipe *r = world->recipe;
    uint32_t n_classes = r->n_classes;
    double ratio = SIZE_RATIO;
    if (n_classes > 40) {
        ratio = pow(SIZE_RATIO, 39.0 / (n_classes - 1));
    }
    double whole = (1 - pow(ratio, n_classes)) / (1 - ratio);
    double rest = (double)r->n_vertices - 2.0 * n_classes;
    double before = 0;
    world->topic_first[0] = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        world->class_first[c] = 2 * c + (uint32_t)(rest * before / whole);
        before += pow(ratio, order[c]);
    }
    world->class_first[n_classes] = r->n_vertices;
    for (uint32_t c = 0; c < n_classes; c++) {
        uint32_t size = world->class_first[c + 1] - world->class_first[c];
        uint32_t topics = (size + TOPIC_VERTICES / 2) / TOPIC_VERTICES;
        world->topic_first[c + 1] = world->topic_first[c] + (topics > 0 ? topics : 1);
    }
}

/* A vertex has the label of its home class. A stray has the label of another class, in proportion to class size. */
static void set_labels(struct sl_world *world, int32_t *labels)
{
    const struct sl_recipe *r = world->recipe;
    struct sl_draw draw = sl_world_draw(r, CHOICE_STRAY);
    double share = fmin(MAX_STRAYS, STRAYS_PER_MIXING * (1 - r->homophily));
    for (uint32_t v = 0; v < r->n_vertices; v++) {
        uint32_t random[4];
        uint32_t home = sl_world_home(world, world->places[v]).class;
        uint32_t other;
        sl_random4(&draw, v, 0, random);
        other = sl_world_home(world, sl_random_below(random[1], r->n_vertices)).class;
        world->stray[v] = sl_world_unit(random[0]) < share && other != home;
        labels[v] = (int32_t)(world->stray[v] ? other : home);
    }
}

/* ---- Degrees ----------------------------------------------------------------------------------------------------- */

static void set_popularity(struct sl_world *world)
{
    const struct sl_recipe *r = world->recipe;
    world->popularity[0] = 0;
    for (uint32_t place = 0; place < r->n_vertices; place++) {
        sl_vertex v = world->vertices[place];
        double w = sl_world_popularity(sl_world_unit_for(r, CHOICE_POPULARITY, v, 0));
        world->popularity[place + 1] = world->popularity[place] + w * (world->stray[v] ? STRAY_POPULARITY : 1);
    }
}

static double activity(const void *context, sl_vertex v)
{
    const struct sl_world *world = context;
    double a = sl_world_activity(sl_world_unit_for(world->recipe, CHOICE_ACTIVITY, v, 0));
    return a * (world->stray[v] ? STRAY_ACTIVITY : 1);
}

/* No vertex writes to more than half of all other vertices. */
static void set_out_degrees(struct sl_world *world)
{
    const struct sl_recipe *r = world->recipe;
    const struct sl_writers writers = {r->n_vertices, r->n_edges, (r->n_vertices - 1) / 2, activity, world};
    sl_world_share_edges(&writers, world->first_edge);
}

/* Find the probability s that an edge stays in its home class, so that labels agree at the recipe's rate.
 *
 *    q  share of edges between two vertices that are not strays
 *    a  probability that an edge ends in its home class
 *    c  probability that two popular vertices share a class
 *
 * A stray's label agrees with its neighbour's only outside its home, so homophily = a q + (1 - a) (1 - q) c. An
 * edge to anywhere may come home, so a = s + (1 - s) (1 - PARTNER_SHARE) c. */
static void set_same_class(struct sl_world *world)
{
    const struct sl_recipe *r = world->recipe;
    double all = world->popularity[r->n_vertices];
    double chance = 0;
    double stray_edges = 0;
    double stray_popularity = 0;
    for (uint32_t c = 0; c < r->n_classes; c++) {
        double share = (world->popularity[world->class_first[c + 1]] - world->popularity[world->class_first[c]]) / all;
        chance += share * share;
    }
    for (uint32_t v = 0; v < r->n_vertices; v++) {
        if (world->stray[v]) {
            const uint32_t p = world->places[v];
            stray_edges += (double)(world->first_edge[v + 1] - world->first_edge[v]);
            stray_popularity += world->popularity[p + 1] - world->popularity[p];
        }
    }
    double q = (1 - stray_edges / fmax((double)r->n_edges, 1)) * (1 - stray_popularity / all);
    double by_chance = (1 - q) * chance;
    double a = q > by_chance ? (r->homophily - by_chance) / (q - by_chance) : 0;
    double home = (1 - PARTNER_SHARE) * chance;
    double s = (a - home) / (1 - home);
    world->same_class = fmin(fmax(s, 0), 1);
}

/* ---- Edges ------------------------------------------------------------------------------------------------------- */

/* A vertex of topic j among the partners of the home topic. A partner is the topic of a popular vertex in another
 * class. If the popular vertex shares the class, take a vertex from anywhere. */
static uint32_t pick_partner(const struct sl_world *world, const struct sl_home *home, uint32_t j, double u)
{
    uint32_t n = world->recipe->n_vertices;
    double popular = sl_world_unit_for(world->recipe, CHOICE_PARTNER, home->topic, j);
    struct sl_home partner = sl_world_home(world, sl_world_pick(world->popularity, 0, n, popular));
    if (partner.class == home->class) {
        return sl_world_pick(world->popularity, 0, n, u);
    }
    return sl_world_pick(world->popularity, partner.topic_begin, partner.topic_end, u);
}

/* Propose the place of an edge's target. `kind`, in (0, 1), chooses between topic, class, partner topic and
 * anywhere. */
static uint32_t propose(const struct sl_world *world, const struct sl_home *home, double kind, const uint32_t random[4])
{
    double u = (double)(((uint64_t)random[1] << 32 | random[2]) >> 11) * 0x1p-53;
    double same = world->same_class;
    if (kind < same * TOPIC_SHARE) {
        return sl_world_pick(world->popularity, home->topic_begin, home->topic_end, u);
    }
    if (kind < same) {
        return sl_world_pick(world->popularity, world->class_first[home->class], world->class_first[home->class + 1],
                             u);
    }
    if (kind < same + (1 - same) * PARTNER_SHARE) {
        return pick_partner(world, home, sl_random_below(random[3], N_PARTNERS), u);
    }
    return sl_world_pick(world->popularity, 0, world->recipe->n_vertices, u);
}

static bool taken(const sl_vertex *targets, uint64_t n, sl_vertex v, sl_vertex target)
{
    for (uint64_t i = 0; i < n; i++) {
        if (targets[i] == target) {
            return true;
        }
    }
    return target == v;
}

/* The target of v's edge number i: not v, and none of the earlier targets. */
static sl_vertex choose_target(const struct sl_world *world, sl_vertex v, const struct sl_home *home,
                               const sl_vertex *targets, uint32_t i)
{
    const struct sl_recipe *r = world->recipe;
    struct sl_draw draw = sl_world_draw(r, CHOICE_EDGE);
    double kind = 0;
    for (uint32_t attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        uint32_t random[4];
        sl_random4(&draw, v, i * MAX_ATTEMPTS + attempt, random);
        if (attempt % SAME_KIND == 0) {
            kind = sl_world_unit(random[0]);
        }
        sl_vertex target = world->vertices[propose(world, home, kind, random)];
        if (!taken(targets, i, v, target)) {
            return target;
        }
    }
    draw = sl_world_draw(r, CHOICE_FREE);
    uint32_t random[4];
    sl_random4(&draw, v, i, random);
    sl_vertex target = sl_random_below(random[0], r->n_vertices);
    while (taken(targets, i, v, target)) {
        target = (target + 1) % r->n_vertices;
    }
    return target;
}

/* The context of a parallel body. */
struct job {
    const struct sl_world *world;
    struct sl_raw *raw;
};

static void make_edges(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    const struct sl_world *world = job->world;
    for (uint64_t v = begin; v < end; v++) {
        struct sl_home home = sl_world_home(world, world->places[v]);
        uint64_t first = world->first_edge[v];
        uint32_t n = (uint32_t)(world->first_edge[v + 1] - first);
        sl_vertex *targets = job->raw->to + first;
        for (uint32_t i = 0; i < n; i++) {
            targets[i] = choose_target(world, (sl_vertex)v, &home, targets, i);
            job->raw->from[first + i] = (sl_vertex)v;
        }
    }
}

/* ---- Features ---------------------------------------------------------------------------------------------------- */

/* Add `signal` times a normal number to each of out[0 .. n). */
static void add_normals(const struct sl_draw *draw, uint32_t item, double signal, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i += 4) {
        uint32_t random[4];
        sl_random4(draw, item, i / 4, random);
        for (uint32_t k = 0; k < 4 && i + k < n; k++) {
            out[i + k] += (float)(signal * sl_normal_quantile(sl_world_unit(random[k])));
        }
    }
}

static enum sl_status make_centres(const struct sl_recipe *recipe, enum sl_world_choice choice, uint32_t n,
                                   double signal, float **out)
{
    struct sl_draw draw = sl_world_draw(recipe, choice);
    uint32_t n_features = recipe->n_features;
    SL_CHECK(sl_alloc_zero((size_t)n * n_features, sizeof **out, "the generator's centres", out));
    for (uint32_t i = 0; i < n; i++) {
        add_normals(&draw, i, signal, n_features, *out + (size_t)i * n_features);
    }
    return SL_OK;
}

static void make_dense_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    const struct sl_world *world = job->world;
    size_t n = world->recipe->n_features;
    struct sl_draw draw = sl_world_draw(world->recipe, CHOICE_NOISE);
    for (uint64_t v = begin; v < end; v++) {
        struct sl_home home = sl_world_home(world, world->places[v]);
        const float *class_centre = world->class_centres + home.class * n;
        const float *topic_centre = world->topic_centres + home.topic * n;
        float *row = sl_column_row(&job->raw->data.features.dense, v);
        for (size_t i = 0; i < n; i++) {
            row[i] = class_centre[i] + topic_centre[i];
        }
        add_normals(&draw, (uint32_t)v, 1, (uint32_t)n, row);
        for (size_t i = 0; i < n; i++) {
            row[i] = (float)((double)lrint(row[i] * ROUNDING) / ROUNDING);
        }
    }
}

static enum sl_status make_dense(struct sl_world *world, struct sl_raw *raw)
{
    const struct sl_recipe *r = world->recipe;
    struct job job = {.world = world, .raw = raw};
    uint32_t n_topics = world->topic_first[r->n_classes];
    size_t n = (size_t)r->n_vertices * r->n_features;
    float *dense;
    SL_CHECK(make_centres(r, CHOICE_CLASS_CENTRE, r->n_classes, CLASS_SIGNAL, &world->class_centres));
    SL_CHECK(make_centres(r, CHOICE_TOPIC_CENTRE, n_topics, TOPIC_SIGNAL, &world->topic_centres));
    SL_CHECK(sl_alloc(n, sizeof *dense, "features", &dense));
    raw->data.features.dense = sl_column_take(SL_DTYPE_F32, r->n_vertices, r->n_features, dense);
    raw->data.features.n_rows = r->n_vertices;
    raw->data.features.n_columns = r->n_features;
    sl_parallel_for(r->n_vertices, 512, make_dense_rows, &job);
    return SL_OK;
}

/* Word `rank` of a vocabulary. Vocabularies of topics come first, then vocabularies of classes. */
static uint32_t vocabulary_word(const struct sl_recipe *recipe, uint32_t vocabulary, uint32_t rank)
{
    struct sl_draw draw = sl_world_draw(recipe, CHOICE_VOCABULARY);
    uint32_t random[4];
    sl_random4(&draw, vocabulary, rank, random);
    return sl_random_below(random[0], recipe->n_features);
}

static uint32_t choose_word(const struct sl_world *world, const struct sl_home *home, const uint32_t random[4])
{
    const struct sl_recipe *r = world->recipe;
    double kind = sl_world_unit(random[0]);
    if (kind < TOPIC_WORD_SHARE) {
        return vocabulary_word(r, home->topic, sl_random_below(random[1], TOPIC_WORDS));
    }
    if (kind < TOPIC_WORD_SHARE + CLASS_WORD_SHARE) {
        uint32_t vocabulary = world->topic_first[r->n_classes] + home->class;
        return vocabulary_word(r, vocabulary, sl_random_below(random[1], CLASS_WORDS));
    }
    return zipf(random[1], r->n_features);
}

/* The distinct words of a vertex, sorted. Returns their number. */
static uint32_t choose_words(const struct sl_world *world, sl_vertex v, uint32_t words[MAX_WORDS])
{
    struct sl_draw draw = sl_world_draw(world->recipe, CHOICE_WORDS);
    struct sl_home home = sl_world_home(world, world->places[v]);
    uint32_t random[4];
    sl_random4(&draw, v, 0, random);
    uint32_t n = MIN_WORDS + sl_random_below(random[0], MAX_WORDS - MIN_WORDS + 1);
    for (uint32_t i = 0; i < n; i++) {
        sl_random4(&draw, v, i + 1, random);
        words[i] = choose_word(world, &home, random);
    }
    qsort(words, n, sizeof *words, sl_order_u32);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (kept == 0 || words[kept - 1] != words[i]) {
            words[kept++] = words[i];
        }
    }
    return kept;
}

static enum sl_status make_sparse(const struct sl_world *world, struct sl_raw *raw)
{
    const struct sl_recipe *r = world->recipe;
    struct sl_features *features = &raw->data.features;
    size_t most = (size_t)r->n_vertices * MAX_WORDS;
    uint64_t n = 0;
    features->n_rows = r->n_vertices;
    features->n_columns = r->n_features;
    SL_CHECK(sl_alloc((size_t)r->n_vertices + 1, sizeof(uint64_t), "feature offsets", &features->offsets));
    SL_CHECK(sl_alloc(most, sizeof(uint32_t), "feature columns", &features->columns));
    for (uint32_t v = 0; v < r->n_vertices; v++) {
        features->offsets[v] = n;
        n += choose_words(world, v, features->columns + n);
    }
    features->offsets[r->n_vertices] = n;
    SL_CHECK(sl_realloc(&features->columns, n, sizeof(uint32_t), "feature columns"));
    SL_CHECK(sl_alloc(n, sizeof(float), "feature values", &features->values));
    for (uint64_t k = 0; k < n; k++) {
        features->values[k] = 1;
    }
    return sl_features_settle(features);
}

/* ---- The split --------------------------------------------------------------------------------------------------- */

static enum sl_status copy_ids(const uint32_t *order, uint32_t n, struct sl_ids *out)
{
    SL_CHECK(sl_alloc(n, sizeof *out->ids, "split", &out->ids));
    for (uint32_t i = 0; i < n; i++) {
        out->ids[i] = order[i];
    }
    qsort(out->ids, n, sizeof *out->ids, sl_order_u32);
    out->n = n;
    return SL_OK;
}

static enum sl_status make_split(const struct sl_recipe *r, struct sl_raw *raw)
{
    SL_FREED uint32_t *order = NULL;
    const uint32_t n[SL_N_LISTS] = {r->n_train, r->n_valid, r->n_test};
    SL_CHECK(sl_world_shuffle(r, CHOICE_SPLIT, r->n_vertices, &order));
    snprintf(raw->data.split, sizeof raw->data.split, "%s", r->split);
    for (uint32_t i = 0, first = 0; i < SL_N_LISTS; i++) {
        SL_CHECK(copy_ids(order + first, n[i], &raw->data.lists[i]));
        first += n[i];
    }
    return SL_OK;
}

/* ---- The whole dataset ------------------------------------------------------------------------------------------- */

static void free_world(struct sl_world *world)
{
    sl_free(world->class_first);
    sl_free(world->topic_first);
    sl_free(world->vertices);
    sl_free(world->places);
    sl_free(world->stray);
    sl_free(world->popularity);
    sl_free(world->first_edge);
    sl_free(world->class_centres);
    sl_free(world->topic_centres);
}

static enum sl_status make_world(struct sl_world *world, int32_t *labels)
{
    const struct sl_recipe *r = world->recipe;
    size_t n = r->n_vertices;
    size_t n_classes = r->n_classes;
    SL_FREED uint32_t *order = NULL;
    SL_CHECK(sl_alloc(n_classes + 1, sizeof(uint32_t), "classes", &world->class_first));
    SL_CHECK(sl_alloc(n_classes + 1, sizeof(uint32_t), "topics", &world->topic_first));
    SL_CHECK(sl_alloc(n, sizeof(uint32_t), "places", &world->places));
    SL_CHECK(sl_alloc(n, sizeof(bool), "strays", &world->stray));
    SL_CHECK(sl_alloc(n + 1, sizeof(double), "popularities", &world->popularity));
    SL_CHECK(sl_alloc(n + 1, sizeof(uint64_t), "degrees", &world->first_edge));
    SL_CHECK(sl_world_shuffle(r, CHOICE_PLACE, r->n_vertices, &world->vertices));
    SL_CHECK(sl_world_shuffle(r, CHOICE_CLASS_ORDER, r->n_classes, &order));
    for (uint32_t place = 0; place < r->n_vertices; place++) {
        world->places[world->vertices[place]] = place;
    }
    set_class_sizes(order, world);
    set_labels(world, labels);
    set_popularity(world);
    set_out_degrees(world);
    set_same_class(world);
    return SL_OK;
}

/* The vertices of the recipe's own type. */
static enum sl_status make_own(struct sl_world *world, struct sl_raw *out)
{
    const struct sl_recipe *recipe = world->recipe;
    struct job job = {.world = world, .raw = out};
    SL_CHECK(sl_targets_make_unknown(recipe->n_vertices, &out->data.targets));
    SL_CHECK(sl_alloc(recipe->n_edges, sizeof *out->from, "edge list", &out->from));
    SL_CHECK(sl_alloc(recipe->n_edges, sizeof *out->to, "edge list", &out->to));
    SL_CHECK(make_world(world, out->data.targets.classes));
    out->data.targets.n_classes = sl_targets_count_classes(&out->data.targets);
    sl_parallel_for(recipe->n_vertices, 512, make_edges, &job);
    if (recipe->sparse) {
        SL_CHECK(make_sparse(world, out));
    } else {
        SL_CHECK(make_dense(world, out));
    }
    return make_split(recipe, out);
}

enum sl_status sl_generate(const struct sl_recipe *recipe, struct sl_raw *out)
{
    SL_OWNED(free_world) struct sl_world world = {.recipe = recipe};
    SL_OWNED(sl_raw_free) struct sl_raw raw = {.n_vertices = recipe->n_vertices, .n_edges = recipe->n_edges};
    *out = (struct sl_raw){0};
    SL_CHECK(sl_recipe_check(recipe));
    SL_CHECK(make_own(&world, &raw));
    if (recipe->n_types > 0) {
        SL_CHECK(sl_world_add_types(&world, &raw));
    }
    *out = SL_TAKE(raw);
    return SL_OK;
}
