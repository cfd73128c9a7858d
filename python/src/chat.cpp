// Conversations: prompts by a model's template, parsed responses, and constraints.
#include "weft/chat.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "binding.h"
#include "grammar.h"
#include "model.h"
#include "opening.h"

namespace weft::python {

namespace {

Grammar parse_grammar(std::string_view kind, std::string_view source) {
  if (kind == "gbnf") return Grammar::gbnf(source);
  if (kind == "regex") return Grammar::regex(source);
  if (kind == "json_schema") return Grammar::json_schema(source);
  if (kind == "json_object") return Grammar::json_object();
  if (kind == "structural_tag") return Grammar::structural_tag(source);
  refuse("a grammar is of the kind gbnf, regex, json_schema, json_object or structural_tag, not '" +
         std::string(kind) + "'");
}

PyGrammar compile(const ModelPtr& model, const Grammar& grammar) {
  return {.model = model, .compiled = model->grammars().compile(grammar)};
}

/// The state of a sequence in a grammar. Used by one thread at a time.
class PyConstraint {
 public:
  explicit PyConstraint(const PyGrammar& grammar)
      : grammar_(grammar), constraint_(grammar.compiled->constraint()) {}

  /// A byte for each token: whether it may follow.
  nb::ndarray<nb::numpy, bool> allowed() {
    const auto hold = user_.hold("the constraint");
    const auto n_vocab = static_cast<std::size_t>(grammar_.model->model()->info().n_vocab);
    std::vector<std::uint32_t> words((n_vocab + 31) / 32);
    constraint_->fill({}, words);
    auto bytes = std::make_unique<bool[]>(n_vocab);
    for (std::size_t i = 0; i < n_vocab; ++i) bytes[i] = (words[i / 32] >> (i % 32) & 1) != 0;
    bool* const data = bytes.release();
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<bool*>(p); });
    return nb::ndarray<nb::numpy, bool>(data, {n_vocab}, owner);
  }
  void accept(Token token) {
    const auto hold = user_.hold("the constraint");
    if (!constraint_->allows({}, token))
      refuse("token " + std::to_string(token) + " is not allowed here; draw one that allowed() has");
    constraint_->accept(token);
  }

 private:
  PyGrammar grammar_;
  std::unique_ptr<TokenConstraint> constraint_;
  OneUser user_;
};

std::string_view name(ResponseEvent::Kind kind) {
  switch (kind) {
    case ResponseEvent::Kind::kContent:
      return "content";
    case ResponseEvent::Kind::kReasoning:
      return "reasoning";
    case ResponseEvent::Kind::kToolCall:
      return "tool_call";
    case ResponseEvent::Kind::kToolArguments:
      return "tool_arguments";
    case ResponseEvent::Kind::kToolCallEnd:
      return "tool_call_end";
  }
  return "content";
}

std::vector<Opening::Event> to_list(const std::vector<ResponseEvent>& events) {
  std::vector<Opening::Event> result;
  for (const ResponseEvent& event : events)
    result.emplace_back(name(event.kind), to_str(event.text), event.call, to_str(event.name),
                        to_str(event.id));
  return result;
}

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
        template_(chat_template ? ChatTemplate(*chat_template, model_->model()->tokenizer())
                                : own_template(*model_)),
        chat_(template_) {}

  std::unique_ptr<Opening> open(const std::string& messages, const std::string& tools,
                                const std::string& choice, std::optional<bool> parallel_tool_calls,
                                const std::string& effort, int reasoning_budget,
                                const std::string& reasoning_budget_message, const std::string& variables,
                                bool add_generation_prompt,
                                const std::optional<std::pair<std::string, std::string>>& grammar) const {
    ChatTurn turn{.messages_json = messages,
                  .tools_json = tools,
                  .tool_choice = tool_choice(choice),
                  .parallel_tool_calls = parallel_tool_calls,
                  .reasoning_effort = effort,
                  .reasoning_budget = reasoning_budget,
                  .reasoning_budget_message = reasoning_budget_message,
                  .variables_json = variables,
                  .add_generation_prompt = add_generation_prompt};
    const ModelInfo& info = model_->model()->info();
    turn.find_divergences = info.recurrent || info.window > 0;
    if (turn.tool_choice == ToolChoice::kNamed) turn.tool_name = choice;
    if (grammar) turn.content_grammar = parse_grammar(grammar->first, grammar->second);
    return std::make_unique<Opening>(model_, chat_.open(turn));
  }
  bool has_tools() const { return chat_.has_tools(); }
  bool has_reasoning() const { return chat_.has_reasoning(); }
  std::string_view format() const { return chat_.format(); }
  nb::str source() const { return to_str(template_.source()); }

 private:
  static const ChatTemplate& own_template(const LoadedModel& model) {
    const ChatTemplate* const own = model.model()->chat_template();
    if (own == nullptr)
      throw Error(ErrorCode::kUnsupported,
                  "the model has no chat template; give one (chat_template=...), or use generate()");
    return *own;
  }

  ModelPtr model_;
  ChatTemplate template_;
  Chat chat_;
};

}  // namespace

