/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The rules of the report: where time could be saved. */
#ifndef SL_APPS_REPORT_ADVICE_H
#define SL_APPS_REPORT_ADVICE_H

#include "apps/report/analysis.h"

/* Fill in the advice of an analysis from its other members (sl_analysis_make).
 * Each rule names a cause, and bounds the gain from its removal:
 *   waiting    workers idle before a category's tasks: the largest idle time of a category, divided by the workers
 *   tail       workers idle after the last task
 *   sampling   sampling and gathering without compute beside it
 *   exchange   the row exchange without compute beside it
 *   tiny       StarPU's work before tasks under 20 microseconds
 *   starpu     StarPU's work before all other tasks, if it is over 5 % of the time
 *   transfers  transfers, if they are over 5 % of the time
 *   path       length of the critical path, less the work divided among the workers
 *   kernel     a tenth of the busiest category, to show the worth of work on its kernels
 * A rule with a bound under a thousandth of the makespan is silent. */
void sl_analysis_advise(struct sl_analysis *analysis);

#endif
