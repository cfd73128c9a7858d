#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/to_size.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"
#include "weft/importance.h"

namespace weft {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr std::string_view kType = "imatrix";
constexpr std::string_view kDatasets = "imatrix.datasets";
constexpr std::string_view kChunkCount = "imatrix.chunk_count";
constexpr std::string_view kChunkSize = "imatrix.chunk_size";

[[noreturn]] void invalid(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::kInvalidFile, path.string() + ": " + problem);
}

void check(const std::filesystem::path& path, const ColumnSums& sums) {
  const auto is_sum = [](double value) { return value >= 0.0 && std::isfinite(value); };
  if (!std::all_of(sums.sums.begin(), sums.sums.end(), is_sum) ||
      !std::all_of(sums.counts.begin(), sums.counts.end(), is_sum))
    invalid(path, sums.tensor + " has a value that is not a sum of squares");
}

std::vector<double> numbers_of(const gguf::File& file, const gguf::TensorInfo& tensor) {
  std::vector<float> numbers(to_size(tensor.n_elements()));
  file.read(tensor.data, std::as_writable_bytes(std::span(numbers)));
  return {numbers.begin(), numbers.end()};
}

Importance read_gguf(const std::filesystem::path& path) {
  const gguf::File file = gguf::File::open(path);
  if (const auto type = file.get_string("general.type"); type != kType)
    invalid(path, "general.type is \"" + std::string(type.value_or("")) + "\", expected \"imatrix\"");
  Importance result;
  if (const auto* datasets = file.get_strings(kDatasets); datasets != nullptr)
    result.datasets.assign(datasets->begin(), datasets->end());
  result.n_chunks = std::max<std::int64_t>(file.get_int(kChunkCount).value_or(0), 0);
  result.chunk_size = static_cast<int>(std::clamp<std::int64_t>(
      file.get_int(kChunkSize).value_or(result.chunk_size), 1, std::numeric_limits<int>::max()));
  for (const gguf::TensorInfo& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - kSums.size());
    const gguf::TensorInfo* counts = file.find_tensor(name + std::string(kCounts));
    if (counts == nullptr || sums.dtype != DType::kF32 || counts->dtype != DType::kF32 ||
        counts->n_elements() == 0 || sums.n_elements() % counts->n_elements() != 0)
      invalid(path, sums.name + " and its counts do not belong together");
    result.tensors.push_back({name, numbers_of(file, *counts), numbers_of(file, sums)});
    check(path, result.tensors.back());
  }
  return result;
}

/// Little-endian. First the number of entries. Then each entry: the length of its name, the name, the number
/// of chunks, the number of values, and the values. They are means times the number of chunks. At the end the
/// number of chunks, and the length and name of the data set.
Importance read_older(const std::filesystem::path& path, int chunk_size) {
  const base::MappedFile file(path);
  std::span<const std::byte> left = file.bytes();
  const auto take = [&](std::size_t n) {
    if (left.size() < n) invalid(path, "ends in the middle");
    const auto part = left.first(n);
    left = left.subspan(n);
    return part;
  };
  const auto number = [&] {
    std::int32_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    if (value < 0) invalid(path, "is not an importance matrix");
    return value;
  };
  const auto text = [&] {
    const auto bytes = take(to_size(number()));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  Importance result;
  result.chunk_size = chunk_size;
  for (std::int32_t n = number(); n > 0; --n) {
    std::string name = text();
    const double rows = static_cast<double>(std::max(number(), 1)) * chunk_size;
    const auto n_values = to_size(number());
    const auto bytes = take(n_values * sizeof(float));
    std::vector<float> values(n_values);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    std::vector<double> sums(values.begin(), values.end());
    for (double& sum : sums) sum *= chunk_size;
    result.tensors.push_back({std::move(name), {rows}, std::move(sums)});
    check(path, result.tensors.back());
  }
  if (left.size() < 8) return result;
  result.n_chunks = number();
  result.datasets.push_back(text());
  return result;
}

std::vector<std::byte> to_older(const Importance& importance, std::span<const ColumnSums* const> tensors) {
  std::vector<std::byte> bytes;
  const auto put = [&](const void* data, std::size_t n) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + n);
  };
  const auto put_number = [&](double value) {
    const auto number = static_cast<std::int32_t>(
        std::min(value, static_cast<double>(std::numeric_limits<std::int32_t>::max())));
    put(&number, sizeof number);
    return number;
  };
  const auto put_text = [&](const std::string& text) {
    put_number(static_cast<double>(text.size()));
    put(text.data(), text.size());
  };
  put_number(static_cast<double>(tensors.size()));
  for (const ColumnSums* of : tensors) {
    put_text(of->tensor);
    const double most = *std::max_element(of->counts.begin(), of->counts.end());
    const std::int32_t n_chunks = put_number(std::max(std::ceil(most / importance.chunk_size), 1.0));
    put_number(static_cast<double>(of->sums.size()));
    const std::size_t n_columns = of->sums.size() / of->counts.size();
    for (std::size_t i = 0; i < of->sums.size(); ++i) {
      const double rows = of->counts[i / n_columns];
      // A matrix without rows: all columns are equal.
      const auto value = static_cast<float>((rows > 0.0 ? of->sums[i] / rows : 1.0) * n_chunks);
      put(&value, sizeof value);
    }
  }
  put_number(static_cast<double>(importance.n_chunks));
  put_text(importance.datasets.empty() ? std::string() : importance.datasets.back());
  return bytes;
}