Opening::Opening(ModelPtr model, ChatOpening opening)
    : model_(std::move(model)),
      tokens_(model_->tokenizer().encode(opening.prompt)),
      prompt_(join(opening.prompt)),
      stop_(std::move(opening.stop)),
      snapshot_at_(token_counts(model_->tokenizer(), opening.prompt, opening.divergences, tokens_)),
      limit_(std::move(opening.reasoning_limit)),
      reader_(std::move(opening.reader)) {
  if (opening.grammar) grammar_ = model_->grammars().compile(*opening.grammar);
}

void Opening::add_to(RequestParams& params) const {
  params.stop.insert(params.stop.end(), stop_.begin(), stop_.end());
  params.special = true;  // Marks of calls and reasoning may be control tokens.
  params.snapshot_at = snapshot_at_;
  if (grammar_) params.constraint = [grammar = grammar_](int) { return grammar->constraint(); };
  if (limit_) params.constraint = limit_->constraint(model_->tokenizer(), std::move(params.constraint));
}

std::vector<Opening::Event> Opening::push(std::string_view text) {
  const auto hold = user_.hold("the response's reader");
  return to_list(reader_.push(text));
}

std::vector<Opening::Event> Opening::finish(bool was_cut) {
  const auto hold = user_.hold("the response's reader");
  return to_list(reader_.finish(was_cut));
}

void bind_chat(nb::module_& m) {
  nb::class_<PyGrammar>(m, "Grammar", "What a completion may be, over the tokens of a model.")
      .def_static(
          "compile",
          [](nb::handle given, std::string_view kind, std::string_view source) {
            ModelPtr model;  // A weft.Model has it as its own.
            if (!nb::try_cast(nb::getattr(given, "_model", given), model)) wrong_type("model", given);
            const Unlocked unlocked;
            return compile(model, parse_grammar(kind, source));
          },
          nb::arg("model"), nb::arg("kind"), nb::arg("source"),
          "Compiles a grammar of the kind gbnf, regex, json_schema, json_object or structural_tag for a "
          "model's vocabulary. Model.grammar() does the same.")
      .def(
          "allows",
          [](const PyGrammar& self, std::string_view text) { return self.compiled->allows_text(text); },
          nb::arg("text"), "Whether the grammar accepts this string as a whole.")
      .def(
          "constraint", [](const PyGrammar& self) { return std::make_unique<PyConstraint>(self); },
          "A constraint for one sequence, at its beginning.");

  nb::class_<PyConstraint>(m, "Constraint", "The state of one sequence in a grammar.")
      .def("allowed", &PyConstraint::allowed,
           "An array with True for each token that may follow. Sampler.sample() takes it.")
      .def("accept", &PyConstraint::accept, nb::arg("token"), "Appends this token to the sequence.");

  nb::class_<Opening>(m, "Opening")
      .def_prop_ro("tokens", &Opening::tokens)
      .def_prop_ro("prompt", &Opening::prompt)
      .def_prop_ro("stop", &Opening::stop)
      .def("push", &Opening::push, nb::arg("text"))
      .def("finish", &Opening::finish, nb::arg("was_cut"));

  nb::class_<PyChat>(m, "Chat")
      .def_static(
          "make",
          [](const ModelPtr& model, const std::optional<std::string>& chat_template) {
            return std::make_unique<PyChat>(model, chat_template);
          },
          nb::arg("model"), nb::arg("chat_template").none())
      .def("open", &PyChat::open, nb::arg("messages"), nb::arg("tools"), nb::arg("tool_choice"),
           nb::arg("parallel_tool_calls").none(), nb::arg("reasoning_effort"), nb::arg("reasoning_budget"),
           nb::arg("reasoning_budget_message"), nb::arg("variables"), nb::arg("add_generation_prompt"),
           nb::arg("grammar").none(), WithoutLock())
      .def_prop_ro("format", &PyChat::format)
      .def_prop_ro("source", &PyChat::source)
      .def_prop_ro("has_tools", &PyChat::has_tools)
      .def_prop_ro("has_reasoning", &PyChat::has_reasoning);
}

}  // namespace weft::python
