#pragma once
// The list of Python's options: the name of each and the member that it sets. weft/options.py has their types
// for people and type checkers. A test compares the two.
#include <span>
#include <string>
#include <vector>

#include "binding.h"
#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/embedder.h"
#include "weft/model.h"
#include "weft/sampler.h"
#include "weft/service.h"

namespace weft::python {

std::span<const Field<ModelParams>> model_fields();
std::span<const Field<ContextParams>> context_fields();
std::span<const Field<ServiceParams>> service_fields();
std::span<const Field<EmbedderParams>> embedder_fields();
std::span<const Field<SamplerParams>> sampler_fields();
/// A request: its parameters, and options that are added to them last.
struct RequestOptions {
  RequestParams params = {};
  bool shows_stops = false;                 ///< Stop strings are included in the completion.
  std::vector<std::string> bad_words = {};  ///< As TokenBans::add_word has them.
  std::vector<Token> allowed = {};          ///< TokenBans::allowed
};
/// The options of requests, without their samplers.
std::span<const Field<RequestOptions>> request_fields();

}  // namespace weft::python
