/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of --metrics, line by line. runtime/report/metrics.h writes the lines.
 */
#ifndef SL_APPS_REPORT_JSONL_H
#define SL_APPS_REPORT_JSONL_H

#include <jansson.h>
#include <stdbool.h>

#include "support/status.h"

/* Call `take` for each line of a file, in order, until a call fails. A line that is not JSON is left out: a killed
 * program may leave an unfinished line. `take` borrows the line. SL_EIO: the file cannot be read. SL_ENOMEM. */
enum sl_status sl_jsonl_read(const char *path, enum sl_status (*take)(void *context, json_t *line), void *context);

/* True if the line is an object with this "event". */
bool sl_jsonl_is(const json_t *line, const char *event);

#endif
