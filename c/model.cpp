// Devices, models, files, tokenizers, conversations, grammars.
#include "model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <variant>

#include "weft/gguf.h"
#include "weft/weights.h"

using namespace weft;
using namespace weft::c;

struct weft_device_list {
  std::vector<DeviceInfo> devices;
};

struct weft_file {
  std::vector<std::pair<std::string, std::string>> metadata;
  WeightFile weights;
};

struct weft_detokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool special = false;
  Detokenizer detokenizer{*tokenizer, special};
  std::string text = {};
  OneUser user = {};
};

namespace weft::c {

const GrammarCompiler& LoadedModel::compiler() {
  std::call_once(once, [this] { grammars = std::make_unique<const GrammarCompiler>(model->tokenizer()); });
  return *grammars;
}

std::vector<AdapterUse> adapter_uses(const weft_adapter_use* uses, std::size_t n) {
  std::vector<AdapterUse> result;
  for (const weft_adapter_use& use : list(uses, n, "adapters"))
    result.push_back({.adapter = use.adapter, .scale = use.scale});
  return result;
}

template <>
weft_model_params defaults() {
  const ModelParams d;
  weft_model_params p = {};
  p.n_gpu_layers = d.placement.n_layers;
  p.first_control_layer = d.first_control_layer;
  p.last_control_layer = d.last_control_layer;
  p.n_sequences = d.placement.n_sequences;
  p.n_ubatch = d.placement.n_ubatch;
  p.pack_cache_bytes = d.pack_cache_bytes;
  p.fit = d.placement.fit;
  p.repack = d.repack;
  return p;
}

template <>
weft_chat_params defaults() {
  weft_chat_params p = {};
  p.add_generation_prompt = true;
  return p;
}

std::vector<PromptPiece> render(const Model& model, const weft_chat_message* messages, std::size_t n_messages,
                                const weft_chat_params* params) {
  const weft_chat_params given = read(params, "params");
  const ChatTemplate* const chat = model.chat_template();
  if (chat == nullptr) throw Error(ErrorCode::kUnsupported, "the model's file has no chat template");
  const ChatTemplate::Options options = {.add_generation_prompt = given.add_generation_prompt,
                                         .tools_json = text_or_nothing(given.tools_json),
                                         .variables_json = text_or_nothing(given.variables_json)};
  std::vector<ChatMessage> all;
  for (const weft_chat_message& message : list(messages, n_messages, "messages"))
    all.push_back({.role = need_text(message.role, "a message's role"),
                   .content = need_text(message.content, "a message's content")});
  if (given.messages_json == nullptr) return chat->render(all, options);
  if (n_messages > 0) refuse("there are messages, and messages_json: give one of them");
  return chat->render_json(given.messages_json, options);
}

namespace {

ModelParams model_params(const weft_model_params& p) {
  ModelParams params;
  params.n_threads = p.n_threads;
  params.n_cpu_moe = p.n_cpu_moe;
  params.repack = p.repack;
  params.pack_cache = text_or_nothing(p.pack_cache);
  params.pack_cache_bytes = p.pack_cache_bytes;
  params.pre_tokenizer = text_or_nothing(p.pre_tokenizer);
  params.chat_template = text_or_nothing(p.chat_template);
  params.first_control_layer = p.first_control_layer;
  params.last_control_layer = p.last_control_layer;
  PlacementParams& placement = params.placement;
  placement.devices = texts(p.devices, p.n_devices, "devices");
  placement.n_layers = p.n_gpu_layers;
  const std::span<const float> shares = list(p.shares, p.n_shares, "shares");
  placement.shares.assign(shares.begin(), shares.end());
  placement.split_rows = p.split_rows;
  placement.experts_on_cpu = p.experts_on_cpu;
  placement.fit = p.fit;
  placement.n_ctx = p.n_ctx;
  placement.n_sequences = p.n_sequences;
  placement.n_ubatch = p.n_ubatch;
  placement.n_ctx_min = p.n_ctx_min;
  placement.n_source = p.n_source;
  placement.k_type = cache_type(p.k_type, "k_type");
  placement.v_type = cache_type(p.v_type, "v_type");
  if (p.fit_margin > 0) placement.margins.push_back({.device = "", .bytes = p.fit_margin});
  for (const weft_margin& margin : list(p.margins, p.n_margins, "margins"))
    placement.margins.push_back({.device = text_or_nothing(margin.device), .bytes = margin.bytes});
  for (const weft_pin& pin : list(p.pins, p.n_pins, "pins"))
    placement.pins.push_back({.pattern = need_text(pin.pattern, "a pin's pattern"),
                              .device = need_text(pin.device, "a pin's device")});
  for (const weft_adapter_file& file : list(p.adapters, p.n_adapters, "adapters"))
    params.adapters.push_back(
        {.path = need_text(file.path, "an adapter's path"), .name = text_or_nothing(file.name)});
  for (const weft_control_vector& file : list(p.control_vectors, p.n_control_vectors, "control_vectors"))
    params.control_vectors.push_back(
        {.path = need_text(file.path, "a control vector's path"), .scale = static_cast<float>(file.scale)});
  if (p.progress != nullptr)
    params.progress = [call = p.progress, data = p.progress_data](float done) { return call(done, data); };
  return params;
}

/// A value of metadata as people write it.
std::string written(bool value) { return value ? "true" : "false"; }
std::string written(const std::string& value) { return value; }
template <typename T>
  requires std::is_arithmetic_v<T>
std::string written(T value) {
  std::array<char, 64> text;
  char* end = nullptr;
  if constexpr (sizeof(T) == 1)
    end = std::to_chars(text.begin(), text.end(), static_cast<int>(value)).ptr;
  else
    end = std::to_chars(text.begin(), text.end(), value).ptr;
  return {text.data(), end};
}
template <typename T>
std::string written(const std::vector<T>& values) {
  std::string result = "[";
  for (std::size_t i = 0; i < values.size(); ++i)
    result += (i == 0 ? "" : ", ") + written(static_cast<const T&>(values[i]));
  return result + "]";
}

}  // namespace

}  // namespace weft::c

