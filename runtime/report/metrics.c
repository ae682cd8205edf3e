/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Metrics as JSON lines. */
#include "runtime/report/metrics.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static json_t *real_if(bool there, double value)
{
    if (!there || !isfinite(value)) {
        return json_null();
    }
    return json_real(value);
}

static json_t *real(double value)
{
    return real_if(true, value);
}

/* JSON integers end at 2^63 here. A larger number (a seed) becomes a string of digits. */
static json_t *whole(uint64_t value)
{
    if (value > INT64_MAX) {
        return json_sprintf("%llu", (unsigned long long)value);
    }
    return json_integer((json_int_t)value);
}

/* A string. If it is not UTF-8 (a path may hold any bytes), its non-ASCII bytes become '?'. */
static json_t *text(const char *value)
{
    if (value == NULL) {
        return json_null();
    }
    json_t *json = json_string(value);
    char *copy;
    if (json != NULL || sl_strdup(value, &copy) != SL_OK) {
        return json;
    }
    for (char *c = copy; *c != '\0'; c++) {
        *c = (unsigned char)*c >= 0x80 ? '?' : *c;
    }
    json = json_string(copy);
    sl_free(copy);
    return json;
}

/* Append a value to an array. Takes over both. Returns the array, or NULL: no memory. */
static json_t *append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0) {
        return array;
    }
    json_decref(array);
    return NULL;
}

static json_t *wholes(const uint64_t *values, uint32_t n)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++) {
        array = append(array, whole(values[i]));
    }
    return array;
}

static json_t *texts(const char *const *values, uint32_t n)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++) {
        array = append(array, text(values[i]));
    }
    return array;
}

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

/* A number, or the option's word for UINT32_MAX: "all", -1. */
static json_t *word_or_whole(const struct sl_option *option, uint32_t value)
{
    if (value != UINT32_MAX || option->word == NULL) {
        return whole(value);
    }
    return strcmp(option->word, "-1") == 0 ? json_integer(-1) : text(option->word);
}

static json_t *list_value(const struct sl_option *option, const struct sl_settings *settings)
{
    const uint32_t *values = (const void *)((const char *)settings + option->offset);
    uint32_t n = *(const uint32_t *)(const void *)((const char *)settings + option->offset_n);
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++) {
        array = append(array, word_or_whole(option, values[i]));
    }
    return array;
}

static json_t *choice_value(const struct sl_option *option, int position)
{
    char name[64];
    sl_option_choice_name(option, position, name, sizeof name);
    return json_string(name);
}

static json_t *option_value(const struct sl_option *option, const struct sl_settings *settings)
{
    const void *value = (const char *)settings + option->offset;
    switch (option->kind) {
    case SL_OPTION_FLAG: return json_boolean(*(const bool *)value);
    case SL_OPTION_U32: return word_or_whole(option, *(const uint32_t *)value);
    case SL_OPTION_U64: return whole(*(const uint64_t *)value);
    case SL_OPTION_REAL: return real(*(const double *)value);
    case SL_OPTION_STRING: return text(*(char *const *)value);
    case SL_OPTION_CHOICE: return choice_value(option, *(const int *)value);
    case SL_OPTION_U32_LIST: return list_value(option, settings);
    }
    return NULL;
}

