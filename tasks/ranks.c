/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Ranks by MPI and StarPU-MPI. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "tasks/ranks.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifdef SL_MPI
#include <mpi.h>
#include <starpu_mpi.h>
#endif

#include "support/clock.h"
#include "support/memory.h"
#include "support/text.h"
#include "tasks/waits.h"

static struct {
    bool open;
    uint32_t rank, n;
    uint32_t n_sharing;
    bool far;       /* on another machine than rank 0 */
    uint32_t n_far; /* at rank 0: number of far ranks */
} joined = {.n = 1, .n_sharing = 1};

static atomic_uint_least64_t sent_bytes;
static atomic_uint_least64_t n_moves;

/* StarPU's interface id of lists, assigned on first use. */
static enum starpu_data_interface_id list_id = STARPU_UNKNOWN_INTERFACE_ID;

uint32_t sl_n_ranks(void)
{
    return joined.n;
}

uint32_t sl_rank(void)
{
    return joined.rank;
}

uint32_t sl_ranks_sharing(void)
{
    return joined.n_sharing;
}

uint64_t sl_ranks_sent_bytes(void)
{
    return atomic_load(&sent_bytes);
}

static void (*failure_hook)(void);

void sl_ranks_on_failure(void (*hook)(void))
{
    failure_hook = hook;
}

void (*sl_ranks_failure_hook(void))(void)
{
    return failure_hook;
}

uint64_t sl_ranks_moves(void)
{
    return atomic_load_explicit(&n_moves, memory_order_relaxed);
}

/* ---- the environment ---- */

/* Variables by which launchers give a process the number of processes and its own number. For Slurm, the variables
 * of a step: a batch script is one process but also has the number of the job's tasks. */
static const struct {
    const char *n, *number;
} launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                 {"PMI_SIZE", "PMI_RANK"},
                 {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
#define N_LAUNCHERS (sizeof launchers / sizeof *launchers)

static uint32_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Index of the first launcher that started several processes, or N_LAUNCHERS. */
static size_t launcher(void)
{
    size_t i = 0;
    while (i < N_LAUNCHERS && (number_of(launchers[i].n) < 2 || getenv(launchers[i].number) == NULL)) {
        i++;
    }
    return i;
}

uint32_t sl_ranks_started(void)
{
    size_t i = launcher();
    return i < N_LAUNCHERS ? number_of(launchers[i].n) : 1;
}

uint32_t sl_ranks_number(void)
{
    size_t i = launcher();
    return i < N_LAUNCHERS ? number_of(launchers[i].number) : 0;
}

#ifdef SL_MPI

/* ---- waiting ---- */

#define NAP_NS 20000
#define SLACK_NS 1000
#define PATIENCE_NS 5000000 /* time for which an idle worker keeps polling before it sleeps */

static atomic_bool spare;

void sl_ranks_spare(bool is_spare)
{
    atomic_store(&spare, is_spare);
}

/* Linux may add 50 us to a sleep, unless the thread asks for a smaller timer slack. */
static void nap(void)
{
    static _Thread_local bool prompt;
    if (!prompt) {
        prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
        prompt = true;
    }
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Idle hook of StarPU: called on a worker that found no task, while other threads want its processor. A gap of more
 * than two naps between calls means that the worker has run a task. */
static unsigned idle(void *unused)
{
    static _Thread_local int64_t since_ns;
    static _Thread_local int64_t last_ns;
    int64_t ns = now_ns();
    (void)unused;
    since_ns = ns - last_ns > 2 * NAP_NS ? ns : since_ns;
    if (ns - since_ns > PATIENCE_NS) {
        nap();
    } else {
        sched_yield();
    }
    last_ns = now_ns();
    return 1;
}

static void count_move(void)
{
    atomic_fetch_add_explicit(&n_moves, 1, memory_order_relaxed);
}

/* Sleep between polls; MPI's own waiting calls spin. */
static enum sl_status await(int error, MPI_Request *request)
{
    int done = 0;
    while (error == MPI_SUCCESS && !done) {
        error = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            nap();
        }
    }
    count_move();
    return error == MPI_SUCCESS ? SL_OK : sl_fail(SL_EIO, "MPI error %d in a message between all ranks", error);
}

/* ---- join, leave ---- */

static bool ours; /* MPI was started here, so it is ended here */

static void leave(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (ours && !ended) {
        MPI_Finalize();
    }
}

/* Under a bare srun, Open MPI aborts the process in MPI_Init, with a message that does not name the missing option. */
static bool srun_is_bare(void)
{
#ifdef OPEN_MPI
    return strcmp(launchers[launcher()].number, "SLURM_PROCID") == 0 && getenv("PMIX_RANK") == NULL;
#else
    return false;
#endif
}

static enum sl_status start_mpi(void)
{
    int begun = 0;
    int level = MPI_THREAD_MULTIPLE;
    MPI_Initialized(&begun);
    SL_FAIL_IF(!begun && srun_is_bare(), SL_EINVAL,
               "found %u tasks of srun's without PMIx, by which Open MPI starts; use srun --mpi=pmix, or mpirun "
               "in salloc or sbatch",
               sl_ranks_started());
    if (begun) {
        MPI_Query_thread(&level);
    } else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return sl_fail(SL_EIO, "MPI does not start");
    }
    ours = !begun;
    SL_FAIL_IF(ours && atexit(leave) != 0, SL_ENOMEM, "no memory for what is done at exit");
    SL_FAIL_IF(level != MPI_THREAD_MULTIPLE, SL_ENOTSUP,
               "MPI: found thread level %d, expected MPI_THREAD_MULTIPLE (%d); use an MPI that has it", level,
               MPI_THREAD_MULTIPLE);
    return SL_OK;
}

