// Since 0.1
#pragma once
// Memory for the temporaries of plans that run in turns, as large as the largest of them needs. Data that
// must survive between steps (states, inputs, outputs) is stored elsewhere.
//
// The caller ensures the turns. While a plan has a step in flight, no thread may submit another plan on the
// same workspace or compile one. Only an asynchronous device that runs its plans in the order of submission
// may get the next step of another plan before.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// One block of a device's memory. It moves when it grows; earlier users notice that by the number of its
/// moves.
class Workspace {
 public:
  Workspace() = default;
  virtual ~Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Grows it to at least this many bytes. Throws Error kOutOfMemory; it is as before then.
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
  /// The workspace of type W for which `fits` is true; if there is none, adds the result of `make`.
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
