/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's configuration. Some settings exist only as environment variables: set here for StarPU's start. */
#include "runtime/machine/machine.h"

#include <errno.h>
#include <starpu.h>
#include <starpu_sched_ctx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/rows/gemm.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/limits.h"
#include "runtime/machine/pool.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/home.h"
#include "tasks/near.h"
#include "tasks/ranks.h"

/* With GPUs, a scheduler must weigh transfers and run times: near does not. */
#define DEFAULT_SCHED SL_NEAR
#define DEFAULT_SCHED_GPUS "dmdas"

/* darts stores its own user data in a handle, where Starling keeps a dtype (tasks/handle.h). */
static bool is_usable(const struct starpu_sched_policy *policy)
{
    return strcmp(policy->policy_name, "darts") != 0;
}

/* " near eager prio lws ..", without the many that are put together of modules. */
static void list_policies(char *out, size_t bytes)
{
    struct starpu_sched_policy **policies = starpu_sched_get_predefined_policies();
    size_t used = (size_t)snprintf(out, bytes, " " SL_NEAR);
    unsigned n_modular = 0;
    for (int i = 0; policies[i] != NULL && used < bytes; i++) {
        if (strncmp(policies[i]->policy_name, "modular-", strlen("modular-")) == 0) {
            n_modular++;
            continue;
        }
        if (is_usable(policies[i])) {
            used += (size_t)snprintf(out + used, bytes - used, " %s", policies[i]->policy_name);
        }
    }
    if (n_modular > 0 && used < bytes) {
        snprintf(out + used, bytes - used, ", and %u of StarPU's called modular-..", n_modular);
    }
}

static enum sl_status check_sched(const char *name, uint32_t n_gpus)
{
    char known[640];
    struct starpu_sched_policy **policies = starpu_sched_get_predefined_policies();
    const bool near = strcmp(name, SL_NEAR) == 0;
    SL_FAIL_IF(near && n_gpus != 0, SL_EINVAL,
               "--sched, or $STARPU_SCHED: found " SL_NEAR " with %u GPUs, expected one of StarPU's, "
               "as " DEFAULT_SCHED_GPUS "; " SL_NEAR " is for CPUs, --gpus 0",
               n_gpus);
    if (near) {
        return SL_OK;
    }
    for (int i = 0; policies[i] != NULL; i++) {
        if (strcmp(policies[i]->policy_name, name) == 0 && is_usable(policies[i])) {
            return SL_OK;
        }
    }
    list_policies(known, sizeof known);
    return sl_fail(SL_EINVAL, "--sched, or $STARPU_SCHED: there is no scheduler '%.100s'; there are%s", name, known);
}

/* Set a variable; value NULL: remove the variable. */
static enum sl_status set_variable(const char *name, const char *value)
{
    SL_FAIL_IF((value != NULL ? setenv(name, value, 1) : unsetenv(name)) != 0, SL_ENOMEM,
               "no memory to set the environment");
    return SL_OK;
}

/* The GPUs for StarPU; with $STARPU_WORKERS_CUDAID all candidates. */
struct gpus {
    uint32_t first, n;
    uint32_t n_workers;                        /* of each */
    struct sl_gpu gpu[STARPU_MAXCUDADEVS + 1]; /* + 1: STARPU_MAXCUDADEVS is 0 without CUDA */
};

/* Read and check the first n GPUs of this rank, or all GPUs if $STARPU_WORKERS_CUDAID selects some. */
static enum sl_status read_gpus(const struct sl_settings *settings, uint32_t n, struct gpus *out)
{
    out->n = n > 0 && getenv("STARPU_WORKERS_CUDAID") != NULL ? sl_gpus_count() : n;
    for (uint32_t i = 0; i < out->n; i++) {
        SL_CHECK(sl_gpus_read(out->first + i, &out->gpu[i]));
        SL_CHECK(sl_gpus_check(out->first + i, &out->gpu[i], (enum sl_precision)settings->precision));
    }
    return SL_OK;
}

/* Hide limits on main memory from StarPU. With a limit StarPU keeps freed buffers until the limit is reached. The
 * session enforces the limit instead (sl_environment_memory). */
