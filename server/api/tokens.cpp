#include "api/tokens.h"

#include <utility>

#include "api/chat_order.h"
#include "api/prompts.h"

namespace weft::server {
namespace {

constexpr std::size_t kMostForPieces = 1000000;

}  // namespace

void tokenize(Job& job) {
  Fields fields = job.fields();
  const Tokenizer& tokenizer = job.model->tokenizer();
  // In vLLM's API the field is "prompt".
  const std::string text = fields.has("prompt") ? fields.string("prompt") : fields.string("content");
  if (!fields.has("prompt") && !fields.has("content")) throw bad_request("content", "'content' is missing");
  const bool add_special =
      fields.boolean("add_special", false) || fields.boolean("add_special_tokens", false);
  const bool parse_special = fields.boolean("parse_special", true);
  const bool with_pieces = fields.boolean("with_pieces", false);
  fields.ignore({"content"});
  if (with_pieces && text.size() > kMostForPieces)
    throw bad_request("with_pieces", "'with_pieces' accepts at most a million bytes of content");
  fields.done();
  const std::vector<Token> tokens =
      tokenizer.encode(text, {.add_special = add_special, .parse_special = parse_special});
  Json list = Json::array();
  for (const Token id : tokens) {
    if (with_pieces)
      list.push_back({{"id", id}, {"piece", tokenizer.piece(id, true)}});
    else
      list.push_back(id);
  }
  job.send({{"tokens", std::move(list)}, {"count", tokens.size()}, {"max_model_len", job.model->n_ctx}});
}

void detokenize(Job& job) {
  Fields fields = job.fields();
  const Json* tokens = fields.array("tokens");
  if (tokens == nullptr) throw bad_request("tokens", "'tokens' is missing");
  const std::vector<Token> ids = read_ids(*tokens, "tokens", job.model->tokenizer());
  fields.done();
  const std::string text = job.model->tokenizer().decode(ids, true);
  job.send({{"content", text}, {"prompt", text}});
}

void apply_template(Job& job) {
  Fields fields = job.fields();
  RequestTurn turn;
  const Json* messages = read_conversation(fields, "messages");
  if (messages == nullptr) throw bad_request("messages", "'messages' is missing");
  turn.messages_json = to_text(*messages);
  read_tools(fields, turn);
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  read_continuation(fields, turn);
  fields.done();
  const ChatOpening opening = open_chat(*job.model, std::move(turn));
  job.send({{"prompt", join(opening.prompt)}, {"tokens", job.model->tokenizer().encode(opening.prompt)}});
}

}  // namespace weft::server
