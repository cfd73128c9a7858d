#pragma once
// The requests of a load: random words with about the wanted number of tokens, or recorded requests.
#include <cstdint>
#include <random>
#include <string>

#include "options/load_options.h"

namespace weft::cli {

/// Random numbers that do not depend on the standard library.
class LoadRandom {
 public:
  explicit LoadRandom(std::uint64_t seed) : engine_(seed) {}
  double uniform();  ///< From 0, below 1.
  std::size_t below(std::size_t bound);
  int draw(const Lengths& lengths);
  /// Seconds to the next arrival, at `rate` arrivals a second.
  double interval(double rate);

 private:
  std::mt19937_64 engine_;
};

class LoadPrompts {
 public:
  /// `plan` outlives it. Series differ in their prompts, except the shared prefix.
  LoadPrompts(const LoadPlan& plan, int series);

  /// The body of the next request, with the model's name.
  std::string next(const std::string& model);
  /// The recorded time of the next request, in seconds.
  double next_at() const;

 private:
  std::string words(LoadRandom& random, int n_words) const;

  const LoadPlan& plan_;
  LoadRandom random_;
  std::string shared_;
  std::size_t n_made_ = 0;
};

}  // namespace weft::cli
