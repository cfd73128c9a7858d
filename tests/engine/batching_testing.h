#pragma once
// Streams for tests of the batcher's parts, without a batcher.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/batcher_testing.h"
#include "engine/batching/stream.h"

namespace weft::test {

/// The streams of a request of one token, by their completions. The request goes in the order of its id.
inline std::vector<engine::StreamPtr> streams_of(RequestId id, RequestParams params) {
  auto request = std::make_shared<engine::Request>();
  request->id = id;
  request->params = std::move(params);
  request->prompt = {1};
  request->max_text = 64;
  request->submitted = engine::Clock::now();
  std::vector<engine::StreamPtr> streams;
  for (int i = 0; i < request->params.n; ++i)
    streams.push_back(std::make_shared<engine::Stream>(request, i, *golden("llama"),
                                                       engine::Schedule::Key{request->id, i}));
  return streams;
}

inline engine::StreamPtr stream_of(RequestId id, RequestParams params = {}) {
  return streams_of(id, std::move(params)).front();
}

}  // namespace weft::test