weft_device_list* weft_device_list_create(weft_error** error) {
  return make(error, [] { return std::make_unique<weft_device_list>(list_devices()); });
}
void weft_device_list_free(weft_device_list* list) { delete list; }
size_t weft_device_list_size(const weft_device_list* list) {
  return list == nullptr ? 0 : list->devices.size();
}
weft_status weft_device_list_get(const weft_device_list* list, size_t place, weft_device_info* info,
                                 weft_error** error) {
  return run(error, [&] {
    const auto& all = need(list, "devices").devices;
    if (place >= all.size())
      refuse("there is no device " + std::to_string(place) + " of " + std::to_string(all.size()));
    const DeviceInfo& device = all[place];
    weft_device_info told = {};
    told.name = device.name.c_str();
    told.backend = device.backend.c_str();
    told.description = device.description.c_str();
    told.memory_total = device.memory_total;
    told.memory_free = device.memory_free;
    told.n_threads = device.n_threads;
    told.is_async = device.is_async;
    told.on_host_cpu = device.on_host_cpu;
    write(info, told, "info");
  });
}

void weft_model_params_init(weft_model_params* params, size_t struct_size) { init(params, struct_size); }
weft_model* weft_model_load(const char* path, const weft_model_params* params, weft_error** error) {
  return make(error, [&] {
    auto loaded = std::make_shared<LoadedModel>();
    ModelParams all = model_params(read(params, "params"));
    all.placed = [&](const PlacementReport& report) { loaded->placement = report; };
    loaded->model = Model::load(need_text(path, "path"), all);
    if (const ChatTemplate* const chat = loaded->model->chat_template())
      loaded->chat_template = chat->source();
    return std::make_unique<weft_model>(std::move(loaded));
  });
}
void weft_model_free(weft_model* model) { delete model; }

