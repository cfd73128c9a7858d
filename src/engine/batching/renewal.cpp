// Lost devices: streams wait, and continue in a new context on the remaining devices.
#include "engine/batching/batcher_impl.h"
#include "engine/batching/what.h"

namespace weft {

bool Batcher::Impl::suspend_if_lost(std::string_view why) noexcept {
  try {
    suspended = suspended || (devices_lost && devices_lost());
  } catch (...) {  // Treat it as any other failure.
  }
  if (suspended) rebuild(why);
  return suspended;
}

void Batcher::Impl::renew(const std::function<void()>& make) {
  if (!std::exchange(suspended, true)) rebuild("the devices that had its cells are lost");
  lease.reset();
  try {
    make();
    lease.emplace(&context);
    cache.reset();
  } catch (...) {
    const std::string why = engine::what_is_thrown();
    admission.for_each([&](const engine::StreamPtr& stream) { stream->fail(why); });
    drop_done_waiting();
    throw;
  }
  n_failures = 0;
  suspended = false;
}

}  // namespace weft
