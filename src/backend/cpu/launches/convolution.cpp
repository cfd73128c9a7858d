#include "backend/cpu/launches/convolution.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Groups of fewer outputs have pixels as lanes.
constexpr std::int64_t kFewOutputs = kPanelRows;
/// Transposing a tile of results takes as long as this many taps.
constexpr std::int64_t kTurnTaps = 8;
/// Channels that tasks share.
constexpr std::int64_t kUnit = 2 * kPanelRows;
/// Results of a block: enough to share the weights that pass by; multiples of all tiles.
constexpr std::int64_t kBlockPixels = 240;
constexpr std::int64_t kLeastColumns = 24;
/// Floats of a block. With the weights of some channels a block fits into the second level of a cache; one
/// channel's fit into the first.
constexpr std::int64_t kBlockFloats = 64 * 1024;
constexpr std::int64_t kPlaneFloats = 6 * 1024;
constexpr std::int64_t kPlanePixels = 4096;
/// Multiply-adds that are worth a task, and tasks for each thread.
constexpr std::int64_t kLeastWork = 128 * 1024;
constexpr std::int64_t kConvolutionTasksPerThread = 4;
/// Results of a transposed convolution lie apart, so a block of them is made elsewhere.
constexpr std::int64_t kTurnedFloats = kUnit * 2 * kBlockPixels;

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

}  // namespace

/// A task's scratch: a block, then two panels of weights as floats and a packed one, or the results of a
/// transposed convolution.
struct ConvolutionLaunch::Scratch {
  float* block = nullptr;
  std::array<float*, 2> panels = {};
  std::byte* packed = nullptr;
  float* results = nullptr;
  std::array<std::int64_t, 2> held = {-1, -1};
};

ConvolutionLaunch::ConvolutionLaunch(const Graph& graph, const Node& node, Activation activation, ValueId out)
    : x_id_(node.inputs[0]),
      weight_id_(node.inputs[1]),
      bias_id_(node.inputs.size() > 2 ? node.inputs[2] : kNoValue),
      output_(out),
      activation_(activation) {
  const Shape &x = graph.value(x_id_).shape, &weight = graph.value(weight_id_).shape,
              &result = graph.value(node.output).shape;
  images_ = x[0];
  height_ = x[2];
  width_ = x[3];
  out_height_ = result[2];
  out_width_ = result[3];
  channels_ = x[1].constant();
  outputs_ = result[1].constant();
  weight_type_ = graph.value(weight_id_).dtype;
  const std::int64_t kh = weight[2].constant(), kw = weight[3].constant();
  kernel_width_ = kw;
  kernel_size_ = kh * kw;
  std::int64_t taps = 0;
  const auto add_pass = [&](WindowAxis y, WindowAxis x_axis) {
    Pass& pass = passes_.emplace_back();
    pass.y = std::move(y);
    pass.x = std::move(x_axis);
    pass.first_tap = taps;
    pass.n_taps = channels_ / groups_ * static_cast<std::int64_t>(pass.y.taps.size() * pass.x.taps.size());
    taps += pass.n_taps;
  };
  if (const auto* const op = get_op<ops::Conv2d>(node)) {
    groups_ = op->groups;
    flat_ = kernel_size_ == 1 && op->stride == HeightWidth(1) && op->padding == HeightWidth(0);
    add_pass(convolution_axis(kh, op->stride.h, op->padding.h, op->dilation.h),
             convolution_axis(kw, op->stride.w, op->padding.w, op->dilation.w));
  } else {
    const auto& turned = *get_op<ops::ConvTranspose2d>(node);
    transposed_ = true;
    groups_ = turned.groups;
    for (const WindowAxis& y : transposed_axes(kh, turned.stride.h, turned.padding.h, turned.dilation.h))
      for (const WindowAxis& x_axis :
           transposed_axes(kw, turned.stride.w, turned.padding.w, turned.dilation.w))
        add_pass(y, x_axis);
  }
  few_ = outputs_ / groups_ < kFewOutputs;
  const std::vector<std::int64_t> bounds = graph.bounds();
  out_h_ = out_height_.value(bounds);
  out_w_ = out_width_.value(bounds);
  if (flat_) out_w_ = std::exchange(out_h_, 1) * out_w_;
  for (Pass& pass : passes_) {
    const std::int64_t n_rows = pass.y.n_results(out_h_), n_columns = pass.x.n_results(out_w_);
    const std::int64_t budget = channels_ == groups_ ? kPlaneFloats : kBlockFloats;
    const std::int64_t most =
        std::max(std::min(budget, block_floats(pass, n_rows, std::min(n_columns, kBlockPixels))),
                 block_floats(pass, 1, std::min(n_columns, kLeastColumns)));
    block_bound_ = std::max(block_bound_, to_size(divide_up(most, kPanelRows) * kPanelRows));
  }
  if (transposed_) return;
  const std::int64_t columns = channels_ / groups_ * kernel_size_;
  slot_floats_ = packed_shape(DType::kF32, kPanelRows, columns).panel_bytes / sizeof(float);
  if (weight_type_ != DType::kF32)
    packed_bytes_ = packed_shape(weight_type_, kPanelRows, columns).panel_bytes;
}

