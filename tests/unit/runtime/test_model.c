/* double, gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/model/model: what parameters start as, how they are named and laid out in files, and that files come back.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sage_fixture.h"

#include "runtime/model/activation.h"
#include "runtime/model/gatv2.h"

#include <unistd.h>

static struct sl_settings settings;

static void set(uint32_t layers, uint32_t hidden, int norm, bool residual)
{
    settings = (struct sl_settings){.layers = layers, .hidden = hidden, .norm = norm, .residual = residual, .seed = 5};
}

static void make(uint32_t n_features, uint32_t n_classes, bool sparse, struct sl_model *out)
{
    const struct sl_model_data data = {n_features, n_classes, 0, sparse, 0, 0};
    expect_ok(sl_model_init(&settings, &data, out));
}

/* ---- shapes ---- */

static void expect_order(const struct sl_layer_order *order, bool project_first, uint32_t travels)
{
    assert_int_equal(order->project_first, project_first);
    assert_int_equal(order->travels, travels);
}

TEST(test_shapes)
{
    OWNED(sl_model_free) struct sl_model m;
    set(3, 16, SL_NORM_NONE, true);
    make(16, 40, false, &m);
    assert_int_equal(m.n_layers, 3);
    assert_int_equal(m.layer[0].n_in, 16);
    assert_int_equal(m.layer[2].n_in, 16);
    assert_int_equal(m.layer[2].n_out, 40);
    assert_true(m.layer[0].hidden && m.layer[1].hidden && !m.layer[2].hidden);
    assert_true(m.layer[0].residual && m.layer[1].residual && !m.layer[2].residual);
    for (int i = 0; i < 3; i++) {
        expect_order(&m.layer[i].training, false, 16);
        expect_order(&m.layer[i].evaluation, false, 16);
    }
    assert_int_equal(m.layer[2].parameter[SAGE_NEIGH].n_rows, 16);
    assert_int_equal(m.layer[2].parameter[SAGE_NEIGH].n_columns, 40);
    assert_int_equal(m.layer[2].parameter[SAGE_BIAS].n_rows, 1);
    assert_int_equal(m.layer[0].parameter[SL_NORM_WEIGHT].n_rows, 0);
    assert_null(m.layer[0].running);
    sl_model_free(&m);

    set(2, 16, SL_NORM_NONE, true);
    make(17, 16, false, &m);
    expect_order(&m.layer[0].training, true, 16);
    expect_order(&m.layer[0].evaluation, true, 16);
    expect_order(&m.layer[1].training, false, 16);
    assert_false(m.layer[0].residual || m.layer[1].residual); /* equal widths, but the last layer */
    sl_model_free(&m);

    set(1, 16, SL_NORM_BATCH, false);
    make(10, 12, true, &m);
    assert_int_equal(m.layer[0].n_out, 12);
    expect_order(&m.layer[0].training, true, 12); /* sparse rows do not travel */
    expect_order(&m.layer[0].evaluation, true, 12);
    assert_null(m.layer[0].running);
    sl_model_free(&m);
    sl_model_free(&m); /* an empty one */

    set(2, 16, SL_NORM_NONE, false);
    make(16, 7, false, &m);
    expect_order(&m.layer[1].training, false, 16); /* of a sample the destinations are the fewer */
    expect_order(&m.layer[1].evaluation, true, 7);
}

/* No two hidden layers have the same dropout masks. */
TEST(test_mask_hops)
{
    OWNED(sl_model_free) struct sl_model m;
    set(3, 16, SL_NORM_NONE, false);
    settings.input_layer = true;
    settings.output_layers = 3;
    make(10, 7, false, &m);
    assert_int_equal(m.n_layers, 7);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_true(sl_layer_mask_hop(&m, &m.layer[i], true) != sl_layer_mask_hop(&m, &m.layer[j], true));
        }
    }
}

/* ---- initial values ---- */

static void expect_constant(const struct sl_parameter *p, double value)
{
    for (size_t e = 0; e < (size_t)p->n_rows * p->n_columns; e++) {
        assert_true((double)p->value[e] == value);
        assert_true(p->moment1[e] == 0 && p->moment2[e] == 0);
    }
}

