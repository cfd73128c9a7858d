/* Chats: reasoning with a budget, calls of tools, and content that a grammar holds. */
#include "check.h"

#define QUESTION "[{\"role\": \"user\", \"content\": \"hello\"}]"

/* A response as its events tell it. */
struct answer {
  weft_chat* chat;
  char content[1024], reasoning[1024], arguments[1024], name[64];
  int n_calls, n_ended;
  bool was_cut;
};

static void read_events(struct answer* answer, const weft_chat_event* events, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const weft_chat_event* const event = &events[i];
    CHECK(strlen(event->text) == event->n_bytes);
    char* const texts[] = {answer->content, answer->reasoning, NULL, answer->arguments, NULL};
    char* const text = texts[event->kind];
    if (text != NULL) strncat(text, event->text, sizeof answer->content - strlen(text) - 1);
    if (event->kind == WEFT_CHAT_TOOL_CALL) {
      CHECK(event->call == answer->n_calls++);
      snprintf(answer->name, sizeof answer->name, "%s", event->name);
    }
    if (event->kind == WEFT_CHAT_TOOL_CALL_END) ++answer->n_ended;
  }
}

static bool on_output(const weft_output* output, void* user_data) {
  struct answer* const answer = user_data;
  const weft_chat_event* events = NULL;
  size_t n = 0;
  OK(weft_chat_push(answer->chat, output->text, output->n_bytes, &events, &n, &error));
  read_events(answer, events, n);
  if (!output->done) return true;
  answer->was_cut = output->stop != WEFT_STOP_END && output->stop != WEFT_STOP_STRING;
  OK(weft_chat_finish(answer->chat, answer->was_cut, &events, &n, &error));
  read_events(answer, events, n);
  return true;
}