void ConvolutionLaunch::bind(const Addresses& addresses) {
  is_packed_ = false;
  x_ = addresses.plain<const float>(x_id_);
  out_ = addresses.plain<float>(output_);
  if (bias_id_ != kNoValue) bias_ = addresses.plain<const float>(bias_id_);
  if (const MatrixTensor* const matrix = addresses.matrix(weight_id_)) {
    weight_ = matrix->matrices()[0];
  } else {
    weight_ = packed_shape(DType::kF32, outputs_, channels_ / groups_ * kernel_size_);
    weight_.canonical = addresses.plain<const std::byte>(weight_id_);
  }
}

std::int64_t ConvolutionLaunch::block_floats(const Pass& pass, std::int64_t n_rows,
                                             std::int64_t n_columns) const {
  return channels_ / groups_ * size_of_rows(pass.y, n_rows) * size_of_columns(pass.x, n_columns);
}

void ConvolutionLaunch::choose_block(Pass& pass, int n_threads) const {
  const bool plane = channels_ == groups_;
  const std::int64_t budget = plane ? kPlaneFloats : kBlockFloats,
                     pixels = few_ && !transposed_ ? kPlanePixels : kBlockPixels;
  std::int64_t columns = std::min(pass.n_columns, kBlockPixels);
  while (columns > kLeastColumns && block_floats(pass, 1, columns) > budget) columns = (columns + 1) / 2;
  // A long row is cut between vectors.
  const bool whole_vectors = flat_ && columns < pass.n_columns && columns >= kPanelRows;
  if (whole_vectors) columns -= columns % kPanelRows;
  std::int64_t rows = 1;
  while (rows < pass.n_rows && rows * columns < pixels && block_floats(pass, rows + 1, columns) <= budget)
    ++rows;
  pass.n_row_blocks = divide_up(pass.n_rows, rows);
  pass.n_column_blocks = divide_up(pass.n_columns, std::max<std::int64_t>(columns, 1));
  // As many as threads share evenly, where they do not share the channels of a block.
  const std::int64_t of_row = n_images_ * pass.n_column_blocks;
  const bool whole = groups_ == 1 && of_row * pass.n_row_blocks >= kConvolutionTasksPerThread * n_threads;
  for (std::int64_t more = 0; whole && more < n_threads && pass.n_row_blocks + more <= pass.n_rows; ++more)
    if (of_row * (pass.n_row_blocks + more) % n_threads == 0) {
      pass.n_row_blocks += more;
      break;
    }
  pass.block_rows = pass.n_row_blocks == 0 ? 1 : divide_up(pass.n_rows, pass.n_row_blocks);
  pass.block_columns = pass.n_column_blocks == 0 ? 1 : divide_up(pass.n_columns, pass.n_column_blocks);
  if (whole_vectors) {
    pass.block_columns = divide_up(pass.block_columns, kPanelRows) * kPanelRows;
    pass.n_column_blocks = divide_up(pass.n_columns, pass.block_columns);
  }
  if (pass.n_column_blocks == 0) pass.n_row_blocks = 0;
  // Both kernels give the same bits. Pixels as lanes leave some idle at the end of a row, channels as lanes
  // have to be turned.
  const std::int64_t lanes = divide_up(pass.block_columns, kPanelRows) * kPanelRows;
  pass.wide = few_ || pass.block_columns * (pass.n_taps + kTurnTaps) >= lanes * pass.n_taps;
}

