/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Recipes of the generator (data/generate/generate.h): stand-ins for real datasets.
 */
#ifndef SL_DATA_GENERATE_RECIPE_H
#define SL_DATA_GENERATE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/links.h"
#include "support/status.h"

/* Most types and relations of a recipe. */
#define SL_RECIPE_TYPES 8

/* A type of vertices beside the recipe's own: without features, labels and split. */
struct sl_recipe_type {
    char name[32];
    uint32_t n;
};

/* Edges from each type to another. Types are numbers of the recipe's list; n_types is the recipe's own type. */
struct sl_recipe_relation {
    char name[32];
    uint32_t source, destination;
    uint64_t n_edges;  /* distinct; at most an eighth of all pairs */
    double same_class; /* share that is meant to stay in the home class */
};

struct sl_recipe {
    char name[64];       /* "arxiv-synthetic" */
    char split[64];      /* "time" */
    uint32_t n_vertices; /* >= 2 * n_classes */
    uint64_t n_edges;    /* directed, before reverse edges are added; distinct, no self loops */
    uint32_t n_features;
    uint32_t n_classes;
    double homophily;                  /* wanted fraction of edges within a class, [0, 1] */
    uint32_t n_train, n_valid, n_test; /* together at most n_vertices */
    bool sparse;                       /* bags of words instead of dense features */
    uint64_t seed;
    /* A typed recipe: the fields above describe its own type, which comes last, and the own edges. */
    char type[32];     /* name of the own type */
    char relation[32]; /* name of the own edges */
    uint32_t n_types;  /* other types; 0: the recipe is not typed */
    struct sl_recipe_type other[SL_RECIPE_TYPES];
    uint32_t n_relations; /* relations but the own edges, which come last */
    struct sl_recipe_relation between[SL_RECIPE_TYPES];
};

/* Find the recipe of a name. "arxiv-synthetic" and "arxiv" give the stand-in for ogbn-arxiv. "products-synthetic" and
 * "products" give the stand-in for ogbn-products (2.4 million vertices, 64 million edges, 124 million with the reverse
 * edges). "mag-synthetic" and "mag" give the stand-in for ogbn-mag, which is typed. The seed is 1.
 * False: the name is unknown. */
bool sl_recipe_find(const char *name, struct sl_recipe *out);

/* The names of the recipes, for messages: all in one text, and one by one. */
extern const char sl_recipe_names[];
extern const int sl_recipe_n;
const char *sl_recipe_name(int i);

/* Vertices and edges of all types. */
void sl_recipe_total(const struct sl_recipe *recipe, uint64_t *n_vertices, uint64_t *n_edges);

/* The heads and tails of each relation; the own edges come last. out: n_relations + 1. */
void sl_recipe_ends(const struct sl_recipe *recipe, struct sl_link_ends *out);

/* Change the number of vertices of the own type, and all other numbers of vertices and edges in proportion. */
void sl_recipe_scale(struct sl_recipe *recipe, uint32_t n_vertices);

/* Check a recipe. SL_EINVAL: the recipe contradicts itself (message: expected and found). */
enum sl_status sl_recipe_check(const struct sl_recipe *recipe);

#endif
