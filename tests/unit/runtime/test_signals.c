/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * sl_signals_install (runtime/starling.h): the first signal is a wish, the second the end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pseudo terminals */
#endif
#include "runtime/starling.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)

/* The system sends these again by itself. */
static bool is_repeated(int number)
{
    return number == SIGHUP || number == SIGXCPU;
}

static int tear_down(void **state)
{
    (void)state;
    sl_signals_restore();
    return 0;
}

TEST_WITH(the_first_signal_is_noted, NULL, tear_down)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        assert_int_equal(sl_signals_install(), SL_OK);
        assert_int_equal(sl_signals_seen(), 0);
        raise(numbers[i]);
        assert_int_equal(sl_signals_seen(), numbers[i]);
        sl_signals_restore();
        assert_int_equal(sl_signals_seen(), 0); /* a later run is not stopped by it */
    }
}

/* Raise two signals in a child; its wait status. */
static int child(int first, int second)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        if (sl_signals_install() != SL_OK) {
            _exit(3);
        }
        raise(first);
        if (sl_signals_seen() != first) {
            _exit(4);
        }
        raise(second);
        _exit(5); /* the second one must have ended us, unless it repeats the first */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST_WITH(the_second_signal_ends, NULL, tear_down)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        for (size_t j = 0; j < N_NUMBERS; j++) {
            int status = child(numbers[i], numbers[j]);
            if (i == j && is_repeated(numbers[i])) {
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
                continue;
            }
            assert_true(WIFSIGNALED(status));
            assert_int_equal(WTERMSIG(status), numbers[j]);
        }
    }
}

static volatile sig_atomic_t earlier_handler_ran;

static void earlier_handler(int number)
{
    (void)number;
    earlier_handler_ran = 1;
}

TEST_WITH(earlier_handlers_come_back, NULL, tear_down)
{
    struct sigaction ours = {.sa_handler = earlier_handler};
    struct sigaction default_action = {.sa_handler = SIG_DFL};
    sigaction(SIGUSR1, &ours, NULL);
    assert_int_equal(sl_signals_install(), SL_OK);
    raise(SIGUSR1);
    assert_int_equal(earlier_handler_ran, 0);
    sl_signals_restore();
    raise(SIGUSR1);
    assert_int_equal(earlier_handler_ran, 1);
    sigaction(SIGUSR1, &default_action, NULL);
}

TEST_WITH(an_ignored_signal_stays_ignored, NULL, tear_down)
{
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(sl_signals_install(), SL_OK);
    raise(SIGHUP);
    assert_int_equal(sl_signals_seen(), 0);
    raise(SIGTERM);
    raise(SIGHUP); /* not the second signal that ends all */
    assert_int_equal(sl_signals_seen(), SIGTERM);
    sl_signals_restore();
    signal(SIGHUP, SIG_DFL);
}

/* A pseudo terminal in a session of its own: whatever is written into *master_out is typed there. */
static bool open_terminal(int *master_out)
{
    const char *name = NULL;
    int terminal = -1;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0) {
        name = ptsname(master);
    }
    if (name != NULL && setsid() >= 0) {
        terminal = open(name, O_RDWR); /* becomes the session's */
    }
    *master_out = master;
    return terminal >= 0;
}

/* In a process that a script put into the background: SIGINT of kill is taken, SIGINT of the terminal is not. */
static int in_background(void)
{
    int master;
    signal(SIGINT, SIG_IGN);
    if (sl_signals_install() != SL_OK) {
        return 3;
    }
    if (open_terminal(&master)) {
        const struct timespec moment = {.tv_nsec = 50000000};
        if (write(master, "\3", 1) != 1) {
            return 4;
        }
        nanosleep(&moment, NULL); /* a signal that comes later than this is overlooked, not mistaken */
        if (sl_signals_seen() != 0) {
            return 5;
        }
    }
    kill(getpid(), SIGINT);
    if (sl_signals_seen() != SIGINT) {
        return 6;
    }
    sl_signals_restore();
    raise(SIGINT); /* ignored again */
    if (sl_signals_install() != SL_OK) {
        return 7;
    }
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    return 8; /* the second one must have ended us */
}

TEST_WITH(a_background_program_takes_sigint, NULL, tear_down)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        _exit(in_background());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status)) {
        fail_msg("exit status %d", WEXITSTATUS(status));
    }
    assert_int_equal(WTERMSIG(status), SIGINT);
}

TEST_WITH(installing_twice_is_refused, NULL, tear_down)
{
    sl_signals_restore(); /* harmless */
    assert_int_equal(sl_signals_install(), SL_OK);
    assert_int_equal(sl_signals_install(), SL_EINVAL);
}

TEST_MAIN(NULL, NULL)
