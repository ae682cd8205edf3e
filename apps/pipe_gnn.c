/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * pipe_gnn: train deep graph neural networks on the full graph, its chunks in flight between layers. */
#include "apps/program.h"

int main(int argc, char **argv)
{
    int code = start_program("pipe_gnn");
    return code != EXIT_GOOD ? code : run_program("pipe_gnn", sl_settings_new_pipe, argc, argv);
}
