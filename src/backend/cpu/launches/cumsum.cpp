#include "backend/cpu/launches/cumsum.h"

#include <algorithm>
#include <array>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kPart = ops::Cumsum::kPart;
constexpr std::int64_t kColumns = 64;  // That are made together.
constexpr std::int64_t kCumsumLeastElements = 8192;
/// Parts of a line, or short lines, that are added up side by side: one alone would wait for each of its
/// additions.
constexpr std::int64_t kTogether = 4;

/// Adds up n elements each of kCount runs that begin `part` apart. Writes the sums, starting from `before`,
/// to `out` if it is not null. Gives the runs' own sums.
template <std::int64_t kCount, typename T, typename Sum>
std::array<Sum, kCount> add_up(const T* x, std::int64_t n, std::int64_t part, const Sum* before, T* out) {
  std::array<Sum, kCount> sums = {};
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < kCount; ++j) {
      Sum& sum = sums[to_size(j)];
      sum += static_cast<Sum>(x[j * part + i]);
      if (out != nullptr) out[j * part + i] = static_cast<T>(before[j] + sum);
    }
  return sums;
}

}  // namespace

CumsumLines::CumsumLines(const Graph& graph, const Node& node)
    : op(*get_op<ops::Cumsum>(node)),
      input(node.inputs[0]),
      output(node.output),
      ints(graph.value(input).dtype == DType::kI32) {
  const Shape& shape = graph.value(input).shape;
  size_dim = shape[op.axis];
  for (int i = 0; i < op.axis; ++i) outer_dim = outer_dim * shape[i];
  for (int i = op.axis + 1; i < shape.rank(); ++i) inner_dim = inner_dim * shape[i];
  const std::vector<std::int64_t> most = graph.bounds();
  const std::int64_t parts = (size_dim.value(most) + kPart - 1) / kPart;
  if (parts > 1) totals.resize(to_size(outer_dim.value(most) * parts * inner_dim.value(most)));
}

void CumsumLines::prepare(const StepInfo& step) {
  outer = outer_dim.value(step.symbols);
  size = size_dim.value(step.symbols);
  inner = inner_dim.value(step.symbols);
  n_parts = (size + kPart - 1) / kPart;
  n_chunks = (inner + kColumns - 1) / kColumns;
  apart = n_parts > 1 && outer * n_chunks < 2 * step.n_threads;
}

void CumsumLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const std::byte>(lines_->input);
  out_ = addresses.plain<std::byte>(lines_->output);
}

std::int32_t CumsumLaunch::prepare(const StepInfo& step) {
  CumsumLines& lines = *lines_;
  lines.prepare(step);
  if (lines.outer * lines.size * lines.inner == 0 || (totals_ && !lines.apart)) return 0;
  const std::int64_t of_each = (lines.apart ? kPart : lines.size) * std::min(lines.inner, kColumns);
  const std::int64_t n = lines.outer * lines.n_chunks * (lines.apart ? lines.n_parts : 1);
  shares_.set(n, (kCumsumLeastElements + of_each - 1) / of_each, step.n_threads);
  return shares_.n_tasks;
}

void CumsumLaunch::run(std::int32_t task, const TaskContext&) {
  if (lines_->ints) {
    run_as<std::int32_t, std::uint32_t>(task);
  } else {
    run_as<float, double>(task);
  }
}

template <typename T, typename Sum>
void CumsumLaunch::run_as(std::int32_t task) const {
  const CumsumLines& lines = *lines_;
  const std::int64_t of_line = lines.apart ? lines.n_parts : 1;
  const std::int64_t end = std::min((task + 1) * shares_.per_task, lines.outer * lines.n_chunks * of_line);
  for (std::int64_t i = task * shares_.per_task; i < end;) {
    // Parts [first, last) of a line, or all of it.
    const std::int64_t line = i / of_line, first = lines.apart ? i % of_line : 0;
    const std::int64_t last = lines.apart ? std::min(of_line, first + (end - i)) : lines.n_parts;
    if (lines.inner == 1 && lines.n_parts == 1 && i + kTogether <= end) {
      constexpr std::array<Sum, kTogether> kNothing = {};
      const std::int64_t at = line * lines.size;
      add_up<kTogether, T, Sum>(reinterpret_cast<const T*>(x_) + at, lines.size, lines.size, kNothing.data(),
                                reinterpret_cast<T*>(out_) + at);
      i += kTogether;
      continue;
    }
    if (lines.inner == 1) {
      run_line<T, Sum>(line, first, last);
    } else {
      run_columns<T, Sum>(line / lines.n_chunks, line % lines.n_chunks, first, last);
    }
    i += lines.apart ? last - first : 1;
  }
}

