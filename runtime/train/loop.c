/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Steps, epochs, their reports, and evaluation. */

#include <math.h>
#include <string.h>

#include "config.h"
#include "runtime/full/evaluate.h"
#include "runtime/full/needed.h"
#include "runtime/machine/pool.h"
#include "runtime/machine/watchdog.h"
#include "runtime/plan/rate.h"
#include "runtime/train/session.h"
#include "support/clock.h"
#include "support/decimal.h"
#include "support/lines.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

/* ---- reports ---- */

static enum sl_status report_config(struct sl_session *t)
{
    char names[STARPU_NMAXWORKERS][96];
    const char *devices[STARPU_NMAXWORKERS];
    for (unsigned w = 0; w < t->machine.n_workers; w++) {
        sl_machine_worker_name(w, names[w], sizeof names[w]);
        devices[w] = names[w];
    }
    struct sl_settings options = *t->settings;
    options.dataset = t->given ? t->name : options.dataset;
    struct sl_metrics_config config = {.version = PACKAGE_VERSION,
                                       .dataset = t->name,
                                       .synthetic = t->synthetic,
                                       .vertices = t->shards.n_vertices,
                                       .edges = t->partition.graph.n_edges,
                                       .features = t->shards.n_features,
                                       .outputs = t->shards.n_outputs,
                                       .pes = t->settings->pes,
                                       .group_size = t->settings->group_size,
                                       .devices = devices,
                                       .n_devices = t->machine.n_workers,
                                       .options = &options,
                                       .edge_cut = t->partition.n_cut,
                                       .parameters = sl_model_trained_arrays(&t->model),
                                       .parameter_bytes = sl_model_trained_bytes(&t->model)};
    return sl_metrics_config(&t->reports.metrics, &config);
}

static enum sl_status report_step(struct sl_session *t, uint32_t epoch, uint32_t i, double loss)
{
    struct sl_reports *r = &t->reports;
    struct sl_step_news news = {
        .size = sizeof news, .epoch = epoch, .step = sl_plan_first_step(&t->plan, epoch - 1) + i, .loss = loss};
    if (t->settings->metrics_steps) {
        SL_CHECK(sl_metrics_step(&r->metrics, epoch, news.step, loss));
    }
    sl_progress_step(&r->progress, epoch, i + 1, loss);
    if (r->to.step != NULL) {
        SL_IN_CALLERS_LOCALE;
        if (r->to.step(r->to.context, &news) != 0) {
            sl_session_stop(t);
        }
    }
    return SL_OK;
}

static enum sl_status report_epoch(struct sl_session *t, const struct sl_metrics_epoch *epoch)
{
    struct sl_reports *r = &t->reports;
    struct sl_epoch_news news = {.size = sizeof news,
                                 .epoch = epoch->epoch,
                                 .loss = epoch->train_loss,
                                 .seconds = epoch->seconds,
                                 .evaluated = epoch->evaluated,
                                 .scores = epoch->scores};
    SL_CHECK(sl_metrics_epoch(&r->metrics, epoch));
    sl_progress_epoch(&r->progress, epoch);
    if (epoch->guard_fired && r->talks) {
        sl_print_line(r->to.stream, "guard",
                      "exact loss %.4f: history misleads training, which goes on exactly from earlier weights",
                      epoch->exact_loss);
    }
    if (r->to.epoch != NULL) {
        SL_IN_CALLERS_LOCALE;
        if (r->to.epoch(r->to.context, &news) != 0) {
            sl_session_stop(t);
        }
    }
    return SL_OK;
}

/* Report the losses of the epoch's steps before `end`. Acquiring a loss waits for the graph. */
static enum sl_status report_steps(struct sl_session *t, uint32_t end)
{
    uint32_t epoch = (uint32_t)sl_plan_epoch(&t->plan, t->state.step - 1) + 1;
    for (; t->n_reported < end; t->n_reported++) {
        uint32_t i = t->n_reported;
        SL_FAIL_IF(starpu_data_acquire(t->loss_handle[i], STARPU_R) != 0, SL_ESTARPU,
                   "StarPU refused to hand out a loss");
        double loss = t->losses[i];
        starpu_data_release(t->loss_handle[i]);
        SL_CHECK(sl_failure_status(&t->run.failure));
        SL_CHECK(report_step(t, epoch, i, loss));
    }
    return SL_OK;
}

