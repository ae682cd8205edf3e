/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The environment of coop_sage and pipe_gnn. sl_settings_parse (runtime/starling.h) reads it.
 */
#ifndef SL_RUNTIME_PLAN_PARSE_H
#define SL_RUNTIME_PLAN_PARSE_H

/* Give notice of each environment variable STARLING_NAME that no program of Starling reads, with the nearest name. */
void sl_settings_check_environment(void);

#endif
