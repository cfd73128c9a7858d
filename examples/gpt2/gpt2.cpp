// GPT-2 as a custom graph, from the folder that transformers saves. One step continues several sequences.
#include <weft/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "bpe.h"
#include "model.h"

namespace {

using gpt2::Decoder;
using gpt2::Token;

constexpr const char* kUsage =
    "usage: gpt2 -m FOLDER [OPTION ...] PROMPT ...\n"
    "  -m FOLDER             the model: config.json, model.safetensors, tokenizer.json\n"
    "  -n N                  tokens to generate after each prompt (default 32), greedily\n"
    "  -c N                  maximum length of a sequence (default: the model's positions)\n"
    "  --ids                 read and print token ids: \"464 5417\"\n"
    "  --logits FILE         only write the logits after each token to FILE, as floats\n"
    "  --weights TYPE        f32, f16 or q8_0 (default f32)\n"
    "  -t N                  threads (default: all cores)\n"
    "  --device NAME         cpu (default), vulkan0, ...; OTHER=NAME renames it; may be repeated\n"
    "  --pin PATTERN=DEVICE  place nodes with matching names on a device; may be repeated\n"
    "  --speed               print the speed to stderr\n"
    "  --explain             print the compiled graph to stderr\n";

struct Options {
  std::string folder, logits;
  int n_predict = 32;
  bool ids = false, speed = false, explain = false, help = false;
  gpt2::DecoderParams params;
  std::vector<std::string> prompts;
};

[[noreturn]] void refuse(const std::string& reason) {
  throw weft::Error(weft::ErrorCode::kInvalidArgument, reason);
}

std::optional<int> to_number(const std::string& text, int least, int most) {
  int n = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, n);
  if (error != std::errc() || rest != end || n < least || n > most) return std::nullopt;
  return n;
}

Options read_options(std::span<char*> words) {
  Options options;
  options.params.n_cells = 1 << 20;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == words.size()) refuse(word + " wants a value");
      return words[++i];
    };
    const auto number = [&](int least, int most) {
      const std::optional<int> n = to_number(value(), least, most);
      if (!n) refuse(word + " wants a number from " + std::to_string(least) + " to " + std::to_string(most));
      return *n;
    };
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "-m") {
      options.folder = value();
    } else if (word == "-n") {
      options.n_predict = number(0, 1 << 20);
    } else if (word == "-c") {
      options.params.n_cells = number(1, 1 << 20);
    } else if (word == "-t") {
      options.params.n_threads = number(1, 1024);
    } else if (word == "--ids") {
      options.ids = true;
    } else if (word == "--logits") {
      options.logits = value();
    } else if (word == "--weights") {
      const auto dtype = weft::dtype_from_name(value());
      if (dtype != weft::DType::kF32 && dtype != weft::DType::kF16 && dtype != weft::DType::kQ8_0)
        refuse("--weights is f32, f16 or q8_0");
      options.params.matrices = *dtype;
    } else if (word == "--device") {
      options.params.devices.push_back(value());
    } else if (word == "--pin") {
      const std::string pin = value();
      const std::size_t at = pin.rfind('=');
      if (at == std::string::npos) refuse("--pin needs PATTERN=DEVICE");
      options.params.pins.push_back({pin.substr(0, at), pin.substr(at + 1)});
    } else if (word == "--speed") {
      options.speed = true;
    } else if (word == "--explain") {
      options.explain = true;
    } else if (word.size() > 1 && word[0] == '-') {
      refuse("unknown option " + word);
    } else {
      options.prompts.push_back(word);
    }
  }
  return options;
}

std::vector<Token> read_ids(const std::string& text) {
  std::vector<Token> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::optional<int> id = to_number(word, 0, 1 << 30);
    if (!id) refuse("'" + word + "' is not a token");
    ids.push_back(*id);
  }
  return ids;
}

struct Sequence {
  std::vector<Token> tokens;
  std::size_t n_prompt = 0;
  std::size_t n_read = 0;  // Tokens that the decoder has.
  bool done = false;
};

/// Tokens and seconds of steps. A step counts as prefill if a sequence had more than its last token to
/// compute.
struct Speed {
  std::size_t read = 0, written = 0;
  double read_seconds = 0.0, write_seconds = 0.0;
};

