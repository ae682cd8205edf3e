/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Refuses a file of another program, given as a dataset.
 */
#ifndef SL_DATA_FOREIGN_H
#define SL_DATA_FOREIGN_H

#include "support/status.h"

/* Refuse a file: the message says what the file is, by its first bytes and its name, and how to make a dataset of
 * it. Always SL_EFILE. */
enum sl_status sl_foreign_refuse(const char *path);

#endif
