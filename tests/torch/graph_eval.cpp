// Runs graphs on a device through the public API, and compares their outputs with another library's.
//
//   graph_eval [--device NAME] [--modules FOLDER] [--threads N] CASES
//
// CASES.jsonl has a case a line, CASES.bin the elements of all arrays. A case:
//   {"symbols": {"s0": [min, max, value]},
//    "leaves": [{"kind": "input" | "weight", "dtype": "f32", "shape": [2, "s0"], "at": 0, "bytes": 24}],
//    "nodes": [{"op": "softmax", "in": [0], "p": {}}],
//    "outputs": [{"value": 1, "dtype": "f32", "shape": [2, 3], "at": 24, "tolerance": 48}]}
// Values count from 0, leaves first. "at" is the offset of expected elements, and "tolerance" of their
// absolute tolerances (F32; NaN: any value is right). With symbols, a step at their upper bounds, with zeros,
// comes first. A named device computes the ops that it has, the CPU the rest.
//
// Prints a line for each failed case, and at the end their number. Exits with 1 where one failed.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "functions.h"
#include "weft/backend.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace {

using weft::torch::Json;

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    throw weft::Error(weft::ErrorCode::kIo, path + ": cannot be read");
  return bytes;
}

std::span<const std::byte> part(std::span<const std::byte> bytes, std::size_t at, std::size_t n) {
  if (at > bytes.size() || n > bytes.size() - at)
    throw weft::Error(weft::ErrorCode::kInvalidFile, "a case has elements beyond the file's end");
  return bytes.subspan(at, n);
}

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

class Evaluator {
 public:
  Evaluator(const std::string& device, const std::filesystem::path& modules, int n_threads)
      : registry_(weft::load_backends({&modules, 1})), device_name_(device), n_threads_(n_threads) {
    if (device == "cpu") {
      devices_ = std::make_unique<weft::Devices>(weft::open_devices(*registry_, {"cpu"}));
    } else {
      devices_ = std::make_unique<weft::Devices>(weft::open_devices(*registry_, {device}));
      device_ = registry_->open(device);
    }
  }

  /// What is wrong with the case, or nothing.
  std::string problem_of(const Json& c, std::span<const std::byte> bytes) {
    weft::Graph g;
    std::vector<weft::Plan::SymbolValue> symbols, bounds;
    std::map<std::string, weft::Dim> dims;
    for (const auto& [name, range] : c.at("symbols").items()) {
      const weft::Dim dim = dims[name] = g.symbol(name, range.at(0), range.at(1));
      bounds.emplace_back(dim, range.at(1).get<std::int64_t>());
      symbols.emplace_back(dim, range.at(2).get<std::int64_t>());
    }
    const auto shape_of = [&](const Json& sizes) {
      std::vector<weft::Dim> shape;
      for (const Json& size : sizes)
        shape.push_back(size.is_string() ? dims.at(size.get<std::string>())
                                         : weft::Dim(size.get<std::int64_t>()));
      return weft::Shape(shape);
    };

    weft::torch::Values values;
    std::vector<std::pair<std::string, std::span<const std::byte>>> inputs, weights;
    for (const Json& leaf : c.at("leaves")) {
      const std::string name = "leaf_" + std::to_string(values.size());
      const weft::DType dtype = weft::dtype_from_name(leaf.at("dtype").get<std::string>()).value();
      const bool weight = leaf.at("kind") == "weight";
      values.push_back(weight ? g.weight(name, dtype, shape_of(leaf.at("shape")))
                              : g.input(name, shape_of(leaf.at("shape")), dtype));
      (weight ? weights : inputs).emplace_back(name, part(bytes, leaf.at("at"), leaf.at("bytes")));
    }
    for (const Json& node : c.at("nodes")) {
      weft::torch::Values in;
      for (const Json& i : node.at("in")) in.push_back(values.at(i.get<std::size_t>()));
      const auto name = node.at("op").get<std::string>();
      const auto found = weft::torch::functions().find(name);
      if (found == weft::torch::functions().end()) return "graph_eval has no function " + name;
      values.push_back(found->second({g, in, node.at("p"), shape_of}));
    }
    for (std::size_t i = 0; i < c.at("outputs").size(); ++i)
      g.output("out_" + std::to_string(i), values.at(c["outputs"][i].at("value").get<std::size_t>()));

    weft::Plan plan(g, *devices_, {.pins = pins(g), .n_threads = n_threads_});
    for (const std::string& place : plan.placement()) (place == device_name_ ? n_there_ : n_elsewhere_) += 1;
    for (const auto& [name, data] : weights) plan.set_weight(name, data);
    if (!symbols.empty()) {
      // A step that is larger leaves its numbers behind.
      std::vector<std::vector<std::byte>> zeros;
      std::vector<weft::Plan::InputData> data;
      for (const auto& [name, some] : inputs) {
        const weft::ValueInfo& input = g.value(g.find(name));
        zeros.emplace_back(static_cast<std::size_t>(input.shape.elements(g.bounds())) * 4);
        data.emplace_back(name, std::span<const std::byte>(zeros.back()));
      }
      plan.run(bounds, data);
    }
    std::vector<weft::Plan::InputData> data;
    for (const auto& [name, some] : inputs) data.emplace_back(name, some);
    plan.run(symbols, data);
    for (std::size_t i = 0; i < c.at("outputs").size(); ++i) {
      const std::string problem = compare(plan, "out_" + std::to_string(i), c["outputs"][i], bytes);
      if (!problem.empty()) return problem;
    }
    return "";
  }

