#include "backend/gpu/step_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "backend/arena.h"
#include "backend/rope.h"
#include "base/check.h"
#include "base/to_size.h"

namespace weft::gpu {
namespace {

/// An entry's groups, then the rows for the kernel, then its words or the one that counts its groups.
constexpr std::size_t kGroupWords = 3, kEntryWords = kGroupWords + 1;
std::size_t entry_bytes(const Launch& launch) {
  WEFT_CHECK(!launch.counts_groups || launch.words.empty());
  return (kEntryWords + launch.words.size() + (launch.counts_groups ? 1 : 0)) * sizeof(std::uint32_t);
}

/// Turns per position as fractions of 2^64 (vulkan/shaders/turns.glsl).
std::vector<std::uint64_t> fixed_point(const std::vector<double>& radians) {
  std::vector<std::uint64_t> result;
  for (const double r : radians) {
    const double turns = r / (2.0 * std::numbers::pi);
    const double fraction = turns - std::floor(turns);
    result.push_back(static_cast<std::uint64_t>(std::ldexp(fraction, 53)) << 11);
  }
  return result;
}

/// By value: whether memory is bound from outside.
std::vector<bool> external_values(const Graph& graph, const Program& program) {
  std::vector<bool> result(graph.values().size());
  for (std::size_t v = 0; v < result.size(); ++v)
    result[v] = graph.values()[v].kind != ValueKind::kResult || program.storage[v] != static_cast<ValueId>(v);
  for (const Brought& brought : program.brought) result[to_size(brought.input)] = false;
  for (const ValueId output : graph.outputs()) result[to_size(output)] = true;
  return result;
}

/// "blk.3.ffn_down.weight" as "ffn_down".
std::string without_layer(const std::string& name) {
  std::string text = name;
  const std::size_t end = text.find_first_not_of("0123456789", 4);
  if (text.starts_with("blk.") && end != std::string::npos && text[end] == '.') text.erase(0, end + 1);
  if (text.ends_with(".weight")) text.resize(text.size() - 7);
  return text;
}

}  // namespace

StepTable::Layout StepTable::lay_out_program(const Graph& graph, const Program& program) {
  Layout result;
  result.external = external_values(graph, program);
  const std::vector<std::int64_t> bounds = graph.bounds();
  std::vector<int> first(graph.values().size(), -1), last(graph.values().size(), -1);
  // A place that a launch leaves out is value 0's, which is never a temporary.
  for (const Launch& launch : program.launches)
    for (const std::uint32_t value : launch.push.tensors) {
      if (value >= first.size()) continue;
      first[value] = first[value] < 0 ? launch.phase : std::min(first[value], launch.phase);
      last[value] = std::max(last[value], launch.phase);
    }
  std::vector<Lifetime> lifetimes;
  for (std::size_t v = 0; v < result.external.size(); ++v) {
    if (result.external[v] || first[v] < 0) continue;
    result.temporaries.push_back(v);
    // Results are floats or 32-bit indices.
    lifetimes.push_back({first[v], last[v], to_size(graph.values()[v].shape.elements(bounds)) * 4});
  }
  for (const Scratch& one : program.scratch)
    lifetimes.push_back({one.first_phase, one.last_phase, to_size(one.rows.value(bounds)) * one.row_bytes});
  ArenaLayout layout = lay_out(lifetimes);
  result.offsets = std::move(layout.offsets);
  result.bytes = layout.bytes;
  return result;
}

StepTable::StepTable(Graph graph, const Target& target)
    : graph_(std::move(graph)),
      program_(make_program(graph_, target)),
      layout_(lay_out_program(graph_, program_)),
      factors_of_(program_.frequencies.size()),
      active_(program_.launches.size()) {
  bytes_ = n_addresses() * sizeof(std::uint64_t);
  for (const Launch& launch : program_.launches) {
    entries_.push_back(bytes_);
    bytes_ += entry_bytes(launch);
    words_.resize(std::max(words_.size(), launch.words.size()));
  }
}

std::size_t StepTable::n_addresses() const {
  return graph_.values().size() + program_.frequencies.size() + program_.scratch.size() +
         program_.brought.size();
}

std::size_t StepTable::frequency_bytes() const {
  std::size_t n = 0;
  for (const Frequencies& f : program_.frequencies) n += to_size(f.rope.n_rot / 2);
  return n * sizeof(std::uint64_t);
}

bool StepTable::needs_grids() const {
  return std::any_of(program_.launches.begin(), program_.launches.end(),
                     [](const Launch& launch) { return launch.grids; });
}

PlanMemory StepTable::memory(bool shares_workspace) const {
  const std::size_t tables = bytes() + frequency_bytes();
  if (shares_workspace) return {.own = tables, .shared = layout_.bytes};
  return {.own = tables + layout_.bytes, .shared = 0};
}

void StepTable::place(const TablePlaces& places) {
  places_ = places;
  for (std::size_t i = 0; i < program_.launches.size(); ++i) {
    Launch& launch = program_.launches[i];
    launch.push.addresses = places.address;
    launch.push.step = places.address + entries_[i];
    if (launch.grids) launch.push.grids = places.grids;
  }
}

void StepTable::bind(const Bindings& bindings, const GpuWorkspace& workspace) {
  bound_at_move_.reset();
  for (std::size_t v = 0; v < layout_.external.size(); ++v) {
    DeviceTensor* const bound = bindings[v];
    if (layout_.external[v] && bound != nullptr) addresses()[v] = buffer_of(*bound).address();
  }
  for (const Brought& brought : program_.brought)
    addresses()[brought.source] = buffer_of(*bindings[to_size(brought.input)]).address();
  for (std::size_t i = 0; i < layout_.temporaries.size(); ++i)
    addresses()[layout_.temporaries[i]] = workspace.address() + layout_.offsets[i];
  const std::size_t scratch_begin = layout_.external.size() + program_.frequencies.size();
  for (std::size_t i = 0; i < program_.scratch.size(); ++i)
    addresses()[scratch_begin + i] = workspace.address() + layout_.offsets[layout_.temporaries.size() + i];
  write_frequencies(bindings);
  bound_at_move_ = workspace.n_moves();
}

void StepTable::write_frequencies(const Bindings& bindings) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < program_.frequencies.size(); ++i) {
    const Frequencies& f = program_.frequencies[i];
    DeviceTensor* const source = f.factors != kNoValue ? bindings[to_size(f.factors)] : nullptr;
    const std::size_t begin = at;
    at += to_size(f.rope.n_rot / 2) * sizeof(std::uint64_t);
    addresses()[layout_.external.size() + i] = places_.frequencies->address() + begin;
    // Steps that alternate between inputs rebind them, and an unchanged table is not made again.
    if (factors_of_[i] == source) continue;
    factors_of_[i].reset();  // Until it is written whole.
    std::vector<float> factors;
    if (source != nullptr) {
      factors.resize(to_size(f.rope.n_rot / 2));
      buffer_of(*source).read(0, std::as_writable_bytes(std::span(factors)));
    }
    const auto table = fixed_point(rope_frequencies(f.rope, factors.empty() ? nullptr : factors.data()));
    places_.frequencies->write(begin, std::as_bytes(std::span(table)));
    factors_of_[i] = source;
  }
}

