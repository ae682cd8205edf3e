/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Versions, the machine and settings, as `starling_data info` prints them. */
#include "runtime/report/info.h"

#include <limits.h>
#include <math.h>
#include <starpu.h>
#include <unistd.h>

#include "codelets/rows/gemm.h"
#include "config.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/topology.h"
#include "runtime/plan/settings.h"
#include "support/memory.h"
#include "support/real.h"
#include "tasks/ranks.h"

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

/* "limits      1.5 processors, 4.0 GB of memory, by control groups and ulimit" */
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

/* "gpus        NVIDIA H100 80GB HBM3, 79.2 GiB" */
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

static void print_machine(const struct sl_topology *topology, FILE *stream)
{
    fprintf(stream, "machine     %u cores, %u hardware threads, %u NUMA nodes, %.1f GB of memory for this process\n",
            topology->n_cores, topology->n_pus, topology->n_numa, (double)topology->memory_bytes / 1e9);
    print_limits(&topology->limits, stream);
    print_gpus(stream);
    fprintf(stream, "workers     %u CPU workers, one BLAS thread each, unless --cpus says otherwise\n",
            sl_gpus_count() > 0 ? 1 : topology->n_workers);
}

/* ---- ranks ---- */

struct rank {
    char host[HOST_NAME_MAX + 1], version[32];
    uint32_t n_cores, n_gpus;
    double memory_bytes;
};

static struct rank this_rank(const struct sl_topology *topology)
{
    struct rank rank = {
        .n_cores = topology->n_cores, .n_gpus = sl_gpus_count(), .memory_bytes = (double)topology->memory_bytes};
    if (gethostname(rank.host, sizeof rank.host - 1) != 0) {
        snprintf(rank.host, sizeof rank.host, "a machine without a name");
    }
    snprintf(rank.version, sizeof rank.version, "%s", PACKAGE_VERSION);
    return rank;
}

/* "ranks       2, of one run" and "            1 on node17: Starling 0.1.0, 48 cores, 270.0 GB, 4 GPUs" */
static enum sl_status print_ranks(const struct sl_topology *topology, FILE *stream)
{
    const struct rank mine = this_rank(topology);
    SL_FREED struct rank *ranks = NULL;
    SL_CHECK(sl_ranks_match_text("program", "starling_data info", "start the same program everywhere"));
    SL_CHECK(sl_alloc(sl_n_ranks(), sizeof *ranks, "ranks' words", &ranks));
    SL_CHECK(sl_ranks_gather(&mine, sizeof mine, ranks));
    if (sl_rank() > 0) {
        return SL_OK;
    }
    fprintf(stream, "ranks       %u, of one run\n", sl_n_ranks());
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        fprintf(stream, "            %u on %s: Starling %s, %u cores, %.1f GB, %u GPUs\n", r, ranks[r].host,
                ranks[r].version, ranks[r].n_cores, ranks[r].memory_bytes / 1e9, ranks[r].n_gpus);
    }
    return SL_OK;
}

/* ---- settings ---- */

/* The settings of coop_sage without a command line. */
static enum sl_status print_settings(FILE *stream)
{
    char *arguments[] = {"coop_sage", NULL};
    const struct sl_option_table *table = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    SL_OWNED(sl_settings_free) struct sl_settings settings = {0};
    struct sl_option_parse parse;
    SL_CHECK(sl_settings_init(&settings));
    SL_CHECK(sl_option_parse(table, 1, arguments, &settings, &parse));
    fprintf(stream, "\nsettings of coop_sage:\n");
    enum sl_status st = sl_option_print_values(table, &settings, parse.sources, stream);
    sl_free(parse.sources);
    return st;
}

enum sl_status sl_info_print(FILE *stream)
{
    struct sl_topology topology;
    SL_CHECK(sl_topology_read(&topology));
    if (sl_n_ranks() > 1) {
        SL_CHECK(print_ranks(&topology, stream));
    }
    if (sl_rank() > 0) {
        return SL_OK;
    }
    print_versions(stream);
    print_machine(&topology, stream);
    SL_CHECK(print_settings(stream));
    SL_FAIL_IF(ferror(stream), SL_EIO, "the description cannot be written");
    return SL_OK;
}
