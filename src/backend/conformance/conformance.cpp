#include "weft/conformance.h"

#include <algorithm>

#include "backend/conformance/case.h"
#include "weft/backend/registry.h"
#include "weft/error.h"

namespace weft {

std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options) {
  const std::vector<std::string> ops = op_names();
  if (!options.only.empty() && std::find(ops.begin(), ops.end(), options.only) == ops.end()) {
    std::string known;
    for (const std::string& op : ops) known += (known.empty() ? "" : ", ") + op;
    throw Error(ErrorCode::kNotFound, "there is no op \"" + options.only + "\"; known are " + known);
  }
  conformance::Suite suite(device, options);
  conformance::cases::elementwise(suite);
  conformance::cases::norms(suite);
  conformance::cases::get_rows(suite);
  conformance::cases::products(suite);
  conformance::cases::ropes(suite);
  conformance::cases::hadamards(suite);
  conformance::cases::caches(suite);
  conformance::cases::attention(suite);
  conformance::cases::recurrent(suite);
  conformance::cases::best(suite);
  conformance::cases::log_sums(suite);
  conformance::cases::experts(suite);
  conformance::cases::ragged(suite);
  conformance::cases::general(suite);
  conformance::cases::windows(suite);
  conformance::cases::order(suite);
  conformance::cases::sequence(suite);
  return suite.results();
}

std::vector<ConformanceCase> check_conformance(const Registry& registry, const std::string& device,
                                               const ConformanceOptions& options) {
  return check_conformance(*registry.open(device), options);
}

}  // namespace weft
