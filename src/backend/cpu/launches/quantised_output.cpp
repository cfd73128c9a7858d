#include "backend/cpu/launches/quantised_output.h"

#include <algorithm>

#include "backend/cpu/layout/packed_layout.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr int kCountBits = 8;
static_assert(kBlockColumns < 1 << kCountBits && kWideColumns < 1 << kCountBits);

std::int64_t group_bytes(Form form) { return form == Form::kQ8 ? sizeof(Q8Group) : sizeof(Q8Wide); }

}  // namespace

std::int64_t group_columns(Form form) {
  return form == Form::kQ8 ? kBlockColumns : form == Form::kQ8Wide ? kWideColumns : 1;
}

QuantisedOutput::QuantisedOutput(Form form, std::int64_t n_columns, std::int64_t max_blocks)
    : form_(form),
      n_columns_(n_columns),
      n_groups_((n_columns + group_columns(form) - 1) / group_columns(form)),
      made_(to_size(n_groups_ * max_blocks)) {}

void QuantisedOutput::bind(const Addresses& addresses, ValueId output, const float* plain) {
  plain_ = plain;
  to_ = addresses.in_form(output, form_);
}

Range QuantisedOutput::whole_groups(std::int64_t block, Range columns) {
  const std::int64_t width = group_columns(form_);
  const std::int64_t first = columns.begin / width, last = (columns.end - 1) / width;
  // Those between are made by this task alone.
  const bool has_first = is_whole(block, first, columns);
  const bool has_last = last == first ? has_first : is_whole(block, last, columns);
  return {(has_first ? first : first + 1) * width,
          std::min((has_last ? last + 1 : last) * width, n_columns_)};
}

bool QuantisedOutput::is_whole(std::int64_t block, std::int64_t group, Range columns) {
  const std::int64_t width = group_columns(form_);
  const Range own = {group * width, std::min((group + 1) * width, n_columns_)};
  const std::int64_t made = std::min(own.end, columns.end) - std::max(own.begin, columns.begin);
  if (made == own.end - own.begin) return true;
  std::atomic<std::uint64_t>& made_so_far = made_[to_size(block * n_groups_ + group)];
  // What another step has left there, which may have been cancelled, counts as nothing.
  std::uint64_t before = made_so_far.load(std::memory_order_relaxed), after = 0;
  do {
    const std::uint64_t nothing = step_ << kCountBits;
    after = (before >> kCountBits == step_ ? before : nothing) + static_cast<std::uint64_t>(made);
  } while (!made_so_far.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                              std::memory_order_relaxed));
  return static_cast<std::int64_t>(after - (step_ << kCountBits)) == own.end - own.begin;
}

void QuantisedOutput::write(const Kernels& kernels, const std::int32_t* rows, Range all,
                            Range columns) const {
  if (columns.begin >= columns.end) return;
  const auto row_bytes = static_cast<std::int64_t>(activation_row_bytes(form_, n_columns_));
  const std::int64_t first = rows != nullptr ? 0 : all.begin;
  kernels.quantise_rows(
      {.form = form_,
       .x = plain_ + first * n_columns_ + columns.begin,
       .x_stride = n_columns_,
       .n = columns.end - columns.begin,
       .out = to_ + first * row_bytes + columns.begin / group_columns(form_) * group_bytes(form_),
       .out_stride = row_bytes,
       .rows = rows != nullptr ? rows + all.begin : nullptr},
      all.end - all.begin);
}

}  // namespace weft::cpu