/* Count the ranks on other machines than rank 0's. machine: communicator of the ranks on this machine. */
static void count_far(MPI_Comm machine)
{
    int first = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &first);
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, machine);
    joined.far = first > 0;
    uint32_t n_far = joined.far;
    MPI_Reduce(&n_far, &joined.n_far, 1, MPI_UINT32_T, MPI_SUM, 0, MPI_COMM_WORLD);
}

/* Count the ranks on this machine whose processor sets overlap this rank's. */
static enum sl_status count_sharing(uint32_t *out)
{
    MPI_Comm machine;
    cpu_set_t own;
    cpu_set_t common;
    cpu_set_t *all = NULL;
    int n = 0;
    enum sl_status st;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &n);
    SL_TRY(st, sl_alloc((size_t)n, sizeof *all, "processors of ranks", &all), done);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, machine);
    *out = 0;
    for (int i = 0; i < n; i++) {
        CPU_AND(&common, &own, &all[i]);
        *out += CPU_COUNT(&common) > 0;
    }
    count_far(machine);
done:
    MPI_Comm_free(&machine);
    sl_free(all);
    return st;
}

/* Names of one rank's resources. */
struct names {
    uint32_t n;
    uint64_t name[SL_RANKS_MOST_SHARED];
};

static bool have_common(const struct names *a, const struct names *b)
{
    bool common = false;
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t k = 0; k < b->n; k++) {
            common |= a->name[i] == b->name[k];
        }
    }
    return common;
}

static enum sl_status share_on(MPI_Comm machine, const struct names *own, struct sl_ranks_share *out)
{
    struct names *all = NULL;
    int n = 0;
    int index = 0;
    enum sl_status st;
    MPI_Comm_size(machine, &n);
    MPI_Comm_rank(machine, &index);
    SL_TRY(st, sl_alloc((size_t)n, sizeof *all, "what ranks share", &all), done);
    MPI_Allgather(own, sizeof *own, MPI_BYTE, all, sizeof *own, MPI_BYTE, machine);
    *out = (struct sl_ranks_share){0, own->n == 0 ? 1 : 0};
    for (int i = 0; i < n; i++) {
        bool shares = have_common(own, &all[i]);
        out->n += shares;
        out->index += shares && i < index;
    }
done:
    sl_free(all);
    return st;
}

