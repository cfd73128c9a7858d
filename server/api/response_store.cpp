#include "api/response_store.h"

#include <utility>

namespace weft::server {
namespace {

std::string key_of_response(const std::string& owner, const std::string& id) { return owner + "\n" + id; }

}  // namespace

bool ResponseStore::add(const std::string& owner, const std::string& id, StoredResponse response) {
  const std::size_t bytes = response.bytes();
  if (bytes > limits_.bytes || limits_.n_responses == 0) return false;
  const std::string key = key_of_response(owner, id);
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) drop(found->second);
  while (!entries_.empty() && (bytes_ + bytes > limits_.bytes || entries_.size() == limits_.n_responses))
    drop(entries_.begin());
  entries_.push_back({owner, key, std::make_shared<const StoredResponse>(std::move(response))});
  by_key_.emplace(key, std::prev(entries_.end()));
  for (const std::string& item : entries_.back().response->item_ids)
    by_key_.emplace(key_of_response(owner, item), std::prev(entries_.end()));
  bytes_ += bytes;
  return true;
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& owner,
                                                          const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const std::string key = key_of_response(owner, id);
  const auto found = by_key_.find(key);
  return found == by_key_.end() || found->second->key != key ? nullptr : found->second->response;
}

std::shared_ptr<const StoredResponse> ResponseStore::find_item(const std::string& owner,
                                                               const std::string& item_id) const {
  const std::lock_guard lock(mutex_);
  const std::string key = key_of_response(owner, item_id);
  const auto found = by_key_.find(key);
  return found == by_key_.end() || found->second->key == key ? nullptr : found->second->response;
}

bool ResponseStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const std::string key = key_of_response(owner, id);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || found->second->key != key) return false;
  drop(found->second);
  return true;
}

/// With the lock.
void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->response->bytes();
  for (const std::string& item : entry->response->item_ids)
    by_key_.erase(key_of_response(entry->owner, item));
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace weft::server
