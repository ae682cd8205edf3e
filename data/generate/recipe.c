/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator's recipes: stand-ins for real datasets, and the check of a recipe. */
#include "data/generate/recipe.h"

#include <string.h>

#include "support/minmax.h"
#include "support/real.h"

const char sl_recipe_names[] = "arxiv-synthetic, products-synthetic, mag-synthetic";

enum { AUTHOR, FIELD, INSTITUTION, PAPER };

static const struct sl_recipe recipes[] = {
    {.name = "arxiv-synthetic",
     .split = "time",
     .n_vertices = 169343,
     .n_edges = 1166243,
     .n_features = 128,
     .n_classes = 40,
     .homophily = 0.655,
     .n_train = 90941,
     .n_valid = 29799,
     .n_test = 48603,
     .seed = 1},
    {.name = "products-synthetic",
     .split = "sales_ranking",
     .n_vertices = 2449029,
     .n_edges = 63688000, /* some are reverses of others: 61.9 million pairs are left */
     .n_features = 100,
     .n_classes = 47,
     .homophily = 0.81,
     .n_train = 196615,
     .n_valid = 39323,
     .n_test = 2213091,
     .seed = 1},
    {.name = "mag-synthetic",
     .split = "time",
     .n_vertices = 736389,
     .n_edges = 5416271,
     .n_features = 128,
     .n_classes = 349,
     .homophily = 0.35,
     .n_train = 629571,
     .n_valid = 64879,
     .n_test = 41939,
     .seed = 1,
     .type = "paper",
     .relation = "cites",
     .n_types = 3,
     .other =
         {[AUTHOR] = {"author", 1134649}, [FIELD] = {"field_of_study", 59965}, [INSTITUTION] = {"institution", 8740}},
     .n_relations = 3,
     .between = {{"affiliated_with", AUTHOR, INSTITUTION, 1043998, 0.25},
                 {"writes", AUTHOR, PAPER, 7145660, 0.6},
                 {"has_topic", PAPER, FIELD, 7505078, 0.5}}},
};

const int sl_recipe_n = sizeof recipes / sizeof recipes[0];

const char *sl_recipe_name(int i)
{
    return recipes[i].name;
}

bool sl_recipe_find(const char *name, struct sl_recipe *out)
{
    for (int i = 0; i < sl_recipe_n; i++) {
        size_t length = strcspn(recipes[i].name, "-");
        if (strcmp(name, recipes[i].name) == 0 ||
            (strlen(name) == length && strncmp(name, recipes[i].name, length) == 0)) {
            *out = recipes[i];
            return true;
        }
    }
    return false;
}

void sl_recipe_total(const struct sl_recipe *recipe, uint64_t *n_vertices, uint64_t *n_edges)
{
    *n_vertices = recipe->n_vertices;
    *n_edges = recipe->n_edges;
    for (uint32_t t = 0; t < recipe->n_types; t++) {
        *n_vertices += recipe->other[t].n;
    }
    for (uint32_t r = 0; r < recipe->n_relations; r++) {
        *n_edges += recipe->between[r].n_edges;
    }
}

/* The share n / whole of `part`. */
static uint32_t scaled(uint32_t part, uint32_t whole, uint32_t n)
{
    return (uint32_t)sl_min_u64((uint64_t)part * n / whole, SL_NONE); /* which is refused */
}

void sl_recipe_scale(struct sl_recipe *recipe, uint32_t n_vertices)
{
    uint32_t old = recipe->n_vertices;
    recipe->n_vertices = n_vertices;
    recipe->n_edges = (uint64_t)((double)recipe->n_edges * n_vertices / old);
    recipe->n_train = scaled(recipe->n_train, old, n_vertices);
    recipe->n_valid = scaled(recipe->n_valid, old, n_vertices);
    recipe->n_test = scaled(recipe->n_test, old, n_vertices);
    for (uint32_t t = 0; t < recipe->n_types; t++) {
        recipe->other[t].n = scaled(recipe->other[t].n, old, n_vertices);
    }
    for (uint32_t r = 0; r < recipe->n_relations; r++) {
        recipe->between[r].n_edges = (uint64_t)((double)recipe->between[r].n_edges * n_vertices / old);
    }
}

