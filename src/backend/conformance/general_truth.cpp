#include "backend/conformance/general_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::conformance {
namespace {

using Place = std::vector<std::size_t>;

std::size_t product(const Place& dims) {
  std::size_t n = 1;
  for (const std::size_t size : dims) n *= size;
  return n;
}

/// Calls f(place) for all places, the innermost axis first.
template <typename F>
void for_each_place(const Place& dims, F f) {
  Place place(dims.size());
  for (std::size_t n = product(dims); n > 0; --n) {
    f(place);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++place[i] < dims[i]) break;
      place[i] = 0;
    }
  }
}

/// Elements of a result, each found by its place.
template <typename F>
Tensor make(const Place& dims, F element) {
  Tensor result(dims);
  std::size_t i = 0;
  for_each_place(dims, [&](const Place& place) { result.values[i++] = element(place); });
  return result;
}

}  // namespace

Tensor::Tensor(std::vector<std::size_t> sizes) : dims(std::move(sizes)), values(product(dims)) {}
Tensor::Tensor(std::vector<std::size_t> sizes, Values elements)
    : dims(std::move(sizes)), values(std::move(elements)) {}

std::size_t Tensor::at(const Place& place) const {
  std::size_t i = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) i = i * dims[axis] + place[axis];
  return i;
}

double unary(UnaryKind kind, double x) {
  switch (kind) {
    case UnaryKind::kNeg:
      return -x;
    case UnaryKind::kAbs:
      return std::fabs(x);
    case UnaryKind::kSquare:
      return x * x;
    case UnaryKind::kSqrt:
      return std::sqrt(x);
    case UnaryKind::kRsqrt:
      return 1.0 / std::sqrt(x);
    case UnaryKind::kReciprocal:
      return 1.0 / x;
    case UnaryKind::kExp:
      return std::exp(x);
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kSin:
      return std::sin(x);
    case UnaryKind::kCos:
      return std::cos(x);
    case UnaryKind::kTanh:
      return std::tanh(x);
    case UnaryKind::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case UnaryKind::kFloor:
      return std::floor(x);
    case UnaryKind::kCeil:
      return std::ceil(x);
    case UnaryKind::kRound:
      return std::nearbyint(x);
    case UnaryKind::kErf:
      return std::erf(x);
    case UnaryKind::kExpm1:
      return std::expm1(x);
    case UnaryKind::kLog1p:
      return std::log1p(x);
  }
  return x;
}

double binary(BinaryKind kind, double a, double b) {
  const bool is_nan = std::isnan(a) || std::isnan(b);
  switch (kind) {
    case BinaryKind::kAdd:
      return a + b;
    case BinaryKind::kSub:
      return a - b;
    case BinaryKind::kMul:
      return a * b;
    case BinaryKind::kDiv:
      return a / b;
    case BinaryKind::kMaximum:
      return is_nan ? a + b : std::max(a, b);
    case BinaryKind::kMinimum:
      return is_nan ? a + b : std::min(a, b);
    case BinaryKind::kPow:
      return std::pow(a, b);
  }
  return a;
}

bool compare(CompareKind kind, double a, double b) {
  switch (kind) {
    case CompareKind::kEqual:
      return a == b;
    case CompareKind::kNotEqual:
      return a != b;
    case CompareKind::kLess:
      return a < b;
    case CompareKind::kLessEqual:
      return a <= b;
    case CompareKind::kGreater:
      return a > b;
    case CompareKind::kGreaterEqual:
      return a >= b;
  }
  return false;
}

std::vector<std::size_t> broadcast_dims(const std::vector<Tensor>& tensors) {
  Place dims;
  for (const Tensor& tensor : tensors) {
    if (tensor.dims.size() > dims.size()) dims.insert(dims.begin(), tensor.dims.size() - dims.size(), 1);
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
      std::size_t& size = dims[dims.size() - 1 - i];
      if (size == 1) size = tensor.dims[tensor.dims.size() - 1 - i];
    }
  }
  return dims;
}

Tensor broadcast_to(const Tensor& x, const Place& dims) {
  return make(dims, [&](const Place& place) {
    Place from(place.end() - static_cast<std::ptrdiff_t>(x.dims.size()), place.end());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = x.dims[i] == 1 ? 0 : from[i];
    return x.values[x.at(from)];
  });
}

