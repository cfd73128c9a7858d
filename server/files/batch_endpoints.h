#pragma once
// /v1/batches. All throw ApiError 501 without --files.
#include "api/job.h"

namespace weft::server {

void create_batch(Job& job);
void list_batches(Job& job);
void show_batch(Job& job);
/// POST /v1/batches/ID/cancel
void act_on_batch(Job& job);

}  // namespace weft::server
