#include "api/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/to_size.h"

namespace weft::server {
namespace {

constexpr double kMostScale = 1e6;

/// The factor of the scale in a use.
double factor_of(const AdapterInfo& adapter) {
  return adapter.alpha == 0.0f ? 1.0 : static_cast<double>(adapter.alpha) / adapter.rank;
}

}  // namespace

std::vector<AdapterUse> read_adapters(const Json& list, const std::string& path, const Model& model) {
  const auto n = static_cast<int>(model.adapters().size());
  if (!list.is_array())
    throw bad_request(path, fmt::format("'{}' must be a list of adapters with id and scale", path));
  if (n == 0 && !list.empty())
    throw bad_request(path, fmt::format("'{}': the model was loaded without adapters (--lora)", path));
  std::vector<AdapterUse> uses;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = element(path, i);
    if (!list[i].is_object())
      throw bad_request(at, fmt::format("'{}' must be an object with id and scale", at));
    Fields fields(list[i], at);
    AdapterUse use;
    use.adapter = fields.integer("id", -1, 0, std::max(n - 1, 0));
    use.scale = static_cast<float>(fields.number("scale", 1.0, -kMostScale, kMostScale));
    if (use.adapter < 0)
      throw bad_request(fields.path_of("id"), fmt::format("'{}' is missing", fields.path_of("id")));
    fields.done();
    // Refused here: as a default scale it would fail each request that names no adapters.
    const double factor = factor_of(model.adapters()[to_size(use.adapter)]);
    if (std::abs(use.scale * factor) > kMostScale)
      throw bad_request(fields.path_of("scale"),
                        fmt::format("'{}' must be at most {:g} times the adapter's own scale, {:g}",
                                    fields.path_of("scale"), kMostScale, factor));
    if (std::any_of(uses.begin(), uses.end(),
                    [&](const AdapterUse& other) { return other.adapter == use.adapter; }))
      throw bad_request(at, fmt::format("'{}': adapter {} is given twice", at, use.adapter));
    if (use.scale != 0.0f) uses.push_back(use);
  }
  if (uses.size() > to_size(Context::kMaxAdapters))
    throw bad_request(
        path, fmt::format("'{}': a request may use at most {} adapters", path, Context::kMaxAdapters));
  return uses;
}

Json adapters_json(const ServedModel& model) {
  const std::vector<AdapterUse> usual = model.adapters_for("");
  Json list = Json::array();
  int id = 0;
  for (const AdapterInfo& adapter : model.model->adapters()) {
    const auto use =
        std::find_if(usual.begin(), usual.end(), [&](const AdapterUse& u) { return u.adapter == id; });
    list.push_back({{"id", id},
                    {"name", adapter.name},
                    {"path", adapter.path.filename().string()},
                    {"scale", use != usual.end() ? use->scale : 0.0f},
                    {"rank", adapter.rank},
                    {"alpha", adapter.alpha}});
    ++id;
  }
  return list;
}

void set_adapters(Job& job) {
  if (!job.body.is_array()) throw bad_request("", "the body must be a list of adapters with id and scale");
  job.model->set_usual_adapters(read_adapters(job.body, "adapters", *job.model->model));
  job.send({{"success", true}});
}

}  // namespace weft::server
