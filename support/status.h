/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Status codes and error messages.
 *
 * Every function that can fail returns an enum sl_status: 0 is success, negative values are errors, no value is
 * positive. The function that detects an error also writes the message of the calling thread: one line with the
 * expected value, the found value, and a remedy. Its callers pass the status on unchanged. The library never prints
 * or exits.
 */
#ifndef SL_SUPPORT_STATUS_H
#define SL_SUPPORT_STATUS_H

enum sl_status {
    SL_OK = 0,
    SL_EINVAL = -1,     /* an argument or option is out of range, or two contradict each other */
    SL_EFILE = -2,      /* the contents of a file are wrong */
    SL_ENOMEM = -3,     /* not enough memory */
    SL_EIO = -4,        /* the operating system failed to open, read, write or rename a file */
    SL_ENOTSUP = -5,    /* not supported by this build or by its StarPU */
    SL_ENODEV = -6,     /* no worker or device for the work */
    SL_ESTARPU = -7,    /* StarPU refused a task or a handle */
    SL_EMETIS = -8,     /* METIS failed */
    SL_EINTERRUPT = -9, /* a signal asked to stop */
    SL_ENUMERIC = -10,  /* a loss or a gradient is not finite */
    SL_EINTERNAL = -11, /* a bug in Starling */
    SL_ENOTFOUND = -12, /* a named dataset or checkpoint does not exist; the caller may have an alternative */
    SL_ECUDA = -13,     /* CUDA or one of its libraries failed */
    SL_ENCCL = -14      /* NCCL failed or timed out */
};

#define SL_MESSAGE_BYTES 1024

/* Marks the public functions. All other symbols of the library are hidden. */
#ifdef __GNUC__
#define SL_API __attribute__((visibility("default")))
#else
#define SL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Write the calling thread's message (printf rules, cut at SL_MESSAGE_BYTES - 1) and return `status`. Control
 * characters become question marks, so the message is one line; the format must not end in a newline. Thread safe. */
enum sl_status sl_fail(enum sl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's last message; "" before the first failure. Valid until the thread's next sl_fail. */
SL_API const char *sl_message(void);

/* The kind of a line for the user while a run goes on. */
enum sl_notice {
    SL_NOTICE_WARNING,  /* the run is not what the user may expect; to be shown even when quiet */
    SL_NOTICE_PROGRESS, /* a long piece of work begins, or a file was written */
};

/* Hand one line to the program's hook (printf rules; control characters become question marks). Without a hook the line
 * is dropped. The thread's message stays. Thread safe. */
void sl_notify(enum sl_notice kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Register the hook for notices; NULL, the default, drops them. Each process of a run has its own notices. Call it
 * before any session; not thread safe. */
SL_API void sl_on_notice(void (*hook)(enum sl_notice kind, const char *line));

/* The name of a status in words ("bad file"). Never NULL. */
SL_API const char *sl_status_name(enum sl_status status);

#ifdef __cplusplus
}
#endif

/* Return a failure with a message (sl_fail) if the condition holds. */
#define SL_FAIL_IF(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            return sl_fail(__VA_ARGS__);                                                                               \
        }                                                                                                              \
    } while (0)

/* Return the status of `call` unless it is SL_OK. */
#define SL_CHECK(call)                                                                                                 \
    do {                                                                                                               \
        const enum sl_status sl_check_status = (call);                                                                 \
        if (sl_check_status != SL_OK) {                                                                                \
            return sl_check_status;                                                                                    \
        }                                                                                                              \
    } while (0)

/* Assign the status of `call` to `st`, and jump to `label` unless it is SL_OK. */
#define SL_TRY(st, call, label)                                                                                        \
    do {                                                                                                               \
        (st) = (call);                                                                                                 \
        if ((st) != SL_OK) {                                                                                           \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

#endif
