/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Zip archives: the directory at the end has the offset of each member. Every offset and length in the file is
 * checked before use. */
#include "partition/zip.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "support/memory.h"

#define LOCAL_BYTES 30   /* header of a member, without name and extra field */
#define ENTRY_BYTES 46   /* entry of the directory, without name, extra field and comment */
#define END_BYTES 22     /* end of the directory, without the comment */
#define LOCATOR_BYTES 20 /* offset of the 64-bit end; stands right before the end */
#define END64_BYTES 56
#define MAX_COMMENT_BYTES 65535
#define MAX_RATIO 1032 /* deflate makes nothing longer than this times itself */
#define STEP_BYTES ((size_t)1 << 30)

enum method { STORED = 0, DEFLATED = 8 };

struct archive {
    const char *path;
    const unsigned char *data;
    size_t bytes;
};

struct member {
    const unsigned char *data; /* packed */
    uint64_t packed;
    uint64_t unpacked;
    uint32_t crc;
    unsigned method;
};

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        value = value << 8 | p[i];
    }
    return value;
}

/* True if `length` bytes from `offset` lie in the archive. */
static bool within(const struct archive *archive, uint64_t offset, uint64_t length)
{
    return offset <= archive->bytes && length <= archive->bytes - offset;
}

static enum sl_status damaged(const struct archive *archive, const char *reason)
{
    return sl_fail(SL_EFILE, "%s: damaged zip archive: %s; fetch it again", archive->path, reason);
}

bool sl_zip_is(const unsigned char *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "PK", 2) == 0 &&
           ((data[2] == 3 && data[3] == 4) || (data[2] == 5 && data[3] == 6));
}

/* ---- The directory ----------------------------------------------------------------------------------------------- */

/* Find the end of the directory. Only a comment may follow it. */
static const unsigned char *find_end(const struct archive *archive)
{
    size_t most = END_BYTES + MAX_COMMENT_BYTES;
    for (size_t back = END_BYTES; back <= archive->bytes && back <= most; back++) {
        const unsigned char *p = archive->data + archive->bytes - back;
        if (memcmp(p, "PK\5\6", 4) == 0 && little(p + 20, 2) == back - END_BYTES) {
            return p;
        }
    }
    return NULL;
}

/* The directory's offset, and its number of entries. */
static enum sl_status find_directory(const struct archive *archive, uint64_t *offset, uint64_t *n_entries)
{
    const unsigned char *end = find_end(archive);
    if (end == NULL) {
        return damaged(archive, "expected the end of its directory, found none");
    }
    *n_entries = little(end + 10, 2);
    *offset = little(end + 16, 4);
    if (*n_entries != 0xffff && *offset != 0xffffffff) {
        return SL_OK;
    }
    if (end - archive->data < LOCATOR_BYTES || memcmp(end - LOCATOR_BYTES, "PK\6\7", 4) != 0) {
        return SL_OK; /* no 64-bit end: the numbers are just large */
    }
    uint64_t offset64 = little(end - LOCATOR_BYTES + 8, 8);
    if (!within(archive, offset64, END64_BYTES) || memcmp(archive->data + offset64, "PK\6\6", 4) != 0) {
        return damaged(archive, "the 64-bit end of its directory is not where it should be");
    }
    *n_entries = little(archive->data + offset64 + 32, 8);
    *offset = little(archive->data + offset64 + 48, 8);
    return SL_OK;
}

/* The 64-bit extra field holds, in this order, those of the three numbers with all ones in the entry. */
static bool read_extra64(const unsigned char *p, size_t bytes, uint64_t *unpacked, uint64_t *packed, uint64_t *offset)
{
    uint64_t *numbers[] = {unpacked, packed, offset};
    for (size_t length; bytes >= 4; p += 4 + length, bytes -= 4 + length) {
        length = little(p + 2, 2);
        if (length > bytes - 4) {
            return false;
        }
        size_t used = 4;
        bool is_zip64 = little(p, 2) == 1;
        for (int i = 0; i < 3; i++) {
            if (!is_zip64 || *numbers[i] != 0xffffffff) {
                continue;
            }
            if (used + 8 > 4 + length) {
                return false;
            }
            *numbers[i] = little(p + used, 8);
            used += 8;
        }
    }
    return true;
}

/* Read the entry at `p`, whose variable parts lie in the archive, and find the member's contents. */
static enum sl_status read_entry(const struct archive *archive, const unsigned char *p, struct member *out)
{
    uint64_t packed = little(p + 20, 4);
    uint64_t unpacked = little(p + 24, 4);
    uint64_t offset = little(p + 42, 4);
    size_t name_bytes = little(p + 28, 2);
    if (!read_extra64(p + ENTRY_BYTES + name_bytes, little(p + 30, 2), &unpacked, &packed, &offset)) {
        return damaged(archive, "an extra field does not fit its entry");
    }
    if ((little(p + 8, 2) & 1) != 0) {
        return sl_fail(SL_EFILE, "%s: expected an archive without encryption", archive->path);
    }
    if (!within(archive, offset, LOCAL_BYTES) || memcmp(archive->data + offset, "PK\3\4", 4) != 0) {
        return damaged(archive, "a member is not where its entry says");
    }
    const unsigned char *local = archive->data + offset;
    uint64_t start = offset + LOCAL_BYTES + little(local + 26, 2) + little(local + 28, 2);
    if (!within(archive, start, packed)) {
        return damaged(archive, "a member is longer than the file");
    }
    *out = (struct member){.data = archive->data + start,
                           .packed = packed,
                           .unpacked = unpacked,
                           .crc = (uint32_t)little(p + 16, 4),
                           .method = (unsigned)little(p + 10, 2)};
    return SL_OK;
}

