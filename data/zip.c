/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Zip archives, read by libzip from memory. libzip has no call for the offset of a member. Our source tells it: it
 * notes the offset of each read, and the first read of a stored member is at its contents. */
#include "data/zip.h"

#include <stdio.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

#include "support/memory.h"
#include "support/minmax.h"

#define MAX_RATIO 1032 /* deflate makes nothing longer than this times itself */

struct archive {
    const char *path;
    const unsigned char *data;
    uint64_t bytes;
    uint64_t at, read_at; /* offsets of the next and of the last read */
    zip_t *zip;
    zip_error_t error; /* of the source */
};

bool sl_zip_is(const unsigned char *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "PK", 2) == 0 &&
           ((data[2] == 3 && data[3] == 4) || (data[2] == 5 && data[3] == 6));
}

static enum sl_status damaged(const struct archive *archive, const char *reason)
{
    return sl_fail(SL_EFILE, "%s: damaged zip archive: %s; fetch it again", archive->path, reason);
}

static enum sl_status failed(const struct archive *archive, zip_error_t *error)
{
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY) {
        return sl_fail(SL_ENOMEM, "%s: no memory to read this archive", archive->path);
    }
    return damaged(archive, zip_error_strerror(error));
}

/* ---- The archive ------------------------------------------------------------------------------------------------- */

static zip_int64_t read_on(struct archive *archive, void *to, uint64_t bytes)
{
    bytes = sl_min_u64(bytes, archive->bytes - archive->at);
    memcpy(to, archive->data + archive->at, bytes);
    archive->read_at = archive->at;
    archive->at += bytes;
    return (zip_int64_t)bytes;
}

