// Transcribes speech: OpenAI's Whisper as three custom graphs, from the folder that faster-whisper reads.
#include <weft/error.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "transcriber.h"
#include "wav.h"

namespace {

constexpr const char* kUsage =
    "usage: whisper -m FOLDER [OPTION ...] FILE.wav ...\n"
    "  -m FOLDER             the model: model.bin of CTranslate2, tokenizer.json, config.json\n"
    "  -l LANGUAGE           en, de, fr, ... (default: detected)\n"
    "  --task TASK           transcribe, or translate (to English)\n"
    "  --beam N              beam size, 1 to 16; 1: greedy (default 5)\n"
    "  --weights TYPE        f32, f16 or q8_0 (default f16)\n"
    "  -t N                  threads (default: all cores)\n"
    "  --pin PATTERN=DEVICE  place nodes on a device: encoder.=vulkan0; may be repeated\n"
    "  --json                print a line of JSON for each file\n"
    "  --numbers FOLDER      write intermediate results of a file's first window to FOLDER\n";

struct Options {
  std::string model, language, numbers;
  bool json = false, translate = false, help = false;
  whisper::TranscriberParams params;
  std::vector<std::string> files;
};

[[noreturn]] void refuse(const std::string& reason) {
  throw weft::Error(weft::ErrorCode::kInvalidArgument, reason);
}

int to_number(const std::string& option, const std::string& text, int least, int most) {
  char* end = nullptr;
  const long n = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || n < least || n > most)
    refuse(option + " wants a number from " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<int>(n);
}

weft::Pin to_pin(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos) refuse("--pin wants PATTERN=DEVICE");
  return {text.substr(0, at), text.substr(at + 1)};
}

Options read_options(std::span<char*> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == words.size()) refuse(word + " wants a value");
      return words[++i];
    };
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "-m") {
      options.model = value();
    } else if (word == "-l") {
      options.language = value();
    } else if (word == "--task") {
      const std::string task = value();
      if (task != "transcribe" && task != "translate") refuse("--task is transcribe or translate");
      options.translate = task == "translate";
    } else if (word == "--beam") {
      options.params.beam = to_number(word, value(), 1, 16);
    } else if (word == "--weights") {
      const auto dtype = weft::dtype_from_name(value());
      if (dtype != weft::DType::kF32 && dtype != weft::DType::kF16 && dtype != weft::DType::kQ8_0)
        refuse("--weights is f32, f16 or q8_0");
      options.params.matrices = *dtype;
    } else if (word == "-t") {
      options.params.n_threads = to_number(word, value(), 1, 1024);
    } else if (word == "--pin") {
      options.params.pins.push_back(to_pin(value()));
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--numbers") {
      options.numbers = value();
    } else if (word.size() > 1 && word[0] == '-') {
      refuse("there is no option " + word);
    } else {
      options.files.push_back(word);
    }
  }
  return options;
}

std::string clock(double seconds) {
  const auto milliseconds = static_cast<long>(seconds * 1000.0 + 0.5);
  char text[32];
  std::snprintf(text, sizeof(text), "%02ld:%02ld.%03ld", milliseconds / 60000, milliseconds / 1000 % 60,
                milliseconds % 1000);
  return text;
}

void print(const whisper::Transcript& transcript) {
  for (const whisper::Segment& segment : transcript.segments)
    std::printf("[%s --> %s] %s\n", clock(segment.start).c_str(), clock(segment.end).c_str(),
                segment.text.c_str());
}

void print_json(const std::string& file, const whisper::Transcript& transcript, double seconds) {
  nlohmann::json segments = nlohmann::json::array();
  for (const whisper::Segment& segment : transcript.segments)
    segments.push_back({{"start", segment.start},
                        {"end", segment.end},
                        {"text", segment.text},
                        {"tokens", segment.tokens},
                        {"avg_logprob", segment.mean_log_prob},
                        {"no_speech_prob", segment.no_speech}});
  const nlohmann::json line = {{"file", file},
                               {"language", transcript.language},
                               {"language_probability", transcript.language_probability},
                               {"seconds", seconds},
                               {"segments", segments}};
  std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

template <typename T>
void write(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file.flush()) throw weft::Error(weft::ErrorCode::kIo, path + ": cannot be written");
}

void write_numbers(const std::string& folder, const whisper::Numbers& numbers) {
  write(folder + "/mels.f32", numbers.mels);
  write(folder + "/rows.f32", numbers.rows);
  write(folder + "/tokens.i32", numbers.tokens);
  write(folder + "/logits.f32", numbers.logits);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = read_options(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (options.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (options.model.empty() || options.files.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  whisper::Transcriber transcriber(options.model, options.params);
  for (const std::string& file : options.files) {
    const std::vector<float> samples = whisper::read_wav(file);
    if (!options.numbers.empty()) {
      write_numbers(options.numbers, transcriber.numbers(samples, options.language));
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const whisper::Transcript transcript =
        transcriber.transcribe(samples, options.language, options.translate);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (options.json) {
      print_json(file, transcript, taken.count());
    } else {
      print(transcript);
    }
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "whisper: %s\n", error.what());
  return 1;
}
