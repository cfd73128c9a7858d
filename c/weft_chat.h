/// @file
/// weft in C: chats with tools and reasoning. The rules of weft.h hold here, too.
#ifndef WEFT_CHAT_H
#define WEFT_CHAT_H

#include "weft_generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Whether a response calls tools.
typedef int32_t weft_tool_choice;
enum {
  WEFT_TOOL_NONE = 0,      ///< It calls none.
  WEFT_TOOL_AUTO = 1,      ///< The model decides.
  WEFT_TOOL_REQUIRED = 2,  ///< It calls one or more.
  WEFT_TOOL_NAMED = 3      ///< It calls weft_chat_turn::tool_name.
};

/// A conversation that a response is wanted for.
typedef struct weft_chat_turn {
  size_t struct_size;
  const char* messages_json;   ///< A JSON array of messages as in OpenAI's API. Required.
  const char* tools_json;      ///< A JSON array of tools as in OpenAI's API; NULL: none.
  const char* variables_json;  ///< A JSON object of further variables for the template; NULL: none.
  const char* tool_name;       ///< With WEFT_TOOL_NAMED.
  /// "minimal", "low", "medium" or "high", for templates that have the variable. "none": a reasoning_budget
  /// of 0, unless one is set. NULL: the template decides.
  const char* reasoning_effort;
  /// Ends reasoning that reached the budget, before the closing tag. NULL: nothing.
  const char* reasoning_budget_message;
  /// Constrains the content, but not the reasoning before it. NULL: nothing does.
  const weft_grammar* content_grammar;
  weft_tool_choice tool_choice;
  /// The most tokens of reasoning in a response; then it is closed. -1: no limit. 0 also turns reasoning off,
  /// for templates with a switch.
  int32_t reasoning_budget;
  /// Whether a response may have several calls: 0 or 1. -1: only with WEFT_TOOL_AUTO.
  int32_t parallel_tool_calls;
  bool add_generation_prompt;  ///< false: the response continues the last message.
} weft_chat_turn;

/// The kind of an event.
typedef int32_t weft_chat_event_kind;
enum {
  WEFT_CHAT_CONTENT = 0,
  WEFT_CHAT_REASONING = 1,
  WEFT_CHAT_TOOL_CALL = 2,       ///< A call begins.
  WEFT_CHAT_TOOL_ARGUMENTS = 3,  ///< More of its arguments, JSON.
  WEFT_CHAT_TOOL_CALL_END = 4    ///< The call is complete: its arguments are one JSON object.
};

/// A part of a response.
typedef struct weft_chat_event {
  weft_chat_event_kind kind;
  int32_t call;      ///< The index of the call in this response, from 0.
  const char* text;  ///< Content, reasoning or arguments, with a zero byte at the end; otherwise "".
  size_t n_bytes;
  const char* name;  ///< With WEFT_CHAT_TOOL_CALL; otherwise "".
  const char* id;    ///< With WEFT_CHAT_TOOL_CALL: the model's id, or "".
} weft_chat_event;

/// The prompt of a conversation, and the reader of its response.
typedef struct weft_chat weft_chat;

/// Sets struct_size and the defaults.
WEFT_API void weft_chat_turn_init(weft_chat_turn* turn, size_t struct_size);
/// Renders a conversation by the model's chat template. WEFT_UNSUPPORTED if the model has no template.
WEFT_API weft_chat* weft_chat_open(const weft_model* model, const weft_chat_turn* turn, weft_error** error);
/// Frees it. Requests that were submitted with it continue.
WEFT_API void weft_chat_free(weft_chat* chat);
/// The tokens of the prompt. Valid as long as the chat.
WEFT_API const weft_token* weft_chat_tokens(const weft_chat* chat, size_t* n, weft_error** error);
/// Parses new characters of the response. They may be divided anywhere. The request must have the chat
/// (weft_request_params::chat), and one completion. The events are valid until the next call.
WEFT_API weft_status weft_chat_push(weft_chat* chat, const char* text, size_t n_bytes,
                                    const weft_chat_event** events, size_t* n_events, weft_error** error);
/// Ends the response, and returns the last events. `was_cut`: it ended early, so a partial tag is dropped.
WEFT_API weft_status weft_chat_finish(weft_chat* chat, bool was_cut, const weft_chat_event** events,
                                      size_t* n_events, weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
