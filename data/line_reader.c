/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines in blocks. Two buffers take turns: while several threads parse the blocks of a buffer, one of them inflates the
 * next part of the file into the other buffer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr */
#endif
#include "data/line_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"

#ifndef SL_LINES_BLOCK_BYTES
#define SL_LINES_BLOCK_BYTES ((size_t)1 << 18) /* `make fuzz` sets less: small files then have several blocks */
#endif
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define MAX_LINE_BYTES ((size_t)1 << 30)
#define MAX_BLOCKS 16 /* of a buffer */

/* Text with whole lines, in blocks, and the start of a line behind them. */
struct buffer {
    char *text;
    size_t room;
    const char *rest;
    size_t rest_bytes;
    unsigned n_blocks;
    struct sl_lines blocks[MAX_BLOCKS];
};

/* The file being read. */
struct source {
    gzFile file;
    const char *path;
    uint64_t max_lines;
    uint64_t n_lines; /* cut into blocks so far */
    bool ended;
    bool begun;
    bool surplus; /* the file has lines after max_lines */
    struct buffer buffers[2];
};

/* ---- Reading blocks ---------------------------------------------------------------------------------------------- */

static enum sl_status open_file(const char *path, gzFile *out)
{
    errno = 0;
    *out = gzopen(path, "rbe");
    SL_FAIL_IF(*out == NULL, SL_EIO, "%s: cannot open for reading: %s", path, strerror(errno != 0 ? errno : ENOMEM));
    gzbuffer(*out, (unsigned)SL_LINES_BLOCK_BYTES);
    return SL_OK;
}

/* zlib's reason without the path in front of it. */
static const char *reason_of(gzFile file, const char *path, int *code)
{
    const char *why = gzerror(file, code);
    size_t n = strlen(path);
    return strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

/* Read up to `bytes` bytes; fewer only at the end of the file. n_lines: read before. */
static enum sl_status inflate_some(gzFile file, const char *path, uint64_t n_lines, char *to, size_t bytes, size_t *got)
{
    int n = gzread(file, to, (unsigned)bytes);
    int code = Z_OK;
    const char *why = n < (int)bytes ? reason_of(file, path, &code) : "";
    SL_FAIL_IF(n < 0 && code == Z_ERRNO, SL_EIO, "%s: cannot read: %s", path, strerror(errno));
    SL_FAIL_IF(n < 0 || (code != Z_OK && code != Z_STREAM_END), SL_EFILE,
               "%s: damaged or cut short near line %llu: %s; fetch it again", path, (unsigned long long)n_lines + 1,
               why);
    *got = (size_t)n;
    return SL_OK;
}

/* Make room for `bytes` bytes of text, a newline and a NUL. */
static enum sl_status make_room(struct buffer *buffer, size_t bytes)
{
    if (buffer->room >= bytes + 2) {
        return SL_OK;
    }
    SL_CHECK(sl_realloc(&buffer->text, bytes + 2, 1, "a block of text"));
    buffer->room = bytes + 2;
    return SL_OK;
}

static uint64_t count_newlines(const char *text, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        n += text[i] == '\n';
    }
    return n;
}

/* Put the rest of the other buffer into a buffer, then text until the buffer holds a line end or the file ends. */
static enum sl_status fill_buffer(struct source *source, const struct buffer *other, size_t wish, struct buffer *buffer,
                                  size_t *have_out)
{
    size_t have = other->rest_bytes;
    size_t want = have + wish;
    bool line_ends = false;
    SL_CHECK(make_room(buffer, want));
    if (have > 0) {
        memcpy(buffer->text, other->rest, have);
    }
    while (!line_ends && !source->ended) {
        size_t got = 0;
        if (have == want) {
            SL_FAIL_IF(want > MAX_LINE_BYTES, SL_EFILE, "%s:%llu: a line of over 1 GiB; expected lines of numbers",
                       source->path, (unsigned long long)source->n_lines + 1);
            want *= 2;
            SL_CHECK(make_room(buffer, want));
        }
        SL_CHECK(inflate_some(source->file, source->path, source->n_lines, buffer->text + have, want - have, &got));
        source->ended = got < want - have;
        line_ends = memchr(buffer->text + have, '\n', got) != NULL;
        have += got;
    }
    *have_out = have;
    return SL_OK;
}

