/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Messages and work are recorded; times are computed when sl_waits_take is called. */
#include "tasks/waits.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/memory.h"

struct message {
    uint32_t rank; /* the other rank */
    uint32_t number;
    int64_t tag;
    double asked_s;
    double done_s; /* sent: time of writing; asked: time of arrival. NaN: not yet */
};

/* Messages in the order of announcement. */
struct messages {
    uint32_t n, room;
    struct message *message;
};

/* A change of the number of messages in transit, or of whether a worker is busy. */
struct event {
    double at_s;
    int message, busy;
};

static struct {
    atomic_uint n_workers;
    pthread_mutex_t lock; /* protects all members below */
    uint32_t turn;        /* incremented when records are forgotten; invalidates old tickets */
    bool lost;            /* a record was lost for want of memory */
    struct messages sent, asked;
    uint32_t n_work, room;
    struct event *work;
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

static void note_work(int busy, double now_s)
{
    if (grow(&watch.work, watch.n_work, &watch.room, sizeof *watch.work)) {
        watch.work[watch.n_work++] = (struct event){now_s, 0, busy};
    }
}

static void forget(double now_s)
{
    add_up(now_s);
    watch.turn++;
    watch.lost = false;
    watch.sent.n = watch.asked.n = 0;
    watch.n_work = 0;
    watch.waited_s = 0;
    if (watch.n_busy > 0) {
        note_work(1, now_s);
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
        sl_free(watch.work);
        watch.sent = watch.asked = (struct messages){0};
        watch.work = NULL;
        watch.room = 0;
    }
    atomic_store(&watch.n_workers, n_workers);
    pthread_mutex_unlock(&watch.lock);
}

static pthread_mutex_t *lock(void)
{
    pthread_mutex_lock(&watch.lock);
    return &watch.lock;
}

static void unlock(pthread_mutex_t **held)
{
    pthread_mutex_unlock(*held);
}

void sl_waits_drop(double now_s)
{
    SL_OWNED(unlock) pthread_mutex_t *held = lock();
    forget(now_s);
}

static bool counts(void)
{
    return atomic_load_explicit(&watch.n_workers, memory_order_relaxed) > 0;
}

void sl_waits_busy(int by, double now_s)
{
    if (counts()) {
        SL_OWNED(unlock) pthread_mutex_t *held = lock();
        add_up(now_s);
        if (watch.n_busy == 0 || watch.n_busy + by == 0) {
            note_work(by, now_s);
        }
        watch.n_busy += by;
    }
}

/* ---- messages. A ticket is the turn, and an index in the list ---- */

static uint64_t announce(struct messages *list, uint32_t rank, int64_t tag, double now_s)
{
    uint64_t ticket = SL_WAITS_NO_TICKET;
    if (!counts()) {
        return ticket;
    }
    pthread_mutex_lock(&watch.lock);
    if (list == &watch.asked) {
        add_up(now_s);
        watch.n_awaited++;
    }
    if (grow(&list->message, list->n, &list->room, sizeof *list->message)) {
        ticket = (uint64_t)watch.turn << 32 | list->n;
        list->message[list->n] = (struct message){rank, list->n, tag, now_s, NAN};
        list->n++;
    }
    pthread_mutex_unlock(&watch.lock);
    return ticket;
}

/* Note the time, unless the message was forgotten. The lock is held. */
static void note_done(const struct messages *list, uint64_t ticket, double now_s)
{
    if (ticket >> 32 == watch.turn && (uint32_t)ticket < list->n) {
        list->message[(uint32_t)ticket].done_s = now_s;
    }
}

uint64_t sl_waits_send(uint32_t to, int64_t tag)
{
    return announce(&watch.sent, to, tag, NAN);
}

uint64_t sl_waits_ask(uint32_t from, int64_t tag, double now_s)
{
    return announce(&watch.asked, from, tag, now_s);
}

void sl_waits_written(uint64_t ticket, double now_s)
{
    SL_OWNED(unlock) pthread_mutex_t *held = lock();
    note_done(&watch.sent, ticket, now_s);
}

void sl_waits_come(uint64_t ticket, double now_s)
{
    if (counts()) {
        SL_OWNED(unlock) pthread_mutex_t *held = lock();
        add_up(now_s);
        watch.n_awaited--;
        note_done(&watch.asked, ticket, now_s);
    }
}

/* ---- lists for other ranks: tags and times, as 32-bit words ---- */

struct told {
    int64_t tag;
    double written_s;
};
#define TOLD_NUMBERS (sizeof(struct told) / sizeof(uint32_t))

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a;
    const struct message *y = b;
    const int order = sl_order(x->rank, y->rank, (uint64_t)x->tag, (uint64_t)y->tag);
    return order != 0 ? order : sl_order(x->number, y->number, 0, 0);
}

