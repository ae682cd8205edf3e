/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * coop_sage: train graph neural networks by cooperative minibatches. */
#include "apps/program.h"

static int body(int argc, char **argv)
{
    return run_program("coop_sage", sl_settings_new, argc, argv);
}

int main(int argc, char **argv)
{
    return start_program("coop_sage", body, argc, argv);
}
