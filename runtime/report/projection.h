/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The time of an epoch on P devices of a cluster, from what runs have shown (runtime/report/measured.h) and what messages take
 * there. A device has one PE, a machine `per_machine` devices and one process, a rank. Four ways to train:
 *
 *   independent   each PE samples on its own; the gradients of all are summed (--group-size 1)
 *   gossip        the same; each PE has its model, which it mixes with one other's a step (--sync dissemination)
 *   machine       the PEs of a machine cooperate on one minibatch; the machines' gradients are summed (--group-size
 *                 per_machine)
 *   cooperative   all PEs cooperate on one minibatch (--group-size P)
 *
 * A step trains on B seeds a PE, or, where an epoch has not that many, on all of its seeds. In what follows n is a group's
 * seeds.
 *
 * Counts. V_h(n), vertices of hop h, and E_h(n), edges, of a group's step: measured where a run had groups of n seeds, however
 * many PEs it had, as P PEs that cooperate sample what one does with P times the seeds. Between two measured n the logarithm
 * of a count is linear in that of n. Below the first it is proportional to n: the least that a count can be which is concave,
 * with V(0) = 0. Beyond the last it is on the line through the last two, or with one run proportional to n: the most that it
 * can be, as V(PB) <= P V(B). A count is at most that of the graph.
 * Rows that cooperating PEs send each other: a share s(G) of what would be sent if each edge brought a row of its own from
 * elsewhere, treated in the same way over G, and at most all of it. Ids and gradients of rows keep the proportion to rows
 * that they had in the run of the largest group.
 *
 * Work, in seconds of a device like the first run's: stage seconds of the first run over its units, times the units of the
 * projected epoch, all stages scaled alike so that the first run's idle time is in it.
 *
 *   sample     edges                              exchange   bytes between PEs (of the first run that exchanged)
 *   gather     input rows, all of them, though    loss       seeds
 *              of some only means are taken
 *   aggregate  edges by columns of the sources    sync       PEs and steps
 *   dense,     vertices by columns in and out     optimise   models and steps: with gossip one of each PE, else of each machine
 *   backward
 *
 * What a PE's step takes however small it is, is fitted to the runs of one process whose PEs made ten times the steps of the
 * first's or more, by least squares through the first run: without such a run it is taken to be 0. Work is spread evenly;
 * where fewer processors than devices are there, they share it.
 *
 * Messages, between machines those of the program (runtime/exchange/mpi.c), in one rank's step; o: a PE's partners elsewhere.
 * None is taken to be hidden behind work.
 *
 *   links      in the order in which they wait for each other, each a latency: requests and rows of each hop, gradients of all
 *              hops but the input's, counts; the sums
 *   messages   of each PE one request a hop to each other machine of its group, and to o partners rows of each hop and
 *              gradients of all but the input's; and, but with gossip, its counts to each other machine, and of each machine
 *              whether it wants to stop
 *   bytes      all of the group's, of which partners elsewhere get o / (G - 1), by the machine's own link; rows that stay go by
 *              the link inside
 *   sums       a chain: each machine adds its gradients to those of the one before, an array at a time, and the last sends each
 *              array to all. Gossip: each PE sends its arrays to a partner, which is elsewhere for P - D of P - 1
 */
#ifndef SL_RUNTIME_REPORT_PROJECTION_H
#define SL_RUNTIME_REPORT_PROJECTION_H

#include "runtime/machine/messages.h"
#include "runtime/report/measured.h"

struct sl_cluster {
    uint32_t per_machine; /* devices of each; D */
    double slowness;      /* seconds of a device for what takes the measured one a second */
    uint32_t processors;  /* that serve all devices; 0: as many as there are */
    struct sl_link inside, between;
};

enum sl_project_mode {
    SL_PROJECT_INDEPENDENT,
    SL_PROJECT_GOSSIP,
    SL_PROJECT_MACHINE,
    SL_PROJECT_COOPERATIVE,
    SL_N_PROJECT_MODES
};

/* What an epoch's seconds are made of. */
enum sl_project_part {
    SL_PROJECT_WORK,
    SL_PROJECT_FIXED,    /* work of a PE's step however small */
    SL_PROJECT_LINKS,    /* latencies of messages that wait for each other */
    SL_PROJECT_MESSAGES, /* a rank's messages, one after the other */
    SL_PROJECT_BYTES,
    SL_PROJECT_SUMS, /* of gradients, or gossip's exchange */
    SL_N_PROJECT_PARTS
};

struct sl_projected {
    double n_steps;
    double seeds; /* of all PEs' step, on average */
    double input_rows;
    double between_bytes; /* that leave all machines in an epoch */
    double part_s[SL_N_PROJECT_PARTS];
    double seconds;
    bool measured; /* groups of that many seeds, and PEs, were among the runs or between them */
};

/* Of which all projections are made. */
struct sl_projection {
    struct sl_measured run[SL_MAX_MEASURED];
    uint32_t n_runs;
    uint32_t batch_size;             /* B */
    double rate_s[SL_N_STAGES];      /* of a unit */
    double fixed_s;                  /* of a PE's step; 0: not known */
    double id_share, gradient_share; /* of bytes of rows */
    bool exchanged;                  /* a run had groups of several PEs: else nothing is known of them */
};

/* Prepare from runs (n_runs and run are set) and B (0: the first run's). SL_EINVAL: the first run was of several processes,
 * whose stage seconds are those of processors that wait, or of bytes that no run had. */
enum sl_status sl_projection_make(struct sl_projection *projection, uint32_t batch_size);

/* One epoch on P devices, P a multiple of per_machine. SL_EINVAL: groups of several PEs were not measured; there are more PEs
 * than training vertices. */
enum sl_status sl_projection_epoch(const struct sl_projection *projection, const struct sl_cluster *cluster,
                                   enum sl_project_mode mode, uint32_t n_devices, struct sl_projected *out);

/* "independent", "gossip", .. */
extern const char *const sl_project_modes[SL_N_PROJECT_MODES];
/* "work", "fixed", .. */
extern const char *const sl_project_parts[SL_N_PROJECT_PARTS];

#endif