template <typename T, typename Sum>
void CumsumLaunch::run_line(std::int64_t outer, std::int64_t begin, std::int64_t end) const {
  const CumsumLines& lines = *lines_;
  const T* const x = reinterpret_cast<const T*>(x_) + outer * lines.size;
  T* const out = totals_ ? nullptr : reinterpret_cast<T*>(out_) + outer * lines.size;
  double* const totals = lines_->totals.data() + outer * lines.n_parts;
  Sum before = 0;
  if (!totals_)
    for (std::int64_t part = 0; part < begin; ++part) before += static_cast<Sum>(totals[part]);
  for (std::int64_t part = begin; part < end;) {
    const std::int64_t at = part * kPart, n = std::min(kPart, lines.size - at);
    T* const to = out != nullptr ? out + at : nullptr;
    if (part + kTogether > end || at + kTogether * kPart > lines.size) {
      const Sum sum = add_up<1, T, Sum>(x + at, n, 0, &before, to)[0];
      if (totals_) totals[part] = static_cast<double>(sum);
      before += sum;
      ++part;
      continue;
    }
    // The sums of parts are needed before the elements' starting values.
    std::array<Sum, kTogether> sums = {}, starts = {};
    if (totals_ || !lines.apart) {
      sums = add_up<kTogether, T, Sum>(x + at, kPart, kPart, nullptr, nullptr);
    } else {
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] = static_cast<Sum>(totals[part + static_cast<std::int64_t>(j)]);
    }
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (totals_) totals[part + static_cast<std::int64_t>(j)] = static_cast<double>(sums[j]);
      starts[j] = before;
      before += sums[j];
    }
    if (!totals_) add_up<kTogether, T, Sum>(x + at, kPart, kPart, starts.data(), to);
    part += kTogether;
  }
}

template <typename T, typename Sum>
void CumsumLaunch::run_columns(std::int64_t outer, std::int64_t chunk, std::int64_t begin,
                               std::int64_t end) const {
  const CumsumLines& lines = *lines_;
  const std::int64_t column = chunk * kColumns, n = std::min(kColumns, lines.inner - column);
  const std::int64_t first = outer * lines.size * lines.inner + column;
  const T* const x = reinterpret_cast<const T*>(x_) + first;
  T* const out = reinterpret_cast<T*>(out_) + first;
  double* const totals = lines_->totals.data() + outer * lines.n_parts * lines.inner + column;
  std::array<Sum, kColumns> before = {}, sums;
  if (!totals_)
    for (std::int64_t part = 0; part < begin; ++part)
      for (std::int64_t i = 0; i < n; ++i)
        before[to_size(i)] += static_cast<Sum>(totals[part * lines.inner + i]);
  for (std::int64_t part = begin; part < end; ++part) {
    sums.fill(0);
    const std::int64_t last = std::min((part + 1) * kPart, lines.size);
    for (std::int64_t row = part * kPart; row < last; ++row)
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = to_size(i);
        sums[at] += static_cast<Sum>(x[row * lines.inner + i]);
        if (!totals_) out[row * lines.inner + i] = static_cast<T>(before[at] + sums[at]);
      }
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = to_size(i);
      if (totals_) totals[part * lines.inner + i] = static_cast<double>(sums[at]);
      before[at] += sums[at];
    }
  }
}

std::string CumsumLaunch::describe(const Graph& graph) const {
  return (totals_ ? "cumsum_totals " : "cumsum ") + graph.value(lines_->output).name;
}

}  // namespace weft::cpu
