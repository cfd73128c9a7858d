#include "api/ignored.h"

#include <algorithm>

namespace weft::server {
namespace {

bool is_token_character(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kOthers.find(c) != kOthers.npos;
}

std::string name_of(std::string_view path) {
  std::string name;
  bool in_index = false;
  for (const char c : path) {
    if (name.size() == Ignored::kMostBytes) break;
    if (c == '[') in_index = true;
    if (!in_index) name += is_token_character(c) ? c : '_';
    if (c == ']') in_index = false;
  }
  return name.empty() ? "_" : name;
}

}  // namespace

void Ignored::add(std::string_view path) {
  std::string name = name_of(path);
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) return;
  if (names_.size() == kMostNames) {
    has_more_ = true;
    return;
  }
  names_.push_back(std::move(name));
}

std::string Ignored::header() const {
  std::string text;
  for (const std::string& name : names_) text += (text.empty() ? "" : ", ") + name;
  if (has_more_) text += ", ...";
  return text;
}

}  // namespace weft::server
