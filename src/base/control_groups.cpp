#include "base/control_groups.h"

#include <fstream>
#include <string>

namespace weft::base {

namespace fs = std::filesystem;

std::vector<fs::path> control_groups(const fs::path& root, std::string_view controller) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::string path;
  bool unified = true;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool has = names.find("," + std::string(controller) + ",") != std::string::npos;
    if (!has && !(names == ",," && path.empty())) continue;
    path = line.substr(second + 1);
    unified = !has;
    if (has) break;
  }
  const fs::path top = unified ? mount : mount / controller;
  std::vector<fs::path> folders;
  for (fs::path relative = fs::path(path).relative_path(); !relative.empty();
       relative = relative.parent_path())
    folders.push_back(top / relative);
  folders.push_back(top);
  return folders;
}

}  // namespace weft::base
