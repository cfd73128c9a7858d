#include "api/response_store.h"

namespace weft::server {
namespace {

/// The nodes of an id. Its characters are stored twice.
constexpr std::size_t kIdBytes = 128;

/// Without the items of its input.
std::size_t own_bytes(const std::string& id, const StoredResponse& response) {
  std::size_t bytes = response.response.size() + kIdBytes + 2 * id.size();
  bytes += response.input.size() * sizeof(response.input.front());
  for (const std::string& item : response.item_ids) bytes += kIdBytes + 2 * item.size();
  return bytes;
}

}  // namespace

bool ResponseStore::add(const std::string& owner, const std::string& id, StoredResponse response) {
  std::size_t bytes = own_bytes(id, response);
  std::size_t with_items = bytes;
  for (const auto& items : response.input) with_items += items->json().size();
  if (with_items > limits_.bytes || limits_.n_responses == 0) return false;
  const std::lock_guard lock(mutex_);
  Owner& own = owners_[owner];
  if (const auto found = own.by_id.find(id); found != own.by_id.end()) drop(own, found->second);
  own.entries.push_back({id, std::make_shared<const StoredResponse>(std::move(response))});
  const auto entry = std::prev(own.entries.end());
  for (const auto& items : entry->response->input)
    if (items->n_responses_++ == 0) bytes += items->json().size();
  own.bytes += bytes;
  bytes_ += bytes;
  ++n_responses_;
  own.by_id.emplace(id, entry);
  for (const std::string& item : entry->response->item_ids) own.by_id.emplace(item, entry);
  make_room(own);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& owner,
                                                          const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = entry_of(owner, id);
  return entry == nullptr || entry->id != id ? nullptr : entry->response;
}

std::shared_ptr<const StoredResponse> ResponseStore::find_item(const std::string& owner,
                                                               const std::string& item_id) const {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = entry_of(owner, item_id);
  return entry == nullptr || entry->id == item_id ? nullptr : entry->response;
}

bool ResponseStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = entry_of(owner, id);
  if (entry == nullptr || entry->id != id) return false;
  Owner& own = owners_.at(owner);
  drop(own, own.by_id.at(id));
  return true;
}

/// With the lock. Null if the owner has no response or item of the id.
const ResponseStore::Entry* ResponseStore::entry_of(const std::string& owner, const std::string& id) const {
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return nullptr;
  const auto found = own->second.by_id.find(id);
  return found == own->second.by_id.end() ? nullptr : &*found->second;
}

/// With the lock.
void ResponseStore::drop(Owner& owner, std::list<Entry>::iterator entry) {
  const StoredResponse& response = *entry->response;
  std::size_t bytes = own_bytes(entry->id, response);
  for (const auto& items : response.input)
    if (--items->n_responses_ == 0) bytes += items->json().size();
  owner.bytes -= bytes;
  bytes_ -= bytes;
  --n_responses_;
  for (const std::string& item : response.item_ids) owner.by_id.erase(item);
  owner.by_id.erase(entry->id);
  owner.entries.erase(entry);
}

/// With the lock. Keeps the newest response: alone it is within the limits.
void ResponseStore::make_room(const Owner& of_newest) {
  while (n_responses_ > limits_.n_responses || bytes_ > limits_.bytes) {
    const bool by_number = n_responses_ > limits_.n_responses;
    Owner* most = nullptr;
    for (auto& [name, owner] : owners_) {
      if (owner.entries.size() == (&owner == &of_newest ? 1u : 0u)) continue;
      if (most == nullptr ||
          (by_number ? owner.entries.size() > most->entries.size() : owner.bytes > most->bytes))
        most = &owner;
    }
    drop(*most, most->entries.begin());
  }
}

}  // namespace weft::server
