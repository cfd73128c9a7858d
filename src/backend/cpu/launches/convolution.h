#pragma once
// Convolutions of images, plain and transposed.
//
// A task makes some rows of results of one image, for some channels. It copies their input rows into its
// scratch, with the zeros around the image. If windows have a stride, the pixels of one tap are contiguous in
// the copy. Every tap is then an offset into the copy, and the kernels (kernels/windows.inl) need not know of
// padding, strides and dilations. A transposed convolution is several plain ones (passes), each of which
// makes the results of one remainder by the stride.
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/window_axis.h"

namespace weft::cpu {

class ConvolutionLaunch final : public Launch {
 public:
  /// `out` is the output of the node, or of an activation that follows it.
  ConvolutionLaunch(const Graph& graph, const Node& node, Activation activation, ValueId out);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::size_t held_bytes() const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  /// Results of one remainder by the strides; the only one where nothing is transposed.
  struct Pass {
    WindowAxis y, x;
    std::int64_t first_tap = 0;  ///< Of the taps of a channel's weights.
    std::int64_t n_taps = 0;
    // Of this step.
    std::int64_t n_rows = 0, n_columns = 0;              ///< Results.
    std::int64_t block_rows = 1, block_columns = 1;      ///< Of a task.
    std::int64_t n_row_blocks = 0, n_column_blocks = 0;  ///< Of one picture.
    bool wide = false;                                   ///< Pixels are lanes, not channels.
    WindowLayout rows, columns;                          ///< Of a whole block.
    std::vector<std::int64_t> taps;                      ///< Where each reads, in a block.
    std::int64_t first_task = 0;
  };
  /// What a task works on.
  struct Block {
    std::int64_t picture, row, column, n_rows, n_columns;
  };
  struct Scratch;

  std::int64_t block_floats(const Pass& pass, std::int64_t n_rows, std::int64_t n_columns) const;
  void choose_block(Pass& pass, int n_threads) const;
  void pack_transposed();
  void copy_block(const Pass& pass, const Block& block, std::int64_t group, const Kernels& kernels,
                  float* to) const;
  const float* panel(std::int64_t panel, const Kernels& kernels, Scratch& scratch) const;
  void make(const Pass& pass, const Block& block, Range channels, const Kernels& kernels,
            Scratch& scratch) const;
  void make_wide(const Pass& pass, const Block& block, Range channels, const Kernels& kernels,
                 Scratch& scratch) const;
  WindowArgs args_for(const Pass& pass, const Block& block, std::int64_t first_channel,
                      const Scratch& scratch) const;
  const float* weights_of(const Pass& pass, std::int64_t channel, const Kernels& kernels,
                          Scratch& scratch) const;
  void finish(const Pass& pass, const Block& block, const WindowArgs& args, Range channels,
              std::int64_t first_channel, const Kernels& kernels) const;
  float* place_of(const Pass& pass, const Block& block, std::int64_t channel) const;

  ValueId x_id_, weight_id_, bias_id_ = kNoValue, output_;
  Activation activation_;
  bool transposed_ = false;
  bool flat_ = false;  ///< Windows of one pixel: an image is one long row.
  bool few_ = false;   ///< Groups have few outputs.
  Dim images_, height_, width_, out_height_, out_width_;
  std::int64_t channels_, outputs_, groups_;
  std::int64_t kernel_width_, kernel_size_;  ///< Of one channel.
  DType weight_type_;
  std::vector<Pass> passes_;
  std::size_t block_bound_ = 0;   ///< Floats of a block, at most.
  std::size_t slot_floats_ = 0;   ///< Of a panel of weights.
  std::size_t packed_bytes_ = 0;  ///< Of one that must be packed before it is unpacked.

  const float* x_ = nullptr;
  const float* bias_ = nullptr;
  float* out_ = nullptr;
  PackedMatrix weight_;
  std::vector<float> packed_;  ///< Of a transposed one: [panel of outputs][tap][output].
  bool is_packed_ = false;     ///< Since it was bound.
  // Of this step.
  std::int64_t n_images_ = 0, h_ = 0, w_ = 0, out_h_ = 0, out_w_ = 0;
  std::int64_t units_of_group_ = 1, units_per_task_ = 1, n_parts_ = 1;
};

}  // namespace weft::cpu
