/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Normalise, gate and scale rows by teams of lanes, and the adjoint. Column sums go by slabs of rows.
 *
 * A team has a power of two lanes, at most a warp: one lane for each eight columns of a row, or a warp that walks along
 * the row. Each lane draws the dropout mask of eight adjacent columns. But it reads and writes V columns at a time, a
 * team's width apart, so that the accesses of a team are adjacent. It gets its mask bits from the lane that has drawn
 * them. V is 4 if rows are aligned for it, else 1. */
#include "codelets/bf16.cuh"

#include "codelets/rows/activate.h"
#include "codelets/rows/dropout.h"

#define FULL 0xffffffffu
#define STEP 8 /* columns per lane and step */
#define AHEAD 8
#define SLAB_ROWS 32 /* rows whose columns one thread sums; a warp of a block has one slab */

template <typename T, int V> struct alignas(V * sizeof(T)) some {
    T x[V];
};
template <int V> using reals = some<sl_real, V>;

template <int V, typename T> static inline __device__ some<T, V> load(const T *x)
{
    return *reinterpret_cast<const some<T, V> *>(x);
}

template <int V> static inline __device__ reals<V> load(const sl_bf16 *x)
{
    const some<sl_bf16, V> rounded = *reinterpret_cast<const some<sl_bf16, V> *>(x);
    reals<V> wide;
    for (int v = 0; v < V; v++) {
        wide.x[v] = sl_bf16_real(rounded.x[v]);
    }
    return wide;
}

template <int V, typename T> static inline __device__ void store(some<T, V> x, T *to)
{
    *reinterpret_cast<some<T, V> *>(to) = x;
}

template <int V> static inline __device__ void store(reals<V> x, sl_bf16 *to)
{
    some<sl_bf16, V> rounded;
    for (int v = 0; v < V; v++) {
        rounded.x[v] = sl_bf16_of(x.x[v]);
    }
    *reinterpret_cast<some<sl_bf16, V> *>(to) = rounded;
}

/* ---- teams ---- */

struct team {
    uint32_t lanes; /* of the team */
    uint32_t first; /* first lane of the team, in the warp */
    uint32_t lane;  /* this lane, in the team */
};

static inline __device__ struct team this_team(uint32_t lanes)
{
    struct team team = {lanes, sl_lane() & ~(lanes - 1), sl_lane() & (lanes - 1)};
    return team;
}

/* Lanes of a team for rows of n_columns. */
static uint32_t team_lanes(uint32_t n_columns)
{
    uint32_t lanes = 1;
    while (lanes < SL_WARP && STEP * lanes < n_columns) {
        lanes *= 2;
    }
    return lanes;
}

/* The sum over a team, in a fixed order, for every lane. All lanes of the warp must call it. */
static inline __device__ sl_real team_sum(struct team team, sl_real x)
{
    for (uint32_t distance = team.lanes / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(FULL, x, (int)distance);
    }
    return x;
}

/* The lane's k-th group of V columns, among the STEP * lanes columns from c0 on. */
template <int V> static inline __device__ uint32_t column_of(struct team team, uint32_t c0, int k)
{
    return c0 + ((uint32_t)k * team.lanes + team.lane) * V;
}

/* Mean and 1 / standard deviation of a row, by its team. n is 0 for a team without a row. */
template <int V, typename Z>
static inline __device__ struct sl_activate_row row_norm(struct team team, uint32_t n, const Z *z)
{
    sl_real sum = 0;
    sl_real squares = 0;
    for (uint32_t c = team.lane * V; c < n; c += team.lanes * V) {
        reals<V> row = load<V>(z + c);
        for (int v = 0; v < V; v++) {
            sum += row.x[v];
        }
    }
    sl_real mean = team_sum(team, sum) / (sl_real)(n > 0 ? n : 1);
    for (uint32_t c = team.lane * V; c < n; c += team.lanes * V) {
        reals<V> row = load<V>(z + c);
        for (int v = 0; v < V; v++) {
            squares += (row.x[v] - mean) * (row.x[v] - mean);
        }
    }
    return sl_activate_row(mean, team_sum(team, squares) / (sl_real)(n > 0 ? n : 1));
}

