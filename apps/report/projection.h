/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The time of an epoch on P devices of a cluster, projected from measured runs (apps/report/measured.h) and the
 * cost of messages. A device has one PE. A machine has D = `per_machine` devices and one process, a rank. There are
 * four modes:
 *
 *   independent   each PE samples on its own; the gradients of all are summed (--group-size 1)
 *   gossip        each PE samples on its own and has its own model, and mixes it with one other model per step
 *                 (--sync dissemination)
 *   machine       the PEs of a machine cooperate on one minibatch; the machines' gradients are summed (--group-size D)
 *   cooperative   all PEs cooperate on one minibatch (--group-size P)
 *
 * A step trains on B seeds per PE. If an epoch has fewer, the step trains on all of its seeds. Below, n is the
 * number of seeds in a group's step.
 *
 * Counts. V_h(n) and E_h(n) are the vertices and edges of hop h in a group's step. P cooperating PEs sample as one
 * PE with P times the seeds, so any run with groups of n seeds measures both. Between two measured n the logarithm
 * of a count is linear in the logarithm of n. Below the first n a count is proportional to n: the lower bound of a
 * concave count with V(0) = 0. Beyond the last n it lies on the line through the last two points, or with one run
 * is proportional to n: the upper bound, since V(PB) <= P V(B). No count is above the graph's.
 *
 * Rows. Cooperating PEs send each other a fraction s(G) of one row per edge. s(G) is interpolated over G like the
 * counts, and is at most 1. The bytes of ids and row gradients keep their proportion to the bytes of rows in the
 * run with the largest groups.
 *
 * Work, in seconds of a device like the first run's. A time category takes the first run's seconds per unit times
 * the units of the projected epoch. All categories are scaled alike, so that the first run's idle time is included. The
 * units are
 *
 *   sample              edges
 *   exchange            bytes between PEs (rate of the first run that exchanged)
 *   gather              input rows, even if the model needs only means of some of them
 *   aggregate           edges by columns of the sources
 *   dense, backward     vertices by columns in and out
 *   loss                seeds
 *   sync                PEs and steps
 *   optimise            models and steps; gossip has one model per PE, the other modes one per machine
 *
 * The fixed cost of a PE's step is fitted by least squares through the first run. The fit uses the runs of one
 * process whose PEs made at least ten times the first run's steps. Without such a run the fixed cost is 0. Work is
 * spread evenly over the devices. If `processors` is smaller than P, the devices share the processors.
 *
 * Messages between machines follow runtime/exchange/mpi.c, for one rank in a step. o is a PE's number of
 * partners on other machines. No message counts as hidden behind work.
 *
 *   links      one latency for each message that waits for another: requests and rows of each hop, gradients of
 *              all hops but the input's, counts
 *   messages   the number of messages. A PE sends one request per hop to each other machine of its group. It sends
 *              o partners the rows of each hop, and the gradients of all hops but the input's. Without gossip it
 *              sends its counts to each other machine, and its machine sends its wish to stop.
 *   bytes      the group's bytes. The fraction o / (G - 1) goes over the machine's own link, the rest over the link
 *              inside.
 *   sums       a chain: each machine adds its gradients to the sum of the machine before it, array by array. The
 *              last machine sends each array to all other machines. Gossip: each PE sends its arrays to one partner;
 *              P - D of P - 1 partners are on another machine.
 */
#ifndef SL_APPS_REPORT_PROJECTION_H
#define SL_APPS_REPORT_PROJECTION_H

#include "apps/report/measured.h"
#include "runtime/machine/messages.h"

struct sl_cluster {
    uint32_t per_machine; /* D */
    /* Seconds that a device takes for one second of work of the measured device. */
    double slowness;
    uint32_t processors; /* shared by all devices; 0: one per device */
    struct sl_link inside, between;
};

enum sl_project_mode {
    SL_PROJECT_INDEPENDENT,
    SL_PROJECT_GOSSIP,
    SL_PROJECT_MACHINE,
    SL_PROJECT_COOPERATIVE,
    SL_N_PROJECT_MODES
};

/* The parts of an epoch's seconds. */
enum sl_project_part {
    SL_PROJECT_WORK,
    SL_PROJECT_FIXED,    /* fixed cost of a PE's step */
    SL_PROJECT_LINKS,    /* latencies of messages that wait for each other */
    SL_PROJECT_MESSAGES, /* a rank's messages, one after another */
    SL_PROJECT_BYTES,
    SL_PROJECT_SUMS, /* sums of gradients, or gossip's exchange */
    SL_N_PROJECT_PARTS
};

struct sl_projected {
    double n_steps;
    double seeds; /* mean over the steps, all PEs together */
    double input_rows;
    double between_bytes; /* between machines, in an epoch */
    double part_s[SL_N_PROJECT_PARTS];
    double seconds;
    /* Seeds per group and group size are within the range of the measured runs. */
    bool measured;
};

/* The input of all projections. */
struct sl_projection {
    struct sl_measured run[SL_MAX_MEASURED];
    uint32_t n_runs;
    uint32_t batch_size;             /* B */
    double rate_s[SL_N_STAGES];      /* per unit */
    double fixed_s;                  /* per PE and step; 0: unknown */
    double id_share, gradient_share; /* relative to bytes of rows */
    /* A run had groups of several PEs. Otherwise the exchange between PEs is unknown. */
    bool exchanged;
};

/* Prepare from the runs; the caller has set run and n_runs. batch_size: B; 0: the first run's. SL_EINVAL: the first
 * run had several processes, so that its task seconds contain waits for each other. */
enum sl_status sl_projection_make(struct sl_projection *projection, uint32_t batch_size);

/* Project one epoch on P devices. SL_EINVAL: P is not a multiple of per_machine; groups of several PEs were not
 * measured; there are more devices than training vertices. */
enum sl_status sl_projection_epoch(const struct sl_projection *projection, const struct sl_cluster *cluster,
                                   enum sl_project_mode mode, uint32_t n_devices, struct sl_projected *out);

/* "independent", "gossip", .. */
extern const char *const sl_project_modes[SL_N_PROJECT_MODES];
/* "work", "fixed", .. */
extern const char *const sl_project_parts[SL_N_PROJECT_PARTS];

#endif