static json_t *options_value(const struct sl_settings *settings)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    json_t *object = json_object();
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char key[64];
        sl_option_key(option, key, sizeof key);
        if (json_object_set_new(object, key, option_value(option, settings)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

/* One member of a line. `value` is a new reference; NULL: no memory. */
struct member {
    const char *name;
    json_t *value;
};

/* The value of a member that the line does not have. */
static json_t left_out;

static json_t *only_if(bool there, json_t *value)
{
    if (there) {
        return value;
    }
    json_decref(value);
    return &left_out;
}

/* An object of the members. It takes over the values, on failure too. NULL: no memory. */
static json_t *object_of(const struct member *members, size_t n)
{
    json_t *object = json_object();
    bool failed = false;
    for (size_t i = 0; i < n; i++) {
        failed |= members[i].value != &left_out && json_object_set_new(object, members[i].name, members[i].value) != 0;
    }
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

#define OBJECT(members) object_of(members, sizeof(members) / sizeof *(members))

/* Write the number of a JSON text with as few digits as give the same bits again: 15, 16 or 17. */
static size_t write_real(double value, char *out, size_t bytes)
{
    sl_decimal_shortest(value, 15, out, bytes);
    if (strpbrk(out, ".e") == NULL) {
        strcat(out, ".0");
    }
    return strlen(out);
}

/* Shorten the reals of a line in place; they have 17 digits. */
static void shorten(char *line)
{
    const char *from = line;
    char *to = line;
    bool quoted = false;
    while (*from != '\0') {
        size_t n = 1;
        if (quoted) {
            n = *from == '\\' ? 2 : 1;
            quoted = *from != '"';
        } else if (*from == '-' || isdigit((unsigned char)*from)) {
            n = strspn(from, "+-.0123456789e");
        } else {
            quoted = *from == '"';
        }
        char number[40];
        size_t length = n;
        if (n > 1 && !quoted && strcspn(from, ".e") < n) {
            length = sl_min_u64(n, write_real(sl_decimal_read(from, NULL), number, sizeof number - 2));
        }
        memmove(to, length < n ? number : from, length);
        to += length;
        from += n;
    }
    *to = '\0';
}

static enum sl_status put(FILE *stream, const char *line)
{
    if (stream == NULL || (fputs(line, stream) >= 0 && fputc('\n', stream) != EOF && fflush(stream) == 0)) {
        return SL_OK;
    }
    return sl_fail(SL_EIO, "cannot write the metrics: %s", strerror(errno));
}

/* Write a line and release it. NULL: no memory for the line. */
static enum sl_status write_line(struct sl_metrics *metrics, json_t *line)
{
    char *dump = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(line);
    SL_FAIL_IF(dump == NULL, SL_ENOMEM, "a line of metrics: no memory");
    shorten(dump);
    enum sl_status st = put(metrics->file, dump);
    enum sl_status second = put(metrics->stream, dump);
    if (metrics->line != NULL) {
        SL_IN_CALLERS_LOCALE;
        metrics->refused = metrics->line(metrics->context, dump) != 0 || metrics->refused;
    }
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(dump);
    return st != SL_OK ? st : second;
}

static bool is_closed(const struct sl_metrics *metrics)
{
    return metrics->file == NULL && metrics->stream == NULL && metrics->line == NULL;
}

enum sl_status sl_metrics_config(struct sl_metrics *metrics, const struct sl_metrics_config *c)
{
    if (is_closed(metrics)) {
        return SL_OK;
    }
    const struct member members[] = {
        {"event", text("config")},
        {"version", text(c->version)},
        {"dataset", text(c->dataset)},
        {"synthetic", json_boolean(c->synthetic)},
        {"vertices", whole(c->vertices)},
        {"edges", whole(c->edges)},
        {"features", whole(c->features)},
        {"classes", whole(c->outputs)},
        {"pes", whole(c->pes)},
        {"group_size", whole(c->group_size)},
        {"devices", texts(c->devices, c->n_devices)},
        {"options", options_value(c->options)},
        {"edge_cut", whole(c->edge_cut)},
        {"parameters", whole(c->parameters)},
        {"parameter_bytes", whole(c->parameter_bytes)},
    };
    return write_line(metrics, OBJECT(members));
}

enum sl_status sl_metrics_step(struct sl_metrics *metrics, uint32_t epoch, uint64_t step, double loss)
{
    if (is_closed(metrics)) {
        return SL_OK;
    }
    const struct member members[] = {
        {"event", text("step")}, {"epoch", whole(epoch)}, {"step", whole(step)}, {"loss", real(loss)}};
    return write_line(metrics, OBJECT(members));
}

static json_t *bytes_object(const struct sl_metrics_epoch *e)
{
    const struct sl_metrics_bytes *b = &e->bytes;
    const struct member members[] = {
        {"ids", whole(b->ids)},
        {"rows", whole(b->rows)},
        {"row_gradients", whole(b->row_gradients)},
        {"weights", whole(b->weights)},
        {"features", whole(b->features)},
        {"stages", only_if(e->staged, whole(b->stages))},
        {"between_ranks", only_if(e->n_ranks > 1, whole(b->between_ranks))},
    };
    return OBJECT(members);
}

static json_t *stages_object(const double *stage_s)
{
    struct member members[SL_STAGE_EVALUATE]; /* the stages before it */
    for (int s = 0; s < SL_STAGE_EVALUATE; s++) {
        members[s] = (struct member){sl_stage_name((enum sl_stage)s), real(stage_s[s])};
    }
    return OBJECT(members);
}

/* A list with one number of each rank: the member of struct sl_waits at `offset`. */
static json_t *of_ranks(const struct sl_metrics_epoch *e, size_t offset)
{
    json_t *list = json_array();
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        list = append(list, real(*(const double *)((const char *)&e->waits[r] + offset)));
    }
    return list;
}

static json_t *messages_object(const struct sl_metrics_epoch *e)
{
    struct sl_waits all = {0};
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        all.message_s += e->waits[r].message_s;
        all.hidden_s += e->waits[r].hidden_s;
        all.waited_s += e->waits[r].waited_s;
    }
    const struct member members[] = {
        {"seconds", real(all.message_s)},
        {"hidden", real(all.hidden_s / all.message_s)},
        {"waited_seconds", real(all.waited_s)},
        {"seconds_of", of_ranks(e, offsetof(struct sl_waits, message_s))},
        {"hidden_seconds_of", of_ranks(e, offsetof(struct sl_waits, hidden_s))},
        {"waited_seconds_of", of_ranks(e, offsetof(struct sl_waits, waited_s))},
    };
    return OBJECT(members);
}

static json_t *cache_object(const struct sl_metrics_cache *c)
{
    const struct member members[] = {{"rows", whole(c->rows)}, {"hits", whole(c->hits)}};
    return OBJECT(members);
}

/* Append the members of `rest` to a line. Takes over both. Returns the line, or NULL: no memory. */
static json_t *join(json_t *line, json_t *rest)
{
    int failed = json_object_update(line, rest);
    json_decref(rest);
    if (failed != 0) {
        json_decref(line);
        return NULL;
    }
    return line;
}

static bool add_score(json_t *line, const char *form, const char *name, json_t *value)
{
    char key[64];
    snprintf(key, sizeof key, form, name);
    return json_object_set_new(line, key, value) == 0;
}

/* Add the scores to a line, under names made with these forms; NULL: left out. Returns the line, or NULL: no memory. */
static json_t *with_scores(json_t *line, const char *valid_form, const char *test_form, bool known,
                           const struct sl_scores *scores)
{
    bool added = line != NULL;
    for (uint32_t i = 0; added && i < scores->n; i++) {
        const struct sl_score *score = &scores->score[i];
        added = (valid_form == NULL || add_score(line, valid_form, score->name, real_if(known, score->valid))) &&
                (test_form == NULL || add_score(line, test_form, score->name, real_if(known, score->test)));
    }
    if (!added) {
        json_decref(line);
        return NULL;
    }
    return line;
}

enum sl_status sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *e)
{
    if (is_closed(metrics)) {
        return SL_OK;
    }
    const struct member members[] = {
        {"event", text("epoch")},
        {"epoch", whole(e->epoch)},
        {"train_loss", real(e->train_loss)},
        {"valid_loss", real_if(e->evaluated, e->scores.valid_loss)},
    };
    const struct member rest[] = {
        {"seconds", real(e->seconds)},
        {"eval_seconds", real(e->eval_seconds)},
        {"sampled", only_if(e->sampled, json_true())},
        {"overlap", real(e->overlap)},
        {"batch", only_if(e->batch > 0, whole(e->batch))},
        {"vertices", wholes(e->vertices, e->layers + 1)},
        {"edges", wholes(e->edges, e->layers)},
        {"bytes", bytes_object(e)},
        {"stage_seconds", stages_object(e->stage_s)},
        {"messages", e->n_ranks > 1 ? messages_object(e) : &left_out},
        {"feature_cache", only_if(e->cached, cache_object(&e->cache))},
        {"exact_loss", only_if(e->checked, real(e->exact_loss))},
        {"guard", only_if(e->guard_fired, text("fired"))},
    };
    json_t *line = with_scores(OBJECT(members), "valid_%s", "test_%s", e->evaluated, &e->scores);
    return write_line(metrics, join(line, OBJECT(rest)));
}

