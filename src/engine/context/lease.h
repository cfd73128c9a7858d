#pragma once
// The exclusive use of a context by one batcher.
#include <utility>

#include "engine/context/context_impl.h"
#include "engine/refuse.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft::engine {

/// Used by the context's thread. The context must outlive it, or be replaced while the lease is released.
class Lease {
 public:
  /// Null: a lease of nothing. Otherwise as acquire().
  explicit Lease(Context* context) : context_(context) { acquire(); }
  ~Lease() { release(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Throws Error kInvalidArgument if another batcher has the context.
  void acquire() {
    if (context_ == nullptr) return;
    if (std::exchange(context_->impl().leased, true))
      refuse("another batcher uses the context already; create one context per batcher");
    held_ = true;
  }
  /// Drops the batches in flight.
  void release() noexcept {
    if (!std::exchange(held_, false)) return;
    context_->drop_begun();
    try {
      context_->impl().leased = false;
    } catch (const Error&) {  // It was moved from.
    }
  }

 private:
  Context* const context_;
  bool held_ = false;
};

}  // namespace weft::engine
