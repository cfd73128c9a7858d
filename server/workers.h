#pragma once
// A few threads for what would hold up the HTTP thread: reading JSON, rendering templates, cutting texts into
// tokens, compiling grammars.
#include <cstddef>
#include <functional>
#include <memory>

namespace weft::server {

class Workers {
 public:
  Workers(int n_threads, std::size_t n_waiting_max);
  ~Workers();  ///< As stop().
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// From any thread. False where too much waits already.
  bool run(std::function<void()> work);
  /// Waits for what has begun; what waits is dropped, and nothing runs from then on.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