enum sl_status sl_metrics_summary(struct sl_metrics *metrics, const struct sl_metrics_summary *s)
{
    if (is_closed(metrics)) {
        return SL_OK;
    }
    const struct member members[] = {{"event", text("summary")}};
    const struct member rest[] = {
        {"best_epoch",
         s->evaluated && !isnan(s->best.score[s->best.best_by].valid) ? whole(s->best_epoch) : json_null()},
        {"sampled", only_if(s->sampled, json_true())},
        {"seconds", real(s->seconds)},
        {"peak_rss_bytes", whole(s->peak_rss_bytes)},
    };
    struct sl_scores selected = s->best;
    selected.score[0] = s->best.score[s->best.best_by];
    selected.n = 1;
    json_t *line = with_scores(OBJECT(members), "best_valid_%s", NULL, s->evaluated, &selected);
    line = with_scores(line, NULL, "test_%s_at_best", s->evaluated, &s->best);
    return write_line(metrics, join(line, OBJECT(rest)));
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Remove an unfinished last line from a regular file. */
static enum sl_status drop_unfinished_line(const char *path, FILE *file)
{
    struct stat about;
    char c;
    if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        return SL_OK;
    }
    off_t end = about.st_size;
    for (; end > 0; end--) {
        SL_FAIL_IF(pread(fileno(file), &c, 1, end - 1) != 1, SL_EIO, "%s: cannot read its last line: %s", path,
                   strerror(errno));
        if (c == '\n') {
            break;
        }
    }
    SL_FAIL_IF(end < about.st_size && ftruncate(fileno(file), end) != 0, SL_EIO,
               "%s: cannot remove its unfinished last line: %s", path, strerror(errno));
    SL_FAIL_IF(fseek(file, 0, SEEK_END) != 0, SL_EIO, "%s: cannot append: %s", path, strerror(errno));
    return SL_OK;
}

