#include "base/large_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <system_error>

#include "base/cores.h"
#include "base/memory.h"

namespace weft::base {
namespace {

// Large enough that the largest models stay far below the number of mappings that a process may have, small
// enough that nobody waits long for an end.
constexpr std::size_t kPart = std::size_t{8} << 20;
constexpr auto kDelay = std::chrono::milliseconds(500);
// A quarter of a core that others keep busy. With the lowest one, weights of a model that decodes still lay
// on small pages after ten seconds.
constexpr int kNice = 5;

bool system_has_large_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[never]") == std::string::npos;
}

/// False where memory is short; the part is then as it was.
bool replace(const MappedFile& file, std::span<const std::byte> part, std::span<const int> nodes) {
  // A large page can be moved as one only from a place that is aligned like its new one.
  Memory copy(part.size());
  spread_over_nodes(copy.bytes(), nodes);
  file.read(part, copy.bytes());
  return copy.move_to(const_cast<std::byte*>(part.data()));  // Nobody writes to the pages of the file.
}

}  // namespace

void LargePages::replace_all(const std::stop_token& stop, const MappedFile& file, std::size_t n_bytes,
                             Start& start) {
  {
    std::unique_lock lock(start.mutex);
    start.changed.wait_for(lock, stop, kDelay, [&] { return start.now; });
  }
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  const std::vector<int> nodes = read_cores().nodes();
  for (std::size_t at = 0; at < n_bytes && !stop.stop_requested(); at += kPart) {
    try {
      if (machine_memory().available < 2 * kPart ||
          !replace(file, file.bytes().subspan(at, std::min(kPart, n_bytes - at)), nodes))
        return;
    } catch (const std::exception&) {
      return;
    }
  }
}

LargePages::LargePages(const MappedFile& file) {
  const std::size_t bytes = file.bytes().size() / kLargePage * kLargePage;
  if (bytes == 0 || machine_memory().available < 2 * bytes || !system_has_large_pages()) return;
  start_ = std::make_shared<Start>();
  try {
    thread_ = std::jthread([start = start_, &file, bytes](const std::stop_token& stop) {
      replace_all(stop, file, bytes, *start);
    });
  } catch (const std::system_error&) {  // No thread to be had: the pages stay as they are.
  }
}

void LargePages::wait() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(start_->mutex);
    start_->now = true;
  }
  start_->changed.notify_all();
  thread_.join();
}

}  // namespace weft::base
