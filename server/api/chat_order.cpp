#include "api/chat_order.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <unordered_set>
#include <utility>

namespace weft::server {

namespace {

void check_count(const std::string& path, std::string_view what, std::size_t n, std::size_t most) {
  if (n > most)
    throw bad_request(path, fmt::format("'{}' may have at most {} {}, not {}", path, most, what, n));
}

}  // namespace

const Json* read_conversation(Fields& fields, std::string_view name) {
  const Json* const list = fields.find(name);
  if (list == nullptr || !list->is_array()) return list;
  const std::string path = fields.path_of(name);
  check_count(path, "entries", list->size(), kMostMessages);
  std::size_t n_parts = 0;
  for (const Json& entry : *list)
    for (const char* member : {"content", "output", "tools", "tool_calls"}) {
      const auto parts = entry.is_object() ? entry.find(member) : entry.end();
      if (parts != entry.end() && parts->is_array()) n_parts += parts->size();
    }
  check_count(path, "parts", n_parts, kMostParts);
  return list;
}

namespace {

// Whether a choice names a function. A search for tools is one if the client runs it.
bool names_function(std::string_view type, const RequestTools& tools) {
  if (type == RequestTools::kSearch) return tools.origin_of(RequestTools::kSearch).is_search;
  return type == "function" || type == "custom" || type == "tool";
}

// The name of a function in a choice: {"function": {"name": ...}} or {"name": ...}.
std::string chosen_name(Fields& choice, std::string_view type) {
  if (type == RequestTools::kSearch) return RequestTools::kSearch;
  const std::string name_space = choice.string("namespace");
  const Json* const nested = choice.object(type);
  if (nested == nullptr) return RequestTools::function_of(name_space, choice.string("name"));
  Fields inner = choice.within(*nested, choice.path_of(type));
  std::string name = inner.string("name");
  inner.done();
  return RequestTools::function_of(name_space, name);
}

std::optional<ToolChoice> choice_of(std::string_view word) {
  if (word.empty() || word == "auto") return ToolChoice::kAuto;
  if (word == "none") return ToolChoice::kNone;
  if (word == "required" || word == "any") return ToolChoice::kRequired;
  return std::nullopt;
}

void read_allowed_tools(Fields& choice, RequestTools& tools, RequestTurn& turn) {
  const Json* const nested = choice.object("allowed_tools");
  Fields allowed = nested == nullptr ? choice : choice.within(*nested, choice.path_of("allowed_tools"));
  turn.tool_choice = choice_of(allowed.string("mode")).value_or(ToolChoice::kAuto);
  const Json* const list = allowed.array("tools");
  const std::string path = allowed.path_of("tools");
  if (list != nullptr) check_count(path, "entries", list->size(), RequestTools::kMost);
  std::unordered_set<std::string> names;
  bool has_hosted = false;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    Fields tool = allowed.within((*list)[i], element(path, i));
    const std::string type = tool.string("type", "function");
    if (!names_function(type, tools)) {
      tool.note(type);  // A tool that the server does not run.
      has_hosted = true;
      continue;
    }
    const std::string name = chosen_name(tool, type);
    if (!tools.has(name))
      throw bad_request(element(path, i), fmt::format("'{}' names \"{}\", which is not in 'tools'",
                                                      element(path, i), name.substr(0, 64)));
    names.insert(name);
  }
  // Tools that the server does not run cannot be required.
  if (names.empty() && has_hosted) turn.tool_choice = ToolChoice::kNone;
  tools.keep_only(names);
  allowed.done();
  if (nested != nullptr) choice.done();
}

void read_tool_choice(Fields& fields, RequestTools& tools, RequestTurn& turn) {
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) return;
  if (value->is_string()) {
    const auto choice = choice_of(value->get_ref<const std::string&>());
    if (!choice) fields.word("tool_choice", 0, {"none", "auto", "required", "any"});
    turn.tool_choice = *choice;
    return;
  }
  Fields choice = fields.within(*value, fields.path_of("tool_choice"));
  const std::string type = choice.string("type", "function");
  if (type == "allowed_tools") return read_allowed_tools(choice, tools, turn);
  if (const auto known = choice_of(type)) {
    turn.tool_choice = *known;
  } else if (names_function(type, tools)) {
    turn.tool_choice = ToolChoice::kNamed;
    turn.tool_name = chosen_name(choice, type);
    if (turn.tool_name.empty())
      throw bad_request(choice.path_of("function.name"), "'tool_choice' must name a function");
  } else {
    return choice.note(type);
  }
  if (choice.has("disable_parallel_tool_use"))
    turn.parallel_tool_calls = !choice.boolean("disable_parallel_tool_use", false);
  choice.done();
}

}  // namespace