/* Lock a regular file against other runs, on other machines too if the file system has such locks, and empty it unless
 * lines are appended. The system ends the lock of a killed process. */
static enum sl_status lock_file(const char *path, int file, bool append)
{
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || sl_file_stream(path) >= 0) {
        return SL_OK;
    }
    SL_FAIL_IF(flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, SL_EINVAL,
               "%s: found another run writing its metrics there, expected none; wait for it, or give another "
               "--metrics file",
               path);
    SL_FAIL_IF(!append && ftruncate(file, 0) != 0, SL_EIO, "%s: cannot be emptied: %s", path, strerror(errno));
    return SL_OK;
}

/* Standard output, in a file, keeps its place there. */
static enum sl_status open_file(const char *path, bool append, FILE **out)
{
    int flags = append ? O_RDWR | O_APPEND : O_WRONLY;
    int stream = sl_file_stream(path);
    int file = stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, 0) : open(path, flags | O_CREAT | O_CLOEXEC, 0666);
    *out = NULL;
    SL_FAIL_IF(file < 0, SL_EIO, "%s: cannot write the metrics there: %s", path, strerror(errno));
    enum sl_status st = lock_file(path, file, append);
    if (st == SL_OK) {
        *out = fdopen(file, append ? "a+" : "w");
        if (*out == NULL) {
            st = sl_fail(SL_ENOMEM, "%s: no memory for a stream", path);
        }
    }
    if (*out == NULL) {
        close(file);
    }
    return st;
}

enum sl_status sl_metrics_open(const char *path, FILE *stream, bool append, struct sl_metrics *out)
{
    struct sl_metrics metrics = {.stream = stream, .appends = append && (path == NULL || sl_file_stream(path) < 0)};
    *out = (struct sl_metrics){0};
    if (path != NULL) {
        SL_CHECK(open_file(path, metrics.appends, &metrics.file));
    }
    if (path != NULL && metrics.appends) {
        enum sl_status st = drop_unfinished_line(path, metrics.file);
        if (st != SL_OK) {
            fclose(metrics.file);
            return st;
        }
    }
    *out = metrics;
    return SL_OK;
}

/* ---- Going back to a checkpoint ---------------------------------------------------------------------------------- */

/* The position of a line relative to the checkpoint. */
enum position { NEITHER, BEFORE, BEYOND };

