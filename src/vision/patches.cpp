#include "vision/patches.h"

#include <algorithm>
#include <cmath>

#include "base/to_size.h"

namespace weft::vision {
namespace {

class Cutter {
 public:
  Cutter(const HParams& hparams, const Image& image)
      : h_(hparams),
        image_(image),
        across_(image.width / hparams.patch_size),
        down_(image.height / hparams.patch_size) {
    const auto n = to_size(across_) * to_size(down_);
    const auto side = to_size(h_.patch_size);
    out_.rows.reserve(n * 3 * side * side);
  }

  Patches cut() {
    const int squares_across = across_ / h_.merge, squares_down = down_ / h_.merge;
    const int window = h_.full_every > 1 ? std::max(h_.window / h_.patch_size / h_.merge, 1)
                                         : std::max(squares_across, squares_down);
    for (int top = 0; top < squares_down; top += window)
      for (int left = 0; left < squares_across; left += window) {
        const std::size_t begin = out_.positions.size();
        for (int y = top; y < std::min(top + window, squares_down); ++y)
          for (int x = left; x < std::min(left + window, squares_across); ++x) {
            out_.row_places.push_back(y * squares_across + x);
            add_square(x * h_.merge, y * h_.merge);
          }
        const std::size_t end = out_.positions.size();
        out_.window_begins.resize(end, static_cast<std::int32_t>(begin));
        out_.window_ends.resize(end, static_cast<std::int32_t>(end));
      }
    out_.begins.assign(out_.positions.size(), 0);
    out_.ends.assign(out_.positions.size(), static_cast<std::int32_t>(out_.positions.size()));
    return std::move(out_);
  }

 private:
  void add_square(int left, int top) {
    for (int dy = 0; dy < h_.merge; ++dy)
      for (int dx = 0; dx < h_.merge; ++dx) add(left + dx, top + dy);
  }

  void add(int patch_x, int patch_y) {
    out_.positions.push_back(patch_y * h_.grid() + patch_x);
    out_.line_of.push_back(patch_y);
    out_.column_of.push_back(patch_x);
    add_corners(patch_x, patch_y);
    const int p = h_.patch_size;
    const auto pixels = to_size(p) * to_size(p);
    const std::size_t at = out_.rows.size();
    out_.rows.resize(at + 3 * pixels);
    float* const row = out_.rows.data() + at;
    for (int y = 0; y < p; ++y) {
      const auto first = to_size(patch_y * p + y) * to_size(image_.width) + to_size(patch_x * p);
      const std::uint8_t* from = image_.rgb.data() + 3 * first;
      for (int x = 0; x < p; ++x)
        for (std::size_t c = 0; c < 3; ++c)
          row[c * pixels + to_size(y * p + x)] =
              (static_cast<float>(*from++) / 255.0f - h_.mean[c]) / h_.deviation[c];
    }
  }

  void add_corners(int patch_x, int patch_y) {
    const int last = h_.grid() - 1;
    const auto place = [last](int i, int n) {
      return n > 1 ? static_cast<float>(i) * static_cast<float>(last) / static_cast<float>(n - 1) : 0.0f;
    };
    const float x = place(patch_x, across_), y = place(patch_y, down_);
    const int x0 = std::min(static_cast<int>(x), last), y0 = std::min(static_cast<int>(y), last);
    const float right = x - static_cast<float>(x0), below = y - static_cast<float>(y0);
    for (int corner = 0; corner < kCorners; ++corner) {
      const bool is_right = corner % 2 != 0, is_below = corner >= 2;
      const auto i = to_size(corner);
      out_.corners[i].push_back(std::min(y0 + (is_below ? 1 : 0), last) * h_.grid() +
                                std::min(x0 + (is_right ? 1 : 0), last));
      out_.shares[i].push_back((is_right ? right : 1.0f - right) * (is_below ? below : 1.0f - below));
    }
  }

  const HParams& h_;
  const Image& image_;
  const int across_, down_;  // Patches.
  Patches out_;
};

}  // namespace

Patches cut_into_patches(const HParams& hparams, const Image& image) { return Cutter(hparams, image).cut(); }

std::vector<Plan::InputData> inputs_of(const Patches& patches, const Graph& graph) {
  std::vector<Plan::InputData> inputs;
  const auto add = [&](const char* name, const auto& values) {
    if (graph.find(name) != kNoValue) inputs.emplace_back(name, values);
  };
  add("patches", patches.rows);
  add("positions", patches.positions);
  add("lines", patches.line_of);
  add("columns", patches.column_of);
  add("begins", patches.begins);
  add("ends", patches.ends);
  add("window_begins", patches.window_begins);
  add("window_ends", patches.window_ends);
  for (std::size_t i = 0; i < kCorners; ++i) {
    add(kCornerNames[i], patches.corners[i]);
    add(kShareNames[i], patches.shares[i]);
  }
  return inputs;
}

}  // namespace weft::vision
