/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The contents of bundles, the handles that they name, and the worker side. */
#include "tasks/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "tasks/rows.h"

#define NONE UINT32_MAX
#define SEVERAL (UINT32_MAX - 1)
#define GRAIN sizeof(max_align_t) /* alignment of a bundle's pieces */
#define FIRST_BYTES 4096

/* A task of a bundle. Behind it, each aligned: pointers to its buffers, the buffers' numbers in the bundle, its
 * arguments. */
struct member {
    uint32_t n_buffers;
    uint32_t bytes; /* with the pieces behind it */
};

/* Arguments of a bundle. Its members lie behind them. */
struct bundle_args {
    struct sl_task_args head; /* of the first member, with the work of all */
    uint32_t n_members;
};

/* The lots that name a handle. The record is the handle's user data while a bundle names the handle. */
struct held {
    struct sl_hold hold; /* first */
    struct sl_bundles *bundles;
    starpu_data_handle_t handle;
    uint32_t writer;   /* a lot, or NONE */
    uint32_t reader;   /* a lot, NONE, or SEVERAL */
    uint32_t number[]; /* by lot: the buffer's number in the lot's bundle, or NONE */
};

/* The bundle of a lot. */
struct bundle {
    struct sl_task task;
    enum sl_priority priority; /* the highest of the members */
    size_t n_bytes, room;
    char *args; /* struct bundle_args and the members; empty if n_bytes is 0 */
};

struct sl_bundles {
    struct sl_holder holder; /* first */
    struct sl_run *run;
    bool on_gpu; /* the only lot runs on a GPU */
    uint32_t lot_size, n_lots;
    uint32_t n_held, room;
    struct held **held; /* `room` records, n_held in use */
    struct bundle lot[];
};

