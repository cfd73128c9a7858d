#pragma once
// The steps that narrow down candidates: pure functions on a list, each with the definition that users know it by.
// `Candidates` keeps the list sorted by falling logit (lower id first among equals) once a step has needed that.
#include <vector>

#include "weft/sampler.h"

namespace weft::engine {

struct Candidates {
  std::vector<Candidate> list;
  bool sorted = false;

  void sort();
  /// Probabilities from the logits. Sorts.
  void softmax();
  void keep_first(std::size_t n);  ///< At least one is kept.
  /// Shannon entropy of the probabilities, in nats.
  double entropy() const;
};

/// The k most probable.
void top_k(Candidates& c, int k);
/// The smallest set of the most probable whose probabilities sum to p or more (arXiv 1904.09751).
void top_p(Candidates& c, float p);
/// Those with at least p times the probability of the most probable (arXiv 2407.01082).
void min_p(Candidates& c, float p);
/// The smallest set of those whose surprise is nearest to the entropy, with probability p or more (arXiv 2202.00666).
void typical(Candidates& c, float p);
/// Those within n standard deviations of the largest logit (arXiv 2411.07641).
void top_n_sigma(Candidates& c, float n);
/// With probability `probability`, all that reach the threshold but the least probable of them go. `draw` in [0, 1).
void xtc(Candidates& c, float probability, float threshold, double draw);
/// Logits divided by the temperature; the most probable alone for 0 or less.
void temperature(Candidates& c, float t);
/// A temperature between t - range and t + range, by the entropy's share of its maximum to the power of `exponent`.
void dynamic_temperature(Candidates& c, float t, float range, float exponent);

}  // namespace weft::engine
