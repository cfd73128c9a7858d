#pragma once
// Stored responses of /v1/responses: continuing them, and their endpoints.
#include "api/job.h"
#include "api/response_store.h"

namespace weft::server {

// GET and DELETE /v1/responses/ID, and GET /v1/responses/ID/input_items.
void show_response(Job& job);
void delete_response(Job& job);

/// Whether the request lets its response be stored, and the server can. Takes "store" out of the body.
bool takes_store(Job& job);
/// Puts the conversation that "previous_response_id" names in front of "input", and stored items in place of
/// references to them. Throws ApiError 404 if the conversation is not stored. Unknown references stay.
void continue_previous(Job& job);
/// Stores a response with the request's input. Returns whether it is stored.
bool store_response(ResponseStore& store, const std::string& owner, const Json& response, std::string items);
/// The request's input as a list of items with ids, in a JSON array.
std::string items_to_store(const Json& input);

}  // namespace weft::server