/* The mean loss over all seeds of the epoch's steps. */
static double mean_loss(const struct sl_session *t, uint32_t n_steps)
{
    double sum = 0;
    double n_seeds = 0;
    for (uint32_t i = 0; i < n_steps; i++) {
        double seeds = sl_plan_seeds(&t->plan, t->plan.step0 + i).n;
        sum += t->losses[i] * seeds;
        n_seeds += seeds;
    }
    return n_seeds > 0 ? sum / n_seeds : NAN;
}

/* At rank 0: sum the stage seconds and the bytes between ranks since the last call, over all ranks. */
static enum sl_status add_ranks(struct sl_session *t, double stage[SL_N_STAGES], double *sent_out)
{
    uint64_t sent = sl_ranks_sent_bytes();
    *sent_out = (double)(sent - t->sent_bytes);
    t->sent_bytes = sent;
    SL_CHECK(sl_ranks_sum(SL_N_STAGES, stage));
    return sl_ranks_sum(1, sent_out);
}

/* Gather the message times of all ranks at rank 0. */
static enum sl_status gather_waits(struct sl_session *t)
{
    struct sl_waits mine;
    SL_CHECK(sl_ranks_take_waits(&mine));
    SL_CHECK(sl_ranks_gather(&mine, sizeof mine, t->waits));
    for (uint32_t r = 0; r < t->plan.n_ranks; r++) {
        t->waited.message_s += t->waits[r].message_s;
        t->waited.hidden_s += t->waits[r].hidden_s;
        t->waited.waited_s += t->waits[r].waited_s;
    }
    return SL_OK;
}

static enum sl_status fill_epoch(struct sl_session *t, struct sl_metrics_epoch *out)
{
    enum sl_status st = sl_run_overlap(&t->run, &out->overlap);
    double sent;
    sl_run_stage_seconds(&t->run, out->stage_s);
    SL_CHECK(st);
    SL_CHECK(add_ranks(t, out->stage_s, &sent));
    SL_CHECK(gather_waits(t));
    if (t->schedule.kind->gather != NULL) {
        SL_CHECK(t->schedule.kind->gather(t->schedule.own));
    }
    out->layers = t->plan.n_layers;
    out->batch = t->plan.adapts ? t->plan.batch : 0;
    SL_CHECK(t->schedule.kind->tally(t->schedule.own, out));
    out->n_ranks = t->plan.n_ranks;
    out->waits = t->waits;
    out->bytes.between_ranks = (uint64_t)sent;
    return SL_OK;
}

/* ---- evaluation ---- */

static enum sl_status keep_best(struct sl_session *t)
{
    if (t->best == NULL) {
        SL_CHECK(sl_alloc(sl_model_entries(&t->model), sizeof *t->best, "the best weights", &t->best));
    }
    SL_CHECK(sl_model_acquire(&t->model, STARPU_R));
    sl_model_read(&t->model, t->best);
    sl_model_release(&t->model);
    return SL_OK;
}

/* Say once that the score which selects is not a number. */
static void tell_undefined(struct sl_session *t, uint32_t epoch, const struct sl_score *score)
{
    if (t->told_undefined || t->settings->epochs == 0) {
        return;
    }
    t->told_undefined = true;
    sl_progress_clear(&t->reports.progress);
    if (t->state.best_epoch > 0) {
        sl_notify(SL_NOTICE_WARNING, "valid %s is not defined in epoch %u: epoch %llu stays the best", score->name,
                  epoch, (unsigned long long)t->state.best_epoch);
    } else {
        sl_notify(SL_NOTICE_WARNING,
                  "valid %s is not defined%s: no epoch is the best, and the last evaluation's model is kept; --best-by "
                  "takes another score",
                  score->name, t->shards.n_valid == 0 ? ", as the validation set is empty" : "");
    }
}