/* libzip's source: its calls for the archive in memory. */
static zip_int64_t serve(void *context, void *data, zip_uint64_t bytes, zip_source_cmd_t command)
{
    struct archive *archive = context;
    zip_int64_t at;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_SUPPORTS, -1);
    case ZIP_SOURCE_OPEN: archive->at = 0; return 0;
    case ZIP_SOURCE_READ: return read_on(archive, data, bytes);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_SEEK:
        at = zip_source_seek_compute_offset(archive->at, archive->bytes, data, bytes, &archive->error);
        archive->at = at < 0 ? archive->at : (uint64_t)at;
        return at < 0 ? -1 : 0;
    case ZIP_SOURCE_TELL: return (zip_int64_t)archive->at;
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->size = archive->bytes;
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&archive->error, data, bytes);
    default: zip_error_set(&archive->error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* On success end with zip_discard. */
static enum sl_status open_archive(struct archive *archive)
{
    zip_error_t error;
    enum sl_status st = SL_OK;
    zip_error_init(&error);
    zip_error_init(&archive->error);
    zip_source_t *source = zip_source_function_create(serve, archive, &error);
    if (source != NULL) {
        archive->zip = zip_open_from_source(source, ZIP_RDONLY, &error);
    }
    if (archive->zip == NULL) {
        st = failed(archive, &error);
        zip_source_free(source);
    }
    zip_error_fini(&error);
    return st;
}

static enum sl_status find_member(const struct archive *archive, const char *name, zip_stat_t *out)
{
    zip_int64_t index = zip_name_locate(archive->zip, name, ZIP_FL_ENC_RAW);
    if (index < 0 && zip_error_code_zip(zip_get_error(archive->zip)) != ZIP_ER_NOENT) {
        return failed(archive, zip_get_error(archive->zip));
    }
    if (index < 0) {
        return sl_fail(SL_EFILE, "%s: expected a member '%s' in this archive, found none", archive->path, name);
    }
    if (zip_stat_index(archive->zip, (zip_uint64_t)index, 0, out) != 0) {
        return failed(archive, zip_get_error(archive->zip));
    }
    return SL_OK;
}

bool sl_zip_has(const unsigned char *data, size_t bytes, const char *name)
{
    struct archive archive = {.path = "", .data = data, .bytes = bytes};
    zip_stat_t member;
    if (open_archive(&archive) != SL_OK) {
        return false;
    }
    bool has = find_member(&archive, name, &member) == SL_OK;
    zip_discard(archive.zip);
    return has;
}

static const char *member_name(const struct archive *archive, zip_int64_t i)
{
    const char *name = zip_get_name(archive->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    return name != NULL ? name : "";
}

enum sl_status sl_zip_list(const char *path, const unsigned char *data, size_t bytes, char **out)
{
    struct archive archive = {.path = path, .data = data, .bytes = bytes};
    size_t room = 1;
    size_t n = 0;
    enum sl_status st = open_archive(&archive);
    if (st != SL_OK) {
        return st;
    }
    const zip_int64_t n_members = zip_get_num_entries(archive.zip, 0);
    for (zip_int64_t i = 0; i < n_members; i++) {
        room += strlen(member_name(&archive, i)) + 1;
    }
    st = sl_alloc_zero(room, 1, "names of arrays", out);
    for (zip_int64_t i = 0; i < n_members && st == SL_OK; i++) {
        n += (size_t)snprintf(*out + n, room - n, "%s\n", member_name(&archive, i));
    }
    zip_discard(archive.zip);
    return st;
}

/* ---- The contents ------------------------------------------------------------------------------------------------ */

/* Find the contents of a stored member in the archive, and check them. */
static enum sl_status find_stored(struct archive *archive, zip_file_t *file, const zip_stat_t *member,
                                  const unsigned char **out)
{
    unsigned char first;
    *out = archive->data;
    if (member->size > 0) {
        if (zip_fread(file, &first, 1) != 1 || member->size > archive->bytes - archive->read_at) {
            return damaged(archive, "a member is longer than the file");
        }
        *out += archive->read_at;
    }
    if (crc32_z(crc32_z(0, NULL, 0), *out, member->size) != member->crc) {
        return damaged(archive, "a member's checksum is wrong");
    }
    return SL_OK;
}

/* Inflate a member into a new block. libzip checks its length and, at its end, its checksum. */
static enum sl_status inflate_member(const struct archive *archive, zip_file_t *file, const zip_stat_t *member,
                                     unsigned char **out)
{
    char label[512];
    unsigned char *data;
    unsigned char more;
    if (member->comp_size > archive->bytes || member->size / MAX_RATIO > member->comp_size) {
        return damaged(archive, "a member claims more contents than it can hold");
    }
    snprintf(label, sizeof label, "%.400s: an array", archive->path);
    enum sl_status st = sl_alloc(member->size, 1, label, &data);
    if (st != SL_OK) {
        return st;
    }
    uint64_t done = 0;
    for (zip_int64_t n = 1; done < member->size && n > 0; done += n > 0 ? (uint64_t)n : 0) {
        n = zip_fread(file, data + done, member->size - done);
    }
    if (done < member->size || zip_fread(file, &more, 1) != 0) {
        sl_free(data);
        return damaged(archive, "a member cannot be inflated to its length, or its checksum is wrong");
    }
    *out = data;
    return SL_OK;
}

static enum sl_status read_member(struct archive *archive, const zip_stat_t *member, const unsigned char **data_out,
                                  unsigned char **inflated_out)
{
    bool deflated = member->comp_method == ZIP_CM_DEFLATE;
    enum sl_status st;
    if (member->encryption_method != ZIP_EM_NONE) {
        return sl_fail(SL_EFILE, "%s: expected an archive without encryption", archive->path);
    }
    if (!deflated && (member->comp_method != ZIP_CM_STORE || member->comp_size != member->size)) {
        return sl_fail(SL_EFILE, "%s: expected members stored or deflated, found method %u", archive->path,
                       member->comp_method);
    }
    zip_file_t *file = zip_fopen_index(archive->zip, member->index, 0);
    if (file == NULL) {
        return failed(archive, zip_get_error(archive->zip));
    }
    if (deflated) {
        st = inflate_member(archive, file, member, inflated_out);
        *data_out = *inflated_out;
    } else {
        st = find_stored(archive, file, member, data_out);
    }
    zip_fclose(file);
    return st;
}

enum sl_status sl_zip_find(const char *path, const unsigned char *data, size_t bytes, const char *name,
                           const unsigned char **data_out, size_t *bytes_out, unsigned char **inflated_out)
{
    struct archive archive = {.path = path, .data = data, .bytes = bytes};
    zip_stat_t member;
    enum sl_status st = open_archive(&archive);
    if (st != SL_OK) {
        return st;
    }
    *inflated_out = NULL;
    SL_TRY(st, find_member(&archive, name, &member), done);
    st = read_member(&archive, &member, data_out, inflated_out);
    *bytes_out = member.size;
done:
    zip_discard(archive.zip);
    return st;
}
