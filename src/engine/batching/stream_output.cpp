#include "engine/batching/stream_output.h"

#include <cstddef>
#include <exception>

namespace weft::engine {

bool Ending::end(StopReason reason) noexcept {
  if (done_) return false;
  done_ = true;
  reason_ = reason;
  return true;
}

bool Ending::fail(std::string_view why, bool not_numbers) noexcept {
  if (!end(StopReason::kError)) return false;
  not_numbers_ = not_numbers;
  try {
    error_ = why;
  } catch (const std::exception&) {  // The message is lost, not the error.
  }
  return true;
}

void PooledEmbedding::add(std::span<const float> embedding) {
  sum_.resize(embedding.size());
  for (std::size_t i = 0; i < embedding.size(); ++i) sum_[i] += static_cast<double>(embedding[i]);
  ++n_;
}

std::vector<float> PooledEmbedding::mean() const {
  std::vector<float> mean;
  for (const double sum : sum_) mean.push_back(static_cast<float>(sum / n_));
  return mean;
}

}  // namespace weft::engine