/* ---- forward ---- */

/* y of the columns from c on: z itself, or its normalisation. */
template <enum sl_activate_norm norm, int V>
static inline __device__ reals<V> normalise(const struct sl_activate *a, struct sl_activate_row row, uint32_t c,
                                            reals<V> z)
{
    if (norm == SL_ACTIVATE_PLAIN) {
        return z;
    }
    reals<V> weight = load<V>(a->weight + c);
    reals<V> bias = load<V>(a->bias + c);
    reals<V> y;
    if (norm == SL_ACTIVATE_LAYER) {
        for (int v = 0; v < V; v++) {
            y.x[v] = sl_activate_normalise(z.x[v], row.mean, row.rstd, weight.x[v], bias.x[v]);
        }
        return y;
    }
    reals<V> mean = load<V>(a->mean + c);
    reals<V> rstd = load<V>(a->rstd + c);
    for (int v = 0; v < V; v++) {
        y.x[v] = sl_activate_normalise(z.x[v], mean.x[v], rstd.x[v], weight.x[v], bias.x[v]);
    }
    return y;
}

/* An entry of h without the residual, and of a gate of bytes: ReLU and the identity. */
static inline __device__ sl_real activated(enum sl_activate_kind kind, uint8_t keep, sl_real scale, sl_real y,
                                           uint8_t *gate)
{
    *gate = sl_activate_gate(keep, kind == SL_ACTIVATE_IDENTITY, y);
    return sl_activate_pass(*gate, scale, y);
}

/* The same of the other activations. */
static inline __device__ sl_real activated(enum sl_activate_kind kind, uint8_t keep, sl_real scale, sl_real y,
                                           sl_real *gate)
{
    const struct sl_activate_curve curve = sl_activate_curve(kind, y);
    *gate = keep * curve.slope;
    return sl_activate_pass(keep, scale, curve.value);
}

/* keep: bit v belongs to column v. G: stored type of the gate. */
template <int V, typename G, typename H>
static inline __device__ void write_gated(enum sl_activate_kind kind, sl_real scale, reals<V> y, uint32_t keep,
                                          reals<V> residual, G *gate, H *h)
{
    some<G, V> open;
    reals<V> out;
    for (int v = 0; v < V; v++) {
        out.x[v] = activated(kind, keep >> v & 1, scale, y.x[v], &open.x[v]) + residual.x[v];
    }
    store<V>(open, gate);
    store<V>(out, h);
}

/* Z: stored type of z. H: of the residual and h. */
template <enum sl_activate_norm norm, int V, typename Z, typename G, typename H>
static __global__ void forward_kernel(struct sl_activate a, uint32_t lanes, const Z *__restrict__ z,
                                      const H *__restrict__ residual, G *__restrict__ gate, H *__restrict__ h)
{
    const sl_real scale = (sl_real)sl_dropout_scale(a.threshold);
    const struct team team = this_team(lanes);
    const uint32_t n_teams = SL_WARP / lanes;
    for (uint64_t i0 = sl_warp() * n_teams; i0 < a.n_rows; i0 += sl_n_warps() * n_teams) {
        const uint64_t i = i0 + team.first / lanes;
        const uint32_t n = i < a.n_rows ? a.n_columns : 0;
        const size_t base = (size_t)i * a.n_columns;
        const uint32_t vertex = a.threshold > 0 && n > 0 ? a.dataset_ids[a.ids[i]] : 0;
        struct sl_activate_row row = {0, 1};
        if (norm == SL_ACTIVATE_LAYER) {
            row = row_norm<V>(team, n, z + base);
        }
        for (uint32_t c0 = 0; c0 < a.n_columns; c0 += STEP * lanes) {
            reals<V> x[STEP / V] = {};
            reals<V> r[STEP / V] = {};
            for (int k = 0; k < STEP / V; k++) {
                uint32_t c = column_of<V>(team, c0, k);
                if (c < n) {
                    x[k] = load<V>(z + base + c);
                }
                if (c < n && residual != nullptr) {
                    r[k] = load<V>(residual + base + c);
                }
            }
            uint32_t group = c0 / STEP + team.lane;
            uint32_t mask = 0xff;
            if (a.threshold > 0 && STEP * group < n) {
                mask = sl_dropout_mask(&a.draw, vertex, group, a.threshold);
            }
            for (int k = 0; k < STEP / V; k++) {
                uint32_t c = column_of<V>(team, c0, k);
                uint32_t keep = __shfl_sync(FULL, mask, (int)(team.first + (c - c0) / STEP)) >> c % STEP;
                if (c < n) {
                    write_gated<V>(a.kind, scale, normalise<norm, V>(&a, row, c, x[k]), keep, r[k], gate + base + c,
                                   h + base + c);
                }
            }
        }
    }
}

