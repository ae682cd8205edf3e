/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables of variables. */
#include "runtime/machine/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"
#include "support/text.h"

/* ---- numbers ---- */

struct number {
    const char *name;
    int64_t least;
    int64_t most;
};

/* Variables with an effect on a run. To StarPU -1 often means "not set". */
static const struct number numbers[] = {
    {"STARPU_NCPU", -1, INT_MAX},
    {"STARPU_NCPUS", -1, INT_MAX},
    {"STARPU_RESERVE_NCPU", 0, INT_MAX},
    {"STARPU_NCUDA", -1, INT_MAX},
    {"STARPU_NOPENCL", -1, INT_MAX},
    {"STARPU_CALIBRATE", 0, 2},
    {"STARPU_BUS_CALIBRATE", 0, 1},
    {"STARPU_PREFETCH", 0, 1},
    {"STARPU_PROFILING", 0, 1},
    {"STARPU_WORKERS_NOBIND", 0, 1},
    {"STARPU_WORKERS_GETBIND", 0, 1},
    {"STARPU_MAIN_THREAD_BIND", 0, 1},
    {"STARPU_NTHREADS_PER_CORE", 1, INT_MAX},
    {"STARPU_USE_NUMA", 0, 2},
    {"STARPU_SINGLE_COMBINED_WORKER", 0, 1},
    {"STARPU_DISABLE_ASYNCHRONOUS_COPY", 0, 1},
    {"STARPU_DISABLE_ASYNCHRONOUS_CUDA_COPY", 0, 1},
    {"STARPU_DISABLE_PINNING", 0, 1},
    {"STARPU_BUS_STATS", 0, 1},
    {"STARPU_WORKER_STATS", 0, 1},
    {"STARPU_MEMORY_STATS", 0, 1},
    {"STARPU_ENABLE_STATS", 0, 1},
    {"STARPU_CATCH_SIGNALS", 0, 1},
    {"STARPU_FXT_TRACE", 0, 1},
    {"STARPU_GENERATE_TRACE", 0, 1},
    {"STARPU_LIMIT_CPU_MEM", -1, INT_MAX},
    {"STARPU_LIMIT_CPU_NUMA_MEM", -1, INT_MAX},
    {"STARPU_LIMIT_MIN_SUBMITTED_TASKS", -1, INT_MAX},
    {"STARPU_LIMIT_MAX_SUBMITTED_TASKS", -1, INT_MAX},
};

static enum sl_status check_number(const struct number *number)
{
    const char *text = getenv(number->name);
    char *end;
    if (text == NULL || text[0] == '\0') {
        return SL_OK;
    }
    errno = 0;
    long long value = strtoll(text, &end, 10);
    SL_FAIL_IF(end == text || *end != '\0' || errno != 0 || value < number->least || value > number->most, SL_EINVAL,
               "$%s: found '%.100s', expected a whole number from %lld to %lld, or no such variable", number->name,
               text, (long long)number->least, (long long)number->most);
    return SL_OK;
}

/* StarPU aborts at invalid texts: a list of processors, and a host name used in a file name. */
static enum sl_status check_words(void)
{
    const char *list = getenv("STARPU_WORKERS_CPUID");
    const char *host = getenv("STARPU_HOSTNAME");
    SL_FAIL_IF(list != NULL && list[strspn(list, "0123456789-, ")] != '\0', SL_EINVAL,
               "$STARPU_WORKERS_CPUID: found '%.100s', expected processors' numbers such as '0 1 2' or '0-2'", list);
    SL_FAIL_IF(host != NULL && strchr(host, '/') != NULL, SL_EINVAL,
               "$STARPU_HOSTNAME: found '%.100s', expected a name without a slash", host);
    return SL_OK;
}

enum sl_status sl_environment_check(bool traced)
{
    static const struct number buffer = {"STARPU_TRACE_BUFFER_SIZE", 1, 1 << 20}; /* MiB */
    SL_CHECK(check_words());
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        SL_CHECK(check_number(&numbers[i]));
    }
    return traced || getenv(buffer.name) != NULL ? check_number(&buffer) : SL_OK;
}

/* -1: not set, empty, or -1. */
static long long value_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoll(text, NULL, 10) : -1;
}

uint32_t sl_environment_cpus(void)
{
    long long n = value_of("STARPU_NCPU");
    n = n > 0 ? n : value_of("STARPU_NCPUS");
    return n > 0 ? (uint32_t)n : 0;
}

const char *const sl_environment_memory_limits[SL_MEMORY_LIMITS] = {"STARPU_LIMIT_CPU_MEM",
                                                                    "STARPU_LIMIT_CPU_NUMA_MEM"};

uint64_t sl_environment_memory(const char **name_out)
{
    const char *const *names = sl_environment_memory_limits;
    uint64_t least = UINT64_MAX;
    *name_out = names[0];
    for (size_t i = 0; i < SL_MEMORY_LIMITS; i++) {
        long long mib = value_of(names[i]);
        if (mib >= 0 && (uint64_t)mib << 20 < least) {
            least = (uint64_t)mib << 20;
            *name_out = names[i];
        }
    }
    return least;
}

/* ---- the folder ---- */

#define PROBE_BYTES 4096 /* larger than StarPU's files of the machine's buses */

/* Whether a file can be written in the folder. The disk or the quota may be full, or `ulimit -f` small; StarPU then
 * leaves truncated files and aborts when it reads them. If not, errno is set. */
static bool takes_files(const char *folder)
{
    static const char zeros[PROBE_BYTES];
    char path[PATH_MAX];
    ssize_t n = 0;
    int length = snprintf(path, sizeof path, "%s/starling-XXXXXX", folder);
    errno = ENAMETOOLONG;
    int file = length < (int)sizeof path ? mkstemp(path) : -1;
    int error = errno;
    if (file >= 0) {
        n = write(file, zeros, sizeof zeros);
        error = n < 0 ? errno : EFBIG;
        close(file);
        unlink(path);
    }
    errno = error;
    return n == (ssize_t)sizeof zeros;
}

enum sl_status sl_environment_check_home(void)
{
    static const char *const names[] = {"XDG_CACHE_HOME", "STARPU_HOME", "HOME"}; /* StarPU's order */
    size_t i = 0;
    char *path = NULL;
    enum sl_status st = SL_OK;
    while (i < 2 && getenv(names[i]) == NULL) {
        i++;
    }
    const char *home = sl_text_or(getenv(names[i]), "");
    SL_CHECK(sl_path_join(home, ".starpu/sampling/bus", &path));
    errno = ENOENT;
    if (home[0] != '\0') {
        st = sl_folder_make(path);
    }
    if (st != SL_ENOMEM && (home[0] == '\0' || st != SL_OK || !takes_files(path))) {
        st = sl_fail(SL_EIO,
                     "$%s: found '%.200s', expected a folder in which StarPU can write: %s; set $%s, or free some "
                     "space if the disk is full",
                     names[i], home, strerror(errno), i < 2 ? names[i] : "STARPU_HOME");
    }
    sl_free(path);
    return st;
}
