#include "quality/importance_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "terminal/text_format.h"

namespace weft::cli {
namespace {

constexpr double kActive = 1e-5;

/// "blk.12.attn_q.weight" is {12, "attn_q.weight"}; tensors outside layers have -1.
std::pair<int, std::string> place_of(const std::string& tensor) {
  constexpr std::string_view kPrefix = "blk.";
  int layer = -1;
  if (!tensor.starts_with(kPrefix)) return {layer, tensor};
  const char* const begin = tensor.data() + kPrefix.size();
  const char* const end = tensor.data() + tensor.size();
  const auto [rest, error] = std::from_chars(begin, end, layer);
  if (error != std::errc{} || rest == end || layer < 0) return {-1, tensor};
  return {layer, std::string(rest + 1, end)};
}

/// Matrices without rows have no means.
std::vector<double> means_of(const ColumnSums& of) {
  std::vector<double> means;
  const std::size_t n_columns = of.sums.size() / of.counts.size();
  for (std::size_t i = 0; i < of.sums.size(); ++i)
    if (const double rows = of.counts[i / n_columns]; rows > 0.0) means.push_back(of.sums[i] / rows);
  return means;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const double lengths = std::sqrt(dot(a, a) * dot(b, b));
  return a.size() == b.size() && lengths > 0.0 ? dot(a, b) / lengths : 0.0;
}

ImportanceStatistics statistics_of(const ColumnSums& of, const std::vector<double>& means) {
  const auto n = static_cast<double>(means.size());
  ImportanceStatistics s{.tensor = of.tensor, .n_columns = means.size()};
  for (const double rows : of.counts) s.rows += rows;
  s.n_never_read = to_size(std::count(of.counts.begin(), of.counts.end(), 0.0));
  if (means.empty()) return s;
  s.sum = std::accumulate(means.begin(), means.end(), 0.0);
  s.mean = s.sum / n;
  const auto [least, most] = std::minmax_element(means.begin(), means.end());
  s.least = *least;
  s.most = *most;
  for (const double mean : means) {
    s.deviation += (mean - s.mean) * (mean - s.mean) / n;
    s.active += mean > kActive ? 1.0 / n : 0.0;
    if (const double share = s.sum > 0.0 ? mean / s.sum : 0.0; share > 0.0)
      s.entropy -= share * std::log2(share);
  }
  s.deviation = std::sqrt(s.deviation);
  s.evenness = n > 1.0 ? s.entropy / std::log2(n) : 0.0;
  for (const double mean : means)
    s.outstanding += s.deviation > 0.0 && mean - s.mean > s.deviation ? 1.0 / n : 0.0;
  return s;
}

}  // namespace

std::vector<ImportanceStatistics> statistics_of(const Importance& importance) {
  std::map<std::pair<int, std::string>, const ColumnSums*> tensors;
  for (const ColumnSums& of : importance.tensors) tensors.emplace(place_of(of.tensor), &of);
  std::vector<ImportanceStatistics> all;
  for (const auto& [place, of] : tensors) {
    const std::vector<double> means = means_of(*of);
    ImportanceStatistics& added = all.emplace_back(statistics_of(*of, means));
    if (const auto before = tensors.find({place.first - 1, place.second});
        place.first > 0 && before != tensors.end())
      added.like_previous = cosine(means_of(*before->second), means);
  }
  return all;
}

std::string to_report(const std::vector<ImportanceStatistics>& statistics) {
  std::vector<std::vector<std::string>> rows = {{"tensor", "sum", "least", "most", "mean", "deviation",
                                                 "active", "columns", "entropy", "evenness", "outstanding",
                                                 "like previous"}};
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const auto percent = [](double value) { return fmt::format("{:.1f} %", 100.0 * value); };
  for (const ImportanceStatistics& s : statistics)
    rows.push_back({s.tensor, number(s.sum), number(s.least), number(s.most), number(s.mean),
                    number(s.deviation), percent(s.active), fmt::format("{}", s.n_columns),
                    fmt::format("{:.2f}", s.entropy), percent(s.evenness), percent(s.outstanding),
                    fmt::format("{:.4f}", s.like_previous)});
  return table_text(rows);
}

Json to_json(const std::vector<ImportanceStatistics>& statistics) {
  Json all = Json::array();
  for (const ImportanceStatistics& s : statistics)
    all.push_back({{"tensor", s.tensor},
                   {"columns", s.n_columns},
                   {"rows", s.rows},
                   {"sum", s.sum},
                   {"least", s.least},
                   {"most", s.most},
                   {"mean", s.mean},
                   {"deviation", s.deviation},
                   {"active", s.active},
                   {"entropy", s.entropy},
                   {"evenness", s.evenness},
                   {"outstanding", s.outstanding},
                   {"like_previous", s.like_previous},
                   {"never_read", s.n_never_read}});
  return all;
}

}  // namespace weft::cli