/* ---- backward ---- */

template <int V, typename G> static inline __device__ reals<V> gated(sl_real scale, some<G, V> gate, reals<V> gh)
{
    reals<V> gy;
    for (int v = 0; v < V; v++) {
        gy.x[v] = sl_activate_pass(gate.x[v], scale, gh.x[v]);
    }
    return gy;
}

/* GZ of batch norm, for V columns from c on. means: 2 F, the group's means of GY * zhat and of GY. */
template <int V>
static inline __device__ reals<V> batch_gz(const struct sl_activate *a, const sl_real *means, uint32_t c, reals<V> z,
                                           reals<V> gy)
{
    reals<V> weight = load<V>(a->weight + c);
    reals<V> mean = load<V>(a->mean + c);
    reals<V> rstd = load<V>(a->rstd + c);
    reals<V> slope = load<V>(means + c);
    reals<V> offset = load<V>(means + a->n_columns + c);
    reals<V> gz;
    for (int v = 0; v < V; v++) {
        sl_real zhat = sl_activate_zhat(z.x[v], mean.x[v], rstd.x[v]);
        gz.x[v] = sl_activate_batch_gz(weight.x[v], rstd.x[v], gy.x[v], zhat, slope.x[v], offset.x[v]);
    }
    return gz;
}

static __global__ void means_kernel(uint32_t n_columns, const double *__restrict__ sums, uint64_t n_group,
                                    sl_real *__restrict__ means_out)
{
    for (uint64_t c = sl_thread(); c < 2 * (uint64_t)n_columns; c += sl_n_threads()) {
        means_out[c] = sl_activate_batch_mean(sums[c], n_group);
    }
}

/* PLAIN and BATCH: entries are independent. */
template <enum sl_activate_norm norm, int V, typename G>
static __global__ void backward_kernel(struct sl_activate a, uint32_t lanes, const sl_real *__restrict__ z,
                                       const G *__restrict__ gate, const sl_real *__restrict__ gh,
                                       const sl_real *__restrict__ means, sl_real *__restrict__ gz)
{
    const sl_real scale = (sl_real)sl_dropout_scale(a.threshold);
    const struct team team = this_team(lanes);
    const uint32_t n_teams = SL_WARP / lanes;
    for (uint64_t i = sl_warp() * n_teams + team.first / lanes; i < a.n_rows; i += sl_n_warps() * n_teams) {
        const size_t base = (size_t)i * a.n_columns;
        for (uint32_t c0 = 0; c0 < a.n_columns; c0 += STEP * lanes) {
            reals<V> x[STEP / V] = {};
            reals<V> g[STEP / V] = {};
            some<G, V> open[STEP / V] = {};
            for (int k = 0; k < STEP / V; k++) {
                uint32_t c = column_of<V>(team, c0, k);
                if (c < a.n_columns) {
                    g[k] = load<V>(gh + base + c);
                    open[k] = load<V>(gate + base + c);
                }
                if (norm == SL_ACTIVATE_BATCH && c < a.n_columns) {
                    x[k] = load<V>(z + base + c);
                }
            }
            for (int k = 0; k < STEP / V; k++) {
                uint32_t c = column_of<V>(team, c0, k);
                if (c < a.n_columns) {
                    reals<V> gy = gated<V, G>(scale, open[k], g[k]);
                    *reinterpret_cast<reals<V> *>(gz + base + c) =
                        norm == SL_ACTIVATE_BATCH ? batch_gz<V>(&a, means, c, x[k], gy) : gy;
                }
            }
        }
    }
}