/* By rank, tag and order of announcement. */
static void sort(struct messages *list)
{
    if (list->n > 0) {
        qsort(list->message, list->n, sizeof *list->message, compare_messages);
    }
}

enum sl_status sl_waits_list(double ahead_s, uint32_t n_ranks, uint32_t *n_to, uint32_t **list_out)
{
    memset(n_to, 0, n_ranks * sizeof *n_to);
    SL_OWNED(unlock) pthread_mutex_t *held = lock();
    SL_CHECK(sl_alloc(watch.sent.n * TOLD_NUMBERS + 1, sizeof **list_out, "times of messages", list_out));
    sort(&watch.sent);
    for (uint32_t i = 0; i < watch.sent.n; i++) {
        const struct message *m = &watch.sent.message[i];
        struct told told = {m->tag, m->done_s + ahead_s};
        memcpy(*list_out + i * TOLD_NUMBERS, &told, sizeof told);
        n_to[m->rank] += TOLD_NUMBERS;
    }
    return SL_OK;
}

/* ---- evaluation ---- */

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

/* Match the messages that other ranks sent with the requests; both are ordered by rank, tag and announcement. Each pair
 * gives two events. Returns the number of events. */
static uint32_t pair_messages(const struct sl_waits_lists *lists, struct event *out)
{
    const uint32_t *list = lists->from;
    const struct message *m = watch.asked.message;
    const struct message *end = m + watch.asked.n;
    uint32_t n = 0;
    for (uint32_t r = 0; r < lists->n_ranks; r++) {
        for (uint32_t k = 0; k < lists->n_from[r]; k += TOLD_NUMBERS, list += TOLD_NUMBERS) {
            struct told told;
            memcpy(&told, list, sizeof told);
            while (m < end && (m->rank < r || (m->rank == r && m->tag < told.tag))) {
                m++;
            }
            if (m == end || m->rank > r || m->tag > told.tag) {
                continue;
            }
            double begin_s = fmax(m->asked_s, told.written_s - lists->ahead_s);
            if (begin_s < m->done_s && !isnan(told.written_s)) {
                out[n++] = (struct event){begin_s, 1, 0};
                out[n++] = (struct event){m->done_s, -1, 0};
            }
            m++;
        }
    }
    return n;
}

enum sl_status sl_waits_take(double now_s, const struct sl_waits_lists *lists, struct sl_waits *out)
{
    SL_FREED struct event *event = NULL;
    *out = (struct sl_waits){0};
    SL_OWNED(unlock) pthread_mutex_t *held = lock();
    add_up(now_s);
    SL_FAIL_IF(watch.lost, SL_ENOMEM, "no memory for the times of messages");
    SL_CHECK(sl_alloc(2 * (size_t)watch.asked.n + watch.n_work + 1, sizeof *event, "times of messages", &event));
    sort(&watch.asked);
    uint32_t n = pair_messages(lists, event);
    for (uint32_t i = 0; i < watch.n_work; i++) {
        event[n++] = watch.work[i];
    }
    qsort(event, n, sizeof *event, compare_events);
    sweep(n, event, out);
    out->waited_s = watch.waited_s;
    forget(now_s);
    return SL_OK;
}
