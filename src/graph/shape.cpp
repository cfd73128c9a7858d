#include "graph/shape.h"

#include "base/check.h"

namespace weft {

Shape::Shape(std::initializer_list<Dim> dims) : rank_(static_cast<int>(dims.size())) {
  WEFT_CHECK(dims.size() <= kMaxRank);
  std::size_t i = 0;
  for (const Dim& dim : dims) dims_[i++] = dim;
}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  WEFT_CHECK(dims.size() <= kMaxRank);
  for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

std::int64_t Shape::rows(std::span<const std::int64_t> symbols) const {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product *= (*this)[i].value(symbols);
  return product;
}

std::int64_t Shape::elements(std::span<const std::int64_t> symbols) const {
  return rank_ == 0 ? 1 : rows(symbols) * back().value(symbols);
}

Dim Shape::row_dim() const {
  Dim product = 1;
  for (int i = 0; i + 1 < rank_; ++i) {
    product.factor *= (*this)[i].factor;
    if (!(*this)[i].is_constant()) {
      WEFT_CHECK(product.is_constant());
      product.symbol = (*this)[i].symbol;
    }
  }
  return product;
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int i = 0; i < a.rank_; ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

std::vector<std::int64_t> Shape::dims(std::span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> result;
  for (int i = 0; i < rank_; ++i) result.push_back((*this)[i].value(symbols));
  return result;
}

std::string to_string(const Shape& shape, std::span<const Symbol> symbols) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    const Dim& dim = shape[i];
    if (dim.is_constant()) {
      text += std::to_string(dim.factor);
    } else {
      if (dim.factor != 1) text += std::to_string(dim.factor) + "*";
      text += symbols[static_cast<std::size_t>(dim.symbol)].name;
    }
  }
  return text + "]";
}

}  // namespace weft