enum sl_status sl_ranks_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out)
{
    struct names own = {.n = n};
    MPI_Comm machine;
    enum sl_status st;
    *out = (struct sl_ranks_share){0, 1};
    if (joined.n == 1) {
        return SL_OK;
    }
    memcpy(own.name, names, n * sizeof *names);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    st = share_on(machine, &own, out);
    MPI_Comm_free(&machine);
    return st;
}

enum sl_status sl_ranks_open(void)
{
    int n = 1;
    int rank = 0;
    enum sl_status st = SL_OK;
    if (joined.open || sl_ranks_started() == 1) {
        return SL_OK;
    }
    SL_CHECK(start_mpi());
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if ((uint32_t)n != sl_ranks_started()) {
        st = sl_fail(SL_EINVAL,
                     "MPI found %d ranks, expected the %u that $%s speaks of; start with the mpirun of the MPI that "
                     "Starling was built with, or with srun --mpi=pmix",
                     n, sl_ranks_started(), launchers[launcher()].n);
        return st;
    }
    SL_CHECK(count_sharing(&joined.n_sharing));
    joined.open = true;
    joined.rank = (uint32_t)rank;
    joined.n = (uint32_t)n;
    return st;
}

void sl_ranks_abort(int code)
{
    if (joined.n > 1) {
        MPI_Abort(MPI_COMM_WORLD, code);
        _exit(code);
    }
}

/* ---- StarPU ---- */

/* Without a spare processor, StarPU-MPI's thread is also the first CPU worker. It polls for messages between two
 * tasks, so no thread has to be woken. StarPU-MPI lets it run tasks only while it waits for a message. So one
 * receive is always pending: a message to itself, sent at the end. */
static struct {
    bool on;
    bool batch; /* the submitting thread has become a batch thread */
    int idle_hook;
    starpu_data_handle_t sent, awaited;
    uint32_t word[2];
} driving;

#define TAG_OF_END (INT64_C(1) << 60)

/* Messages submitted and not yet completed. */
static atomic_uint_least64_t n_under_way;

static void await_end(void)
{
    starpu_variable_data_register(&driving.sent, STARPU_MAIN_RAM, (uintptr_t)&driving.word[0], sizeof *driving.word);
    starpu_variable_data_register(&driving.awaited, STARPU_MAIN_RAM, (uintptr_t)&driving.word[1], sizeof *driving.word);
    starpu_mpi_irecv_detached(driving.awaited, (int)joined.rank, TAG_OF_END, MPI_COMM_WORLD, NULL, NULL);
}

static void send_end(void)
{
    starpu_mpi_isend_detached(driving.sent, (int)joined.rank, TAG_OF_END, MPI_COMM_WORLD, NULL, NULL);
    starpu_data_unregister(driving.sent);
    starpu_data_unregister(driving.awaited);
}

/* The submitting thread wakes when a message or a task is done. It would then preempt the worker that is about to
 * take its next task. A batch thread waits for its turn instead. */
static void wait_for_turns(bool on)
{
    const struct sched_param none = {0};
    if (on) {
        driving.batch = sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
    } else if (driving.batch) {
        sched_setscheduler(0, SCHED_OTHER, &none);
    }
}

/* Tell StarPU-MPI through the environment whether its thread is a worker. As a worker it looks for a task, or runs
 * the task whose data it has, after each poll for messages. Also disable GPUDirect: a GPU-aware MPI would pack lists
 * in GPU memory, where the processor cannot read them. */
static int tell_mpi(bool drives)
{
    static const char *const calls = "STARPU_MPI_DRIVER_CALL_FREQUENCY";
    static const char *const looks = "STARPU_MPI_DRIVER_TASK_FREQUENCY";
    int error = setenv("STARPU_MPI_GPUDIRECT", "0", 1);
    if (drives) {
        error |= setenv(calls, "1", 1) | setenv(looks, "1", 1);
    } else {
        error |= unsetenv(calls) | unsetenv(looks);
    }
    return error == 0 ? 0 : -ENOMEM;
}

