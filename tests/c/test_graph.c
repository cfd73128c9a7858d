/* Graphs, ops by their names, and plans. */
#include <math.h>

#include "check.h"
#include "weft_graph.h"

/* y = silu(x W^T + b) of n rows, and the largest of each row. */
struct net {
  weft_graph* graph;
  weft_dim n;
  weft_value x, w, b, y;
};

static weft_value op(weft_graph* graph, const char* name, const weft_value* inputs, size_t n_inputs,
                     const weft_attribute* attributes, size_t n_attributes) {
  weft_value value = WEFT_NO_VALUE;
  OK(weft_graph_op(graph, name, inputs, n_inputs, attributes, n_attributes, &value, &error));
  return value;
}

static struct net make_net(void) {
  struct net net;
  MADE(net.graph, weft_graph_create(&error));
  OK(weft_graph_symbol(net.graph, "n", 1, 64, &net.n, &error));
  const weft_dim rows[] = {net.n, 3}, matrix[] = {2, 3}, vector[] = {2};
  OK(weft_graph_input(net.graph, "x", "f32", rows, 2, &net.x, &error));
  OK(weft_graph_weight(net.graph, "w", "f32", matrix, 2, &net.w, &error));
  OK(weft_graph_weight(net.graph, "b", "f32", vector, 1, &net.b, &error));
  const weft_value product[] = {net.w, net.x, net.b};
  const weft_value sum = op(net.graph, "matmul", product, 3, NULL, 0);
  const weft_attribute silu = {.name = "kind", .text = "silu"};
  net.y = op(net.graph, "activate", &sum, 1, &silu, 1);
  const weft_attribute largest[] = {{.name = "kind", .text = "max"}, {.name = "axes", .integer = 2}};
  const weft_value max = op(net.graph, "reduce", &net.y, 1, largest, 2);
  OK(weft_graph_rename(net.graph, net.y, "act", &error));
  OK(weft_graph_output(net.graph, "y", net.y, &error));
  OK(weft_graph_output(net.graph, "max", max, &error));
  return net;
}

static const float weights[] = {1.0f, 2.0f, 3.0f, -1.0f, 0.5f, 0.0f};
static const float bias[] = {0.5f, -0.5f};

static float silu(float x) { return x / (1.0f + expf(-x)); }

