#pragma once
// Shared by the files of the Python module: the functions that bind its parts, and the conversion of options,
// threads and errors.
//
// Wrappers own their dependencies by shared pointers, so the order in which Python drops objects does not
// matter. Functions that compute or wait release the interpreter's lock.
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/error.h"

namespace weft::python {

namespace nb = nanobind;

/// Dictionaries of options and of results.
using Dict = nb::typed<nb::dict, std::string, nb::any>;

/// Calls f, which takes the interpreter's lock. Once the interpreter has ended, CPython ends a thread that
/// asks for the lock by unwinding its frames. Some of these frames allow no exceptions, so the thread waits
/// here until the process ends.
template <typename F>
void taking_lock(F f) {
  try {
    f();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

/// For a scope that computes or waits. Its thread has the interpreter's lock.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    taking_lock([&] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* const state_;
};

/// For a scope that uses objects of Python, in any thread.
class Locked {
 public:
  Locked() {
    taking_lock([&] { state_ = PyGILState_Ensure(); });
  }
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Around what computes or waits.
using WithoutLock = nb::call_guard<Unlocked>;

void bind_errors();
void bind_model(nb::module_& m);
void bind_context(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_chat(nb::module_& m);
void bind_embedder(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_functions(nb::module_& m);
void bind_plan(nb::module_& m);

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Text that may hold anything: invalid bytes become U+FFFD.
nb::str to_str(std::string_view text);

/// The cache has no room; weft.CacheFullError in Python, where it is an error not to look.
class CacheFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The process that made an object. The child of a fork has none of the threads and devices that it may need.
class Home {
 public:
  bool is_here() const { return process_ == getpid(); }
  void check(const char* what) const {
    if (!is_here())
      refuse(std::string(what) +
             " belongs to the process that this one was forked from; make a new one after the fork");
  }

 private:
  const pid_t process_ = getpid();
};

/// For objects that one thread may use at a time: a second one gets an error, not a race, as does the child
/// of a fork.
class OneUser {
 public:
  class Hold {
   public:
    Hold(OneUser& user, const char* what) : user_(user) {
      user.home_.check(what);
      if (user.taken_.test_and_set(std::memory_order_acquire))
        refuse(std::string(what) + " is at work in another thread; use it from one at a time");
    }
    ~Hold() { user_.taken_.clear(std::memory_order_release); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    OneUser& user_;
  };
  Hold hold(const char* what) { return Hold(*this, what); }
  bool is_at_home() const { return home_.is_here(); }

 private:
  Home home_;
  std::atomic_flag taken_;
};

/// An option of Python and the member of a struct of parameters that it sets.
template <typename T>
struct Field {
  std::string_view name;
  void (*set)(T&, nb::handle);
  nb::object (*get)(const T&) = nullptr;  ///< Null where Python has other values than the struct.
};

template <typename Owner, typename V>
Owner owner_of(V Owner::*);
template <auto kMember>
using OwnerOf = decltype(owner_of(kMember));

/// The option whose value is a member as it is.
template <auto kMember>
constexpr Field<OwnerOf<kMember>> field(std::string_view name) {
  return {name,
          [](OwnerOf<kMember>& into, nb::handle value) {
            into.*kMember = nb::cast<std::remove_reference_t<decltype(into.*kMember)>>(value);
          },
          [](const OwnerOf<kMember>& from) { return nb::cast(from.*kMember); }};
}

[[noreturn]] void unknown_option(std::string_view name);
[[noreturn]] void wrong_type(std::string_view name, nb::handle value);

/// For classes whose constructors take no arguments. For others, nanobind's message lists the signatures.
inline void no_arguments(const char* name, const nb::args& given, const nb::kwargs& named) {
  if (given.size() + named.size() > 0)
    throw nb::type_error((std::string(name) + "() takes no arguments").c_str());
}

template <typename T>
std::vector<std::string_view> names_of(std::span<const Field<T>> fields) {
  std::vector<std::string_view> names;
  for (const Field<T>& one : fields) names.push_back(one.name);
  return names;
}

/// Sets one option. Whether there is one of that name; None leaves it as it is.
template <typename T>
bool set_field(T& into, std::span<const Field<T>> fields, std::string_view name, nb::handle value) {
  for (const Field<T>& one : fields) {
    if (one.name != name) continue;
    if (value.is_none()) return true;
    try {
      one.set(into, value);
    } catch (const nb::cast_error&) {
      wrong_type(name, value);
    }
    return true;
  }
  return false;
}

/// Sets all of them. TypeError for one that is unknown, or of another type.
template <typename T>
void set_fields(T& into, std::span<const Field<T>> fields, const nb::dict& values) {
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    if (!set_field(into, fields, name, value)) unknown_option(name);
  }
}

/// Adds what options are where they are not given.
template <typename T>
void add_defaults(Dict& defaults, std::span<const Field<T>> fields) {
  for (const Field<T>& one : fields)
    if (one.get != nullptr) defaults[nb::cast(one.name)] = one.get(T{});
}

/// An array of Python's own with these numbers.
template <typename T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> numbers, std::initializer_list<std::size_t> shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(numbers));
  T* const data = owned->data();
  const nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(data, shape, owner);
}

}  // namespace weft::python
