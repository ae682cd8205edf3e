/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines in blocks. One thread inflates the file into a ring of slots, other threads empty the slots. */
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

#include "support/decimal.h"
#include "support/memory.h"
#include "support/parallel.h"

#ifndef SL_LINES_BLOCK_BYTES
#define SL_LINES_BLOCK_BYTES ((size_t)1 << 18) /* `make fuzz` sets less: small files then have several blocks */
#endif
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define MAX_LINE_BYTES ((size_t)1 << 30)
#define MAX_WORKERS 16
#define MAX_SLOTS (2 * MAX_WORKERS)

/* A buffer and its lines. */
struct slot {
    char *buffer;
    size_t room;
    struct sl_lines lines;
};

/* The file being read. */
struct source {
    gzFile file;
    const char *path;
    uint64_t max_lines;
    uint64_t n_lines; /* delivered so far */
    char *carry;      /* start of a line whose end is not read yet */
    size_t carry_bytes;
    size_t carry_room;
    bool ended;
    bool begun;
    bool surplus; /* the file has lines after max_lines */
};

/* Filled slots wait in a ring, in the order of the file. Empty slots are on a stack. `mutex` guards all members
 * below it. */
struct pump {
    enum sl_status (*body)(void *context, const struct sl_lines *lines);
    void *context;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct slot slots[MAX_SLOTS];
    struct slot *ring[MAX_SLOTS];
    struct slot *empty[MAX_SLOTS];
    unsigned n_slots;
    unsigned ring_start;
    unsigned n_ring;
    unsigned n_empty;
    bool ended;
    enum sl_status status; /* of the failed block that is first in the file */
    uint64_t failed_line;
    char message[SL_MESSAGE_BYTES];
};

/* ---- Reading blocks ---------------------------------------------------------------------------------------------- */