/* LAYER: one row per team. rows_out: mean and 1 / standard deviation of each row, for the column sums. */
template <int V, typename G>
static __global__ void backward_layer_kernel(struct sl_activate a, uint32_t lanes, const sl_real *__restrict__ z,
                                             const G *__restrict__ gate, const sl_real *__restrict__ gh,
                                             sl_real *__restrict__ gz, struct sl_activate_row *__restrict__ rows_out)
{
    const sl_real scale = (sl_real)sl_dropout_scale(a.threshold);
    const struct team team = this_team(lanes);
    const uint32_t n_teams = SL_WARP / lanes;
    for (uint64_t i0 = sl_warp() * n_teams; i0 < a.n_rows; i0 += sl_n_warps() * n_teams) {
        const uint64_t i = i0 + team.first / lanes;
        const uint32_t n = i < a.n_rows ? a.n_columns : 0;
        const size_t base = (size_t)i * a.n_columns;
        const struct sl_activate_row row = row_norm<V>(team, n, z + base);
        sl_real sum = 0;
        sl_real slope = 0;
        for (uint32_t c = team.lane * V; c < n; c += lanes * V) {
            reals<V> gy = gated<V, G>(scale, load<V>(gate + base + c), load<V>(gh + base + c));
            reals<V> weight = load<V>(a.weight + c);
            reals<V> x = load<V>(z + base + c);
            for (int v = 0; v < V; v++) {
                sum += gy.x[v] * weight.x[v];
                slope += gy.x[v] * weight.x[v] * (x.x[v] - row.mean);
            }
        }
        sum = team_sum(team, sum) / (sl_real)a.n_columns;
        slope = team_sum(team, slope) * row.rstd / (sl_real)a.n_columns;
        for (uint32_t c = team.lane * V; c < n; c += lanes * V) {
            reals<V> gy = gated<V, G>(scale, load<V>(gate + base + c), load<V>(gh + base + c));
            reals<V> weight = load<V>(a.weight + c);
            reals<V> x = load<V>(z + base + c);
            for (int v = 0; v < V; v++) {
                x.x[v] = sl_activate_layer_gz(row, x.x[v], gy.x[v] * weight.x[v], sum, slope);
            }
            *reinterpret_cast<reals<V> *>(gz + base + c) = x;
        }
        if (n > 0 && team.lane == 0) {
            rows_out[i] = row;
        }
    }
}

/* ---- column sums: GY * zhat and GY ---- */

/* The type of column sums: sl_real for layer norm, double for batch norm. */
template <enum sl_activate_norm norm> struct adder {
    typedef sl_real type;
};
template <> struct adder<SL_ACTIVATE_BATCH> {
    typedef double type;
};

template <enum sl_activate_norm norm> struct column_sums {
    typename adder<norm>::type slope, offset;
};

