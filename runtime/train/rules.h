/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A rule for each option of coop_sage and pipe_gnn. The rule says whether the value may change when a run resumes, and
 * whether it may differ between ranks. doc/guide/resume.md has the same table; tests/test_rules.c compares the tables.
 */
#ifndef SL_RUNTIME_TRAIN_RULES_H
#define SL_RUNTIME_TRAIN_RULES_H

/* On resume. A checkpoint stores the values of all options but the free options. */
enum sl_change {
    SL_CHANGE_NEVER,  /* the run would go on differently. An open value comes from the checkpoint. */
    SL_CHANGE_DATA,   /* may change, if the data stay the same: their contents are compared (partition/identity.h) */
    SL_CHANGE_LONGER, /* may change without --lr-schedule, whose length is the number of epochs */
    SL_CHANGE_FREELY, /* no influence on the rest of the training */
};

/* Between ranks. */
enum sl_spread {
    SL_SPREAD_EQUAL, /* the same value on all ranks */
    SL_SPREAD_PATH,  /* on all ranks or on none. The paths may differ; files that ranks read have equal contents */
    SL_SPREAD_OWN,   /* a matter of one rank: its processors, where its data are, what rank 0 prints */
};

struct sl_rule {
    const char *option;
    enum sl_change change;
    enum sl_spread spread;
};

/* All options are compared in this order: an option that fills in others stands before them. */
#define SL_N_RULES 75
extern const struct sl_rule sl_rules[SL_N_RULES];

/* The rule of an option; NULL: no option has this name. */
const struct sl_rule *sl_rule_of(const char *option);

#endif
