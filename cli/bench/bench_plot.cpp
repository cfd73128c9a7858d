#include "bench/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <optional>
#include <vector>

#include "base/to_size.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr double kWidth = 760, kLeft = 64, kRight = 16;
// A chart's parts, from top to bottom.
constexpr double kTop = 40, kBars = 220, kLabels = 44, kLegendLine = 18;
constexpr int kColours = 6;
constexpr std::size_t kMostNumbers = 24;  // Bars that have their speed written over them.

/// A speed in tokens a second.
struct Bar {
  const Json* row;
  double speed, deviation;
  double roofline;  // 0: not known.
};
struct Chart {
  std::string title;
  std::vector<Bar> bars;
};

struct Field {
  const char* name;
  const char* title;  // Of an axis.
};
/// Fields in which rows may differ. Earlier ones are preferred as the axis.
constexpr std::array<Field, 10> kFields = {{{"streams", "concurrent sequences"},
                                            {"n_depth", "tokens already in the cache"},
                                            {"n_prompt", "prompt tokens"},
                                            {"n_generate", "generated tokens"},
                                            {"n_ubatch", "tokens per step"},
                                            {"threads", "threads"},
                                            {"shared", "shared prompt"},
                                            {"model", "model"},
                                            {"type_k", "type of keys"},
                                            {"type_v", "type of values"}}};

std::string value_text(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) return "";
  if (field == "shared") return found->get<bool>() ? "shared prompt" : "own prompts";
  return found->is_string() ? printable(found->get<std::string>()) : found->dump();
}

