// Attention of every instruction set compared with plain sums in double, and with itself. A row's bits must
// not depend on its tile, nor on the contents of cells that it does not see.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>

#include "backend/cpu/layout/cache_layout.h"
#include "backend_cpu/float_testing.h"
#include "tensor/codec.h"

namespace weft::cpu {
namespace {

struct AttentionShape {
  int n_heads = 6;
  int n_kv_heads = 2;
  int k_dim = 64;
  int v_dim = 64;
  DType k_type = DType::kF32;
  DType v_type = DType::kF32;
  float softcap = 0.0f;
  int window = 0;
  bool causal = true;
  double hidden = 0.0;     ///< Share of the cells that a row does not see, in two rows of three
  int first_position = 0;  ///< Of row 0; rows have consecutive positions.
  int n_rows = 1;
  int n_positions = 64;  ///< Cells that exist: positions 0 .. n_positions - 1
  double gaps = 0.0;     ///< Share of these that may not be attended to
  std::uint64_t seed = 1;
};

constexpr DType kCacheTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,  DType::kQ4_0,
                                 DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL};

std::string text(const AttentionShape& s) {
  return "heads " + std::to_string(s.n_heads) + "/" + std::to_string(s.n_kv_heads) + " dims " +
         std::to_string(s.k_dim) + "/" + std::to_string(s.v_dim) + " types " +
         std::to_string(static_cast<int>(s.k_type)) + "/" + std::to_string(static_cast<int>(s.v_type)) +
         " cap " + std::to_string(s.softcap) + " window " + std::to_string(s.window) + " causal " +
         std::to_string(s.causal) + " rows " + std::to_string(s.n_rows) + " from " +
         std::to_string(s.first_position) + " of " + std::to_string(s.n_positions) + " gaps " +
         std::to_string(s.gaps) + " hidden " + std::to_string(s.hidden) + " seed " + std::to_string(s.seed);
}

struct AlignedFree {
  void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
};

/// A sequence in a cache whose every other byte is 0xff (NaN in all types of floats and of scales), and
/// queries.
class World {
 public:
  World(const AttentionShape& shape, const Kernels& kernels) : s(shape), k_(kernels) {
    std::mt19937_64 random(s.seed);
    args.layout = {s.k_type, s.v_type, s.n_kv_heads, s.k_dim, s.v_dim};
    args.n_heads = s.n_heads;
    args.scale = 1.0f / std::sqrt(static_cast<float>(s.k_dim));
    args.softcap = s.softcap;
    args.window = s.window;

    n_pages = (s.n_positions + kPageCells - 1) / kPageCells;
    const int pool = n_pages + 2;
    k_cache.assign(k_page_bytes(args.layout) * static_cast<std::size_t>(pool), std::byte{0xff});
    v_cache.assign(v_page_bytes(args.layout) * static_cast<std::size_t>(pool), std::byte{0xff});
    pages.resize(static_cast<std::size_t>(pool));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    pages.resize(static_cast<std::size_t>(n_pages));
    masks.assign(pages.size(), 0);

    k = random_floats(static_cast<std::size_t>(s.n_positions * s.n_kv_heads * s.k_dim), s.seed + 1);
    v = random_floats(static_cast<std::size_t>(s.n_positions * s.n_kv_heads * s.v_dim), s.seed + 2);
    // The cache gets the values before rounding: the scales of IQ4_NL are searched anew for rounded ones.
    k_given = k;
    v_given = v;
    round_to(s.k_type, k);
    round_to(s.v_type, v);
    std::bernoulli_distribution gap(s.gaps);
    for (int p = 0; p < s.n_positions; ++p) {
      if (gap(random)) continue;
      masks[static_cast<std::size_t>(p / kPageCells)] |= std::uint64_t{1} << (p % kPageCells);
      write(p);
    }
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (masks[i] == 0) pages[i] = -1;
    }

