/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's configuration in one place. The environment is set where only the environment decides. */
#include "runtime/machine.h"

#include <errno.h>
#include <starpu.h>
#include <starpu_sched_ctx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/dense.h"
#include "runtime/pool.h"
#include "runtime/trace.h"
#include "support/memory.h"

#define DEFAULT_SCHED "lws"

/* " eager prio lws .." */
static void list_policies(char *out, size_t bytes)
{
    struct starpu_sched_policy **policies = starpu_sched_get_predefined_policies();
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; policies[i] != NULL && used < bytes; i++) {
        used += (size_t)snprintf(out + used, bytes - used, " %s", policies[i]->policy_name);
    }
}

static enum sl_status check_sched(const char *name)
{
    char known[640];
    struct starpu_sched_policy **policies = starpu_sched_get_predefined_policies();
    for (int i = 0; policies[i] != NULL; i++) {
        if (strcmp(policies[i]->policy_name, name) == 0) {
            return SL_OK;
        }
    }
    list_policies(known, sizeof known);
    return sl_fail(SL_EINVAL, "--sched: StarPU has no scheduler '%.100s'; it has%s", name, known);
}

/* Set a variable, or remove it where `value` is NULL. */
static enum sl_status set_variable(const char *name, const char *value)
{
    int error = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    return error == 0 ? SL_OK : sl_fail(SL_ENOMEM, "no memory to set StarPU's environment");
}

/* starpu_init with its environment: only that says whether StarPU traces, $STARPU_SCHED beats the configuration, and
 * what StarPU says of its first start is nothing a user can act on (STARPU_SILENT=0 lets it speak).
 * The caller's $STARPU_SCHED is put back, for the next run of this process. *error_out: what StarPU says. */
static enum sl_status init_starpu(const struct sl_settings *settings, struct starpu_conf *conf, int *error_out)
{
    const char *inherited = getenv("STARPU_SCHED");
    char *kept = NULL;
    enum sl_status st;
    SL_TRY(st, inherited != NULL ? sl_strdup(inherited, &kept) : SL_OK, done);
    SL_TRY(st, sl_trace_prepare(settings), done);
    SL_TRY(st, getenv("STARPU_SILENT") == NULL ? set_variable("STARPU_SILENT", "1") : SL_OK, done);
    SL_TRY(st, set_variable("STARPU_SCHED", conf->sched_policy_name), done);
    *error_out = starpu_init(conf);
    set_variable("STARPU_SCHED", kept); /* StarPU is up whether or not this works */
done:
    sl_free(kept);
    return st;
}

static const char *wanted_sched(const struct sl_settings *settings)
{
    const char *inherited = getenv("STARPU_SCHED");
    if (settings->sched != NULL) {
        return settings->sched;
    }
    return inherited != NULL && inherited[0] != '\0' ? inherited : DEFAULT_SCHED;
}

enum sl_status sl_machine_start(const struct sl_settings *settings, struct sl_machine *out)
{
    struct starpu_conf conf;
    struct sl_machine machine = {0};
    enum sl_status st;
    snprintf(machine.sched, sizeof machine.sched, "%s", wanted_sched(settings));
    SL_TRY(st, check_sched(machine.sched), failed);
    SL_TRY(st, sl_topology_read(&machine.topology), failed);
    uint32_t n_cpus = settings->cpus == 0 ? machine.topology.n_workers : settings->cpus;
    if (n_cpus > STARPU_MAXCPUS) {
        st = sl_fail(SL_EINVAL, "--cpus: found %u, expected at most %d, which this StarPU was built for", n_cpus,
                     STARPU_MAXCPUS);
        goto failed;
    }
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.sched_policy_name = machine.sched;
    conf.ncpus = (int)n_cpus;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.catch_signals = 0;
    sl_pool_install();
    int error = 0;
    st = init_starpu(settings, &conf, &error);
    if (st == SL_OK && error != 0) {
        st = error == -ENODEV ? sl_fail(SL_ENODEV, "StarPU found no worker: ask for at least one with --cpus")
                              : sl_fail(SL_ESTARPU, "StarPU did not start (%s)", strerror(-error));
    }
    if (st != SL_OK) {
        sl_pool_remove();
        goto failed;
    }
    sl_dense_setup();
    machine.started = true;
    machine.n_workers = starpu_worker_get_count();
    *out = machine;
    return SL_OK;
failed:
    *out = (struct sl_machine){0};
    return st;
}

void sl_machine_stop(struct sl_machine *machine)
{
    if (machine->started) {
        starpu_task_wait_for_all();
        starpu_shutdown();
        sl_pool_remove();
    }
    *machine = (struct sl_machine){0};
}

void sl_machine_worker_name(unsigned worker, char *out, size_t bytes)
{
    out[0] = '\0';
    starpu_worker_get_name((int)worker, out, bytes);
}
