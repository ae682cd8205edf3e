/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Variables of tests that release what they hold at the end of their block. */
#ifndef SL_TESTS_OWNED_H
#define SL_TESTS_OWNED_H

#include <stdlib.h>

#include "support/memory.h"

/* `OWNED(sl_dataset_free) struct sl_dataset d`: the block of d ends with sl_dataset_free(&d). Variables are released in
 * the reverse order of their declarations. A test that fails releases nothing. */
#define OWNED(release) __attribute__((cleanup(release)))

/* After `POINTER_OWNER(json_decref, json_t)`, the block of `OWNED(json_decref_it) json_t *p` ends with json_decref(p).
 */
#define POINTER_OWNER(release, type)                                                                                   \
    __attribute__((unused)) static inline void release##_it(type **pointer)                                            \
    {                                                                                                                  \
        release(*pointer);                                                                                             \
    }

/* The same with free(), for pointers of any type. sl_free_it: support/memory.h. */
#define FREED OWNED(free_it)
__attribute__((unused)) static inline void free_it(void *pointer)
{
    free(*(void *const *)pointer);
}

#endif
