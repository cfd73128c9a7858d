#pragma once
// Compatibility with llama.cpp: its spellings of our options, its options that weft does not have, and its
// environment variables. Also options that earlier versions of weft had.
#include <optional>
#include <span>
#include <string_view>

namespace weft::cli {

/// Another spelling of one of our options: "-ctk" of "--cache-type-k".
struct Alias {
  std::string_view alias;
  std::string_view name;
};
std::span<const Alias> aliases();

/// An option of llama.cpp, or of an earlier version, that weft does not have.
struct ForeignOption {
  enum class Value {
    kNone,
    kSwitch,  ///< on, off or auto may follow.
    kOne,
  };
  std::string_view name;  ///< "--spec-*" and "*-draft" match all names that begin or end like this.
  Value value;
  /// The result is as expected without it: accepted with a note. Otherwise it is refused.
  bool harmless;
  std::string_view reason;  ///< Why it is not needed, or the way out.
  /// A value with which the option is accepted with a note; empty: there is none.
  std::string_view neutral = {};
};
const ForeignOption* find_foreign_option(std::string_view name);
/// Whether "on" or "off" may follow our switch of that long name (with dashes).
bool takes_switch_word(std::string_view long_name);

/// Variables, mostly of llama.cpp, that mean the same as the option of that long name (without dashes).
std::span<const std::string_view> foreign_variables(std::string_view long_name);
/// Whether an option of any command reads this variable.
bool is_foreign_variable(std::string_view name);

}  // namespace weft::cli
