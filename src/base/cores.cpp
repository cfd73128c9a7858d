#include "base/cores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/folder.h"
#include "base/to_size.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include "base/control_groups.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

/// A core with less than this part of the fastest one's capacity is a slow one. Cores of one kind differ by
/// up to a tenth in their highest clock; of two kinds, by a third and more.
constexpr double kFastShare = 0.8;
constexpr int kMostCpus = 8192;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

/// "0-3,8,10-11" to numbers; malformed parts are left out.
std::vector<int> parse_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::optional<int> first = number(part);
    const std::size_t dash = part.find('-');
    const std::optional<int> last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMostCpus) continue;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> affinity_of_process() {
  std::vector<int> cpus;
#if defined(__linux__)
  // A machine may have more CPUs than cpu_set_t holds: then the call wants a larger set.
  for (int size = CPU_SETSIZE; size <= kMostCpus; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(to_size(size));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(to_size(size));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < size; ++cpu)
      if (CPU_ISSET_S(to_size(cpu), bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (known) break;
  }
#endif
  const int n = static_cast<int>(std::thread::hardware_concurrency());
  for (int cpu = 0; cpus.empty() && cpu < std::max(n, 1); ++cpu) cpus.push_back(cpu);
  return cpus;
}

/// The least of the quotas from the process's group up.
double read_quota(const fs::path& root) {
  double least = 0.0;
  const auto consider = [&](double quota, double period) {
    if (quota > 0.0 && period > 0.0 && (least == 0.0 || quota / period < least)) least = quota / period;
  };
  for (const fs::path& folder : control_groups(root, "cpu")) {
    // Version 2: "quota period" or "max period". Version 1: two files, -1 for no limit.
    const std::string line = first_line(folder / "cpu.max");
    const std::size_t space = line.find(' ');
    if (space != std::string::npos)
      consider(number(line).value_or(0), number(std::string_view(line).substr(space + 1)).value_or(0));
    consider(number(first_line(folder / "cpu.cfs_quota_us")).value_or(0),
             number(first_line(folder / "cpu.cfs_period_us")).value_or(0));
  }
  return least;
}

/// Keeps CPUs that are in the list too, if the list is not empty.
void intersect(std::vector<int>& cpus, const std::string& list) {
  const std::vector<int> allowed = parse_list(list);
  if (allowed.empty()) return;
  std::vector<int> both;
  for (const int cpu : cpus)
    if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) both.push_back(cpu);
  if (!both.empty()) cpus = both;
}

/// Memory nodes, by CPU.
std::map<int, int> read_nodes(const fs::path& root) {
  std::map<int, int> node_of;
  const fs::path folder = root / "sys/devices/system/node";
  for (const std::string& name : names_in(folder).value_or(std::vector<std::string>())) {
    if (!name.starts_with("node")) continue;
    const std::optional<int> node = number(std::string_view(name).substr(4));
    if (!node) continue;
    for (const int cpu : parse_list(first_line(folder / name / "cpulist"))) node_of[cpu] = *node;
  }
  return node_of;
}

/// CPUs that share the L3; nothing where there is none, or the system says nothing.
std::string cache_of(const fs::path& cpu) {
  constexpr int kMostCaches = 8;
  for (int i = 0; i < kMostCaches; ++i) {
    const fs::path cache = cpu / "cache" / ("index" + std::to_string(i));
    if (first_line(cache / "level") == "3") return first_line(cache / "shared_cpu_list");
  }
  return "";
}

}  // namespace

std::vector<Core> Cores::fast() const {
  int most = 0;
  for (const Core& core : all) most = std::max(most, core.capacity);
  std::vector<Core> fast;
  for (const Core& core : all)
    if (core.capacity == 0 || core.capacity >= kFastShare * most) fast.push_back(core);
  return fast;
}

int Cores::default_threads() const {
  const int n = static_cast<int>(fast().size());
  return quota > 0.0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, n) : n;
}

int Cores::helpers(int n_threads) const {
  const auto n_fast = static_cast<int>(fast().size());
  return n_threads == n_fast && quota == 0.0 ? static_cast<int>(all.size()) - n_fast : 0;
}

std::vector<int> Cores::nodes() const {
  std::set<int> nodes;
  for (const Core& core : all) nodes.insert(core.node);
  return {nodes.begin(), nodes.end()};
}

int Cores::group_size() const {
  std::map<int, int> n_cores;  // By cache.
  for (const Core& core : fast()) ++n_cores[core.cache];
  int most = 0;
  for (const auto& [cache, n] : n_cores) most = std::max(most, n);
  const int n_parts = (most + kMostGroup - 1) / kMostGroup;  // Of about the same size.
  return std::max((most + n_parts - 1) / n_parts, kLeastGroup);
}

Cores read_cores(const CoresSource& source) {
  const fs::path system = source.root / "sys/devices/system/cpu";
  std::vector<int> cpus = source.affinity ? *source.affinity : affinity_of_process();
  intersect(cpus, first_line(system / "online"));
  for (const fs::path& folder : control_groups(source.root, "cpuset")) {
    intersect(cpus, first_line(folder / "cpuset.cpus.effective"));
    intersect(cpus, first_line(folder / "cpuset.cpus"));
  }
  if (cpus.empty()) cpus = {0};
  std::sort(cpus.begin(), cpus.end());

  // Intel's hybrid processors list their kinds; the slow one's cores clock high but do half the work at it.
  const std::vector<int> slow_kind = parse_list(first_line(source.root / "sys/devices/cpu_atom/cpus"));
  const std::map<int, int> node_of = read_nodes(source.root);
  std::map<std::string, int> caches;  // Their numbers, by the CPUs that share them.

  Cores cores;
  cores.quota = read_quota(source.root);
  std::map<std::vector<int>, std::size_t> core_of;  // By its hardware threads, also unusable ones.
  for (const int cpu : cpus) {
    const fs::path folder = system / ("cpu" + std::to_string(cpu));
    std::vector<int> siblings = parse_list(first_line(folder / "topology/thread_siblings_list"));
    if (siblings.empty()) siblings = {cpu};
    const auto [found, is_new] = core_of.try_emplace(siblings, cores.all.size());
    if (!is_new) {
      cores.all[found->second].cpus.push_back(cpu);
      continue;
    }
    Core core{.cpus = {cpu}};
    // Arm's systems give a core's capacity, others its highest clock.
    core.capacity = number(first_line(folder / "cpu_capacity")).value_or(0);
    if (core.capacity == 0)
      core.capacity = number(first_line(folder / "cpufreq/cpuinfo_max_freq")).value_or(0);
    if (std::find(slow_kind.begin(), slow_kind.end(), cpu) != slow_kind.end()) core.capacity /= 2;
    const auto node = node_of.find(cpu);
    if (node != node_of.end()) core.node = node->second;
    if (const std::string cache = cache_of(folder); !cache.empty())
      core.cache = caches.try_emplace(cache, static_cast<int>(caches.size())).first->second;
    cores.all.push_back(std::move(core));
  }
  if (slow_kind.empty() || !std::ranges::all_of(cores.all, [](const Core& c) { return c.capacity == 0; }))
    return cores;
  // No clocks are known, the kinds are.
  for (Core& core : cores.all)
    core.capacity = std::ranges::find(slow_kind, core.cpus.front()) != slow_kind.end() ? 1 : 2;
  return cores;
}

}  // namespace weft::base
