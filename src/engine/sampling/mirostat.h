#pragma once
// Mirostat (Basu et al. 2021, arXiv 2007.14966): keeps the surprise of drawn tokens near a target tau by
// feedback.
#include "engine/sampling/candidates.h"
#include "engine/sampling/random.h"

namespace weft::engine {

class Mirostat {
 public:
  Mirostat(int version, float tau, float eta, std::size_t n_vocab);

  /// Cuts the candidates by the current bound mu and draws: returns the index in the list.
  std::size_t draw(Candidates& candidates, Random& random);
  /// The drawn token was accepted: updates mu by its surprise.
  void accept();
  void reset();

 private:
  void cut_by_estimate(Candidates& candidates) const;
  void cut_by_surprise(Candidates& candidates) const;

  int version_;
  double tau_, eta_, n_vocab_;
  double mu_;
  double surprise_ = 0.0;  // The surprise of the token drawn last, in bits.
};

}  // namespace weft::engine
