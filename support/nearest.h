/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How near a mistyped name is to a known one, for "did you mean".
 */
#ifndef SL_SUPPORT_NEAREST_H
#define SL_SUPPORT_NEAREST_H

#include <stddef.h>

/* How far `typed` is from `known`; the smaller the nearer. 0: equal but for the case of letters. SIZE_MAX: too far
 * for a slip of the fingers. One letter inserted, removed, replaced or swapped with the next one is nearer than
 * three or more first letters, and these are nearer than two slips. */
size_t sl_name_distance(const char *typed, const char *known);

#endif
