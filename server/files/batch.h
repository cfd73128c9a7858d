#pragma once
// A batch as clients see it, and as its state is stored.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json.h"

namespace weft::server {

enum class BatchStatus : std::uint8_t {
  kValidating,
  kFailed,
  kInProgress,
  kFinalizing,
  kCompleted,
  kCancelling,
  kCancelled,
};

/// What is wrong with the input of a batch, or why it ended early.
struct BatchError {
  std::string code = {};
  std::string message = {};
  std::string param = {};                          ///< Empty: none.
  std::optional<std::size_t> line = std::nullopt;  ///< In the input; the first is 1.
};

/// Times are in seconds since 1970; 0: not yet.
struct Batch {
  std::string id = {};
  std::string owner = {};  ///< The name of the key of its client.
  std::int64_t created_ns = 0;
  std::string endpoint = {};
  std::string input_file = {};
  std::string window = {};  ///< completion_window, which has no effect.
  Json metadata = nullptr;  ///< An object of strings, or null.
  BatchStatus status = BatchStatus::kValidating;
  std::vector<BatchError> errors = {};
  std::size_t n_total = 0, n_completed = 0, n_failed = 0;  ///< Requests.
  /// Chosen when the batch ends; empty: no request had such a result.
  std::string output_file = {}, error_file = {};
  std::int64_t in_progress_at = 0, finalizing_at = 0, completed_at = 0, failed_at = 0, cancelling_at = 0,
               cancelled_at = 0;

  /// It is ending: its results may be files already.
  bool has_files() const {
    return !ended() && (status == BatchStatus::kFinalizing || !output_file.empty() || !error_file.empty());
  }
  bool ended() const {
    return status == BatchStatus::kFailed || status == BatchStatus::kCompleted ||
           status == BatchStatus::kCancelled;
  }
};

/// OpenAI's batch object. The files are shown once the batch has ended.
Json batch_json(const Batch& batch);
/// The same with the fields of the server.
Json batch_state(const Batch& batch);
/// Throws Json::exception for a state that is not complete.
Batch batch_from(const std::string& id, const Json& state);

}  // namespace weft::server