static int start_with_mpi(struct starpu_conf *conf)
{
    bool drives = !atomic_load(&spare) && conf->ncpus > 0;
    int error = tell_mpi(drives);
    if (error == 0) {
        error = starpu_mpi_init_conf(NULL, NULL, 0, MPI_COMM_WORLD, conf);
    }
    tell_mpi(false);
    driving.on = drives && error == 0;
    if (driving.on) {
        driving.idle_hook = starpu_idle_hook_register(idle, NULL);
        await_end();
        wait_for_turns(true);
    }
    return error;
}

int sl_ranks_start_starpu(struct starpu_conf *conf)
{
    if (joined.n > 1) {
        return start_with_mpi(conf);
    }
    return starpu_init(conf);
}

void sl_ranks_stop_starpu(void)
{
    if (driving.on) {
        if (driving.idle_hook >= 0) {
            starpu_idle_hook_deregister(driving.idle_hook);
        }
        send_end();
        wait_for_turns(false);
        driving.on = false;
    }
    if (joined.n > 1) {
        starpu_mpi_shutdown();
    } else {
        starpu_shutdown();
    }
}

/* starpu_mpi_wait_for_all waits until StarPU-MPI's thread is idle, but a thread that is a worker never is. A receive
 * is waited for by the tasks that read it; nothing waits for sends, so count messages instead. */
void sl_ranks_drain(void)
{
    starpu_task_wait_for_all();
    while (atomic_load(&n_under_way) > 0) {
        nap();
    }
}

/* ---- collective ---- */

/* MPI counts in int. */
static enum sl_status check_count(size_t n)
{
    SL_FAIL_IF(n > INT_MAX, SL_EINVAL,
               "found %zu bytes or numbers between all ranks at once, expected less than 2^31; use "
               "one process, or another number of them",
               n);
    return SL_OK;
}

