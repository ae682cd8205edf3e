/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Standard streams and signals. The first signal sets a flag, which training reads after each step; the second ends
 * the program. Batch systems send SIGUSR1 or SIGUSR2 before the kill (Slurm: --signal=USR1@60; SGE, LSF). */
#include "runtime/starling.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/decimal.h"

void sl_streams_open(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
            return; /* the lowest free descriptor is fd, so open has failed */
        }
    }
}

/* ---- interrupts ---- */

#define N_SIGNALS 6

static const int signals[N_SIGNALS] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU};

static struct sigaction before[N_SIGNALS];
static bool caught[N_SIGNALS]; /* our handler has replaced before[i] */
/* A shell without job control starts background programs with SIGINT ignored, so that Ctrl-C of the terminal reaches
 * the foreground only. A SIGINT that a process sends is for this program. */
static bool no_terminal;
static bool installed;
static atomic_int seen; /* lock-free, hence safe in a handler */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler needs a lock-free flag");

/* Signals that the system repeats. A closed terminal sends SIGHUP, and its shell sends SIGHUP again. SIGXCPU comes with
 * each further second of processor time. */
static bool is_repeated(int number)
{
    return number == SIGHUP || number == SIGXCPU;
}

/* Note the signal, and restore default actions, so that the next signal ends the process. A repeated signal does not.
 * Only async-signal-safe calls. */
static void note(int number, siginfo_t *info, void *unused)
{
    int saved = errno;
    struct sigaction end_at_once = {.sa_handler = SIG_DFL};
    (void)unused;
    if (number == SIGINT && no_terminal && info->si_code == SI_KERNEL) {
        return;
    }
    bool second = atomic_exchange(&seen, number) != 0 && number == SIGINT;
    for (int i = 0; i < N_SIGNALS; i++) {
        bool goes_on = signals[i] == number ? is_repeated(number) : signals[i] == SIGINT && no_terminal;
        if (caught[i] && !goes_on) {
            sigaction(signals[i], &end_at_once, NULL);
        }
    }
    if (second) {
        raise(number); /* when this handler has returned */
    }
    errno = saved;
}

static enum sl_status refused(int number)
{
    return sl_fail(SL_EIO, "cannot catch signal %d: %s", number, strerror(errno));
}

/* Install our handler for signal i, unless another signal than SIGINT is ignored. */
static enum sl_status catch_signal(int i)
{
    struct sigaction ours = {.sa_sigaction = note, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigfillset(&ours.sa_mask);
    if (sigaction(signals[i], NULL, &before[i]) != 0) {
        return refused(signals[i]);
    }
    bool ignored = (before[i].sa_flags & SA_SIGINFO) == 0 && before[i].sa_handler == SIG_IGN;
    if (ignored && signals[i] != SIGINT) {
        return SL_OK;
    }
    no_terminal = no_terminal || ignored;
    caught[i] = true;
    if (sigaction(signals[i], &ours, NULL) != 0) {
        caught[i] = false;
        return refused(signals[i]);
    }
    return SL_OK;
}

enum sl_status sl_signals_install(void)
{
    SL_IN_C_LOCALE;
    SL_FAIL_IF(installed, SL_EINVAL, "signals are caught already; expected sl_signals_restore first");
    installed = true;
    atomic_store(&seen, 0);
    for (int i = 0; i < N_SIGNALS; i++) {
        enum sl_status st = catch_signal(i);
        if (st != SL_OK) {
            sl_signals_restore();
            return st;
        }
    }
    return SL_OK;
}

int sl_signals_seen(void)
{
    return atomic_load_explicit(&seen, memory_order_relaxed);
}

void sl_signals_restore(void)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        if (caught[i]) {
            caught[i] = false;
            sigaction(signals[i], &before[i], NULL);
        }
    }
    installed = false;
    no_terminal = false;
    atomic_store(&seen, 0);
}