static size_t aligned(size_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* ---- on a worker ---- */

/* A member's arguments, and in *own_out its buffers, picked from the bundle's. */
static struct sl_task_args *open_member(struct member *m, void *const *buffers, void ***own_out)
{
    void **own = (void **)((char *)m + aligned(sizeof *m));
    const uint32_t *number = (const uint32_t *)((char *)own + aligned(m->n_buffers * sizeof *own));
    for (uint32_t i = 0; i < m->n_buffers; i++) {
        own[i] = buffers[number[i]];
    }
    *own_out = own;
    return (void *)((char *)number + aligned(m->n_buffers * sizeof *number));
}

static struct member *first_member(void *cl_arg)
{
    return (struct member *)((char *)cl_arg + aligned(sizeof(struct bundle_args)));
}

static struct member *next_member(struct member *m)
{
    return (struct member *)((char *)m + m->bytes);
}

static void bundle_cpu_task(void *buffers[], void *cl_arg)
{
    struct member *m = first_member(cl_arg);
    for (uint32_t n = ((struct bundle_args *)cl_arg)->n_members; n > 0; n--, m = next_member(m)) {
        void **own;
        struct sl_task_args *args = open_member(m, buffers, &own);
        args->operation->codelet.cpu_funcs[0](own, args);
    }
}

/* All members, one behind the other on the stream. */
static enum sl_status run_on_stream(void *buffers[], void *cl_arg, const void *stream)
{
    struct member *m = first_member(cl_arg);
    for (uint32_t n = ((struct bundle_args *)cl_arg)->n_members; n > 0; n--, m = next_member(m)) {
        void **own;
        struct sl_task_args *args = open_member(m, buffers, &own);
        enum sl_status st = sl_task_body(own, args, stream);
        if (st != SL_OK) {
            sl_task_fail(args, st); /* names the member; what the bundle says later changes nothing */
            return st;
        }
    }
    return SL_OK;
}

enum { READ, WRITTEN };

static struct sl_operation bundle_op = {
    .codelet.name = "sl_bundle",
    .codelet.cpu_funcs = {bundle_cpu_task},
    .codelet.nbuffers = STARPU_VARIABLE_NBUFFERS,
    .cuda = run_on_stream,
    SL_ON_GPUS,
    .role = {{"read by a task", STARPU_R | SL_REPEATED | SL_OR_RW}, {"written by a task", STARPU_W | SL_REPEATED}},
};

/* ---- lots and handles ---- */

/* An unused record. */
static enum sl_status next_held(struct sl_bundles *b, struct held **out)
{
    if (b->n_held == b->room) {
        SL_CHECK(sl_realloc(&b->held, (size_t)b->room + 1, sizeof *b->held, "handles that tasks wait with"));
        SL_CHECK(sl_alloc(1, sizeof(struct held) + b->n_lots * sizeof(uint32_t), "a handle that tasks wait with",
                          &b->held[b->room]));
        b->room++;
    }
    *out = b->held[b->n_held];
    return SL_OK;
}

static void let_go(const struct sl_hold *hold);

/* NULL: no bundle names the handle. */
static struct held *find_held(starpu_data_handle_t handle)
{
    struct sl_hold *hold = starpu_data_get_user_data(handle);
    return hold != NULL && hold->let_go == let_go ? (struct held *)hold : NULL;
}

static enum sl_status held_of(struct sl_bundles *b, starpu_data_handle_t handle, struct held **out)
{
    *out = find_held(handle);
    if (*out == NULL) {
        SL_CHECK(next_held(b, out));
        **out = (struct held){{sl_handle_dtype(handle), let_go, .kept = b->on_gpu},
                              .bundles = b,
                              .handle = handle,
                              .writer = NONE,
                              .reader = NONE};
        memset((*out)->number, 0xff, b->n_lots * sizeof(uint32_t));
        starpu_data_set_user_data(handle, *out);
        b->n_held++;
    }
    return SL_OK;
}

static void forget_held(struct sl_bundles *b)
{
    while (b->n_held > 0) {
        const struct held *held = b->held[--b->n_held];
        sl_handle_set_dtype(held->handle, held->hold.dtype);
    }
}

/* Whether a task of `lot` (NONE: of no lot) must wait for tasks of other lots that hold the buffer. */
static bool waits_for(const struct held *held, uint32_t lot, enum starpu_data_access_mode mode)
{
    return held != NULL && ((held->writer != NONE && held->writer != lot) ||
                            (mode & STARPU_W && held->reader != NONE && held->reader != lot));
}

static bool waits(const struct sl_task *task, uint32_t lot)
{
    for (unsigned i = 0; i < task->n_buffers; i++) {
        if (waits_for(find_held(task->handles[i]), lot, task->modes[i])) {
            return true;
        }
    }
    return false;
}

/* ---- a bundle ---- */

/* The buffer's number in the lot's bundle. A write after a read turns the mode into RW: the data must be there
 * beforehand. */
static enum sl_status add_buffer(struct sl_bundles *b, uint32_t lot, starpu_data_handle_t handle,
                                 enum starpu_data_access_mode mode, uint32_t *number_out)
{
    struct sl_task *task = &b->lot[lot].task;
    struct held *held = NULL;
    SL_CHECK(held_of(b, handle, &held));
    if (held->number[lot] == NONE) {
        sl_task_add(task, mode & STARPU_R ? READ : WRITTEN, handle, mode);
        SL_CHECK(task->status);
        held->number[lot] = task->n_buffers - 1;
    } else if (task->modes[held->number[lot]] == STARPU_R && mode & STARPU_W) {
        task->modes[held->number[lot]] = STARPU_RW;
    }
    if (mode & STARPU_W) {
        held->writer = lot;
    } else {
        held->reader = held->reader == NONE || held->reader == lot ? lot : SEVERAL;
    }
    *number_out = held->number[lot];
    return SL_OK;
}

/* Make room for `bytes` more, and for the head of an empty bundle. */
static enum sl_status make_room(struct bundle *bundle, size_t bytes)
{
    size_t wanted = bundle->n_bytes + aligned(sizeof(struct bundle_args)) + bytes;
    size_t room = bundle->room == 0 ? FIRST_BYTES : bundle->room;
    while (room < wanted) {
        room *= 2;
    }
    if (room > bundle->room) {
        SL_CHECK(sl_realloc(&bundle->args, room, 1, "a bundle of tasks"));
        bundle->room = room;
    }
    return SL_OK;
}

static void begin(struct bundle *bundle, const struct sl_task_args *head, enum sl_priority priority)
{
    struct bundle_args args = {.head = *head};
    args.head.operation = &bundle_op;
    args.head.runs = NULL;
    args.head.work = 0;
    sl_task_begin(&bundle->task, &bundle_op);
    memcpy(bundle->args, &args, sizeof args);
    bundle->n_bytes = aligned(sizeof args);
    bundle->priority = priority;
}

static enum sl_status hold(struct sl_bundles *b, uint32_t lot, const struct sl_task *task, const void *args,
                           size_t args_bytes, enum sl_priority priority)
{
    struct bundle *bundle = &b->lot[lot];
    const size_t pointers = aligned(task->n_buffers * sizeof(void *));
    const size_t numbers = aligned(task->n_buffers * sizeof(uint32_t));
    const size_t bytes = aligned(sizeof(struct member)) + pointers + numbers + aligned(args_bytes);
    const struct sl_task_args *head = args;
    SL_CHECK(make_room(bundle, bytes));
    if (bundle->n_bytes == 0) {
        begin(bundle, head, priority);
    }
    char *cursor = bundle->args + bundle->n_bytes;
    uint32_t *number = (uint32_t *)(cursor + aligned(sizeof(struct member)) + pointers);
    for (unsigned i = 0; i < task->n_buffers; i++) {
        SL_CHECK(add_buffer(b, lot, task->handles[i], task->modes[i], &number[i]));
    }
    *(struct member *)cursor = (struct member){.n_buffers = task->n_buffers, .bytes = (uint32_t)bytes};
    memcpy((char *)number + numbers, args, args_bytes);
    struct bundle_args *all = (struct bundle_args *)bundle->args;
    all->n_members++;
    all->head.work += head->work;
    if (sl_stage_is_compute(head->stage)) {
        all->head.stage = head->stage;
    }
    bundle->n_bytes += bytes;
    if (priority > bundle->priority) {
        bundle->priority = priority;
    }
    return SL_OK;
}

static enum sl_status hand_over(struct bundle *bundle)
{
    size_t n_bytes = bundle->n_bytes;
    bundle->n_bytes = 0;
    if (n_bytes == 0) {
        return SL_OK;
    }
    return sl_task_hand_over(&bundle->task, bundle->args, n_bytes, bundle->priority);
}

static enum sl_status settle(struct sl_bundles *b)
{
    enum sl_status st = SL_OK;
    forget_held(b);
    for (uint32_t l = 0; l < b->n_lots; l++) {
        enum sl_status own = hand_over(&b->lot[l]);
        if (st == SL_OK) {
            st = own;
        }
    }
    return st;
}

static void let_go(const struct sl_hold *hold)
{
    struct sl_bundles *b = ((const struct held *)hold)->bundles;
    enum sl_status st = settle(b);
    if (st != SL_OK) {
        sl_failure_set(&b->run->failure, st);
    }
}

/* ---- the interface ---- */

/* Whether a bundle can run an operation. A bundle on a GPU cannot read main memory. */
static bool is_bundled(const struct sl_bundles *b, const struct sl_operation *operation, enum sl_stage stage)
{
    if (b->on_gpu) {
        return stage != SL_STAGE_EVALUATE && operation->body != NULL && operation->codelet.cuda_funcs[0] != NULL &&
               !operation->codelet.specific_nodes;
    }
    return stage < SL_STAGE_SYNC && operation->codelet.cpu_funcs[0] != NULL;
}

/* The lot of a task, NONE if it must go to StarPU alone. */
static uint32_t lot_of(const struct sl_bundles *b, const struct sl_task *task, const struct sl_task_args *head)
{
    bool of_all = !is_bundled(b, task->operation, head->stage);
    for (unsigned i = 0; i < task->n_buffers; i++) {
        of_all = of_all || (task->modes[i] & ~STARPU_RW) != 0; /* other access modes are not handled here */
    }
    return of_all ? NONE : head->pe / b->lot_size;
}

static enum sl_status add(struct sl_holder *holder, struct sl_task *task, const void *args, size_t args_bytes,
                          enum sl_priority priority)
{
    struct sl_bundles *b = (struct sl_bundles *)holder;
    uint32_t lot = lot_of(b, task, args);
    if (waits(task, lot)) {
        SL_CHECK(settle(b));
    }
    if (lot == NONE) {
        return sl_task_hand_over(task, args, args_bytes, priority);
    }
    return hold(b, lot, task, args, args_bytes, priority);
}

enum sl_status sl_bundles_settle(struct sl_run *run)
{
    if (run->holder == NULL) {
        return SL_OK;
    }
    return settle((struct sl_bundles *)run->holder);
}

enum sl_status sl_bundles_open(struct sl_run *run, uint32_t n_pes, uint32_t lot_size)
{
    uint32_t n_lots = (n_pes + lot_size - 1) / lot_size;
    struct sl_bundles *b;
    size_t bytes = sizeof *b + n_lots * sizeof(struct bundle);
    SL_CHECK(sl_alloc_zero(1, bytes, "bundles of tasks", &b));
    b->holder.hold = add;
    b->run = run;
    b->on_gpu = run->gpus_first;
    b->lot_size = lot_size;
    b->n_lots = n_lots;
    run->holder = &b->holder;
    return SL_OK;
}

void sl_bundles_close(struct sl_run *run)
{
    struct sl_bundles *b = (struct sl_bundles *)run->holder;
    run->holder = NULL;
    if (b == NULL) {
        return;
    }
    for (uint32_t l = 0; l < b->n_lots; l++) {
        sl_free(b->lot[l].args);
    }
    for (uint32_t i = 0; i < b->room; i++) {
        sl_free(b->held[i]);
    }
    sl_free(b->held);
    sl_free(b);
}