/* Uniform in (-a, a), a = sqrt 2 sqrt(6 / (in + out)): mean 0 and variance a^2 / 3, both within 5 standard errors. */
static void expect_xavier(const struct sl_parameter *p)
{
    double bound = sqrt(2.0) * sqrt(6.0 / ((double)p->n_rows + p->n_columns));
    double n = (double)p->n_rows * p->n_columns;
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (size_t e = 0; e < (size_t)n; e++) {
        double w = (double)p->value[e];
        sum += w;
        squares += w * w;
        largest = fmax(largest, fabs(w));
    }
    assert_true(largest <= bound * (1 + EPSILON));
    assert_true(largest > 0.99 * bound);
    assert_true(fabs(sum / n) < 5 * bound / sqrt(3 * n));
    assert_true(fabs(squares / n / (bound * bound / 3) - 1) < 5 * sqrt(0.8 / n)); /* var of u^2 is 4/45, mean 1/3 */
}

static size_t n_equal(const struct sl_parameter *a, const struct sl_parameter *b)
{
    size_t n = 0;
    for (size_t e = 0; e < (size_t)a->n_rows * a->n_columns; e++) {
        n += a->value[e] == b->value[e];
    }
    return n;
}

TEST(test_initial_values)
{
    OWNED(sl_model_free) struct sl_model other;
    OWNED(sl_model_free) struct sl_model m;
    OWNED(sl_model_free) struct sl_model same;
    set(3, 64, SL_NORM_BATCH, false);
    make(64, 64, false, &m);
    make(64, 64, false, &same);
    settings.seed = 6;
    make(64, 64, false, &other);
    for (uint32_t i = 0; i < 3; i++) {
        const struct sl_parameter *p = m.layer[i].parameter;
        expect_xavier(&p[SAGE_SELF]);
        expect_xavier(&p[SAGE_NEIGH]);
        expect_constant(&p[SAGE_BIAS], 0);
        expect_constant(&p[SL_NORM_WEIGHT], 1);
        expect_constant(&p[SL_NORM_BIAS], 0);
        assert_int_equal(n_equal(&p[SAGE_SELF], &same.layer[i].parameter[SAGE_SELF]), 64 * 64);
        assert_true(n_equal(&p[SAGE_SELF], &other.layer[i].parameter[SAGE_SELF]) < 10);
        assert_true(n_equal(&p[SAGE_SELF], &p[SAGE_NEIGH]) < 10);
        assert_true(n_equal(&p[SAGE_NEIGH], &m.layer[(i + 1) % 3].parameter[SAGE_NEIGH]) < 10);
    }
    for (uint32_t c = 0; c < 64; c++) {
        assert_true(m.layer[1].running[c] == 0 && m.layer[1].running[64 + c] == 1);
    }
}

/* ---- files ---- */

/* Fill all arrays of a model with different numbers. */
static void scramble(struct sl_model *m, uint64_t seed)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *p = &m->layer[i].parameter[k];
            size_t n = (size_t)p->n_rows * p->n_columns;
            if (!sl_parameter_trained(p)) {
                continue;
            }
            fill(n, seed++, p->value);
            fill(n, seed++, p->moment1);
            fill(n, seed++, p->moment2);
        }
        if (m->layer[i].running != NULL) {
            fill(2 * (size_t)m->layer[i].n_out, seed++, m->layer[i].running);
        }
    }
}

static void expect_same_model(const struct sl_model *a, const struct sl_model *b, bool state)
{
    for (uint32_t i = 0; i < a->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *p = &a->layer[i].parameter[k];
            const struct sl_parameter *q = &b->layer[i].parameter[k];
            size_t n = sl_parameter_trained(p) ? (size_t)p->n_rows * p->n_columns : 0;
            expect_same("value", n, sizeof *p->value, p->value, q->value);
            expect_same("moment1", state ? n : 0, sizeof *p->value, p->moment1, q->moment1);
            expect_same("moment2", state ? n : 0, sizeof *p->value, p->moment2, q->moment2);
        }
        size_t n_running = a->layer[i].running != NULL ? 2 * (size_t)a->layer[i].n_out : 0;
        expect_same("running", n_running, sizeof(sl_real), a->layer[i].running, b->layer[i].running);
    }
}

static const struct sl_tensor *tensor_of(const struct sl_tensor *tensors, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, name) == 0) {
            return &tensors[i];
        }
    }
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

