/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checks of StarPU's environment variables before StarPU reads them: at invalid values it aborts, hangs or warns
 * forever. If StarPU cannot write its folder, a temporary folder replaces it during the run.
 */
#ifndef SL_RUNTIME_MACHINE_ENVIRONMENT_H
#define SL_RUNTIME_MACHINE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"

/* Refuse variables with invalid values for StarPU. traced: also check the variables of traces.
 * SL_EINVAL: the message names the variable. */
enum sl_status sl_environment_check(bool traced);

/* The number of CPU workers in $STARPU_NCPU or $STARPU_NCPUS; 0: not set. Call sl_environment_check first. */
uint32_t sl_environment_cpus(void);

/* The smallest of StarPU's limits on main memory in bytes; UINT64_MAX: no limit. *name_out: its variable. The
 * session enforces the limit, hidden from StarPU (runtime/machine/machine.c). */
uint64_t sl_environment_memory(const char **name_out);

/* The variables of these limits. */
#define SL_MEMORY_LIMITS 2
extern const char *const sl_environment_memory_limits[SL_MEMORY_LIMITS];

#define SL_HOME_BYTES 256
#define SL_HOME_NAMES 3

/* The folder of StarPU's performance models. */
struct sl_environment_home {
    /* StarPU's usual folder, if not writable; otherwise "" */
    char refused[SL_HOME_BYTES];
    /* a temporary folder in its place */
    char instead[SL_HOME_BYTES];
    /* whether the variables name the temporary folder */
    bool set;
    /* earlier values of the variables, or NULL */
    char *kept[SL_HOME_NAMES];
};

/* Before StarPU starts: check StarPU's folder. If no file of a few kB can be written there, make a temporary folder and
 * let $XDG_CACHE_HOME, $STARPU_HOME and $HOME name it. SL_EIO: no folder can be written. SL_ENOMEM. */
enum sl_status sl_environment_home_open(struct sl_environment_home *out);

/* After StarPU has started: restore the variables. */
void sl_environment_home_restore(struct sl_environment_home *home);

/* After StarPU has stopped: restore the variables and remove the temporary folder. An empty struct is allowed. */
void sl_environment_home_close(struct sl_environment_home *home);

#endif
