#pragma once
// Errors of folders, in the words that all of them have. Each throws Error kInvalidFile.
#include <cstdint>
#include <string>

#include "convert/folder_weights.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::convert_impl {

[[noreturn]] inline void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidFile, reason); }

[[noreturn]] inline void refuse_tensor(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "tensor '" + name.substr(0, 120) + "' " + reason);
}

[[noreturn]] inline void refuse_config(const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "config.json: " + reason);
}

/// Refuses a source that is not a non-empty tensor of numbers with at most `most_axes` axes.
inline void check_source(const std::string& name, const Source& source, std::size_t most_axes) {
  if (!source.dtype || info(*source.dtype).kind == DTypeKind::kInteger)
    refuse_tensor(name, "is of the type " + source.stored + ", expected F32, F16, BF16 or F64");
  for (const std::int64_t size : source.shape)
    if (size <= 0) refuse_tensor(name, "is empty");
  if (source.shape.size() > most_axes) refuse_tensor(name, "has too many dimensions, or none");
}

}  // namespace weft::convert_impl
