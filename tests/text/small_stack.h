#pragma once
// Runs code in a thread with a small stack: what recurses with its input dies there.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <exception>
#include <functional>

namespace weft::test {

/// Rethrows what `work` throws.
inline void run_on_stack_of(std::size_t bytes, const std::function<void()>& work) {
  struct Job {
    const std::function<void()>& work;
    std::exception_ptr error;
  } job{work, nullptr};
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    auto& started = *static_cast<Job*>(argument);
    try {
      started.work();
    } catch (...) {
      started.error = std::current_exception();
    }
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &job), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace weft::test
