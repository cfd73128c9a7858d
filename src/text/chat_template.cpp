#include "weft/chat_template.h"

#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"
#include "text/named_templates.h"
#include "weft/error.h"

namespace weft {

namespace jinja = text::jinja;

struct ChatTemplate::Impl {
  std::string source;
  jinja::ast::Block program;
  std::string bos_token, eos_token;

  std::vector<PromptPiece> render(jinja::Heap& heap, jinja::Value messages, const Options& options) const;
  jinja::Dict* variables(jinja::Heap& heap, jinja::Value messages, const Options& options) const;
};

namespace {

jinja::Value list_from_json(jinja::Heap& heap, std::string_view json, const char* what) {
  jinja::Value value = jinja::parse_json(heap, json, what);
  if (!jinja::as<jinja::List>(value)) throw jinja::Problem(std::string(what) + " must be a JSON array");
  return value;
}

/// The names of the time in templates. Llama 3 calls the date date_string, Firefunction calls the time
/// datetime.
void add_time(jinja::Heap& heap, jinja::Dict& variables, jinja::Value now) {
  for (const auto& [name, format] :
       {std::pair("date_string", "%d %b %Y"), std::pair("datetime", "%b %d %Y %H:%M:%S GMT")})
    if (get(variables, name) == nullptr) set(heap, variables, name, jinja::format_time(now, format));
  set(heap, variables, "strftime_now", jinja::strftime_function(heap, now));
}

/// Problems of the arguments and of rendering become Errors for the caller.
template <class Body>
auto reporting(Body body) {
  try {
    return body();
  } catch (const jinja::Problem& problem) {
    throw Error(ErrorCode::kInvalidArgument, problem.what());
  }
}

}  // namespace

jinja::Dict* ChatTemplate::Impl::variables(jinja::Heap& heap, jinja::Value messages,
                                           const Options& options) const {
  jinja::Dict* all = heap.make<jinja::Dict>();
  // These two come with the template, so they may become special tokens.
  set(heap, *all, "bos_token", jinja::string({bos_token, true}));
  set(heap, *all, "eos_token", jinja::string({eos_token, true}));
  set(heap, *all, "documents", jinja::None{});
  if (!options.variables_json.empty()) {
    const jinja::Value extra = jinja::parse_json(heap, options.variables_json, "variables_json");
    const jinja::Dict* dict = jinja::as<jinja::Dict>(extra);
    if (!dict) throw jinja::Problem("variables_json must be a JSON object");
    for (const auto& [name, value] : dict->entries) set(heap, *all, name, value);
    for (std::string_view reserved : {"messages", "tools", "add_generation_prompt"}) {
      if (get(*all, reserved)) throw jinja::Problem("variables_json must not have " + std::string(reserved));
    }
  }
  if (const jinja::Value* now = get(*all, "now")) add_time(heap, *all, *now);
  set(heap, *all, "messages", std::move(messages));
  set(heap, *all, "add_generation_prompt", options.add_generation_prompt);
  set(heap, *all, "tools",
      options.tools_json.empty() ? jinja::Value(jinja::None{})
                                 : list_from_json(heap, options.tools_json, "tools_json"));
  return all;
}

std::vector<PromptPiece> ChatTemplate::Impl::render(jinja::Heap& heap, jinja::Value messages,
                                                    const Options& options) const {
  const jinja::Dict* all = variables(heap, std::move(messages), options);
  heap.budget = {};  // From here on, work counts against the template's budget.
  jinja::Interpreter interpreter(heap, *all);
  jinja::Text prompt;
  try {
    prompt = interpreter.run(program);
  } catch (const jinja::Problem& problem) {
    throw jinja::Problem("chat template, line " + std::to_string(interpreter.line()) + ": " + problem.what());
  }
  std::vector<PromptPiece> pieces;
  prompt.each_run([&](std::string_view bytes, bool from_template) {
    pieces.push_back({std::string(bytes), from_template});
  });
  return pieces;
}

ChatTemplate::ChatTemplate(std::string_view source, std::string bos_token, std::string eos_token) {
  std::string text = text::named_template(source);
  if (text.empty()) text = source;
  try {
    jinja::ast::Block program = jinja::parse(text);
    impl_ = std::make_shared<const Impl>(
        Impl{std::move(text), std::move(program), std::move(bos_token), std::move(eos_token)});
  } catch (const jinja::Problem& problem) {
    throw Error(ErrorCode::kInvalidFile, problem.what());
  }
}
namespace {

std::string text_of(const Tokenizer& tokenizer, Token id) {
  return id == kNoToken ? std::string() : std::string(tokenizer.text(id));
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const Tokenizer& tokenizer)
    : ChatTemplate(source, text_of(tokenizer, tokenizer.bos()), text_of(tokenizer, tokenizer.eos())) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(const ChatTemplate&) = default;
ChatTemplate& ChatTemplate::operator=(const ChatTemplate&) = default;

std::vector<PromptPiece> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                              const Options& options) const {
  return reporting([&] {
    jinja::Heap heap(jinja::Budget::unlimited());
    std::vector<jinja::Value> all;
    for (const ChatMessage& message : messages) {
      jinja::Dict* dict = heap.make<jinja::Dict>();
      set(heap, *dict, "role", jinja::computed(message.role));
      set(heap, *dict, "content", jinja::computed(message.content));
      all.emplace_back(dict);
    }
    return impl_->render(heap, heap.list(std::move(all)), options);
  });
}

std::vector<PromptPiece> ChatTemplate::render_json(std::string_view messages_json,
                                                   const Options& options) const {
  return reporting([&] {
    jinja::Heap heap(jinja::Budget::unlimited());
    return impl_->render(heap, list_from_json(heap, messages_json, "messages_json"), options);
  });
}

std::string_view ChatTemplate::source() const { return impl_->source; }

std::string join(const std::vector<PromptPiece>& pieces) {
  std::string all;
  for (const PromptPiece& piece : pieces) all += piece.text;
  return all;
}

}  // namespace weft