void StepTable::set_sizes(std::span<const std::int64_t> symbols) {
  for (std::size_t i = 0; i < program_.launches.size(); ++i) {
    const Launch& launch = program_.launches[i];
    const std::size_t n_words = launch.words.size();
    for (std::size_t w = 0; w < n_words; ++w)
      words_[w] = static_cast<std::uint32_t>(launch.words[w].value(symbols));
    const StepSizes sizes = {static_cast<std::uint32_t>(launch.rows.value(symbols)),
                             std::span(words_).first(n_words)};
    const Groups groups = sizes.rows > 0 ? launch.groups(sizes) : Groups{0, 0, 0};
    active_[i] = groups[0] > 0 && groups[1] > 0 && groups[2] > 0;
    volatile std::uint32_t* const to = words_of(i);
    for (std::size_t d = 0; d < kGroupWords; ++d) to[d] = groups[d];
    to[kGroupWords] = sizes.rows;
    for (std::size_t w = 0; w < n_words; ++w) to[kEntryWords + w] = words_[w];
    if (launch.counts_groups) to[kEntryWords] = 0;
  }
  is_cut_ = false;
}

void StepTable::cut() {
  for (std::size_t i = program_.launches.size(); i-- > 0;)
    if (!program_.launches[i].must_run) words_of(i)[0] = 0;
  is_cut_ = true;
}

Groups StepTable::groups(std::size_t launch) const {
  const volatile std::uint32_t* const words = words_of(launch);
  return {words[0], words[1], words[2]};
}

std::string kernel_text(const Launch& launch) {
  std::string text = name(launch.kernel);
  for (const std::uint32_t constant : launch.constants) text += " " + std::to_string(constant);
  return text;
}

std::string describe(const Graph& graph, const Program& program) {
  std::string text;
  for (const Launch& launch : program.launches) {
    const Node& node = graph.node(launch.node);
    text += std::to_string(launch.phase) + " " + kernel_text(launch);
    text += ": " + std::string(weft::to_string(node.op)) + " " + graph.value(node.output).name + "\n";
  }
  return text;
}

std::string work_name(const Graph& graph, const Launch& launch) {
  const Node& node = graph.node(launch.node);
  const std::string kernel = name(launch.kernel);
  if (!kernel.starts_with("matmul")) return kernel + " " + std::string(weft::to_string(node.op));
  const ValueInfo& weight = graph.value(node.inputs[0]);
  const Shape& s = weight.shape;
  double bytes = static_cast<double>(row_bytes(weight.dtype, s.columns()));
  const bool experts = get_op<ops::MatmulExperts>(node) != nullptr;
  for (int i = experts ? 1 : 0; i + 1 < s.rank(); ++i) bytes *= static_cast<double>(s[i].constant());
  if (experts)
    bytes *= static_cast<double>(std::min(s[0].constant(), graph.value(node.inputs[2]).shape.columns()));
  char size[32];
  std::snprintf(size, sizeof size, ", %.1f MB", bytes * 1e-6);
  return kernel + " " + without_layer(weight.name) + size;
}

}  // namespace weft::gpu
