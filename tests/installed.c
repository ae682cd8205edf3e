/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A user's program, compiled by `make installcheck` against the installed header and library. */
#include <starling.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(sl_message(), "") != 0) {
        fprintf(stderr, "a message before the first failure: %s\n", sl_message());
        return 1;
    }
    return 0;
}
