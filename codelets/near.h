/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A scheduler for CPU workers: tasks stay near the rows of their PE. A word that another core wrote last may be ten times as far away as
 * one's own, and StarPU's lws leaves a task with whoever made it ready, most often another PE's worker as rows come in from it.
 *
 * Each worker has a line of ready tasks. A task joins that of its PE's home or, where a PE has several workers to itself, that of the one
 * that made it ready if it is of these, as with lws, else of the next of them. A worker takes the task of the highest priority that came
 * first from its own line and, where that is empty, of the highest priority the one that came last from the line of another, close ones before far ones. Which
 * worker a task runs on changes no result.
 */
#ifndef SL_CODELETS_NEAR_H
#define SL_CODELETS_NEAR_H

#include <starpu.h>
#include <starpu_scheduler.h>

#include "codelets/home.h"

#define SL_NEAR "near" /* as --sched has it */

/* Priorities; those beyond count as these. */
#define SL_NEAR_LOWEST (-1)
#define SL_NEAR_HIGHEST 2

/* For starpu_conf.sched_policy, with CPU workers alone. StarPU changes nothing of it, and is one in a process. */
extern struct starpu_sched_policy sl_near;

/* What a task of the PE has as sched_data. Tasks without are nobody's, and stay with whoever made them ready. */
void *sl_near_place(const struct sl_homes *homes, uint32_t pe);

#endif
