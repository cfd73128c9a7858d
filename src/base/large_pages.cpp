#include "base/large_pages.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/memory.h"

namespace weft::base {
namespace {

// Large enough that the largest models stay far below the number of mappings that a process may have, small
// enough that a stop takes effect soon.
constexpr std::size_t kPart = std::size_t{8} << 20;

bool system_has_large_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[never]") == std::string::npos;
}

/// False where memory is short; the part is then as it was. Throws where the file has changed.
bool replace(const FileWatch& watch, std::span<const std::byte> part, std::span<const int> nodes) {
  // A large page can be moved as one only from a place that is aligned like its new one.
  Memory copy(part.size());
  spread_over_nodes(copy.bytes(), nodes);
  watch.file().read(part, copy.bytes());
  // No thread writes to the pages of the file.
  if (!copy.move_to(const_cast<std::byte*>(part.data()))) return false;
  watch.check();  // Last: so the copy, and all reads until now, had the file's original bytes.
  return true;
}

void replace_all(FileWatch& watch, const std::stop_token& stop) {
  const std::span<const std::byte> bytes = watch.file().bytes();
  const std::vector<int> nodes = read_cores().nodes();
  for (std::size_t at = 0; at < bytes.size() && !stop.stop_requested(); at += kPart) {
    const std::size_t end = std::min(at + kPart, bytes.size());
    if (machine_memory().available < 2 * kPart || !replace(watch, bytes.subspan(at, end - at), nodes)) return;
    watch.set_own(end);
  }
}

}  // namespace

LargePages::LargePages(std::shared_ptr<FileWatch> watch) {
  const std::size_t bytes = watch->file().bytes().size();
  if (bytes < kLargePage || machine_memory().available < 2 * bytes || !system_has_large_pages()) return;
  thread_ =
      LateThread([watch = std::move(watch)](const std::stop_token& stop) { replace_all(*watch, stop); });
}

}  // namespace weft::base
