#include "api/chat_order.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace weft::server {

namespace {

void check_count(const std::string& path, std::string_view what, std::size_t n, std::size_t most) {
  if (n > most)
    throw bad_request(path, fmt::format("'{}' may have {} {} at most, not {}", path, most, what, n));
}

}  // namespace

const Json* read_conversation(Fields& fields, std::string_view name) {
  const Json* const list = fields.find(name);
  if (list == nullptr || !list->is_array()) return list;
  const std::string path = fields.path_of(name);
  check_count(path, "entries", list->size(), kMostMessages);
  std::size_t n_parts = 0;
  for (const Json& entry : *list) {
    const auto content = entry.is_object() ? entry.find("content") : entry.end();
    if (content != entry.end() && content->is_array()) n_parts += content->size();
  }
  check_count(path, "parts of content", n_parts, kMostParts);
  return list;
}

const Json* find_tools(Fields& fields) {
  const Json* const tools = fields.array("tools");
  if (tools == nullptr || tools->empty()) return nullptr;
  check_count(fields.path_of("tools"), "entries", tools->size(), kMostTools);
  return tools;
}

void read_tool_choice(Fields& fields, ChatTurn& turn) {
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) return;
  if (value->is_string()) {
    constexpr ToolChoice kChoices[] = {ToolChoice::kNone, ToolChoice::kAuto, ToolChoice::kRequired};
    turn.tool_choice = kChoices[fields.word("tool_choice", 1, {"none", "auto", "required"})];
    return;
  }
  Fields choice(*value, fields.path_of("tool_choice"));
  choice.word("type", 0, {"function"});
  turn.tool_choice = ToolChoice::kNamed;
  if (const Json* function = choice.object("function")) {
    Fields inner(*function, choice.path_of("function"));
    turn.tool_name = inner.string("name");
    inner.done();
  } else {
    turn.tool_name = choice.string("name");  // As the responses API has it.
  }
  choice.done();
  if (turn.tool_name.empty())
    throw bad_request(choice.path_of("function.name"), "'tool_choice' names no function");
}

void read_template_variables(Fields& fields, ChatTurn& turn) {
  if (const Json* variables = fields.object("chat_template_kwargs"))
    turn.variables_json = to_text(*variables);
}

ChatOpening open_chat(const ServedModel& model, ChatTurn turn) {
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
  // Some templates write the date, which the engine does not know. The day alone, so that prompts begin
  // alike.
  Json variables = {{"now", fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)))}};
  if (!defaults.variables_json.empty()) variables.update(parse_json(defaults.variables_json));
  turn.default_variables_json = to_text(variables);
  return model.chat->open(turn);
}

namespace {

// The grammar of a response as a wish. Its key says all that the grammar depends on.
GrammarWish wish_of(const ChatTurn& turn, const CommonFields& common, const ChatOpening& opening) {
  const bool calls = !turn.tools_json.empty() && turn.tool_choice != ToolChoice::kNone;
  const int parallel = turn.parallel_tool_calls ? (*turn.parallel_tool_calls ? 1 : 0) : -1;
  GrammarWish wish{.make = [&opening] { return *opening.grammar; },
                   .field = common.grammar ? common.grammar->field : "tools"};
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
void hold_answer(RequestParams& params, Job& job, ChatTurn& turn, const CommonFields& common,
                 ChatOpening& opening) {
  try {
    return hold_to(params, *job.model, wish_of(turn, common, opening));
  } catch (const ApiError& error) {
    if (turn.tools_json.empty()) throw;
    job.warnings.push_back(fmt::format("{}; arguments are any JSON object", error.what()));
  }
  job.check_wanted();
  turn.hold_arguments = false;
  opening = open_chat(*job.model, turn);
  hold_to(params, *job.model, wish_of(turn, common, opening));
}

}  // namespace

ChatOrder make_order(Job& job, ChatTurn turn, CommonFields common, const Media& media) {
  ServedModel& model = *job.model;
  ChatOrder order;
  order.params = std::move(common.params);
  if (common.grammar) turn.content_grammar = common.grammar->make();
  job.check_wanted();
  ChatOpening opening = open_chat(model, turn);
  job.check_wanted();
  for (std::vector<std::string>* warnings : {&common.warnings, &opening.warnings})
    for (std::string& warning : *warnings) job.warnings.push_back(std::move(warning));
  PromptWithMedia prompt = with_media(opening.prompt, media, model);
  order.prompt = std::move(prompt.tokens);
  order.params.parts = std::move(prompt.parts);
  check_length(model, order.prompt.size(), "messages");
  if (common.grammar && !opening.grammar)
    throw bad_request("response_format", "an answer that is continued cannot be held to a form");
  if (opening.grammar) {
    job.check_wanted();
    hold_answer(order.params, job, turn, common, opening);
  }
  order.reader = std::move(opening.reader);
  order.params.special = true;
  for (std::string& stop : opening.stop) order.params.stop.push_back(std::move(stop));
  return order;
}

std::size_t count_tokens(const ServedModel& model, ChatTurn turn, const Media& media) {
  const ChatOpening opening = open_chat(model, std::move(turn));
  return with_media(opening.prompt, media, model).tokens.size();
}

std::vector<AnswerEvent> ReadAnswer::read(const Chunk& chunk, std::string_view call_id_prefix) {
  std::vector<AnswerEvent> events = reader.push(chunk.text);
  if (chunk.done) {
    done = true;
    stop = chunk.stop;
    stats = chunk.stats;
    const bool was_cut = stop != StopReason::kEnd && stop != StopReason::kStopString;
    for (AnswerEvent& event : reader.finish(was_cut)) events.push_back(std::move(event));
  }
  for (AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kToolCall && event.id.empty()) event.id = make_id(call_id_prefix);
    add(event);
  }
  return events;
}

}  // namespace weft::server