static void building(void) {
  struct net net = make_net();
  weft_value_info info;
  info.struct_size = sizeof info;
  OK(weft_graph_get_value(net.graph, net.x, &info, &error));
  CHECK(strcmp(info.name, "x") == 0 && strcmp(info.dtype, "f32") == 0);
  CHECK(info.rank == 2 && info.shape[0] == net.n && info.shape[1] == 3);
  CHECK(weft_graph_find(net.graph, "x") == net.x && weft_graph_find(net.graph, "z") == WEFT_NO_VALUE);
  CHECK(weft_graph_find(NULL, "x") == WEFT_NO_VALUE && weft_graph_find(net.graph, NULL) == WEFT_NO_VALUE);
  char* text = NULL;
  OK(weft_graph_text(net.graph, &text, &error));
  CHECK(strstr(text, "matmul") != NULL && strstr(text, "activate") != NULL);
  weft_free(text);
  OK(weft_graph_dot(net.graph, &text, &error));
  CHECK(strstr(text, "digraph") != NULL);
  weft_free(text);

  /* Sizes: (2 * n + 4) / 2 - 1; equal ones are the same number. */
  weft_dim size = 0, other = 0;
  OK(weft_graph_size(net.graph, 2, '*', net.n, &size, &error));
  OK(weft_graph_size(net.graph, size, '+', 4, &size, &error));
  OK(weft_graph_size(net.graph, net.n, '+', net.n, &other, &error));
  OK(weft_graph_size(net.graph, other, '+', 4, &other, &error));
  CHECK(size == other && size < -1);
  OK(weft_graph_size(net.graph, size, '/', 2, &size, &error));
  OK(weft_graph_size(net.graph, size, '-', 1, &size, &error));
  OK(weft_graph_size(net.graph, 6, '/', 4, &size, &error));
  CHECK(size == 1);
  FAILS(weft_graph_size(net.graph, 6, '%', 4, &size, &error), WEFT_INVALID_ARGUMENT, "'%'");
  FAILS(weft_graph_size(net.graph, 6, '/', net.n, &size, &error), WEFT_INVALID_ARGUMENT, "by a number");
  FAILS(weft_graph_size(net.graph, 6, '/', 0, &size, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_size(net.graph, 6, '+', INT64_MIN + 500, &size, &error), WEFT_INVALID_ARGUMENT,
        "another graph");
  FAILS(weft_graph_size(net.graph, 6, '+', 4, NULL, &error), WEFT_INVALID_ARGUMENT, "size is NULL");

  /* What is wrong leaves the graph as it was, and is named. */
  weft_value value = 77;
  const weft_dim rows[] = {net.n, 3};
  FAILS(weft_graph_symbol(net.graph, "m", 5, 1, &size, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_symbol(net.graph, NULL, 1, 5, &size, &error), WEFT_INVALID_ARGUMENT, "name is NULL");
  FAILS(weft_graph_input(net.graph, "x", "f32", rows, 2, &value, &error), WEFT_INVALID_ARGUMENT, "x");
  FAILS(weft_graph_input(net.graph, "u", "f33", rows, 2, &value, &error), WEFT_INVALID_ARGUMENT, "f33");
  FAILS(weft_graph_input(net.graph, "u", "f32", rows, 9, &value, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_input(net.graph, "u", "f32", NULL, 2, &value, &error), WEFT_INVALID_ARGUMENT,
        "shape is NULL");
  FAILS(weft_graph_weight(net.graph, NULL, "f32", rows, 2, &value, &error), WEFT_INVALID_ARGUMENT,
        "name is NULL");
  FAILS(weft_graph_weight(net.graph, "u", NULL, rows, 2, &value, &error), WEFT_INVALID_ARGUMENT,
        "dtype is NULL");
  FAILS(weft_graph_state(net.graph, NULL, "f32", rows, 2, &value, &error), WEFT_INVALID_ARGUMENT,
        "name is NULL");
  FAILS(weft_graph_rename(net.graph, 999, "u", &error), WEFT_INVALID_ARGUMENT, "no value 999");
  FAILS(weft_graph_output(net.graph, "u", -4, &error), WEFT_INVALID_ARGUMENT, "no value -4");
  FAILS(weft_graph_get_value(net.graph, 999, &info, &error), WEFT_INVALID_ARGUMENT, "no value 999");
  FAILS(weft_graph_get_value(net.graph, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "info is NULL");
  FAILS(weft_graph_text(net.graph, NULL, &error), WEFT_INVALID_ARGUMENT, "text is NULL");
  FAILS(weft_graph_dot(NULL, &text, &error), WEFT_INVALID_ARGUMENT, "graph is NULL");
  CHECK(value == 77);
  weft_graph_free(net.graph);
  weft_graph_free(NULL);
}

static void ops(void) {
  struct net net = make_net();
  weft_graph* const graph = net.graph;
  /* Each op tells how it is used. */
  CHECK(weft_op_count() > 50 && weft_op_name(weft_op_count()) == NULL);
  for (size_t i = 0; i < weft_op_count(); ++i) {
    char* text = NULL;
    OK(weft_op_help(weft_op_name(i), &text, &error));
    NEED(text != NULL);
    CHECK(strncmp(text, weft_op_name(i), strlen(weft_op_name(i))) == 0 && strstr(text, "input") != NULL);
    weft_free(text);
  }
  char* text = NULL;
  OK(weft_op_help("norm", &text, &error));
  CHECK(strcmp(text,
               "norm\n  1 to 3 inputs\n  kind (text: rms, layer, l2), by default rms\n"
               "  eps (number), by default 1e-05\n  group (integer), by default 0\n") == 0);
  weft_free(text);
  OK(weft_op_help("lstm", &text, &error));
  CHECK(strcmp(text, "lstm\n  2 to 4 inputs: x, weight, h0, c0\n") == 0);
  weft_free(text);
  OK(weft_op_help("activate", &text, &error));
  CHECK(strstr(text, "none, silu, gelu, gelu_erf, gelu_quick, relu, relu_squared, softplus") != NULL);
  weft_free(text);
  OK(weft_op_help("move_cells", &text, &error));
  CHECK(strstr(text, "rope.head_dim (integer), by default 0") != NULL);
  weft_free(text);
  FAILS(weft_op_help("gemm", &text, &error), WEFT_NOT_FOUND, "there is no op 'gemm'; there are get_rows, ");
  FAILS(weft_op_help(NULL, &text, &error), WEFT_INVALID_ARGUMENT, "op is NULL");

  /* Attributes of each type. */
  const weft_dim flat[] = {-1}, pair[] = {2, 1}, turned[] = {1, 0}, picture[] = {1, 1, 4, 4};
  const weft_attribute reshape = {.name = "shape", .sizes = picture, .n_sizes = 4};
  const weft_attribute permute = {.name = "axes", .sizes = turned, .n_sizes = 2};
  weft_value image = WEFT_NO_VALUE;
  const weft_dim sixteen[] = {16};
  OK(weft_graph_input(graph, "image", "f32", sixteen, 1, &image, &error));
  const weft_value square = op(graph, "reshape", &image, 1, &reshape, 1);
  const weft_attribute pool[] = {{.name = "kind", .text = "mean"},
                                 {.name = "kernel", .sizes = pair, .n_sizes = 2},
                                 {.name = "stride", .sizes = pair, .n_sizes = 1},
                                 {.name = "count_padding", .integer = 0}};
  const weft_value pooled = op(graph, "pool2d", &square, 1, pool, 4);
  weft_value_info info;
  info.struct_size = sizeof info;
  OK(weft_graph_get_value(graph, pooled, &info, &error));
  CHECK(info.rank == 4 && info.shape[2] == 2 && info.shape[3] == 2);
  const weft_value other = op(graph, "permute", &net.x, 1, &permute, 1);
  OK(weft_graph_get_value(graph, other, &info, &error));
  CHECK(info.shape[0] == 3 && info.shape[1] == net.n);
  const weft_attribute range[] = {{.name = "size", .integer = net.n}, {.name = "dtype", .text = "i32"}};
  OK(weft_graph_get_value(graph, op(graph, "arange", NULL, 0, range, 2), &info, &error));
  CHECK(info.rank == 1 && info.shape[0] == net.n && strcmp(info.dtype, "i32") == 0);
  const weft_value optional[] = {net.x, WEFT_NO_VALUE, WEFT_NO_VALUE};
  const weft_attribute eps = {.name = "eps", .number = 1e-3};
  CHECK(op(graph, "norm", optional, 3, &eps, 1) != WEFT_NO_VALUE);

  const struct {
    const char* op;
    weft_attribute attribute;
    const char* words;
  } wrong[] = {
      {"norm", {.name = "epsilon", .number = 1.0}, "no attribute 'epsilon'; there are kind, eps, group"},
      {"softmax", {.name = "axis", .integer = 1}, "there are none"},
      {"norm", {.name = "eps", .integer = 1}, "said by number, not by integer"},
      {"norm", {.name = "kind", .text = "batch"}, "one of rms, layer, l2"},
      {"norm", {.name = "kind"}, "one of rms, layer, l2"},
      {"norm", {.name = NULL}, "name is NULL"},
      {"cast", {.name = "to", .text = "f99"}, "f99"},
      {"cast", {.name = "to"}, "dtype is NULL"},
      {"top_k", {.name = "k", .integer = INT64_C(1) << 40}, "out of its range"},
      {"reduce", {.name = "keep", .integer = 2}, "0 or 1"},
      {"reshape", {.name = "shape", .sizes = NULL, .n_sizes = 2}, "shape is NULL"},
      {"reshape", {.name = "shape", .sizes = picture, .n_sizes = 9}, ""},
      {"permute", {.name = "axes", .sizes = NULL, .n_sizes = 2}, "sizes is NULL"},
      {"pool2d", {.name = "kernel", .sizes = picture, .n_sizes = 3}, "a height and a width"},
      {"custom", {.name = "key", .text = "k"}, "weft_graph_custom"},
  };
  weft_value value = 77;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    FAILS(weft_graph_op(graph, wrong[i].op, &net.x, 1, &wrong[i].attribute, 1, &value, &error),
          WEFT_INVALID_ARGUMENT, wrong[i].words);
  const weft_attribute minus = {.name = "shape", .sizes = flat, .n_sizes = 1};
  FAILS(weft_graph_op(graph, "reshape", &net.x, 1, &minus, 1, &value, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_op(graph, "gemm", &net.x, 1, NULL, 0, &value, &error), WEFT_NOT_FOUND, "gemm");
  FAILS(weft_graph_op(graph, NULL, &net.x, 1, NULL, 0, &value, &error), WEFT_INVALID_ARGUMENT, "op is NULL");
  FAILS(weft_graph_op(graph, "norm", NULL, 1, NULL, 0, &value, &error), WEFT_INVALID_ARGUMENT,
        "inputs is NULL");
  FAILS(weft_graph_op(graph, "norm", NULL, 0, NULL, 0, &value, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_op(graph, "norm", &net.x, 1, NULL, 1, &value, &error), WEFT_INVALID_ARGUMENT,
        "attributes is NULL");
  FAILS(weft_graph_op(NULL, "norm", &net.x, 1, NULL, 0, &value, &error), WEFT_INVALID_ARGUMENT,
        "graph is NULL");
  const weft_value nothing = 5000;
  FAILS(weft_graph_op(graph, "norm", &nothing, 1, NULL, 0, &value, &error), WEFT_INVALID_ARGUMENT, "");
  CHECK(value == 77);
  weft_graph_free(graph);
}

static void running(const char* scratch) {
  struct net net = make_net();
  weft_plan_params params;
  weft_plan_params_init(&params, sizeof params);
  CHECK(params.allow_shapes && !params.allow_topology);
  const char* const devices[] = {"cpu"};
  const weft_pin pin = {"max", "cpu"};
  params.devices = devices;
  params.n_devices = 1;
  params.pins = &pin;
  params.n_pins = 1;
  params.n_threads = 2;
  params.allow_topology = true;
  weft_plan* plan = NULL;
  MADE(plan, weft_plan_create(net.graph, &params, &error));
  OK(weft_plan_set_weight(plan, "w", weights, sizeof weights, &error));
  const float x[] = {1.0f, 0.0f, -1.0f, 2.0f, 1.0f, 0.5f};
  weft_symbol_value n = {"n", 2};
  weft_input input = {"x", x, sizeof x};
  FAILS(weft_plan_run(plan, &n, 1, &input, 1, &error), WEFT_INVALID_ARGUMENT, "b");
  OK(weft_plan_set_weight(plan, "b", bias, sizeof bias, &error));
  float y[4], max[2];
  for (int round = 0; round < 2; ++round) {
    if (round == 0) {
      OK(weft_plan_run(plan, &n, 1, &input, 1, &error));
    } else {
      OK(weft_plan_start(plan, &n, 1, &input, 1, &error));
      OK(weft_plan_finish(plan, &error));
    }
    int64_t shape[WEFT_MAX_RANK];
    size_t rank = 0;
    OK(weft_plan_shape(plan, "y", shape, &rank, &error));
    CHECK(rank == 2 && shape[0] == 2 && shape[1] == 2);
    OK(weft_plan_read(plan, "y", y, sizeof y, &error));
    OK(weft_plan_read(plan, "max", max, sizeof max, &error));
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c) {
        float sum = bias[c];
        for (int k = 0; k < 3; ++k) sum += x[3 * r + k] * weights[3 * c + k];
        CHECK(fabsf(y[2 * r + c] - silu(sum)) < 1e-5f);
      }
    CHECK(max[0] == fmaxf(y[0], y[1]) && max[1] == fmaxf(y[2], y[3]));
  }
  n.value = 1;
  input.n_bytes = 3 * sizeof(float);
  OK(weft_plan_run(plan, &n, 1, &input, 1, &error));
  weft_plan_counters counters;
  counters.struct_size = sizeof counters;
  OK(weft_plan_get_counters(plan, &counters, &error));
  CHECK(counters.compiled == 1 && counters.steps == 3 && counters.shapes >= 1);
  const char* const words[] = {"split", "{", "digraph"};
  for (weft_explain as = WEFT_EXPLAIN_TEXT; as <= WEFT_EXPLAIN_DOT; ++as) {
    char* text = NULL;
    OK(weft_plan_explain(plan, as, &text, &error));
    CHECK(text != NULL && strstr(text, words[as]) != NULL);
    weft_free(text);
  }

  /* Another graph, with the weights that it shares. */
  const weft_attribute twofold = {.name = "factor", .number = 2.0};
  OK(weft_graph_output(net.graph, "again", op(net.graph, "scale", &net.y, 1, &twofold, 1), &error));
  OK(weft_plan_set_graph(plan, net.graph, &error));
  weft_graph_free(net.graph); /* The plan has a copy. */
  OK(weft_plan_run(plan, &n, 1, &input, 1, &error));
  float again[2];
  OK(weft_plan_read(plan, "again", again, sizeof again, &error));
  CHECK(again[0] == 2.0f * y[0] && again[1] == 2.0f * y[1]);

  n.value = 65;
  FAILS(weft_plan_run(plan, &n, 1, &input, 1, &error), WEFT_INVALID_ARGUMENT, "n");
  n.symbol = NULL;
  FAILS(weft_plan_run(plan, &n, 1, &input, 1, &error), WEFT_INVALID_ARGUMENT, "a symbol's name is NULL");
  FAILS(weft_plan_run(plan, NULL, 1, &input, 1, &error), WEFT_INVALID_ARGUMENT, "symbols is NULL");
  input.data = NULL;
  FAILS(weft_plan_run(plan, NULL, 0, &input, 1, &error), WEFT_INVALID_ARGUMENT, "an input's data is NULL");
  FAILS(weft_plan_start(plan, NULL, 0, NULL, 1, &error), WEFT_INVALID_ARGUMENT, "inputs is NULL");
  FAILS(weft_plan_read(plan, "z", y, sizeof y, &error), WEFT_NOT_FOUND, "z");
  FAILS(weft_plan_read(plan, "y", y, 3, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_plan_read(plan, "y", NULL, sizeof y, &error), WEFT_INVALID_ARGUMENT, "data is NULL");
  FAILS(weft_plan_read(plan, NULL, y, sizeof y, &error), WEFT_INVALID_ARGUMENT, "output is NULL");
  size_t rank = 0;
  int64_t shape[WEFT_MAX_RANK];
  FAILS(weft_plan_shape(plan, "y", NULL, &rank, &error), WEFT_INVALID_ARGUMENT, "shape is NULL");
  FAILS(weft_plan_shape(plan, "y", shape, NULL, &error), WEFT_INVALID_ARGUMENT, "rank is NULL");
  FAILS(weft_plan_set_weight(plan, "z", weights, sizeof weights, &error), WEFT_NOT_FOUND, "z");
  FAILS(weft_plan_set_weight(plan, "w", weights, 3, &error), WEFT_INVALID_ARGUMENT, "w");
  FAILS(weft_plan_set_weight(plan, "w", NULL, sizeof weights, &error), WEFT_INVALID_ARGUMENT, "data is NULL");
  FAILS(weft_plan_set_weights_file(plan, path_in(scratch, "none"), &error), WEFT_NOT_FOUND, "none");
  FAILS(weft_plan_set_weights_file(plan, NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  FAILS(weft_plan_set_graph(plan, NULL, &error), WEFT_INVALID_ARGUMENT, "graph is NULL");
  FAILS(weft_plan_get_counters(plan, NULL, &error), WEFT_INVALID_ARGUMENT, "counters is NULL");
  FAILS(weft_plan_explain(plan, 3, NULL, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_plan_finish(NULL, &error), WEFT_INVALID_ARGUMENT, "plan is NULL");
  FAILS(weft_plan_run(NULL, NULL, 0, NULL, 0, &error), WEFT_INVALID_ARGUMENT, "plan is NULL");
  weft_plan_free(plan);
  weft_plan_free(NULL);
  NO_POINTER(weft_plan_create(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "graph is NULL");
  weft_graph* empty = NULL;
  MADE(empty, weft_graph_create(&error));
  NO_POINTER(weft_plan_create(empty, NULL, &error), WEFT_INVALID_ARGUMENT, "output");
  weft_graph_free(empty);
}

/* Twice its input; fails where that begins with a number below 0. */
static bool twice(const weft_custom_call* call, void* user_data) {
  ++*(int*)user_data;
  CHECK(call->struct_size == sizeof *call && call->n_inputs == 1 && call->rank == 2 && call->shape[1] == 3);
  CHECK(strcmp(call->inputs[0].dtype, "f32") == 0 && call->inputs[0].rank == 2);
  const float* const from = call->inputs[0].data;
  float* const to = call->data;
  for (size_t i = 0; i < call->n_bytes / sizeof *to; ++i) to[i] = 2.0f * from[3 * call->begin + (int64_t)i];
  return from[0] >= 0.0f;
}

static void customs(const char* data) {
  weft_graph* graph = NULL;
  MADE(graph, weft_graph_create(&error));
  const weft_dim shape[] = {2, 3};
  weft_value x = WEFT_NO_VALUE, y = WEFT_NO_VALUE, state = WEFT_NO_VALUE;
  OK(weft_graph_input(graph, "x", "f32", shape, 2, &x, &error));
  int n_calls = 0;
  OK(weft_graph_custom(graph, "twice", &x, 1, "f32", shape, 2, 0, twice, &n_calls, &y, &error));
  FAILS(weft_graph_custom(graph, "none", &x, 1, "f32", shape, 2, 0, NULL, NULL, &y, &error),
        WEFT_INVALID_ARGUMENT, "function is NULL");
  FAILS(weft_graph_custom(graph, NULL, &x, 1, "f32", shape, 2, 0, twice, NULL, &y, &error),
        WEFT_INVALID_ARGUMENT, "name is NULL");
  FAILS(weft_graph_custom(graph, "q", &x, 1, "q4_K", shape, 2, 0, twice, NULL, &y, &error),
        WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_graph_custom(NULL, "q", &x, 1, "f32", shape, 2, 0, twice, NULL, &y, &error),
        WEFT_INVALID_ARGUMENT, "graph is NULL");
  /* A state that no node uses is nothing to a plan. */
  const weft_dim rows[] = {2, 1, 3};
  OK(weft_graph_state(graph, "kept", "f32", rows, 3, &state, &error));
  OK(weft_graph_output(graph, "y", y, &error));
  weft_plan* plan = NULL;
  MADE(plan, weft_plan_create(graph, NULL, &error));
  float numbers[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, doubled[6];
  const weft_input input = {"x", numbers, sizeof numbers};
  OK(weft_plan_run(plan, NULL, 0, &input, 1, &error));
  OK(weft_plan_read(plan, "y", doubled, sizeof doubled, &error));
  for (int i = 0; i < 6; ++i) CHECK(doubled[i] == 2.0f * numbers[i]);
  CHECK(n_calls == 1);
  numbers[0] = -1.0f;
  FAILS(weft_plan_run(plan, NULL, 0, &input, 1, &error), WEFT_DEVICE, "twice");
  weft_plan_free(plan);
  weft_graph_free(graph);

  /* Weights of a model's file. */
  MADE(graph, weft_graph_create(&error));
  weft_file* file = NULL;
  MADE(file, weft_file_open(path_in(data, "golden/llama/model.gguf"), &error));
  weft_file_tensor tensor = {0};
  tensor.struct_size = sizeof tensor;
  for (size_t i = 0; tensor.name == NULL || strcmp(tensor.name, "output_norm.weight") != 0; ++i)
    OK(weft_file_get_tensor(file, i, &tensor, &error));
  weft_value weight = WEFT_NO_VALUE;
  OK(weft_graph_weight(graph, tensor.name, tensor.type, tensor.shape, (size_t)tensor.rank, &weight, &error));
  weft_value one = WEFT_NO_VALUE, sum = WEFT_NO_VALUE;
  const weft_dim row[] = {1, tensor.shape[0]};
  OK(weft_graph_input(graph, "one", "f32", row, 2, &one, &error));
  const weft_value both[] = {one, weight};
  OK(weft_graph_op(graph, "mul", both, 2, NULL, 0, &sum, &error));
  OK(weft_graph_output(graph, "scaled", sum, &error));
  MADE(plan, weft_plan_create(graph, NULL, &error));
  OK(weft_plan_set_weights_file(plan, path_in(data, "golden/llama/model.gguf"), &error));
  float* const ones = calloc((size_t)tensor.shape[0], sizeof *ones);
  const weft_input given = {"one", ones, (size_t)tensor.shape[0] * sizeof *ones};
  OK(weft_plan_run(plan, NULL, 0, &given, 1, &error));
  OK(weft_plan_read(plan, "scaled", ones, given.n_bytes, &error));
  CHECK(ones[0] == 0.0f);
  free(ones);
  weft_file_free(file);
  weft_plan_free(plan);
  weft_graph_free(graph);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  building();
  ops();
  running(argv[2]);
  customs(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
