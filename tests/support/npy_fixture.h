/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Making NumPy's files byte by byte. */
#ifndef SL_TESTS_NPY_FIXTURE_H
#define SL_TESTS_NPY_FIXTURE_H

#include "tests/support/data_fixture.h" /* first: it chooses features of the C library */

#include <stdbool.h>

/* A .npy file with that dictionary and those items; returns its length. */
__attribute__((unused)) static size_t make_npy(unsigned char *out, int version, const char *dictionary,
                                               const void *items, size_t bytes)
{
    size_t length = strlen(dictionary) + 1;
    size_t start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (size_t i = 8; i < start; i++) {
        out[i] = (unsigned char)(length >> 8 * (i - 8));
    }
    memcpy(out + start, dictionary, length - 1);
    out[start + length - 1] = '\n';
    if (bytes > 0) {
        memcpy(out + start + length, items, bytes);
    }
    return start + length + bytes;
}

/* Put a .npy file. Returns its path. */
__attribute__((unused)) static const char *put_npy_array(const char *name, const char *dtype, const char *shape,
                                                         const void *items, size_t bytes)
{
    char dictionary[118];
    static unsigned char file[1 << 16];
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
    return put_bytes(name, file, make_npy(file, 1, dictionary, items, bytes));
}

#endif
