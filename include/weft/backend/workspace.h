// Since 0.1
#pragma once
// Memory for temporaries that plans share if they run in turns. It is as large as the largest of them needs.
// States, inputs and outputs are stored elsewhere.
//
// The caller ensures the turns. While a step of one plan runs, no thread may submit a step of another plan on
// the same workspace, or compile one. An asynchronous device that runs its steps in the order of submission
// is an exception: the next plan's step may be submitted earlier.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// One block of a device's memory. Its address changes when it grows; users notice that by n_moves().
class Workspace {
 public:
  Workspace() = default;
  virtual ~Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Grows the block to at least this many bytes. Throws Error kOutOfMemory and then leaves it as it was.
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    grow(bytes);
    bytes_ = bytes;
    ++n_moves_;
  }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t n_moves() const { return n_moves_; }

 protected:
  virtual void grow(std::size_t bytes) = 0;

 private:
  std::size_t bytes_ = 0;
  std::uint64_t n_moves_ = 0;
};

/// The workspaces that plans share, one for each kind of memory.
class Workspaces {
 public:
  /// Returns the workspace of type W for which `fits` is true. If there is none, adds the result of `make`.
  template <typename W, typename Fits, typename Make>
  std::shared_ptr<W> find(Fits fits, Make make) {
    for (const auto& one : all_)
      if (auto found = std::dynamic_pointer_cast<W>(one); found != nullptr && fits(*found)) return found;
    std::shared_ptr<W> made = make();
    all_.push_back(made);
    return made;
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& one : all_) sum += one->bytes();
    return sum;
  }

 private:
  std::vector<std::shared_ptr<Workspace>> all_;
};

}  // namespace weft

#pragma GCC visibility pop
