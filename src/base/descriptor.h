#pragma once
// An owned file descriptor.
#include <unistd.h>

#include <utility>

namespace weft::base {

/// Closes its descriptor. May own none: a negative number, as a call that failed gives.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return number_; }
  /// Its number, which the caller closes from now on.
  int release() { return std::exchange(number_, -1); }
  void close() {
    if (const int number = release(); number >= 0) ::close(number);
  }

 private:
  int number_;
};

}  // namespace weft::base