    q = random_floats(static_cast<std::size_t>(s.n_rows * (s.n_heads * s.k_dim + 5)), s.seed + 3, 2.0f);
    args.q = q.data();
    args.q_stride = s.n_heads * s.k_dim + 5;
    args.out_stride = s.n_heads * s.v_dim + 3;
    args.k_cache = k_cache.data();
    args.v_cache = v_cache.data();
    positions.resize(static_cast<std::size_t>(s.n_rows));
    std::iota(positions.begin(), positions.end(), s.first_position);
    args.positions = positions.data();
    // Some rows do not see some cells; the others' lists are empty.
    std::bernoulli_distribution is_hidden(s.hidden);
    hidden_first.assign(positions.size(), -1);
    for (int row = 0; row < s.n_rows; ++row) {
      ends.push_back(s.causal ? s.first_position + row + 1 : s.n_positions);
      for (std::size_t p = 0; p < pages.size() && s.hidden > 0.0; ++p) {
        HiddenCells entry{row, pages[p], 0};
        for (int lane = 0; lane < kPageCells; ++lane)
          if (is_hidden(random)) entry.mask |= std::uint64_t{1} << lane;
        if (entry.page < 0 || entry.mask == 0 || row % 3 == 1) continue;
        if (hidden_first[static_cast<std::size_t>(row)] < 0)
          hidden_first[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(hidden.size());
        hidden.push_back(entry);
      }
    }
    hidden.emplace_back();
    args.ends = ends.data();
    args.hidden_first = hidden_first.data();
    args.hidden = hidden.data();
    scratch_bytes = attention_scratch_bytes(args);
    scratch.reset(static_cast<std::byte*>(::operator new(scratch_bytes, std::align_val_t{64})));
  }

  /// What remains of values in a cache of that type.
  static void round_to(DType type, std::vector<float>& values) {
    if (type == DType::kF32) return;
    std::vector<std::byte> packed(row_bytes(type, static_cast<std::int64_t>(values.size())));
    pack_row(type, values, packed.data());
    unpack_row(type, packed.data(), values);
  }

  void write(int position) {
    const std::int64_t cell =
        std::int64_t{pages[static_cast<std::size_t>(position / kPageCells)]} * kPageCells +
        position % kPageCells;
    k_.store_k(args.layout, k_given.data() + position * s.n_kv_heads * s.k_dim, cell, k_cache.data());
    k_.store_v(args.layout, v_given.data() + position * s.n_kv_heads * s.v_dim, cell, v_cache.data());
  }

  /// Attention with the rows cut into tiles of these sizes (the last repeats).
  std::vector<float> run(std::vector<int> tile_rows) {
    std::vector<Extent> extents;
    for (std::size_t p = 0; p < pages.size(); ++p)
      extents.push_back(
          {.mask = masks[p], .page = pages[p], .base = static_cast<std::int32_t>(p) * kPageCells});
    return run_extents(extents, std::move(tile_rows));
  }
  std::vector<float> run_extents(const std::vector<Extent>& extents, std::vector<int> tile_rows = {1}) {
    std::vector<float> out(static_cast<std::size_t>(s.n_rows * args.out_stride), 777.0f);
    args.out = out.data();
    std::size_t i = 0;
    for (int row = 0; row < s.n_rows;) {
      std::vector<std::int32_t> rows(
          static_cast<std::size_t>(std::min(tile_rows[std::min(i++, tile_rows.size() - 1)], s.n_rows - row)));
      std::iota(rows.begin(), rows.end(), row);
      const int n_rows = static_cast<int>(rows.size());
      const AttentionSegment segment{0, n_rows, extents.data(), static_cast<int>(extents.size())};
      const AttentionTile tile{rows.data(), n_rows, &segment, 1, 0};
      for (int head = 0; head < s.n_kv_heads; ++head) {
        attend(tile, head);
      }
      row += n_rows;
    }
    for (int row = 0; row < s.n_rows; ++row) {
      for (std::int64_t j = s.n_heads * s.v_dim; j < args.out_stride; ++j) {
        EXPECT_EQ(out[static_cast<std::size_t>(row * args.out_stride + j)], 777.0f) << "wrote behind a row";
      }
    }
    return out;
  }

  /// One call, and the same by parts of the pages, last part first, which must give the same bits.
  void attend(const AttentionTile& tile, int head) {
    std::memset(scratch.get(), 0xff, scratch_bytes);  // Nothing may be taken over from the call before.
    k_.attention(args, tile, head, scratch.get());

    const std::vector<float> whole(args.out, args.out + s.n_rows * args.out_stride);
    const std::int64_t n = attention_pages(tile);
    const std::size_t floats = attention_partial_floats(args, tile.n_rows) * static_cast<std::size_t>(n);
    const std::unique_ptr<std::byte[], AlignedFree> partials(
        static_cast<std::byte*>(::operator new(floats * sizeof(float) + 64, std::align_val_t{64})));
    auto* const p = reinterpret_cast<float*>(partials.get());
    std::memset(partials.get(), 0xff, floats * sizeof(float));
    for (int part = 2; part >= 0; --part) {
      std::memset(scratch.get(), 0xff, scratch_bytes);
      k_.attention_partials(args, tile, head, {n * part / 3, n * (part + 1) / 3}, p, scratch.get());
    }
    std::memset(scratch.get(), 0xff, scratch_bytes);
    k_.attention_merge(args, tile, head, p, scratch.get());
    EXPECT_EQ(std::memcmp(whole.data(), args.out, whole.size() * sizeof(float)), 0)
        << "by parts, " << text(s);
  }

