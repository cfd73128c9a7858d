// Checks and measures CUDA on a machine that has only a driver. It is one program without modules, and needs
// few libraries (scripts/pack_gpu_check.sh packs them). It is built by `make gpu-check`.
//
//   gpu_check [--device cuda0] conformance [OP]    every op against reference results
//   gpu_check [--device cuda0] speeds [SECONDS]    products by type and rows: GB/s of weights and TFLOP/s
//   gpu_check [--device cuda0] model FILE...       logits compared with the CPU's; the same bits in any
//   pieces; tokens/s
//
// Prints one JSON object a line, so that a run that is cut short keeps its results. The exit status is 1 if a
// check failed.
#include <weft/backend.h>
#include <weft/conformance.h>
#include <weft/context.h>
#include <weft/model.h>
#include <weft/plan.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/cuda/device.h"

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::shared_ptr<const weft::Registry> registry() {
  auto all = std::make_shared<weft::Registry>();
  all->add(weft::cpu::backend());
#ifdef WEFT_GPU_CHECK_EMULATED
  all->add(weft::cuda::make_backend("cuda", [] { return std::vector{weft::cuda::open_emulated()}; }));
#else
  all->add(weft::cuda::make_backend("cuda", weft::cuda::open_gpus));
#endif
  return all;
}

bool check_ops(const std::string& device, const std::string& only) {
  bool passed = true;
  weft::ConformanceOptions options;
  options.only = only;
  const auto cases = weft::check_conformance(*registry(), device, options);
  for (const weft::ConformanceRow& row : weft::by_op(cases)) {
    std::printf(R"({"op": "%s", "cases": %d, "unsupported": %d, "failed": %d, "error": %.3g, "worst": "%s"})"
                "\n",
                row.op.c_str(), row.n_cases, row.n_unsupported, row.n_failed, row.worst.error,
                row.worst.what.c_str());
    passed = passed && row.n_failed == 0;
  }
  return passed;
}

/// Products one after another. Each has other weights, so no cache of the GPU holds them.
void measure_product(const std::string& device, weft::DType type, int rows, double seconds) {
  constexpr int kWidth = 4096, kProducts = 16;
  weft::Graph graph;
  const weft::Dim n = graph.symbol("n", 1, rows);
  weft::Value x = graph.input("x", {n, kWidth});
  std::vector<std::string> names;
  for (int i = 0; i < kProducts; ++i) {
    names.push_back("w" + std::to_string(i));
    x = weft::linear(x, graph.weight(names.back(), type, {kWidth, kWidth})) * 0.01f;
  }
  graph.output("y", weft::sum(x, {1}));
  weft::Plan plan(std::move(graph), weft::open_devices(*registry(), {device}), {.pins = {{".", device}}});
  const std::size_t bytes = weft::row_bytes(type, kWidth) * kWidth;
  // Bytes of any kind: a product takes as long whatever its numbers are.
  std::vector<std::byte> weights(bytes);
  std::mt19937 random(1);
  for (std::byte& byte : weights) byte = static_cast<std::byte>(random());
  for (const std::string& name : names) plan.set_weight(name, std::span<const std::byte>(weights));
  const std::vector<float> input(static_cast<std::size_t>(rows) * kWidth, 0.5f);
  for (int i = 0; i < 3; ++i) plan.run({{"n", rows}}, {{"x", input}});
  int steps = 0;
  const auto start = Clock::now();
  for (; steps == 0 || seconds_since(start) < seconds; ++steps) plan.run({{"n", rows}}, {{"x", input}});
  const double each = seconds_since(start) / steps / kProducts;
  std::printf(
      R"({"product": "%s", "rows": %d, "microseconds": %.2f, "gigabytes_per_second": %.1f, "teraflops": %.2f})"
      "\n",
      std::string(weft::info(type).name).c_str(), rows, each * 1e6, static_cast<double>(bytes) / each * 1e-9,
      2.0 * kWidth * kWidth * rows / each * 1e-12);
  std::fflush(stdout);
}

std::shared_ptr<const weft::Model> load(const std::string& path, const std::string& device) {
  weft::ModelParams params;
  params.registry = registry();
  params.placement.devices = {device};
  return weft::Model::load(path, params);
}

