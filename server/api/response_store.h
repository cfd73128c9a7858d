#pragma once
// Responses of /v1/responses that clients may continue or fetch by their ids. In memory: they end with the
// process.
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::server {

/// What a server keeps at most. The oldest responses are dropped first.
struct StoreLimits {
  std::size_t n_responses = 1024;  ///< 0: nothing is stored.
  std::size_t bytes = std::size_t{64} << 20;
};

struct StoredResponse {
  std::string response = {};  ///< JSON, as the client got it.
  std::string items = {};     ///< A JSON array: its input, with the conversation that it continues.
  std::vector<std::string> item_ids = {};  ///< Of its output.

  std::size_t bytes() const { return response.size() + items.size(); }
};

/// Any number of threads.
class ResponseStore {
 public:
  explicit ResponseStore(StoreLimits limits) : limits_(limits) {}

  const StoreLimits& limits() const { return limits_; }
  /// False, and nothing is stored, if it alone is larger than the limit. `owner`: as Job has it. Others
  /// cannot find it.
  bool add(const std::string& owner, const std::string& id, StoredResponse response);
  /// Null if there is none.
  std::shared_ptr<const StoredResponse> find(const std::string& owner, const std::string& id) const;
  /// The response whose output has the item; null if there is none.
  std::shared_ptr<const StoredResponse> find_item(const std::string& owner, const std::string& item_id) const;
  /// Whether there was one.
  bool remove(const std::string& owner, const std::string& id);

 private:
  struct Entry {
    std::string owner, key;
    std::shared_ptr<const StoredResponse> response;
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry);

  const StoreLimits limits_;
  mutable std::mutex mutex_;
  Entries entries_;                                            ///< The oldest first.
  std::unordered_map<std::string, Entries::iterator> by_key_;  ///< Responses, and items of their outputs.
  std::size_t bytes_ = 0;
};

}  // namespace weft::server
