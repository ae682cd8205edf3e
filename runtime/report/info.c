/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Versions and settings. */
#include "runtime/report/info.h"

#include <math.h>
#include <starpu.h>

#include "codelets/gemm.h"
#include "config.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/topology.h"
#include "runtime/plan/settings.h"
#include "support/real.h"

static void print_versions(FILE *stream)
{
    int major;
    int minor;
    int release;
    char products[256];
    starpu_get_version(&major, &minor, &release);
    fprintf(stream, "starling    %s, numbers of %zu bytes\n", PACKAGE_VERSION, sizeof(sl_real));
    fprintf(stream, "starpu      %d.%d.%d, at most %d CPU workers, %d buffers a task\n", major, minor, release,
            STARPU_MAXCPUS, STARPU_NMAXBUFS);
    sl_gemm_describe(products, sizeof products);
    fprintf(stream, "products    %s\n", products);
}

/* "control groups and ulimit: 1.5 processors, 4.0 GB of memory" */
static void print_limits(const struct sl_limits *limits, FILE *stream)
{
    fprintf(stream, "limits      ");
    if (isinf(limits->processors)) {
        fprintf(stream, "no limit on processors, ");
    } else {
        fprintf(stream, "%.3g processors, ", limits->processors);
    }
    if (limits->memory_bytes == UINT64_MAX) {
        fprintf(stream, "none on memory");
    } else {
        fprintf(stream, "%.3g GB of memory", (double)limits->memory_bytes / 1e9);
    }
    fprintf(stream, ", by control groups and ulimit\n");
}

/* "1 GPU: NVIDIA H100 80GB HBM3, 79.2 GiB" */
static void print_gpus(FILE *stream)
{
    uint32_t n = sl_gpus_count();
    fprintf(stream, "gpus        ");
    if (n == 0) {
        fprintf(stream, "none: %s\n",
                sl_gpus_built() ? "CUDA finds no device" : "this build has no CUDA (./bootstrap --with-cuda)");
    }
    for (uint32_t gpu = 0; gpu < n; gpu++) {
        char text[96];
        sl_gpus_describe(gpu, text, sizeof text);
        fprintf(stream, "%s%s\n", gpu == 0 ? "" : "            ", text);
    }
}

static enum sl_status print_machine(FILE *stream)
{
    struct sl_topology topology;
    enum sl_status st = sl_topology_read(&topology);
    if (st == SL_OK) {
        fprintf(stream,
                "machine     %u cores, %u hardware threads, %u NUMA nodes, %.1f GB of memory for this process\n",
                topology.n_cores, topology.n_pus, topology.n_numa, (double)topology.memory_bytes / 1e9);
        print_limits(&topology.limits, stream);
        print_gpus(stream);
        fprintf(stream, "workers     %u CPU workers, one BLAS thread each, unless --cpus says otherwise\n",
                sl_gpus_count() > 0 ? 1 : topology.n_workers);
    }
    return st;
}

/* The settings as coop_sage would see them without a command line. */
static enum sl_status print_settings(FILE *stream)
{
    char *arguments[] = {"coop_sage", NULL};
    struct sl_settings settings;
    struct sl_option_parse parse;
    enum sl_status st = sl_settings_init(&settings);
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, sl_option_parse(&sl_settings_table, 1, arguments, &settings, &parse), done);
    fprintf(stream, "\nsettings of coop_sage:\n");
    st = sl_option_print_values(&sl_settings_table, &settings, parse.sources, stream);
done:
    sl_settings_free(&settings);
    return st;
}

enum sl_status sl_info_print(FILE *stream)
{
    enum sl_status st;
    print_versions(stream);
    SL_TRY(st, print_machine(stream), done);
    SL_TRY(st, print_settings(stream), done);
    st = ferror(stream) ? sl_fail(SL_EIO, "the description cannot be written") : SL_OK;
done:
    return st;
}