/// One count for all of a tensor's matrices becomes one for each.
void spread_count(ColumnSums& of, std::size_t n_matrices) {
  if (of.counts.size() == 1) of.counts.assign(n_matrices, of.counts[0]);
}

}  // namespace

Importance read_importance(const std::filesystem::path& path, int older_chunk_size) {
  bool gguf = false;
  {
    const base::MappedFile file(path);
    gguf = file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0;
  }
  Importance result = gguf ? read_gguf(path) : read_older(path, std::max(older_chunk_size, 1));
  if (result.tensors.empty())
    invalid(path, "has no importances; expected a file of weft imatrix, or of llama.cpp's llama-imatrix");
  return result;
}

void write_importance(const std::filesystem::path& path, const Importance& importance, ImportanceForm form) {
  std::vector<const ColumnSums*> tensors;
  for (const ColumnSums& of : importance.tensors)
    if (std::any_of(of.counts.begin(), of.counts.end(), [](double rows) { return rows > 0.0; }))
      tensors.push_back(&of);
  if (tensors.empty())
    throw Error(ErrorCode::kInvalidArgument, "the importance matrix is empty: the model read no tokens");
  for (const ColumnSums* of : tensors)
    if (!std::all_of(of->sums.begin(), of->sums.end(), [](auto sum) { return std::isfinite(sum); }))
      throw Error(
          ErrorCode::kInvalidArgument,
          of->tensor + " had inputs that are infinite or not numbers; the model's file may be damaged");
  std::sort(tensors.begin(), tensors.end(),
            [](const ColumnSums* a, const ColumnSums* b) { return a->tensor < b->tensor; });
  if (form == ImportanceForm::kOlder) {
    base::AtomicFile file(path);
    file.write(to_older(importance, tensors));
    file.commit();
    return;
  }
  gguf::Writer writer;
  writer.set("general.type", kType);
  writer.set_array(kDatasets, importance.datasets);
  writer.set(kChunkCount, static_cast<std::uint32_t>(importance.n_chunks));
  writer.set(kChunkSize, static_cast<std::uint32_t>(importance.chunk_size));
  for (const ColumnSums* of : tensors) {
    const auto n_matrices = static_cast<std::int64_t>(of->counts.size());
    const auto n_columns = static_cast<std::int64_t>(of->sums.size()) / n_matrices;
    const auto add = [&](std::string_view suffix, std::int64_t columns, const std::vector<double>& numbers) {
      writer.add_tensor(of->tensor + std::string(suffix), DType::kF32, {n_matrices, columns},
                        [&numbers](std::span<std::byte> out) {
                          const std::vector<float> floats(numbers.begin(), numbers.end());
                          std::memcpy(out.data(), floats.data(), out.size());
                        });
    };
    add(kSums, n_columns, of->sums);
    add(kCounts, 1, of->counts);
  }
  writer.write_file(path);
}

void merge_importance(Importance& to, const Importance& more) {
  std::map<std::string, std::size_t, std::less<>> places;
  for (std::size_t i = 0; i < to.tensors.size(); ++i) places.emplace(to.tensors[i].tensor, i);
  for (const ColumnSums& of : more.tensors) {
    const auto found = places.find(of.tensor);
    if (found == places.end()) continue;
    const ColumnSums& own = to.tensors[found->second];
    const bool same_counts =
        own.counts.size() == of.counts.size() || own.counts.size() == 1 || of.counts.size() == 1;
    if (own.sums.size() != of.sums.size() || !same_counts)
      throw Error(ErrorCode::kInvalidArgument, of.tensor + " has " + std::to_string(own.sums.size()) +
                                                   " columns in one importance matrix "
                                                   "and " +
                                                   std::to_string(of.sums.size()) +
                                                   " in another; they are of different models");
  }
  for (ColumnSums of : more.tensors) {
    const auto found = places.find(of.tensor);
    if (found == places.end()) {
      to.tensors.push_back(std::move(of));
      continue;
    }
    ColumnSums& own = to.tensors[found->second];
    spread_count(own, of.counts.size());
    spread_count(of, own.counts.size());
    for (std::size_t i = 0; i < own.sums.size(); ++i) own.sums[i] += of.sums[i];
    for (std::size_t i = 0; i < own.counts.size(); ++i) own.counts[i] += of.counts[i];
  }
  to.datasets.insert(to.datasets.end(), more.datasets.begin(), more.datasets.end());
  to.n_chunks += more.n_chunks;
}

}  // namespace weft