void read_tools(Fields& fields, RequestTurn& turn, const std::vector<ToolChange>& changes) {
  const auto tools = std::make_shared<RequestTools>(fields, changes);
  read_tool_choice(fields, *tools, turn);
  turn.tools_json = tools->json();
  turn.tools = tools;
  if (tools->empty() && (turn.tool_choice == ToolChoice::kRequired || turn.tool_choice == ToolChoice::kNamed))
    throw bad_request(
        "tool_choice",
        tools->left_out().empty()
            ? "'tool_choice' requires a call, but 'tools' is missing or empty"
            : fmt::format("'tool_choice' requires a call, but 'tools' has no function. Left out, because the "
                          "server does not run them: {}. Add a function, or leave 'tool_choice' out",
                          tools->left_out()));
}

void read_continuation(Fields& fields, ChatTurn& turn) {
  const Json* const value = fields.find("continue_final_message");
  // llama.cpp's server takes the name of the member that is continued. The message says it, too: reasoning is
  // continued where it has no content.
  const bool continues = value != nullptr && value->is_string()
                             ? fields.word("continue_final_message", 0, {"content", "reasoning_content"}) < 2
                             : fields.boolean("continue_final_message", false);
  turn.add_generation_prompt = fields.boolean("add_generation_prompt", !continues);
  if (continues && turn.add_generation_prompt)
    throw bad_request("add_generation_prompt",
                      "'add_generation_prompt' must be false where 'continue_final_message' is true");
}

std::string known_effort(std::string effort) {
  if (effort == "xhigh" || effort == "max" || effort == "ultra") return "high";
  if (effort == "default" || effort == "auto") return {};
  return effort;
}

void read_template_variables(Fields& fields, ChatTurn& turn) {
  if (const Json* variables = fields.object("chat_template_kwargs"))
    turn.variables_json = to_text(*variables);
}

std::string read_effort(Fields& fields) {
  const auto of_switch = [](bool on) { return std::string(on ? "medium" : "none"); };
  std::string effort;
  const auto read_switch = [&](std::string_view name) {
    if (fields.has(name)) effort = of_switch(fields.boolean(name, true));
  };
  read_switch("enable_thinking");
  if (const Json* value = fields.find("think"); value != nullptr && value->is_string())
    effort = value->get<std::string>();
  else
    read_switch("think");
  if (const Json* value = fields.find("thinking"); value != nullptr && value->is_object()) {
    Fields inner = fields.within(*value, fields.path_of("thinking"));
    // For "adaptive" and "auto" the server's default applies.
    const std::size_t type = inner.word("type", 0, {"enabled", "disabled", "adaptive", "auto"});
    if (type < 2) effort = of_switch(type == 0);
    inner.ignore({"budget_tokens", "display"});  // read_common() reads the budget.
    inner.done();
  } else {
    read_switch("thinking");
  }
  if (const Json* value = fields.object("reasoning")) {
    Fields inner = fields.within(*value, fields.path_of("reasoning"));
    if (inner.has("enabled")) effort = of_switch(inner.boolean("enabled", true));
    effort = inner.string("effort", effort);
    inner.without_effect("exclude");
    inner.ignore({"max_tokens"});                   // read_common() reads it.
    inner.ignore({"summary", "generate_summary"});  // The reasoning itself is in the response.
    inner.done();
  }
  return known_effort(fields.string("reasoning_effort", effort));
}

namespace {

// The error with the tool's place in the request. The engine counts the functions that it is given.
ApiError wrong_tool(const ToolSchemaError& error, const RequestTurn& turn) {
  const std::string counted = element("tools", error.tool);
  const bool is_known = turn.tools != nullptr && error.tool < turn.tools->paths().size();
  constexpr std::string_view kFunction = ".function";
  const std::string function = is_known ? turn.tools->paths()[error.tool] : counted + std::string(kFunction);
  std::string path = function;
  if (path.ends_with(kFunction)) path.resize(path.size() - kFunction.size());
  std::string message = error.what();
  if (const std::string whole = counted + std::string(kFunction); message.starts_with(whole))
    message.replace(0, whole.size(), function);
  else if (message.starts_with(counted))
    message.replace(0, counted.size(), path);
  return {400, "invalid_request_error", "invalid_function_parameters", path, message};
}

}  // namespace

