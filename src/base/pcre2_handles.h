#pragma once
// PCRE2's objects, freed when they go.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>

namespace weft::base {

struct Pcre2Deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2Deleter>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, Pcre2Deleter>;
using Pcre2MatchContext = std::unique_ptr<pcre2_match_context, Pcre2Deleter>;

}  // namespace weft::base