weft_status weft_model_get_info(const weft_model* model, weft_model_info* info, weft_error** error) {
  return run(error, [&] {
    const Model& all = *need(model, "model").loaded->model;
    const ModelInfo& from = all.info();
    weft_model_info told = {};
    told.name = from.name.c_str();
    told.architecture = from.architecture.c_str();
    told.quantisation = from.quantisation.c_str();
    told.n_parameters = from.n_parameters;
    told.file_bytes = from.file_bytes;
    told.weight_bytes = from.weight_bytes;
    told.n_vocab = from.n_vocab;
    told.n_ctx_train = from.n_ctx_train;
    told.n_embd = from.n_embd;
    told.n_embd_input = from.n_embd_input;
    told.n_layers = from.n_layers;
    told.n_heads = from.n_heads;
    told.n_kv_heads = from.n_kv_heads;
    told.window = from.window;
    told.recurrent = from.recurrent;
    told.encoder = from.encoder;
    told.ranks = from.ranks;
    told.has_chat_template = all.chat_template() != nullptr;
    told.n_ctx_fit = from.n_ctx_fit;
    told.pooling = static_cast<weft_pooling>(from.pooling);
    told.first_token = from.first_token;
    told.reads_source = from.reads_source;
    told.axes = from.axes;
    told.weights_mapped = from.weights_mapped;
    write(info, told, "info");
  });
}
weft_status weft_model_get_placement(const weft_model* model, weft_placement* placement, weft_error** error) {
  return run(error, [&] {
    const PlacementReport& from = need(model, "model").loaded->placement;
    weft_placement told = {};
    told.n_devices = from.devices.size();
    told.n_layers = from.n_layers;
    told.n_layers_all = from.n_layers_all;
    told.n_cpu_moe = from.n_cpu_moe;
    told.n_ctx = from.n_ctx;
    told.n_ctx_full = from.n_ctx_full;
    write(placement, told, "placement");
  });
}
weft_status weft_model_get_placed_device(const weft_model* model, size_t place, weft_placed_device* device,
                                         weft_error** error) {
  return run(error, [&] {
    const auto& all = need(model, "model").loaded->placement.devices;
    if (place >= all.size())
      refuse("there is no device " + std::to_string(place) + " of " + std::to_string(all.size()));
    const PlacementReport::Device& from = all[place];
    weft_placed_device told = {};
    told.name = from.name.c_str();
    told.weights = from.weights;
    told.cache = from.cache;
    told.workspace = from.workspace;
    told.margin = from.margin;
    told.free = from.free;
    write(device, told, "device");
  });
}
size_t weft_model_n_adapters(const weft_model* model) {
  return model == nullptr ? 0 : model->loaded->model->adapters().size();
}
const char* weft_model_adapter_name(const weft_model* model, size_t place) {
  return place < weft_model_n_adapters(model) ? model->loaded->model->adapters()[place].name.c_str()
                                              : nullptr;
}
size_t weft_model_n_notes(const weft_model* model) {
  return model == nullptr ? 0 : model->loaded->model->notes().size();
}
const char* weft_model_note(const weft_model* model, size_t place) {
  return place < weft_model_n_notes(model) ? model->loaded->model->notes()[place].c_str() : nullptr;
}
const char* weft_model_chat_template(const weft_model* model) {
  if (model == nullptr || model->loaded->model->chat_template() == nullptr) return nullptr;
  return model->loaded->chat_template.c_str();
}

weft_file* weft_file_open(const char* path, weft_error** error) {
  return make(error, [&] {
    std::vector<std::pair<std::string, std::string>> metadata;
    for (const auto& [key, value] : read_gguf_metadata(need_text(path, "path")))
      metadata.emplace_back(key, std::visit([](const auto& v) { return written(v); }, value));
    return std::unique_ptr<weft_file>(
        new weft_file{.metadata = std::move(metadata), .weights = WeightFile(path)});
  });
}
void weft_file_free(weft_file* file) { delete file; }
size_t weft_file_n_keys(const weft_file* file) { return file == nullptr ? 0 : file->metadata.size(); }
const char* weft_file_key(const weft_file* file, size_t place) {
  return place < weft_file_n_keys(file) ? file->metadata[place].first.c_str() : nullptr;
}
const char* weft_file_value(const weft_file* file, const char* key) {
  if (file == nullptr || key == nullptr) return nullptr;
  const auto found = std::ranges::find(file->metadata, key, &std::pair<std::string, std::string>::first);
  return found == file->metadata.end() ? nullptr : found->second.c_str();
}
size_t weft_file_n_tensors(const weft_file* file) {
  return file == nullptr ? 0 : file->weights.tensors().size();
}
weft_status weft_file_get_tensor(const weft_file* file, size_t place, weft_file_tensor* tensor,
                                 weft_error** error) {
  return run(error, [&] {
    const auto all = need(file, "file").weights.tensors();
    if (place >= all.size())
      refuse("there is no tensor " + std::to_string(place) + " of " + std::to_string(all.size()));
    const WeightFile::Tensor& one = all[place];
    weft_file_tensor told = {};
    told.name = one.name.c_str();
    told.type = weft::info(one.dtype).name.data();  // Of a literal.
    told.rank = static_cast<int32_t>(one.shape.size());
    std::ranges::copy(one.shape | std::views::take(4), told.shape);
    told.bytes = one.bytes.size();
    write(tensor, told, "tensor");
  });
}

