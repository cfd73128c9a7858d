// Errors, versions, memory.
#include "support.h"

#include "weft/batcher.h"
#include "weft/generate.h"
#include "weft/version.h"

struct weft_error {
  weft_status status = WEFT_INTERNAL;
  std::string message;
  double retry_after_ms = 0.0;
};

namespace weft::c {

namespace {

class CacheFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The error for the case that an error cannot be allocated. The message fits the string's inline buffer.
weft_error& out_of_memory() {
  static weft_error error = {.status = WEFT_OUT_OF_MEMORY, .message = "out of memory"};
  return error;
}

weft_status report(weft_error** error, weft_status status, const char* message,
                   double retry_after_ms = 0.0) noexcept {
  if (error == nullptr) return status;
  try {
    *error = new weft_error{.status = status, .message = message, .retry_after_ms = retry_after_ms};
    return status;
  } catch (const std::bad_alloc&) {
    *error = &out_of_memory();
    return WEFT_OUT_OF_MEMORY;
  }
}

weft_status status_of(ErrorCode code) { return static_cast<weft_status>(code) + 1; }
static_assert(static_cast<int>(ErrorCode::kInvalidArgument) + 1 == WEFT_INVALID_ARGUMENT &&
              static_cast<int>(ErrorCode::kOutOfMemory) + 1 == WEFT_OUT_OF_MEMORY &&
              static_cast<int>(ErrorCode::kUnavailable) + 1 == WEFT_UNAVAILABLE);

}  // namespace

void cache_full(const std::string& message) { throw CacheFull(message); }

weft_status fail(weft_error** error) noexcept {
  try {
    throw;
  } catch (const OverloadedError& e) {
    return report(error, status_of(e.code()), e.what(), e.retry_after_ms);
  } catch (const Error& e) {
    return report(error, status_of(e.code()), e.what());
  } catch (const CacheFull& e) {
    return report(error, WEFT_CACHE_FULL, e.what());
  } catch (const std::bad_alloc&) {
    return report(error, WEFT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return report(error, WEFT_INTERNAL, e.what());
  } catch (...) {
    return report(error, WEFT_INTERNAL, "something was thrown that is no error");
  }
}

std::vector<std::string> texts(const char* const* items, std::size_t n, const char* name) {
  std::vector<std::string> result;
  for (const char* const text : list(items, n, name)) result.emplace_back(need_text(text, name));
  return result;
}

}  // namespace weft::c

int32_t weft_abi_version(void) { return WEFT_ABI_VERSION; }
const char* weft_version(void) { return WEFT_VERSION; }
void weft_free(void* memory) { std::free(memory); }

weft_status weft_error_status(const weft_error* error) { return error == nullptr ? WEFT_OK : error->status; }
const char* weft_error_message(const weft_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
double weft_error_retry_after_ms(const weft_error* error) {
  return error == nullptr ? 0.0 : error->retry_after_ms;
}
void weft_error_free(weft_error* error) {
  if (error != &weft::c::out_of_memory()) delete error;
}

const char* weft_status_name(weft_status status) {
  if (status == WEFT_OK) return "ok";
  if (status == WEFT_CACHE_FULL) return "cache_full";
  if (status == WEFT_INTERNAL) return "internal";
  if (status < WEFT_INVALID_ARGUMENT || status > WEFT_UNAVAILABLE) return "unknown";
  return to_string(static_cast<weft::ErrorCode>(status - 1)).data();  // Of literals.
}

const char* weft_stop_name(weft_stop stop) {
  using weft::StopReason;
  static_assert(static_cast<int>(StopReason::kEnd) == WEFT_STOP_END &&
                static_cast<int>(StopReason::kStopString) == WEFT_STOP_STRING &&
                static_cast<int>(StopReason::kError) == WEFT_STOP_ERROR);
  if (stop < 0 || stop > WEFT_STOP_ERROR) return "unknown";
  return to_string(static_cast<StopReason>(stop)).data();  // Of literals.
}