/* Score the validation and test sets. Among equal validation scores the earliest counts as best. An epoch without a
 * score is not the best; before there is a best epoch, the last evaluation's scores and weights are kept. */
static enum sl_status evaluate(struct sl_session *t, uint32_t epoch, struct sl_metrics_epoch *out)
{
    const struct sl_score_sample sample = {t->settings->seed, t->settings->score_fanout};
    const struct sl_inference wanted = {.sample = t->settings->n_score_fanout > 0 ? &sample : NULL};
    double start_s = sl_clock_s();
    if (epoch == t->settings->epochs) {
        sl_pool_release(); /* no step will want the blocks of training */
    }
    sl_pool_trim();
    sl_watchdog_suspend(false);
    SL_CHECK(sl_state_average(t));
    const bool on_cpus = t->run.evaluate_on_cpus;
    t->run.evaluate_on_cpus = on_cpus || wanted.sample != NULL;
    enum sl_status st = sl_evaluate(&t->run, &t->shards, &t->model, &wanted, &out->scores);
    t->run.evaluate_on_cpus = on_cpus;
    SL_CHECK(st);
    sl_watchdog_suspend(true);
    sl_pool_trim();
    out->eval_seconds = sl_clock_s() - start_s;
    out->evaluated = true;
    out->sampled = wanted.sample != NULL;
    const struct sl_score *score = &out->scores.score[out->scores.best_by];
    bool blind = t->best == NULL || isnan(t->state.best.score[out->scores.best_by].valid);
    out->best = !isnan(score->valid) && (blind || sl_scores_better(&out->scores, &t->state.best));
    t->state.n_worse = out->best ? 0 : t->state.n_worse + 1;
    if (isnan(score->valid)) {
        tell_undefined(t, epoch, score);
    }
    if (out->best) {
        t->state.best_epoch = epoch;
    }
    if (out->best || blind) {
        t->state.best = out->scores;
        SL_CHECK(keep_best(t));
    }
    return SL_OK;
}

/* ---- training ---- */

struct sl_adam sl_session_adam(const struct sl_settings *settings, uint64_t epoch, uint64_t step)
{
    const struct sl_rate rate = sl_rate_of(settings->lr_schedule);
    const double warm = step + 1 < settings->lr_warmup ? (double)(step + 1) / settings->lr_warmup : 1;
    return (struct sl_adam){.lr = settings->lr * warm * sl_rate_share(&rate, epoch, settings->epochs),
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .decay = settings->weight_decay,
                            .decoupled = settings->optimizer == SL_OPTIMIZER_ADAMW,
                            .t = step + 1};
}

static bool asked_to_stop(struct sl_session *t)
{
    return sl_signals_seen() != 0 || atomic_load(&t->stop) || t->reports.metrics.refused;
}

/* Submit the next step. */
static enum sl_status advance(struct sl_session *t)
{
    const struct sl_schedule *schedule = &t->schedule;
    uint64_t step = t->state.step;
    uint32_t i = sl_plan_number(&t->plan, step);
    uint32_t in_flight = schedule->kind->in_flight(schedule->own);
    struct sl_adam adam = sl_session_adam(t->settings, sl_plan_epoch(&t->plan, step), step);
    t->run.stop_wanted = asked_to_stop(t);
    sl_watchdog_suspend(false);
    sl_trace_before_step(&t->trace, step);
    SL_CHECK(schedule->kind->advance(schedule->own, step, &adam, t->loss_handle[i]));
    sl_trace_after_step(&t->trace, step);
    t->state.step = step + 1;
    if (i >= in_flight && !sl_plan_decoupled(&t->plan)) {
        return report_steps(t, i + 1 - in_flight);
    }
    return SL_OK;
}

