/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * JSON lines. */
#include "apps/report/jsonl.h"

#include <string.h>

#include "support/file.h"
#include "support/memory.h"

bool sl_jsonl_is(const json_t *line, const char *event)
{
    const char *found = json_string_value(json_object_get(line, "event"));
    return found != NULL && strcmp(found, event) == 0;
}

enum sl_status sl_jsonl_read(const char *path, enum sl_status (*take)(void *context, json_t *line), void *context)
{
    char *text = NULL;
    size_t bytes;
    enum sl_status st = sl_file_read(path, SIZE_MAX - 1, &text, &bytes);
    for (size_t offset = 0; st == SL_OK && offset < bytes;) {
        const char *end = memchr(text + offset, '\n', bytes - offset);
        size_t next = bytes;
        if (end != NULL) {
            next = (size_t)(end - text) + 1;
        }
        json_t *line = json_loadb(text + offset, next - offset, 0, NULL);
        if (line != NULL) {
            st = take(context, line);
        }
        json_decref(line);
        offset = next;
    }
    sl_free(text);
    return st;
}
