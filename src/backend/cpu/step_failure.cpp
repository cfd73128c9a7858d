#include "backend/cpu/step_failure.h"

#include <new>

#include "weft/error.h"

namespace weft::cpu {

void StepFailure::rethrow() {
  if (!happened()) return;
  const std::exception_ptr error = std::exchange(error_, nullptr);
  const std::string& place = *place_;
  happened_.store(false, std::memory_order_relaxed);
  try {
    std::rethrow_exception(error);
  } catch (const Error& own) {
    throw Error(own.code(), place + ": " + own.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, place + ": its function found no memory");
  } catch (const std::exception& other) {
    throw Error(ErrorCode::kDevice, place + ": its function failed: " + other.what());
  } catch (...) {
    throw Error(ErrorCode::kDevice, place + ": its function failed");
  }
}

}  // namespace weft::cpu