/// Appends n_predict tokens to each sequence. Each step computes all sequences, as far as there is room.
Speed generate(Decoder& decoder, std::vector<Sequence>& sequences, int n_predict, int max_rows) {
  Speed speed;
  const auto n_vocab = static_cast<std::size_t>(decoder.config().n_vocab);
  for (;;) {
    std::vector<Decoder::Row> rows;
    std::vector<std::size_t> wanted;
    bool reads = false;
    for (std::size_t t = 0; t < sequences.size(); ++t) {
      Sequence& sequence = sequences[t];
      if (sequence.done) continue;
      reads = reads || sequence.n_read < sequence.n_prompt;
      while (sequence.n_read < sequence.tokens.size() && std::ssize(rows) < max_rows) {
        const bool last = sequence.n_read + 1 == sequence.tokens.size();
        rows.push_back({sequence.tokens[sequence.n_read++], static_cast<int>(t), last});
        if (last) wanted.push_back(t);
      }
    }
    if (rows.empty()) return speed;
    // A step must return logits of at least one token; here of its last one, if no sequence needs any.
    rows.back().wanted = rows.back().wanted || wanted.empty();
    const auto start = std::chrono::steady_clock::now();
    std::span<const float> logits = decoder.step(rows);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    (reads ? speed.read : speed.written) += rows.size();
    (reads ? speed.read_seconds : speed.write_seconds) += taken.count();
    for (const std::size_t t : wanted) {
      const auto best = std::ranges::max_element(logits.first(n_vocab)) - logits.begin();
      logits = logits.subspan(n_vocab);
      Sequence& sequence = sequences[t];
      sequence.tokens.push_back(static_cast<Token>(best));
      sequence.done = best == decoder.config().end || std::ssize(sequence.tokens) >= decoder.n_cells() ||
                      sequence.tokens.size() - sequence.n_prompt >= static_cast<std::size_t>(n_predict);
    }
  }
}

void write_logits(Decoder& decoder, const std::vector<Sequence>& sequences, int max_rows,
                  const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  std::vector<Decoder::Row> rows;
  for (std::size_t t = 0; t < sequences.size(); ++t)
    for (const Token token : sequences[t].tokens) rows.push_back({token, static_cast<int>(t), true});
  for (std::span<const Decoder::Row> rest = rows; !rest.empty();) {
    const std::size_t n = std::min(rest.size(), static_cast<std::size_t>(max_rows));
    const std::span<const float> logits = decoder.step(rest.first(n));
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size_bytes()));
    rest = rest.subspan(n);
  }
  if (!file.flush()) throw weft::Error(weft::ErrorCode::kIo, path + ": cannot be written");
}

void print_speed(const Speed& speed) {
  std::fprintf(stderr, "prefill: %zu tokens, %.1f tokens/s; decode: %zu tokens, %.1f tokens/s\n", speed.read,
               speed.read_seconds > 0.0 ? static_cast<double>(speed.read) / speed.read_seconds : 0.0,
               speed.written,
               speed.write_seconds > 0.0 ? static_cast<double>(speed.written) / speed.write_seconds : 0.0);
}

int run(Options options) {
  const gpt2::Config config(std::filesystem::path(options.folder) / "config.json");
  std::optional<gpt2::Bpe> bpe;
  if (!options.ids) bpe.emplace(std::filesystem::path(options.folder) / "tokenizer.json", config.n_vocab);
  std::vector<Sequence> sequences;
  for (const std::string& words : options.prompts) {
    Sequence& sequence = sequences.emplace_back();
    sequence.tokens = bpe ? bpe->encode(words) : read_ids(words);
    sequence.n_prompt = sequence.tokens.size();
    sequence.done = options.n_predict == 0;
    if (sequence.tokens.empty()) refuse("a prompt must have at least one token");
  }
  options.params.n_sequences = static_cast<int>(sequences.size());
  options.params.max_rows = std::max(options.params.max_rows, options.params.n_sequences);
  options.params.max_wanted = options.logits.empty() ? options.params.n_sequences : options.params.max_rows;
  Decoder decoder(options.folder, options.params);
  if (options.explain) std::fputs(decoder.plan().explain().c_str(), stderr);
  if (!options.logits.empty()) {
    write_logits(decoder, sequences, options.params.max_rows, options.logits);
    return 0;
  }
  const Speed speed = generate(decoder, sequences, options.n_predict, options.params.max_rows);
  for (const Sequence& sequence : sequences) {
    const std::span<const Token> written = std::span(sequence.tokens).subspan(sequence.n_prompt);
    if (bpe) {
      std::printf("%s\n", bpe->decode(sequence.tokens).c_str());
    } else {
      for (std::size_t i = 0; i < written.size(); ++i) std::printf(i == 0 ? "%d" : " %d", written[i]);
      std::printf("\n");
    }
  }
  if (options.speed) print_speed(speed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = read_options(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (options.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (options.folder.empty() || options.prompts.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return run(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpt2: %s\n", error.what());
  return 1;
}
