#pragma once
// GPT-2 as a graph of one's own, from the folder that transformers saves.
#include <weft/graph.h>
#include <weft/plan.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gpt2 {

using Token = std::int32_t;
/// The bytes of each weight of a graph, by its name.
using WeightBytes = std::map<std::string, std::vector<std::byte>>;

/// The checked config.json. Throws weft::Error if it differs from the published GPT-2.
struct Config {
  explicit Config(const std::filesystem::path& file);
  int n_layers = 0, n_heads = 0, width = 0, n_inner = 0, n_positions = 0, n_vocab = 0;
  float eps = 0.0f;
  Token end = -1;  ///< Ends a sequence. -1: none does.
};

struct DecoderParams {
  weft::DType matrices = weft::DType::kF32;  ///< F32, F16 or Q8_0.
  int n_sequences = 1;
  int n_cells = 1024;  ///< Tokens of a sequence; at most the model's positions.
  int max_rows = 512;  ///< Tokens of a step.
  int max_wanted = 1;  ///< Tokens of a step with logits.
  std::vector<std::string> devices = {"cpu"};
  std::vector<weft::Pin> pins = {};
  int n_threads = 0;
};

/// Several growing sequences. One thread at a time.
class Decoder {
 public:
  /// Reads config.json and model.safetensors. Throws weft::Error.
  Decoder(const std::filesystem::path& folder, const DecoderParams& params);

  /// The next token of a sequence, and whether its logits are wanted.
  struct Row {
    Token token = 0;
    int sequence = 0;
    bool wanted = false;
  };
  /// One step of at most max_rows tokens, of any sequences; tokens of one sequence are in order. At least one
  /// row must be wanted. Returns the logits of the wanted rows, n_vocab each, valid until the next step.
  /// Throws weft::Error kInvalidArgument for invalid rows; the sequences are then unchanged.
  std::span<const float> step(std::span<const Row> rows);

  const Config& config() const { return config_; }
  int n_cells() const { return params_.n_cells; }
  const weft::Plan& plan() const { return plan_; }

 private:
  void check(std::span<const Row> rows) const;

  Config config_;
  DecoderParams params_;
  WeightBytes weights_;
  weft::Plan plan_;
  std::vector<std::int32_t> lengths_;  // Of each sequence.
  std::vector<float> logits_;
};

}  // namespace gpt2
