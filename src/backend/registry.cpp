#include "weft/backend/registry.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <utility>

#include "base/folder.h"
#include "weft/backend/module.h"
#include "weft/error.h"

namespace weft {
namespace {

/// Whether mapped parts of a library are past its file's end, where reading them would end the process: it
/// was copied in part. Files that are not libraries of this machine are left to dlopen.
bool is_cut_short(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto read = [&](std::uint64_t at, auto& to) {
    file.seekg(static_cast<std::streamoff>(at));
    return static_cast<bool>(file.read(reinterpret_cast<char*>(&to), sizeof to));
  };
  Elf64_Ehdr header;
  if (!read(0, header) || !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!read(header.e_phoff + i * sizeof part, part)) return true;
    if (part.p_type == PT_LOAD && (part.p_offset > size || part.p_filesz > size - part.p_offset)) return true;
  }
  return false;
}

}  // namespace

void Registry::add(Backend backend) {
  const auto same = std::find_if(backends_.begin(), backends_.end(),
                                 [&](const Backend& other) { return other.name == backend.name; });
  if (same != backends_.end()) {
    *same = std::move(backend);
  } else {
    backends_.push_back(std::move(backend));
  }
}

void Registry::load_module(const std::filesystem::path& path) {
  const auto problem = [&](const std::string& what) { problems_.push_back(path.string() + ": " + what); };
  if (is_cut_short(path)) return problem("is incomplete; install it again");
  // Modules stay loaded: their devices may outlive every registry.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return problem(dlerror());
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
  const ModuleInfo* const module = entry != nullptr ? entry() : nullptr;
  if (module == nullptr)
    return problem("is not a backend of weft: it does not export " + std::string(kModuleEntry));
  const ModuleInfo own;
  if (module->version != own.version || module->bytes_of_graph != own.bytes_of_graph ||
      module->bytes_of_node != own.bytes_of_node || module->bytes_of_device_info != own.bytes_of_device_info)
    return problem("was built for another version of weft; install the one that came with this program");
  try {
    module->add(*this);
    if (module->init_worker_process != nullptr) worker_inits_.push_back(module->init_worker_process);
  } catch (const std::exception& error) {
    problem(error.what());
  }
}

void Registry::load_modules(std::span<const std::filesystem::path> folders) {
  for (const std::filesystem::path& folder : folders) {
    std::vector<std::filesystem::path> found;
    for (const std::string& name : base::names_in(folder).value_or(std::vector<std::string>()))
      if (name.starts_with("weft_backend_") && name.ends_with(".so")) found.push_back(folder / name);
    std::sort(found.begin(), found.end());
    for (const auto& path : found) load_module(path);
  }
}

bool Registry::init_worker_process() const {
  return std::any_of(worker_inits_.begin(), worker_inits_.end(), [&](const auto one) { return one(*this); });
}

std::vector<DeviceInfo> Registry::devices() const {
  std::vector<DeviceInfo> result;
  for (const Backend& backend : backends_)
    for (DeviceInfo& info : backend.list()) result.push_back(std::move(info));
  return result;
}

std::vector<DeviceInfo> Registry::gpus() const {
  std::vector<DeviceInfo> result;
  for (const Backend& backend : backends_) {
    if (backend.may_find_gpus && !backend.may_find_gpus()) continue;
    for (DeviceInfo& info : backend.list()) {
      const bool is_known =
          !info.uuid.empty() && std::any_of(result.begin(), result.end(),
                                            [&](const DeviceInfo& other) { return other.uuid == info.uuid; });
      if (!info.on_host_cpu && !is_known) result.push_back(std::move(info));
    }
  }
  return result;
}

std::shared_ptr<Device> Registry::open(std::string_view device, const OpenOptions& options) const {
  const auto has = [&](const Backend& backend) {
    if (backend.has) return backend.has(device);
    const std::vector<DeviceInfo> listed = backend.list();
    return std::any_of(listed.begin(), listed.end(),
                       [&](const DeviceInfo& info) { return info.name == device; });
  };
  for (const Backend& backend : backends_) {
    if (!has(backend)) continue;
    std::shared_ptr<Device> opened = backend.open(device, options);
    if (opened == nullptr)
      throw Error(ErrorCode::kDevice, "the backend " + backend.name + " lists the device \"" +
                                          std::string(device) + "\" but cannot open it");
    return opened;
  }
  std::string known;
  for (const DeviceInfo& info : devices()) known += (known.empty() ? "" : ", ") + info.name;
  std::string message = "unknown device \"" + std::string(device) + "\"; known are " + known;
  constexpr std::string_view kVulkan = "vulkan";
  const bool has_vulkan = std::any_of(backends_.begin(), backends_.end(),
                                      [&](const Backend& backend) { return backend.name == kVulkan; });
  if (device.starts_with(kVulkan) && !has_vulkan)
    message +=
        "; the module weft_backend_vulkan.so is missing or unusable: it is built if Vulkan's headers and "
        "glslc are installed, and weft looks for it next to the program and in lib/weft";
  for (const std::string& problem : problems_) message += "; " + problem;
  throw Error(ErrorCode::kNotFound, message);
}

}  // namespace weft