static enum sl_status hide_limits(char *kept[SL_MEMORY_LIMITS])
{
    for (size_t i = 0; i < SL_MEMORY_LIMITS; i++) {
        const char *value = getenv(sl_environment_memory_limits[i]);
        if (value != NULL) {
            SL_CHECK(sl_strdup(value, &kept[i]));
        }
        SL_CHECK(set_variable(sl_environment_memory_limits[i], NULL));
    }
    return SL_OK;
}

static void show_limits(char *kept[SL_MEMORY_LIMITS])
{
    for (size_t i = 0; i < SL_MEMORY_LIMITS; i++) {
        if (kept[i] != NULL) {
            set_variable(sl_environment_memory_limits[i], kept[i]);
            sl_free(kept[i]);
        }
    }
}

/* Call starpu_init with a prepared environment:
 * - $STARPU_SCHED overrides the configuration.
 * - $STARPU_SILENT hides unhelpful messages of StarPU's first start; STARPU_SILENT=0 shows the messages.
 * - limits on GPU memory, and the number of a GPU's workers, are environment variables only.
 * Afterwards the caller's variables are restored. *error_out: StarPU's result. */
static enum sl_status init_starpu(const struct sl_settings *settings, struct gpus *gpus, struct starpu_conf *conf,
                                  int *error_out)
{
    const char *inherited = getenv("STARPU_SCHED");
    char *kept = NULL;
    char *limits[SL_MEMORY_LIMITS] = {NULL};
    struct sl_gpus_variables variables = {0};
    enum sl_status st;
    if (inherited != NULL) {
        SL_TRY(st, sl_strdup(inherited, &kept), done);
    }
    if (getenv("STARPU_SILENT") == NULL) {
        SL_TRY(st, set_variable("STARPU_SILENT", "1"), done);
    }
    SL_TRY(st, set_variable("STARPU_SCHED", conf->sched_policy_name), done);
    SL_TRY(st, hide_limits(limits), restore);
    SL_TRY(st, sl_gpus_limit(gpus->n, gpus->gpu, settings->transport == SL_TRANSPORT_NCCL), restore);
    SL_TRY(st, sl_gpus_set_workers(gpus->n_workers, &variables), restore);
    *error_out = sl_ranks_start_starpu(conf);
restore:
    sl_gpus_unset_workers(&variables);
    show_limits(limits);
    set_variable("STARPU_SCHED", kept); /* best effort: a failure here must not hide `st` */
done:
    sl_gpus_unlimit(gpus->n, gpus->gpu);
    sl_free(kept);
    return st;
}

static const char *wanted_sched(const struct sl_settings *settings, uint32_t n_gpus)
{
    const char *inherited = getenv("STARPU_SCHED");
    if (settings->sched != NULL) {
        return settings->sched;
    }
    if (inherited != NULL && inherited[0] != '\0') {
        return inherited;
    }
    return n_gpus > 0 ? DEFAULT_SCHED_GPUS : DEFAULT_SCHED;
}

/* With NCCL, load all kernels when CUDA starts, unless the user has set the variable. A lazily loaded kernel may wait
 * until its GPU is idle (CUDA programming guide, Lazy Loading), while NCCL's kernel on this GPU waits for other GPUs:
 * a deadlock. CUDA reads the variable once; the setting stays. */
static enum sl_status load_kernels_early(const struct sl_settings *settings)
{
    bool wanted = settings->gpus > 0 && settings->transport == SL_TRANSPORT_NCCL;
    if (wanted && getenv("CUDA_MODULE_LOADING") == NULL) {
        return set_variable("CUDA_MODULE_LOADING", "EAGER");
    }
    return SL_OK;
}

