/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How near a mistyped name is to a known one, for "did you mean".
 */
#ifndef SL_SUPPORT_NEAREST_H
#define SL_SUPPORT_NEAREST_H

#include <stddef.h>

/* Letters to insert, remove or replace to turn `typed` into `known`, upper and lower case alike. If `known` begins with three or more
 * typed letters, at most 1. SIZE_MAX: too many for a slip of the fingers. */
size_t sl_name_distance(const char *typed, const char *known);

#endif
