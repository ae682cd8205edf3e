/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Start and stop of StarPU for a run: workers, scheduler, memory, one BLAS thread per worker. A process has at most
 * one StarPU, so at most one machine at a time.
 */
#ifndef SL_RUNTIME_MACHINE_MACHINE_H
#define SL_RUNTIME_MACHINE_MACHINE_H

#include "runtime/machine/cores.h"
#include "runtime/machine/environment.h"
#include "runtime/machine/topology.h"
#include "runtime/plan/settings.h"

struct sl_machine {
    struct sl_topology topology;
    bool started;
    unsigned n_workers; /* CPU and GPU workers */
    unsigned n_gpus;    /* a GPU has a worker, or two (runtime/machine/gpus.h) */
    /* --cpus was left open, with GPUs: the CPU worker only runs tasks without a GPU implementation (struct sl_run) */
    bool gpus_first;
    char sched[64];        /* the scheduler in use */
    struct sl_cores cores; /* the workers are bound to these cores */
    bool loose;            /* workers are not bound: other runs hold the cores */
};

/* Start StarPU as the settings say:
 * - GPUs: `gpus` of this rank's GPUs (sl_gpus_share). SL_GPUS_ALL: all.
 * - CPU workers: `cpus`. 0: $STARPU_NCPU. If not set: 1 with GPUs, otherwise the number in
 * runtime/machine/topology.h.
 * - scheduler: `sched`. NULL: $STARPU_SCHED. If not set: dmdas with GPUs, otherwise near (tasks/near.h).
 *
 * Without GPUs buffers come from the pool (runtime/machine/pool.h). With GPUs buffers are StarPU's pinned memory,
 * cuBLAS and cuSPARSE are set up on each GPU, and some GPU memory is reserved for launchers and libraries
 * (sl_gpus_data_bytes). Workers are bound to cores that no other run on
 * the machine has bound (runtime/machine/cores.h). If too few are free, workers are not bound. If ranks share the
 * machine, or $STARPU_WORKERS_NOBIND, $STARPU_WORKERS_CPUID or $STARPU_WORKERS_COREID is set, no core is reserved.
 *
 * StarPU installs no signal handlers. Invalid environment variables are refused
 * (runtime/machine/environment.h). sl_trace_prepare (runtime/report/trace.h) has decided before whether StarPU
 * traces.
 *
 * On failure StarPU is down and *out is empty.
 * SL_EINVAL: unknown scheduler (the message lists the known ones), near with GPUs, more workers than StarPU was
 * built for, several workers per GPU, or an invalid variable. SL_ENOTSUP: GPUs in a build without CUDA, or a GPU
 * refused by sl_gpus_check. SL_ECUDA: CUDA does not start on a GPU. SL_ENODEV: no worker, too few threads, or too
 * few GPUs. SL_EIO, SL_ENOMEM, SL_ESTARPU. */
enum sl_status sl_machine_start(const struct sl_settings *settings, struct sl_machine *out);

/* Wait for all tasks, then stop StarPU. An empty struct is allowed. */
void sl_machine_stop(struct sl_machine *machine);

/* Copy the name of a worker ("CPU 0", "CUDA 0.0 (NVIDIA H100 ..)") to `out`. */
void sl_machine_worker_name(unsigned worker, char *out, size_t bytes);

#endif
