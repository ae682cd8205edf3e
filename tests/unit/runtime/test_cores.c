/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/cores: runs of one machine take different cores, and a run that is killed holds none.
 */
#include "tests/support/data_fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/machine/cores.h"

static struct sl_cores take(uint32_t wanted)
{
    struct sl_cores cores;
    assert_ok(sl_cores_take(folder, wanted, &cores));
    return cores;
}

/* Two runs of one core each have different cores; a third one of all cores has none, and sees two of others. */
TEST_IN_FOLDER(no_core_twice)
{
    struct sl_cores first = take(1);
    assert_int_equal(first.n, 1);
    assert_int_equal(first.n_of_others, 0);
    if (first.n_there < 2) {
        sl_cores_give(&first);
        skip();
    }
    struct sl_cores second = take(1);
    assert_int_equal(second.n, 1);
    assert_int_equal(second.n_of_others, 1);
    assert_int_not_equal(first.core[0].number, second.core[0].number);
    assert_int_not_equal(first.core[0].pu, second.core[0].pu);
    struct sl_cores third = take(first.n_there);
    assert_int_equal(third.n, 0);
    assert_int_equal(third.n_of_others, 2);
    sl_cores_give(&third);
    sl_cores_give(&first);
    struct sl_cores rest = take(SL_CORES_ALL);
    assert_int_equal(rest.n, rest.n_there - 1);
    sl_cores_give(&second);
    sl_cores_give(&rest);
    struct sl_cores all = take(UINT32_MAX - 1); /* more workers than cores share them */
    assert_int_equal(all.n, all.n_there);
    sl_cores_give(&all);
}

TEST_IN_FOLDER(a_dropped_core_is_free)
{
    struct sl_cores all = take(SL_CORES_ALL);
    uint32_t number = all.core[0].number;
    sl_cores_drop(&all, 0);
    assert_int_equal(all.n, all.n_there - 1);
    struct sl_cores one = take(1);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.core[0].number, number);
    sl_cores_give(&one);
    sl_cores_give(&all);
}

/* Also if a child of the run, which has the files open as well, is still there. */
TEST_IN_FOLDER(an_end_gives_all_back)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sl_cores cores;
        bool good = sl_cores_take(folder, SL_CORES_ALL, &cores) == SL_OK && cores.n == cores.n_there;
        _exit(write(ready[1], good ? "y" : "n", 1) == 1 && pause() == 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    struct sl_cores cores = take(1);
    assert_int_equal(cores.n, 0);
    assert_int_equal(cores.n_of_others, cores.n_there);
    sl_cores_give(&cores);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    cores = take(1);
    assert_int_equal(cores.n, 1);
    pid_t heir = fork();
    if (heir == 0) {
        _exit(pause());
    }
    sl_cores_give(&cores);
    cores = take(1);
    assert_int_equal(cores.n, 1);
    sl_cores_give(&cores);
    kill(heir, SIGKILL);
    assert_int_equal(waitpid(heir, NULL, 0), heir);
    close(ready[0]);
    close(ready[1]);
}

/* Without a place for the files nothing is reserved, and nothing fails. Files that another user has made serve. */
TEST_IN_FOLDER(needs_no_folder)
{
    struct sl_cores cores;
    char path[160];
    struct stat about;
    assert_ok(sl_cores_take("/proc/none", 1, &cores));
    assert_int_equal(cores.n + cores.n_of_others, 0);
    sl_cores_give(&cores);
    mode_t mask = umask(077);
    cores = take(1);
    umask(mask);
    snprintf(path, sizeof path, "%s/starling-core-%u", folder, cores.core[0].number);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0444);
    sl_cores_give(&cores);
}

TEST_MAIN(NULL, NULL)
