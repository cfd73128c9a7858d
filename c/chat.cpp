// Chats: prompts of conversations, and their responses as events.
#include "chat.h"

#include <span>

using namespace weft;
using namespace weft::c;

static_assert(WEFT_TOOL_NAMED == static_cast<int>(ToolChoice::kNamed));
static_assert(WEFT_CHAT_TOOL_CALL_END == static_cast<int>(ResponseEvent::Kind::kToolCallEnd));

namespace weft::c {

template <>
weft_chat_turn defaults() {
  const ChatTurn d;
  weft_chat_turn p = {};
  p.tool_choice = static_cast<weft_tool_choice>(d.tool_choice);
  p.reasoning_budget = d.reasoning_budget;
  p.parallel_tool_calls = -1;
  p.add_generation_prompt = d.add_generation_prompt;
  return p;
}

namespace {

ChatTurn chat_turn(const weft_chat_turn& p, const ModelInfo& info) {
  ChatTurn turn;
  turn.messages_json = need_text(p.messages_json, "messages_json");
  turn.tools_json = text_or_nothing(p.tools_json);
  turn.tool_choice = choice(p.tool_choice, ToolChoice::kNamed, "tool_choice");
  turn.tool_name = text_or_nothing(p.tool_name);
  if (p.parallel_tool_calls < -1 || p.parallel_tool_calls > 1)
    refuse("parallel_tool_calls is " + std::to_string(p.parallel_tool_calls) + "; it must be -1, 0 or 1");
  if (p.parallel_tool_calls >= 0) turn.parallel_tool_calls = p.parallel_tool_calls == 1;
  turn.reasoning_effort = text_or_nothing(p.reasoning_effort);
  turn.reasoning_budget = p.reasoning_budget;
  turn.reasoning_budget_message = text_or_nothing(p.reasoning_budget_message);
  turn.variables_json = text_or_nothing(p.variables_json);
  turn.add_generation_prompt = p.add_generation_prompt;
  turn.find_divergences = info.recurrent || info.window > 0;
  if (p.content_grammar != nullptr) turn.content_grammar = p.content_grammar->grammar;
  return turn;
}

weft_status events_of(weft_chat* chat, const weft_chat_event** events, std::size_t* n_events,
                      weft_error** error, auto&& read_on) {
  return run(error, [&] {
    weft_chat& self = need(chat, "chat");
    need(events, "events");
    need(n_events, "n_events");
    const OneUser::Hold hold(self.user, "the chat");
    self.events = read_on(self.opening.reader);
    self.told.clear();
    for (const ResponseEvent& event : self.events)
      self.told.push_back({.kind = static_cast<weft_chat_event_kind>(event.kind),
                           .call = event.call,
                           .text = event.text.c_str(),
                           .n_bytes = event.text.size(),
                           .name = event.name.c_str(),
                           .id = event.id.c_str()});
    *events = self.told.data();
    *n_events = self.told.size();
  });
}

}  // namespace

void add_chat(RequestParams& params, const weft_chat& chat) {
  const ChatOpening& opening = chat.opening;
  params.stop.insert(params.stop.end(), opening.stop.begin(), opening.stop.end());
  params.special = true;
  params.snapshot_at.insert(params.snapshot_at.end(), chat.snapshot_at.begin(), chat.snapshot_at.end());
  if (chat.grammar != nullptr) {
    if (params.constraint) refuse("the chat has a grammar: give it as content_grammar, not in the request");
    params.constraint = [loaded = chat.loaded, grammar = chat.grammar](int) { return grammar->constraint(); };
  }
  if (opening.reasoning_limit)
    params.constraint =
        opening.reasoning_limit->constraint(chat.loaded->model->tokenizer(), std::move(params.constraint));
}

}  // namespace weft::c

void weft_chat_turn_init(weft_chat_turn* turn, size_t struct_size) { init(turn, struct_size); }

weft_chat* weft_chat_open(const weft_model* model, const weft_chat_turn* turn, weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<LoadedModel>& loaded = need(model, "model").loaded;
    const Model& all = *loaded->model;
    const weft_chat_turn given = read(turn, "turn");
    if (all.chat_template() == nullptr)
      throw Error(ErrorCode::kUnsupported, "the model's file has no chat template");
    auto chat = std::make_unique<weft_chat>();
    chat->loaded = loaded;
    chat->opening = Chat(*all.chat_template()).open(chat_turn(given, all.info()));
    const ChatOpening& opening = chat->opening;
    chat->tokens = all.tokenizer().encode(opening.prompt);
    chat->snapshot_at = token_counts(all.tokenizer(), opening.prompt, opening.divergences, chat->tokens);
    if (opening.grammar) chat->grammar = loaded->compiler().compile(*opening.grammar);
    return chat;
  });
}
void weft_chat_free(weft_chat* chat) { delete chat; }
const weft_token* weft_chat_tokens(const weft_chat* chat, size_t* n, weft_error** error) {
  return make(error, [&] {
    const std::vector<Token>& tokens = need(chat, "chat").tokens;
    need(n, "n");
    *n = tokens.size();
    return tokens.data();
  });
}
weft_status weft_chat_push(weft_chat* chat, const char* text, size_t n_bytes, const weft_chat_event** events,
                           size_t* n_events, weft_error** error) {
  return events_of(chat, events, n_events, error, [&](ResponseReader& reader) {
    return reader.push({list(text, n_bytes, "text").data(), n_bytes});
  });
}
weft_status weft_chat_finish(weft_chat* chat, bool was_cut, const weft_chat_event** events, size_t* n_events,
                             weft_error** error) {
  return events_of(chat, events, n_events, error,
                   [&](ResponseReader& reader) { return reader.finish(was_cut); });
}
