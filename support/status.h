/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Status codes and the message that goes with them.
 *
 * Every function of Starling that can fail returns an enum sl_status: 0 is success, negative values are errors, nothing is
 * positive. The function that turns a condition into a status also writes the calling thread's message (one line: what was
 * expected, what was found, what to try). Its callers pass the status on and add nothing. The library never prints or exits.
 */
#ifndef SL_SUPPORT_STATUS_H
#define SL_SUPPORT_STATUS_H

enum sl_status {
    SL_OK = 0,
    SL_EINVAL = -1,     /* an argument or option is out of range, or two of them contradict each other */
    SL_EFILE = -2,      /* a file does not hold what it should */
    SL_ENOMEM = -3,     /* memory could not be had */
    SL_EIO = -4,        /* the operating system refused to open, read, write or rename */
    SL_ENOTSUP = -5,    /* this build, or the StarPU it is linked with, cannot do it */
    SL_ENODEV = -6,     /* no worker or device for it */
    SL_ESTARPU = -7,    /* StarPU refused a task or a handle */
    SL_EMETIS = -8,     /* METIS gave up */
    SL_EINTERRUPT = -9, /* a signal asked to stop */
    SL_ENUMERIC = -10,  /* a loss or a gradient is not a finite number */
    SL_EINTERNAL = -11, /* a bug of ours */
    SL_ENOTFOUND = -12, /* a named thing (a dataset, a checkpoint) is nowhere; callers may have another way */
    SL_ECUDA = -13,     /* CUDA, or one of its libraries, failed */
    SL_ENCCL = -14      /* NCCL failed, or took too long */
};

#define SL_MESSAGE_BYTES 1024

/* What a program may call; everything else of the library is hidden from it. */
#ifdef __GNUC__
#define SL_API __attribute__((visibility("default")))
#else
#define SL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Write the calling thread's message (printf rules, cut at SL_MESSAGE_BYTES - 1) and return `status`. The message is one line whatever
 * is put into it: control characters become question marks.
 * Thread safe. A format that ends in a newline is a mistake. */
enum sl_status sl_fail(enum sl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's last message; "" before the first failure. Valid until the thread's next sl_fail. */
SL_API const char *sl_message(void);

/* A line for the program's user while a run goes on. */
enum sl_notice {
    SL_NOTICE_WARNING,  /* the run is not what the user may think: show it even when quiet */
    SL_NOTICE_PROGRESS, /* a long piece of work begins */
};

/* Hand one line to the program's hook, made as sl_fail makes its message. Without a hook the line is dropped. The thread's message
 * stays. Thread safe. */
void sl_notify(enum sl_notice kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Register the hook for such lines; NULL, the default, drops them. In a run of several processes each process hands out its own.
 * Before any session; not thread safe. */
SL_API void sl_on_notice(void (*hook)(enum sl_notice kind, const char *line));

/* The code's name in words ("bad file"), for logs. Never NULL. */
SL_API const char *sl_status_name(enum sl_status status);

#ifdef __cplusplus
}
#endif

/* Assign the call's status to `st` and jump to `label` unless it is SL_OK. */
#define SL_TRY(st, call, label)                                                                                        \
    do {                                                                                                               \
        (st) = (call);                                                                                                 \
        if ((st) != SL_OK) {                                                                                           \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

#endif