static struct answer answer_of(const weft_model* model, const weft_chat_turn* turn, int n_predict) {
  struct answer answer = {0};
  MADE(answer.chat, weft_chat_open(model, turn, &error));
  size_t n = 0;
  const weft_token* tokens = NULL;
  MADE(tokens, weft_chat_tokens(answer.chat, &n, &error));
  NEED(n > 0);
  weft_context_params size;
  weft_context_params_init(&size, sizeof size);
  size.n_ctx = 2048;
  size.n_threads = 2;
  weft_context* context = NULL;
  MADE(context, weft_context_create(model, &size, &error));
  weft_batcher* batcher = NULL;
  MADE(batcher, weft_batcher_create(context, NULL, &error));
  weft_sampler_params sampler;
  weft_sampler_params_init(&sampler, sizeof sampler);
  sampler.seed = 1;
  weft_request_params request;
  weft_request_params_init(&request, sizeof request);
  request.sampler = &sampler;
  request.n_predict = n_predict;
  request.on_output = on_output;
  request.user_data = &answer;
  request.chat = answer.chat;
  OK(weft_batcher_submit(batcher, tokens, n, &request, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  weft_batcher_free(batcher);
  weft_context_free(context);
  weft_chat_free(answer.chat);
  return answer;
}

static weft_model* load_with(const char* data, const char* chat_template) {
  weft_model_params params;
  weft_model_params_init(&params, sizeof params);
  params.chat_template = chat_template;
  weft_model* model = NULL;
  MADE(model, weft_model_load(path_in(data, "golden/llama/model.gguf"), &params, &error));
  return model;
}

static void reasoning(const char* data) {
  weft_model* const model =
      load_with(data, "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}");
  weft_chat_turn turn;
  weft_chat_turn_init(&turn, sizeof turn);
  CHECK(turn.reasoning_budget == -1 && turn.tool_choice == WEFT_TOOL_AUTO && turn.add_generation_prompt);
  turn.messages_json = QUESTION;
  turn.reasoning_budget = 3;
  turn.reasoning_budget_message = "Enough.";
  weft_grammar* grammar = NULL;
  MADE(grammar, weft_grammar_create(model, WEFT_GRAMMAR_REGEX, "[0-9]{3}", &error));
  turn.content_grammar = grammar;
  const struct answer answer = answer_of(model, &turn, 200);
  weft_grammar_free(grammar);
  const size_t n = strlen(answer.reasoning);
  CHECK(n > 7 && strcmp(answer.reasoning + n - 7, "Enough.") == 0);
  CHECK(strlen(answer.content) == 3 && strspn(answer.content, "0123456789") == 3 && !answer.was_cut);

  turn.content_grammar = NULL;
  turn.reasoning_budget_message = NULL;
  turn.reasoning_budget = -1;
  const struct answer endless = answer_of(model, &turn, 40);
  CHECK(strlen(endless.reasoning) > 0 && strlen(endless.content) == 0);
  weft_model_free(model);
}

static void tools(const char* data) {
  weft_model* const model =
      load_with(data,
                "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  weft_chat_turn turn;
  weft_chat_turn_init(&turn, sizeof turn);
  turn.messages_json = QUESTION;
  turn.tools_json =
      "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", "
      "\"properties\": {\"a\": {\"enum\": [7]}}, \"required\": [\"a\"]}}}]";
  turn.tool_choice = WEFT_TOOL_REQUIRED;
  const struct answer answer = answer_of(model, &turn, 200);
  CHECK(answer.n_calls == 1 && answer.n_ended == 1 && strcmp(answer.name, "add") == 0);
  CHECK(strstr(answer.arguments, "\"a\"") != NULL && strchr(answer.arguments, '7') != NULL);

  turn.tools_json = "[1]";
  NO_POINTER(weft_chat_open(model, &turn, &error), WEFT_INVALID_ARGUMENT, "tools");
  turn.tools_json = NULL;
  turn.messages_json = NULL;
  NO_POINTER(weft_chat_open(model, &turn, &error), WEFT_INVALID_ARGUMENT, "messages_json is NULL");
  NO_POINTER(weft_chat_open(NULL, &turn, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  weft_model_free(model);
}

static void wrong_arguments(const char* data) {
  weft_model* model = load_model(data, "golden/llama/model.gguf");
  weft_chat_turn turn;
  weft_chat_turn_init(&turn, sizeof turn);
  turn.messages_json = QUESTION;
  NO_POINTER(weft_chat_open(model, &turn, &error), WEFT_UNSUPPORTED, "no chat template");
  weft_model_free(model);
  model = load_with(data, "{{ messages[0].content }}");
  weft_chat* chat = NULL;
  MADE(chat, weft_chat_open(model, &turn, &error));
  weft_model_free(model); /* The chat goes on. */
  const weft_chat_event* events = NULL;
  size_t n = 0;
  OK(weft_chat_push(chat, "some", 4, &events, &n, &error));
  CHECK(n == 1 && events[0].kind == WEFT_CHAT_CONTENT && strcmp(events[0].text, "some") == 0);
  FAILS(weft_chat_push(chat, NULL, 4, &events, &n, &error), WEFT_INVALID_ARGUMENT, "text is NULL");
  FAILS(weft_chat_push(chat, "x", 1, NULL, &n, &error), WEFT_INVALID_ARGUMENT, "events is NULL");
  FAILS(weft_chat_push(NULL, "x", 1, &events, &n, &error), WEFT_INVALID_ARGUMENT, "chat is NULL");
  FAILS(weft_chat_finish(NULL, false, &events, &n, &error), WEFT_INVALID_ARGUMENT, "chat is NULL");
  NO_POINTER(weft_chat_tokens(NULL, &n, &error), WEFT_INVALID_ARGUMENT, "chat is NULL");
  NO_POINTER(weft_chat_tokens(chat, NULL, &error), WEFT_INVALID_ARGUMENT, "n is NULL");
  weft_chat_free(chat);
  weft_chat_free(NULL);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  reasoning(argv[1]);
  tools(argv[1]);
  wrong_arguments(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
