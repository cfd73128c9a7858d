#include "backend/conformance/conformance.h"

#include "backend/conformance/case.h"

namespace weft {

std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options) {
  conformance::Suite suite(device, options);
  conformance::cases::elementwise(suite);
  conformance::cases::norms(suite);
  conformance::cases::get_rows(suite);
  conformance::cases::products(suite);
  conformance::cases::ropes(suite);
  conformance::cases::caches(suite);
  conformance::cases::attention(suite);
  conformance::cases::recurrent(suite);
  conformance::cases::best(suite);
  conformance::cases::log_sums(suite);
  conformance::cases::experts(suite);
  return suite.results();
}

}  // namespace weft
