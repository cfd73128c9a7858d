#pragma once
// The control groups that bound this process: a container's limits of time, cores and memory.
#include <filesystem>
#include <string_view>
#include <vector>

namespace weft::base {

/// The folders of the process's group of that controller ("cpu", "cpuset", "memory") and of those above it,
/// whose limits hold as well; its own first. Version 1 or 2, whichever has the controller. In a container,
/// the group's path may be a path on the host that does not exist here. Then only the last one, the root, is
/// visible. `root` is "/", or another machine shown as a folder.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                  std::string_view controller);

}  // namespace weft::base
