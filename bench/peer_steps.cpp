// The graph of steps.cpp on ggml's scheduler. "none" computes a graph that was allocated once. Where shapes
// or the graph change, it is built and allocated again, as ggml's users do. The host's part is measured with
// no rows: values are empty, so ggml goes through its nodes and calls no kernel.
//
// Built by hand, with the ggml that `versus.py serve` has built: g++ -std=c++20 -O2 -I GGML/include
// peer_steps.cpp libggml.a libggml-cpu.a libggml-base.a -fopenmp -ldl
//
//   peer_steps [STEPS] [WIDTH]
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

constexpr int kBlocks = 250, kNodes = 8 * kBlocks, kRounds = 5;

struct Net {
  explicit Net(int rows_width) : width(rows_width) {
    context = ggml_init(
        {.mem_size = ggml_tensor_overhead() * 2 * kBlocks + 1024, .mem_buffer = nullptr, .no_alloc = true});
    for (int i = 0; i < kBlocks; ++i) {
      weights.push_back(ggml_new_tensor_2d(context, GGML_TYPE_F32, width, width));
      biases.push_back(ggml_new_tensor_1d(context, GGML_TYPE_F32, width));
    }
    backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    ggml_backend_alloc_ctx_tensors(context, backend);
    const std::vector<float> weight(width * width, 1e-3f), bias(width, 0.5f);
    for (int i = 0; i < kBlocks; ++i) {
      ggml_backend_tensor_set(weights[i], weight.data(), 0, ggml_nbytes(weights[i]));
      ggml_backend_tensor_set(biases[i], bias.data(), 0, ggml_nbytes(biases[i]));
    }
    scheduler = ggml_backend_sched_new(&backend, nullptr, 1, kNodes, false, true);
    memory.resize(ggml_tensor_overhead() * kNodes + ggml_graph_overhead_custom(kNodes, false));
  }

  /// Builds and allocates the graph for `rows` rows.
  void prepare(int rows) {
    if (step != nullptr) ggml_free(step);
    step = ggml_init({.mem_size = memory.size(), .mem_buffer = memory.data(), .no_alloc = true});
    graph = ggml_new_graph_custom(step, kNodes, false);
    input = ggml_new_tensor_2d(step, GGML_TYPE_F32, width, rows);
    ggml_set_input(input);
    ggml_tensor* x = input;
    for (int i = 0; i < kBlocks; ++i)
      x = ggml_add(step, x, ggml_relu(step, ggml_add(step, ggml_mul_mat(step, weights[i], x), biases[i])));
    ggml_set_output(x);
    ggml_build_forward_expand(graph, x);
    ggml_backend_sched_reset(scheduler);
    ggml_backend_sched_alloc_graph(scheduler, graph);
  }
  void run() {
    const std::vector<float> values(8 * static_cast<std::size_t>(width), 1.0f);
    if (ggml_nbytes(input) > 0) ggml_backend_tensor_set(input, values.data(), 0, ggml_nbytes(input));
    ggml_backend_sched_graph_compute(scheduler, graph);
  }

  int width;
  ggml_context *context, *step = nullptr;
  std::vector<ggml_tensor*> weights, biases;
  ggml_backend_t backend;
  ggml_backend_sched_t scheduler;
  std::vector<char> memory;
  ggml_cgraph* graph = nullptr;
  ggml_tensor* input = nullptr;
};

/// Of the best round: others run on this machine.
template <typename Step>
double microseconds(int n_steps, Step step) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n_steps / kRounds + 1; ++i) step(i);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / (n_steps / kRounds + 1));
  }
  return best;
}

void measure(int n_steps, Net& net, int first_rows, int other_rows, const char* what) {
  net.prepare(first_rows);
  const double none = microseconds(n_steps, [&](int) { net.run(); });
  const double rebuilt = microseconds(n_steps, [&](int i) {
    net.prepare(i % 2 == 0 ? first_rows : other_rows);
    net.run();
  });
  std::printf("%s: none %.1f, shapes and topology %.1f\n", what, none, rebuilt);
}

}  // namespace

int main(int argc, char** argv) {
  const int n_steps = argc > 1 ? std::atoi(argv[1]) : 10000;
  Net net(argc > 2 ? std::atoi(argv[2]) : 32);
  measure(n_steps, net, 1, 2, "whole steps");
  measure(n_steps, net, 0, 0, "the host's part");
  return 0;
}