static uint64_t size_of(const struct sl_recipe *r, uint32_t type)
{
    return type < r->n_types ? r->other[type].n : r->n_vertices;
}

static uint32_t first_of(const struct sl_recipe *r, uint32_t type)
{
    uint32_t first = 0;
    for (uint32_t t = 0; t < type; t++) {
        first += r->other[t].n;
    }
    return first;
}

void sl_recipe_ends(const struct sl_recipe *r, struct sl_link_ends *out)
{
    for (uint32_t i = 0; i <= r->n_relations; i++) {
        const bool own = i == r->n_relations;
        const uint32_t types[2] = {own ? r->n_types : r->between[i].source,
                                   own ? r->n_types : r->between[i].destination};
        for (int end = 0; end < 2; end++) {
            out[i].first[end] = first_of(r, types[end]);
            out[i].n[end] = (uint32_t)size_of(r, types[end]);
        }
    }
}

static enum sl_status check_types(const struct sl_recipe *r)
{
    uint64_t n_vertices;
    uint64_t n_edges;
    sl_recipe_total(r, &n_vertices, &n_edges);
    SL_FAIL_IF(n_vertices >= SL_NONE, SL_EINVAL, "generator: expected fewer than %u vertices of all types, found %llu",
               SL_NONE, (unsigned long long)n_vertices);
    for (uint32_t t = 0; t < r->n_types; t++) {
        SL_FAIL_IF(r->other[t].n == 0, SL_EINVAL,
                   "generator: expected 1 or more vertices of type %s, found 0; try more vertices", r->other[t].name);
    }
    for (uint32_t i = 0; i < r->n_relations; i++) {
        const struct sl_recipe_relation *relation = &r->between[i];
        const uint64_t pairs = size_of(r, relation->source) * size_of(r, relation->destination);
        SL_FAIL_IF(relation->n_edges == 0 || relation->n_edges > pairs / 8, SL_EINVAL,
                   "generator: %s: expected 1 to %llu edges (an eighth of all pairs), found %llu; try more "
                   "vertices",
                   relation->name, (unsigned long long)(pairs / 8), (unsigned long long)relation->n_edges);
    }
    return SL_OK;
}

enum sl_status sl_recipe_check(const struct sl_recipe *r)
{
    uint64_t pairs = (uint64_t)r->n_vertices * (r->n_vertices > 0 ? r->n_vertices - 1 : 0);
    SL_FAIL_IF(r->n_vertices >= SL_NONE || r->n_classes == 0 || r->n_vertices / 2 < r->n_classes, SL_EINVAL,
               "generator: expected 1 or more classes of 2 or more vertices, found %u classes, %u vertices",
               r->n_classes, r->n_vertices);
    SL_FAIL_IF(r->n_edges > pairs / 8, SL_EINVAL,
               "generator: expected at most %llu edges (an eighth of all pairs), found %llu",
               (unsigned long long)(pairs / 8), (unsigned long long)r->n_edges);
    SL_FAIL_IF(r->n_features == 0 || r->n_features > 1 << 24, SL_EINVAL,
               "generator: expected 1 to 2^24 features, found %u", r->n_features);
    SL_FAIL_IF(!(r->homophily >= 0 && r->homophily <= 1), SL_EINVAL,
               "generator: expected a homophily of 0 to 1, found %g", r->homophily);
    SL_FAIL_IF((uint64_t)r->n_train + r->n_valid + r->n_test > r->n_vertices, SL_EINVAL,
               "generator: the split's %u + %u + %u vertices are more than the %u there are", r->n_train, r->n_valid,
               r->n_test, r->n_vertices);
    SL_FAIL_IF(r->n_types > 0 && (r->sparse || r->n_edges == 0), SL_EINVAL,
               "generator: %s: expected dense features and 1 or more edges (no --sparse)", r->name);
    return check_types(r);
}