/* The line at `p` has nothing but blanks; *next gets the start of the next line, or NULL. */
static bool is_blank(const char *p, const char **next)
{
    p += strspn(p, " \t\r");
    *next = *p == '\n' ? p + 1 : NULL;
    return *next != NULL;
}

/* Cut off the lines after max_lines. Blank lines at the end of a file are harmless, other lines are a surplus. */
static void cut_surplus(struct source *source, struct sl_lines *lines)
{
    uint64_t fit = source->max_lines > lines->first_line ? source->max_lines - lines->first_line : 0;
    if (lines->n_lines <= fit) {
        return;
    }
    const char *p = lines->text;
    const char *end = lines->text + lines->bytes;
    for (uint64_t i = 0; i < fit; i++) {
        p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
    }
    const char *cut = p;
    while (p != NULL && p < end && is_blank(p, &p)) {
    }
    source->surplus |= p == NULL;
    lines->bytes = (size_t)(cut - lines->text);
    lines->n_lines = fit;
}

/* Cut the whole lines in [text, end) into blocks. */
static void cut_blocks(struct source *source, char *text, char *end, struct buffer *buffer)
{
    const size_t size = sl_max_u64((uint64_t)(end - text) / MAX_BLOCKS + 1, SL_LINES_BLOCK_BYTES);
    buffer->n_blocks = 0;
    while (text < end && !source->surplus) {
        char *stop = size < (size_t)(end - text) ? text + size : end;
        stop = memchr(stop - 1, '\n', (size_t)(end - stop + 1));
        stop++;
        struct sl_lines *lines = &buffer->blocks[buffer->n_blocks++];
        *lines = (struct sl_lines){.path = source->path,
                                   .text = text,
                                   .bytes = (size_t)(stop - text),
                                   .first_line = source->n_lines,
                                   .n_lines = count_newlines(text, (size_t)(stop - text))};
        cut_surplus(source, lines);
        source->n_lines += lines->n_lines;
        text = stop;
    }
}

