/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The format of StarPU 1.4's models: numbers, and comments from # to the end of the line. */
#include "tasks/perfmodel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"

#define MOST_BYTES ((size_t)64 << 20)
#define REGRESSION_NUMBERS 12 /* before the number of coefficients */
#define ENTRY_NUMBERS 7       /* after the hash */

/* The next word. Its end is a blank, or the end of the text. */
static const char *find_word(const char *p)
{
    while (isspace((unsigned char)*p) || *p == '#') {
        p += *p == '#' ? strcspn(p, "\n") : 1;
    }
    return p;
}

/* Read n numbers, and keep the last. NULL: there is another word, or none. */
static const char *read_numbers(const char *p, unsigned n, double *last_out)
{
    for (; n > 0 && p != NULL; n--) {
        char *end;
        p = find_word(p);
        *last_out = strtod(p, &end);
        p = end > p && (*end == '\0' || isspace((unsigned char)*end)) ? end : NULL;
    }
    return p;
}

/* A hash and the numbers of an entry. */
static const char *read_entry(const char *p)
{
    double last;
    p = find_word(p);
    size_t n = strspn(p, "0123456789abcdef");
    return n > 0 ? read_numbers(p + n, ENTRY_NUMBERS, &last) : NULL;
}

/* *known_out false: there are coefficients, and the rest is not of our operations. */
static const char *read_implementation(const char *p, bool *known_out)
{
    double n_entries;
    double n_coefficients;
    double last;
    p = read_numbers(p, 1, &n_entries);
    p = read_numbers(p, REGRESSION_NUMBERS, &last);
    p = read_numbers(p, 1, &n_coefficients);
    *known_out = p == NULL || n_coefficients == 0;
    for (double i = 0; p != NULL && *known_out && i < n_entries; i++) {
        p = read_entry(p);
    }
    return p;
}

/* Whether StarPU can read the text. */
static bool is_whole(const char *p)
{
    double n_combinations;
    bool known = true;
    p = read_numbers(p, 2, &n_combinations); /* the first is the version */
    for (double c = 0; p != NULL && known && c < n_combinations; c++) {
        double n_devices;
        double n_implementations = 0;
        double last;
        p = read_numbers(p, 1, &n_devices);
        for (double d = 0; p != NULL && d < n_devices; d++) {
            p = read_numbers(p, 3, &last);
        }
        p = read_numbers(p, 1, &n_implementations);
        for (double i = 0; p != NULL && known && i < n_implementations; i++) {
            p = read_implementation(p, &known);
        }
    }
    return p != NULL;
}

/* Wait until no process writes the file: StarPU locks it meanwhile. A file system without locks is no failure. */
static void await_writers(const char *path)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        fcntl(file, F_SETLKW, &lock);
        close(file);
    }
}

enum sl_status sl_perfmodel_check(const struct starpu_perfmodel *model)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char path[PATH_MAX] = "";
    char *text = NULL;
    size_t bytes;
    if (model == NULL || model->is_loaded) {
        return SL_OK;
    }
    starpu_perfmodel_get_model_path(model->symbol, path, sizeof path);
    if (path[0] == '\0') {
        return SL_OK;
    }
    await_writers(path);
    enum sl_status st = sl_file_read(path, MOST_BYTES, &text, &bytes);
    if (st == SL_ENOMEM) {
        return st;
    }
    bool whole = st == SL_OK && is_whole(text) && access(path, W_OK) == 0;
    sl_free(text);
    SL_FAIL_IF(
        !whole && unlink(path) != 0 && errno != ENOENT, SL_EIO,
        "%s: found a performance model that StarPU cannot read or replace, and cannot remove it: %s; remove it, or "
        "set $STARPU_HOME to another folder",
        path, strerror(errno));
    if (!whole && !atomic_flag_test_and_set(&told)) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: StarPU cannot read or replace this performance model: removed, as are others like it; StarPU "
                  "measures their tasks again",
                  path);
    }
    return SL_OK;
}
