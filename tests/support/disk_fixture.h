/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A disk that fails at the n-th call: from disk_watch() on, the system's calls that make, write, flush or rename
 * files below the test's folder are counted, whoever makes them (the C library's streams, zlib, jansson), and one
 * of them fails. Linux hands the calls to a signal handler (seccomp), which makes them itself, from the one place
 * that the filter lets through. Child processes inherit the filter, and share the count.
 */
#ifndef SL_TESTS_DISK_FIXTURE_H
#define SL_TESTS_DISK_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "support/status.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define DISK_CAN_FAIL 1
#else
#define DISK_CAN_FAIL 0 /* the handler reads this processor's registers; the thread sanitizer keeps signals back */
#endif

enum disk_fault {
    DISK_FULL,   /* ENOSPC */
    DISK_BROKEN, /* EIO */
    DISK_TORN,   /* a write stops in the middle, and the rest exceeds the quota: EDQUOT */
    N_DISK_FAULTS,
    DISK_KILLED /* kill -9 before the call, or in the middle of a write */
};

static struct {
    const char *below; /* files under this path alone */
    size_t length;
    enum disk_fault fault;
    long fails_at; /* from 1; 0: none */
    atomic_long seen;
    char failed[PATH_MAX]; /* the file of the call that did */
} * disk;

#if DISK_CAN_FAIL

/* Make a system call from a place of its own. */
long disk_call(long number, long a, long b, long c, long d, long e, long f);
extern const char disk_call_end[];
__asm__(".text\n"
        "disk_call:\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "mov %rdx, %rsi\n"
        "mov %rcx, %rdx\n"
        "mov %r8, %r10\n"
        "mov %r9, %r8\n"
        "mov 8(%rsp), %r9\n"
        "syscall\n"
        "disk_call_end:\n"
        "ret\n");

/* The file that a call is about. */
static void find_path(long number, const long *a, char path[PATH_MAX])
{
    char link[40];
    ssize_t n;
    switch (number) {
    case SYS_rename:
    case SYS_mkdir: snprintf(path, PATH_MAX, "%s", (const char *)a[0]); break;
    case SYS_openat: snprintf(path, PATH_MAX, "%s", (const char *)a[1]); break;
    default:
        snprintf(link, sizeof link, "/proc/self/fd/%d", (int)a[0]);
        n = readlink(link, path, PATH_MAX - 1);
        path[n > 0 ? n : 0] = '\0';
    }
}

static long answer(long number, const long *a)
{
    static const long errors[N_DISK_FAULTS] = {[DISK_FULL] = ENOSPC, [DISK_BROKEN] = EIO, [DISK_TORN] = EDQUOT};
    char path[PATH_MAX];
    long n = 0;
    if (disk->below != NULL) {
        find_path(number, a, path);
        n = strncmp(path, disk->below, disk->length) == 0 ? atomic_fetch_add(&disk->seen, 1) + 1 : 0;
    }
    bool due = n > 0 && n == disk->fails_at;
    bool writes = number == SYS_write && a[2] > 1;
    if (due) {
        memcpy(disk->failed, path, sizeof path);
    }
    bool torn = due && writes && (disk->fault == DISK_TORN || disk->fault == DISK_KILLED);
    long half = torn ? disk_call(number, a[0], a[1], a[2] / 2, 0, 0, 0) : 0;
    if (due && disk->fault == DISK_KILLED) {
        disk_call(SYS_kill, getpid(), SIGKILL, 0, 0, 0, 0);
    }
    if (torn) {
        return half;
    }
    if (due || (n > 0 && disk->fault == DISK_TORN && disk->fails_at > 0 && n == disk->fails_at + 1)) {
        return -errors[disk->fault];
    }
    return disk_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void on_call(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    int before = errno;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const long a[] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    r[REG_RAX] = answer(info->si_syscall, a);
    errno = before;
}

/* CMocka takes this signal, and others, around each test by a call of signal(), which finds this one instead. */
SL_API sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction before;
    if (number == SIGSYS) {
        return SIG_DFL;
    }
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, name))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skip)
#define WHERE(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), skip, 0)
#define LET_THROUGH BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define HAND_OVER BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

/* From now on, in all threads to come; false where the system does not allow it. */
static bool disk_watch(void)
{
    uint64_t end = (uint64_t)(uintptr_t)disk_call_end;
    struct sock_filter filter[] = {
        FIELD(arch), WHERE(AUDIT_ARCH_X86_64, 1), LET_THROUGH,
        /* calls of disk_call */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, instruction_pointer)),
        UNLESS(end, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, instruction_pointer) + 4),
        UNLESS(end >> 32, 1), LET_THROUGH,
        /* files that are made */
        FIELD(nr), UNLESS(SYS_openat, 3), FIELD(args[2]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 7, 0),
        LET_THROUGH,
        /* the others */
        WHERE(SYS_write, 5), WHERE(SYS_fsync, 4), WHERE(SYS_ftruncate, 3), WHERE(SYS_rename, 2), WHERE(SYS_mkdir, 1),
        LET_THROUGH, HAND_OVER};
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    disk = mmap(NULL, sizeof *disk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return disk != MAP_FAILED && sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

static bool disk_watch(void)
{
    return false;
}

#endif

/* The n-th call on files below the path fails; 0: none. */
static void disk_arm(const char *below, enum disk_fault fault, long n)
{
    disk->length = strlen(below);
    disk->fault = fault;
    disk->fails_at = n;
    atomic_store(&disk->seen, 0);
    disk->below = below;
}

/* The disk is well again. Calls there were. */
static long disk_disarm(void)
{
    disk->below = NULL;
    return atomic_load(&disk->seen);
}

#endif
