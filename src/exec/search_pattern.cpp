#include "exec/search_pattern.h"

#include <new>

#include "base/pcre2_handles.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

// A name of a tensor takes a few hundred of these steps; a pattern that explodes takes them in milliseconds.
constexpr std::uint32_t kMaxSteps = 200'000;
constexpr std::uint32_t kMaxHeapKiB = 4096;

}  // namespace

struct SearchPattern::Impl {
  base::Pcre2Code code;
  base::Pcre2MatchContext limits;
};

SearchPattern::SearchPattern(std::string_view pattern) : pattern_(pattern) {
  auto impl = std::make_unique<Impl>();
  int error = 0;
  PCRE2_SIZE at = 0;
  impl->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(), 0, &error, &at, nullptr));
  if (impl->code == nullptr) {
    PCRE2_UCHAR what[256] = {};
    pcre2_get_error_message(error, what, sizeof what);
    throw Error(ErrorCode::kInvalidArgument,
                "'" + pattern_ + "' is not a regular expression: " + reinterpret_cast<const char*>(what) +
                    " (at character " + std::to_string(at + 1) + ")");
  }
  impl->limits.reset(pcre2_match_context_create(nullptr));
  if (impl->limits == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(impl->limits.get(), kMaxSteps);
  pcre2_set_heap_limit(impl->limits.get(), kMaxHeapKiB);
  impl_ = std::move(impl);
}

SearchPattern::~SearchPattern() = default;

bool SearchPattern::found_in(std::string_view text) const {
  const base::Pcre2MatchData data(pcre2_match_data_create(1, nullptr));
  if (data == nullptr) throw std::bad_alloc();
  const int rc = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                             data.get(), impl_->limits.get());
  // A match with more groups than `data` has room for is one as well (0).
  if (rc >= 0) return true;
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  throw Error(ErrorCode::kInvalidArgument, "'" + pattern_ + "' takes too long to match '" +
                                               std::string(text.substr(0, 64)) +
                                               "'; use a pattern with less backtracking");
}

}  // namespace weft::exec