weft_tokenizer* weft_model_tokenizer(const weft_model* model, weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<const Model>& all = need(model, "model").loaded->model;
    return std::make_unique<weft_tokenizer>(std::shared_ptr<const Tokenizer>(all, &all->tokenizer()));
  });
}
weft_tokenizer* weft_tokenizer_load(const char* path, weft_error** error) {
  return make(error, [&] {
    return std::make_unique<weft_tokenizer>(
        std::shared_ptr<const Tokenizer>(new Tokenizer(load_tokenizer(need_text(path, "path")))));
  });
}
void weft_tokenizer_free(weft_tokenizer* tokenizer) { delete tokenizer; }

weft_status weft_tokenizer_encode(const weft_tokenizer* tokenizer, const char* text, size_t n_bytes,
                                  uint32_t flags, weft_token** tokens, size_t* n_tokens, weft_error** error) {
  return run(error, [&] {
    const Tokenizer& with = *need(tokenizer, "tokenizer").tokenizer;
    need(tokens, "tokens");
    need(n_tokens, "n_tokens");
    if (flags > (WEFT_ADD_SPECIAL | WEFT_PARSE_SPECIAL))
      refuse("flags are " + std::to_string(flags) + "; they are WEFT_ADD_SPECIAL and WEFT_PARSE_SPECIAL");
    const std::vector<Token> all = with.encode(
        {list(text, n_bytes, "text").data(), n_bytes},
        {.add_special = (flags & WEFT_ADD_SPECIAL) != 0, .parse_special = (flags & WEFT_PARSE_SPECIAL) != 0});
    *tokens = copy_of(std::span(all)).release();
    *n_tokens = all.size();
  });
}
weft_status weft_tokenizer_decode(const weft_tokenizer* tokenizer, const weft_token* tokens, size_t n_tokens,
                                  bool special, char** text, size_t* n_bytes, weft_error** error) {
  return run(error, [&] {
    const Tokenizer& with = *need(tokenizer, "tokenizer").tokenizer;
    need(text, "text");
    const std::string all = with.decode(list(tokens, n_tokens, "tokens"), special);
    *text = copy_of(all).release();
    tell(n_bytes, all.size());
  });
}
weft_status weft_tokenizer_piece(const weft_tokenizer* tokenizer, weft_token token, bool special,
                                 char** bytes, size_t* n_bytes, weft_error** error) {
  return run(error, [&] {
    const Tokenizer& with = *need(tokenizer, "tokenizer").tokenizer;
    need(bytes, "bytes");
    const std::string all = with.piece(token, special);
    *bytes = copy_of(all).release();
    tell(n_bytes, all.size());
  });
}
int32_t weft_tokenizer_n_vocab(const weft_tokenizer* tokenizer) {
  return tokenizer == nullptr ? 0 : tokenizer->tokenizer->n_vocab();
}
weft_token weft_tokenizer_bos(const weft_tokenizer* tokenizer) {
  return tokenizer == nullptr ? WEFT_NO_TOKEN : tokenizer->tokenizer->bos();
}
weft_token weft_tokenizer_eos(const weft_tokenizer* tokenizer) {
  return tokenizer == nullptr ? WEFT_NO_TOKEN : tokenizer->tokenizer->eos();
}
bool weft_tokenizer_is_end(const weft_tokenizer* tokenizer, weft_token token) {
  return value_or(false, [&] { return need(tokenizer, "tokenizer").tokenizer->is_end(token); });
}
weft_token weft_tokenizer_find(const weft_tokenizer* tokenizer, const char* text) {
  return value_or(WEFT_NO_TOKEN,
                  [&] { return need(tokenizer, "tokenizer").tokenizer->find(need_text(text, "text")); });
}

