#pragma once
// The steps that reshape or cut a distribution. Each keeps at least one
// candidate. Values are checked by the caller.
#include "engine/sampling/candidates.h"
#include "engine/sampling/random.h"

namespace weft::engine {

/// Keeps the most probable whose probabilities sum to p (Holtzman et al. 2019,
/// nucleus sampling), the one that reaches p included.
void cut_top_p(Candidates& candidates, float p);
/// Keeps candidates with at least p times the probability of the best (Nguyen et al. 2024, min-p).
void cut_min_p(Candidates& candidates, float p);
/// Keeps candidates whose surprise -ln p is nearest to the entropy, until their probabilities exceed `mass`
/// (Meister et al. 2022, locally typical sampling).
void cut_typical(Candidates& candidates, float mass);
/// Keeps logits within n standard deviations of the largest (Tang et al. 2024,
/// top-n-sigma).
void cut_top_n_sigma(Candidates& candidates, float n);
/// Exclude top choices: with the given probability, drops all but the least probable of the candidates that
/// have at least `threshold` (p-e-w, text-generation-webui 2024).
void cut_xtc(Candidates& candidates, float probability, float threshold, Random& random);

/// Divides the logits by `temperature` (> 0).
void apply_temperature(Candidates& candidates, float temperature);
/// A temperature between t - range and t + range (at least 0), from the entropy
/// H of the distribution: min + (max - min) (H / ln n)^exponent (as in
/// llama.cpp's temp_ext).
void apply_dynamic_temperature(Candidates& candidates, float temperature, float range, float exponent);

/// Normalises and draws: returns the index in the list.
std::size_t draw(Candidates& candidates, Random& random);

}  // namespace weft::engine