/* Sums over rows begin .. end - 1 of column c. AHEAD rows are in flight at a time. */
template <enum sl_activate_norm norm, typename G>
static inline __device__ struct column_sums<norm>
add_rows(const struct sl_activate *a, const struct sl_activate_row *rows, const sl_real *z, const G *gate,
         const sl_real *gh, uint64_t begin, uint64_t end, uint32_t c) {
    typedef typename adder<norm>::type number;
    struct column_sums<norm> sums = {
        0, 0
    };
    const sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    const struct sl_activate_row column = {norm == SL_ACTIVATE_BATCH ? a->mean[c] : 0,
                                           norm == SL_ACTIVATE_BATCH ? a->rstd[c] : 0};
    for (uint64_t i0 = begin; i0 < end; i0 += AHEAD) {
        struct sl_activate_row row[AHEAD];
        sl_real x[AHEAD] = {};
        sl_real g[AHEAD] = {};
        G open[AHEAD] = {};
        for (uint32_t k = 0; k < AHEAD; k++) {
            const size_t base = (size_t)(i0 + k) * a->n_columns + c;
            row[k] = column;
            if (i0 + k < end) {
                x[k] = z[base];
                g[k] = gh[base];
                open[k] = gate[base];
            }
            if (norm == SL_ACTIVATE_LAYER && i0 + k < end) {
                row[k] = rows[i0 + k];
            }
        }
        for (uint32_t k = 0; k < AHEAD; k++) {
            number gy = sl_activate_pass(open[k], scale, g[k]);
            sums.slope += gy * (number)sl_activate_zhat(x[k], row[k].mean, row[k].rstd);
            sums.offset += gy;
        }
    }
    return sums;
}

/* One warp sums a slab of rows, one lane per column; a block adds its slabs in order. Block b has the columns of tile b
 * % n_tiles and block b / n_tiles of rows. partial_out: 2 F for each block of rows. */
template <enum sl_activate_norm norm, typename G>
static __global__ void column_sums_kernel(struct sl_activate a, const struct sl_activate_row *__restrict__ rows,
                                          const sl_real *__restrict__ z, const G *__restrict__ gate,
                                          const sl_real *__restrict__ gh, uint32_t n_blocks,
                                          double *__restrict__ partial_out)
{
    __shared__ typename adder<norm>::type part[2][SL_WARPS][SL_WARP];
    const uint32_t n_tiles = sl_tiles(a.n_columns);
    const uint32_t slab = threadIdx.x / SL_WARP;
    for (uint64_t b = blockIdx.x; b < (uint64_t)n_blocks * n_tiles; b += gridDim.x) {
        const uint64_t block = b / n_tiles;
        const uint64_t begin = (block * SL_WARPS + slab) * SLAB_ROWS;
        const uint64_t end = sl_least<uint64_t>(begin + SLAB_ROWS, a.n_rows);
        const uint32_t c = (uint32_t)(b % n_tiles) * SL_WARP + sl_lane();
        struct column_sums<norm> sums = {
            0, 0
        };
        if (c < a.n_columns) {
            sums = add_rows<norm>(&a, rows, z, gate, gh, begin, end, c);
        }
        part[0][slab][sl_lane()] = sums.slope;
        part[1][slab][sl_lane()] = sums.offset;
        __syncthreads();
        if (slab < 2 && c < a.n_columns) {
            double sum = 0;
            for (uint32_t s = 0; s < SL_WARPS; s++) {
                sum += (double)part[slab][s][sl_lane()];
            }
            partial_out[(block * 2 + slab) * a.n_columns + c] = sum;
        }
        __syncthreads();
    }
}

/* The two sums of each column, which sl_add_partials adds up. */
template <typename T> struct two_sums {
    uint32_t n_columns;
    T *slope, *offset;

    __device__ void take(uint64_t c, double sum) const
    {
        *(c < n_columns ? slope + c : offset + (c - n_columns)) = (T)sum;
    }
};

/* ---- launchers ---- */

/* Whether rows of n columns can be read four at a time. addresses: all addresses, or'ed; 0 for a missing operand. */
static bool is_aligned(uint64_t n, uintptr_t addresses)
{
    return n % 4 == 0 && addresses % sizeof(reals<4>) == 0;
}

static uintptr_t address(const void *data)
{
    return (uintptr_t)data;
}

/* Gate bytes can be read four at a time from any multiple of four: scale the address to the alignment of floats. */
static uintptr_t gate_address(const uint8_t *gate)
{
    return (uintptr_t)gate * sizeof(reals<4>) / 4;
}

static uintptr_t gate_address(const sl_real *gate)
{
    return address(gate);
}

