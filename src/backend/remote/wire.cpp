#include "backend/remote/wire.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "weft/error.h"

namespace weft::remote {
namespace {

constexpr std::size_t kRoom = 64;

/// The op of place `place` in the table, with its defaults.
template <std::size_t... kPlaces>
Op default_op(std::size_t place, std::index_sequence<kPlaces...>) {
  using Make = Op (*)();
  static constexpr Make kMake[] = {[] { return Op(std::in_place_index<kPlaces>); }...};
  return kMake[place]();
}

}  // namespace

Writer& Writer::raw(std::span<const std::byte> bytes) {
  // There is room for bytes after the last large part.
  if (const std::size_t n = message_.size() + bytes.size(); n > message_.capacity())
    message_.reserve(std::max(2 * message_.size(), n + kRoom));
  message_.insert(message_.end(), bytes.begin(), bytes.end());
  return *this;
}

Writer& Writer::put(const Dim& dim) {
  std::vector<std::int64_t> code;
  dim.encode(code);
  return put(code);
}

Writer& Writer::put(const Shape& shape) {
  put(std::int32_t{shape.rank()});
  for (int i = 0; i < shape.rank(); ++i) put(shape[i]);
  return *this;
}

Writer& Writer::put(const Graph& graph) {
  put(std::uint64_t{graph.symbols().size()});
  for (const Symbol& symbol : graph.symbols()) put(symbol.name).put(symbol.min).put(symbol.max);
  put(std::uint64_t{graph.values().size()});
  for (const ValueInfo& value : graph.values()) {
    const Node* const node = value.kind == ValueKind::kResult ? &graph.node(value.producer) : nullptr;
    if (node == nullptr || get_op<ops::Custom>(*node) != nullptr) {
      put(value.name).put(node == nullptr ? value.kind : ValueKind::kInput).put(value.dtype).put(value.shape);
      continue;
    }
    put(value.name).put(value.kind).put(std::uint64_t{node->op.index()});
    std::visit(
        [&](const auto& op) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(op)>, ops::Custom>) put(op);
        },
        node->op);
    put(node->inputs).put(node->tag);
  }
  return put(graph.outputs());
}

std::span<const std::byte> Reader::raw(std::uint64_t n) {
  if (n > rest_.size()) refuse();
  const auto bytes = rest_.first(n);
  rest_ = rest_.subspan(n);
  return bytes;
}

std::string Reader::text() {
  const auto bytes = raw(get<std::uint64_t>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Reader::take(Dim& dim) {
  const auto code = list<std::int64_t>();
  std::span<const std::int64_t> rest = code;
  dim = Dim::decode(rest);
}

void Reader::take(Shape& shape) {
  const auto rank = get<std::int32_t>();
  std::vector<Dim> dims;
  for (std::int32_t i = 0; i < rank; ++i) dims.push_back(get<Dim>());
  shape = Shape(std::span<const Dim>(dims));
}

void Reader::take(ops::Custom& /*op*/) { refuse(); }  // None is ever sent.

Graph Reader::graph() {
  Graph graph;
  for (auto n = get<std::uint64_t>(); n > 0; --n) {
    std::string name = text();
    const auto min = get<std::int64_t>();
    graph.add_symbol(std::move(name), min, get<std::int64_t>());
  }
  for (auto n = get<std::uint64_t>(); n > 0; --n) {
    std::string name = text();
    const auto kind = get<ValueKind>();
    if (kind != ValueKind::kResult) {
      const auto dtype = get<DType>();
      auto shape = get<Shape>();
      if (kind == ValueKind::kInput) graph.add_input(std::move(name), dtype, std::move(shape));
      if (kind == ValueKind::kWeight) graph.add_weight(std::move(name), dtype, std::move(shape));
      if (kind == ValueKind::kState) graph.add_state(std::move(name), dtype, std::move(shape));
      continue;
    }
    const auto place = get<std::uint64_t>();
    if (place >= std::variant_size_v<Op>) refuse();
    Op op = default_op(place, std::make_index_sequence<std::variant_size_v<Op>>());
    std::visit([&](auto& as) { take(as); }, op);
    const auto inputs = list<ValueId>();
    graph.add(std::move(op), inputs, std::move(name), get<NodeTag>());
  }
  for (const ValueId output : list<ValueId>()) graph.add_output(output);
  return graph;
}

void Reader::refuse() { throw Error(ErrorCode::kDevice, "a message of another process is malformed"); }

}  // namespace weft::remote