std::vector<std::string> values_of(const Chart& chart, const std::string& field) {
  std::vector<std::pair<double, std::string>> values;
  for (const Bar& bar : chart.bars) {
    const auto found = bar.row->find(field);
    const bool number = found != bar.row->end() && found->is_number();
    // Numbers by size, words as they come.
    const std::pair<double, std::string> value = {number ? found->get<double>() : 0.0,
                                                  value_text(*bar.row, field)};
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> texts;
  for (auto& [number, text] : values) texts.push_back(std::move(text));
  return texts;
}

std::vector<Chart> charts_of(const Json& rows) {
  std::vector<Chart> charts;
  const auto add = [&](const std::string& title, const Json& row, double speed, double deviation,
                       double roofline) {
    auto chart = std::find_if(charts.begin(), charts.end(), [&](const Chart& c) { return c.title == title; });
    if (chart == charts.end()) chart = charts.insert(charts.end(), {title, {}});
    chart->bars.push_back({&row, speed, deviation, roofline});
  };
  const auto number = [](const Json& value) { return value.is_number() ? value.get<double>() : 0.0; };
  for (const Json& row : rows) {
    if (!row.contains("streams")) {
      const bool reads = number(row.at("n_prompt")) > 0, writes = number(row.at("n_generate")) > 0;
      add(reads && writes ? "Prefill and decoding"
          : reads         ? "Prefill"
                          : "Decoding",
          row, number(row.at("tokens_per_second")), number(row.at("deviation")),
          number(row.at("roofline_tokens_per_second")));
      continue;
    }
    for (const std::string part : {"prefill", "decode"}) {
      const double speed = number(row.at(part + "_tokens_per_second"));
      const double fraction = number(row.at(part + "_roofline_fraction"));
      if (speed > 0.0)
        add(part == "prefill" ? "Prefill of concurrent sequences" : "Decoding of concurrent sequences", row,
            speed, number(row.at(part + "_deviation")), fraction > 0.0 ? speed / fraction : 0.0);
    }
  }
  return charts;
}

/// The next of 1, 2, 5, 10, ... from `value` on.
double round_step(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (value <= factor * power) return factor * power;
  return 10.0 * power;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string text_at(double x, double y, const char* place, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, place, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, kind);
}

/// A chart whose upper left corner is at (0, y). Moves y to its end.
std::string drawing(const Chart& chart, double& y) {
  std::string out = text_at(kLeft, y + 22, "title", chart.title + ", tokens a second");
  // The axis, and other fields in which bars differ.
  std::optional<Field> axis;
  std::vector<Field> others;
  for (const Field& field : kFields) {
    if (values_of(chart, field.name).size() < 2) continue;
    if (!axis)
      axis = field;
    else
      others.push_back(field);
  }
  const auto series_of = [&](const Bar& bar) {
    std::string name;
    for (const Field& field : others) {
      const std::string value = value_text(*bar.row, field.name);
      const auto found = bar.row->find(field.name);
      const bool number = found != bar.row->end() && found->is_number();
      if (!value.empty())
        name += (name.empty() ? "" : ", ") + value + (number ? std::string(" ") + field.title : "");
    }
    return name;
  };
  std::vector<std::string> series;
  double highest = 0.0;
  for (const Bar& bar : chart.bars) {
    if (std::find(series.begin(), series.end(), series_of(bar)) == series.end())
      series.push_back(series_of(bar));
    highest = std::max({highest, bar.speed + bar.deviation, bar.roofline});
  }
  const std::vector<std::string> places = axis ? values_of(chart, axis->name) : std::vector<std::string>{""};

  const double base = y + kTop + kBars;
  const double step = round_step(std::max(highest, 1e-6) / 5.0);
  const double top = step * std::max(1.0, std::ceil(highest / step));
  const auto height = [&](double speed) { return kBars * speed / top; };
  for (double value = 0.0; value <= top * 1.001; value += step) {
    out += line(kLeft, base - height(value), kWidth - kRight, base - height(value), "grid");
    out += text_at(kLeft - 8, base - height(value) + 4, "end", fmt::format("{:g}", value));
  }
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(places.size());
  const double width = std::min(48.0, 0.8 * group / static_cast<double>(series.size()));
  for (std::size_t i = 0; i < places.size(); ++i)
    out += text_at(kLeft + (static_cast<double>(i) + 0.5) * group, base + 16, "middle", places[i]);
  if (axis) out += text_at((kLeft + kWidth - kRight) / 2, base + 34, "middle", axis->title);
  for (const Bar& bar : chart.bars) {
    const auto at = [](const std::vector<std::string>& list, const std::string& value) {
      return to_size(std::find(list.begin(), list.end(), value) - list.begin());
    };
    const std::size_t place = axis ? at(places, value_text(*bar.row, axis->name)) : 0;
    const std::size_t colour = at(series, series_of(bar));
    const double middle =
        kLeft + (static_cast<double>(place) + 0.5) * group +
        (static_cast<double>(colour) - 0.5 * static_cast<double>(series.size() - 1)) * width;
    const double left = middle - 0.45 * width, right = middle + 0.45 * width;
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"c{}\"/>\n",
                       left, base - height(bar.speed), right - left, height(bar.speed), colour % kColours);
    if (bar.deviation > 0.0)
      out += line(middle, base - height(std::max(0.0, bar.speed - bar.deviation)), middle,
                  base - height(bar.speed + bar.deviation), "spread");
    if (bar.roofline > 0.0)
      out += line(left, base - height(bar.roofline), right, base - height(bar.roofline), "roofline");
    if (chart.bars.size() <= kMostNumbers)
      out += text_at(middle, base - height(bar.speed + bar.deviation) - 4, "middle small",
                     bar.speed < 10 ? fmt::format("{:.1f}", bar.speed) : fmt::format("{:.0f}", bar.speed));
  }
  y = base + kLabels;
  if (series.size() > 1)
    for (std::size_t i = 0; i < series.size(); ++i, y += kLegendLine) {
      out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" class=\"c{}\"/>\n",
                         kLeft, y, i % kColours);
      out += text_at(kLeft + 16, y + 9, "start", series[i]);
    }
  y += 8;
  return out;
}

}  // namespace

std::string plot(const Json& rows) {
  const std::vector<Chart> charts = charts_of(rows);
  std::string body;
  double y = 0.0;
  for (const Chart& chart : charts) body += drawing(chart, y);
  body += line(kLeft, y + 6, kLeft + 24, y + 6, "roofline");
  body += text_at(kLeft + 32, y + 10, "start", "limit of this machine (the roofline)");
  y += 24;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\">\n",
             kWidth, y, kWidth) +
         R"(<style>
text { font: 12px sans-serif; fill: #1f2328 } .title { font-weight: bold; font-size: 14px } .small { font-size: 11px }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d1d9e0 } .spread { stroke: #1f2328 } .roofline { stroke: #cf222e; stroke-width: 2 }
.c0 { fill: #4c8dd6 } .c1 { fill: #e39a3b } .c2 { fill: #5aa469 } .c3 { fill: #a877c4 } .c4 { fill: #8a8f98 } .c5 { fill: #c9b037 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .grid { stroke: #3d444d } .spread { stroke: #e6edf3 } .roofline { stroke: #ff7b72 } }
</style>
)" + body +
         "</svg>\n";
}

void write_plot(const std::string& path, const Json& rows) {
  std::ofstream file(path, std::ios::binary);
  file << plot(rows);
  file.close();
  if (!file) throw Error(ErrorCode::kIo, fmt::format("cannot write '{}'", path));
}

}  // namespace weft::cli