  bool sees(int row, int p) const {
    const int position = positions[static_cast<std::size_t>(row)];
    if (((masks[static_cast<std::size_t>(p / kPageCells)] >> (p % kPageCells)) & 1) == 0) return false;
    if (s.causal && p > position) return false;
    for (const HiddenCells& entry : hidden)
      if (entry.row == row && entry.page == pages[static_cast<std::size_t>(p / kPageCells)] &&
          ((entry.mask >> (p % kPageCells)) & 1) != 0)
        return false;
    return s.window == 0 || p > position - s.window;
  }

  std::vector<double> reference() const {
    std::vector<double> out(static_cast<std::size_t>(s.n_rows * args.out_stride), 777.0);
    const int group = s.n_heads / s.n_kv_heads;
    for (int row = 0; row < s.n_rows; ++row) {
      for (int head = 0; head < s.n_heads; ++head) {
        const float* query = q.data() + row * args.q_stride + head * s.k_dim;
        std::vector<double> sum(static_cast<std::size_t>(s.v_dim), 0.0);
        std::vector<double> scores;
        double top = -std::numeric_limits<double>::infinity();
        for (int p = 0; p < s.n_positions; ++p) {
          double score = 0.0;
          const float* key = k.data() + (p * s.n_kv_heads + head / group) * s.k_dim;
          for (int d = 0; d < s.k_dim; ++d) score += double{query[d]} * double{key[d]};
          score *= double{args.scale};
          if (s.softcap > 0.0f) score = double{s.softcap} * std::tanh(score / double{s.softcap});
          scores.push_back(score);
          if (sees(row, p)) top = std::max(top, score);
        }
        double total = 0.0;
        for (int p = 0; p < s.n_positions; ++p) {
          if (!sees(row, p)) continue;
          const double weight = std::exp(scores[static_cast<std::size_t>(p)] - top);
          total += weight;
          const float* value = v.data() + (p * s.n_kv_heads + head / group) * s.v_dim;
          for (int d = 0; d < s.v_dim; ++d) sum[static_cast<std::size_t>(d)] += weight * double{value[d]};
        }
        for (int d = 0; d < s.v_dim; ++d) {
          out[static_cast<std::size_t>(row * args.out_stride + head * s.v_dim + d)] =
              total == 0.0 ? 0.0 : sum[static_cast<std::size_t>(d)] / total;
        }
      }
    }
    // What lies between rows is compared apart.
    for (int row = 0; row < s.n_rows; ++row) {
      for (std::int64_t j = s.n_heads * s.v_dim; j < args.out_stride; ++j) {
        out[static_cast<std::size_t>(row * args.out_stride + j)] = 0.0;
      }
    }
    return out;
  }

  double error(std::vector<float> out) const {
    for (int row = 0; row < s.n_rows; ++row) {
      for (std::int64_t j = s.n_heads * s.v_dim; j < args.out_stride; ++j) {
        out[static_cast<std::size_t>(row * args.out_stride + j)] = 0.0f;
      }
    }
    return nmse(out, reference());
  }

  AttentionShape s;
  AttentionArgs args;
  int n_pages = 0;
  std::size_t scratch_bytes = 0;
  std::unique_ptr<std::byte[], AlignedFree> scratch;
  std::vector<std::byte> k_cache;
  std::vector<std::byte> v_cache;
  std::vector<std::int32_t> pages;
  std::vector<std::uint64_t> masks;
  std::vector<std::int32_t> positions, ends, hidden_first;
  std::vector<HiddenCells> hidden;
  std::vector<float> q, k, v;           ///< Keys and values as the cache rounds them.
  std::vector<float> k_given, v_given;  ///< Before rounding.

 private:
  const Kernels& k_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Attention : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& k_ = kernels(GetParam());

