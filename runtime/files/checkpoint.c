/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One safetensors file per folder, with a version and a checksum of its arrays. */
#include "runtime/files/checkpoint.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/number.h"
#include "support/text.h"

#define NAME "checkpoint.safetensors"
#define VERSION_KEY "starling_checkpoint"
#define VERSION "7"
#define CHECKSUM_KEY "starling_checksum"
#define CHECKSUM_BYTES 17
#define LOCK_NAME "lock"
#define LOCK_TRIALS 8

/* The checksum covers names and arrays, in the order of the header. */
static void checksum_text(const struct sl_tensor *tensors, uint32_t n, char out[CHECKSUM_BYTES])
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum = sl_checksum(sum, tensors[i].name, strlen(tensors[i].name));
        sum = sl_checksum(sum, tensors[i].data, sl_tensor_bytes(&tensors[i]));
    }
    snprintf(out, CHECKSUM_BYTES, "%016" PRIx64, sum);
}

enum sl_status sl_checkpoint_save(const char *dir, const struct sl_tensor *tensors, uint32_t n,
                                  const struct sl_metadata *metadata, uint32_t n_metadata)
{
    SL_FREED struct sl_metadata *all = NULL;
    SL_FREED char *path = NULL;
    char checksum[CHECKSUM_BYTES];
    checksum_text(tensors, n, checksum);
    SL_CHECK(sl_alloc((size_t)n_metadata + 2, sizeof *all, "checkpoint metadata", &all));
    SL_CHECK(sl_path_join(dir, NAME, &path));
    SL_CHECK(sl_folder_make(dir));
    all[0] = (struct sl_metadata){VERSION_KEY, VERSION};
    all[1] = (struct sl_metadata){CHECKSUM_KEY, checksum};
    if (n_metadata > 0) {
        memcpy(all + 2, metadata, n_metadata * sizeof *all);
    }
    return sl_safetensors_write(path, tensors, n, all, n_metadata + 2);
}

static enum sl_status check(const char *path, const struct sl_tensors *found)
{
    char checksum[CHECKSUM_BYTES];
    const char *version = sl_tensors_metadata(found, VERSION_KEY);
    const char *stored = sl_tensors_metadata(found, CHECKSUM_KEY);
    SL_FAIL_IF(version == NULL || stored == NULL, SL_EFILE,
               "%s: expected a checkpoint; this is another safetensors file", path);
    SL_FAIL_IF(strcmp(version, VERSION) != 0, SL_EFILE,
               "%s: found checkpoint version %.20s, expected " VERSION
               "; use the version of Starling that wrote it, or start afresh in another --checkpoint folder",
               path, version);
    checksum_text(found->tensors, found->n, checksum);
    SL_FAIL_IF(strcmp(stored, checksum) != 0, SL_EFILE,
               "%s: found checksum %s, expected %.16s; the file is damaged, start without --resume", path, checksum,
               stored);
    return SL_OK;
}

enum sl_status sl_checkpoint_load(const char *dir, struct sl_tensors *out)
{
    SL_FREED char *path = NULL;
    *out = (struct sl_tensors){0};
    enum sl_status st = SL_OK;
    SL_CHECK(sl_path_join(dir, NAME, &path));
    SL_FAIL_IF(!sl_file_exists(path), SL_ENOTFOUND, "%s: no checkpoint there; --resume=auto starts afresh then", path);
    SL_CHECK(sl_safetensors_read(path, out));
    st = check(path, out);
    if (st != SL_OK) {
        sl_tensors_free(out);
    }
    return st;
}

/* ---- the lock ---- */

/* Lock the file, if still the file at `path`. *held_out false with SL_OK: another file is there, or no locks exist. */
static enum sl_status try_lock(const char *dir, const char *path, int file, bool *held_out)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat ours;
    struct stat there;
    *held_out = false;
    if (fcntl(file, F_SETLK, &lock) != 0) {
        if (errno != EAGAIN && errno != EACCES) {
            return SL_OK; /* the file system has no locks */
        }
        bool known = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
        return sl_fail(
            SL_EINVAL,
            "%s: found process %ld saving its checkpoints there, expected none; wait for it, or give another "
            "--checkpoint folder",
            dir, known ? (long)lock.l_pid : 0L);
    }
    /* Another process may have unlocked and removed the file since our open(). */
    *held_out = fstat(file, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino;
    return SL_OK;
}

enum sl_status sl_checkpoint_acquire(const char *dir, struct sl_checkpoint_lock *out)
{
    struct sl_checkpoint_lock lock = {.file = -1};
    enum sl_status st = sl_path_join(dir, LOCK_NAME, &lock.path);
    *out = (struct sl_checkpoint_lock){0};
    for (int i = 0; st == SL_OK && !lock.held && i < LOCK_TRIALS; i++) {
        lock.file = open(lock.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (lock.file < 0) {
            break;
        }
        st = try_lock(dir, lock.path, lock.file, &lock.held);
        if (!lock.held) {
            close(lock.file);
        }
    }
    if (lock.held) {
        *out = lock;
    } else {
        sl_free(lock.path);
    }
    return st;
}

void sl_checkpoint_release(struct sl_checkpoint_lock *lock)
{
    if (lock->held) {
        unlink(lock->path);
        close(lock->file);
        sl_free(lock->path);
    }
    *lock = (struct sl_checkpoint_lock){0};
}

/* ---- reading values ---- */

bool sl_is_checkpoint(const struct sl_tensors *tensors)
{
    return sl_tensors_metadata(tensors, VERSION_KEY) != NULL;
}

const char *sl_checkpoint_checksum(const struct sl_tensors *checkpoint)
{
    return sl_tensors_metadata(checkpoint, CHECKSUM_KEY);
}

static enum sl_status bad_number(const struct sl_tensors *checkpoint, const char *key, const char *found)
{
    return sl_fail(SL_EFILE, "%s: metadata '%s': found '%.100s', expected a number", checkpoint->path, key,
                   sl_text_or(found, "nothing"));
}

enum sl_status sl_checkpoint_whole(const struct sl_tensors *checkpoint, const char *key, uint64_t *out)
{
    const char *text = sl_tensors_metadata(checkpoint, key);
    const char *end = text != NULL ? text + strlen(text) : NULL;
    uint64_t value;
    if (text == NULL || sl_number_u64(text, end, &value) != end) {
        return bad_number(checkpoint, key, text);
    }
    *out = value;
    return SL_OK;
}

enum sl_status sl_checkpoint_real(const struct sl_tensors *checkpoint, const char *key, double *out)
{
    const char *text = sl_tensors_metadata(checkpoint, key);
    char *end;
    if (text == NULL || text[0] == '\0' || isspace((unsigned char)text[0])) {
        return bad_number(checkpoint, key, text);
    }
    double value = sl_decimal_read(text, &end);
    if (*end != '\0') {
        return bad_number(checkpoint, key, text);
    }
    *out = value;
    return SL_OK;
}
