#include "api/transcriptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "api/fields.h"
#include "api/transcript_json.h"
#include "weft/audio.h"
#include "weft/error.h"
#include "weft/transcriber.h"

namespace weft::server {
namespace {

constexpr std::chrono::seconds kPingPeriod{10};

struct TranscriptOrder {
  TranscribeParams params = {};
  TranscriptFormat format = TranscriptFormat::kJson;
  bool segments = true;
  bool stream = false;
};

TranscriptOrder read_order(Job& job, bool translate) {
  Fields fields = job.fields();
  TranscriptOrder order;
  order.params.translate = translate;
  order.params.language = fields.string("language");
  order.params.prompt = fields.string("prompt");
  order.format = static_cast<TranscriptFormat>(
      fields.word("response_format", 0, {"json", "text", "srt", "verbose_json", "vtt"}));
  // 0: higher temperatures follow where the transcript is poor.
  if (const float temperature = fields.number("temperature", 0.0f, 0.0, 1.0); temperature > 0.0f)
    order.params.temperatures = {temperature};
  const std::vector<std::string> granularities = fields.strings("timestamp_granularities", 8);
  for (const std::string& granularity : granularities)
    if (granularity != "word" && granularity != "segment")
      throw bad_request("timestamp_granularities",
                        fmt::format("'timestamp_granularities' must have 'word' or 'segment', not '{}'",
                                    granularity.substr(0, 64)));
  const auto has = [&](const char* name) {
    return std::find(granularities.begin(), granularities.end(), name) != granularities.end();
  };
  if (order.format == TranscriptFormat::kVerboseJson) {
    order.params.words = has("word");
    order.segments = has("segment") || granularities.empty();
  } else if (!granularities.empty()) {
    fields.note("timestamp_granularities");
  }
  order.stream = fields.boolean("stream", false);
  if (order.stream && order.format != TranscriptFormat::kJson && order.format != TranscriptFormat::kText) {
    order.stream = false;
    fields.note("stream");
  }
  for (const char* name : {"include", "known_speaker_names", "known_speaker_references"})
    fields.without_effect(name);
  fields.ignore({"chunking_strategy", "user"});
  fields.done();
  return order;
}

Audio audio_of(const Job& job, const std::function<bool(double)>& goes_on) {
  if (!job.file) throw bad_request("file", "the form has no part 'file'");
  if (job.file->empty()) throw bad_request("file", "the file is empty");
  try {
    return weft::read_audio(std::as_bytes(std::span(*job.file)), [&] { return goes_on(0.0); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kUnavailable) throw;
    throw bad_request("file", error.what());
  }
}

/// Ends the request for the log, on the HTTP server's thread.
void end_request(const Job& job, int status, std::string error = {}) {
  if (job.exchange->closed()) status = 499;
  job.http->post([done = job.done, outcome = Outcome{.status = status, .error = std::move(error)}] {
    if (done) done(outcome);
  });
}

/// Counts a transcription at its end: an error, unless it was completed or the client has gone.
class Counted {
 public:
  explicit Counted(const Job& job) : exchange_(job.exchange), model_(job.model) {}
  ~Counted() {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    model_->count([&](TranscriptionStats& stats) {
      ++(audio_seconds_ ? stats.n_completed : exchange_->closed() ? stats.n_cancelled : stats.n_errors);
      stats.audio_seconds += audio_seconds_.value_or(0.0);
      stats.seconds += seconds.count();
    });
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void complete(const Transcript& transcript) { audio_seconds_ = transcript.duration; }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<ServedModel> model_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<double> audio_seconds_;
};

void stream_transcript(Job& job, const Transcriber& transcriber, const Audio& sound, TranscriptOrder order,
                       Counted& counted) {
  job.exchange->begin(200, kEventStream, stream_headers(job.headers()));
  bool is_first = true;
  const auto write = [&](const Json& event) {
    std::string out;
    add_event(out, to_text(event));
    job.exchange->write(std::move(out));
  };
  order.params.on_segment = [&](const TranscribedSegment& segment) {
    std::string text = segment.text;
    if (std::exchange(is_first, false)) text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    write({{"type", "transcript.text.delta"}, {"delta", text}});
  };
  // Proxies close streams that are idle for long.
  auto last_ping = std::chrono::steady_clock::now();
  order.params.goes_on = [&, goes_on = std::move(order.params.goes_on)](double done) {
    if (const auto now = std::chrono::steady_clock::now(); now - last_ping >= kPingPeriod) {
      job.exchange->write(": ping\n\n");
      last_ping = now;
    }
    return goes_on(done);
  };
  try {
    const Transcript transcript = transcriber.transcribe(sound, order.params);
    counted.complete(transcript);
    Json last = verbose_json(transcript, order.params.translate, false, false);
    write({{"type", "transcript.text.done"}, {"text", last["text"]}, {"usage", last["usage"]}});
    job.exchange->end();
    end_request(job, 200);
  } catch (...) {
    const ApiError error = to_api_error(std::current_exception());
    write(error_json(error, ErrorShape::kOpenAi));
    job.exchange->end();
    end_request(job, error.status, error.what());
  }
}

}  // namespace

void transcribe_audio(Job& job, bool translate) {
  const auto transcriber = job.model->transcriber;
  if (transcriber == nullptr)
    throw bad_request("model", fmt::format("the model '{}' is no Whisper model and cannot transcribe audio",
                                           job.model->spec.name));
  Counted counted(job);
  TranscriptOrder order = read_order(job, translate);
  try {
    transcriber->check(order.params);
  } catch (const Error& error) {
    throw bad_request(order.params.language.empty() ? "model" : "language", error.what());
  }
  order.params.goes_on = [exchange = job.exchange, model = job.model](double) {
    if (model->stopped()) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    return !exchange->closed();
  };
  const Audio sound = audio_of(job, order.params.goes_on);
  job.file.reset();
  if (order.stream) return stream_transcript(job, *transcriber, sound, std::move(order), counted);
  const Transcript transcript = transcriber->transcribe(sound, order.params);
  counted.complete(transcript);
  const bool is_json =
      order.format == TranscriptFormat::kJson || order.format == TranscriptFormat::kVerboseJson;
  job.exchange->send(
      {.body = format_transcript(transcript, order.format, translate, order.segments, order.params.words),
       .content_type = is_json ? "application/json" : "text/plain; charset=utf-8",
       .headers = job.headers()});
  end_request(job, 200);
}

}  // namespace weft::server