  /// Right, and the same bits however the rows are cut.
  void check(const AttentionShape& shape) {
    World world(shape, k_);
    const std::vector<float> out = world.run({kAttentionRows});
    // Queries, and weights of cells, are rounded to what multiplies bfloat16.
    const bool rounded = shape.k_type == DType::kBF16 || shape.v_type == DType::kBF16;
    EXPECT_LE(world.error(out), rounded ? 1e-4 : 2e-12) << text(shape);
    if (shape.n_rows == 1) return;
    EXPECT_TRUE(same_bits(world.run({1}), out)) << "alone: " << text(shape);
    EXPECT_TRUE(same_bits(world.run({3, 1, 7, 2, 5}), out)) << "in odd tiles: " << text(shape);
  }
};

AttentionShape random_shape(std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<int> list) { return list.begin()[random() % list.size()]; };
  AttentionShape s;
  s.n_kv_heads = one_of({1, 2, 3});
  s.n_heads = s.n_kv_heads * one_of({1, 2, 3, 4, 5, 7, 8, 13});
  s.k_dim = one_of({16, 20, 32, 40, 64, 80, 96, 100});
  s.v_dim = random() % 3 == 0 ? one_of({16, 24, 33, 64, 80}) : s.k_dim;
  // Quantised types, those after the first three, take whole blocks.
  const auto type_for = [&](int dim) {
    return kCacheTypes[random() % (dim % 32 == 0 ? std::size(kCacheTypes) : 3)];
  };
  s.k_type = type_for(s.k_dim);
  s.v_type = type_for(s.v_dim);
  s.softcap = random() % 3 == 0 ? 5.0f : 0.0f;
  s.n_positions = 1 + static_cast<int>(random() % 400);
  s.n_rows = std::min(s.n_positions, static_cast<int>(1 + random() % 40));
  s.first_position = s.n_positions - s.n_rows -
                     static_cast<int>(random() % 2) *
                         static_cast<int>(random() % static_cast<unsigned>(s.n_positions - s.n_rows + 1));
  s.window = random() % 3 == 0 ? one_of({1, 5, 64, 100}) : 0;
  s.causal = random() % 4 != 0;
  s.gaps = random() % 2 == 0 ? 0.0 : one_of({10, 50, 97}) / 100.0;
  s.hidden = random() % 3 == 0 ? one_of({3, 50}) / 100.0 : 0.0;
  s.seed = random();
  return s;
}

TEST_P(Attention, RandomShapes) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 120; ++i) check(random_shape(random));
}

TEST_P(Attention, UsualShapes) {
  for (const DType type : kCacheTypes) {
    for (const int first : {0, 40, 100, 256}) {
      for (const int rows : {1, 4, 32}) {
        AttentionShape s;  // SmolLM2
        s.n_heads = 9;
        s.n_kv_heads = 3;
        s.k_type = s.v_type = type;
        s.first_position = first;
        s.n_rows = rows;
        s.n_positions = first + rows;
        check(s);
      }
    }
    AttentionShape s;  // Gemma: large heads, all on one KV head, window
    s.n_heads = 4;
    s.n_kv_heads = 1;
    s.k_dim = s.v_dim = 256;
    s.k_type = s.v_type = type;
    s.window = 128;
    s.first_position = 200;
    s.n_rows = 32;
    s.n_positions = 232;
    check(s);
    s.n_heads = 40;  // More query rows than a block many times over
    s.k_dim = s.v_dim = 32;
    s.window = 0;
    check(s);
  }
}

TEST_P(Attention, QuantisedCachesOfAllGroupsHeadsAndLengths) {
  for (const DType type : kCacheTypes) {
    if (!is_quantised_cache(type)) continue;
    for (const int dim : {64, 96, 128, 256}) {
      for (const int group : {1, 3, 8}) {
        for (const int length : {1, 63, 65, 131}) {
          AttentionShape s;
          s.n_heads = group;
          s.n_kv_heads = 1;
          s.k_dim = s.v_dim = dim;
          s.k_type = s.v_type = type;
          s.n_rows = std::min(length, 4);
          s.first_position = length - s.n_rows;
          s.n_positions = length;
          check(s);
        }
      }
    }
  }
}

TEST_P(Attention, QuantisedValuesAreThoseOfTheCodec) {
  // With one visible cell, the output is its value.
  for (const DType type : kCacheTypes) {
    if (!is_quantised_cache(type)) continue;
    for (const int position : {0, 37}) {
      AttentionShape s;
      s.n_heads = s.n_kv_heads = 2;
      s.v_dim = 96;
      s.k_type = s.v_type = type;
      s.first_position = position;
      s.n_positions = 64;
      s.window = 1;
      World world(s, k_);
      const std::vector<float> out = world.run({1});
      const auto values = world.v.begin() + position * s.n_kv_heads * s.v_dim;
      EXPECT_TRUE(std::equal(values, values + s.n_kv_heads * s.v_dim, out.begin())) << text(s);
    }
  }
}