/* Names and shapes of DGL's SAGEConv: [out, in], the transpose of ours. */
TEST(test_names)
{
    OWNED(sl_model_free) struct sl_model m;
    struct sl_tensor tensors[SL_MODEL_TENSORS];
    uint32_t n;
    set(2, 3, SL_NORM_BATCH, false);
    make(5, 2, false, &m);
    scramble(&m, 100);
    expect_ok(sl_model_tensors(&m, SL_TENSORS_FOR_DGL, tensors, &n));
    assert_int_equal(n, 3 + 2 + 2 + 3);
    const struct sl_tensor *w = tensor_of(tensors, n, "layers.0.fc_neigh.weight");
    assert_int_equal(w->n_dims, 2);
    assert_int_equal(w->shape[0], 3);
    assert_int_equal(w->shape[1], 5);
    for (uint32_t in = 0; in < 5; in++) {
        for (uint32_t out = 0; out < 3; out++) {
            assert_true(((const sl_real *)w->data)[out * 5 + in] ==
                        m.layer[0].parameter[SAGE_NEIGH].value[in * 3 + out]);
        }
    }
    const struct sl_tensor *mean = tensor_of(tensors, n, "norms.0.running_mean");
    const struct sl_tensor *variance = tensor_of(tensors, n, "norms.0.running_var");
    assert_memory_equal(mean->data, m.layer[0].running, 3 * sizeof(sl_real));
    assert_memory_equal(variance->data, m.layer[0].running + 3, 3 * sizeof(sl_real));
    assert_int_equal(tensor_of(tensors, n, "layers.1.fc_self.bias")->n_dims, 1);
    assert_memory_equal(tensor_of(tensors, n, "norms.0.weight")->data, m.layer[0].parameter[SL_NORM_WEIGHT].value,
                        3 * sizeof(sl_real));
    sl_model_tensors_free(tensors, n);
    expect_ok(sl_model_tensors(&m, SL_TENSORS_FOR_CHECKPOINT, tensors, &n));
    assert_int_equal(n, 3 * 3 + 3 * 2 + 2 + 3 * 3);
    assert_non_null(tensor_of(tensors, n, "layers.1.fc_self.weight.moment2"));
    sl_model_tensors_free(tensors, n);
}

/* Names and shapes of both libraries' layers, in the state dict's order; of 2 layers, 5 features, 8 hidden, 2
 * heads, 3 classes. */