/* Wait for the updates and for the samples of later steps: their time belongs to this epoch. */
static enum sl_status drain(struct sl_session *t)
{
    sl_ranks_drain();
    return sl_failure_status(&t->run.failure);
}

static bool due(const struct sl_settings *s, uint32_t epoch)
{
    return epoch == s->epochs || (s->eval_every > 0 && epoch % s->eval_every == 0);
}

/* Whether ranks agree to stop only when an epoch ends, because their steps have no common operation. */
static bool agrees_late(const struct sl_session *t)
{
    return sl_plan_decoupled(&t->plan) || (t->plan.n_ranks > 1 && sl_schedule_of(t->settings)->agrees_late);
}

/* Agree to stop if any rank was asked to. */
static enum sl_status agree(struct sl_session *t)
{
    double n_asked = asked_to_stop(t);
    SL_CHECK(sl_ranks_sum(1, &n_asked));
    SL_CHECK(sl_ranks_broadcast(&n_asked, sizeof n_asked));
    t->run.stop_agreed = n_asked > 0;
    return SL_OK;
}

/* With a vertex budget: give the steps of the next epoch the seeds that the steps so far call for. */
static enum sl_status adapt_batch(struct sl_session *t)
{
    const struct sl_schedule *schedule = &t->schedule;
    const uint64_t batch = schedule->kind->next_batch(schedule->own);
    const uint64_t epoch = sl_plan_epoch(&t->plan, t->state.step);
    if (batch == t->plan.batch) {
        return SL_OK;
    }
    sl_session_close_losses(t);
    sl_plan_set_batch(&t->plan, epoch, t->state.step, batch, t->settings->epochs);
    SL_CHECK(sl_session_open_losses(t));
    SL_CHECK(schedule->kind->resize(schedule->own));
    t->reports.progress.steps_per_epoch = t->plan.n_per_epoch;
    if (t->reports.talks && epoch < t->settings->epochs) {
        sl_print_line(t->reports.to.stream, "budget", "%llu %s a step from epoch %llu on", (unsigned long long)batch,
                      sl_noun(batch, "seed", "seeds"), (unsigned long long)epoch + 1);
    }
    return SL_OK;
}

static enum sl_status finish_epoch(struct sl_session *t, double start_s)
{
    uint32_t n = t->plan.n_per_epoch;
    struct sl_metrics_epoch epoch = {.epoch = (uint32_t)sl_plan_epoch(&t->plan, t->state.step)};
    sl_objective_scores(&t->objective, &t->shards, &epoch.scores);
    SL_CHECK(drain(t));
    epoch.seconds = t->state.epoch_seconds + sl_clock_s() - start_s;
    SL_CHECK(sl_transport_settle(&t->transport, t->n_reported, n, t->losses));
    if (agrees_late(t)) {
        SL_CHECK(agree(t));
    }
    SL_CHECK(report_steps(t, n));
    epoch.train_loss = mean_loss(t, n);
    SL_CHECK(fill_epoch(t, &epoch));
    sl_watchdog_suspend(true); /* rank 0 reports and saves alone */
    if (due(t->settings, epoch.epoch)) {
        SL_CHECK(evaluate(t, epoch.epoch, &epoch));
    }
    sl_pool_reserve();
    SL_CHECK(report_epoch(t, &epoch));
    t->state.seconds += epoch.seconds;
    t->state.epoch_seconds = 0;
    t->schedule.kind->turn(t->schedule.own);
    t->n_reported = 0;
    starpu_task_wait_for_all(); /* a GPU task is counted after its data are released */
    sl_run_log_reset(&t->run);
    if (t->plan.adapts) {
        SL_CHECK(adapt_batch(t));
    }
    if (t->settings->checkpoint != NULL) {
        SL_CHECK(sl_state_save(t));
    }
    t->sent_bytes = sl_ranks_sent_bytes(); /* bytes of evaluation and saving do not count for the next epoch */
    sl_waits_drop(sl_clock_s());
    return SL_OK;
}