/* The requested number of GPUs among the GPUs of this rank. */
static enum sl_status count_gpus(const struct sl_settings *settings, uint32_t *first_out, uint32_t *n_out)
{
    uint32_t asked = settings->gpus;
    uint32_t there = asked > 0 ? sl_gpus_count() : 0;
    uint32_t own = 0;
    SL_CHECK(sl_gpus_share(there, first_out, &own));
    *n_out = sl_min_u32(asked, own);
    const bool missing = asked != SL_GPUS_ALL && asked > own;
    SL_FAIL_IF(missing && !sl_gpus_built(), SL_ENOTSUP,
               "--gpus: found %u, but this build has no CUDA; build with ./bootstrap --with-cuda, or leave out --gpus",
               asked);
    SL_FAIL_IF(missing && own < there, SL_ENODEV,
               "--gpus: found %u, expected at most %u: processes of this machine share the %u devices that CUDA finds",
               asked, own, there);
    SL_FAIL_IF(missing, SL_ENODEV,
               "--gpus: found %u, expected at most %u, the devices that CUDA finds; does nvidia-smi list them, and "
               "does $CUDA_VISIBLE_DEVICES hide none?",
               asked, there);
    return SL_OK;
}

/* This rank's share of the processors. With several ranks and more than two processors each, one is left to
 * messages. */
static uint32_t share_of(const struct sl_topology *topology)
{
    uint32_t share = topology->n_workers / sl_ranks_sharing();
    share -= sl_n_ranks() > 1 && share > 2;
    return share > 0 ? share : 1;
}

/* Ranks on shared processors must not bind workers: all would bind to the first processors. */
static enum sl_status share_processors(const struct sl_topology *topology, uint32_t n_threads)
{
    if (sl_ranks_sharing() > 1) {
        SL_CHECK(set_variable("STARPU_WORKERS_NOBIND", "1"));
    }
    if (sl_n_ranks() > 1) {
        SL_CHECK(set_variable("STARPU_MPI_NOBIND", "1"));
        sl_ranks_spare((n_threads + 1) * sl_ranks_sharing() <= topology->n_workers);
    }
    return SL_OK;
}

/* The environment decides, or ranks that share the machine. */
static bool binding_is_decided(void)
{
    const char *loose = getenv("STARPU_WORKERS_NOBIND");
    return (loose != NULL && loose[0] != '\0' && strcmp(loose, "0") != 0) || getenv("STARPU_WORKERS_CPUID") != NULL ||
           getenv("STARPU_WORKERS_COREID") != NULL || sl_ranks_sharing() > 1;
}

/* CPU workers take cores one after the other. StarPU drives a GPU from a core near it: it gets to choose among all
 * free ones. */
static enum sl_status choose_cores(struct sl_machine *machine, uint32_t n_threads, struct starpu_conf *conf)
{
    struct sl_cores *cores = &machine->cores;
    if (binding_is_decided()) {
        return SL_OK;
    }
    SL_CHECK(sl_cores_take(NULL, machine->n_gpus > 0 ? SL_CORES_ALL : n_threads, cores));
    conf->use_explicit_workers_bindid = cores->n > 0;
    for (uint32_t i = 0; cores->n > 0 && i < STARPU_NMAXWORKERS; i++) {
        conf->workers_bindid[i] = cores->core[i % cores->n].pu;
    }
    machine->loose = cores->n == 0 && cores->n_of_others > 0;
    if (machine->loose) {
        return set_variable("STARPU_WORKERS_NOBIND", "1");
    }
    return SL_OK;
}

/* Give back the cores that StarPU has not chosen. */
static void keep_chosen_cores(struct sl_cores *cores)
{
    for (uint32_t i = cores->n; i-- > 0;) {
        bool chosen = false;
        for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
            chosen = chosen || starpu_worker_get_bindid((int)w) == (int)cores->core[i].pu;
        }
        if (!chosen) {
            sl_cores_drop(cores, i);
        }
    }
}

static void give_cores(struct sl_machine *machine)
{
    if (machine->loose) {
        set_variable("STARPU_WORKERS_NOBIND", NULL);
    }
    sl_cores_give(&machine->cores);
}

static enum sl_status count_cpus(const struct sl_settings *settings, const struct sl_machine *machine, uint32_t *out)
{
    uint32_t unasked = machine->n_gpus > 0 ? 1 : share_of(&machine->topology);
    uint32_t named = sl_environment_cpus();
    *out = named > 0 ? named : unasked;
    if (settings->cpus > 0) {
        *out = settings->cpus;
    }
    SL_FAIL_IF(*out > STARPU_MAXCPUS, SL_EINVAL, "%s: found %u, expected at most %d, which this StarPU was built for",
               settings->cpus > 0 ? "--cpus" : "$STARPU_NCPU", *out, STARPU_MAXCPUS);
    return SL_OK;
}

