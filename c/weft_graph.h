/// @file
/// weft in C: graphs of ops, and plans that run them on devices. The rules of weft.h hold here, too.
///
/// A graph is built with symbolic sizes and compiled once by a plan; each step sets the sizes. Ops have
/// names: weft_op_name lists them, weft_op_help describes their inputs and attributes, and the headers in
/// weft/graph/ops define their results.
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A graph: values, and the nodes that compute them.
typedef struct weft_graph weft_graph;
/// A value of a graph, as an index.
typedef int32_t weft_value;
/// No value.
#define WEFT_NO_VALUE (-1)
/// A size: a number of at least -1, or the result of weft_graph_symbol or weft_graph_size for the same graph.
typedef int64_t weft_dim;
/// The most axes of a value.
#define WEFT_MAX_RANK 4

/// An attribute of a node. Set the member that fits the attribute (`text`, `number`, `integer` or `sizes`),
/// and leave the others 0.
typedef struct weft_attribute {
  const char* name;
  const char* text;       ///< For choices ("gelu_erf") and types ("i32").
  double number;          ///< For floating-point numbers.
  int64_t integer;        ///< For integers, booleans (0 or 1) and single sizes.
  const weft_dim* sizes;  ///< For shapes and lists, with n_sizes elements.
  size_t n_sizes;
} weft_attribute;

/// Properties of a value.
typedef struct weft_value_info {
  size_t struct_size;
  const char* name;               ///< Valid until the graph changes.
  const char* dtype;              ///< "f32" or "i32"; for weights also "q4_K" and so on. Valid indefinitely.
  weft_dim shape[WEFT_MAX_RANK];  ///< Outermost first.
  int32_t rank;
} weft_value_info;

/// An empty graph.
WEFT_API weft_graph* weft_graph_create(weft_error** error);
/// Frees it. Plans have their own copies.
WEFT_API void weft_graph_free(weft_graph* graph);
/// A symbolic size that each step sets, from min to max.
WEFT_API weft_status weft_graph_symbol(weft_graph* graph, const char* name, int64_t min, int64_t max,
                                       weft_dim* size, weft_error** error);
/// a `op` b, where `op` is + - * or /. Division rounds down, and its b must be a number.
WEFT_API weft_status weft_graph_size(weft_graph* graph, weft_dim a, char op, weft_dim b, weft_dim* size,
                                     weft_error** error);
/// An input that each step sets: "f32" or "i32".
WEFT_API weft_status weft_graph_input(weft_graph* graph, const char* name, const char* dtype,
                                      const weft_dim* shape, size_t rank, weft_value* value,
                                      weft_error** error);
/// A weight, which is set once, of any of weft's types.
WEFT_API weft_status weft_graph_weight(weft_graph* graph, const char* name, const char* dtype,
                                       const weft_dim* shape, size_t rank, weft_value* value,
                                       weft_error** error);
/// A state, which is kept between steps.
WEFT_API weft_status weft_graph_state(weft_graph* graph, const char* name, const char* dtype,
                                      const weft_dim* shape, size_t rank, weft_value* value,
                                      weft_error** error);
/// Adds a node and returns its result. Attributes that are not given have the op's defaults. Optional inputs
/// are last in the list and may be WEFT_NO_VALUE.
WEFT_API weft_status weft_graph_op(weft_graph* graph, const char* op, const weft_value* inputs,
                                   size_t n_inputs, const weft_attribute* attributes, size_t n_attributes,
                                   weft_value* value, weft_error** error);
/// Renames a value, for pins and weft_plan_explain.
WEFT_API weft_status weft_graph_rename(weft_graph* graph, weft_value value, const char* name,
                                       weft_error** error);
/// Makes a value an output, which can be read by this name after a step.
WEFT_API weft_status weft_graph_output(weft_graph* graph, const char* name, weft_value value,
                                       weft_error** error);
/// The value with this name, or WEFT_NO_VALUE.
WEFT_API weft_value weft_graph_find(const weft_graph* graph, const char* name);
/// Properties of a value.
WEFT_API weft_status weft_graph_get_value(weft_graph* graph, weft_value value, weft_value_info* info,
                                          weft_error** error);
/// Describes the graph, one line per node.
WEFT_API weft_status weft_graph_text(const weft_graph* graph, char** text, weft_error** error);
/// A drawing for Graphviz.
WEFT_API weft_status weft_graph_dot(const weft_graph* graph, char** text, weft_error** error);

/// The number of ops.
WEFT_API size_t weft_op_count(void);
/// The name of the op at an index, from 0. NULL: none. Valid indefinitely.
WEFT_API const char* weft_op_name(size_t place);
/// Describes an op's inputs and attributes, with possible values and defaults, for display.
WEFT_API weft_status weft_op_help(const char* op, char** text, weft_error** error);

/// An input of a custom function: its elements in row-major order.
typedef struct weft_custom_value {
  const char* dtype;  ///< "f32" or "i32"
  const int64_t* shape;
  size_t rank;
  const void* data;
  size_t n_bytes;
} weft_custom_value;

/// A call of a custom function, which must write rows [begin, end) of its result, along the outermost axis.
/// Valid during the call.
typedef struct weft_custom_call {
  size_t struct_size;
  const weft_custom_value* inputs;
  size_t n_inputs;
  const int64_t* shape;  ///< Shape of the whole result.
  size_t rank;
  int64_t begin;
  int64_t end;
  void* data;  ///< Data of rows [begin, end) only.
  size_t n_bytes;
} weft_custom_call;

