// The served models in Ollama's API.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "api/ollama/ollama.h"
#include "api/ollama/writer.h"
#include "weft/error.h"
#include "weft/infill.h"

namespace weft::server {
namespace {

using std::chrono::system_clock;

/// Clients expect a tag in each name.
std::string tagged(const std::string& name) {
  return name.find(':') == std::string::npos ? name + ":latest" : name;
}

/// "134.52M", "8.0B"
std::string parameter_size(std::int64_t n) {
  const auto number = static_cast<double>(n);
  if (n >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (n >= 1'000'000) return fmt::format("{:.2f}M", number / 1e6);
  return n >= 1000 ? fmt::format("{:.2f}K", number / 1e3) : fmt::format("{}", n);
}

struct FileFacts {
  std::uintmax_t bytes = 0;
  system_clock::time_point time = {};
};

FileFacts facts_of(const std::filesystem::path& path) {
  std::error_code error;
  FileFacts facts;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error) facts.bytes = bytes;
  const auto time = std::filesystem::last_write_time(path, error);
  if (!error)
    facts.time = std::chrono::time_point_cast<system_clock::duration>(std::chrono::file_clock::to_sys(time));
  return facts;
}

/// Differs between versions of a model's file, by its name, size and time. A checksum would read the whole
/// file.
std::string digest_of(const ModelState& state, const FileFacts& facts) {
  std::string digest;
  std::uint64_t hash = 14695981039346656037ULL;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  };
  for (int i = 0; i < 4; ++i) {
    add(fmt::format("{}:{}:{}:{}", i, state.path.filename().string(), facts.bytes,
                    facts.time.time_since_epoch().count()));
    digest += fmt::format("{:016x}", hash);
  }
  return digest;
}

/// `info` null: the file has not been read.
Json details_json(const ModelInfo* info) {
  const std::string family = info == nullptr ? std::string() : info->architecture;
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", family},
          {"families", family.empty() ? Json::array() : Json::array({family})},
          {"parameter_size", info == nullptr ? std::string() : parameter_size(info->n_parameters)},
          {"quantization_level", info == nullptr ? std::string() : info->quantisation}};
}

const ModelInfo* info_of(const ModelState& state) {
  return state.model == nullptr || state.model->model == nullptr ? nullptr : &state.model->model->info();
}

Json entry_of(const ModelState& state, const std::string& name, const FileFacts& facts) {
  return {{"name", tagged(name)},
          {"model", tagged(name)},
          {"size", facts.bytes},
          {"digest", digest_of(state, facts)},
          {"details", details_json(info_of(state))}};
}

/// In Ollama's API, models with "embedding" cannot chat. Tools work with each chat template.
Json capabilities_of(const ModelInfo& info, const ServedModel* model) {
  if (info.encoder) return Json::array({"embedding"});
  Json list = Json::array({"completion"});
  if (model == nullptr || model->chat) list.push_back("tools");
  if (model == nullptr) return list;
  if (model->infill.can_infill()) list.push_back("insert");
  if (model->vision != nullptr) list.push_back("vision");
  if (model->audio != nullptr) list.push_back("audio");
  if (model->chat && model->chat->has_reasoning()) list.push_back("thinking");
  return list;
}

/// The keys that clients read. The context length is the server's, once the model is loaded.
Json model_info_json(const ModelInfo& info, int n_ctx) {
  const std::string& arch = info.architecture;
  return {{"general.architecture", arch},
          {"general.parameter_count", info.n_parameters},
          {"general.basename", info.name},
          {arch + ".context_length", n_ctx},
          {arch + ".embedding_length", info.n_embd},
          {arch + ".block_count", info.n_layers},
          {arch + ".attention.head_count", info.n_heads},
          {arch + ".attention.head_count_kv", info.n_kv_heads},
          {arch + ".vocab_size", info.n_vocab}};
}

/// The name in a request about a model: "model", or "name" as older clients write it.
std::string read_name(Fields& fields) {
  const std::string name = fields.string("model", fields.string("name"));
  if (name.empty()) throw bad_request("model", "'model' is missing");
  return name;
}

ApiError not_found(const std::string& name) {
  return {404, "invalid_request_error", "model_not_found", "model",
          fmt::format("model '{}' not found; GET /api/tags lists the models", name.substr(0, 200))};
}

[[noreturn]] void refuse_changes(std::string_view why) {
  throw ApiError(501, "not_supported_error", "", "", std::string(why));
}

}  // namespace

