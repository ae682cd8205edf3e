/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Readers of files that may be hostile, each as a function of some bytes: for libFuzzer (`make fuzz`), and for
 * tests/whole/test_fuzz.c, which gives them seeds and what was found. Whatever the bytes are, a reader succeeds or says
 * why not; it does not crash, hang, or leak.
 *
 * Checksums keep chance away from the readers behind them. Programs of these targets are linked with sl_checksum
 * wrapped, so that each checksum is 0 and fits.
 */
#ifndef SL_TESTS_FUZZ_FUZZ_H
#define SL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t n);
    void (*seed)(const char *folder); /* write some good files there, each what `run` takes */
};

/* All of them; the last has no name. */
extern const struct fuzz_target fuzz_targets[];

/* Inputs, or parts of them, that readers took so far. */
extern long fuzz_accepted;

/* NULL: there is none of that name. */
const struct fuzz_target *fuzz_target_find(const char *name);

#endif