/* Put the next lines of the file into a buffer. At the end of the file it gets none. */
static enum sl_status fill(struct source *source, const struct buffer *other, size_t wish, struct buffer *buffer)
{
    size_t have = 0;
    SL_CHECK(fill_buffer(source, other, wish, buffer, &have));
    char *text = buffer->text;
    if (source->ended && have > 0 && text[have - 1] != '\n') {
        text[have++] = '\n';
    }
    const char *last = have > 0 ? memrchr(text, '\n', have) : NULL;
    const size_t bytes = last == NULL ? 0 : (size_t)(last - text) + 1;
    const size_t mark = !source->begun && bytes >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    source->begun |= bytes > 0;
    buffer->rest = text + bytes;
    buffer->rest_bytes = have - bytes;
    cut_blocks(source, text + mark, text + bytes, buffer);
    return SL_OK;
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

/* The blocks of a buffer for several threads, and the buffer to fill meanwhile. */
struct turn {
    enum sl_status (*body)(void *context, const struct sl_lines *lines);
    void *context;
    struct source *source;
    const struct buffer *full;
    struct buffer *next;
    unsigned first;        /* block of `full` */
    pthread_mutex_t mutex; /* guards all below */
    enum sl_status status; /* of the failed block that is first in the file, else of filling */
    uint64_t failed_line;
    char message[SL_MESSAGE_BYTES];
};

static void note_failure(struct turn *turn, enum sl_status st, uint64_t line)
{
    pthread_mutex_lock(&turn->mutex);
    if (st != SL_OK && (turn->status == SL_OK || line < turn->failed_line)) {
        turn->status = st;
        turn->failed_line = line;
        snprintf(turn->message, sizeof turn->message, "%s", sl_message());
    }
    pthread_mutex_unlock(&turn->mutex);
}

static bool has_failed_before(struct turn *turn, uint64_t line)
{
    pthread_mutex_lock(&turn->mutex);
    const bool failed = turn->status != SL_OK && turn->failed_line < line;
    pthread_mutex_unlock(&turn->mutex);
    return failed;
}

/* Item 0 fills the other buffer. Threads take blocks in the order of the file. So all blocks before a failed block are
 * processed, too. */
static void take_turn(void *context, uint64_t begin, uint64_t end)
{
    struct turn *turn = context;
    struct source *source = turn->source;
    for (uint64_t i = begin; i < end; i++) {
        if (i == 0) {
            if (!source->ended && !source->surplus) {
                note_failure(turn, fill(source, turn->full, MAX_BLOCKS * SL_LINES_BLOCK_BYTES, turn->next), UINT64_MAX);
            }
            continue;
        }
        const struct sl_lines *lines = &turn->full->blocks[turn->first + i - 1];
        if (!has_failed_before(turn, lines->first_line)) {
            note_failure(turn, turn->body(turn->context, lines), lines->first_line);
        }
    }
}

static enum sl_status read_all(struct source *source, struct turn *turn)
{
    struct buffer *full = &source->buffers[0];
    struct buffer *next = &source->buffers[1];
    SL_CHECK(fill(source, next, SL_LINES_BLOCK_BYTES, full));
    if (full->n_blocks == 0) {
        full->blocks[0] = (struct sl_lines){.path = source->path, .text = full->text};
    }
    SL_CHECK(turn->body(turn->context, &full->blocks[0]));
    turn->first = 1;
    while (full->n_blocks > 0 && turn->status == SL_OK) {
        next->n_blocks = 0;
        turn->full = full;
        turn->next = next;
        sl_parallel_for(full->n_blocks - turn->first + 1, 1, take_turn, turn);
        turn->first = 0;
        next = full;
        full = turn->next;
    }
    SL_FAIL_IF(turn->status != SL_OK, turn->status, "%s", turn->message);
    /* After the lines that fit: the first line may be wrong, too, and says more. */
    SL_FAIL_IF(source->surplus, SL_EFILE,
               "%s:%llu: expected %llu lines, found more; is the count wrong, or line 1 a header?", source->path,
               (unsigned long long)source->max_lines + 1, (unsigned long long)source->max_lines);
    return SL_OK;
}

enum sl_status sl_lines_read(const char *path, uint64_t max_lines,
                             enum sl_status (*body)(void *context, const struct sl_lines *lines), void *context,
                             uint64_t *n_out)
{
    struct source source = {.path = path, .max_lines = max_lines};
    struct turn turn = {.body = body, .context = context, .source = &source};
    SL_CHECK(open_file(path, &source.file));
    pthread_mutex_init(&turn.mutex, NULL);
    enum sl_status st = read_all(&source, &turn);
    pthread_mutex_destroy(&turn.mutex);
    gzclose(source.file);
    sl_free(source.buffers[0].text);
    sl_free(source.buffers[1].text);
    if (st == SL_OK) {
        *n_out = source.n_lines;
    }
    return st;
}

/* ---- Whole texts ------------------------------------------------------------------------------------------------- */

static void close_file(gzFile *file)
{
    gzclose(*file); /* NULL is allowed */
}

enum sl_status sl_lines_read_text(const char *path, bool first_line, struct sl_text *out)
{
    SL_OWNED(close_file) gzFile file = NULL;
    SL_FREED char *data = NULL;
    size_t room = 0, bytes = 0, got = 0;
    uint64_t n_lines = 0;
    *out = (struct sl_text){.path = path};
    SL_CHECK(open_file(path, &file));
    do {
        if (room - bytes <= SL_LINES_BLOCK_BYTES) {
            room = 2 * room + SL_LINES_BLOCK_BYTES + 1;
            SL_CHECK(sl_realloc(&data, room, 1, path));
        }
        SL_CHECK(inflate_some(file, path, n_lines, data + bytes, SL_LINES_BLOCK_BYTES, &got));
        n_lines += count_newlines(data + bytes, got);
        bytes += got;
        data[bytes] = '\0';
    } while (got == SL_LINES_BLOCK_BYTES && !(first_line && n_lines > 0));
    out->p = data;
    if (strncmp(data, BYTE_ORDER_MARK, 3) == 0) {
        out->p += 3;
    }
    out->end = data + bytes;
    out->data = SL_TAKE(data);
    return SL_OK;
}
