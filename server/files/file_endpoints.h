#pragma once
// /v1/files. All throw ApiError 501 without --files.
#include "api/job.h"

namespace weft::server {

void upload_file(Job& job);
void list_files(Job& job);
/// GET /v1/files/ID and /v1/files/ID/content. Calls Job::done.
void show_file(Job& job);
void delete_file(Job& job);

/// The folder of a request. Throws ApiError 501 if the server has none.
Files& files_of(const Job& job);
/// The id in a path such as /v1/files/ID/content, and the path below it. `folder`: "/v1/files/".
std::pair<std::string, std::string> id_below(const Job& job, std::string_view folder);

}  // namespace weft::server
