/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Limits, OpenBLAS's threads, and hwloc's plugins. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setattr_default_np */
#endif
#include "apps/start.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/starling.h"

#define STACK_BYTES ((size_t)2 << 20)
#define ROOM_BYTES ((size_t)32 << 20) /* for libraries and settings, until the run's own needs are known */

/* OpenBLAS has a function of this name, and calls it at load time for its number of threads. The definition in the
 * program takes precedence. Starling needs no thread of OpenBLAS's own. Such a thread maps memory when it starts, and
 * retries for ever if there is none. */
__attribute__((visibility("default"))) int openblas_num_threads_env(void);
int openblas_num_threads_env(void)
{
    return 1;
}

struct call {
    int (*body)(int argc, char **argv);
    int argc;
    char **argv;
    int code;
};

static void *call_body(void *argument)
{
    struct call *call = argument;
    call->code = call->body(call->argc, call->argv);
    return NULL;
}

static bool has_room(void)
{
    void *trial = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED) {
        return false;
    }
    munmap(trial, ROOM_BYTES);
    return true;
}

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Without memory, constructors of libraries crash. This check runs before them. */
__attribute__((unused)) static void check_room(int argc, char **argv)
{
    if (!has_room()) {
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        say(slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "starling");
        say(": expected 32 MiB of address space to start with, found less; raise 'ulimit -v' or '-d'\n");
        _exit(1);
    }
}

/* Sanitizers are not set up yet, and map terabytes. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((section(".preinit_array"), used)) static void (*const at_first)(int, char **) = check_room;
#endif

/* Whether the main thread's stack may grow so far. */
static bool has_stack(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= STACK_BYTES;
}

static bool start_thread(struct call *call, pthread_t *out)
{
    pthread_attr_t attributes;
    bool good = pthread_attr_init(&attributes) == 0;
    if (good) {
        good = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
               pthread_setattr_default_np(&attributes) == 0 && /* for helpers */
               pthread_create(out, &attributes, call_body, call) == 0;
        pthread_attr_destroy(&attributes);
    }
    return good;
}

int start_program(const char *program, int (*body)(int argc, char **argv), int argc, char **argv)
{
    struct call call = {.body = body, .argc = argc, .argv = argv};
    pthread_t thread;
    sl_streams_open();
    signal(SIGXFSZ, SIG_IGN);
    /* These plugins look for X servers and read foreign XML. Their libraries, of no use here, take 2 MB of memory. */
    setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_gl.so,hwloc_xml_libxml.so", 0);
    if (has_stack()) {
        return body(argc, argv);
    }
    if (!start_thread(&call, &thread)) {
        fprintf(stderr,
                "%s: 'ulimit -s' is below %zu kB, and the system gives no thread with a larger stack; raise "
                "'ulimit -s', or '-u'\n",
                program, STACK_BYTES >> 10);
        return 1;
    }
    pthread_join(thread, NULL);
    return call.code;
}
