/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A slow network between network namespaces of this machine, for kernels without `tc netem`. It opens a device `wire`
 * in each namespace and carries the IP packets between the devices. The last byte of an address is the number of the
 * namespace, from 1. A packet waits for its sender's cable, then for its receiver's cable; each carries MBIT millions
 * of bits a second in each direction. Then it travels for DELAY ms. A queue of more than 8 MB drops packets, as a
 * switch does. Runs until it is killed; prints "ready" first.
 *
 * usage: wire DELAY MBIT NAMESPACE ... */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setns, ppoll */
#endif
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MAX_ENDS 16
#define MAX_PACKET 65536
#define MAX_QUEUE (8 << 20)

struct packet {
    struct packet *next;
    double due;
    size_t bytes;
    uint8_t data[];
};

/* One namespace's device, and the packets on their way to it, in the order of their arrival. */
struct end {
    double out_free, in_free; /* when its cable has carried what it took so far */
    struct packet *first, **last;
    size_t queued;
};

static struct end ends[MAX_ENDS];
static struct pollfd polled[MAX_ENDS];
static int n_ends;
static double delay, seconds_per_byte;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void die(const char *text)
{
    perror(text);
    exit(1);
}

static int open_device(const char *namespace)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI, .ifr_name = "wire"};
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        die(path);
    }
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) {
        die("/dev/net/tun");
    }
    return device;
}

/* Take all packets that wait at a device, and find out when they arrive. */
static void take(int from, double time)
{
    static uint8_t data[MAX_PACKET];
    ssize_t got;
    while ((got = read(polled[from].fd, data, sizeof data)) > 0) {
        size_t bytes = (size_t)got;
        if (bytes < 20 || data[0] >> 4 != 4 || data[19] < 1 || data[19] > n_ends) {
            continue; /* not for a namespace: IPv6's search for routers, for one */
        }
        struct end *to = &ends[data[19] - 1];
        if (to->queued + bytes > MAX_QUEUE) {
            continue;
        }
        double carry = (double)bytes * seconds_per_byte;
        ends[from].out_free = later(ends[from].out_free, time) + carry;
        to->in_free = later(to->in_free + carry, ends[from].out_free);
        struct packet *packet = malloc(sizeof *packet + bytes);
        if (packet == NULL) {
            die("wire");
        }
        *packet = (struct packet){.due = to->in_free + delay, .bytes = bytes};
        memcpy(packet->data, data, bytes);
        *to->last = packet;
        to->last = &packet->next;
        to->queued += bytes;
    }
}

/* Deliver the packets that are due. Returns when the next one is. */
static double deliver(double time)
{
    double next = time + 1;
    for (int i = 0; i < n_ends; i++) {
        struct end *to = &ends[i];
        while (to->first != NULL && to->first->due <= time) {
            struct packet *packet = to->first;
            if (write(polled[i].fd, packet->data, packet->bytes) < 0) {
                /* the device is down: the packet is lost, as on a cable */
            }
            to->queued -= packet->bytes;
            to->first = packet->next;
            to->last = to->first == NULL ? &to->first : to->last;
            free(packet);
        }
        next = to->first != NULL && to->first->due < next ? to->first->due : next;
    }
    return next;
}

int main(int argc, char **argv)
{
    n_ends = argc - 3;
    if (n_ends < 2 || n_ends > MAX_ENDS || atof(argv[1]) < 0 || atof(argv[2]) <= 0) {
        fprintf(stderr, "usage: wire DELAY MBIT NAMESPACE ...: 2 to %d namespaces\n", MAX_ENDS);
        return 2;
    }
    delay = atof(argv[1]) / 1e3;
    seconds_per_byte = 8 / (atof(argv[2]) * 1e6);
    for (int i = 0; i < n_ends; i++) {
        polled[i] = (struct pollfd){.fd = open_device(argv[3 + i]), .events = POLLIN};
        ends[i].last = &ends[i].first;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        double wait = later(deliver(now()) - now(), 0);
        struct timespec limit = {.tv_sec = (time_t)wait, .tv_nsec = (long)(1e9 * (wait - (double)(time_t)wait))};
        if (ppoll(polled, (nfds_t)n_ends, &limit, NULL) < 0) {
            die("poll");
        }
        double time = now();
        for (int i = 0; i < n_ends; i++) {
            if (polled[i].revents & POLLIN) {
                take(i, time);
            }
        }
    }
}
