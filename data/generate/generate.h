/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator: graphs with communities, heavy-tailed degrees, unequal classes and noisy features.
 *
 * Each class is split into topics of about 128 vertices. A vertex has a home topic, a popularity (Pareto law) and a
 * number of written edges (log-normal law, at least one). An edge goes to its writer's topic, to its class, to a
 * partner topic in another class, or anywhere. Its target is chosen in proportion to popularity.
 *
 * Some vertices are strays: their edges and features follow another class than their label. Real data has such
 * vertices, and no model can classify strays. Dense features are the class's centre plus the topic's centre plus
 * noise. The noise is so strong that one vertex tells little, and the mean over neighbours more. Sparse features
 * are bags of words, from the class's vocabulary and from common words.
 *
 * A typed recipe adds vertices of other types. They live in the same topics, one range of places for each type, and
 * their edges follow the same rule: topic, class, or anywhere. They have no features. As in a typed folder, each has a
 * column of its own (data/readers/typed.c).
 *
 * Every choice is a function of the seed, the vertex and the purpose. Threads and order do not matter.
 */
#ifndef SL_DATA_GENERATE_GENERATE_H
#define SL_DATA_GENERATE_GENERATE_H

#include "data/generate/recipe.h"
#include "data/raw.h"

/* Make the dataset. SL_EINVAL: as sl_recipe_check. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_generate(const struct sl_recipe *recipe, struct sl_raw *out);

/* Write a generated dataset to `folder`: as sl_raw_write, or in the layout of typed folders
 * (data/readers/typed.c). Reading it back gives equal bits. SL_EIO, SL_ENOMEM. */
enum sl_status sl_recipe_write(const struct sl_recipe *recipe, const struct sl_raw *raw, const char *folder);

#endif
