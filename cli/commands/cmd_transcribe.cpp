// weft transcribe: transcribes audio files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/transcript_json.h"
#include "base/atomic_file.h"
#include "commands/command.h"
#include "files/hub_models.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"
#include "weft/error.h"
#include "weft/transcriber.h"

namespace weft::cli {
namespace {

using server::TranscriptFormat;

struct TranscribeOptions {
  Verbosity talk;
  ModelOptions model;
  std::vector<std::string> files;
  TranscribeParams params;
  float temperature = 0.0f;
  std::set<std::string> formats;  ///< Endings of the files to write. Empty: transcripts are printed.
  std::string folder;
};

const std::map<std::string, TranscriptFormat>& formats() {
  static const std::map<std::string, TranscriptFormat> kFormats = {{"txt", TranscriptFormat::kText},
                                                                   {"srt", TranscriptFormat::kSrt},
                                                                   {"vtt", TranscriptFormat::kVtt},
                                                                   {"json", TranscriptFormat::kVerboseJson}};
  return kFormats;
}

std::filesystem::path output_path(const TranscribeOptions& options, const std::string& file,
                                  const std::string& ending) {
  std::filesystem::path to = file;
  if (!options.folder.empty()) to = std::filesystem::path(options.folder) / to.filename();
  return to.replace_extension(ending);
}

/// Two audio files of one name must not write one transcript.
void check_outputs(const TranscribeOptions& options) {
  std::map<std::filesystem::path, std::string> source_of;
  for (const std::string& ending : options.formats)
    for (const std::string& file : options.files) {
      const auto to = output_path(options, file, ending);
      const auto [known, is_new] = source_of.emplace(to.lexically_normal(), file);
      if (!is_new)
        throw UsageError(
            fmt::format("{} and {} would both write {}; transcribe them in two runs, or use --output-dir",
                        known->second, file, to.string()));
    }
}

void transcribe_file(const TranscribeOptions& options, const Transcriber& transcriber,
                     const std::string& file, const InterruptGuard& interrupt) {
  const Audio sound = read_audio_file(file);
  Progress progress(options.talk,
                    fmt::format("transcribing {}", std::filesystem::path(file).filename().string()));
  TranscribeParams now = options.params;
  now.goes_on = [&](double fraction) {
    progress.update(fraction);
    return !interrupt.requested();
  };
  const Transcript transcript = transcriber.transcribe(sound, now);
  progress.done();
  if (options.formats.empty())
    print(server::format_transcript(transcript, TranscriptFormat::kText, now.translate, true, true));
  for (const std::string& ending : options.formats) {
    const auto to = output_path(options, file, ending);
    const bool replaces = is_there(to);
    const std::string text =
        server::format_transcript(transcript, formats().at(ending), now.translate, true, true);
    base::AtomicFile out(to);
    out.write(std::as_bytes(std::span(text)));
    out.commit();
    if (replaces) note_replaced(options.talk, to);
    note(options.talk, fmt::format("wrote {}", to.string()));
  }
}

int run(TranscribeOptions& options) {
  if (options.files.empty()) throw UsageError("give the audio files to transcribe");
  check_outputs(options);
  options.params.temperatures.clear();
  for (float t = options.temperature; t < 1.01f; t += 0.2f) options.params.temperatures.push_back(t);
  const InterruptGuard interrupt;
  const auto path = find_model(options.model.model, options.talk);
  const auto transcriber = Transcriber::load(path, transcriber_params(options.model));
  options.params.words = options.formats.contains("json");
  transcriber->check(options.params);
  if (options.files.size() == 1) {
    transcribe_file(options, *transcriber, options.files[0], interrupt);
    return kExitOk;
  }
  // A file that cannot be read does not end the others.
  bool failed = false;
  for (const std::string& file : options.files) {
    try {
      transcribe_file(options, *transcriber, file, interrupt);
    } catch (const Error& error) {
      if (interrupt.requested()) throw;
      fmt::print(stderr, "weft transcribe: {}: {}\n", file, error.what());
      failed = true;
    }
  }
  return failed ? kExitFailure : kExitOk;
}

std::function<int()> prepare_transcribe(CLI::App& app) {
  auto options = std::make_shared<TranscribeOptions>();
  app.add_option("FILE", options->files, "the audio files: WAV, FLAC, Ogg, AIFF or MP3")->type_name("FILE");
  app.add_option("-m,--model", options->model.model,
                 "a Whisper model: a ggml-*.bin file of whisper.cpp, a GGUF file or a Hugging Face folder")
      ->type_name("FILE");
  add_size(app, "-t,--threads", options->model.n_threads, {0, kMaxThreads, "0: all cores"},
           "threads (default 0: all cores)");
  app.add_option("--device", options->model.devices,
                 "devices to use, by their names in 'weft devices' (default: the CPU and all GPUs)")
      ->type_name("A,B,...");
  app.add_option("--language", options->params.language,
                 "language of the audio, a code or an English name, e.g. de or german (default: detected)")
      ->type_name("NAME");
  add_switch(app, "--translate", options->params.translate, "translate into English");
  app.add_option("--prompt", options->params.prompt, "text that may precede the audio, for names and terms")
      ->type_name("TEXT");
  add_number(
      app, "--temperature", options->temperature, {0.0f, 1.0f},
      "first sampling temperature; transcripts of poor quality are tried again with higher ones (default 0)");
  add_function(
      app, "--output",
      [options = options.get()](const std::string& list) {
        for (const std::string& word : split_at_commas(list)) {
          (void)parse_choice("--output", word, formats());
          options->formats.insert(word);
        }
      },
      "write files with these endings next to each audio file: txt, srt, vtt, json (default: print the "
      "transcript)",
      "A,B,...");
  app.add_option("--output-dir", options->folder, "folder for those files (default: the audio file's)")
      ->type_name("FOLDER");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kTranscribeCommand = {
    "transcribe", "[options] FILE...", "transcribe speech with a Whisper model",
    "Prints the transcript of each audio file, or writes it to files with --output. JSON files have times "
    "of\n"
    "segments and words.\n"
    "\n"
    "Examples:\n"
    "  weft transcribe -m ggml-base.bin talk.mp3\n"
    "  weft transcribe -m ggml-large-v3-turbo-q5_0.bin --language de --output srt,json *.wav\n",
    prepare_transcribe};

}  // namespace weft::cli
