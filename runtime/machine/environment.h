/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checks of StarPU's environment variables before StarPU reads them: at invalid values it aborts, hangs or warns
 * forever.
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

/* Check that files can be written in StarPU's folder of performance models. SL_EIO: the message names the variable. */
enum sl_status sl_environment_check_home(void);

#endif
