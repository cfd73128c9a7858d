#pragma once
// A few threads for what would hold up the HTTP thread: parsing JSON, rendering templates, tokenizing,
// compiling grammars. Clients take turns, so a client with much work delays others by one piece at most.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace weft::server {

class Workers {
 public:
  Workers(int n_threads, std::size_t n_waiting_max);
  ~Workers();  ///< As stop().
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// From any thread. False where too much waits already.
  bool run(const std::string& client, std::function<void()> work);
  /// Waits for what has begun; what waits is dropped, and nothing runs from then on.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