std::vector<float> all_logits(weft::Context& context, const std::vector<weft::Token>& tokens,
                              std::size_t piece) {
  std::vector<float> all;
  weft::Batch batch;
  for (std::size_t done = 0; done < tokens.size(); done += piece) {
    batch.clear();
    for (std::size_t i = done; i < std::min(done + piece, tokens.size()); ++i)
      batch.add(tokens[i], 0, {.logits = true});
    if (context.decode(batch) != weft::DecodeStatus::kOk) return {};
    for (int i = 0; i < batch.size(); ++i) {
      const auto row = context.logits(i);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

bool check_model(const std::string& path, const std::string& device) {
  const auto model = load(path, device), on_cpu = load(path, "cpu");
  std::mt19937 random(1);
  std::vector<weft::Token> tokens;
  for (int i = 0; i < 40; ++i)
    tokens.push_back(static_cast<weft::Token>(random() % static_cast<unsigned>(model->info().n_vocab)));
  weft::Context reference(on_cpu, {.n_ctx = 128});
  const std::vector<float> expected = all_logits(reference, tokens, tokens.size());
  std::vector<float> first;
  bool same = true;
  for (const std::size_t piece : {std::size_t{40}, std::size_t{7}, std::size_t{1}}) {
    weft::Context context(model, {.n_ctx = 128});
    const std::vector<float> logits = all_logits(context, tokens, piece);
    if (first.empty()) first = logits;
    same = same && logits == first;
  }
  double error = 0.0, power = 0.0;
  for (std::size_t i = 0; i < expected.size() && i < first.size(); ++i) {
    error += std::pow(static_cast<double>(first[i]) - expected[i], 2);
    power += std::pow(static_cast<double>(expected[i]), 2);
  }
  constexpr int kPrompt = 512, kSteps = 64;
  weft::Context context(model, {.n_ctx = 1024});
  weft::Batch batch;
  for (int i = 0; i < kPrompt; ++i)
    batch.add(tokens[static_cast<std::size_t>(i) % tokens.size()], 0, {.logits = i + 1 == kPrompt});
  const auto decode = [&] { return context.decode(batch) == weft::DecodeStatus::kOk; };
  auto start = Clock::now();
  bool ok = decode();
  const double prefill = kPrompt / seconds_since(start);
  const auto step = [&] {
    batch.clear();
    batch.add(tokens[0], 0, {.logits = true});
    ok = decode() && ok;
  };
  for (int i = 0; i < 4; ++i) step();
  start = Clock::now();
  for (int i = 0; i < kSteps; ++i) step();
  const double decoding = kSteps / seconds_since(start);
  const bool near = first.size() == expected.size() && error <= 3e-3 * power;
  std::printf(
      R"({"model": "%s", "nmse_to_cpu": %.3g, "same_bits_in_pieces": %s, "first_prefill_512": %.1f, "decode": %.1f})"
      "\n",
      path.c_str(), error / power, same ? "true" : "false", prefill, decoding);
  std::fflush(stdout);
  return ok && same && near;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string device = "cuda0";
  if (words.size() >= 2 && words[0] == "--device") {
    device = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  try {
    bool passed = true;
    if (words.empty()) {
      for (const weft::DeviceInfo& info : weft::list_devices(*registry()))
        std::printf(R"({"device": "%s", "description": "%s", "features": "%s", "memory": %llu})"
                    "\n",
                    info.name.c_str(), info.description.c_str(),
                    info.features.empty() ? "" : info.features[0].c_str(),
                    static_cast<unsigned long long>(info.memory_total));
#ifndef WEFT_GPU_CHECK_EMULATED
      if (const std::string problem = weft::cuda::gpu_problem(); !problem.empty())
        std::fprintf(stderr, "%s\n", problem.c_str());
#endif
    } else if (words[0] == "conformance") {
      passed = check_ops(device, words.size() > 1 ? words[1] : "");
    } else if (words[0] == "speeds") {
      const double seconds = words.size() > 1 ? std::atof(words[1].c_str()) : 0.3;
      using enum weft::DType;
      for (const weft::DType type : {kQ4_0, kQ8_0, kQ4_K, kQ6_K, kMXFP4, kIQ4_XS, kF16, kF32})
        for (const int rows : {1, 4, 8, 32, 128, 512}) measure_product(device, type, rows, seconds);
    } else {
      for (std::size_t i = 1; i < words.size(); ++i) passed = check_model(words[i], device) && passed;
    }
    return passed ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
