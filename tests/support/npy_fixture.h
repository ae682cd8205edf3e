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
    unsigned char file[1024];
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
    return put_bytes(name, file, make_npy(file, 1, dictionary, items, bytes));
}

static void put_number(unsigned char **p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        *(*p)++ = (unsigned char)(i < 8 ? value >> 8 * i : 0);
    }
}

/* One member of an archive to be. */
struct member {
    const char *name;
    const unsigned char *data;
    size_t bytes;
};

static size_t deflate_all(const unsigned char *data, size_t bytes, unsigned char *out, size_t room)
{
    z_stream stream = {
        .next_in = (unsigned char *)data, .avail_in = (uInt)bytes, .next_out = out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

/* A zip archive, as numpy.savez (stored) and savez_compressed write it; with `wide` all sizes stand in 64-bit fields
 * only. */
__attribute__((unused)) static size_t make_zip(unsigned char *out, const struct member *members, int n, bool deflated,
                                               bool wide)
{
    unsigned char *p = out;
    unsigned char directory[1024];
    unsigned char *d = directory;
    for (int i = 0; i < n; i++) {
        static unsigned char packed[1 << 15];
        const struct member *m = &members[i];
        uint32_t crc = (uint32_t)crc32(0, m->data, (uInt)m->bytes);
        size_t packed_bytes = deflated ? deflate_all(m->data, m->bytes, packed, sizeof packed) : m->bytes;
        uint64_t place = (uint64_t)(p - out);
        size_t name_bytes = strlen(m->name);
        unsigned char *start = p;
        put_number(&p, 0x04034b50, 4);
        put_number(&p, 45, 2);
        put_number(&p, 0, 2);
        put_number(&p, deflated ? 8 : 0, 2);
        put_number(&p, 0, 4);
        put_number(&p, crc, 4);
        put_number(&p, packed_bytes, 4);
        put_number(&p, m->bytes, 4);
        put_number(&p, name_bytes, 2);
        put_number(&p, 3, 2); /* an extra field of a length of its own */
        assert_int_equal(p - start, 30);
        memcpy(p, m->name, name_bytes);
        p += name_bytes + 3;
        memcpy(p, deflated ? packed : m->data, packed_bytes);
        p += packed_bytes;
        put_number(&d, 0x02014b50, 4);
        put_number(&d, 45, 2);
        put_number(&d, 45, 2);
        put_number(&d, 0, 2);
        put_number(&d, deflated ? 8 : 0, 2);
        put_number(&d, 0, 4);
        put_number(&d, crc, 4);
        put_number(&d, wide ? 0xffffffff : packed_bytes, 4);
        put_number(&d, wide ? 0xffffffff : m->bytes, 4);
        put_number(&d, name_bytes, 2);
        put_number(&d, wide ? 28 : 0, 2);
        put_number(&d, 0, 2 + 2 + 2 + 4);
        put_number(&d, wide ? 0xffffffff : place, 4);
        memcpy(d, m->name, name_bytes);
        d += name_bytes;
        if (wide) {
            put_number(&d, 1, 2);
            put_number(&d, 24, 2);
            put_number(&d, m->bytes, 8);
            put_number(&d, packed_bytes, 8);
            put_number(&d, place, 8);
        }
    }
    uint64_t place = (uint64_t)(p - out);
    uint64_t bytes = (uint64_t)(d - directory);
    memcpy(p, directory, bytes);
    p += bytes;
    if (wide) {
        uint64_t end64 = (uint64_t)(p - out);
        put_number(&p, 0x06064b50, 4);
        put_number(&p, 44, 8);
        put_number(&p, 45, 2);
        put_number(&p, 45, 2);
        put_number(&p, 0, 8);
        put_number(&p, (uint64_t)n, 8);
        put_number(&p, (uint64_t)n, 8);
        put_number(&p, bytes, 8);
        put_number(&p, place, 8);
        put_number(&p, 0x07064b50, 4);
        put_number(&p, 0, 4);
        put_number(&p, end64, 8);
        put_number(&p, 1, 4);
    }
    put_number(&p, 0x06054b50, 4);
    put_number(&p, 0, 4);
    put_number(&p, wide ? 0xffff : (uint64_t)n, 2);
    put_number(&p, wide ? 0xffff : (uint64_t)n, 2);
    put_number(&p, wide ? 0xffffffff : bytes, 4);
    put_number(&p, wide ? 0xffffffff : place, 4);
    put_number(&p, 0, 2);
    return (size_t)(p - out);
}

#endif
