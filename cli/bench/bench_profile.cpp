#include "bench/bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/to_size.h"
#include "bench/bench_report.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::size_t kNameWidth = 56;

std::string shortened(const std::string& name) {
  return name.size() <= kNameWidth ? name : name.substr(0, kNameWidth - 3) + "...";
}

}  // namespace

Json profile_json(const ProfiledTest& test, const MachineLimits& limits) {
  const Profile& p = test.profile;
  Json rows = Json::array();
  for (const Profile::Work& work : p.work) {
    if (work.calls == 0) continue;
    const double seconds = work.seconds, threads_seconds = work.busy_seconds + work.wait_seconds;
    Json row = {{"work", work.name},
                {"calls", work.calls},
                {"ms", 1e3 * seconds},
                {"share", p.seconds > 0.0 ? seconds / p.seconds : 0.0},
                {"waiting", threads_seconds > 0.0 ? work.wait_seconds / threads_seconds : 0.0},
                {"gb_per_second", nullptr},
                {"gop_per_second", nullptr},
                {"roofline_fraction", nullptr}};
    if (work.multiply_adds.all() > 0.0 && seconds > 0.0) {
      row["gb_per_second"] = work.bytes / seconds / 1e9;
      row["gop_per_second"] = 2.0 * work.multiply_adds.all() / seconds / 1e9;
      row["roofline_fraction"] = limits.least_seconds(work.bytes, work.multiply_adds) / seconds;
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["ms"].get<double>() > b["ms"].get<double>();
  });
  return rows;
}

std::string profile_text(const ProfiledTest& test, const MachineLimits& limits) {
  const Profile& p = test.profile;
  Json rows = profile_json(test, limits);
  for (Json& row : rows) row["work"] = shortened(row["work"].get<std::string>());
  const std::vector<Column> columns = {text_column("work", "work", false),
                                       text_column("calls", "calls"),
                                       number_column("ms", "ms", 2),
                                       percent_column("of all", "share"),
                                       percent_column("waiting", "waiting"),
                                       number_column("GB/s", "gb_per_second", 1),
                                       number_column("Gop/s", "gop_per_second", 0),
                                       percent_column("of roofline", "roofline_fraction")};
  const std::string phases = p.n_phases > 0
                                 ? fmt::format(", {:.1f} phases a step", static_cast<double>(p.n_phases) /
                                                                             static_cast<double>(p.n_steps))
                                 : "";
  return fmt::format("\n{}: {} step{}{}, {:.2f} ms in kernels, {} thread{}\n\n{}", test.test, p.n_steps,
                     p.n_steps == 1 ? "" : "s", phases, 1e3 * p.seconds, p.n_threads,
                     p.n_threads == 1 ? "" : "s", to_markdown(rows, columns));
}

void write_trace(const std::string& path, std::span<const ProfiledTest* const> tests) {
  std::ofstream file(path, std::ios::binary);
  file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const char* separator = "";
  const auto write = [&](const Json& event) {
    file << separator << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n";
  };
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const Profile& p = tests[i]->profile;
    write({{"ph", "M"}, {"name", "process_name"}, {"pid", i}, {"args", {{"name", tests[i]->test}}}});
    for (int t = 0; t < p.n_threads; ++t) {
      write({{"ph", "M"},
             {"name", "thread_name"},
             {"pid", i},
             {"tid", t},
             {"args", {{"name", fmt::format("thread {}", t)}}}});
    }
    for (const Profile::Span& span : p.spans) {
      // Microseconds.
      write({{"ph", "X"},
             {"name", p.work[to_size(span.work)].name},
             {"pid", i},
             {"tid", span.thread},
             {"ts", 1e6 * span.begin},
             {"dur", 1e6 * (span.end - span.begin)},
             {"args", {{"step", span.step}}}});
    }
  }
  file << "\n]}\n";
  file.close();
  if (!file) throw Error(ErrorCode::kIo, fmt::format("cannot write '{}'", path));
}

}  // namespace weft::cli
