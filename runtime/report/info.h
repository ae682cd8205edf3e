/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Facts for a bug report: versions, the machine as this process may use it, and the settings of the
 * environment.
 */
#ifndef SL_RUNTIME_REPORT_INFO_H
#define SL_RUNTIME_REPORT_INFO_H

#include <stdio.h>

#include "support/status.h"

/* Print versions, machine and settings, one per line. Does not start StarPU. With several ranks (tasks/ranks.h)
 * the call is collective, after sl_ranks_open: rank 0 prints, with one more line for each rank. SL_EINVAL: an
 * environment variable of ours is wrong. SL_EIO, SL_EINTERNAL, SL_ENOMEM. */
enum sl_status sl_info_print(FILE *stream);

#endif
