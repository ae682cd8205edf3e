/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a bug report needs: versions, the machine as this process may use it, and the settings that the environment gives.
 */
#ifndef SL_RUNTIME_REPORT_INFO_H
#define SL_RUNTIME_REPORT_INFO_H

#include <stdio.h>

#include "support/status.h"

/* Print it, a line each, to a stream. Does not start StarPU. Of several ranks (codelets/ranks.h), which all call, after sl_ranks_open, rank 0
 * prints, a line of each besides. SL_EINVAL: an environment variable of ours is wrong. SL_EIO, SL_EINTERNAL, SL_ENOMEM. */
enum sl_status sl_info_print(FILE *stream);

#endif