/* The scan of a file's lines. */
struct scan {
    uint64_t n_epochs, n_steps; /* of the checkpoint */
    bool begins;                /* no step or epoch since the last config */
    /* Offset of the first line beyond the checkpoint after the last line before it. SIZE_MAX: none. */
    size_t cut;
};

static bool is_event(const json_t *line, const char *event)
{
    return strcmp(sl_text_or(json_string_value(json_object_get(line, "event")), ""), event) == 0;
}

static uint64_t count_in(const json_t *line, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(line, key));
}

static enum position position_of(const struct scan *scan, const json_t *line)
{
    if (is_event(line, "step")) {
        return count_in(line, "step") < scan->n_steps ? BEFORE : BEYOND;
    }
    if (is_event(line, "epoch")) { /* epoch 0 is an evaluation at the end, like the summary */
        uint64_t epoch = count_in(line, "epoch");
        return epoch > 0 && epoch <= scan->n_epochs ? BEFORE : BEYOND;
    }
    return is_event(line, "summary") ? BEYOND : NEITHER;
}

/* A config followed by the first step or the first epoch starts a run. All lines before are of earlier runs. */
static bool starts_run(struct scan *scan, const json_t *line)
{
    bool step = is_event(line, "step");
    bool epoch = is_event(line, "epoch");
    bool first = (step && count_in(line, "step") == 0) || (epoch && count_in(line, "epoch") == 1);
    bool starts = scan->begins && first;
    scan->begins = is_event(line, "config") || (scan->begins && !step && !epoch);
    return starts;
}

static void scan_line(struct scan *scan, const json_t *line, size_t offset)
{
    enum position position = position_of(scan, line);
    if (starts_run(scan, line) || position == BEFORE) {
        scan->cut = SIZE_MAX;
    }
    if (position == BEYOND && scan->cut == SIZE_MAX) {
        scan->cut = offset;
    }
}

/* A line that is not JSON is ignored. */
static void scan_lines(struct scan *scan, const char *lines, size_t bytes)
{
    for (size_t offset = 0; offset < bytes;) {
        const char *end = memchr(lines + offset, '\n', bytes - offset);
        size_t next = end != NULL ? (size_t)(end - lines) + 1 : bytes;
        json_t *line = json_loadb(lines + offset, next - offset, 0, NULL);
        scan_line(scan, line, offset);
        json_decref(line);
        offset = next;
    }
}

enum sl_status sl_metrics_rewind(struct sl_metrics *metrics, uint64_t n_epochs, uint64_t n_steps)
{
    FILE *file = metrics->file;
    struct scan scan = {.n_epochs = n_epochs, .n_steps = n_steps, .cut = SIZE_MAX};
    struct stat about;
    SL_FREED char *lines = NULL;
    if (file == NULL || !metrics->appends || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        return SL_OK;
    }
    size_t bytes = (size_t)about.st_size;
    SL_CHECK(sl_alloc(bytes, 1, "the metrics so far", &lines));
    SL_FAIL_IF(fseek(file, 0, SEEK_SET) != 0 || fread(lines, 1, bytes, file) != bytes, SL_EIO,
               "cannot read the metrics so far: %s", strerror(errno));
    scan_lines(&scan, lines, bytes);
    SL_FAIL_IF((scan.cut < bytes && ftruncate(fileno(file), (off_t)scan.cut) != 0) || fseek(file, 0, SEEK_END) != 0,
               SL_EIO, "cannot cut the metrics back to the checkpoint: %s", strerror(errno));
    return SL_OK;
}

/* ---- Closing ----------------------------------------------------------------------------------------------------- */

enum sl_status sl_metrics_close(struct sl_metrics *metrics)
{
    FILE *file = metrics->file;
    *metrics = (struct sl_metrics){0};
    bool lost = file != NULL && fflush(file) != 0;
    if (file != NULL) {
        flock(fileno(file), LOCK_UN); /* a forked child keeps the file open, and would keep the lock */
        lost = fclose(file) != 0 || lost;
    }
    SL_FAIL_IF(lost, SL_EIO, "cannot write the metrics: %s", strerror(errno));
    return SL_OK;
}

uint64_t sl_metrics_peak_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
