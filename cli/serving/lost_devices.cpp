#include "serving/lost_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

bool is_among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void leave_out(const std::vector<std::string>& lost, PlacementParams& params) {
  bool unsure = params.devices.empty();
  std::vector<std::string> gone = lost, left;
  std::vector<float> shares;
  for (std::size_t i = 0; i < params.devices.size(); ++i) {
    const std::string& word = params.devices[i];
    const std::size_t equals = word.find('=');
    const bool has_alias = equals != std::string::npos;
    const std::string device = has_alias ? word.substr(equals + 1) : word;
    unsure = unsure || device == "cpu";
    if (!is_among(lost, device)) {
      left.push_back(word);
      if (i < params.shares.size()) shares.push_back(params.shares[i]);
    } else if (has_alias) {
      gone.push_back(word.substr(0, equals));
    }
  }
  if (params.devices.empty() || left.size() < params.devices.size()) {
    const bool all_nothing =
        std::all_of(shares.begin(), shares.end(), [](float share) { return share == 0.0f; });
    if (unsure || all_nothing) shares.clear();
    params.shares = std::move(shares);
  }
  params.devices = std::move(left);
  std::erase_if(params.pins, [&](const Pin& pin) { return is_among(gone, pin.device); });
}

std::string describe_loss(const std::vector<std::string>& lost, const PlacementParams& before) {
  PlacementParams now = before;
  leave_out(lost, now);
  std::string line = fmt::format("lost: {}", fmt::join(lost, ", "));
  if (now.devices != before.devices)
    line += now.devices.empty() ? "; --device is ignored now"
                                : fmt::format("; --device is {} now", fmt::join(now.devices, ","));
  if (now.shares != before.shares)
    line += now.shares.empty() ? "; --tensor-split is ignored now"
                               : fmt::format("; --tensor-split is {} now", fmt::join(now.shares, ","));
  if (const std::size_t n = before.pins.size() - now.pins.size(); n > 0)
    line += fmt::format("; {} of {} pins {} ignored now", n, before.pins.size(), n == 1 ? "is" : "are");
  return line;
}

}  // namespace weft::cli
