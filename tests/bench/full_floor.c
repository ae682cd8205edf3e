/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What an epoch of residual graph convolutions on the full graph (pipe_gnn --model resgcn) cannot do without on
 * this machine: its products and sums, counted and measured as in floor.h and ceilings.h, on all cores at once.
 *
 * usage: full_floor VERTICES EDGES FEATURES HIDDEN CLASSES LAYERS CPUS
 *
 * EDGES are in-edges, without the vertices' own. A layer's sums read a row for each in-edge and each vertex and
 * write one for each vertex, on the way there and back; its products are three, of which the first layer of all
 * needs two. Prints seconds: of products, of sums, of both.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/ceilings.h"

#define N_NUMBERS 7
#define ROWS 16384

int main(int argc, char **argv)
{
    double x[N_NUMBERS];
    double rates[2];
    double library[2];
    static struct bench_floor floor;
    for (int i = 0; i < N_NUMBERS; i++) {
        x[i] = argc == N_NUMBERS + 1 ? strtod(argv[1 + i], NULL) : 0;
        if (!(x[i] >= 1 && x[i] <= 1e9)) {
            fprintf(stderr, "usage: full_floor VERTICES EDGES FEATURES HIDDEN CLASSES LAYERS CPUS\n");
            return 2;
        }
    }
    double n = x[0], edges = x[1], features = x[2], hidden = x[3], classes = x[4], layers = x[5], cpus = x[6];
    floor.n = 2;
    floor.work[0] = (struct bench_work){
        .codelet = "product", .limit = BENCH_PRODUCT, .m = ROWS, .n = (uint32_t)hidden, .k = (uint32_t)hidden};
    floor.work[1] =
        (struct bench_work){.codelet = "sum", .limit = BENCH_ROWS, .m = ROWS, .n = (uint32_t)hidden, .k = (uint32_t)n};
    if (bench_ceilings_measure(&floor, rates, library) != SL_OK) {
        fprintf(stderr, "full_floor: %s\n", sl_message());
        return EXIT_FAILURE;
    }
    double flops = 2 * n * (2 * features * hidden + 3 * layers * hidden * hidden + 3 * hidden * classes);
    double bytes = 2 * layers * 4 * hidden * (edges + 2 * n);
    double products_s = flops / rates[0] / cpus;
    double sums_s = bytes / rates[1] / cpus;
    printf("products %.3f s at %.1f GF/s a core (library %.1f), sums %.3f s at %.1f GB/s a core, floor %.3f s\n",
           products_s, rates[0] / 1e9, library[0] / 1e9, sums_s, rates[1] / 1e9, products_s + sums_s);
    return EXIT_SUCCESS;
}
