#include "engine/batching/banned_strings.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/to_size.h"

namespace weft::engine {
namespace {

std::vector<std::string> lowered(std::span<const std::string> strings) {
  std::vector<std::string> all(strings.begin(), strings.end());
  for (std::string& one : all) std::ranges::transform(one, one.begin(), base::ascii_lower);
  return all;
}

}  // namespace

BannedStrings::BannedStrings(std::span<const std::string> strings) : matcher_(lowered(strings)) {
  for (const std::string& one : strings) sizes_.push_back(one.size());
}

int BannedStrings::push(OutputToken token, std::string_view bytes) {
  held_.push_back(token.id);
  places_.push_back({std::move(token), bytes.size(), matcher_.state(), std::exchange(banned_next_, {})});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int found = matcher_.push(base::ascii_lower(bytes[i]));
    if (found >= 0) return go_back(sizes_[to_size(found)] + bytes.size() - i - 1);
  }
  return 0;
}

/// The string begins `n_bytes` before the end.
int BannedStrings::go_back(std::size_t n_bytes) {
  std::size_t first = places_.size();
  for (std::size_t n = 0; n < n_bytes && first > 0;) n += places_[--first].n_bytes;
  const auto n_dropped = static_cast<int>(places_.size() - first);
  Place& place = places_[first];
  matcher_.set_state(place.before);
  banned_next_ = std::move(place.banned);
  banned_next_.push_back(place.token.id);
  places_.resize(first);
  held_.resize(first);
  return n_dropped;
}

std::size_t BannedStrings::n_certain() const {
  std::size_t n = places_.size();
  for (std::size_t n_bytes = 0; n > 0 && n_bytes < matcher_.n_open();) n_bytes += places_[--n].n_bytes;
  return n;
}

OutputToken BannedStrings::take() {
  OutputToken token = std::move(places_.front().token);
  places_.erase(places_.begin());
  held_.erase(held_.begin());
  return token;
}

}  // namespace weft::engine
