/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of control groups, from each group up to its root. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "runtime/machine/limits.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/minmax.h"

#define MAX_NAME 4096
#define NO_LIMIT 0x1p62 /* bytes: version 1 writes a number of this order for "no limit" */

/* A control group. The path of its files is the concatenation of root, mount and name. */
struct group {
    const char *root;
    const char *mount; /* "" or "/memory" */
    char name[MAX_NAME];
};

/* Read up to two numbers from a group's file. Returns their number; a word ("max") ends the reading. */
static int numbers_in(const struct group *group, const char *file_name, double out[2])
{
    char path[3 * MAX_NAME];
    snprintf(path, sizeof path, "%s%s%s/%s", group->root, group->mount, group->name, file_name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    int n = fscanf(file, "%lf %lf", &out[0], &out[1]);
    fclose(file);
    return n < 0 ? 0 : n;
}

static void limit_memory(const struct group *group, const char *file_name, struct sl_limits *limits)
{
    double value[2];
    if (numbers_in(group, file_name, value) > 0 && value[0] >= 0 && value[0] < fmin(NO_LIMIT, limits->memory_bytes)) {
        limits->memory_bytes = (uint64_t)value[0];
    }
}

/* A negative quota means no limit. */
static void limit_processors(double quota_us, double period_us, struct sl_limits *limits)
{
    if (quota_us > 0 && period_us > 0) {
        limits->processors = fmin(limits->processors, quota_us / period_us);
    }
}

static void read_version_2(const struct group *group, struct sl_limits *limits)
{
    double value[2];
    limit_memory(group, "memory.max", limits);
    limit_memory(group, "memory.high", limits);
    if (numbers_in(group, "cpu.max", value) == 2) {
        limit_processors(value[0], value[1], limits);
    }
}

static void read_memory_1(const struct group *group, struct sl_limits *limits)
{
    limit_memory(group, "memory.limit_in_bytes", limits);
}

static void read_cpu_1(const struct group *group, struct sl_limits *limits)
{
    double quota[2];
    double period[2];
    if (numbers_in(group, "cpu.cfs_quota_us", quota) > 0 && numbers_in(group, "cpu.cfs_period_us", period) > 0) {
        limit_processors(quota[0], period[0], limits);
    }
}

/* Read a group and all groups above it, up to "". */
static void walk_up(const char *root, const char *mount, const char *name, struct sl_limits *limits,
                    void (*read)(const struct group *group, struct sl_limits *limits))
{
    struct group group = {.root = root, .mount = mount};
    char *slash;
    snprintf(group.name, sizeof group.name, "%s", name);
    do {
        read(&group, limits);
        slash = strrchr(group.name, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    } while (slash != NULL);
}

/* Whether a list like "cpu,cpuacct" contains `name`. */
static int lists(const char *controllers, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = controllers; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

/* One line, "N:CONTROLLERS:GROUP". */
static void read_line(const char *root, char *line, struct sl_limits *limits)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return;
    }
    *group++ = '\0';
    controllers++;
    if (*controllers == '\0') {
        walk_up(root, "", group, limits, read_version_2);
    }
    if (lists(controllers, "memory")) {
        walk_up(root, "/memory", group, limits, read_memory_1);
    }
    if (lists(controllers, "cpu")) {
        walk_up(root, "/cpu", group, limits, read_cpu_1);
    }
}

void sl_limits_of_groups(const char *groups, const char *root, struct sl_limits *out)
{
    char line[MAX_NAME];
    *out = (struct sl_limits){.memory_bytes = UINT64_MAX, .processors = INFINITY};
    FILE *file = fopen(groups, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        read_line(root, line, out);
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void limit_resource(int resource, struct sl_limits *limits)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < limits->memory_bytes) {
        limits->memory_bytes = limit.rlim_cur;
    }
}

void sl_limits_read(struct sl_limits *out)
{
    sl_limits_of_groups("/proc/self/cgroup", "/sys/fs/cgroup", out);
    limit_resource(RLIMIT_AS, out);
    limit_resource(RLIMIT_DATA, out);
}

uint64_t sl_limits_memory(void)
{
    struct sl_limits limits;
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    sl_limits_read(&limits);
    if (pages <= 0 || page <= 0) {
        return limits.memory_bytes;
    }
    return sl_min_u64((uint64_t)pages * (uint64_t)page, limits.memory_bytes);
}

bool sl_limits_have_room(uint64_t bytes)
{
    struct sl_limits own = {.memory_bytes = UINT64_MAX};
    limit_resource(RLIMIT_AS, &own);
    limit_resource(RLIMIT_DATA, &own);
    if (own.memory_bytes == UINT64_MAX) {
        return true;
    }
    void *trial = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED) {
        return false;
    }
    munmap(trial, bytes);
    return true;
}

/* ---- threads ---- */

#define MAX_THREADS 1024

static void *pass_gate(void *gate)
{
    pthread_rwlock_rdlock(gate);
    pthread_rwlock_unlock(gate);
    return NULL;
}

unsigned sl_limits_threads(unsigned wanted)
{
    pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
    pthread_t threads[MAX_THREADS];
    unsigned n = 0;
    wanted = sl_min_u32(wanted, MAX_THREADS);
    pthread_rwlock_wrlock(&gate); /* all threads must exist at the same time */
    while (n < wanted && pthread_create(&threads[n], NULL, pass_gate, &gate) == 0) {
        n++;
    }
    pthread_rwlock_unlock(&gate);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    return n;
}

size_t sl_limits_stack(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return bytes;
}