/* start(G()), G being the gate's stored type. */
template <typename Start> static enum sl_status by_gate(enum sl_activate_kind kind, Start start)
{
    if (sl_activate_gate_dtype(kind) == SL_DTYPE_U8) {
        return start(uint8_t());
    }
    return start(sl_real());
}

/* Blocks for one team per row. */
static unsigned team_blocks(uint32_t n_rows, uint32_t lanes)
{
    return sl_blocks((uint64_t)n_rows * lanes);
}

template <enum sl_activate_norm norm, typename Z, typename H>
static enum sl_status start_forward(cudaStream_t stream, const struct sl_activate *a, const void *z,
                                    const void *residual, void *gate_out, void *h)
{
    const uint32_t lanes = team_lanes(a->n_columns);
    return by_gate(a->kind, [&](auto g) {
        typedef decltype(g) G;
        G *gate = (G *)gate_out;
        const uintptr_t all = sl_quad_address(sl_dtype_of<Z>(), z) | sl_quad_address(sl_dtype_of<H>(), residual) |
                              gate_address(gate) | sl_quad_address(sl_dtype_of<H>(), h) | address(a->weight) |
                              address(a->bias) | address(a->mean) | address(a->rstd);
        return sl_start("sl_activate_forward", stream, team_blocks(a->n_rows, lanes),
                        is_aligned(a->n_columns, all) ? forward_kernel<norm, 4, Z, G, H>
                                                      : forward_kernel<norm, 1, Z, G, H>,
                        *a, lanes, (const Z *)z, (const H *)residual, gate, (H *)h);
    });
}

enum sl_status sl_activate_forward_rows_cuda(cudaStream_t stream, const struct sl_activate *a, enum sl_dtype z_dtype,
                                             const void *z, const void *residual, void *gate_out, enum sl_dtype h_dtype,
                                             void *h_out)
{
    if (z_dtype != SL_DTYPE_REAL) { /* H then has the same dtype */
        return start_forward<SL_ACTIVATE_PLAIN, sl_bf16, sl_bf16>(stream, a, z, residual, gate_out, h_out);
    }
    return sl_by_dtype(h_dtype, [&](auto e) {
        typedef decltype(e) H;
        switch (a->norm) {
        case SL_ACTIVATE_LAYER:
            return start_forward<SL_ACTIVATE_LAYER, sl_real, H>(stream, a, z, residual, gate_out, h_out);
        case SL_ACTIVATE_BATCH:
            return start_forward<SL_ACTIVATE_BATCH, sl_real, H>(stream, a, z, residual, gate_out, h_out);
        default: return start_forward<SL_ACTIVATE_PLAIN, sl_real, H>(stream, a, z, residual, gate_out, h_out);
        }
    });
}

/* slope_out, offset_out: F each. rows: layer only. */
template <enum sl_activate_norm norm, typename G>
static enum sl_status start_sums(cudaStream_t stream, const struct sl_activate *a, const struct sl_activate_row *rows,
                                 const sl_real *z, const G *gate, const sl_real *gh,
                                 typename adder<norm>::type *slope_out, typename adder<norm>::type *offset_out)
{
    const char *name = "sl_activate column sums";
    uint32_t n = (uint32_t)(((uint64_t)a->n_rows + SL_WARPS * SLAB_ROWS - 1) / (SL_WARPS * SLAB_ROWS));
    uint64_t n_tiles = sl_tiles(a->n_columns);
    typedef typename adder<norm>::type number;
    sl_scratch partial(stream);
    SL_CHECK(partial.take((size_t)n * 2 * a->n_columns * sizeof(double), name));
    SL_CHECK(sl_start(name, stream, sl_blocks(n * n_tiles * SL_THREADS), column_sums_kernel<norm, G>, *a, rows, z, gate,
                      gh, n, partial.as<double>()));
    return sl_start(name, stream, sl_partial_blocks(2 * a->n_columns), sl_add_partials<double, two_sums<number>>, n,
                    2 * a->n_columns, partial.as<double>(), two_sums<number>{a->n_columns, slope_out, offset_out});
}

