#pragma once
// A plot of the cache over time: the cells that each client holds at each moment. From the bottom up it has
// the shared prompt and the clients, each sequence in its own colour. On top are the other cells: finished
// sequences that were kept, and clients' copies of the shared prompt's last page.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

class CachePlot {
 public:
  struct Share {
    int sequence;
    int n_cells;
  };
  struct Moment {
    double seconds;
    int n_used;                  // Cells in use, of all clients.
    std::vector<Share> clients;  // Cells that only this client uses.
  };

  CachePlot(int n_cells, int n_shared) : n_cells_(n_cells), n_shared_(n_shared) {}
  void add(Moment moment) { moments_.push_back(std::move(moment)); }

  /// Letters are clients, capital ones those with sequences of odd numbers.
  std::string as_text(bool colour, int n_columns = 96, int n_rows = 24) const {
    std::string out;
    const auto columns = sampled(n_columns);
    for (int row = n_rows; row-- > 0;) {
      const int cell = static_cast<int>((row + 0.5) * n_cells_ / n_rows);
      char label[16];
      std::snprintf(label, sizeof label, "%6d ", (row + 1) * n_cells_ / n_rows);
      out += row + 1 == n_rows || row % 6 == 5 ? label : "       ";
      for (const Moment* moment : columns) out += cell_as_text(*moment, cell, colour);
      out += '\n';
    }
    const double seconds = moments_.empty() ? 0.0 : moments_.back().seconds;
    char legend[256];
    std::snprintf(legend, sizeof legend,
                  " cells %*s%.1f s\n        = shared prompt, letters: clients, + kept or copied, . free\n",
                  std::max(n_columns - 8, 1), "", seconds);
    return out + legend;
  }

  std::string as_svg() const {
    constexpr int kColumns = 400, kWidth = 1000, kHeight = 420, kLeft = 60, kTop = 20;
    std::string out = formatted(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
        "font-size=\"13\">\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n",
        kLeft + kWidth + 20, kTop + kHeight + 40, kLeft, kTop, kWidth, kHeight);
    const auto columns = sampled(kColumns);
    const double seconds = columns.empty() ? 0.0 : columns.back()->seconds;
    const double x_scale = kWidth / std::max(seconds, 1e-9);
    const double y_scale = static_cast<double>(kHeight) / n_cells_;
    double x = 0.0;
    for (const Moment* moment : columns) {
      const double right = moment->seconds * x_scale;
      for (const Layer& layer : layers(*moment)) {
        out += formatted(
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"%s\"><title>%s</title></rect>\n",
            kLeft + x, kTop + kHeight - layer.top * y_scale, right - x + 0.2,
            (layer.top - layer.bottom) * y_scale, colour_of(layer).c_str(), title_of(layer).c_str());
      }
      x = right;
    }
    out += formatted(
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n<text x=\"%d\" y=\"%d\" "
        "text-anchor=\"end\">0 cells</text>\n",
        kLeft - 6, kTop + 10, n_cells_, kLeft - 6, kTop + kHeight);
    out += formatted("<text x=\"%d\" y=\"%d\">%d cells shared (dark), kept or copied (grey)</text>\n", kLeft,
                     kTop + kHeight + 22, n_shared_);
    out += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f s</text>\n</svg>\n", kLeft + kWidth,
                     kTop + kHeight + 22, seconds);
    return out;
  }

 private:
  static constexpr int kSharedPrompt = -1, kKept = -2;
  struct Layer {
    int client;  // Or kSharedPrompt, kKept.
    int sequence;
    int bottom;
    int top;
  };

  std::vector<Layer> layers(const Moment& moment) const {
    std::vector<Layer> result;
    int bottom = 0;
    const auto add = [&](int client, int sequence, int n) {
      const int top = std::min(bottom + n, moment.n_used);
      if (top > bottom) result.push_back({client, sequence, bottom, top});
      bottom = std::max(bottom, top);
    };
    add(kSharedPrompt, 0, n_shared_);
    for (std::size_t i = 0; i < moment.clients.size(); ++i)
      add(static_cast<int>(i), moment.clients[i].sequence, moment.clients[i].n_cells);
    add(kKept, 0, moment.n_used - bottom);
    return result;
  }

  /// At most `n` moments, the last one among them.
  std::vector<const Moment*> sampled(int n) const {
    std::vector<const Moment*> result;
    const std::size_t count = std::min(moments_.size(), static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < count; ++i)
      result.push_back(&moments_[(i + 1) * moments_.size() / count - 1]);
    return result;
  }

  std::string cell_as_text(const Moment& moment, int cell, bool colour) const {
    const auto all = layers(moment);
    const auto layer = std::find_if(all.begin(), all.end(), [&](const Layer& l) { return cell < l.top; });
    if (layer == all.end()) return ".";
    if (layer->client == kSharedPrompt) return "=";
    if (layer->client == kKept) return "+";
    const std::string letter(1,
                             static_cast<char>((layer->sequence % 2 == 0 ? 'a' : 'A') + layer->client % 26));
    return colour ? formatted("\033[48;5;%dm%s\033[0m", 17 + layer->sequence * 37 % 214, letter.c_str())
                  : letter;
  }

  static std::string colour_of(const Layer& layer) {
    if (layer.client == kSharedPrompt) return "#333";
    if (layer.client == kKept) return "#bbb";
    return formatted("hsl(%d,%d%%,60%%)", layer.sequence * 137 % 360, layer.sequence % 2 == 0 ? 70 : 50);
  }

  static std::string title_of(const Layer& layer) {
    if (layer.client == kSharedPrompt) return "shared prompt";
    if (layer.client == kKept) return "kept or copied";
    return formatted("client %d, sequence %d", layer.client, layer.sequence);
  }

  template <typename... Arguments>
  static std::string formatted(const char* format, Arguments... arguments) {
    char line[512];
    const int n = std::snprintf(line, sizeof line, format, arguments...);
    return std::string(line, static_cast<std::size_t>(std::clamp(n, 0, static_cast<int>(sizeof line) - 1)));
  }

  int n_cells_;
  int n_shared_;
  std::vector<Moment> moments_;
};
