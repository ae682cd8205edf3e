/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * coop_sage: train graph neural networks by cooperative minibatches. */
#include "apps/program.h"

int main(int argc, char **argv)
{
    int code = start_program("coop_sage");
    return code != EXIT_GOOD ? code : run_program("coop_sage", sl_settings_new, argc, argv);
}
