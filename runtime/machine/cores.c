/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * flock needs no write permission, and the system releases the locks of a killed process. */
#include "runtime/machine/cores.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

#define FOLDER "/dev/shm"
#define PATH_BYTES 512
#define MAX_CORES 4096

/* Open the file of a core, or make it for all users. Returns -1 on failure. O_CREAT on another user's file in a
 * shared folder is refused (fs.protected_regular), so that opening and making are two calls. */
static int open_lock(const char *folder, uint32_t number)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/starling-core-%u", folder, number);
    int file = open(path, flags);
    if (file < 0 && errno == ENOENT) {
        file = open(path, flags | O_CREAT, 0444);
        if (file >= 0) {
            fchmod(file, 0444); /* whatever the umask; fails if another user was faster */
        }
    }
    return file;
}

/* Returns the locked file, or -1. *other_out: whether another run holds the lock. */
static int lock_core(const char *folder, uint32_t number, bool *other_out)
{
    int file = open_lock(folder, number);
    *other_out = false;
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
        *other_out = errno == EWOULDBLOCK;
        close(file);
        file = -1;
    }
    return file;
}

static void unlock(int file)
{
    flock(file, LOCK_UN); /* a forked child keeps the file open, and would keep the lock */
    close(file);
}

enum sl_status sl_cores_take(const char *folder, uint32_t wanted, struct sl_cores *out)
{
    SL_OWNED(sl_cores_give) struct sl_cores cores = {0};
    SL_FREED struct sl_core *there = NULL;
    *out = (struct sl_cores){0};
    SL_CHECK(sl_alloc(MAX_CORES, sizeof *there, "the cores", &there));
    SL_CHECK(sl_topology_cores(MAX_CORES, there, &cores.n_there));
    SL_CHECK(sl_alloc(cores.n_there, sizeof *cores.core, "the cores", &cores.core));
    SL_CHECK(sl_alloc(cores.n_there, sizeof *cores.lock, "the cores", &cores.lock));
    for (uint32_t i = 0; i < cores.n_there && cores.n < wanted; i++) {
        bool other;
        int file = lock_core(sl_text_or(folder, FOLDER), there[i].number, &other);
        cores.n_of_others += other;
        if (file >= 0) {
            cores.core[cores.n] = there[i];
            cores.lock[cores.n++] = file;
        }
    }
    uint32_t enough = wanted == SL_CORES_ALL ? 1 : sl_min_u32(wanted, cores.n_there);
    while (cores.n > 0 && cores.n < enough) {
        sl_cores_drop(&cores, cores.n - 1);
    }
    *out = cores;
    cores = (struct sl_cores){0};
    return SL_OK;
}

void sl_cores_drop(struct sl_cores *cores, uint32_t i)
{
    unlock(cores->lock[i]);
    cores->n--;
    for (; i < cores->n; i++) {
        cores->core[i] = cores->core[i + 1];
        cores->lock[i] = cores->lock[i + 1];
    }
}

void sl_cores_give(struct sl_cores *cores)
{
    for (uint32_t i = 0; i < cores->n; i++) {
        unlock(cores->lock[i]);
    }
    sl_free(cores->core);
    sl_free(cores->lock);
    *cores = (struct sl_cores){0};
}