/* The workers of a GPU, and those of all GPUs and CPUs. */
static enum sl_status count_workers(const struct sl_settings *settings, const struct sl_machine *machine,
                                    uint32_t n_cpus, uint32_t *of_gpu_out, uint32_t *n_out)
{
    const bool alone =
        settings->schedule == SL_SCHEDULE_MINIBATCH && machine->gpus_first && machine->n_gpus == 1 && sl_n_ranks() == 1;
    const bool room = n_cpus + 2 + 1 <= machine->topology.n_workers;
    *of_gpu_out = 0;
    if (machine->n_gpus > 0) {
        SL_CHECK(sl_gpus_workers(alone, room, of_gpu_out));
    }
    *n_out = n_cpus + machine->n_gpus * *of_gpu_out;
    return SL_OK;
}

/* Stop StarPU from counting main memory. StarPU's limit is hwloc's count, without memory added after the system's
 * start. At the limit StarPU would search for buffers to evict forever. The session checks the need in advance
 * (runtime/train/open.c). */
static void leave_memory_uncounted(void)
{
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        if (starpu_node_get_kind(node) == STARPU_CPU_RAM) {
            starpu_malloc_on_node_set_default_flags(node, STARPU_MALLOC_PINNED);
        }
    }
}

/* By default StarPU takes the first GPUs. $STARPU_WORKERS_CUDAID has priority over this choice. */
static void choose_gpus(uint32_t first, uint32_t n, struct starpu_conf *conf)
{
    conf->ncuda = (int)n;
    conf->use_explicit_workers_cuda_gpuid = first > 0;
    for (uint32_t i = 0; i < n; i++) {
        conf->workers_cuda_gpuid[i] = first + i;
    }
}

/* StarPU's schedulers are chosen by name; near by its struct, unknown to StarPU. */
static void choose_sched(const char *name, struct starpu_conf *conf)
{
    bool ours = strcmp(name, SL_NEAR) == 0;
    conf->sched_policy = ours ? &sl_near : NULL;
    conf->sched_policy_name = ours ? NULL : name;
}

/* After StarPU has started: check the number of GPUs, and set up the libraries of all workers. */
static enum sl_status set_up_workers(const struct sl_machine *machine)
{
    uint32_t n = sl_homes_count_gpus();
    SL_FAIL_IF(n != machine->n_gpus, SL_ENODEV,
               "StarPU started %u of %u GPUs; are the others in use, or hidden from it?", n, machine->n_gpus);
    if (n > 0) {
        sl_gpus_open_libraries();
    }
    leave_memory_uncounted();
    sl_gemm_setup();
    return SL_OK;
}

static void stop_workers(const struct sl_machine *machine)
{
    if (machine->n_gpus > 0) {
        sl_gpus_close_libraries();
    }
    sl_ranks_stop_starpu();
    sl_gemm_release();
}

#define START_BYTES ((uint64_t)64 << 20)  /* address space that StarPU and hwloc take for themselves */
#define WORKER_BYTES ((uint64_t)16 << 20) /* and that malloc takes for a worker, beside its stack */

#define STACK_BYTES ((size_t)2 << 20) /* tasks have arrays of 64 kB on their stack */

/* StarPU, hwloc and malloc crash if address space runs out while they start. */
static enum sl_status check_space(uint32_t n_workers)
{
    size_t stack = sl_limits_stack();
    uint64_t bytes = START_BYTES + n_workers * (WORKER_BYTES + stack);
    SL_FAIL_IF(stack < STACK_BYTES, SL_EINVAL,
               "found a stack of %zu kB for threads, expected at least %zu kB; raise 'ulimit -s'", stack >> 10,
               STACK_BYTES >> 10);
    SL_FAIL_IF(!sl_limits_have_room(bytes), SL_ENOMEM,
               "StarPU may need %llu MB of address space to start %u workers, found less below the limits of "
               "`ulimit -v` and `-d`: raise them, or use fewer --cpus",
               (unsigned long long)bytes / 1000000, n_workers);
    return SL_OK;
}