/* Stop in the middle of an epoch: finish the submitted steps and save. */
static enum sl_status pause_epoch(struct sl_session *t, double start_s)
{
    SL_CHECK(drain(t));
    SL_CHECK(report_steps(t, sl_plan_number(&t->plan, t->state.step)));
    t->state.epoch_seconds += sl_clock_s() - start_s;
    sl_watchdog_suspend(true);
    if (t->settings->checkpoint != NULL) {
        return sl_state_save(t);
    }
    return SL_OK;
}

static bool stopped(struct sl_session *t)
{
    if (t->plan.n_ranks == 1) {
        return asked_to_stop(t);
    }
    return t->run.stop_agreed;
}

static bool patient(const struct sl_session *t)
{
    return t->settings->patience == 0 || t->state.n_worse < t->settings->patience;
}

static enum sl_status train_epochs(struct sl_session *t)
{
    double start_s = sl_clock_s();
    while (t->state.step < t->plan.n_steps && patient(t) && !stopped(t)) {
        SL_CHECK(advance(t));
        if (sl_plan_number(&t->plan, t->state.step) == 0) {
            SL_CHECK(finish_epoch(t, start_s));
            start_s = sl_clock_s();
        }
    }
    if (sl_plan_number(&t->plan, t->state.step) != 0) {
        return pause_epoch(t, start_s);
    }
    return SL_OK;
}

/* With --epochs 0, or a complete checkpoint: score the loaded model. */
static enum sl_status only_evaluate(struct sl_session *t)
{
    struct sl_metrics_epoch epoch = {.train_loss = NAN, .layers = t->plan.n_layers};
    SL_CHECK(evaluate(t, 0, &epoch));
    return report_epoch(t, &epoch);
}

static enum sl_status summarise(struct sl_session *t)
{
    char held[SL_HOLDERS_BYTES];
    struct sl_metrics_summary summary = {.evaluated = t->best != NULL,
                                         .sampled = t->settings->n_score_fanout > 0,
                                         .best = t->state.best,
                                         .best_epoch = (uint32_t)t->state.best_epoch,
                                         .seconds = t->state.seconds + t->state.epoch_seconds,
                                         .epochs =
                                             (double)sl_plan_epoch(&t->plan, t->state.step) +
                                             (double)sl_plan_number(&t->plan, t->state.step) / t->plan.n_per_epoch,
                                         .held = held,
                                         .n_ranks = t->plan.n_ranks,
                                         .waits = t->waited};
    sl_memory_list(true, held);
    if (t->best == NULL) {
        sl_objective_scores(&t->objective, &t->shards, &summary.best);
    }
    SL_CHECK(sl_ranks_max(sl_metrics_peak_rss_bytes(), &summary.peak_rss_bytes));
    sl_progress_summary(&t->reports.progress, &summary);
    return sl_metrics_summary(&t->reports.metrics, &summary);
}

/* A resumed run cuts the metrics back to the checkpoint. With --resume but no checkpoint this means an empty file. */
static enum sl_status open_reports(struct sl_session *t, const struct sl_report *report)
{
    const struct sl_settings *s = t->settings;
    struct sl_reports *r = &t->reports;
    bool goes_on = s->resume != SL_RESUME_NO;
    bool first = sl_rank() == 0;
    *r = (struct sl_reports){0};
    if (report != NULL) {
        memcpy(&r->to, report, sl_min_u64(report->size, sizeof r->to));
    }
    r->to.stream = first ? r->to.stream : NULL;
    r->talks = r->to.stream != NULL && !s->quiet && !s->json;
    SL_CHECK(sl_metrics_open(first ? s->metrics : NULL, s->json ? r->to.stream : NULL, goes_on, &r->metrics));
    if (first) {
        r->metrics.line = r->to.line;
        r->metrics.context = r->to.context;
    }
    if (goes_on) {
        SL_CHECK(sl_metrics_rewind(&r->metrics, sl_plan_epoch(&t->plan, t->state.step), t->state.step));
    }
    if (r->talks) {
        SL_CHECK(sl_session_describe(t, r->to.stream));
    }
    sl_progress_open(r->to.stream, r->talks ? sl_progress_mode_of(r->to.stream) : SL_PROGRESS_NONE, s->epochs,
                     t->plan.n_per_epoch, &r->progress);
    return report_config(t);
}