static const struct {
    int model, norm;
    const char *names[SL_N_NAMES];
} expected[] = {
    {SL_MODEL_SAGE,
     SL_NORM_BATCH,
     {"layers.0.fc_self.weight [8,5] layers.0.fc_neigh.weight [8,5] layers.0.fc_self.bias [8] norms.0.weight [8] "
      "norms.0.bias [8] "
      "norms.0.running_mean [8] norms.0.running_var [8] "
      "layers.1.fc_self.weight [3,8] layers.1.fc_neigh.weight [3,8] layers.1.fc_self.bias [3] ",
      "convs.0.lin_r.weight [8,5] convs.0.lin_l.weight [8,5] convs.0.lin_l.bias [8] norms.0.weight [8] norms.0.bias "
      "[8] "
      "norms.0.running_mean [8] norms.0.running_var [8] "
      "convs.1.lin_r.weight [3,8] convs.1.lin_l.weight [3,8] convs.1.lin_l.bias [3] "}},
    {SL_MODEL_GCN,
     SL_NORM_NONE,
     {"layers.0.weight [5,8] layers.0.bias [8] layers.1.weight [8,3] layers.1.bias [3] ",
      "convs.0.lin.weight [8,5] convs.0.bias [8] convs.1.lin.weight [3,8] convs.1.bias [3] "}},
    {SL_MODEL_GCN, /* with --output-layers 2 */
     SL_NORM_BATCH,
     {"layers.0.weight [5,8] layers.0.bias [8] norms.0.weight [8] norms.0.bias [8] "
      "norms.0.running_mean [8] norms.0.running_var [8] "
      "layers.1.weight [8,8] layers.1.bias [8] norms.1.weight [8] norms.1.bias [8] "
      "norms.1.running_mean [8] norms.1.running_var [8] "
      "out.lins.0.weight [8,8] out.lins.0.bias [8] out.norms.0.weight [8] out.norms.0.bias [8] "
      "out.norms.0.running_mean [8] out.norms.0.running_var [8] out.lins.1.weight [3,8] out.lins.1.bias [3] ",
      "convs.0.lin.weight [8,5] convs.0.bias [8] norms.0.weight [8] norms.0.bias [8] "
      "norms.0.running_mean [8] norms.0.running_var [8] "
      "convs.1.lin.weight [8,8] convs.1.bias [8] norms.1.weight [8] norms.1.bias [8] "
      "norms.1.running_mean [8] norms.1.running_var [8] "
      "out.lins.0.weight [8,8] out.lins.0.bias [8] out.norms.0.weight [8] out.norms.0.bias [8] "
      "out.norms.0.running_mean [8] out.norms.0.running_var [8] out.lins.1.weight [3,8] out.lins.1.bias [3] "}},
    {SL_MODEL_GAT,
     SL_NORM_NONE,
     {"layers.0.fc.weight [8,5] layers.0.bias [8] layers.0.attn_l [1,2,4] layers.0.attn_r [1,2,4] "
      "layers.1.fc.weight [3,8] layers.1.bias [3] layers.1.attn_l [1,1,3] layers.1.attn_r [1,1,3] ",
      "convs.0.lin.weight [8,5] convs.0.bias [8] convs.0.att_src [1,2,4] convs.0.att_dst [1,2,4] "
      "convs.1.lin.weight [3,8] convs.1.bias [3] convs.1.att_src [1,1,3] convs.1.att_dst [1,1,3] "}},
    {SL_MODEL_GATV2,
     SL_NORM_NONE,
     {"layers.0.fc_src.weight [8,5] layers.0.fc_dst.weight [8,5] layers.0.attn [1,2,4] layers.0.fc_src.bias [8] "
      "layers.0.fc_dst.bias [8] layers.1.fc_src.weight [3,8] layers.1.fc_dst.weight [3,8] layers.1.attn [1,1,3] "
      "layers.1.fc_src.bias [3] layers.1.fc_dst.bias [3] ",
      "convs.0.lin_l.weight [8,5] convs.0.lin_r.weight [8,5] convs.0.att [1,2,4] convs.0.lin_l.bias [8] "
      "convs.0.lin_r.bias [8] convs.0.bias [8] convs.1.lin_l.weight [3,8] convs.1.lin_r.weight [3,8] "
      "convs.1.att [1,1,3] convs.1.lin_l.bias [3] convs.1.lin_r.bias [3] convs.1.bias [3] "}},
    {SL_MODEL_GCNII,
     SL_NORM_LAYER,
     {"in.weight [8,5] in.bias [8] layers.0.weight1 [8,8] norms.0.weight [8] norms.0.bias [8] "
      "layers.1.weight1 [8,8] norms.1.weight [8] norms.1.bias [8] out.weight [3,8] out.bias [3] ",
      "in.weight [8,5] in.bias [8] convs.0.weight1 [8,8] norms.0.weight [8] norms.0.bias [8] "
      "convs.1.weight1 [8,8] norms.1.weight [8] norms.1.bias [8] out.weight [3,8] out.bias [3] "}},
    {SL_MODEL_RESGCN,
     SL_NORM_NONE,
     {"in.weight [8,5] in.bias [8] layers.0.weight [8,8] layers.0.bias [8] norms.0.weight [8] norms.0.bias [8] "
      "layers.1.weight [8,8] layers.1.bias [8] norms.1.weight [8] norms.1.bias [8] "
      "out.weight [3,8] out.bias [3] norms.2.weight [8] norms.2.bias [8] ",
      "in.weight [8,5] in.bias [8] convs.0.lin.weight [8,8] convs.0.bias [8] norms.0.weight [8] norms.0.bias [8] "
      "convs.1.lin.weight [8,8] convs.1.bias [8] norms.1.weight [8] norms.1.bias [8] "
      "out.weight [3,8] out.bias [3] norms.2.weight [8] norms.2.bias [8] "}},
    {SL_MODEL_RGCN,
     SL_NORM_NONE,
     {"layers.0.loop_weight [5,8] layers.0.linear_r.W [1,5,8] layers.0.h_bias [8] "
      "layers.1.loop_weight [8,3] layers.1.linear_r.W [1,8,3] layers.1.h_bias [3] ",
      "convs.0.root [5,8] convs.0.weight [1,5,8] convs.0.bias [8] "
      "convs.1.root [8,3] convs.1.weight [1,8,3] convs.1.bias [3] "}},
    {SL_MODEL_RGAT,
     SL_NORM_NONE,
     {"layers.0.loop_weight [5,8] layers.0.h_bias [8] layers.0.linear_r.W [1,5,8] "
      "layers.0.attn_l [1,2,4] layers.0.attn_r [1,2,4] "
      "layers.1.loop_weight [8,3] layers.1.h_bias [3] layers.1.linear_r.W [1,8,3] "
      "layers.1.attn_l [1,1,3] layers.1.attn_r [1,1,3] ",
      "convs.0.root [5,8] convs.0.bias [8] convs.0.weight [1,5,8] convs.0.att_src [1,2,4] convs.0.att_dst [1,2,4] "
      "convs.1.root [8,3] convs.1.bias [3] convs.1.weight [1,8,3] convs.1.att_src [1,1,3] convs.1.att_dst [1,1,3] "}},
};

