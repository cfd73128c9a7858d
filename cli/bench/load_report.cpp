#include "bench/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::array<std::pair<const char*, double>, 3> kShares = {
    {{"p50", 0.50}, {"p90", 0.90}, {"p99", 0.99}}};

/// "ttft_ms_mean", "ttft_ms_p50", ... of seconds.
void add_times(Json& row, const std::string& name, std::vector<double> seconds) {
  double sum = 0.0;
  for (const double value : seconds) sum += value;
  const bool none = seconds.empty();
  row[name + "_ms_mean"] = none ? Json() : Json(1e3 * sum / static_cast<double>(seconds.size()));
  for (const auto& [suffix, share] : kShares)
    row[fmt::format("{}_ms_{}", name, suffix)] = none ? Json() : Json(1e3 * percentile(seconds, share));
}

bool within_limits(const LoadPlan& plan, const LoadRecord& record) {
  const bool first = plan.slo_ttft_ms <= 0.0 || 1e3 * record.first_s() <= plan.slo_ttft_ms;
  return first && (plan.slo_itl_ms <= 0.0 || 1e3 * record.token_s() <= plan.slo_itl_ms);
}

bool has_limits(const LoadPlan& plan) { return plan.slo_ttft_ms > 0.0 || plan.slo_itl_ms > 0.0; }

}  // namespace

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

std::string name_of(const Arrivals& arrivals) {
  if (arrivals.concurrency > 0)
    return fmt::format("{} client{}", arrivals.concurrency, arrivals.concurrency == 1 ? "" : "s");
  return arrivals.rate > 0.0 ? fmt::format("{:g} /s", arrivals.rate) : "as recorded";
}

Json load_row(const LoadPlan& plan, const std::string& model, const LoadResult& result) {
  std::vector<double> firsts, gaps, tokens, totals;
  std::int64_t n_complete = 0, n_within = 0, n_prompt_tokens = 0, n_tokens = 0;
  std::map<std::string, std::pair<int, std::string>> errors;
  for (const LoadRecord& record : result.records) {
    n_tokens += record.n_tokens;
    n_prompt_tokens += record.n_prompt_tokens;
    if (!record.error.empty()) {
      auto& [count, example] = errors[record.error];
      if (count++ == 0) example = record.detail;
      continue;
    }
    ++n_complete;
    if (within_limits(plan, record)) ++n_within;
    firsts.push_back(record.first_s());
    totals.push_back(record.total_s());
    gaps.insert(gaps.end(), record.gaps.begin(), record.gaps.end());
    if (record.token_s() > 0.0) tokens.push_back(record.token_s());
  }
  const auto n_records = static_cast<std::int64_t>(result.records.size());
  const auto per_second = [&](std::int64_t count) {
    return result.seconds > 0.0 ? static_cast<double>(count) / result.seconds : 0.0;
  };
  Json row = {{"server", plan.url},
              {"model", model},
              {"endpoint", plan.chat ? "chat" : "completions"},
              {"load", name_of(result.arrivals)},
              {"concurrency", result.arrivals.concurrency > 0 ? Json(result.arrivals.concurrency) : Json()},
              {"rate", result.arrivals.rate > 0.0 ? Json(result.arrivals.rate) : Json()},
              {"seed", plan.seed},
              {"interrupted", result.interrupted},
              {"requests", n_records},
              {"complete", n_complete},
              {"failed", n_records - n_complete},
              {"seconds", result.seconds},
              {"requests_per_s", per_second(n_complete)},
              {"prompt_tokens", n_prompt_tokens},
              {"generated_tokens", n_tokens},
              {"prompt_per_s", per_second(n_prompt_tokens)},
              {"generated_per_s", per_second(n_tokens)}};
  add_times(row, "ttft", std::move(firsts));
  add_times(row, "itl", std::move(gaps));
  add_times(row, "token", std::move(tokens));
  add_times(row, "total", std::move(totals));
  const bool limited = has_limits(plan);
  row["slo_ttft_ms"] = plan.slo_ttft_ms > 0.0 ? Json(plan.slo_ttft_ms) : Json();
  row["slo_itl_ms"] = plan.slo_itl_ms > 0.0 ? Json(plan.slo_itl_ms) : Json();
  row["goodput_per_s"] = limited ? Json(per_second(n_within)) : Json();
  row["within_slo"] = limited && n_records > 0
                          ? Json(static_cast<double>(n_within) / static_cast<double>(n_records))
                          : Json();
  row["errors"] = Json::array();
  for (const auto& [kind, found] : errors)
    row["errors"].push_back({{"kind", kind}, {"count", found.first}, {"example", found.second}});
  return row;
}

std::vector<Column> load_columns(const LoadPlan& plan) {
  std::vector<Column> columns = {text_column("load", "load", false),
                                 text_column("requests", "requests"),
                                 text_column("failed", "failed"),
                                 number_column("req/s", "requests_per_s", 2),
                                 number_column("prompt tok/s", "prompt_per_s", 0),
                                 number_column("tok/s", "generated_per_s", 1)};
  for (const auto& [title, name] : {std::pair{"first token", "ttft"}, {"between", "itl"}, {"total", "total"}})
    for (const auto& [suffix, share] : kShares)
      columns.push_back(number_column(fmt::format("{} {} ms", title, suffix),
                                      fmt::format("{}_ms_{}", name, suffix),
                                      std::string_view(name) == "itl" ? 1 : 0));
  if (has_limits(plan)) {
    columns.push_back(number_column("good req/s", "goodput_per_s", 2));
    columns.push_back(percent_column("within limits", "within_slo"));
  }
  return columns;
}

std::string load_errors(const Json& rows) {
  std::string text;
  for (const Json& row : rows)
    for (const Json& error : row.at("errors"))
      text +=
          fmt::format("{}: {} x {}: {}\n", row.at("load").get<std::string>(), error.at("count").get<int>(),
                      error.at("kind").get<std::string>(), error.at("example").get<std::string>());
  return text;
}

}  // namespace weft::cli