std::int32_t ConvolutionLaunch::prepare(const StepInfo& step) {
  const bool other_images = n_images_ != images_.value(step.symbols);
  n_images_ = images_.value(step.symbols);
  h_ = height_.value(step.symbols);
  w_ = width_.value(step.symbols);
  out_h_ = out_height_.value(step.symbols);
  out_w_ = out_width_.value(step.symbols);
  if (flat_) {
    w_ = std::exchange(h_, 1) * w_;
    out_w_ = std::exchange(out_h_, 1) * out_w_;
  }
  if (transposed_) pack_transposed();
  std::int64_t n_blocks = 0, pixels = 0;
  for (Pass& pass : passes_) {
    const std::int64_t n_rows = pass.y.n_results(out_h_), n_columns = pass.x.n_results(out_w_);
    if (other_images || n_rows != pass.n_rows || n_columns != pass.n_columns || pass.taps.empty()) {
      pass.n_rows = n_rows;
      pass.n_columns = n_columns;
      choose_block(pass, step.n_threads);
      pass.rows = lay_out_rows(pass.y, pass.block_rows);
      pass.columns = lay_out_columns(pass.x, pass.block_columns);
      pass.taps = places_of_taps(pass.rows, pass.columns, channels_ / groups_);
    }
    n_blocks += n_images_ * pass.n_row_blocks * pass.n_column_blocks;
    pixels = std::max(pixels, pass.block_rows * pass.block_columns);
  }
  // Channels of a block are shared where there are few blocks, or little to do for each of many groups.
  const std::int64_t of_group = outputs_ / groups_;
  units_of_group_ = divide_up(of_group, kUnit);
  const std::int64_t n_units = groups_ * units_of_group_;
  const std::int64_t wanted =
      divide_up(kConvolutionTasksPerThread * step.n_threads, std::max<std::int64_t>(n_blocks, 1));
  units_per_task_ = std::max<std::int64_t>(n_units / wanted, 1);
  if (groups_ > 1) {
    const std::int64_t work = pixels * std::min(of_group, kUnit) * passes_[0].n_taps;
    units_per_task_ =
        std::clamp<std::int64_t>(kLeastWork / std::max<std::int64_t>(work, 1), 1, units_per_task_);
  }
  n_parts_ = divide_up(n_units, units_per_task_);
  std::int64_t n_tasks = 0;
  for (Pass& pass : passes_) {
    pass.first_task = n_tasks;
    n_tasks += n_images_ * pass.n_row_blocks * pass.n_column_blocks * n_parts_;
  }
  return static_cast<std::int32_t>(n_tasks);
}

/// Weights {c, o / groups, kh, kw} in the order in which passes read them.
void ConvolutionLaunch::pack_transposed() {
  if (std::exchange(is_packed_, true)) return;
  const std::int64_t of_group = outputs_ / groups_, in_group = channels_ / groups_;
  const std::int64_t panel_taps = in_group * kernel_size_, n_panels = divide_up(outputs_, kPanelRows);
  packed_.assign(to_size(n_panels * panel_taps * kPanelRows), 0.0f);
  std::vector<float> row(to_size(of_group * kernel_size_));
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    unpack_packed_row(weight_, channel, row.data());
    for (const Pass& pass : passes_) {
      std::int64_t tap =
          pass.first_tap +
          channel % in_group * static_cast<std::int64_t>(pass.y.taps.size() * pass.x.taps.size());
      for (const std::int64_t y : pass.y.taps)
        for (const std::int64_t x : pass.x.taps) {
          for (std::int64_t i = 0; i < of_group; ++i) {
            const std::int64_t output = channel / in_group * of_group + i;
            packed_[to_size((output / kPanelRows * panel_taps + tap) * kPanelRows + output % kPanelRows)] =
                row[to_size(i * kernel_size_ + y * kernel_width_ + x)];
          }
          ++tap;
        }
    }
  }
}

void ConvolutionLaunch::run(std::int32_t task, const TaskContext& context) {
  const Pass* pass = passes_.data();
  for (const Pass& other : passes_)
    if (other.first_task <= task) pass = &other;
  // Passes without tasks begin where the next one does.
  std::int64_t place = task - pass->first_task;
  const std::int64_t part = place % n_parts_;
  place /= n_parts_;
  const std::int64_t column_block = place % pass->n_column_blocks;
  place /= pass->n_column_blocks;
  Block block;
  block.picture = place / pass->n_row_blocks;
  // Blocks differ by a row at most.
  const std::int64_t row_block = place % pass->n_row_blocks;
  block.row = row_block * pass->n_rows / pass->n_row_blocks;
  block.n_rows = (row_block + 1) * pass->n_rows / pass->n_row_blocks - block.row;
  block.column = column_block * pass->block_columns;
  block.n_columns = std::min(pass->block_columns, pass->n_columns - block.column);

  Scratch scratch;
  scratch.block = reinterpret_cast<float*>(context.scratch);
  scratch.results = scratch.block + block_bound_ + kWindowSlack;
  scratch.panels = {scratch.results, scratch.results + slot_floats_};
  scratch.packed = reinterpret_cast<std::byte*>(scratch.results + 2 * slot_floats_);

  const std::int64_t of_group = outputs_ / groups_, n_units = groups_ * units_of_group_;
  std::int64_t copied = -1;
  for (std::int64_t unit = part * units_per_task_; unit < std::min((part + 1) * units_per_task_, n_units);
       ++unit) {
    const std::int64_t group = unit / units_of_group_, first = unit % units_of_group_ * kUnit;
    if (group != copied) copy_block(*pass, block, group, context.kernels, scratch.block);
    copied = group;
    const std::int64_t begin = group * of_group + first;
    const Range channels = {begin, group * of_group + std::min(first + kUnit, of_group)};
    if (pass->wide) {
      make_wide(*pass, block, channels, context.kernels, scratch);
    } else {
      make(*pass, block, channels, context.kernels, scratch);
    }
  }
}

