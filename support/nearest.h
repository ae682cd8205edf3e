/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The known name nearest to a mistyped one, for "did you mean".
 */
#ifndef SL_SUPPORT_NEAREST_H
#define SL_SUPPORT_NEAREST_H

#include <stddef.h>

/* A search. It begins with {.typed = name, .distance = SIZE_MAX}. */
struct sl_nearest {
    const char *typed;
    const char *answer; /* of the nearest name so far; NULL: none is near */
    size_t distance;    /* 0: the typed name equals a known name but for the case of letters, and _ for - */
};

/* Compare with `names`, separated by commas. If one is nearer than all names before, keep `answer`. From near to far:
 * an equal name; one slip (a letter inserted, removed, replaced, or swapped with the next); one name begins the other
 * ("data" and dataset, "hidden-size" and hidden); two slips; a typed word ("num-epochs" and epochs); three slips. A
 * short name allows fewer slips. */
void sl_nearest_offer(struct sl_nearest *nearest, const char *names, const char *answer);

#endif
