/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/limits: control groups of both versions as made-up folders, and ulimit.
 */
#include "tests/support/data_fixture.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/machine/limits.h"

/* Write a file of a group, and the folders above it. */
static void put_limit(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(sl_folder_make_parents(path));
    put_text(name, text);
}

/* The limits of a process whose groups are `groups`. */
static struct sl_limits limits_of(const char *groups)
{
    struct sl_limits limits = {7, 7};
    char list[96];
    put_text("list", groups);
    snprintf(list, sizeof list, "%s/list", folder);
    sl_limits_of_groups(list, folder, &limits);
    return limits;
}

static void expect_limits(const char *groups, uint64_t memory_bytes, double processors)
{
    struct sl_limits limits = limits_of(groups);
    if (limits.memory_bytes != memory_bytes || limits.processors != processors) {
        fail_msg("%s: %llu bytes and %g processors, expected %llu and %g", groups,
                 (unsigned long long)limits.memory_bytes, limits.processors, (unsigned long long)memory_bytes,
                 processors);
    }
}

TEST_IN_FOLDER(none)
{
    struct sl_limits limits;
    expect_limits("", UINT64_MAX, INFINITY);
    expect_limits("0::/a/b\n", UINT64_MAX, INFINITY); /* no files */
    expect_limits("nonsense\n:::\n0\n5:memory\n", UINT64_MAX, INFINITY);
    put_limit("memory.max", "max\n");
    put_limit("memory.high", "max\n");
    put_limit("cpu.max", "max 100000\n");
    expect_limits("0::/\n", UINT64_MAX, INFINITY);
    sl_limits_of_groups("/nowhere/cgroup", folder, &limits);
    assert_true(limits.memory_bytes == UINT64_MAX && isinf(limits.processors));
}

/* The tightest of a group and those above it; other groups do not count. */
TEST_IN_FOLDER(version_2)
{
    put_limit("slurm/job_7/step_0/memory.max", "max\n");
    put_limit("slurm/job_7/memory.max", "4000000000\n");
    put_limit("slurm/memory.max", "8000000000\n");
    put_limit("slurm/job_8/memory.max", "5\n");
    put_limit("slurm/job_7/step_0/cpu.max", "350000 100000\n");
    put_limit("slurm/cpu.max", "400000 50000\n");
    expect_limits("0::/slurm/job_7/step_0\n", 4000000000u, 3.5);
    expect_limits("0::/slurm/job_7\n", 4000000000u, 8);
    expect_limits("0::/slurm\n", 8000000000u, 8);
    expect_limits("0::/\n", UINT64_MAX, INFINITY);
    put_limit("memory.max", "3000\n"); /* a container sees its own group as the root */
    expect_limits("0::/\n", 3000, INFINITY);
    expect_limits("0::/host/path/not/seen/here\n", 3000, INFINITY);
    put_limit("slurm/job_7/memory.high", "2000\n"); /* above it the system takes memory back */
    expect_limits("0::/slurm/job_7/step_0\n", 2000, 3.5);
}

TEST_IN_FOLDER(version_1)
{
    put_limit("memory/docker/x/memory.limit_in_bytes", "2000000\n");
    put_limit("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
    put_limit("cpu/docker/x/cpu.cfs_quota_us", "150000\n");
    put_limit("cpu/docker/x/cpu.cfs_period_us", "100000\n");
    put_limit("cpu/docker/cpu.cfs_quota_us", "-1\n");
    put_limit("cpu/docker/cpu.cfs_period_us", "100000\n");
    put_limit("docker/x/memory.max", "1\n"); /* of version 2, which line 0 does not name */
    expect_limits("9:name=systemd:/docker/x\n4:memory:/docker/x\n3:cpuset:/docker/x\n2:cpu,cpuacct:/docker/x\n0::/\n",
                  2000000, 1.5);
    expect_limits("2:cpuacct,cpu:/docker/x\n4:hugetlb,memory:/docker/x\n", 2000000, 1.5);
    expect_limits("4:memory:/docker\n2:cpu:/docker\n", UINT64_MAX, INFINITY);
    expect_limits("3:cpuset:/docker/x\n2:cpuacct:/docker/x\n1:memoryx:/docker/x\n", UINT64_MAX, INFINITY);
}

#define ADDRESSES ((uint64_t)1 << 50) /* a sanitizer takes some 2^47 */

/* In a process of its own: 0 where the limit was seen, 77 where a smaller one hides it. */
static int read_limited(int resource)
{
    struct rlimit limit;
    struct sl_limits limits;
    sl_limits_read(&limits);
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limits.memory_bytes <= ADDRESSES) {
        return 77;
    }
    limit.rlim_cur = ADDRESSES;
    if (setrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return 1;
    }
    sl_limits_read(&limits);
    return limits.memory_bytes == ADDRESSES ? 0 : 2;
}

TEST(ulimit)
{
    static const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
    for (int i = 0; i < 2; i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            _exit(read_limited(resources[i]));
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

TEST_MAIN(NULL, NULL)
