/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * libFuzzer's way in. $SL_FUZZ names the target; `$SL_FUZZ_SEEDS`, if set, is a folder to write its seeds to first. */
#include <stdio.h>
#include <stdlib.h>

#include "support/parallel.h"
#include "tests/fuzz/fuzz.h"

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    target = fuzz_target_find(getenv("SL_FUZZ"));
    if (target == NULL) {
        fprintf(stderr, "SL_FUZZ: expected the name of a target:");
        for (const struct fuzz_target *t = fuzz_targets; t->name != NULL; t++) {
            fprintf(stderr, " %s", t->name);
        }
        fprintf(stderr, "\n");
        exit(2);
    }
    sl_parallel_limit(1);
    if (getenv("SL_FUZZ_SEEDS") != NULL) {
        target->seed(getenv("SL_FUZZ_SEEDS"));
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    target->run(data, n);
    return 0;
}