  long n_there() const { return n_there_; }
  long n_elsewhere() const { return n_elsewhere_; }

 private:
  /// Nodes that the device has, by their exact names.
  std::vector<weft::Pin> pins(const weft::Graph& g) const {
    std::vector<weft::Pin> result;
    if (device_ == nullptr) return result;
    for (const weft::Node& node : g.nodes())
      if (device_->supports(g, node)) result.push_back({"^" + g.value(node.output).name + "$", device_name_});
    return result;
  }

  static std::string compare(const weft::Plan& plan, const std::string& name, const Json& expected,
                             std::span<const std::byte> bytes) {
    if (plan.shape(name) != expected.at("shape").get<std::vector<std::int64_t>>())
      return name + " has another shape";
    std::size_t n = 1;
    for (const std::int64_t size : plan.shape(name)) n *= static_cast<std::size_t>(size);
    std::vector<std::byte> got(n * 4);
    plan.read(name, std::span(got));
    const auto want = part(bytes, expected.at("at"), n * 4);
    const bool is_float = expected.at("dtype") == "f32";
    const auto tolerance = is_float ? part(bytes, expected.at("tolerance"), n * 4) : want;
    std::string first;
    std::size_t n_wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double a = element<std::int32_t>(got, i), b = element<std::int32_t>(want, i), within = 0.0;
      if (is_float) {
        a = static_cast<double>(element<float>(got, i));
        b = static_cast<double>(element<float>(want, i));
        within = static_cast<double>(element<float>(tolerance, i));
      }
      if (a == b || std::fabs(a - b) <= within || std::isnan(within) || (std::isnan(a) && std::isnan(b)))
        continue;
      if (n_wrong++ > 0) continue;
      char text[160];
      std::snprintf(text, sizeof(text), "%s[%zu] is %.9g, not %.9g within %.2g", name.c_str(), i, a, b,
                    within);
      first = text;
    }
    return n_wrong > 1 ? first + " (and " + std::to_string(n_wrong - 1) + " more)" : first;
  }

  std::shared_ptr<weft::Registry> registry_;
  std::string device_name_;
  int n_threads_;
  std::unique_ptr<weft::Devices> devices_;
  std::shared_ptr<weft::Device> device_;  // To be asked. Null: the CPU, which has all.
  long n_there_ = 0, n_elsewhere_ = 0;
};

int run(const std::string& cases, const std::string& device, const std::string& modules, int n_threads) {
  const std::vector<std::byte> bytes = read_file(cases + ".bin");
  std::ifstream lines(cases + ".jsonl");
  Evaluator evaluator(device, modules, n_threads);
  long n_cases = 0, n_failed = 0;
  for (std::string line; std::getline(lines, line); ++n_cases) {
    std::string problem;
    try {
      problem = evaluator.problem_of(Json::parse(line), bytes);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) continue;
    ++n_failed;
    std::printf("case %ld: %s\n", n_cases, problem.c_str());
    std::fflush(stdout);
  }
  std::printf("%ld cases on %s, %ld failed; %ld nodes there, %ld elsewhere\n", n_cases, device.c_str(),
              n_failed, evaluator.n_there(), evaluator.n_elsewhere());
  return n_failed == 0 && n_cases > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device = "cpu", modules, cases;
  int n_threads = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else if (word == "--modules" && i + 1 < argc) {
      modules = argv[++i];
    } else if (word == "--threads" && i + 1 < argc) {
      n_threads = std::stoi(argv[++i]);
    } else {
      cases = word;
    }
  }
  if (cases.empty()) {
    std::fputs("usage: graph_eval [--device NAME] [--modules FOLDER] [--threads N] CASES\n", stderr);
    return 2;
  }
  return run(cases, device, modules, n_threads);
} catch (const std::exception& error) {
  std::fprintf(stderr, "graph_eval: %s\n", error.what());
  return 2;
}
