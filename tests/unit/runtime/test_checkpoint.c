/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/files/checkpoint.h: save, load, and what is no checkpoint. */
#include "runtime/files/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"
#include "tests/support/test.h"

static char root[64];
static char dir[128];  /* not there at first, nor the one above it */
static char file[192]; /* the checkpoint in it */

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "/tmp/starling-checkpoint-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    snprintf(dir, sizeof dir, "%s/runs/one", root);
    snprintf(file, sizeof file, "%s/checkpoint.safetensors", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char above[128];
    snprintf(above, sizeof above, "%s/runs", root);
    remove(file);
    int left = rmdir(dir) != 0 && access(dir, F_OK) == 0; /* nothing else may be in it */
    rmdir(above);
    rmdir(root);
    return left || sl_memory_live() != 0 ? -1 : 0;
}

static float weights[4] = {1, 2, 3, 4};
static const struct sl_metadata metadata[] = {
    {"step", "12"},      {"best", "0.5"}, {"bad", "12x"}, {"minus", "-1"}, {"large", "18446744073709551616"},
    {"infinite", "-inf"}};

static enum sl_status save(float first)
{
    weights[0] = first;
    struct sl_tensor t = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F32, 2, 2, weights);
    return sl_checkpoint_save(dir, &t, 1, metadata, sizeof metadata / sizeof *metadata);
}

static float load_first(void)
{
    struct sl_tensors found;
    float out[4];
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_OK);
    struct sl_tensor t = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F32, 2, 2, NULL);
    assert_int_equal(sl_tensors_get(&found, &t, out), SL_OK);
    sl_tensors_free(&found);
    return out[0];
}

TEST_WITH(the_latest_is_loaded, set_up, tear_down)
{
    OWNED(sl_tensors_free) struct sl_tensors found;
    assert_int_equal(save(5), SL_OK);
    assert_true(load_first() == 5);
    assert_int_equal(save(6), SL_OK);
    assert_true(load_first() == 6);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_OK);
    assert_string_equal(sl_tensors_metadata(&found, "step"), "12");
}

TEST_WITH(none_is_not_found, set_up, tear_down)
{
    struct sl_tensors found;
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_ENOTFOUND);
    assert_non_null(strstr(sl_message(), file));
    assert_int_equal(save(1), SL_OK);
    remove(file);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_ENOTFOUND); /* the folder alone is none */
}

TEST_WITH(numbers_are_read_or_refused, set_up, tear_down)
{
    OWNED(sl_tensors_free) struct sl_tensors found;
    uint64_t whole = 0;
    double real = 0;
    assert_int_equal(save(1), SL_OK);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_OK);
    assert_int_equal(sl_checkpoint_whole(&found, "step", &whole), SL_OK);
    assert_int_equal(whole, 12);
    assert_int_equal(sl_checkpoint_real(&found, "best", &real), SL_OK);
    assert_true(real == 0.5);
    assert_int_equal(sl_checkpoint_real(&found, "infinite", &real), SL_OK); /* "no score yet" */
    assert_true(real < -1e308);
    static const char *const bad[] = {"bad", "minus", "large", "best", "missing"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sl_checkpoint_whole(&found, bad[i], &whole), SL_EFILE);
        assert_non_null(strstr(sl_message(), bad[i]));
    }
    assert_int_equal(sl_checkpoint_real(&found, "bad", &real), SL_EFILE);
    assert_int_equal(sl_checkpoint_real(&found, "missing", &real), SL_EFILE);
    assert_int_equal(whole, 12);
}

/* Change one byte of the checkpoint, counted from its end. */
static void damage(long from_end)
{
    FILE *f = fopen(file, "r+");
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    fputc(c ^ 1, f);
    fclose(f);
}

TEST_WITH(damage_is_noticed, set_up, tear_down)
{
    struct sl_tensors found;
    assert_int_equal(save(1), SL_OK);
    for (long i = 1; i <= 16; i += 5) {
        damage(i);
        assert_int_equal(sl_checkpoint_load(dir, &found), SL_EFILE);
        assert_non_null(strstr(sl_message(), "damaged"));
        damage(i);
    }
    assert_true(load_first() == 1);
    assert_int_equal(truncate(file, 40), 0);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_EFILE);
}

TEST_WITH(another_file_or_version_is_refused, set_up, tear_down)
{
    struct sl_tensors found;
    const struct sl_metadata later[] = {{"starling_checkpoint", "9"}, {"starling_checksum", "0"}};
    assert_int_equal(save(1), SL_OK);
    assert_int_equal(sl_safetensors_write(file, NULL, 0, NULL, 0), SL_OK);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_EFILE);
    assert_non_null(strstr(sl_message(), "expected a checkpoint"));
    assert_int_equal(sl_safetensors_write(file, NULL, 0, later, 2), SL_OK);
    assert_int_equal(sl_checkpoint_load(dir, &found), SL_EFILE);
    assert_non_null(strstr(sl_message(), "version 9"));
}

TEST_WITH(a_failed_save_keeps_the_old_one, set_up, tear_down)
{
    struct sl_tensor twice[2];
    assert_int_equal(save(7), SL_OK);
    twice[0] = twice[1] = sl_tensor_make("w", SL_DTYPE_F32, 4, 0, weights);
    assert_int_equal(sl_checkpoint_save(dir, twice, 2, NULL, 0), SL_EINVAL);
    assert_true(load_first() == 7);
    assert_int_equal(sl_checkpoint_save("/dev/null/x", twice, 1, NULL, 0), SL_EIO);
}

TEST_WITH(memory_may_run_out, set_up, tear_down)
{
    struct sl_tensors found;
    assert_int_equal(save(7), SL_OK);
    for (int which = 0; which < 2; which++) {
        enum sl_status st = SL_ENOMEM;
        for (long allow = 0; st != SL_OK; allow++) {
            sl_memory_ration(allow);
            st = which == 0 ? sl_checkpoint_load(dir, &found) : save(8);
            sl_memory_ration(-1);
            assert_true(st == SL_OK || st == SL_ENOMEM);
            if (st == SL_OK && which == 0) {
                sl_tensors_free(&found);
            }
            assert_int_equal(sl_memory_live(), 0);
            assert_true(load_first() == (which == 1 && st == SL_OK ? 8 : 7));
            assert_true(allow < 100);
        }
    }
}

/* A folder is one process's; where that is killed, the next one's. Nothing is left behind. */
TEST_WITH(a_folder_has_one_process, set_up, tear_down)
{
    struct sl_checkpoint_lock lock;
    char words[192];
    int taken[2];
    char one;
    assert_int_equal(sl_folder_make(dir), SL_OK);
    assert_int_equal(pipe(taken), 0);
    pid_t child = fork();
    if (child == 0) {
        one = sl_checkpoint_acquire(dir, &lock) == SL_OK && lock.held;
        _exit(write(taken[1], &one, 1) == 1 ? pause() : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(taken[0], &one, 1), 1);
    assert_int_equal(one, 1);
    assert_int_equal(sl_checkpoint_acquire(dir, &lock), SL_EINVAL);
    snprintf(words, sizeof words, "%s: found process %ld saving", dir, (long)child);
    assert_non_null(strstr(sl_message(), words));
    assert_false(lock.held);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(sl_checkpoint_acquire(dir, &lock), SL_OK);
    assert_true(lock.held);
    sl_checkpoint_release(&lock);
    sl_checkpoint_release(&lock);
    close(taken[0]);
    close(taken[1]);
}

TEST_MAIN(NULL, NULL)
