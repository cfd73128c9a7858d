#pragma once
// A request on its way from the HTTP thread through the workers. Each endpoint gets one.
#include <memory>
#include <string>
#include <vector>

#include "api/common_fields.h"
#include "api/error.h"
#include "api/generation.h"
#include "models/model_pool.h"
#include "weft/token_bans.h"

namespace weft::server {

/// Parameters of all requests of a server.
struct ApiParams {
  RequestDefaults defaults = {};
  std::size_t n_inputs = 2048;  ///< Prompts or inputs of one request, at most.
};

class Files;
class ResponseStore;
class Sessions;

struct Job : ServedRequest {
  std::string owner;  ///< Of saved sessions and slots: the key's name; empty if all clients share them.
  /// The key's name, whose files and batches the client sees; empty if it sees all (records.h).
  std::string viewer;
  Json body;
  std::optional<std::string> file = {};  ///< The part "file" of a form.
  Ignored ignored = {};
  std::string model_name = {};  ///< The requested name: of a model, or of one of its adapters.
  const ApiParams* params = nullptr;
  Sessions* sessions = nullptr;
  ModelPool* models = nullptr;
  ResponseStore* responses = nullptr;
  Files* files = nullptr;  ///< Null: the server keeps no files.
  int status = 200;        ///< The response's status, if no ApiError was thrown.
  /// Requested features that the response lacks: the header X-Weft-Warnings.
  std::vector<std::string> warnings = {};
  TokenBans bans = {};

  /// A request of a batch.
  bool is_background() const { return params->defaults.params.priority <= kBackgroundPriority; }
  /// Throws ApiError 499 once the client has gone. Checked before each stage of the work.
  void check_wanted() const;
  /// The fields of the body, which note in `ignored` what the server does not do.
  Fields fields();
  HttpHeaders headers() const;
  void send(const Json& json) const { exchange->send({.body = to_text(json), .headers = headers()}); }
  /// Sends a response that needs no generation, of an endpoint that may start one.
  void send_at_once(const Json& json) const {
    send(json);
    if (done) done({.status = status});
  }
};

/// Starts the generation of `prompts` with the same parameters; `writer` writes the response. `slot` gets the
/// prompt and completion, if it is given. Throws as start_generation does.
void submit(Job& job, std::vector<std::vector<Token>> prompts, RequestParams params,
            std::unique_ptr<ResponseWriter> writer, int slot = -1,
            std::vector<std::vector<EmbeddedPart>> media = {});
/// Throws ApiError for an encoder.
void check_writes(const ServedModel& model);
/// Throws ApiError (context_length_exceeded, with both numbers) for a prompt that leaves no room for a
/// response. With `generates` false there is none.
void check_length(const ServedModel& model, std::size_t n_tokens, std::string_view param,
                  bool generates = true);

/// "chatcmpl-" and random letters.
std::string make_id(std::string_view prefix);
std::int64_t seconds_now();

}  // namespace weft::server
