#pragma once
// A few threads for work that would block the HTTP thread: parsing JSON, rendering templates, tokenizing,
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

  /// From any thread. False if too much work waits.
  bool run(const std::string& client, std::function<void()> work);
  /// Waits for running work, and drops queued work. Nothing runs after that.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
