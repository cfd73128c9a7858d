#pragma once
// How values are written into messages. Both ends run the same build (kGreet). So values without pointers are
// copied from memory, and other structs are written field by field.
#include <array>
#include <boost/pfr.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/remote/link.h"
#include "weft/graph.h"

namespace weft::remote {

class Writer {
 public:
  template <typename T>
  Writer& put(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) {
      raw(std::as_bytes(std::span(&value, 1)));
    } else {
      boost::pfr::for_each_field(value, [&](const auto& field) { put(field); });
    }
    return *this;
  }
  template <typename T>
  Writer& put(const std::vector<T>& values) {
    return put(std::span<const T>(values));
  }
  template <typename T>
  Writer& put(std::span<const T> values) {
    put(std::uint64_t{values.size()});
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(std::as_bytes(values));
    } else {
      for (const T& value : values) put(value);
    }
    return *this;
  }
  template <typename T, std::size_t kSize>
  Writer& put(const std::array<T, kSize>& values) {
    for (const T& value : values) put(value);
    return *this;
  }
  Writer& put(const std::string& text) { return put(std::string_view(text)); }
  Writer& put(std::string_view text) { return put(std::span<const char>(text)); }
  Writer& put(const Dim& dim);
  Writer& put(const Shape& shape);
  /// What a function of this process makes (ops::Custom) is an input over there.
  Writer& put(const Graph& graph);

  /// Bytes without their number.
  Writer& raw(std::span<const std::byte> bytes);
  const Message& message() const { return message_; }
  Message take() && { return std::move(message_); }

 private:
  Message message_;
};

/// Reads what a Writer wrote. Throws Error kDevice where the message ends early; what a graph refuses throws
/// as there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message) : rest_(message) {}

  template <typename T>
  T get() {
    T value{};
    take(value);
    return value;
  }
  template <typename T>
  std::vector<T> list() {
    std::vector<T> values;
    take(values);
    return values;
  }
  std::string text();
  Graph graph();
  std::span<const std::byte> raw(std::uint64_t n);
  std::span<const std::byte> rest() const { return rest_; }
  /// Of a message that makes no sense.
  [[noreturn]] static void refuse();

 private:
  template <typename T>
  void take(T& value) {
    if constexpr (std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) {
      std::memcpy(&value, raw(sizeof(T)).data(), sizeof(T));
    } else {
      boost::pfr::for_each_field(value, [&](auto& field) { take(field); });
    }
  }
  template <typename T>
  void take(std::vector<T>& values) {
    const auto n = get<std::uint64_t>();
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (n > rest_.size() / sizeof(T)) refuse();
      values.resize(n);
      const auto bytes = raw(n * sizeof(T));
      if (n > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      for (std::uint64_t i = 0; i < n; ++i) values.push_back(get<T>());
    }
  }
  template <typename T, std::size_t kSize>
  void take(std::array<T, kSize>& values) {
    for (T& value : values) take(value);
  }
  void take(std::string& value) { value = text(); }
  void take(Dim& dim);
  void take(Shape& shape);
  void take(ops::Custom& op);

  std::span<const std::byte> rest_;
};

}  // namespace weft::remote
