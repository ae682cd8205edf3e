/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors */
#include "data/generate/world.h"

#include <math.h>
#include <stdlib.h>

#include "support/compare.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/random.h"

#define POPULARITY_EXPONENT 1.35 /* of the Pareto law */
#define MAX_POPULARITY 6000
#define ACTIVITY_SIGMA 0.9 /* of the log-normal law */

enum sl_status sl_world_shuffle(const struct sl_recipe *recipe, uint32_t choice, uint32_t n, uint32_t **out)
{
    struct sl_draw draw = sl_world_draw(recipe, choice);
    SL_FREED struct sl_ticket *tickets = NULL;
    SL_CHECK(sl_alloc(n, sizeof *tickets, "the generator's order", &tickets));
    for (uint32_t i = 0; i < n; i++) {
        tickets[i] = (struct sl_ticket){.key = sl_random_u64(&draw, i, 0), .item = i};
    }
    qsort(tickets, n, sizeof *tickets, sl_order_tickets);
    SL_CHECK(sl_alloc(n, sizeof **out, "the generator's order", out));
    for (uint32_t i = 0; i < n; i++) {
        (*out)[i] = tickets[i].item;
    }
    return SL_OK;
}

struct sl_home sl_world_home(const struct sl_world *world, uint32_t place)
{
    struct sl_home home = {.class = sl_range_of(world->class_first, world->recipe->n_classes, place)};
    uint32_t begin = world->class_first[home.class];
    uint64_t size = world->class_first[home.class + 1] - begin;
    uint64_t n_topics = world->topic_first[home.class + 1] - world->topic_first[home.class];
    uint64_t t = ((uint64_t)(place - begin + 1) * n_topics - 1) / size;
    home.topic = world->topic_first[home.class] + (uint32_t)t;
    home.topic_begin = begin + (uint32_t)(size * t / n_topics);
    home.topic_end = begin + (uint32_t)(size * (t + 1) / n_topics);
    return home;
}

double sl_world_popularity(double u)
{
    return fmin(pow(u, -1 / POPULARITY_EXPONENT), MAX_POPULARITY);
}

double sl_world_activity(double u)
{
    return exp(ACTIVITY_SIGMA * sl_normal_quantile(u));
}

void sl_world_share_edges(const struct sl_writers *writers, uint64_t *first_edge)
{
    uint64_t n = writers->n;
    uint64_t base = writers->n_edges >= n; /* an edge for each, if there are enough */
    uint64_t shared = 0;
    uint64_t before = 0;
    double whole = 0;
    double sum = 0;
    uint64_t *degree = first_edge + 1;
    for (uint64_t v = 0; v < n; v++) {
        whole += writers->activity(writers->context, (sl_vertex)v);
    }
    for (uint64_t v = 0; v < n; v++) {
        sum += writers->activity(writers->context, (sl_vertex)v);
        uint64_t upto = (uint64_t)((double)(writers->n_edges - base * n) * (sum / whole));
        degree[v] = sl_min_u64(base + upto - before, writers->most);
        before = upto;
        shared += degree[v];
    }
    for (uint64_t v = 0; shared < writers->n_edges; v = (v + 1) % n) {
        bool room = degree[v] < writers->most;
        degree[v] += room;
        shared += room;
    }
    first_edge[0] = 0;
    for (uint64_t v = 0; v < n; v++) {
        degree[v] += first_edge[v];
    }
}

uint32_t sl_world_pick(const double *popularity, uint32_t begin, uint32_t end, double u)
{
    const double *p = popularity;
    double x = p[begin] + u * (p[end] - p[begin]);
    uint32_t low = begin;
    uint32_t high = end;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p[middle] <= x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}