Tensor permute(const Tensor& x, const Place& axes) {
  Place dims;
  for (const std::size_t axis : axes) dims.push_back(x.dims[axis]);
  return make(dims, [&](const Place& place) {
    Place from(place.size());
    for (std::size_t i = 0; i < axes.size(); ++i) from[axes[i]] = place[i];
    return x.values[x.at(from)];
  });
}

Tensor slice(const Tensor& x, std::size_t axis, std::size_t begin, std::size_t end, std::size_t step) {
  Place dims = x.dims;
  dims[axis] = 0;
  for (std::size_t i = begin; i < end; i += step) ++dims[axis];
  return make(dims, [&](Place place) {
    place[axis] = begin + place[axis] * step;
    return x.values[x.at(place)];
  });
}

Tensor reduce(const ops::Reduce& op, const Tensor& x) {
  const auto is_reduced = [&](std::size_t axis) { return (op.axes >> axis & 1) != 0; };
  Place kept, over, dims;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    kept.push_back(is_reduced(i) ? 1 : x.dims[i]);
    over.push_back(is_reduced(i) ? x.dims[i] : 1);
    if (op.keep || !is_reduced(i)) dims.push_back(kept.back());
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor result = make(kept, [&](const Place& place) {
    double sum = 0.0, product = 1.0, most = -kInf, least = kInf, count = 0.0, best = 0.0;
    for_each_place(over, [&](const Place& other) {
      Place from = place;
      for (std::size_t i = 0; i < from.size(); ++i) from[i] += other[i];
      const double value = x.values[x.at(from)];
      sum += value;
      product *= value;
      if (value > most || (std::isnan(value) && !std::isnan(most))) best = count;
      if (!(value <= most)) most = std::isnan(most) ? most : value;
      if (!(value >= least)) least = std::isnan(least) ? least : value;
      count += 1.0;
    });
    switch (op.kind) {
      case ReduceKind::kSum:
        return sum;
      case ReduceKind::kMean:
        return sum / count;
      case ReduceKind::kMax:
        return most;
      case ReduceKind::kMin:
        return least;
      case ReduceKind::kArgmax:
        return best;
      case ReduceKind::kProd:
        return product;
    }
    return 0.0;
  });
  return {dims, result.values};
}

Tensor batch_matmul(const Tensor& a, const Tensor& b) {
  const auto matrices = [](const Tensor& x) {
    return Tensor(Place(x.dims.begin(), x.dims.end() - 2), Values());
  };
  Place dims = broadcast_dims({matrices(a), matrices(b)});
  Place a_dims = dims, b_dims = dims;
  a_dims.insert(a_dims.end(), a.dims.end() - 2, a.dims.end());
  b_dims.insert(b_dims.end(), b.dims.end() - 2, b.dims.end());
  const Tensor left = broadcast_to(a, a_dims), right = broadcast_to(b, b_dims);
  const std::size_t n_k = a.dims.back();
  dims.push_back(a_dims[a_dims.size() - 2]);
  dims.push_back(b_dims.back());
  return make(dims, [&](const Place& place) {
    Place from_left = place, from_right = place;
    double sum = 0.0;
    for (std::size_t k = 0; k < n_k; ++k) {
      from_left.back() = from_right[place.size() - 2] = k;
      sum += left.values[left.at(from_left)] * right.values[right.at(from_right)];
    }
    return sum;
  });
}

Tensor concat(const std::vector<Tensor>& parts, std::size_t axis) {
  Place dims = parts[0].dims;
  dims[axis] = 0;
  for (const Tensor& part : parts) dims[axis] += part.dims[axis];
  return make(dims, [&](Place place) {
    std::size_t part = 0;
    while (place[axis] >= parts[part].dims[axis]) place[axis] -= parts[part++].dims[axis];
    return parts[part].values[parts[part].at(place)];
  });
}

Tensor pad(const ops::Pad& op, const Tensor& x) {
  Place dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] += to_size(op.before[i] + op.after[i]);
  return make(dims, [&](Place place) {
    for (std::size_t i = 0; i < place.size(); ++i) {
      const auto before = to_size(op.before[i]);
      if (place[i] < before || place[i] >= before + x.dims[i]) return static_cast<double>(op.value);
      place[i] -= before;
    }
    return x.values[x.at(place)];
  });
}

}  // namespace weft::conformance