/* Asked to stop before the last step, or before the evaluation of a run without steps. */
static bool interrupted(struct sl_session *t)
{
    return stopped(t) && ((t->state.step < t->plan.n_steps && patient(t)) || t->best == NULL);
}

static enum sl_status tell_interrupt(struct sl_session *t)
{
    struct sl_reports *r = &t->reports;
    char by[32] = "";
    int number = sl_signals_seen();
    if (number != 0) {
        snprintf(by, sizeof by, " by signal %d", number);
    }
    enum sl_status st =
        sl_fail(SL_EINTERRUPT, "interrupted%s: the %s was finished%s", by,
                sl_plan_decoupled(&t->plan) ? "epoch" : "step", t->settings->checkpoint != NULL ? " and saved" : "");
    if (r->talks) {
        fprintf(r->to.stream, "%s\n", sl_message());
    }
    return st;
}

/* An earlier failure keeps its message. Lost output lines do not end a run; the loss is reported here. */
static enum sl_status close_reports(struct sl_session *t, enum sl_status st)
{
    struct sl_reports *r = &t->reports;
    char message[SL_MESSAGE_BYTES];
    sl_progress_clear(&r->progress);
    st = st == SL_OK && interrupted(t) ? tell_interrupt(t) : st;
    snprintf(message, sizeof message, "%s", sl_message());
    bool lost = r->talks && (fflush(r->to.stream) != 0 || ferror(r->to.stream));
    enum sl_status closed = sl_metrics_close(&r->metrics);
    SL_FAIL_IF(st != SL_OK && st != SL_EINTERRUPT, st, "%s", message);
    SL_FAIL_IF(closed == SL_OK && lost, SL_EIO,
               "lines of the run were lost, as they could not be written; is the disk full, or their reader gone?");
    return closed == SL_OK && st != SL_OK ? sl_fail(st, "%s", message) : closed;
}

static enum sl_status train(struct sl_session *t)
{
    enum sl_status st;
    SL_TRY(st, train_epochs(t), done);
    if (t->best == NULL && !stopped(t)) {
        SL_TRY(st, only_evaluate(t), done);
    }
    SL_TRY(st, sl_outputs_settle(t), done);
    SL_TRY(st, sl_outputs_write(t), done);
    SL_TRY(st, sl_ranks_barrier(), done);
    st = summarise(t);
done:
    /* The task that failed first says why; with several ranks it has (runtime/starling.h). */
    if (st != SL_OK && t->plan.n_ranks == 1) {
        starpu_task_wait_for_all();
        if (sl_failure_seen(&t->run.failure)) {
            st = sl_failure_status(&t->run.failure);
        }
    }
    return st;
}

enum sl_status sl_session_train(struct sl_session *t, const struct sl_report *report)
{
    SL_IN_C_LOCALE;
    enum sl_status st;
    SL_FAIL_IF(t->begun, SL_EINVAL,
               "this session was trained already: expected another one, which --resume lets go on");
    SL_FAIL_IF(report != NULL && report->size == 0, SL_EINVAL,
               "sl_session_train: found a report of size 0, expected sizeof(struct sl_report)");
    t->begun = true;
    sl_session_wake(t);
    SL_TRY(st, open_reports(t, report), done);
    st = train(t);
done:
    st = close_reports(t, st);
    sl_session_rest(t);
    return st;
}

void sl_session_stop(struct sl_session *t)
{
    atomic_store(&t->stop, true);
}

bool sl_session_traced(const struct sl_session *t)
{
    return t != NULL && t->trace.opened;
}