template <typename G>
static enum sl_status start_backward_layer(cudaStream_t stream, const struct sl_activate *a, const sl_real *z,
                                           const G *gate, const sl_real *gh, const struct sl_activate_sums *sums,
                                           sl_real *gz)
{
    const char *name = "sl_activate_backward";
    uint32_t lanes = team_lanes(a->n_columns);
    uintptr_t all = address(z) | gate_address(gate) | address(gh) | address(gz) | address(a->weight);
    sl_scratch rows(stream);
    SL_CHECK(rows.take(a->n_rows * sizeof(struct sl_activate_row), name));
    SL_CHECK(sl_start(name, stream, team_blocks(a->n_rows, lanes),
                      is_aligned(a->n_columns, all) ? backward_layer_kernel<4, G> : backward_layer_kernel<1, G>, *a,
                      lanes, z, gate, gh, gz, rows.as<struct sl_activate_row>()));
    return start_sums<SL_ACTIVATE_LAYER>(stream, a, rows.as<struct sl_activate_row>(), z, gate, gh, sums->gw, sums->gb);
}

/* PLAIN and BATCH; means: 2 F, batch only. */
template <enum sl_activate_norm norm, typename G>
static enum sl_status start_backward(cudaStream_t stream, const struct sl_activate *a, const sl_real *z, const G *gate,
                                     const sl_real *gh, const sl_real *means, sl_real *gz)
{
    uint32_t lanes = team_lanes(a->n_columns);
    uintptr_t all = address(z) | gate_address(gate) | address(gh) | address(means) | address(gz) | address(a->weight) |
                    address(a->mean) | address(a->rstd);
    return sl_start("sl_activate_backward", stream, team_blocks(a->n_rows, lanes),
                    is_aligned(a->n_columns, all) ? backward_kernel<norm, 4, G> : backward_kernel<norm, 1, G>, *a,
                    lanes, z, gate, gh, means, gz);
}

template <typename G>
static enum sl_status start_backward_batch(cudaStream_t stream, const struct sl_activate *a, const sl_real *z,
                                           const G *gate, const sl_real *gh, const struct sl_activate_sums *sums,
                                           sl_real *gz)
{
    const char *name = "sl_activate_backward";
    uint64_t n = 2 * (uint64_t)a->n_columns;
    sl_scratch means(stream);
    SL_CHECK(means.take(n * sizeof(sl_real), name));
    SL_CHECK(sl_start(name, stream, sl_blocks(n), means_kernel, a->n_columns, sums->group, sums->n_group,
                      means.as<sl_real>()));
    return start_backward<SL_ACTIVATE_BATCH>(stream, a, z, gate, gh, means.as<sl_real>(), gz);
}

enum sl_status sl_activate_backward_cuda(cudaStream_t stream, const struct sl_activate *a, const sl_real *z,
                                         const void *gate, const sl_real *gh, const struct sl_activate_sums *sums,
                                         sl_real *gz_out)
{
    return by_gate(a->kind, [&](auto g) {
        const auto *open = (const decltype(g) *)gate;
        switch (a->norm) {
        case SL_ACTIVATE_LAYER: return start_backward_layer(stream, a, z, open, gh, sums, gz_out);
        case SL_ACTIVATE_BATCH: return start_backward_batch(stream, a, z, open, gh, sums, gz_out);
        default: return start_backward<SL_ACTIVATE_PLAIN>(stream, a, z, open, gh, nullptr, gz_out);
        }
    });
}

enum sl_status sl_activate_batch_sums_cuda(cudaStream_t stream, const struct sl_activate *a, const sl_real *z,
                                           const void *gate, const sl_real *gh, double *sums_out)
{
    return by_gate(a->kind, [&](auto g) {
        const auto *open = (const decltype(g) *)gate;
        return start_sums<SL_ACTIVATE_BATCH>(stream, a, nullptr, z, open, gh, sums_out, sums_out + a->n_columns);
    });
}