enum sl_status sl_ranks_broadcast(void *data, size_t bytes)
{
    MPI_Request request;
    if (joined.n == 1) {
        return SL_OK;
    }
    SL_CHECK(check_count(bytes));
    return await(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_ranks_sum(uint32_t n, double *data)
{
    MPI_Request request;
    const void *from = joined.rank == 0 ? MPI_IN_PLACE : data;
    if (joined.n == 1) {
        return SL_OK;
    }
    SL_CHECK(check_count(n));
    return await(MPI_Ireduce(from, data, (int)n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_ranks_add_up(uint32_t n, uint32_t *counts)
{
    MPI_Request request;
    if (joined.n == 1) {
        return SL_OK;
    }
    SL_CHECK(check_count(n));
    return await(MPI_Iallreduce(MPI_IN_PLACE, counts, (int)n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, &request),
                 &request);
}

/* Counts and offsets of consecutive lists, as MPI expects them. */
struct layout {
    int *count, *offset;
};

static enum sl_status open_layout(struct layout *out)
{
    enum sl_status st = sl_alloc_zero(2 * (size_t)joined.n, sizeof *out->count, "places of messages", &out->count);
    out->offset = st == SL_OK ? out->count + joined.n : NULL;
    return st;
}

/* Append rank r's `count` elements to the layout. */
static enum sl_status lay_out(uint32_t r, size_t count, const struct layout *out)
{
    size_t offset = r == 0 ? 0 : (size_t)out->offset[r - 1] + (size_t)out->count[r - 1];
    SL_CHECK(check_count(offset + count));
    out->count[r] = (int)count;
    out->offset[r] = (int)offset;
    return SL_OK;
}

enum sl_status sl_ranks_gather(const void *mine, size_t bytes, void *all)
{
    struct layout from = {0};
    const int n = (int)bytes;
    MPI_Request request;
    enum sl_status st;
    if (joined.n == 1) {
        memcpy(all, mine, bytes);
        return SL_OK;
    }
    SL_TRY(st, check_count(bytes), done);
    SL_TRY(st, open_layout(&from), done);
    SL_TRY(st, await(MPI_Igather(&n, 1, MPI_INT, from.count, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), &request), done);
    for (uint32_t r = 0; joined.rank == 0 && r < joined.n; r++) {
        SL_TRY(st, lay_out(r, (size_t)from.count[r], &from), done);
    }
    st = await(MPI_Igatherv(mine, n, MPI_BYTE, all, from.count, from.offset, MPI_BYTE, 0, MPI_COMM_WORLD, &request),
               &request);
done:
    sl_free(from.count);
    return st;
}

enum sl_status sl_ranks_swap_counts(const uint32_t *n_to, uint32_t *n_from)
{
    MPI_Request request;
    if (joined.n == 1) {
        *n_from = *n_to;
        return SL_OK;
    }
    return await(MPI_Ialltoall(n_to, 1, MPI_UINT32_T, n_from, 1, MPI_UINT32_T, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_ranks_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from)
{
    struct layout sent = {0};
    struct layout received = {0};
    MPI_Request request;
    enum sl_status st;
    if (joined.n == 1) {
        memcpy(from, to, *n_to * sizeof *to);
        return SL_OK;
    }
    SL_TRY(st, open_layout(&sent), done);
    SL_TRY(st, open_layout(&received), done);
    for (uint32_t r = 0; r < joined.n; r++) {
        SL_TRY(st, lay_out(r, n_to[r], &sent), done);
        SL_TRY(st, lay_out(r, n_from[r], &received), done);
    }
    st = await(MPI_Ialltoallv(to, sent.count, sent.offset, MPI_UINT32_T, from, received.count, received.offset,
                              MPI_UINT32_T, MPI_COMM_WORLD, &request),
               &request);
done:
    sl_free(sent.count);
    sl_free(received.count);
    return st;
}

enum sl_status sl_ranks_barrier(void)
{
    MPI_Request request;
    if (joined.n == 1) {
        return SL_OK;
    }
    return await(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}

/* ---- what messages took ---- */

#define N_LOOKS 8
#define TAG_OF_CLOCKS 4711 /* a tag that StarPU-MPI does not use */

/* The number to add to this rank's clock to get rank 0's. Ranks on one machine share a clock. A rank on another
 * machine asks several times, and uses the answer with the shortest round trip. */
static double clock_ahead(void)
{
    double ahead_s = 0;
    double fastest_s = INFINITY;
    for (uint32_t i = 0, source = 0; i < joined.n_far * N_LOOKS; i++) {
        MPI_Status status;
        double asked_s;
        /* only a rank's first question may come from any rank */
        int from = i % N_LOOKS == 0 ? MPI_ANY_SOURCE : (int)source;
        MPI_Recv(&asked_s, 1, MPI_DOUBLE, from, TAG_OF_CLOCKS, MPI_COMM_WORLD, &status);
        double now_s = sl_clock_s();
        source = (uint32_t)status.MPI_SOURCE;
        MPI_Send(&now_s, 1, MPI_DOUBLE, status.MPI_SOURCE, TAG_OF_CLOCKS, MPI_COMM_WORLD);
    }
    if (!joined.far) {
        return 0;
    }
    for (int i = 0; i < N_LOOKS; i++) {
        double first_s = 0;
        double asked_s = sl_clock_s();
        MPI_Send(&asked_s, 1, MPI_DOUBLE, 0, TAG_OF_CLOCKS, MPI_COMM_WORLD);
        MPI_Recv(&first_s, 1, MPI_DOUBLE, 0, TAG_OF_CLOCKS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double now_s = sl_clock_s();
        if (now_s - asked_s < fastest_s) {
            fastest_s = now_s - asked_s;
            ahead_s = first_s - (asked_s + now_s) / 2;
        }
    }
    return ahead_s;
}

enum sl_status sl_ranks_take_waits(struct sl_waits *out)
{
    struct sl_waits_lists lists = {.n_ranks = joined.n};
    double now_s = sl_clock_s();
    uint32_t *n = NULL; /* lengths of the lists to each rank, then from each rank */
    uint32_t *to = NULL;
    uint32_t *from = NULL;
    size_t n_from = 0;
    enum sl_status st = SL_OK;
    *out = (struct sl_waits){0};
    if (joined.n == 1) {
        return SL_OK;
    }
    lists.ahead_s = clock_ahead();
    SL_TRY(st, sl_alloc(2 * (size_t)joined.n, sizeof *n, "times of messages", &n), done);
    SL_TRY(st, sl_waits_list(lists.ahead_s, joined.n, n, &to), done);
    SL_TRY(st, sl_ranks_swap_counts(n, n + joined.n), done);
    for (uint32_t r = 0; r < joined.n; r++) {
        n_from += n[joined.n + r];
    }
    SL_TRY(st, sl_alloc(n_from + 1, sizeof *from, "times of messages", &from), done);
    SL_TRY(st, sl_ranks_swap(n, to, n + joined.n, from), done);
    lists.n_from = n + joined.n;
    lists.from = from;
    st = sl_waits_take(now_s, &lists, out);
done:
    sl_free(n);
    sl_free(to);
    sl_free(from);
    return st;
}

/* ---- messages ---- */

/* StarPU-MPI counts the bytes of early messages in int. */
static enum sl_status check_size(starpu_data_handle_t handle)
{
    size_t bytes = starpu_data_get_size(handle);
    SL_FAIL_IF(bytes > INT32_MAX, SL_EINVAL,
               "a message of %zu bytes between ranks: expected less than 2 GiB; use a smaller --batch-size "
               "or --fanout, or more --pes; of pipe_gnn more --ways and --chunks",
               bytes);
    return SL_OK;
}

static enum sl_status translate(int error)
{
    return error == 0 ? SL_OK : sl_fail(SL_ESTARPU, "StarPU-MPI refused a message (%d)", error);
}

static void is_over(void *unused)
{
    (void)unused;
    count_move();
    atomic_fetch_sub(&n_under_way, 1);
}

/* Argument of is_written. */
struct written {
    starpu_data_handle_t handle;
    uint64_t ticket;
};

static void is_written(void *arg)
{
    struct written written = *(struct written *)arg;
    sl_free(arg);
    sl_waits_written(written.ticket, sl_clock_s());
    starpu_data_release_on_node(written.handle, STARPU_ACQUIRE_NO_NODE);
}

/* Record the time when StarPU-MPI may send the handle. */
static enum sl_status tell_when_written(starpu_data_handle_t handle, uint64_t ticket)
{
    struct written *written;
    if (ticket == SL_WAITS_NO_TICKET) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(1, sizeof *written, "a message", &written));
    *written = (struct written){handle, ticket};
    if (starpu_data_acquire_on_node_cb(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R, is_written, written) != 0) {
        sl_free(written);
        return sl_fail(SL_ESTARPU, "StarPU refused to say when a message is written");
    }
    return SL_OK;
}

/* Type of starpu_mpi_isend_detached and starpu_mpi_issend_detached. */
typedef int send_detached(starpu_data_handle_t handle, int to, starpu_mpi_tag_t tag, MPI_Comm among,
                          void (*over)(void *), void *ticket);

static enum sl_status send_by(send_detached *by, starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    enum sl_status st = SL_OK;
    SL_CHECK(check_size(handle));
    if (starpu_data_get_interface_id(handle) != list_id) { /* the size of a list is known when it is packed */
        atomic_fetch_add(&sent_bytes, starpu_data_get_size(handle));
    }
    SL_CHECK(tell_when_written(handle, sl_waits_send(to, tag)));
    atomic_fetch_add(&n_under_way, 1);
    st = translate(by(handle, (int)to, tag, MPI_COMM_WORLD, is_over, NULL));
    if (st != SL_OK) {
        is_over(NULL);
    }
    return st;
}

enum sl_status sl_ranks_send(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return send_by(starpu_mpi_isend_detached, handle, to, tag);
}

enum sl_status sl_ranks_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return send_by(starpu_mpi_issend_detached, handle, to, tag);
}

static void has_come(void *ticket)
{
    sl_waits_come((uintptr_t)ticket, sl_clock_s());
    is_over(NULL);
}

enum sl_status sl_ranks_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag)
{
    enum sl_status st = SL_OK;
    SL_CHECK(check_size(handle));
    uint64_t ticket = sl_waits_ask(from, tag, sl_clock_s());
    atomic_fetch_add(&n_under_way, 1);
    st = translate(
        starpu_mpi_irecv_detached(handle, (int)from, tag, MPI_COMM_WORLD, has_come, (void *)(uintptr_t)ticket));
    if (st != SL_OK) {
        has_come((void *)(uintptr_t)ticket);
    }
    return st;
}

#else

enum sl_status sl_ranks_open(void)
{
    SL_FAIL_IF(sl_ranks_started() > 1, SL_ENOTSUP,
               "found %u processes of one run ($%s), but this build has no MPI; build with ./bootstrap "
               "--with-mpi, or start one process",
               sl_ranks_started(), launchers[launcher()].n);
    return SL_OK;
}

void sl_ranks_abort(int code)
{
    (void)code;
}

int sl_ranks_start_starpu(struct starpu_conf *conf)
{
    return starpu_init(conf);
}

void sl_ranks_stop_starpu(void)
{
    starpu_shutdown();
}

void sl_ranks_drain(void)
{
    starpu_task_wait_for_all();
}

enum sl_status sl_ranks_broadcast(void *data, size_t bytes)
{
    (void)data, (void)bytes;
    return SL_OK;
}

enum sl_status sl_ranks_sum(uint32_t n, double *data)
{
    (void)n, (void)data;
    return SL_OK;
}

enum sl_status sl_ranks_add_up(uint32_t n, uint32_t *counts)
{
    (void)n, (void)counts;
    return SL_OK;
}

enum sl_status sl_ranks_gather(const void *mine, size_t bytes, void *all)
{
    memcpy(all, mine, bytes);
    return SL_OK;
}

enum sl_status sl_ranks_swap_counts(const uint32_t *n_to, uint32_t *n_from)
{
    *n_from = *n_to;
    return SL_OK;
}

enum sl_status sl_ranks_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from)
{
    (void)n_from;
    memcpy(from, to, *n_to * sizeof *to);
    return SL_OK;
}

enum sl_status sl_ranks_barrier(void)
{
    return SL_OK;
}

enum sl_status sl_ranks_take_waits(struct sl_waits *out)
{
    *out = (struct sl_waits){0};
    return SL_OK;
}

void sl_ranks_spare(bool spare)
{
    (void)spare;
}

enum sl_status sl_ranks_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out)
{
    (void)n, (void)names;
    *out = (struct sl_ranks_share){0, 1};
    return SL_OK;
}

static enum sl_status no_mpi(void)
{
    return sl_fail(SL_EINTERNAL, "a message to another rank in a build without MPI");
}

enum sl_status sl_ranks_send(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    (void)handle, (void)to, (void)tag;
    return no_mpi();
}

enum sl_status sl_ranks_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    (void)handle, (void)to, (void)tag;
    return no_mpi();
}

enum sl_status sl_ranks_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag)
{
    (void)handle, (void)from, (void)tag;
    return no_mpi();
}

#endif

/* ---- comparisons ---- */

/* Copy rank 0's `text` to `out`, at all ranks. */
static enum sl_status take_text_of_rank0(const char *text, char **out)
{
    uint64_t bytes = strlen(text) + 1;
    SL_CHECK(sl_ranks_broadcast(&bytes, sizeof bytes));
    SL_CHECK(sl_alloc(bytes, 1, "rank 0's text", out));
    if (sl_rank() == 0) {
        memcpy(*out, text, bytes);
    }
    return sl_ranks_broadcast(*out, bytes);
}

enum sl_status sl_ranks_match_text(const char *label, const char *mine, const char *remedy)
{
    char *first = NULL;
    enum sl_status st;
    if (sl_n_ranks() == 1) {
        return SL_OK;
    }
    SL_TRY(st, take_text_of_rank0(mine, &first), done);
    if (strcmp(mine, first) != 0) {
        char found[SL_QUOTED_BYTES], expected[SL_QUOTED_BYTES];
        st = sl_fail(SL_EINVAL, "%s: found %s, expected %s as rank 0 has; %s", label, sl_text_quoted(mine, found),
                     sl_text_quoted(first, expected), remedy);
    }
done:
    sl_free(first);
    return st;
}

/* ---- lists: StarPU's vector, but a message carries only the used part ---- */

struct list {
    struct starpu_vector_interface vector;
    uint32_t n_parts;
};

static struct starpu_data_interface_ops list_ops;

static void list_register(starpu_data_handle_t handle, int home, void *source)
{
    starpu_interface_vector_ops.register_data_handle(handle, home, source);
    for (unsigned node = 0; node < STARPU_MAXNODES; node++) {
        struct list *list = starpu_data_get_interface_on_node(handle, node);
        list->n_parts = ((const struct list *)source)->n_parts;
    }
}

/* StarPU first asks with NULL `out` for the size alone. */
static int list_pack(starpu_data_handle_t handle, unsigned node, void **out, starpu_ssize_t *bytes)
{
    const struct list *list = starpu_data_get_interface_on_node(handle, node);
    const uint32_t *data = (const uint32_t *)list->vector.ptr;
    *bytes = (starpu_ssize_t)(sizeof *data * ((size_t)list->n_parts + 1 + data[list->n_parts]));
    if (out != NULL) {
        *out = (void *)starpu_malloc_on_node_flags(node, (size_t)*bytes, 0);
        memcpy(*out, data, (size_t)*bytes);
        atomic_fetch_add(&sent_bytes, (uint64_t)*bytes);
    }
    return 0;
}

static int list_peek(starpu_data_handle_t handle, unsigned node, void *data, size_t bytes)
{
    const struct list *list = starpu_data_get_interface_on_node(handle, node);
    memcpy((void *)list->vector.ptr, data, bytes);
    return 0;
}

static int list_unpack(starpu_data_handle_t handle, unsigned node, void *data, size_t bytes)
{
    list_peek(handle, node, data, bytes);
    starpu_free_on_node_flags(node, (uintptr_t)data, bytes, 0);
    return 0;
}

/* Lists are vectors, except in messages. StarPU-MPI sends interfaces with known ids, such as vectors, whole; a new
 * id makes it call pack_data. */
static void make_list_ops(void)
{
    list_ops = starpu_interface_vector_ops;
    list_id = (enum starpu_data_interface_id)starpu_data_interface_get_next_id();
    list_ops.interfaceid = list_id;
    list_ops.interface_size = sizeof(struct list);
    list_ops.register_data_handle = list_register;
    list_ops.pack_data = list_pack;
    list_ops.peek_data = list_peek;
    list_ops.unpack_data = list_unpack;
    list_ops.name = "SL_LIST";
}

void sl_list_register(void *memory, uint32_t room, uint32_t n_parts, starpu_data_handle_t *out)
{
    struct list list = {.vector = {.id = STARPU_VECTOR_INTERFACE_ID,
                                   .ptr = (uintptr_t)memory,
                                   .dev_handle = (uintptr_t)memory,
                                   .nx = room,
                                   .elemsize = sizeof(uint32_t),
                                   .allocsize = room * sizeof(uint32_t)},
                        .n_parts = n_parts};
    if (list_ops.register_data_handle == NULL) {
        make_list_ops();
    }
    starpu_data_register(out, STARPU_MAIN_RAM, &list, &list_ops);
}
