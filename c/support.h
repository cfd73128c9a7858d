#pragma once
// Shared by the files of the C library: exceptions as errors, versioned structs, memory that callers free,
// and a guard for handles that allow one thread at a time.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft.h"
#include "weft/error.h"

namespace weft::c {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Reports a full cache, which is a return value in C++ and a status in C.
[[noreturn]] void cache_full(const std::string& message);

/// The exception that is being handled, as an error.
weft_status fail(weft_error** error) noexcept;

/// The body of a function that returns a status.
template <typename F>
weft_status run(weft_error** error, F&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return WEFT_OK;
  } catch (...) {
    return fail(error);
  }
}
/// The body of a function that returns a pointer: the body returns it, or a unique_ptr.
template <typename F>
auto make(weft_error** error, F&& body) noexcept {
  using Made = decltype(body());
  if constexpr (std::is_pointer_v<Made>) {
    Made made = nullptr;
    run(error, [&] { made = body(); });
    return made;
  } else {
    typename Made::pointer made = nullptr;
    run(error, [&] { made = body().release(); });
    return made;
  }
}

/// The body of a function that reports no errors.
template <typename T, typename F>
T value_or(T otherwise, F&& body) noexcept {
  run(nullptr, [&] { otherwise = body(); });
  return otherwise;
}

/// Throws Error where an argument is missing.
template <typename T>
T& need(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is NULL");
  return *pointer;
}
inline const char* need_text(const char* text, const char* name) { return &need(text, name); }
inline std::string text_or_nothing(const char* text) { return text == nullptr ? std::string() : text; }
template <typename T>
std::span<const T> list(const T* items, std::size_t n, const char* name) {
  if (n > 0) need(items, name);
  return {items, n};
}
std::vector<std::string> texts(const char* const* items, std::size_t n, const char* name);

/// The enumerator with this number, from 0 to `last`.
template <typename E>
E choice(std::int32_t number, E last, const char* name) {
  if (number < 0 || number > static_cast<std::int32_t>(last))
    refuse(std::string(name) + " is " + std::to_string(number) + "; it must be one of 0 to " +
           std::to_string(static_cast<int>(last)));
  return static_cast<E>(number);
}

// Structs that grow at their ends. A new field must begin at or after the struct's former sizeof, even if
// that ends with padding (tests/c/check_abi.py checks it).

/// Far more than the size of any struct. Larger values of struct_size are errors.
inline constexpr std::size_t kMostOfStruct = 4096;

inline void check_size(std::size_t size, const char* name, const char* how) {
  if (size < sizeof(std::size_t) || size > kMostOfStruct)
    refuse(std::string(name) + "->struct_size is " + std::to_string(size) + "; " + how);
}

/// The defaults of parameters: a specialisation for each struct.
template <typename T>
T defaults();

template <typename T>
void init(T* params, std::size_t size) noexcept {
  if (params == nullptr || size < sizeof(std::size_t)) return;
  T all = defaults<T>();
  all.struct_size = size;
  std::memset(params, 0, size);
  std::memcpy(params, &all, std::min(size, sizeof(T)));
}

/// Parameters from a caller of any version. Fields that an earlier version lacks get their defaults. Fields
/// that a later version adds must be 0.
template <typename T>
T read(const T* given, const char* name) {
  T all = defaults<T>();
  if (given == nullptr) return all;
  const std::size_t size = given->struct_size;
  check_size(size, name, "fill it in with its weft_..._init");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorCode::kUnsupported, std::string(name) + " sets what weft " + weft_version() +
                                               " does not know: a later version does");
  std::memcpy(&all, given, std::min(size, sizeof(T)));
  all.struct_size = sizeof(T);
  return all;
}

/// Fills in a caller's struct up to its struct_size.
template <typename T>
void write(T* to, T all, const char* name) {
  const std::size_t size = need(to, name).struct_size;
  check_size(size, name, "set it to the struct's sizeof");
  all.struct_size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &all, std::min(size, sizeof(T)));
}

// Memory that the caller owns.

struct Freed {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
template <typename T>
using Given = std::unique_ptr<T, Freed>;

/// A copy that the caller will free, followed by a zero byte as C strings need.
template <typename T>
Given<T> copy_of(std::span<const T> items) {
  const std::size_t n = items.size_bytes();
  void* const memory = std::malloc(n + 1);
  if (memory == nullptr) throw std::bad_alloc();
  if (n > 0) std::memcpy(memory, items.data(), n);
  static_cast<char*>(memory)[n] = 0;
  return Given<T>(static_cast<T*>(memory));
}
inline Given<char> copy_of(std::string_view text) { return copy_of(std::span(text.data(), text.size())); }

/// A string that the caller will free.
inline void tell(char** to, std::string_view text) { *to = copy_of(text).release(); }
inline void tell(std::size_t* to, std::size_t n) {
  if (to != nullptr) *to = n;
}

/// For handles that one thread may use at a time: a second one gets an error, not a race.
class OneUser {
 public:
  class Hold {
   public:
    /// `nested`: callbacks of the thread that holds it may have it too.
    Hold(OneUser& user, const char* what, bool nested = false) : user_(user) {
      std::thread::id owner = {};
      const std::thread::id self = std::this_thread::get_id();
      owns_ = user.owner_.compare_exchange_strong(owner, self, std::memory_order_acquire);
      if (!owns_ && !(nested && owner == self))
        refuse(std::string(what) + " is at work" +
               (owner == self ? ": its callbacks cannot use it so" : " in another thread"));
    }
    ~Hold() {
      if (owns_) user_.owner_.store({}, std::memory_order_release);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    OneUser& user_;
    bool owns_ = false;
  };

 private:
  std::atomic<std::thread::id> owner_ = {};
};

}  // namespace weft::c
