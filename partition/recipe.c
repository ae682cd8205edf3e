/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator's recipes: stand-ins for real datasets, and the check of a recipe. */
#include <string.h>

#include "partition/generate.h"

const char sl_recipe_names[] = "arxiv-synthetic, products-synthetic";

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

enum sl_status sl_recipe_check(const struct sl_recipe *r)
{
    uint64_t pairs = (uint64_t)r->n_vertices * (r->n_vertices > 0 ? r->n_vertices - 1 : 0);
    if (r->n_vertices >= SL_NONE || r->n_classes == 0 || r->n_vertices / 2 < r->n_classes) {
        return sl_fail(SL_EINVAL,
                       "generator: expected 1 or more classes of 2 or more vertices, found %u classes, %u vertices",
                       r->n_classes, r->n_vertices);
    }
    if (r->n_edges > pairs / 8) {
        return sl_fail(SL_EINVAL, "generator: expected at most %llu edges (an eighth of all pairs), found %llu",
                       (unsigned long long)(pairs / 8), (unsigned long long)r->n_edges);
    }
    if (r->n_features == 0 || r->n_features > 1 << 24) {
        return sl_fail(SL_EINVAL, "generator: expected 1 to 2^24 features, found %u", r->n_features);
    }
    if (!(r->homophily >= 0 && r->homophily <= 1)) {
        return sl_fail(SL_EINVAL, "generator: expected a homophily of 0 to 1, found %g", r->homophily);
    }
    if ((uint64_t)r->n_train + r->n_valid + r->n_test > r->n_vertices) {
        return sl_fail(SL_EINVAL, "generator: the split's %u + %u + %u vertices are more than the %u there are",
                       r->n_train, r->n_valid, r->n_test, r->n_vertices);
    }
    return SL_OK;
}
