/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator: graphs with communities, heavy-tailed degrees, unequal classes and noisy features.
 *
 * Each class is split into topics of some 128 vertices. A vertex has a home topic, a popularity (a Pareto law) and a
 * number of edges it writes (log-normal, at least one); an edge goes to its writer's topic, to its class, to a partner
 * topic in another class, or anywhere, and there to a vertex in proportion to popularity. Some vertices are strays:
 * they live (edges and features) in another class than their label says, as in real data; nothing can classify those.
 * Dense features are the class's and the topic's centre plus so much noise that one vertex alone says little, and the
 * mean over neighbours more. Sparse features are bags of words of the class's vocabulary and of common words.
 *
 * Every choice is a function of (seed, vertex, what is chosen), so that neither threads nor order matter.
 */
#ifndef SL_PARTITION_GENERATE_H
#define SL_PARTITION_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/raw.h"

struct sl_recipe {
    char name[64];       /* "arxiv-synthetic" */
    char split[64];      /* "time" */
    uint32_t n_vertices; /* >= 2 * n_classes */
    uint64_t n_edges;    /* directed, before reversal; all different, no self loops */
    uint32_t n_features;
    uint32_t n_classes;
    double homophily;                  /* share of edges within a class aimed at, [0, 1] */
    uint32_t n_train, n_valid, n_test; /* together at most n_vertices */
    bool sparse;                       /* bags of words instead of dense features */
    uint64_t seed;
};

/* The recipe of a known name: "arxiv-synthetic" or "arxiv", and "products-synthetic" or "products" (2.4 million vertices, 64 million
 * edges, 124 million once reversed). Its seed is 1. False: the name is not known. */
bool sl_recipe_find(const char *name, struct sl_recipe *out);

/* The recipes' names, for messages: all of them, and one by one. */
extern const char sl_recipe_names[];
extern const int sl_recipe_n;
const char *sl_recipe_name(int i);

/* Does the recipe hold together? SL_EINVAL: no (message: what was expected, what found). */
enum sl_status sl_recipe_check(const struct sl_recipe *recipe);

/* Make the dataset. SL_EINVAL: the recipe contradicts itself (message: how). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_generate(const struct sl_recipe *recipe, struct sl_raw *out);

#endif