#define N_EXPECTED (sizeof expected / sizeof *expected)
#define TEXT_BYTES 2048

static void set_model(int model, int norm)
{
    set(2, 8, norm, false);
    settings.model = model;
    settings.heads = 2;
    settings.alpha = 0.1;
    settings.lambda = 0.5;
}

/* "NAME [ROWS,COLUMNS] " for each tensor. */
static void describe(const struct sl_tensor *tensors, uint32_t n, char *out)
{
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s [", tensors[i].name);
        for (uint32_t d = 0; d < tensors[i].n_dims; d++) {
            used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s%d", d > 0 ? "," : "", (int)tensors[i].shape[d]);
        }
        used += (size_t)snprintf(out + used, TEXT_BYTES - used, "] ");
    }
}

TEST(test_names_of_libraries)
{
    for (size_t e = 0; e < N_EXPECTED; e++) {
        OWNED(sl_model_free) struct sl_model m;
        set_model(expected[e].model, expected[e].norm);
        settings.output_layers = 2 * (expected[e].model == SL_MODEL_GCN && expected[e].norm == SL_NORM_BATCH);
        make(5, 3, false, &m);
        for (int names = 0; names < SL_N_NAMES; names++) {
            struct sl_tensor tensors[SL_MODEL_TENSORS];
            char text[TEXT_BYTES];
            uint32_t n;
            expect_ok(sl_model_tensors(&m, (enum sl_tensors_for)names, tensors, &n));
            describe(tensors, n, text);
            assert_string_equal(text, expected[e].names[names]);
            sl_model_tensors_free(tensors, n);
        }
    }
}

/* Write a model's tensors, and one more if it is not NULL, to a file and read that. No file stays. */
static void through_file(const struct sl_model *m, enum sl_tensors_for purpose, const struct sl_tensor *more,
                         struct sl_tensors *out)
{
    FREED struct sl_tensor *tensors = need(SL_MODEL_TENSORS + 1, sizeof *tensors);
    char path[] = "/tmp/starling-test-XXXXXX";
    uint32_t n;
    expect_ok(sl_model_tensors(m, purpose, tensors, &n));
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    if (more != NULL) {
        tensors[n] = *more;
    }
    enum sl_status st = sl_safetensors_write(path, tensors, n + (more != NULL), NULL, 0);
    if (st == SL_OK) {
        st = sl_safetensors_read(path, out);
    }
    unlink(path);
    expect_ok(st);
    sl_model_tensors_free(tensors, n);
}

/* Also of the largest model, which has the most tensors. */
TEST(test_round_trip)
{
    for (int with_state = 0; with_state < 2; with_state++) {
        OWNED(sl_model_free) struct sl_model back;
        OWNED(sl_model_free) struct sl_model m;
        OWNED(sl_tensors_free) struct sl_tensors tensors;
        set(with_state ? SL_MAX_LAYERS : 3, 6, SL_NORM_BATCH, false);
        make(9, 4, false, &m);
        make(9, 4, false, &back);
        scramble(&m, 200);
        scramble(&back, 300);
        through_file(&m, with_state ? SL_TENSORS_FOR_CHECKPOINT : SL_TENSORS_FOR_DGL, NULL, &tensors);
        expect_ok(sl_model_set_tensors(&back, with_state, &tensors));
        expect_same_model(&m, &back, with_state);
    }
}

/* Saved with either library's names every model loads again. */
TEST(test_round_trip_of_libraries)
{
    for (size_t e = 0; e < N_EXPECTED * SL_N_NAMES; e++) {
        OWNED(sl_model_free) struct sl_model back;
        OWNED(sl_model_free) struct sl_model m;
        OWNED(sl_tensors_free) struct sl_tensors tensors;
        set_model(expected[e / SL_N_NAMES].model, expected[e / SL_N_NAMES].norm);
        make(5, 3, false, &m);
        make(5, 3, false, &back);
        scramble(&m, 700);
        scramble(&back, 800);
        through_file(&m, (enum sl_tensors_for)(e % SL_N_NAMES), NULL, &tensors);
        expect_ok(sl_model_set_tensors(&back, false, &tensors));
        expect_same_model(&m, &back, false);
    }
}

