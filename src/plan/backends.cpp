// Finds the backends of a program and their devices.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "backend/cpu/device.h"
#include "weft/backend/registry.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft {
namespace {

/// The folder of the library or program that this code is in.
std::filesystem::path own_folder() {
  Dl_info info;
  void* object = nullptr;
  static const char kHere = 0;
  if (dladdr1(&kHere, &info, &object, RTLD_DL_LINKMAP) == 0) return {};
  // For a program the name is its argv[0], which lacks the folder if the shell searched for it.
  const char* const name = static_cast<const link_map*>(object)->l_name;
  std::error_code none;
  return std::filesystem::canonical(*name == '\0' ? "/proc/self/exe" : name, none).parent_path();
}

/// Launchers of many processes say so in the environment.
bool is_launched() {
  constexpr const char* kOfLaunchers[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::any_of(std::begin(kOfLaunchers), std::end(kOfLaunchers),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

/// The number of processes that the launcher started; 1 without a launcher.
int n_launched() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* const text = std::getenv(name); text != nullptr) return std::atoi(text);
  return 1;
}

}  // namespace

std::shared_ptr<Registry> load_backends(std::span<const std::filesystem::path> folders) {
  auto registry = std::make_shared<Registry>();
  registry->add(cpu::backend());
  std::vector<std::filesystem::path> all;
  if (const std::filesystem::path own = own_folder(); !own.empty())
    all = {own, own / "weft", own / ".." / "lib" / "weft"};
  // Backends that join processes take long to load, and a single process does not need them.
  if (is_launched())
    for (std::size_t i = 0, n = all.size(); i < n; ++i) all.push_back(all[i] / "launched");
  all.insert(all.end(), folders.begin(), folders.end());
  registry->load_modules(all);
  return registry;
}

bool init_worker_process() {
  if (!is_launched()) return false;
  const auto registry = load_backends();
  if (registry->init_worker_process()) return true;
  const bool leads =
      std::ranges::any_of(registry->backends(), [](const Backend& one) { return one.name == "mpi"; });
  if (leads || n_launched() <= 1) return false;
  std::string message =
      "a launcher started " + std::to_string(n_launched()) +
      " processes, and this one cannot join them: weft's module for that launcher is not here or "
      "cannot be used. Install a weft that is built with its MPI on all machines";
  for (const std::string& problem : registry->problems())
    if (problem.find("mpi") != std::string::npos) message += "; " + problem;
  throw Error(ErrorCode::kUnsupported, message);
}

std::vector<DeviceInfo> list_devices(const Registry& registry) { return registry.devices(); }
std::vector<DeviceInfo> list_devices() { return load_backends()->devices(); }
std::vector<std::string> problems(const Registry& registry) {
  std::vector<std::string> all(registry.problems().begin(), registry.problems().end());
  for (const Backend& backend : registry.backends())
    if (std::string problem = backend.problem ? backend.problem() : std::string(); !problem.empty())
      all.push_back(std::move(problem));
  return all;
}

}  // namespace weft