void ConvolutionLaunch::copy_block(const Pass& pass, const Block& block, std::int64_t group,
                                   const Kernels& kernels, float* to) const {
  const std::int64_t in_group = channels_ / groups_;
  const WindowCopy copy = {.rows = pass.rows,
                           .columns = pass.columns,
                           .height = h_,
                           .width = w_,
                           .top = pass.y.origin + block.row * pass.y.step,
                           .left = pass.x.origin + block.column * pass.x.step,
                           .outside = 0.0f};
  for (std::int64_t channel = 0; channel < in_group; ++channel)
    copy_windows(copy, x_ + ((block.picture * channels_ + group * in_group + channel) * h_) * w_, kernels,
                 to + channel * pass.rows.size * pass.columns.size);
}

/// The weights of 16 outputs as floats, tap after tap.
const float* ConvolutionLaunch::panel(std::int64_t panel, const Kernels& kernels, Scratch& scratch) const {
  if (transposed_) return packed_.data() + panel * (channels_ / groups_) * kernel_size_ * kPanelRows;
  const bool packed = weight_.data != nullptr, floats = weight_.dtype == DType::kF32;
  if (packed && floats) return reinterpret_cast<const float*>(panel_of(weight_, panel));
  const std::size_t slot = to_size(panel % 2);
  float* const to = scratch.panels[slot];
  if (std::exchange(scratch.held[slot], panel) == panel) return to;
  const std::byte* from = nullptr;
  if (packed) {
    from = panel_of(weight_, panel);
  } else {
    std::byte* const place = floats ? reinterpret_cast<std::byte*>(to) : scratch.packed;
    const std::int64_t row = panel * kPanelRows;
    pack_panels(weight_.dtype, std::min<std::int64_t>(kPanelRows, weight_.rows - row), weight_.columns,
                weight_.canonical + to_size(row) * row_bytes(weight_.dtype, weight_.columns), 0, 1, place);
    from = place;
  }
  if (!floats)
    kernels.unpack_halves(reinterpret_cast<const std::uint16_t*>(from),
                          static_cast<std::int64_t>(weight_.panel_bytes / sizeof(std::uint16_t)), to);
  return to;
}

/// The weights of a channel, and of the following lanes, for a pass.
const float* ConvolutionLaunch::weights_of(const Pass& pass, std::int64_t channel, const Kernels& kernels,
                                           Scratch& scratch) const {
  return panel(channel / kPanelRows, kernels, scratch) + channel % kPanelRows + pass.first_tap * kPanelRows;
}

/// The first result of a channel in a block.
float* ConvolutionLaunch::place_of(const Pass& pass, const Block& block, std::int64_t channel) const {
  return out_ +
         ((block.picture * outputs_ + channel) * out_h_ + pass.y.out_first + block.row * pass.y.out_step) *
             out_w_ +
         pass.x.out_first + block.column * pass.x.out_step;
}

/// All but weights, bias and channels.
WindowArgs ConvolutionLaunch::args_for(const Pass& pass, const Block& block, std::int64_t first_channel,
                                       const Scratch& scratch) const {
  WindowArgs args;
  args.x = scratch.block;
  args.x_row = pass.rows.advance * pass.columns.size;
  args.taps = pass.taps.data();
  args.n_taps = pass.n_taps;
  args.n_rows = block.n_rows;
  args.n_columns = block.n_columns;
  if (transposed_) {
    args.out = scratch.results;
    args.out_row = block.n_columns;
    args.out_channel = block.n_rows * block.n_columns;
  } else {
    args.out = place_of(pass, block, first_channel);
    args.out_row = out_w_;
    args.out_channel = out_h_ * out_w_;
  }
  return args;
}

