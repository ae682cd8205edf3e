/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Messages by thread. */
#include "support/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "support/decimal.h"

static _Thread_local char message[SL_MESSAGE_BYTES];

static void (*notice_hook)(enum sl_notice kind, const char *line);

/* A file's name may hold any control character. */
static void print_line(char *out, const char *format, va_list args)
{
    vsnprintf(out, SL_MESSAGE_BYTES, format, args);
    for (unsigned char *c = (unsigned char *)out; *c != '\0'; c++) {
        *c = *c < ' ' || *c == 0x7f ? '?' : *c;
    }
}

enum sl_status sl_fail(enum sl_status status, const char *format, ...)
{
    char text[SL_MESSAGE_BYTES]; /* an argument may be the old message */
    va_list args;
    va_start(args, format);
    print_line(text, format, args);
    va_end(args);
    snprintf(message, sizeof message, "%s", text);
    return status;
}

void sl_notify(enum sl_notice kind, const char *format, ...)
{
    char text[SL_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    print_line(text, format, args);
    va_end(args);
    if (notice_hook != NULL) {
        SL_IN_CALLERS_LOCALE;
        notice_hook(kind, text);
    }
}

void sl_on_notice(void (*hook)(enum sl_notice kind, const char *line))
{
    notice_hook = hook;
}

const char *sl_message(void)
{
    return message;
}

const char *sl_status_name(enum sl_status status)
{
    switch (status) {
    case SL_OK: return "success";
    case SL_EINVAL: return "invalid argument";
    case SL_EFILE: return "bad file";
    case SL_ENOMEM: return "out of memory";
    case SL_EIO: return "input or output failed";
    case SL_ENOTSUP: return "not supported";
    case SL_ENODEV: return "no device";
    case SL_ESTARPU: return "StarPU failed";
    case SL_EMETIS: return "METIS failed";
    case SL_EINTERRUPT: return "interrupted";
    case SL_ENUMERIC: return "not a number";
    case SL_EINTERNAL: return "internal error";
    case SL_ENOTFOUND: return "not found";
    case SL_ECUDA: return "CUDA failed";
    case SL_ENCCL: return "NCCL failed";
    }
    return "unknown status";
}
