#include "backend/cpu/launches/made.h"

#include <algorithm>

#include "backend/random.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kMadeLeastElements = 16384;
constexpr std::int64_t kLeastBlocks = 512;  // Of random numbers.

}  // namespace

ArangeLaunch::ArangeLaunch(const Node& node) : op_(*get_op<ops::Arange>(node)), output_(node.output) {}

void ArangeLaunch::bind(const Addresses& addresses) { out_ = addresses.plain<std::byte>(output_); }

std::int32_t ArangeLaunch::prepare(const StepInfo& step) {
  begin_ = op_.begin.value(step.symbols);
  n_ = op_.size.value(step.symbols);
  shares_.set(n_, kMadeLeastElements, step.n_threads);
  return shares_.n_tasks;
}

void ArangeLaunch::run(std::int32_t task, const TaskContext&) {
  const std::int64_t first = task * shares_.per_task, end = std::min(first + shares_.per_task, n_);
  const auto step = static_cast<std::uint32_t>(op_.step), begin = static_cast<std::uint32_t>(begin_);
  for (std::int64_t i = first; i < end; ++i) {
    const auto number = static_cast<std::int32_t>(begin + static_cast<std::uint32_t>(i) * step);
    if (op_.dtype == DType::kI32) {
      reinterpret_cast<std::int32_t*>(out_)[i] = number;
    } else {
      reinterpret_cast<float*>(out_)[i] = static_cast<float>(number);
    }
  }
}

RandomLaunch::RandomLaunch(const Node& node)
    : op_(*get_op<ops::Random>(node)), counter_id_(node.inputs[0]), output_(node.output) {}

void RandomLaunch::bind(const Addresses& addresses) {
  counter_ = addresses.plain<const std::int32_t>(counter_id_);
  out_ = addresses.plain<float>(output_);
}

std::int32_t RandomLaunch::prepare(const StepInfo& step) {
  n_ = op_.shape.elements(step.symbols);
  shares_.set((n_ + 3) / 4, kLeastBlocks, step.n_threads);
  return shares_.n_tasks;
}

void RandomLaunch::run(std::int32_t task, const TaskContext&) {
  const std::int64_t first = task * shares_.per_task;
  const std::int64_t end = std::min(first + shares_.per_task, (n_ + 3) / 4);
  for (std::int64_t block = first; block < end; ++block) {
    const PhiloxWords words = random_words(op_.seed, *counter_, static_cast<std::uint64_t>(block));
    std::array<float, 4> numbers;
    if (op_.kind == RandomKind::kUniform) {
      for (std::size_t i = 0; i < 4; ++i) numbers[i] = uniform_of(words[i]);
    } else {
      const auto a = normals_of(words[0], words[1]), b = normals_of(words[2], words[3]);
      numbers = {a[0], a[1], b[0], b[1]};
    }
    std::copy_n(numbers.begin(), std::min<std::int64_t>(4, n_ - 4 * block), out_ + 4 * block);
  }
}

}  // namespace weft::cpu
