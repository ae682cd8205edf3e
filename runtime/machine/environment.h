/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What StarPU reads of the environment, looked at before StarPU does: at what it cannot use it aborts, hangs or warns for ever. Its
 * folder, where the user's cannot be written, is a private one for as long as it runs.
 */
#ifndef SL_RUNTIME_MACHINE_ENVIRONMENT_H
#define SL_RUNTIME_MACHINE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"

/* Refuse numbers that are none, or that StarPU would abort at, in one line with the variable's name; `traced`: also those of traces.
 * SL_EINVAL. */
enum sl_status sl_environment_check(bool traced);

/* CPU workers that $STARPU_NCPU (or $STARPU_NCPUS) asks for; 0: it does not. After the check. */
uint32_t sl_environment_cpus(void);

/* The least of StarPU's limits of main memory in bytes, UINT64_MAX where there is none; *name_out: the variable. For the run
 * to heed: StarPU is not shown them (runtime/machine/machine.c). */
uint64_t sl_environment_memory(const char **name_out);

/* The variables that say so. */
#define SL_MEMORY_LIMITS 2
extern const char *const sl_environment_memory_limits[SL_MEMORY_LIMITS];

#define SL_HOME_BYTES 256
#define SL_HOME_NAMES 3

/* Where StarPU keeps its performance models. */
struct sl_environment_home {
    char refused[SL_HOME_BYTES]; /* the folder that cannot be written; "": it can */
    char instead[SL_HOME_BYTES]; /* a fresh one */
    bool set;                    /* the variables name it */
    char *kept[SL_HOME_NAMES];   /* what they were, or NULL */
};

/* Before StarPU's start: make sure that it can write its folder (files of some kB, too: the disk may be full), or have the variables that name it ($XDG_CACHE_HOME, $STARPU_HOME,
 * $HOME) name a fresh one. SL_EIO: none can be made. SL_ENOMEM. */
enum sl_status sl_environment_home_open(struct sl_environment_home *out);

/* After its start, which is when it looks: put the variables back. */
void sl_environment_home_restore(struct sl_environment_home *home);

/* After its end: that, and remove the fresh folder. An empty struct is allowed. */
void sl_environment_home_close(struct sl_environment_home *home);

#endif
