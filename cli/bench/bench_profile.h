#pragma once
// weft bench --profile and --trace: where the time of a test went.
#include <span>
#include <string>

#include "files/json_output.h"
#include "weft/measure.h"
#include "weft/profile.h"

namespace weft::cli {

/// The profile of one round of a test.
struct ProfiledTest {
  std::string test;  ///< "pp512"
  Profile profile;
};

/// A table of the kinds of work, the longest first.
std::string profile_text(const ProfiledTest& test, const MachineLimits& limits);
Json profile_json(const ProfiledTest& test, const MachineLimits& limits);

/// For chrome://tracing and ui.perfetto.dev: a process a test, a lane a thread. Throws Error kIo.
void write_trace(const std::string& path, std::span<const ProfiledTest* const> tests);

}  // namespace weft::cli