/* zlib's reason without the path in front of it. */
static const char *reason_of(const struct source *source, int *code)
{
    const char *why = gzerror(source->file, code);
    size_t n = strlen(source->path);
    return strncmp(why, source->path, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

/* Read up to `bytes` bytes; fewer only at the end of the file. */
static enum sl_status inflate_some(struct source *source, char *to, size_t bytes, size_t *got)
{
    int n = gzread(source->file, to, (unsigned)bytes);
    int code = Z_OK;
    const char *why = n < (int)bytes ? reason_of(source, &code) : "";
    SL_FAIL_IF(n < 0 && code == Z_ERRNO, SL_EIO, "%s: cannot read: %s", source->path, strerror(errno));
    SL_FAIL_IF(n < 0 || (code != Z_OK && code != Z_STREAM_END), SL_EFILE,
               "%s: damaged or cut short near line %llu: %s; fetch it again", source->path,
               (unsigned long long)source->n_lines + 1, why);
    source->ended = n < (int)bytes;
    *got = (size_t)n;
    return SL_OK;
}

/* Make room for `bytes` bytes of text, a newline and a NUL. */
static enum sl_status make_room(struct slot *slot, size_t bytes)
{
    if (slot->room >= bytes + 2) {
        return SL_OK;
    }
    SL_CHECK(sl_realloc(&slot->buffer, bytes + 2, 1, "a block of text"));
    slot->room = bytes + 2;
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

/* Put the carry into the buffer, then text until the buffer holds a line end or the file ends. */
static enum sl_status fill_buffer(struct source *source, struct slot *slot, size_t *have_out)
{
    enum sl_status st = SL_OK;
    size_t have = source->carry_bytes;
    size_t want = have + SL_LINES_BLOCK_BYTES;
    SL_CHECK(make_room(slot, want));
    if (have > 0) {
        memcpy(slot->buffer, source->carry, have);
    }
    for (;;) {
        size_t got = 0;
        SL_CHECK(inflate_some(source, slot->buffer + have, want - have, &got));
        bool line_ends = memchr(slot->buffer + have, '\n', got) != NULL;
        have += got;
        if (line_ends || source->ended) {
            break;
        }
        if (want > MAX_LINE_BYTES) {
            st = sl_fail(SL_EFILE, "%s:%llu: a line of over 1 GiB; expected lines of numbers", source->path,
                         (unsigned long long)source->n_lines + 1);
            return st;
        }
        want *= 2;
        SL_CHECK(make_room(slot, want));
    }
    *have_out = have;
    return st;
}

/* Keep the text after the last line end for the next block. */
static enum sl_status keep_carry(struct source *source, const char *text, size_t bytes)
{
    if (bytes > source->carry_room) {
        SL_CHECK(sl_realloc(&source->carry, bytes, 1, "a line of text"));
        source->carry_room = bytes;
    }
    if (bytes > 0) {
        memcpy(source->carry, text, bytes);
    }
    source->carry_bytes = bytes;
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

/* Put the next lines of the file into a slot. At the end of the file the slot gets none. */
static enum sl_status fill(struct source *source, struct slot *slot)
{
    size_t have = 0;
    SL_CHECK(fill_buffer(source, slot, &have));
    if (source->ended && have > 0 && slot->buffer[have - 1] != '\n') {
        slot->buffer[have++] = '\n';
    }
    const char *last = have > 0 ? memrchr(slot->buffer, '\n', have) : NULL;
    size_t bytes = last == NULL ? 0 : (size_t)(last - slot->buffer) + 1;
    SL_CHECK(keep_carry(source, slot->buffer + bytes, have - bytes));
    slot->buffer[bytes] = '\0';
    size_t mark = !source->begun && bytes >= 3 && memcmp(slot->buffer, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    source->begun |= bytes > 0;
    slot->lines = (struct sl_lines){.path = source->path,
                                    .text = slot->buffer + mark,
                                    .bytes = bytes - mark,
                                    .first_line = source->n_lines,
                                    .n_lines = count_newlines(slot->buffer, bytes)};
    cut_surplus(source, &slot->lines);
    slot->buffer[mark + slot->lines.bytes] = '\0';
    source->n_lines += slot->lines.n_lines;
    return SL_OK;
}

/* After the lines that fit: the first line may be wrong, too, and says more. */
static enum sl_status check_surplus(const struct source *source)
{
    return !source->surplus
               ? SL_OK
               : sl_fail(SL_EFILE, "%s:%llu: expected %llu lines, found more; is the count wrong, or line 1 a header?",
                         source->path, (unsigned long long)source->max_lines + 1,
                         (unsigned long long)source->max_lines);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static struct slot *take_filled(struct pump *pump)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&pump->mutex);
    while (pump->n_ring == 0 && !pump->ended) {
        pthread_cond_wait(&pump->changed, &pump->mutex);
    }
    if (pump->n_ring > 0) {
        slot = pump->ring[pump->ring_start];
        pump->ring_start = (pump->ring_start + 1) % MAX_SLOTS;
        pump->n_ring--;
    }
    pthread_mutex_unlock(&pump->mutex);
    return slot;
}

static void put_filled(struct pump *pump, struct slot *slot)
{
    pthread_mutex_lock(&pump->mutex);
    pump->ring[(pump->ring_start + pump->n_ring) % MAX_SLOTS] = slot;
    pump->n_ring++;
    pthread_cond_broadcast(&pump->changed);
    pthread_mutex_unlock(&pump->mutex);
}

/* An empty slot, or NULL after a block has failed. */
static struct slot *take_empty(struct pump *pump)
{
    pthread_mutex_lock(&pump->mutex);
    while (pump->n_empty == 0 && pump->status == SL_OK) {
        pthread_cond_wait(&pump->changed, &pump->mutex);
    }
    struct slot *slot = pump->status == SL_OK ? pump->empty[--pump->n_empty] : NULL;
    pthread_mutex_unlock(&pump->mutex);
    return slot;
}

/* Record the status of a finished block, and return its slot. */
static void put_empty(struct pump *pump, struct slot *slot, enum sl_status st)
{
    pthread_mutex_lock(&pump->mutex);
    if (st != SL_OK && (pump->status == SL_OK || slot->lines.first_line < pump->failed_line)) {
        pump->status = st;
        pump->failed_line = slot->lines.first_line;
        snprintf(pump->message, sizeof pump->message, "%s", sl_message());
    }
    pump->empty[pump->n_empty++] = slot;
    pthread_cond_broadcast(&pump->changed);
    pthread_mutex_unlock(&pump->mutex);
}

/* Threads take blocks in the order of the file. So all blocks before a failed block are processed, too. */
static void *work(void *argument)
{
    SL_IN_C_LOCALE;
    struct pump *pump = argument;
    for (;;) {
        struct slot *slot = take_filled(pump);
        if (slot == NULL) {
            return NULL;
        }
        put_empty(pump, slot, pump->body(pump->context, &slot->lines));
    }
}

/* Start up to one worker per core; fewer if the system refuses. */
static unsigned start_workers(struct pump *pump, pthread_t *workers)
{
    unsigned wanted = sl_parallel_threads();
    unsigned n = 0;
    wanted = wanted > MAX_WORKERS ? MAX_WORKERS : wanted;
    while (n < wanted && pthread_create(&workers[n], NULL, work, pump) == 0) {
        n++;
    }
    return n;
}

static enum sl_status read_rest(struct source *source, struct pump *pump)
{
    pthread_t workers[MAX_WORKERS];
    unsigned n_workers = start_workers(pump, workers);
    pump->n_slots = n_workers + 2 < MAX_SLOTS ? n_workers + 2 : MAX_SLOTS;
    for (unsigned i = 0; i < pump->n_slots; i++) {
        pump->empty[pump->n_empty++] = &pump->slots[i];
    }
    enum sl_status st = SL_OK;
    struct slot *slot;
    while (st == SL_OK && !source->ended && !source->surplus && (slot = take_empty(pump)) != NULL) {
        st = fill(source, slot);
        if (st != SL_OK) {
            break;
        }
        if (n_workers > 0) {
            put_filled(pump, slot);
        } else {
            put_empty(pump, slot, pump->body(pump->context, &slot->lines));
        }
    }
    pthread_mutex_lock(&pump->mutex);
    pump->ended = true;
    pthread_cond_broadcast(&pump->changed);
    pthread_mutex_unlock(&pump->mutex);
    for (unsigned i = 0; i < n_workers; i++) {
        pthread_join(workers[i], NULL);
    }
    /* A failed block lies before the end of the read text, so its message comes first. */
    SL_FAIL_IF(pump->status != SL_OK, pump->status, "%s", pump->message);
    return st == SL_OK ? check_surplus(source) : st;
}

static enum sl_status read_all(struct source *source, struct pump *pump)
{
    enum sl_status st = fill(source, &pump->slots[0]);
    if (st == SL_OK) {
        st = pump->body(pump->context, &pump->slots[0].lines);
    }
    if (st != SL_OK || source->ended || source->surplus) {
        return st == SL_OK ? check_surplus(source) : st;
    }
    pthread_mutex_init(&pump->mutex, NULL);
    pthread_cond_init(&pump->changed, NULL);
    st = read_rest(source, pump);
    pthread_cond_destroy(&pump->changed);
    pthread_mutex_destroy(&pump->mutex);
    return st;
}

enum sl_status sl_lines_read(const char *path, uint64_t max_lines,
                             enum sl_status (*body)(void *context, const struct sl_lines *lines), void *context,
                             uint64_t *n_out)
{
    struct source source = {.path = path, .max_lines = max_lines};
    struct pump pump = {.body = body, .context = context};
    errno = 0;
    source.file = gzopen(path, "rbe");
    SL_FAIL_IF(source.file == NULL, SL_EIO, "%s: cannot open for reading: %s", path,
               strerror(errno != 0 ? errno : ENOMEM));
    gzbuffer(source.file, (unsigned)SL_LINES_BLOCK_BYTES);
    enum sl_status st = read_all(&source, &pump);
    gzclose(source.file);
    sl_free(source.carry);
    for (unsigned i = 0; i < MAX_SLOTS; i++) {
        sl_free(pump.slots[i].buffer);
    }
    if (st == SL_OK) {
        *n_out = source.n_lines;
    }
    return st;
}