/* StarPU aborts without a thread for a worker. */
static enum sl_status check_threads(uint32_t wanted)
{
    uint32_t found = sl_limits_threads(wanted);
    SL_FAIL_IF(found != wanted, SL_ENODEV,
               "the system gives this process %u more threads, expected %u for its workers; raise "
               "'ulimit -u' or '-v', or ask for fewer with --cpus",
               found, wanted);
    return SL_OK;
}

enum sl_status sl_machine_start(const struct sl_settings *settings, struct sl_machine *out)
{
    struct starpu_conf conf;
    struct sl_machine machine = {0};
    struct gpus gpus = {0};
    uint32_t n_cpus = 0;
    uint32_t n_workers = 0;
    enum sl_status st;
    SL_TRY(st, sl_environment_check(settings->trace != NULL), failed);
    SL_TRY(st, load_kernels_early(settings), failed); /* before the first call of CUDA */
    SL_TRY(st, count_gpus(settings, &gpus.first, &machine.n_gpus), failed);
    SL_TRY(st, read_gpus(settings, machine.n_gpus, &gpus), failed);
    snprintf(machine.sched, sizeof machine.sched, "%s", wanted_sched(settings, machine.n_gpus));
    SL_TRY(st, check_sched(machine.sched, machine.n_gpus), failed);
    SL_TRY(st, sl_topology_read(&machine.topology), failed);
    SL_TRY(st, count_cpus(settings, &machine, &n_cpus), failed);
    machine.gpus_first = machine.n_gpus > 0 && settings->cpus == 0 && sl_environment_cpus() == 0;
    SL_TRY(st, count_workers(settings, &machine, n_cpus, &gpus.n_workers, &n_workers), failed);
    SL_TRY(st, share_processors(&machine.topology, n_workers), failed);
    SL_TRY(st, check_space(n_workers), failed);
    SL_TRY(st, check_threads(n_workers), failed);
    SL_TRY(st, sl_environment_check_home(), failed);
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    choose_sched(machine.sched, &conf);
    conf.ncpus = (int)n_cpus;
    choose_gpus(gpus.first, machine.n_gpus, &conf);
    SL_TRY(st, choose_cores(&machine, n_workers, &conf), no_cores);
    conf.nopencl = 0;
    conf.catch_signals = 0;
    if (machine.n_gpus == 0) {
        sl_pool_install();
    }
    int error = 0;
    SL_TRY(st, init_starpu(settings, &gpus, &conf, &error), no_pool);
    if (error != 0) {
        const char *reserved = getenv("STARPU_RESERVE_NCPU");
        if (error != -ENODEV) {
            st = sl_fail(SL_ESTARPU, "StarPU did not start (%s)", strerror(-error));
        } else if (reserved != NULL) {
            st = sl_fail(SL_ENODEV,
                         "$STARPU_RESERVE_NCPU: found %.20s, which leaves no worker of %u; expected fewer, or no such "
                         "variable",
                         reserved, n_cpus);
        } else {
            st = sl_fail(SL_ENODEV, "StarPU found no worker: ask for at least one with --cpus");
        }
        goto no_pool;
    }
    SL_TRY(st, set_up_workers(&machine), stop);
    keep_chosen_cores(&machine.cores);
    machine.started = true;
    machine.n_workers = starpu_worker_get_count();
    *out = machine;
    return SL_OK;
stop:
    sl_ranks_stop_starpu();
no_pool:
    sl_pool_remove();
no_cores:
    give_cores(&machine);
failed:
    *out = (struct sl_machine){0};
    return st;
}

void sl_machine_stop(struct sl_machine *machine)
{
    if (machine->started) {
        starpu_task_wait_for_all();
        stop_workers(machine);
        sl_pool_remove();
        give_cores(machine);
    }
    *machine = (struct sl_machine){0};
}

void sl_machine_worker_name(unsigned worker, char *out, size_t bytes)
{
    out[0] = '\0';
    starpu_worker_get_name((int)worker, out, bytes);
}