/// A custom function. Returning false ends the step with WEFT_DEVICE. It must not use the plan.
typedef bool (*weft_custom_callback)(const weft_custom_call* call, void* user_data);

/// Adds a node that a custom function computes on the CPU. rows_per_task 0: one call per step. Above 0:
/// several threads call it at once, for different rows. `user_data` must outlive the graph and its plans.
WEFT_API weft_status weft_graph_custom(weft_graph* graph, const char* name, const weft_value* inputs,
                                       size_t n_inputs, const char* dtype, const weft_dim* shape, size_t rank,
                                       int64_t rows_per_task, weft_custom_callback function, void* user_data,
                                       weft_value* value, weft_error** error);

// ---------------------------------------------------------------------------------------------------------
// Plans

/// A graph on devices, compiled once.
typedef struct weft_plan weft_plan;

/// Parameters of a plan.
typedef struct weft_plan_params {
  size_t struct_size;
  const char* const* devices;  ///< Names of devices. NULL: all GPUs. The CPU takes the remaining nodes.
  size_t n_devices;
  const weft_pin* pins;  ///< Placement rules. The cost model places the other nodes.
  size_t n_pins;
  int32_t n_threads;    ///< Host threads. 0: the number of cores.
  bool allow_shapes;    ///< Steps may change symbols' values (sizes).
  bool allow_tensors;   ///< Weights may be set again.
  bool allow_topology;  ///< The graph may be replaced.
} weft_plan_params;

/// A symbol's value in a step.
typedef struct weft_symbol_value {
  const char* symbol;
  int64_t value;
} weft_symbol_value;

/// An input's elements in a step.
typedef struct weft_input {
  const char* name;
  const void* data;
  size_t n_bytes;
} weft_input;

/// Counters of a plan's work.
typedef struct weft_plan_counters {
  size_t struct_size;
  int64_t compiled;  ///< Graphs.
  int64_t steps;
  int64_t unchanged;  ///< Steps that changed only values.
  int64_t shapes;     ///< Steps that changed sizes; `tensors` and `topology` likewise.
  int64_t tensors;
  int64_t topology;
  int64_t copies;  ///< Copies of values between devices.
  int64_t copied_bytes;
} weft_plan_counters;

/// The format of an explanation.
typedef int32_t weft_explain;
enum {
  WEFT_EXPLAIN_TEXT = 0,
  WEFT_EXPLAIN_JSON = 1,
  WEFT_EXPLAIN_DOT = 2  ///< A drawing for Graphviz.
};

/// Sets struct_size and the defaults.
WEFT_API void weft_plan_params_init(weft_plan_params* params, size_t struct_size);
/// Copies the graph and places it on the devices.
WEFT_API weft_plan* weft_plan_create(const weft_graph* graph, const weft_plan_params* params,
                                     weft_error** error);
/// Frees it.
WEFT_API void weft_plan_free(weft_plan* plan);
/// Sets the data of a weight: its rows in its type and GGUF's layout. The data is not copied: keep it
/// unchanged as long as the plan.
WEFT_API weft_status weft_plan_set_weight(weft_plan* plan, const char* name, const void* data, size_t n_bytes,
                                          weft_error** error);
/// Sets all weights that a GGUF or safetensors file has under the graph's names.
WEFT_API weft_status weft_plan_set_weights_file(weft_plan* plan, const char* path, weft_error** error);
/// Runs one step. Symbols and inputs that are not given keep their last values.
WEFT_API weft_status weft_plan_run(weft_plan* plan, const weft_symbol_value* symbols, size_t n_symbols,
                                   const weft_input* inputs, size_t n_inputs, weft_error** error);
/// Starts one step and returns as soon as the inputs' memory may be reused. Until weft_plan_finish, outputs
/// are the results of the step before.
WEFT_API weft_status weft_plan_start(weft_plan* plan, const weft_symbol_value* symbols, size_t n_symbols,
                                     const weft_input* inputs, size_t n_inputs, weft_error** error);
/// Waits for all started steps.
WEFT_API weft_status weft_plan_finish(weft_plan* plan, weft_error** error);
/// Replaces the graph for the next steps. Weights and states with the same name, type and shape stay.
WEFT_API weft_status weft_plan_set_graph(weft_plan* plan, const weft_graph* graph, weft_error** error);
/// The shape of an output of the last step: `shape` has room for WEFT_MAX_RANK sizes.
WEFT_API weft_status weft_plan_shape(const weft_plan* plan, const char* output, int64_t* shape, size_t* rank,
                                     weft_error** error);
/// Copies an output of the last step, f32 or i32. n_bytes must be its size.
WEFT_API weft_status weft_plan_read(const weft_plan* plan, const char* output, void* data, size_t n_bytes,
                                    weft_error** error);
/// The plan's counters.
WEFT_API weft_status weft_plan_get_counters(const weft_plan* plan, weft_plan_counters* counters,
                                            weft_error** error);
/// The device of each node, the copies, and the memory of each device.
WEFT_API weft_status weft_plan_explain(const weft_plan* plan, weft_explain as, char** text,
                                       weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
