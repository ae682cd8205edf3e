/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Messages and spans of work are recorded; times are computed when sl_waits_take is called. */
#include "tasks/waits.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

struct message {
    uint32_t rank; /* the other rank */
    uint32_t number;
    int64_t tag;
    double since_s; /* asked: time of request; sent: time of writing */
    double come_s;
};

/* Messages in the order of announcement. */
struct messages {
    uint32_t n, room;
    struct message *message;
};

struct span {
    double begin_s, end_s;
};

static struct {
    atomic_uint n_workers;
    pthread_mutex_t lock; /* protects all members below */
    uint32_t turn;        /* incremented when records are forgotten; invalidates old tickets */
    bool lost;            /* a record was lost for want of memory */
    struct messages sent, asked;
    uint32_t n_spans, room;
    struct span *busy; /* if n_busy > 0, the last span has no end yet */
    int n_busy, n_awaited;
    double last_s; /* waited_s is complete up to this time */
    double waited_s;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- records ---- */

/* Make room for one more of n elements. If there is no memory, note the loss. */
static bool grow(void *list, uint32_t n, uint32_t *room, size_t element)
{
    uint32_t wanted = 2 * n + 64;
    if (n < *room) {
        return true;
    }
    if (sl_realloc(list, wanted, element, "times of messages") != SL_OK) {
        watch.lost = true;
        return false;
    }
    *room = wanted;
    return true;
}

/* Several threads pass times. Each read the clock before it got the lock, so times may go backwards. */
static void add_up(double now_s)
{
    int n_idle = (int)atomic_load(&watch.n_workers) - watch.n_busy;
    if (now_s > watch.last_s) {
        if (watch.n_awaited > 0 && n_idle > 0) {
            watch.waited_s += n_idle * (now_s - watch.last_s);
        }
        watch.last_s = now_s;
    }
}

static void forget(double now_s)
{
    add_up(now_s);
    watch.turn++;
    watch.lost = false;
    watch.sent.n = watch.asked.n = 0;
    watch.n_spans = 0;
    watch.waited_s = 0;
    if (watch.n_busy > 0 && grow(&watch.busy, 0, &watch.room, sizeof *watch.busy)) {
        watch.busy[watch.n_spans++] = (struct span){now_s, NAN};
    }
}

void sl_waits_open(uint32_t n_workers, double now_s)
{
    pthread_mutex_lock(&watch.lock);
    watch.n_busy = watch.n_awaited = 0;
    watch.last_s = now_s;
    forget(now_s);
    if (n_workers == 0) {
        sl_free(watch.sent.message);
        sl_free(watch.asked.message);
        sl_free(watch.busy);
        watch.sent = watch.asked = (struct messages){0};
        watch.busy = NULL;
        watch.room = 0;
    }
    atomic_store(&watch.n_workers, n_workers);
    pthread_mutex_unlock(&watch.lock);
}

void sl_waits_drop(double now_s)
{
    pthread_mutex_lock(&watch.lock);
    forget(now_s);
    pthread_mutex_unlock(&watch.lock);
}

static bool counts(void)
{
    return atomic_load_explicit(&watch.n_workers, memory_order_relaxed) > 0;
}

void sl_waits_busy(int by, double now_s)
{
    if (!counts()) {
        return;
    }
    pthread_mutex_lock(&watch.lock);
    add_up(now_s);
    if (watch.n_busy == 0 && grow(&watch.busy, watch.n_spans, &watch.room, sizeof *watch.busy)) {
        watch.busy[watch.n_spans++] = (struct span){now_s, NAN};
    }
    watch.n_busy += by;
    if (watch.n_busy == 0 && watch.n_spans > 0) {
        watch.busy[watch.n_spans - 1].end_s = now_s;
    }
    pthread_mutex_unlock(&watch.lock);
}

/* ---- tickets: the turn, and an index in the list ---- */

static uint64_t enter(struct messages *list, uint32_t rank, int64_t tag, double since_s)
{
    uint32_t number = list->n;
    if (!grow(&list->message, number, &list->room, sizeof *list->message)) {
        return 0;
    }
    list->message[list->n++] = (struct message){rank, number, tag, since_s, NAN};
    return (uint64_t)watch.turn << 32 | number;
}

/* NULL: the message was forgotten. */
static struct message *find(const struct messages *list, uint64_t ticket)
{
    if (ticket >> 32 != watch.turn || (uint32_t)ticket >= list->n) {
        return NULL;
    }
    return &list->message[(uint32_t)ticket];
}

uint64_t sl_waits_send(uint32_t to, int64_t tag)
{
    uint64_t ticket = 0;
    if (counts()) {
        pthread_mutex_lock(&watch.lock);
        ticket = enter(&watch.sent, to, tag, NAN);
        pthread_mutex_unlock(&watch.lock);
    }
    return ticket;
}

uint64_t sl_waits_ask(uint32_t from, int64_t tag, double now_s)
{
    uint64_t ticket = 0;
    if (counts()) {
        pthread_mutex_lock(&watch.lock);
        add_up(now_s);
        watch.n_awaited++;
        ticket = enter(&watch.asked, from, tag, now_s);
        pthread_mutex_unlock(&watch.lock);
    }
    return ticket;
}

void sl_waits_written(uint64_t ticket, double now_s)
{
    pthread_mutex_lock(&watch.lock);
    struct message *m = find(&watch.sent, ticket);
    if (m != NULL) {
        m->since_s = now_s;
    }
    pthread_mutex_unlock(&watch.lock);
}

void sl_waits_come(uint64_t ticket, double now_s)
{
    if (!counts()) {
        return;
    }
    pthread_mutex_lock(&watch.lock);
    add_up(now_s);
    watch.n_awaited--;
    struct message *m = find(&watch.asked, ticket);
    if (m != NULL) {
        m->come_s = now_s;
    }
    pthread_mutex_unlock(&watch.lock);
}

/* ---- lists for other ranks: tags and times, as 32-bit words ---- */

struct told {
    int64_t tag;
    double written_s;
};
#define TOLD_NUMBERS (sizeof(struct told) / sizeof(uint32_t))

/* By rank, tag and order of announcement. */
static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a;
    const struct message *y = b;
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    if (x->tag != y->tag) {
        return x->tag < y->tag ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

enum sl_status sl_waits_list(double ahead_s, uint32_t n_ranks, uint32_t *n_to, uint32_t **list_out)
{
    uint32_t *list;
    enum sl_status st;
    memset(n_to, 0, n_ranks * sizeof *n_to);
    pthread_mutex_lock(&watch.lock);
    SL_TRY(st, sl_alloc(watch.sent.n * TOLD_NUMBERS + 1, sizeof *list, "times of messages", &list), done);
    if (watch.sent.n > 0) {
        qsort(watch.sent.message, watch.sent.n, sizeof *watch.sent.message, compare_messages);
    }
    for (uint32_t i = 0; i < watch.sent.n; i++) {
        struct told told = {watch.sent.message[i].tag, watch.sent.message[i].since_s + ahead_s};
        memcpy(list + i * TOLD_NUMBERS, &told, sizeof told);
        n_to[watch.sent.message[i].rank] += TOLD_NUMBERS;
    }
    *list_out = list;
done:
    pthread_mutex_unlock(&watch.lock);
    return st;
}

/* ---- evaluation ---- */

struct event {
    double at_s;
    int message, busy; /* change of the number of messages in transit, and of busy workers */
};

static int compare_events(const void *a, const void *b)
{
    double x = ((const struct event *)a)->at_s;
    double y = ((const struct event *)b)->at_s;
    return (x > y) - (x < y);
}

static void sweep(uint32_t n, const struct event *event, struct sl_waits *out)
{
    int n_messages = 0;
    int n_busy = 0;
    for (uint32_t i = 0; i < n; i++) {
        double seconds = i > 0 ? event[i].at_s - event[i - 1].at_s : 0;
        if (n_messages > 0) {
            out->message_s += seconds;
        }
        if (n_messages > 0 && n_busy > 0) {
            out->hidden_s += seconds;
        }
        n_messages += event[i].message;
        n_busy += event[i].busy;
    }
}

/* Match the messages sent by a rank with the requests to it; both lists are ordered by tag and announcement. Each
 * pair gives two events. *asked moves past the rank's requests. Returns the number of events. */
static uint32_t pair_messages(uint32_t rank, const struct sl_waits_lists *lists, const uint32_t *list, uint32_t *asked,
                              struct event *out)
{
    uint32_t n = 0;
    uint32_t k = 0;
    uint32_t n_told = lists->n_from[rank] / TOLD_NUMBERS;
    for (; *asked < watch.asked.n && watch.asked.message[*asked].rank == rank; ++*asked) {
        const struct message *m = &watch.asked.message[*asked];
        struct told told = {0};
        for (; k < n_told; k++) {
            memcpy(&told, list + k * TOLD_NUMBERS, sizeof told);
            if (told.tag >= m->tag) {
                break;
            }
        }
        if (k == n_told || told.tag > m->tag) {
            continue;
        }
        k++;
        double begin_s = fmax(m->since_s, told.written_s - lists->ahead_s);
        if (begin_s < m->come_s && !isnan(told.written_s)) {
            out[n++] = (struct event){begin_s, 1, 0};
            out[n++] = (struct event){m->come_s, -1, 0};
        }
    }
    return n;
}

static uint32_t list_events(double now_s, const struct sl_waits_lists *lists, struct event *out)
{
    const uint32_t *list = lists->from;
    uint32_t n = 0;
    uint32_t asked = 0;
    if (watch.asked.n > 0) {
        qsort(watch.asked.message, watch.asked.n, sizeof *watch.asked.message, compare_messages);
    }
    for (uint32_t r = 0; r < lists->n_ranks; r++) {
        n += pair_messages(r, lists, list, &asked, out + n);
        list += lists->n_from[r];
    }
    for (uint32_t i = 0; i < watch.n_spans; i++) {
        out[n++] = (struct event){watch.busy[i].begin_s, 0, 1};
        out[n++] = (struct event){isnan(watch.busy[i].end_s) ? now_s : watch.busy[i].end_s, 0, -1};
    }
    return n;
}

enum sl_status sl_waits_take(double now_s, const struct sl_waits_lists *lists, struct sl_waits *out)
{
    struct event *event = NULL;
    enum sl_status st;
    *out = (struct sl_waits){0};
    pthread_mutex_lock(&watch.lock);
    add_up(now_s);
    if (watch.lost) {
        st = sl_fail(SL_ENOMEM, "no memory for the times of messages");
        goto done;
    }
    SL_TRY(st, sl_alloc(2 * ((size_t)watch.asked.n + watch.n_spans) + 1, sizeof *event, "times of messages", &event),
           done);
    uint32_t n = list_events(now_s, lists, event);
    qsort(event, n, sizeof *event, compare_events);
    sweep(n, event, out);
    out->waited_s = watch.waited_s;
    forget(now_s);
done:
    pthread_mutex_unlock(&watch.lock);
    sl_free(event);
    return st;
}