ChatOpening open_chat(const ServedModel& model, RequestTurn turn) {
  check_writes(model);
  if (!model.chat)
    throw bad_request(
        "model",
        fmt::format(
            "the model '{}' has a chat template that cannot be used{}; use /v1/completions, or start the "
            "server with --chat-template-file",
            model.spec.name, why_no_template(*model.model)));
  const ChatDefaults& defaults = model.chat_defaults;
  if (!turn.reasoning) turn.reasoning = defaults.reasoning;
  // A budget of 0 is a switch: a request that asks for reasoning overrides it.
  const bool asks = !turn.reasoning_effort.empty() && turn.reasoning_effort != "none";
  if (!turn.has_budget && turn.reasoning_effort != "none" && !(defaults.reasoning_budget == 0 && asks))
    turn.reasoning_budget = defaults.reasoning_budget;
  if (turn.reasoning_budget_message.empty())
    turn.reasoning_budget_message = defaults.reasoning_budget_message;
  // Some templates write the date, which the engine does not know. The day alone, so that prompts begin
  // alike.
  Json variables = {{"now", fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)))}};
  if (!defaults.variables_json.empty()) variables.update(parse_json(defaults.variables_json));
  turn.default_variables_json = to_text(variables);
  try {
    return model.chat->open(turn);
  } catch (const ToolSchemaError& error) {
    throw wrong_tool(error, turn);
  }
}

namespace {

// The grammar of a response as a wish. Its key says all that the grammar depends on.
GrammarRequest wish_of(const ChatTurn& turn, const CommonFields& common, const ChatOpening& opening) {
  const bool calls = !turn.tools_json.empty() && turn.tool_choice != ToolChoice::kNone;
  const int parallel = turn.parallel_tool_calls ? (*turn.parallel_tool_calls ? 1 : 0) : -1;
  GrammarRequest wish{.make = [&opening] { return *opening.grammar; },
                      .field = common.grammar ? common.grammar->field : "tools",
                      .code = common.grammar ? common.grammar->code : "invalid_function_parameters"};
  if (calls || common.grammar)
    wish.key = fmt::format("chat:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(turn.tool_choice),
                           json_text(turn.tool_name), parallel, turn.hold_arguments,
                           json_text(turn.reasoning_effort), turn.tools_json,
                           common.grammar ? common.grammar->key : "");
  // A template may open the reasoning itself; the response begins after that.
  if (!opening.prompt.empty()) {
    const std::string& last = opening.prompt.back().text;
    wish.key += ":" + last.substr(last.size() - std::min<std::size_t>(last.size(), 256));
  }
  return wish;
}

// Applies the opening's grammar. Where the schemas of functions are too much for one grammar,
// arguments of functions that are not strict are left free.
void hold_response(RequestParams& params, Job& job, RequestTurn& turn, const CommonFields& common,
                   ChatOpening& opening) {
  try {
    return hold_to(params, job, wish_of(turn, common, opening));
  } catch (const ApiError& error) {
    if (turn.tools_json.empty()) throw;
    job.warnings.push_back(fmt::format("{}; arguments are any JSON object", error.what()));
  }
  job.check_wanted();
  turn.hold_arguments = false;
  opening = open_chat(*job.model, turn);
  hold_to(params, job, wish_of(turn, common, opening));
}

}  // namespace

ChatOrder make_order(Job& job, RequestTurn turn, CommonFields common, const Media& media) {
  ServedModel& model = *job.model;
  ChatOrder order;
  order.params = std::move(common.params);
  if (common.grammar) turn.content_grammar = make_grammar(*common.grammar);
  if (common.reasoning.budget) {
    turn.reasoning_budget = *common.reasoning.budget;
    turn.has_budget = true;
  }
  turn.reasoning_budget_message = common.reasoning.message.value_or("");
  job.check_wanted();
  turn.find_divergences = model.keeps_snapshots;
  ChatOpening opening = open_chat(model, turn);
  turn.find_divergences = false;
  job.check_wanted();
  for (std::vector<std::string>* warnings : {&common.warnings, &opening.warnings})
    for (std::string& warning : *warnings) job.warnings.push_back(std::move(warning));
  PromptWithMedia prompt = with_media(opening.prompt, media, model);
  order.prompt = std::move(prompt.tokens);
  const bool was_cut = prompt.parts.empty() && keep_end(order.prompt, common.n_kept, model.tokenizer());
  if (!was_cut)
    order.params.snapshot_at =
        token_counts(model.tokenizer(), opening.prompt, opening.divergences, order.prompt);
  order.params.parts = std::move(prompt.parts);
  check_length(model, order.prompt.size(), turn.field);
  if (common.grammar && !opening.grammar)
    throw bad_request("response_format",
                      "a response that continues a message cannot be constrained by a grammar or schema");
  if (opening.grammar) {
    job.check_wanted();
    hold_response(order.params, job, turn, common, opening);
  }
  if (opening.reasoning_limit)
    order.params.constraint =
        opening.reasoning_limit->constraint(model.tokenizer(), std::move(order.params.constraint));
  order.reader = std::move(opening.reader);
  order.params.special = true;
  for (std::string& stop : opening.stop) order.params.stop.push_back(std::move(stop));
  return order;
}