void ConvolutionLaunch::make(const Pass& pass, const Block& block, Range channels, const Kernels& kernels,
                             Scratch& scratch) const {
  const std::int64_t lanes = kernels.convolve_lanes, of_vector = lanes / 2;
  for (std::int64_t first = channels.begin / of_vector * of_vector; first < channels.end; first += lanes) {
    WindowArgs args = args_for(pass, block, first, scratch);
    args.first_lane = static_cast<int>(std::max(channels.begin - first, std::int64_t{0}));
    args.end_lane = static_cast<int>(std::min(channels.end - first, lanes));
    std::array<float, kUnit> bias = {};
    for (int lane = args.first_lane; lane < args.end_lane && bias_ != nullptr; ++lane)
      bias[to_size(lane)] = bias_[first + lane];
    args.bias = bias.data();
    for (int v = 0; v < 2 && v * of_vector < args.end_lane; ++v)
      args.weights[v] = weights_of(pass, first + v * of_vector, kernels, scratch);
    kernels.convolve(args);
    finish(pass, block, args, {first + args.first_lane, first + args.end_lane}, first, kernels);
  }
}

void ConvolutionLaunch::make_wide(const Pass& pass, const Block& block, Range channels,
                                  const Kernels& kernels, Scratch& scratch) const {
  constexpr std::int64_t kMost = std::size(WindowArgs{}.weights);
  const auto side = static_cast<std::int64_t>(pass.y.taps.size());
  const bool square = channels_ == groups_ && side > 0 && side * side == pass.n_taps &&
                      pass.rows.positions.front() == 0 && pass.rows.positions.back() == side - 1;
  for (std::int64_t first = channels.begin; first < channels.end; first += kMost) {
    WindowArgs args = args_for(pass, block, first, scratch);
    args.n_channels = static_cast<int>(std::min(channels.end - first, kMost));
    std::array<float, kMost> bias = {};
    for (int c = 0; c < args.n_channels; ++c) {
      if (bias_ != nullptr) bias[to_size(c)] = bias_[first + c];
      args.weights[c] = weights_of(pass, first + c, kernels, scratch);
    }
    args.bias = bias.data();
    args.square = square ? static_cast<int>(side) : 0;
    kernels.convolve_few(args);
    finish(pass, block, args, {first, first + args.n_channels}, first, kernels);
  }
}

/// Activates the results of some channels, and takes them to their places if they were made elsewhere.
void ConvolutionLaunch::finish(const Pass& pass, const Block& block, const WindowArgs& args, Range channels,
                               std::int64_t first_channel, const Kernels& kernels) const {
  if (activation_ == Activation::kNone && !transposed_) return;
  for (std::int64_t channel = channels.begin; channel < channels.end; ++channel) {
    float* const made = args.out + (channel - first_channel) * args.out_channel;
    float* const place = place_of(pass, block, channel);
    for (std::int64_t row = 0; row < block.n_rows; ++row) {
      float* const from = made + row * args.out_row;
      if (activation_ != Activation::kNone) kernels.activation_row(activation_, from, block.n_columns, from);
      if (!transposed_) continue;
      float* const to = place + row * pass.y.out_step * out_w_;
      for (std::int64_t i = 0; i < block.n_columns; ++i) to[i * pass.x.out_step] = from[i];
    }
  }
}

std::size_t ConvolutionLaunch::scratch_bytes() const {
  return (block_bound_ + to_size(kWindowSlack) + 2 * slot_floats_ +
          (transposed_ ? to_size(kTurnedFloats) : 0)) *
             sizeof(float) +
         packed_bytes_;
}

std::size_t ConvolutionLaunch::held_bytes() const {
  if (!transposed_) return 0;
  return to_size(divide_up(outputs_, kPanelRows) * kPanelRows * (channels_ / groups_) * kernel_size_) *
         sizeof(float);
}

Work ConvolutionLaunch::work() const {
  double taps = 0.0;
  for (const Pass& pass : passes_)
    taps += static_cast<double>(pass.n_taps) * static_cast<double>(pass.n_rows * pass.n_columns);
  return {.bytes = static_cast<double>(held_bytes() > 0 ? held_bytes()
                                                        : weight_.panel_bytes * to_size(weight_.n_panels())),
          .multiply_adds = multiply_adds_of(transposed_ ? DType::kF32 : weight_type_,
                                            taps * static_cast<double>(n_images_ * outputs_))};
}

std::string ConvolutionLaunch::describe(const Graph& graph) const {
  return (transposed_ ? "conv_transpose2d " : "conv2d ") + graph.value(weight_id_).name +
         (activation_ != Activation::kNone ? " + activation -> " : " -> ") + graph.value(output_).name;
}

}  // namespace weft::cpu