weft_detokenizer* weft_detokenizer_create(const weft_tokenizer* tokenizer, bool special, weft_error** error) {
  return make(error, [&] {
    return std::unique_ptr<weft_detokenizer>(
        new weft_detokenizer{.tokenizer = need(tokenizer, "tokenizer").tokenizer, .special = special});
  });
}
void weft_detokenizer_free(weft_detokenizer* detokenizer) { delete detokenizer; }

namespace {
template <typename F>
const char* detokenize(weft_detokenizer* detokenizer, size_t* n_bytes, weft_error** error, F&& text) {
  return make(error, [&] {
    weft_detokenizer& self = need(detokenizer, "detokenizer");
    const OneUser::Hold hold(self.user, "the detokenizer");
    self.text = text(self);
    tell(n_bytes, self.text.size());
    return self.text.c_str();
  });
}
}  // namespace

const char* weft_detokenizer_push(weft_detokenizer* detokenizer, weft_token token, size_t* n_bytes,
                                  weft_error** error) {
  return detokenize(detokenizer, n_bytes, error,
                    [token](weft_detokenizer& self) { return self.detokenizer.push(token); });
}
const char* weft_detokenizer_finish(weft_detokenizer* detokenizer, size_t* n_bytes, weft_error** error) {
  return detokenize(detokenizer, n_bytes, error, [](weft_detokenizer& self) {
    std::string text = self.detokenizer.finish();
    self.detokenizer = Detokenizer(*self.tokenizer, self.special);
    return text;
  });
}

void weft_chat_params_init(weft_chat_params* params, size_t struct_size) { init(params, struct_size); }
weft_status weft_model_apply_chat_template(const weft_model* model, const weft_chat_message* messages,
                                           size_t n_messages, const weft_chat_params* params, char** text,
                                           weft_token** tokens, size_t* n_tokens, weft_error** error) {
  return run(error, [&] {
    const Model& with = *need(model, "model").loaded->model;
    if (tokens != nullptr) need(n_tokens, "n_tokens");
    const std::vector<PromptPiece> prompt = render(with, messages, n_messages, params);
    Given<char> made_text = text == nullptr ? nullptr : copy_of(join(prompt));
    if (tokens != nullptr) {
      const std::vector<Token> made = with.tokenizer().encode(prompt);
      *tokens = copy_of(std::span(made)).release();
      *n_tokens = made.size();
    }
    if (text != nullptr) *text = made_text.release();
  });
}

weft_grammar* weft_grammar_create(const weft_model* model, weft_grammar_kind kind, const char* source,
                                  weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<LoadedModel>& loaded = need(model, "model").loaded;
    const auto grammar = [&] {
      switch (kind) {
        case WEFT_GRAMMAR_GBNF:
          return Grammar::gbnf(need_text(source, "source"));
        case WEFT_GRAMMAR_REGEX:
          return Grammar::regex(need_text(source, "source"));
        case WEFT_GRAMMAR_JSON_SCHEMA:
          return Grammar::json_schema(need_text(source, "source"));
        case WEFT_GRAMMAR_JSON_OBJECT:
          return Grammar::json_object();
        case WEFT_GRAMMAR_STRUCTURAL_TAG:
          return Grammar::structural_tag(need_text(source, "source"));
        default:
          refuse("there is no kind of grammar " + std::to_string(kind));
      }
    }();
    return std::unique_ptr<weft_grammar>(new weft_grammar{
        .loaded = loaded, .grammar = grammar, .compiled = loaded->compiler().compile(grammar)});
  });
}
void weft_grammar_free(weft_grammar* grammar) { delete grammar; }
