// Conversations: prompts by a model's template, answers read back, and what texts are held to.
#include "weft/chat.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <tuple>

#include "binding.h"
#include "grammar.h"
#include "model.h"

namespace weft::python {

namespace {

Grammar parse_grammar(std::string_view kind, std::string_view source) {
  if (kind == "gbnf") return Grammar::gbnf(source);
  if (kind == "regex") return Grammar::regex(source);
  if (kind == "json_schema") return Grammar::json_schema(source);
  if (kind == "json_object") return Grammar::json_object();
  refuse("a grammar is of the kind gbnf, regex, json_schema or json_object, not '" + std::string(kind) + "'");
}

PyGrammar compile(const ModelPtr& model, const Grammar& grammar) {
  return {.model = model, .compiled = model->grammars().compile(grammar)};
}

std::string_view name(AnswerEvent::Kind kind) {
  switch (kind) {
    case AnswerEvent::Kind::kContent:
      return "content";
    case AnswerEvent::Kind::kReasoning:
      return "reasoning";
    case AnswerEvent::Kind::kToolCall:
      return "tool_call";
    case AnswerEvent::Kind::kToolArguments:
      return "tool_arguments";
    case AnswerEvent::Kind::kToolCallEnd:
      return "tool_call_end";
  }
  return "content";
}

/// Its kind, its text, the number of the call, its name and its id.
using Event = std::tuple<std::string_view, nb::str, int, nb::str, nb::str>;

/// A prompt, and all that belongs to the answer. Used by one thread at a time.
class Opening {
 public:
  Opening(const ModelPtr& model, ChatOpening opening)
      : tokens_(model->tokenizer().encode(opening.prompt)),
        prompt_(join(opening.prompt)),
        stop_(std::move(opening.stop)),
        reader_(std::move(opening.reader)) {
    if (opening.grammar) grammar_ = compile(model, *opening.grammar);
  }

  const std::vector<Token>& tokens() const { return tokens_; }
  nb::str prompt() const { return to_str(prompt_); }
  const std::vector<std::string>& stop() const { return stop_; }
  const std::optional<PyGrammar>& grammar() const { return grammar_; }
  std::vector<Event> push(std::string_view text) {
    const auto hold = user_.hold("the answer's reader");
    return list(reader_.push(text));
  }
  std::vector<Event> finish() {
    const auto hold = user_.hold("the answer's reader");
    return list(reader_.finish());
  }

 private:
  static std::vector<Event> list(const std::vector<AnswerEvent>& events) {
    std::vector<Event> result;
    for (const AnswerEvent& event : events)
      result.emplace_back(name(event.kind), to_str(event.text), event.call, to_str(event.name),
                          to_str(event.id));
    return result;
  }

  std::vector<Token> tokens_;
  std::string prompt_;
  std::vector<std::string> stop_;
  std::optional<PyGrammar> grammar_;
  AnswerReader reader_;
  OneUser user_;
};

ToolChoice tool_choice(const std::string& choice) {
  if (choice == "none") return ToolChoice::kNone;
  if (choice == "auto") return ToolChoice::kAuto;
  if (choice == "required") return ToolChoice::kRequired;
  return ToolChoice::kNamed;
}

class PyChat {
 public:
  PyChat(ModelPtr model, const std::optional<std::string>& chat_template)
      : model_(std::move(model)),
        chat_(chat_template ? ChatTemplate(*chat_template, model_->model()->tokenizer())
                            : own_template(*model_)) {}

  std::unique_ptr<Opening> open(const std::string& messages, const std::string& tools,
                                const std::string& choice, const std::string& effort,
                                const std::string& variables, bool add_generation_prompt,
                                const std::optional<std::pair<std::string, std::string>>& grammar) const {
    ChatTurn turn{.messages_json = messages,
                  .tools_json = tools,
                  .tool_choice = tool_choice(choice),
                  .reasoning_effort = effort,
                  .variables_json = variables,
                  .add_generation_prompt = add_generation_prompt};
    if (turn.tool_choice == ToolChoice::kNamed) turn.tool_name = choice;
    if (grammar) turn.content_grammar = parse_grammar(grammar->first, grammar->second);
    return std::make_unique<Opening>(model_, chat_.open(turn));
  }
  bool has_tools() const { return chat_.has_tools(); }
  bool has_reasoning() const { return chat_.has_reasoning(); }
  std::string_view format() const { return chat_.format(); }

 private:
  static const ChatTemplate& own_template(const LoadedModel& model) {
    const ChatTemplate* const own = model.model()->chat_template();
    if (own == nullptr)
      throw Error(ErrorCode::kUnsupported,
                  "the model has no chat template; give one (chat_template=...), or use generate()");
    return *own;
  }

  ModelPtr model_;
  Chat chat_;
};

}  // namespace

void bind_chat(nb::module_& m) {
  nb::class_<PyGrammar>(m, "Grammar")
      .def_static(
          "compile",
          [](const ModelPtr& model, std::string_view kind, std::string_view source) {
            return compile(model, parse_grammar(kind, source));
          },
          nb::arg("model"), nb::arg("kind"), nb::arg("source"), WithoutLock())
      .def(
          "allows",
          [](const PyGrammar& self, std::string_view text) { return self.compiled->allows_text(text); },
          nb::arg("text"));

  nb::class_<Opening>(m, "Opening")
      .def_prop_ro("tokens", &Opening::tokens)
      .def_prop_ro("prompt", &Opening::prompt)
      .def_prop_ro("stop", &Opening::stop)
      .def_prop_ro("grammar", &Opening::grammar)
      .def("push", &Opening::push, nb::arg("text"))
      .def("finish", &Opening::finish);

  nb::class_<PyChat>(m, "Chat")
      .def_static(
          "make",
          [](const ModelPtr& model, const std::optional<std::string>& chat_template) {
            return std::make_unique<PyChat>(model, chat_template);
          },
          nb::arg("model"), nb::arg("chat_template").none())
      .def("open", &PyChat::open, nb::arg("messages"), nb::arg("tools"), nb::arg("tool_choice"),
           nb::arg("reasoning_effort"), nb::arg("variables"), nb::arg("add_generation_prompt"),
           nb::arg("grammar").none(), WithoutLock())
      .def_prop_ro("format", &PyChat::format)
      .def_prop_ro("has_tools", &PyChat::has_tools)
      .def_prop_ro("has_reasoning", &PyChat::has_reasoning);
}

}  // namespace weft::python