void ollama_tags(Job& job) {
  Json models = Json::array();
  for (const ModelState& state : job.models->states()) {
    const FileFacts facts = facts_of(state.path);
    const auto add = [&](const std::string& name) {
      models.push_back(entry_of(state, name, facts));
      models.back()["modified_at"] = ollama_time(facts.time);
    };
    add(state.name);
    for (const std::string& adapter : state.adapters) add(adapter);
  }
  job.send({{"models", std::move(models)}});
}

void ollama_ps(Job& job) {
  constexpr std::chrono::hours kForEver{24 * 365 * 200};
  Json models = Json::array();
  for (const ModelState& state : job.models->states()) {
    if (state.model == nullptr || state.model->model == nullptr) continue;
    Json entry = entry_of(state, state.name, facts_of(state.path));
    entry["size"] = state.model->model->info().weight_bytes;
    const auto left = state.keep_alive ? *state.keep_alive - state.idle : std::chrono::milliseconds(kForEver);
    entry["expires_at"] = ollama_time(system_clock::now() + std::max(left, std::chrono::milliseconds(0)));
    entry["context_length"] = state.model->n_ctx;
    models.push_back(std::move(entry));
  }
  job.send({{"models", std::move(models)}});
}

void ollama_show(Job& job) {
  Fields fields = job.fields();
  const std::string name = read_name(fields);
  fields.without_effect("verbose");
  for (const char* change : {"system", "template", "options"}) fields.without_effect(change);
  fields.done();
  const std::string whole = job.models->whole_name(name);
  for (const ModelState& state : job.models->states()) {
    const bool is_adapter =
        std::find(state.adapters.begin(), state.adapters.end(), whole) != state.adapters.end();
    if (state.name != whole && !is_adapter) continue;
    const std::string modelfile = fmt::format("# weft serves this model without a Modelfile.\nFROM {}\n",
                                              state.path.filename().string());
    const std::string modified_at = ollama_time(facts_of(state.path).time);
    if (state.model != nullptr && state.model->transcriber != nullptr)
      return job.send({{"license", ""},
                       {"modelfile", modelfile},
                       {"parameters", ""},
                       {"template", ""},
                       {"details", {{"format", "gguf"}, {"family", "whisper"}}},
                       {"model_info", {{"general.architecture", "whisper"}}},
                       {"capabilities", {"transcription"}},
                       {"modified_at", modified_at}});
    std::optional<FileInfo> file;
    const ModelInfo* info = info_of(state);
    if (info == nullptr) {
      file = inspect(state.path);
      if (!file->model) throw model_unavailable(file->problem);
      info = &*file->model;
    }
    const ServedModel* const model = state.model.get();
    const ChatTemplate* const own = model == nullptr ? nullptr : model->model->chat_template();
    const int n_ctx = model == nullptr ? info->n_ctx_train : model->n_ctx;
    return job.send({{"license", ""},
                     {"modelfile", modelfile},
                     {"parameters", fmt::format("num_ctx {}", n_ctx)},
                     {"template", own == nullptr ? std::string() : std::string(own->source())},
                     {"details", details_json(info)},
                     {"model_info", model_info_json(*info, n_ctx)},
                     {"capabilities", capabilities_of(*info, model)},
                     {"modified_at", modified_at}});
  }
  throw not_found(name);
}

void ollama_pull(Job& job) {
  Fields fields = job.fields();
  const std::string name = read_name(fields);
  const bool stream = fields.boolean("stream", true);
  fields.ignore({"insecure", "username", "password"});
  fields.done();
  if (!job.models->knows(name))
    throw ApiError(
        404, "invalid_request_error", "model_not_found", "model",
        fmt::format(
            "model '{}' not found, and this server downloads no models: run 'weft pull ollama:{}' on its "
            "machine, and start the server again",
            name.substr(0, 200), name.substr(0, 200)));
  if (!stream) return job.send({{"status", "success"}});
  HttpResponse answer{.content_type = "application/x-ndjson", .headers = stream_headers(job.headers())};
  for (const char* status : {"the model is served already", "success"})
    answer.body += to_text({{"status", status}}) + "\n";
  job.exchange->send(std::move(answer));
}

void ollama_copy(Job&) {
  refuse_changes(
      "this server copies no models; start it with --alias NAME to give the first model more names");
}

void ollama_create(Job&) {
  refuse_changes(
      "this server creates no models; make a file with 'weft convert' or 'weft quantize', and serve it with "
      "-m FILE");
}

void ollama_push(Job&) { refuse_changes("this server uploads no models; use the tools of your model hub"); }

void ollama_delete(Job&) {
  refuse_changes(
      "this server deletes no files; \"keep_alive\": 0 unloads a model, and its file can be deleted on "
      "the server's machine");
}

}  // namespace weft::server
