#pragma once
// The requests of a load: random texts of words, as long in tokens as words go, or recorded ones.
#include <cstdint>
#include <random>
#include <string>

#include "load_options.h"

namespace weft::cli {

/// Numbers that are the same with every standard library.
class LoadRandom {
 public:
  explicit LoadRandom(std::uint64_t seed) : engine_(seed) {}
  double uniform();  ///< From 0, below 1.
  std::size_t below(std::size_t bound);
  int draw(const Lengths& lengths);
  /// Seconds to the next arrival, where so many come a second.
  double interval(double rate);

 private:
  std::mt19937_64 engine_;
};

class LoadPrompts {
 public:
  /// `plan` outlives it. Another series is other texts, but for the shared prefix.
  LoadPrompts(const LoadPlan& plan, int series);

  /// The body of the next request, with the model's name.
  std::string next(const std::string& model);
  /// When the next request comes, where that was recorded, in seconds.
  double next_at() const;

 private:
  std::string words(LoadRandom& random, int n_words) const;

  const LoadPlan& plan_;
  LoadRandom random_;
  std::string shared_;
  std::size_t n_made_ = 0;
};

}  // namespace weft::cli
