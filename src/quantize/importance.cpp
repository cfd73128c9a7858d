#include "quantize/importance.h"

#include <utility>

#include "weft/error.h"
#include "weft/importance.h"

namespace weft::quantize_impl {

ColumnImportance::ColumnImportance(const std::filesystem::path& path) : path_(path) {
  const Importance importance = read_importance(path);
  if (!importance.datasets.empty()) dataset_ = importance.datasets.front();
  n_chunks_ = importance.n_chunks;
  for (const ColumnSums& of : importance.tensors) {
    std::vector<float> means(of.sums.size());
    const std::size_t n_columns = of.sums.size() / of.counts.size();
    for (std::size_t i = 0; i < means.size(); ++i) {
      const double rows = of.counts[i / n_columns];
      // An expert without rows: its importance is unknown, so all columns are equal.
      means[i] = rows > 0.0 ? static_cast<float>(of.sums[i] / rows) : 1.0f;
    }
    columns_.insert_or_assign(of.tensor, std::move(means));
  }
}

std::span<const float> ColumnImportance::of(std::string_view tensor, std::int64_t n_matrices,
                                            std::int64_t n_columns) const {
  const auto found = columns_.find(tensor);
  if (found == columns_.end()) return {};
  if (static_cast<std::int64_t>(found->second.size()) != n_matrices * n_columns)
    throw Error(ErrorCode::kInvalidFile,
                path_.string() + ": " + std::string(tensor) + " has " + std::to_string(found->second.size()) +
                    " values, and the model's has " + std::to_string(n_matrices) + " times " +
                    std::to_string(n_columns) + " columns; the importance matrix was made for another model");
  return found->second;
}

std::vector<std::string> ColumnImportance::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, columns] : columns_) names.push_back(name);
  return names;
}

}  // namespace weft::quantize_impl