TEST_P(Attention, RotatedQueriesKeysAndValuesGiveTheRotatedResult) {
  AttentionShape s;
  s.n_heads = 9;
  s.n_kv_heads = 3;
  s.k_dim = 64;
  s.v_dim = 96;
  s.first_position = 120;
  s.n_rows = 10;
  s.n_positions = 130;
  World plain(s, k_), rotated(s, k_);
  const auto rotate = [&](float* x, int n, int block) { k_.hadamard_row(x, n, block, x); };
  for (int row = 0; row < s.n_rows; ++row)
    rotate(rotated.q.data() + row * rotated.args.q_stride, s.n_heads * s.k_dim, 64);
  rotate(rotated.k_given.data(), static_cast<int>(rotated.k_given.size()), 64);
  rotate(rotated.v_given.data(), static_cast<int>(rotated.v_given.size()), 32);
  for (int p = 0; p < s.n_positions; ++p) rotated.write(p);
  std::vector<float> out = rotated.run({4});
  for (int row = 0; row < s.n_rows; ++row)
    rotate(out.data() + row * rotated.args.out_stride, s.n_heads * s.v_dim, 32);
  EXPECT_LE(plain.error(out), 2e-12);
}

TEST_P(Attention, ShortHeads) {
  for (const int dim : {1, 2, 3, 5, 8, 14, 15, 17, 18}) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (is_paired_cache(type) && dim % 2 != 0) continue;
      AttentionShape s;
      s.k_dim = s.v_dim = dim;
      s.k_type = s.v_type = type;
      s.first_position = 60;
      s.n_rows = 9;
      s.n_positions = 69;
      check(s);
    }
  }
}

TEST_P(Attention, NothingVisibleGivesZeros) {
  AttentionShape s;
  s.n_positions = 128;
  s.n_rows = 4;
  World world(s, k_);
  world.masks = {0, ~std::uint64_t{0}};  // Page 1 begins after all rows' positions.
  world.pages[0] = -1;
  const std::vector<float> out = world.run({4});
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < s.n_heads * s.v_dim; ++i) {
      ASSERT_EQ(out[static_cast<std::size_t>(row * world.args.out_stride + i)], 0.0f);
    }
  }
}

TEST_P(Attention, HiddenCellsDoNotAffectARow) {
  // The last rows' own keys and values are not numbers: earlier rows of the same tile must not change.
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const float poison : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      AttentionShape s;
      s.k_type = s.v_type = type;
      s.first_position = 70;
      s.n_rows = 20;
      s.n_positions = 90;
      World clean(s, k_);
      const std::vector<float> want = clean.run({32});
      World world(s, k_);
      for (const int position : {80, 83}) {
        std::fill_n(world.v_given.begin() + position * s.n_kv_heads * s.v_dim, s.n_kv_heads * s.v_dim,
                    poison);
        world.v_given[static_cast<std::size_t>(position * s.n_kv_heads * s.v_dim)] = 1.0f;
        std::fill_n(world.k_given.begin() + position * s.n_kv_heads * s.k_dim, s.n_kv_heads * s.k_dim,
                    position == 80 ? 0.5f : poison);
        world.write(position);
      }
      const std::vector<float> out = world.run({32});
      const std::size_t row = static_cast<std::size_t>(world.args.out_stride);
      EXPECT_EQ(std::memcmp(out.data(), want.data(), 10 * row * sizeof(float)), 0);
      for (std::size_t r = 10; r < 20; ++r) {
        EXPECT_FALSE(std::isfinite(out[r * row + 1])) << "row " << r << " sees the poison";
      }
      const std::vector<float> alone = world.run({1});
      EXPECT_EQ(std::memcmp(alone.data(), out.data(), 10 * row * sizeof(float)), 0);
    }
  }
}

TEST_P(Attention, PagesThatARowDoesNotSeeLeaveItsBits) {
  // The same row with fully masked or causally invisible pages after and between.
  AttentionShape s;
  s.first_position = 63;
  s.n_rows = 1;
  s.n_positions = 64;
  World world(s, k_);
  const std::vector<float> want = world.run({1});
  world.pages.push_back(world.pages[0]);
  world.masks.push_back(~std::uint64_t{0});
  EXPECT_TRUE(same_bits(world.run({1}), want));
}

