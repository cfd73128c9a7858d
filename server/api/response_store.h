#pragma once
// Responses of /v1/responses that clients may continue or fetch by their ids. In memory: they end with the
// process.
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::server {

/// What a server keeps at most. Beyond that, the owner that holds most loses its oldest responses.
struct StoreLimits {
  std::size_t n_responses = 1024;  ///< 0: nothing is stored.
  std::size_t bytes = std::size_t{64} << 20;
};

/// Items of a conversation as JSON, with commas between. The responses that continue it share them.
class StoredItems {
 public:
  explicit StoredItems(std::string json) : json_(std::move(json)) {}
  const std::string& json() const { return json_; }

 private:
  friend class ResponseStore;
  const std::string json_;
  mutable int n_responses_ = 0;  ///< That are stored and have these items. With the store's lock.
};

struct StoredResponse {
  std::string response = {};  ///< JSON, as the client got it.
  /// Its input, after the conversation that it continues.
  std::vector<std::shared_ptr<const StoredItems>> input = {};
  std::vector<std::string> item_ids = {};  ///< Of its output.
};

/// Any number of threads.
class ResponseStore {
 public:
  explicit ResponseStore(StoreLimits limits) : limits_(limits) {}

  const StoreLimits& limits() const { return limits_; }
  /// The bytes of all responses and their ids. Shared items count once.
  std::size_t bytes() const;
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
    std::string id;
    std::shared_ptr<const StoredResponse> response;
  };
  struct Owner {
    std::list<Entry> entries = {};  ///< The oldest first.
    /// Responses, and items of their outputs.
    std::unordered_map<std::string, std::list<Entry>::iterator> by_id = {};
    std::size_t bytes = 0;
  };
  const Entry* entry_of(const std::string& owner, const std::string& id) const;
  void drop(Owner& owner, std::list<Entry>::iterator entry);
  void make_room(const Owner& of_newest);

  const StoreLimits limits_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Owner> owners_;  ///< All that have ever stored one: they are few.
  std::size_t n_responses_ = 0, bytes_ = 0;
};

}  // namespace weft::server