std::size_t count_tokens(const ServedModel& model, RequestTurn turn, const Media& media) {
  const ChatOpening opening = open_chat(model, std::move(turn));
  return with_media(opening.prompt, media, model).tokens.size();
}

std::vector<ResponseEvent> ReadResponse::read(const Output& chunk, std::string_view call_id_prefix) {
  std::vector<ResponseEvent> events = reader.push(chunk.text);
  if (chunk.done) {
    done = true;
    stop = chunk.stop;
    stats = chunk.stats;
    const bool was_cut = stop != StopReason::kEnd && stop != StopReason::kStopString;
    for (ResponseEvent& event : reader.finish(was_cut)) events.push_back(std::move(event));
  }
  count_reasoning(chunk, events);
  if (reasoning_place != ReasoningPlace::kApart) place_reasoning(events);
  for (ResponseEvent& event : events)
    if (event.kind == ResponseEvent::Kind::kToolCall && event.id.empty()) event.id = make_id(call_id_prefix);
  tell_inputs(events);
  for (const ResponseEvent& event : events) add(event);
  return events;
}

// Tokens without an event, tags, belong to what follows them. Where a chunk has both, bytes divide its
// tokens.
void ReadResponse::count_reasoning(const Output& chunk, const std::vector<ResponseEvent>& events) {
  const int n = static_cast<int>(chunk.tokens.size());
  n_generated += n;
  n_undecided_ += n;
  std::size_t n_all = 0, n_thought = 0;
  for (const ResponseEvent& event : events) {
    n_all += event.text.size();
    if (event.kind == ResponseEvent::Kind::kReasoning) n_thought += event.text.size();
  }
  if (n_all == 0) return;
  const auto share = static_cast<double>(n_thought) / static_cast<double>(n_all);
  n_reasoning += static_cast<int>(share * n_undecided_ + 0.5);
  n_undecided_ = 0;
}

void ReadResponse::place_reasoning(std::vector<ResponseEvent>& events) {
  using Kind = ResponseEvent::Kind;
  std::vector<ResponseEvent> placed;
  for (ResponseEvent& event : events) {
    if (event.kind == Kind::kReasoning) {
      placed.push_back({Kind::kContent, (thinks_ ? "" : "<think>") + event.text});
      if (reasoning_place == ReasoningPlace::kBoth) placed.push_back(std::move(event));
      thinks_ = true;
      continue;
    }
    if (std::exchange(thinks_, false)) placed.push_back({Kind::kContent, "</think>"});
    placed.push_back(std::move(event));
  }
  events = std::move(placed);
}

void ReadResponse::tell_inputs(std::vector<ResponseEvent>& events) {
  using Kind = ResponseEvent::Kind;
  std::vector<ResponseEvent> told;
  const auto tell_input = [&] {
    ResponseEvent event{Kind::kToolArguments, RequestTools::input_of(std::exchange(input_, {}))};
    event.call = std::exchange(custom_call_, -1);
    told.push_back(std::move(event));
  };
  for (ResponseEvent& event : events) {
    if (event.kind == Kind::kToolCall) custom_call_ = origin_of(event.name).is_custom ? event.call : -1;
    if (custom_call_ >= 0 && event.kind == Kind::kToolArguments) {
      input_ += event.text;
      continue;
    }
    if (custom_call_ >= 0 && event.kind == Kind::kToolCallEnd) tell_input();
    told.push_back(std::move(event));
  }
  if (done && custom_call_ >= 0 && !input_.empty()) tell_input();  // It was cut.
  events = std::move(told);
}

}  // namespace weft::server
