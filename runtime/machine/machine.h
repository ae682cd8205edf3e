/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU started and stopped for a run: workers, scheduler, memory, one BLAS thread per worker. StarPU is one in a process, so a
 * process has at most one of these at a time.
 */
#ifndef SL_RUNTIME_MACHINE_MACHINE_H
#define SL_RUNTIME_MACHINE_MACHINE_H

#include "runtime/machine/cores.h"
#include "runtime/machine/environment.h"
#include "runtime/machine/topology.h"
#include "runtime/plan/settings.h"

/* What StarPU gives this run. */
struct sl_machine {
    struct sl_topology topology;
    bool started;
    unsigned n_workers; /* for CPUs and GPUs */
    unsigned n_gpus;    /* of them for GPUs */
    bool
        gpus_first; /* --cpus was left open beside GPUs: the CPU worker is for tasks that GPUs cannot do (struct sl_run) */
    char sched[64]; /* the scheduler in force */
    struct sl_environment_home home;
    struct sl_cores cores; /* that its workers are bound to */
    bool loose;            /* they are bound to none: too many cores are other runs' */
};

/* Start StarPU with --gpus GPUs (SL_GPUS_ALL: those that are there; with several ranks of those that are this one's, sl_gpus_share), --cpus CPU workers (0: $STARPU_NCPU, else one beside GPUs, else as many as
 * runtime/machine/topology.h finds worth starting) and the scheduler --sched (NULL: $STARPU_SCHED, else near (codelets/near.h), or dmdas with GPUs). With
 * GPUs cuBLAS and cuSPARSE are ready on each, buffers in main memory are StarPU's pinned ones instead of the pool's
 * (runtime/machine/pool.h), and StarPU leaves some of each GPU's memory to launchers and libraries (sl_gpus_data_bytes). StarPU leaves signals alone.
 * Workers are bound to cores that no other run has bound (runtime/machine/cores.h), or to none, unless ranks share the machine or the
 * environment says how to bind ($STARPU_WORKERS_NOBIND, $STARPU_WORKERS_CPUID, $STARPU_WORKERS_COREID).
 * What StarPU cannot use of its environment is refused by name, or replaced (runtime/machine/environment.h).
 * SL_EINVAL: no scheduler of that name (message: those there are), near with GPUs, more workers than StarPU was built for, several workers for
 * each GPU. SL_ENOTSUP: GPUs were asked for, and this build has no CUDA, or a GPU has no pools of memory. SL_ECUDA: CUDA does
 * not start on a GPU. SL_ENODEV: no worker, or fewer GPUs than asked for. SL_ESTARPU. On failure nothing runs and *out is
 * empty. Whether it traces, sl_trace_prepare has said (runtime/report/trace.h). */
enum sl_status sl_machine_start(const struct sl_settings *settings, struct sl_machine *out);

/* Wait for all tasks and stop. An empty struct is allowed. */
void sl_machine_stop(struct sl_machine *machine);

/* The name of a worker ("CPU 0", "CUDA 0.0 (NVIDIA H100 ..)"), into `out`. */
void sl_machine_worker_name(unsigned worker, char *out, size_t bytes);

#endif
