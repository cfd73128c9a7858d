#pragma once
// weft bench --profile and --trace: where the time of a test went.
#include <string>
#include <vector>

#include "json_output.h"
#include "weft/measure.h"
#include "weft/profile.h"

namespace weft::cli {

/// The profile of one round of a test.
struct ProfiledTest {
  std::string test;  ///< "pp512"
  MachineLimits limits;
  Profile profile;
};

/// A table of the kinds of work, the longest first.
std::string profile_text(const ProfiledTest& test);
Json profile_json(const ProfiledTest& test);

/// For chrome://tracing and ui.perfetto.dev: a process a test, a lane a thread. Throws Error kIo.
void write_trace(const std::string& path, const std::vector<ProfiledTest>& tests);

}  // namespace weft::cli