TEST_P(Attention, SharedPagesReadOnceGiveTheSameBits) {
  // Four sequences with a common prefix that diverge at different positions, each row in its own tile and all
  // in one.
  for (const DType type : kCacheTypes) {
    AttentionShape s;
    s.k_type = s.v_type = type;
    s.n_positions = 300;
    s.first_position = 250;
    s.n_rows = 12;
    World world(s, k_);
    std::vector<std::vector<Extent>> texts(4);
    for (int t = 0; t < 4; ++t) {
      for (int p = 0; p <= 4; ++p) {
        // The last page is another one for each; the one before it is shared with another mask.
        texts[static_cast<std::size_t>(t)].push_back(
            {.mask = ~std::uint64_t{0},
             .page = world.pages[static_cast<std::size_t>(p < 4 ? p : t)],
             .base = p * kPageCells});
      }
      texts[static_cast<std::size_t>(t)][3].mask >>= 7 * t;
    }
    const auto compute = [&](int first_text, int end_text, int n_shared, std::vector<float>& out) {
      std::vector<std::int32_t> rows;
      std::vector<AttentionSegment> segments;
      for (int t = first_text; t < end_text; ++t) {
        const auto& text = texts[static_cast<std::size_t>(t)];
        segments.push_back({static_cast<int>(rows.size()), 3, text.data(), static_cast<int>(text.size())});
        for (int r = 0; r < 3; ++r) rows.push_back(t + 4 * r);
      }
      world.args.out = out.data();
      const AttentionTile tile{rows.data(), static_cast<int>(rows.size()), segments.data(),
                               static_cast<int>(segments.size()), n_shared};
      for (int head = 0; head < s.n_kv_heads; ++head) world.attend(tile, head);
    };
    std::vector<float> apart(static_cast<std::size_t>(s.n_rows * world.args.out_stride), 777.0f),
        together = apart;
    for (int t = 0; t < 4; ++t) compute(t, t + 1, 0, apart);
    for (const int n_shared : {4, 2, 0}) {
      compute(0, 4, n_shared, together);
      EXPECT_TRUE(same_bits(together, apart)) << n_shared;
    }
  }
}

TEST_P(Attention, DividedPositionsAreSeenUpToTheirOwn) {
  // Four tokens at each position: a row at position p sees all tokens at positions up to p.
  AttentionShape s;
  s.n_rows = 1;
  s.n_positions = 64;
  s.first_position = 9;
  World world(s, k_);
  const Extent divided{
      .mask = ~std::uint64_t{0}, .page = world.pages[0], .base = 5, .divisor = 4, .offset = 2};
  const Extent plain{.mask = (std::uint64_t{1} << (4 * (9 - 5 + 1) - 2)) - 1, .page = world.pages[0]};
  world.ends[0] = 64;
  const std::vector<float> want = world.run_extents({plain});
  world.ends[0] = 10;
  EXPECT_TRUE(same_bits(world.run_extents({divided}), want));
}

TEST_P(Attention, LargeScores) {
  // Scores of hundreds: one page's weights vanish next to another's.
  AttentionShape s;
  s.first_position = 299;
  s.n_rows = 1;
  s.n_positions = 300;
  World world(s, k_);
  world.args.scale = 20.0f;
  EXPECT_LE(world.error(world.run({1})), 1e-9);  // Scores near 1,000 are right to 1e-4 only.
}

TEST_P(Attention, StoresAreRoundedLikeTheCodec) {
  // Halves read back through attention with one visible cell: its value, exactly.
  AttentionShape s;
  s.n_heads = s.n_kv_heads = 1;
  s.k_type = s.v_type = DType::kF16;
  World world(s, k_);
  const float values[] = {0.0f,  1.0f,    65504.0f, 65519.0f, 1e-8f,  5.9e-8f,    6.1e-5f,
                          -1.0f, 0.3333f, 2049.0f,  2051.0f,  -3e-5f, 6.0975e-5f, 1024.5f};
  for (std::size_t i = 0; i < std::size(values); ++i) world.v_given[i] = values[i];
  world.write(0);
  const std::vector<float> out = world.run({1});
  for (std::size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(out[i], f16_to_f32(f32_to_f16(values[i]))) << values[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Attention, testing::ValuesIn(supported_isas()), isa_name);

}  // namespace
}  // namespace weft::cpu