/* Heads without their axis of one, as --save wrote them and checkpoints have them: a checkpoint's values load as a
 * model. */
TEST(test_heads_of_old)
{
    OWNED(sl_model_free) struct sl_model back;
    OWNED(sl_model_free) struct sl_model m;
    OWNED(sl_tensors_free) struct sl_tensors tensors;
    set_model(SL_MODEL_GAT, SL_NORM_NONE);
    make(5, 3, false, &m);
    make(5, 3, false, &back);
    scramble(&m, 900);
    scramble(&back, 1000);
    through_file(&m, SL_TENSORS_FOR_CHECKPOINT, NULL, &tensors);
    assert_int_equal(sl_tensors_find(&tensors, "layers.0.attn_l")->n_dims, 2);
    assert_int_equal(sl_tensors_find(&tensors, "layers.0.attn_l")->shape[0], 2);
    expect_ok(sl_model_set_tensors(&back, false, &tensors));
    expect_same_model(&m, &back, false);
}

/* A bias that PyTorch Geometric's layer alone has is written as zeros. Its values go into two others. */
TEST(test_needless_bias)
{
    OWNED(sl_model_free) struct sl_model back;
    OWNED(sl_model_free) struct sl_model m;
    FREED struct sl_tensor *tensors = need(SL_MODEL_TENSORS, sizeof *tensors);
    struct sl_tensors all = {.path = (char[]){"weights"}, .tensors = tensors};
    set_model(SL_MODEL_GATV2, SL_NORM_NONE);
    make(5, 3, false, &m);
    make(5, 3, false, &back);
    scramble(&m, 920);
    scramble(&back, 1020);
    expect_ok(sl_model_tensors(&m, SL_TENSORS_FOR_PYG, tensors, &all.n));
    sl_real *bias = (sl_real *)(uintptr_t)sl_tensors_find(&all, "convs.0.bias")->data;
    for (uint32_t c = 0; c < 8; c++) {
        assert_true(bias[c] == 0);
        bias[c] = (sl_real)(1 + c);
        m.layer[0].parameter[SL_GATV2_SOURCE_BIAS].value[c] += bias[c];
        m.layer[0].parameter[SL_GATV2_TARGET_BIAS].value[c] -= bias[c];
    }
    expect_ok(sl_model_set_tensors(&back, false, &all));
    expect_same_model(&m, &back, false);
    sl_model_tensors_free(tensors, all.n);
}

/* A file of another model is refused, and leaves this one alone. */
TEST(test_other_shape)
{
    OWNED(sl_model_free) struct sl_model before;
    OWNED(sl_model_free) struct sl_model m;
    OWNED(sl_model_free) struct sl_model wide;
    OWNED(sl_tensors_free) struct sl_tensors tensors;
    set(2, 6, SL_NORM_NONE, false);
    make(9, 4, false, &m);
    make(9, 4, false, &before);
    scramble(&m, 400);
    scramble(&before, 400);
    make(9, 5, false, &wide); /* only the last layer differs */
    scramble(&wide, 500);
    through_file(&wide, SL_TENSORS_FOR_DGL, NULL, &tensors);
    assert_int_equal(sl_model_set_tensors(&m, false, &tensors), SL_EFILE);
    expect_message(sl_message(), "4", "5");
    assert_int_equal(sl_model_set_tensors(&m, true, &tensors), SL_EFILE);
    expect_message(sl_message(), "moment", "");
    expect_same_model(&m, &before, true);
}

/* A file that has all tensors of the model and others is of another model, of which batch norm would be lost. What
 * PyTorch's batch norm has beside them is none. */
