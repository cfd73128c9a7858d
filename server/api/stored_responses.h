#pragma once
// Stored responses of /v1/responses: continuing them, and their endpoints.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/job.h"
#include "api/response_store.h"

namespace weft::server {

// GET and DELETE /v1/responses/ID, and GET /v1/responses/ID/input_items.
void show_response(Job& job);
void delete_response(Job& job);

/// Whether the request lets its response be stored, and the server can. Takes "store" out of the body.
bool takes_store(Job& job);
/// The response that a request continues.
struct Continued {
  std::shared_ptr<const StoredResponse> previous = nullptr;  ///< Null: none.
  std::size_t n_items = 0;  ///< The items of its input. They come first in the request's.
};
/// Puts the conversation that "previous_response_id" names in front of "input", and stored items in place of
/// references to them. Unknown references stay. Throws ApiError: 404 if the conversation is not stored, 400
/// for too many items, and for references that take too much memory.
Continued continue_previous(Job& job);
/// The items of a request's input, each with an id. `input` is the field after continue_previous(). Items
/// that are stored already are shared.
std::vector<std::shared_ptr<const StoredItems>> input_to_store(const Json& input, const Continued& continued);
/// Stores a response with the request's input. Returns whether it is stored.
bool store_response(ResponseStore& store, const std::string& owner, const Json& response,
                    std::vector<std::shared_ptr<const StoredItems>> input);

}  // namespace weft::server
