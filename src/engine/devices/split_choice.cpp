#include "engine/devices/split_choice.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/boundary.h"
#include "engine/devices/device_choice.h"
#include "exec/cheapest.h"
#include "exec/device_set.h"

namespace weft {
namespace engine {
namespace {

/// A batcher divides this many sequences or more into groups (batching/flights.cpp: two of the fewest rows).
constexpr int kGrouped = 8;
/// The fraction of the time with divided layers that counts as clearly faster.
constexpr double kClearlyLess = 0.9;
/// The fraction of a device's memory for the formula's data; the rest is for temporaries.
constexpr double kFilled = 0.75;

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", part * 100.0);
  return text;
}

/// In the measure of DeviceInfo::speed, where the host is a usual processor.
Cluster cluster_of(std::span<const DeviceInfo> cpus) {
  Cluster cluster;
  cluster.ubatch_size = 64;  // Prompts go in steps that overlap.
  const double host_step = exec::expected_speed(cpus.front()).step_seconds;
  for (const DeviceInfo& info : cpus) {
    const DeviceSpeed speed = exec::expected_speed(info);
    const bool is_host = info.name == exec::kHostDevice;
    // A device begins one step_seconds after the awaited message, and a link's seconds are the round trip.
    cluster.nodes.push_back(
        {.name = info.name,
         .memory_bytes = kFilled * static_cast<double>(is_host ? info.memory_total : info.memory_free),
         .bytes_per_second = speed.bytes_per_second,
         .flops = speed.flops,
         .link = {.seconds = host_step + (is_host ? 0.0 : speed.step_seconds / 2.0),
                  .bytes_per_second = speed.copy_bytes_per_second}});
  }
  return cluster;
}

}  // namespace

SplitChoice choose_split(std::span<const DeviceInfo> cpus, const ModelWork& work, int n_texts) {
  const std::string n = std::to_string(cpus.size()) + " CPUs";
  const std::string divided = "each layer runs on one of " + n + ": ";
  if (n_texts >= kGrouped)
    return {.split_rows = false,
            .why = divided + "of " + std::to_string(n_texts) +
                   " sequences, one group can run in the first layers while another runs in the later ones"};
  const std::vector<ClusterWay> ways = plan_cluster(work, cluster_of(cpus));
  const auto shared = std::find_if(ways.begin(), ways.end(), [&](const ClusterWay& way) {
    return way.group_size == static_cast<int>(cpus.size());
  });
  const ClusterWay& layers = ways.front();
  if (shared == ways.end()) return {.split_rows = false, .why = divided + "there are too few heads to shard"};
  if (!shared->problem.empty() || !layers.problem.empty())
    return {.split_rows = false, .why = divided + "sharded layers might not fit into memory"};
  const double token = shared->token_seconds / layers.token_seconds;
  const double prompt = shared->prompt_seconds / layers.pipelined_prompt_seconds;
  const std::string times =
      percent(token) + " of the time with whole layers per CPU, and a prompt " + percent(prompt);
  if (token <= kClearlyLess && prompt <= 1.0)
    return {.split_rows = true, .why = n + " shard each layer: by estimate a token takes " + times};
  return {.split_rows = false,
          .why = divided + "with sharded layers a token would take, by estimate, " + times};
}

}  // namespace engine

SplitChoice choose_split(const std::filesystem::path& path, const ModelParams& params) try {
  const PlacementParams& asked = params.placement;
  const bool is_open = asked.devices.empty() && asked.n_layers < 0 && asked.shares.empty() &&
                       asked.pins.empty() && !asked.split_rows && !asked.experts_on_cpu &&
                       params.n_cpu_moe == 0;
  if (!is_open) return {};
  const auto registry = params.registry != nullptr ? params.registry : load_backends();
  const std::vector<std::string> names = engine::choose_devices(*registry, asked).devices;
  if (names.size() < 2) return {};
  std::vector<DeviceInfo> infos;
  for (const std::string& name : names)
    for (DeviceInfo& info : registry->devices())
      if (info.name == name) infos.push_back(std::move(info));
  // Results of different kinds of CPUs differ in their last bits: there no measurement decides.
  const bool alike = std::all_of(infos.begin(), infos.end(), [&](const DeviceInfo& info) {
    return info.n_threads > 0 && info.features == infos.front().features;
  });
  if (!alike || infos.size() != names.size()) return {};
  const FileInfo file = inspect(path);
  if (!file.model || file.model->encoder || file.model->reads_source) return {};
  return engine::choose_split(infos, work_of(path, {.n_ctx = asked.n_ctx}), asked.n_sequences);
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
