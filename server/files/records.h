#pragma once
// Objects with ids in the order of their creation, and the pages in which endpoints list them.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/error.h"

namespace weft::server {

/// The query of a list.
struct ListQuery {
  std::size_t limit = 20;
  std::string after = {};  ///< The id of the object before the page; empty: the first page.
  bool ascending = false;  ///< The oldest first.
};
/// Reads `limit`, `after` and `order`. Throws ApiError 400.
ListQuery read_list_query(const HttpRequest& request, std::size_t usual, std::size_t most);
/// The response: OpenAI's list of objects that have an "id".
Json list_json(Json data, bool has_more);

/// A file name or id of the server's own: the prefix and 24 random letters or digits (make_id).
bool is_own_id(std::string_view text, std::string_view prefix);
/// Nanoseconds since 1970. Each call returns a larger number.
std::int64_t creation_time();

/// Whether a client sees an object. `viewer` is Job::viewer: empty if all clients share their objects.
/// Objects of a time without keys belong to all.
template <typename Record>
bool sees(const std::string& viewer, const Record& record) {
  return viewer.empty() || record.owner.empty() || viewer == record.owner;
}

template <typename Record>
struct Page {
  std::vector<Record> records = {};
  bool has_more = false;
};

/// Used by one thread at a time. A Record has the members `id`, `owner` (the name of a key) and `created_ns`.
template <typename Record>
class Records {
 public:
  std::size_t size() const { return by_time_.size(); }
  /// Adds a record, or replaces the one with its id.
  void put(Record record) {
    remove(record.id);
    const Key key{record.created_ns, record.id};
    key_of_.emplace(record.id, key);
    by_time_.emplace(key, std::move(record));
  }
  /// Null if there is none.
  Record* find(const std::string& id) {
    const auto key = key_of_.find(id);
    return key == key_of_.end() ? nullptr : &by_time_.at(key->second);
  }
  /// Null also for a record that the client does not see.
  const Record* find(const std::string& viewer, const std::string& id) const {
    const auto key = key_of_.find(id);
    if (key == key_of_.end()) return nullptr;
    const Record& record = by_time_.at(key->second);
    return sees(viewer, record) ? &record : nullptr;
  }
  void remove(const std::string& id) {
    const auto key = key_of_.find(id);
    if (key == key_of_.end()) return;
    by_time_.erase(key->second);
    key_of_.erase(key);
  }
  /// Calls `f` with each record, the oldest first, until it returns false.
  template <typename F>
  void each(F&& f) const {
    for (const auto& [key, record] : by_time_)
      if (!f(record)) return;
  }
  /// The records that the client sees and that fit. Throws ApiError 400 if `after` is none of them.
  template <typename F>
  Page<Record> page(const ListQuery& query, const std::string& viewer, F&& fits) const {
    Page<Record> page;
    const auto add = [&](const Record& record) {
      if (!sees(viewer, record) || !fits(record)) return true;
      page.has_more = page.records.size() == query.limit;
      if (!page.has_more) page.records.push_back(record);
      return !page.has_more;
    };
    const auto after = query.after.empty() ? by_time_.end() : place_of(viewer, query.after);
    if (query.ascending) {
      for (auto at = query.after.empty() ? by_time_.begin() : std::next(after); at != by_time_.end(); ++at)
        if (!add(at->second)) break;
    } else {
      for (auto at = std::make_reverse_iterator(after); at != by_time_.rend(); ++at)
        if (!add(at->second)) break;
    }
    return page;
  }

 private:
  using Key = std::pair<std::int64_t, std::string>;

  auto place_of(const std::string& viewer, const std::string& id) const {
    if (find(viewer, id) == nullptr)
      throw bad_request("after", "'after' must be the id of an object of this list");
    return by_time_.find(key_of_.at(id));
  }

  std::map<Key, Record> by_time_;
  std::unordered_map<std::string, Key> key_of_;
};

}  // namespace weft::server
