// Which backends a program finds, and their devices.
#include <dlfcn.h>

#include "backend/cpu/device.h"
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft {
namespace {

/// The folder of the library or program that this code is in.
std::filesystem::path own_folder() {
  Dl_info info;
  static const char kHere = 0;
  if (dladdr(&kHere, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code none;
  return std::filesystem::canonical(info.dli_fname, none).parent_path();
}

}  // namespace

std::shared_ptr<Registry> find_backends(std::span<const std::filesystem::path> folders) {
  auto registry = std::make_shared<Registry>();
  registry->add(cpu::backend());
  std::vector<std::filesystem::path> all;
  if (const std::filesystem::path own = own_folder(); !own.empty())
    all = {own, own / "weft", own / ".." / "lib" / "weft"};
  all.insert(all.end(), folders.begin(), folders.end());
  registry->load_modules(all);
  return registry;
}

std::vector<DeviceInfo> devices(const Registry& registry) { return registry.devices(); }
std::vector<DeviceInfo> devices() { return find_backends()->devices(); }
std::vector<std::string> problems(const Registry& registry) {
  return {registry.problems().begin(), registry.problems().end()};
}

}  // namespace weft
