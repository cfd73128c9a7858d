#pragma once
// How functions read their operands and parameters.
#include <cstdint>
#include <string>
#include <vector>

#include "functions.h"
#include "weft/error.h"

namespace weft::torch {

inline int integer(const Json& p, const char* name) { return p.at(name).get<int>(); }
inline std::int64_t wide(const Json& p, const char* name) { return p.at(name).get<std::int64_t>(); }
/// Numbers that JSON lacks are strings: "-inf".
inline float number(const Json& p, const char* name) {
  const Json& value = p.at(name);
  return value.is_string() ? std::stof(value.get<std::string>()) : value.get<float>();
}
inline bool flag(const Json& p, const char* name) { return p.at(name).get<bool>(); }
/// The height and width of an image.
inline HeightWidth sides(const Json& p, const char* name) {
  return {p.at(name).at(0).get<std::int64_t>(), p.at(name).at(1).get<std::int64_t>()};
}
/// An operand that may be missing.
inline Value optional(const Values& in, std::size_t i) { return i < in.size() ? in[i] : Value(); }

inline Axes axes(const Json& p) { return p.at("axes").get<std::vector<int>>(); }

inline Make unary(Value (*f)(Value, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), Where::current()); };
}
inline Make reduction(Value (*f)(Value, const Axes&, bool, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), axes(c.p), flag(c.p, "keep"), Where::current()); };
}

}  // namespace weft::torch