static enum sl_status find_member(const struct archive *archive, const char *name, struct member *out)
{
    uint64_t offset = 0;
    uint64_t n_entries = 0;
    enum sl_status st = find_directory(archive, &offset, &n_entries);
    if (st != SL_OK) {
        return st;
    }
    for (uint64_t i = 0; i < n_entries; i++) {
        if (!within(archive, offset, ENTRY_BYTES) || memcmp(archive->data + offset, "PK\1\2", 4) != 0) {
            return damaged(archive, "its directory ends early");
        }
        const unsigned char *p = archive->data + offset;
        size_t name_bytes = little(p + 28, 2);
        uint64_t length = ENTRY_BYTES + name_bytes + little(p + 30, 2) + little(p + 32, 2);
        if (!within(archive, offset, length)) {
            return damaged(archive, "an entry is longer than the file");
        }
        if (name_bytes == strlen(name) && memcmp(p + ENTRY_BYTES, name, name_bytes) == 0) {
            return read_entry(archive, p, out);
        }
        offset += length;
    }
    return sl_fail(SL_EFILE, "%s: expected a member '%s' in this archive, found none", archive->path, name);
}

bool sl_zip_has(const unsigned char *data, size_t bytes, const char *name)
{
    struct archive archive = {.path = "", .data = data, .bytes = bytes};
    struct member member;
    return find_member(&archive, name, &member) == SL_OK;
}

/* ---- The contents ------------------------------------------------------------------------------------------------ */

/* Give zlib's 32-bit counters the next piece of a longer input or output. */
static void feed(uInt *available, uint64_t *left)
{
    if (*available == 0) {
        *available = (uInt)(*left < STEP_BYTES ? *left : STEP_BYTES);
        *left -= *available;
    }
}

/* Inflate exactly member->unpacked bytes to `to`. */
static bool inflate_member(const struct member *member, unsigned char *to)
{
    z_stream stream = {.next_in = (unsigned char *)member->data, .next_out = to};
    uint64_t in_left = member->packed;
    uint64_t out_left = member->unpacked;
    int code = inflateInit2(&stream, -MAX_WBITS);
    while (code == Z_OK) {
        feed(&stream.avail_in, &in_left);
        feed(&stream.avail_out, &out_left);
        code = inflate(&stream, Z_NO_FLUSH);
    }
    bool whole = code == Z_STREAM_END && stream.avail_out == 0 && out_left == 0;
    inflateEnd(&stream);
    return whole;
}

static uint32_t sum(const unsigned char *data, uint64_t bytes)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, bytes);
}

static enum sl_status unpack(const struct archive *archive, const struct member *member, unsigned char **out)
{
    unsigned char *data;
    if (member->unpacked / MAX_RATIO > member->packed) {
        return damaged(archive, "a member claims more contents than it can hold");
    }
    char label[512];
    snprintf(label, sizeof label, "%.400s: an array", archive->path);
    enum sl_status st = sl_alloc(member->unpacked, 1, label, &data);
    if (st != SL_OK) {
        return st;
    }
    if (!inflate_member(member, data)) {
        sl_free(data);
        return damaged(archive, "a member cannot be inflated to its length");
    }
    *out = data;
    return SL_OK;
}

enum sl_status sl_zip_find(const char *path, const unsigned char *data, size_t bytes, const char *name,
                           const unsigned char **data_out, size_t *bytes_out, unsigned char **inflated_out)
{
    struct archive archive = {.path = path, .data = data, .bytes = bytes};
    struct member member = {0};
    unsigned char *inflated = NULL;
    enum sl_status st = find_member(&archive, name, &member);
    if (st == SL_OK && member.method == DEFLATED) {
        st = unpack(&archive, &member, &inflated);
    } else if (st == SL_OK && (member.method != STORED || member.packed != member.unpacked)) {
        st = sl_fail(SL_EFILE, "%s: expected members stored or deflated, found method %u", path, member.method);
    }
    if (st != SL_OK) {
        return st;
    }
    const unsigned char *contents = inflated != NULL ? inflated : member.data;
    if (sum(contents, member.unpacked) != member.crc) {
        sl_free(inflated);
        return damaged(&archive, "a member's checksum is wrong");
    }
    *data_out = contents;
    *bytes_out = member.unpacked;
    *inflated_out = inflated;
    return SL_OK;
}
