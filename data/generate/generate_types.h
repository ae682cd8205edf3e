/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The generator's other types of vertices, and their relations. */
#ifndef SL_DATA_GENERATE_GENERATE_TYPES_H
#define SL_DATA_GENERATE_GENERATE_TYPES_H

#include "data/generate/world.h"
#include "data/raw.h"

/* Add the recipe's other types and relations to its own vertices in *raw. SL_ENOMEM. */
enum sl_status sl_world_add_types(const struct sl_world *world, struct sl_raw *raw);

#endif