TEST(test_surplus)
{
    OWNED(sl_model_free) struct sl_model before;
    OWNED(sl_model_free) struct sl_model plain;
    OWNED(sl_model_free) struct sl_model normed;
    OWNED(sl_tensors_free) struct sl_tensors tensors;
    int64_t batches = 7;
    struct sl_tensor counted = {.name = "norms.0.num_batches_tracked", .dtype = SL_DTYPE_I64, .data = &batches};
    set(2, 6, SL_NORM_BATCH, false);
    make(9, 4, false, &normed);
    scramble(&normed, 410);
    set(2, 6, SL_NORM_NONE, false);
    make(9, 4, false, &plain);
    make(9, 4, false, &before);
    scramble(&plain, 420);
    scramble(&before, 420);
    through_file(&normed, SL_TENSORS_FOR_DGL, NULL, &tensors);
    assert_int_equal(sl_model_set_tensors(&plain, false, &tensors), SL_EFILE);
    expect_message(sl_message(), "norms.0.weight", "--norm");
    expect_same_model(&plain, &before, true);
    sl_tensors_free(&tensors);
    through_file(&plain, SL_TENSORS_FOR_DGL, &counted, &tensors);
    assert_int_equal(sl_model_set_tensors(&plain, false, &tensors), SL_EFILE);
    expect_message(sl_message(), "num_batches_tracked", "");
    sl_tensors_free(&tensors);
    through_file(&normed, SL_TENSORS_FOR_DGL, &counted, &tensors);
    expect_ok(sl_model_set_tensors(&normed, false, &tensors));
}

TEST(test_not_finite)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        OWNED(sl_model_free) struct sl_model before;
        OWNED(sl_model_free) struct sl_model m;
        OWNED(sl_model_free) struct sl_model other;
        OWNED(sl_tensors_free) struct sl_tensors tensors;
        set(2, 6, SL_NORM_NONE, false);
        make(9, 4, false, &m);
        make(9, 4, false, &before);
        make(9, 4, false, &other);
        scramble(&m, 430);
        scramble(&before, 430);
        scramble(&other, 440);
        other.layer[1].parameter[SAGE_NEIGH].value[23] = (sl_real)bad[b]; /* the last of 6 x 4 */
        through_file(&other, SL_TENSORS_FOR_DGL, NULL, &tensors);
        assert_int_equal(sl_model_set_tensors(&m, false, &tensors), SL_EFILE);
        expect_message(sl_message(), "layers.1.fc_neigh.weight", "23");
        expect_same_model(&m, &before, true);
    }
}

/* Copies for keeping the best: values and running statistics, not the moments. */
TEST(test_read_and_write)
{
    OWNED(sl_model_free) struct sl_model other;
    OWNED(sl_model_free) struct sl_model m;
    set(3, 5, SL_NORM_BATCH, false);
    make(4, 3, false, &m);
    make(4, 3, false, &other);
    scramble(&m, 600);
    size_t n = sl_model_entries(&m);
    assert_int_equal(n, 2 * (4 * 5 + 5 * 5 + 5 * 3) + 5 + 5 + 3 + 2 * (2 * 5 + 2 * 5));
    FREED sl_real *values = need(n, sizeof *values);
    sl_model_read(&m, values);
    sl_model_write(&other, values);
    expect_same_model(&m, &other, false);
}

TEST(test_no_memory)
{
    long live = sl_memory_live();
    enum sl_status st = SL_ENOMEM;
    const struct sl_model_data data = {4, 3, 0, false, 0, 0};
    OWNED(sl_model_free) struct sl_model m;
    set(3, 5, SL_NORM_BATCH, false);
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = sl_model_init(&settings, &data, &m);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || (st == SL_ENOMEM && sl_memory_live() == live && m.n_layers == 0));
    }
    live = sl_memory_live();
    st = SL_ENOMEM;
    for (long allow = 0; st != SL_OK; allow++) {
        struct sl_tensor tensors[SL_MODEL_TENSORS];
        uint32_t n = 0;
        sl_memory_ration(allow);
        st = sl_model_tensors(&m, SL_TENSORS_FOR_CHECKPOINT, tensors, &n);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || (st == SL_ENOMEM && sl_memory_live() == live));
        sl_model_tensors_free(tensors, n);
    }
}

TEST(test_too_large)
{
    const struct sl_model_data data = {65536, 3, 0, false, 0, 0};
    struct sl_model m;
    set(2, 65536, SL_NORM_NONE, false);
    assert_int_equal(sl_model_init(&settings, &data, &m), SL_EINVAL);
    expect_message(sl_message(), "65536", "--hidden");
    assert_int_equal(m.n_layers, 0);
}

static int up(void **state)
{
    (void)state;
    machine_up(NULL, 1);
    return 0;
}

TEST_MAIN(up, group_down)
