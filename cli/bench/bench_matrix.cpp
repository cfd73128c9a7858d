#include "bench/bench_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "options/arguments.h"

namespace weft::cli {
namespace {

/// The comma-separated parts of an option's value.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<int> parse_list(const std::string& name, const std::string& text) {
  std::vector<int> values;
  for (const std::string& part : split(text)) {
    try {
      const std::int64_t value = parse_size(part);
      if (value < 0) throw UsageError(fmt::format("{} is negative", value));
      values.push_back(static_cast<int>(value));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
  }
  return values;
}

/// The same, but 0 means none.
std::vector<int> parse_sizes(const std::string& name, const std::string& text) {
  std::vector<int> values = parse_list(name, text);
  std::erase(values, 0);
  return values;
}

std::vector<ParallelTest> parallel_tests(const BenchOptions& options, const std::vector<int>& prompts,
                                         const std::vector<int>& generates) {
  if (prompts.empty() || generates.empty())
    throw UsageError("streams need a prompt and tokens to generate: give -p and -n sizes above 0");
  std::vector<int> counts =
      options.streams.empty() ? doubling(options.n_parallel) : parse_list("--streams", options.streams);
  for (const int n : counts)
    if (n < 1 || n > kMaxStreams)
      throw UsageError(fmt::format("--streams: {} is not from 1 to {}", n, kMaxStreams));
  // --parallel N compares both kinds of prompts; --streams measures one kind.
  const bool both = options.streams.empty() && !options.shared_prompt;
  std::vector<ParallelTest> tests;
  for (const int n_prompt : prompts) {
    for (const int n_generate : generates) {
      for (const int n : counts) {
        const bool can_share = n > 1;
        if (both || !options.shared_prompt || !can_share) tests.push_back({n, false, n_prompt, n_generate});
        if (can_share && (both || options.shared_prompt)) tests.push_back({n, true, n_prompt, n_generate});
      }
    }
  }
  return tests;
}

std::vector<SingleTest> single_tests(const BenchOptions& options, const std::vector<int>& prompts,
                                     const std::vector<int>& generates) {
  std::vector<SingleTest> tests;
  for (const int depth : parse_list("--depth", options.depths)) {
    for (const int n : prompts) tests.push_back({n, 0, depth});
    for (const int n : generates) tests.push_back({0, n, depth});
    for (const std::string& text : options.mixed) {
      const std::vector<int> pair = parse_list("--prompt-generate", text);
      if (pair.size() != 2 || pair[0] + pair[1] == 0)
        throw UsageError(fmt::format("--prompt-generate: '{}' is not PP,TG, e.g. 512,128", text));
      tests.push_back({pair[0], pair[1], depth});
    }
  }
  if (tests.empty()) throw UsageError("nothing to measure: give -p, -n or -pg a size");
  return tests;
}

}  // namespace

Matrix parse_matrix(const BenchOptions& options) {
  Matrix matrix;
  const bool parallel = options.n_parallel > 0 || !options.streams.empty();
  const auto or_default = [](const std::string& text, const char* value) {
    return text.empty() ? value : text;
  };
  const auto prompts =
      parse_sizes("--prompt-size", or_default(options.prompt_sizes, parallel ? "128" : "512"));
  const auto generates =
      parse_sizes("--generate-size", or_default(options.generate_sizes, parallel ? "32" : "128"));
  if (parallel) {
    if (!options.mixed.empty() || options.depths != "0")
      throw UsageError("--prompt-generate and --depth cannot be combined with --streams or --parallel");
    matrix.parallel = parallel_tests(options, prompts, generates);
  } else {
    if (options.shared_prompt) throw UsageError("--shared-prompt needs --streams or --parallel");
    matrix.single = single_tests(options, prompts, generates);
  }

  const auto sizes_or = [](const std::string& name, const std::string& text, int value) {
    return text.empty() ? std::vector<int>{value} : parse_list(name, text);
  };
  const auto types_or = [](const std::string& name, const std::string& text) {
    std::vector<CacheType> types;
    for (const std::string& part : split(text.empty() ? "auto" : text))
      types.push_back(parse_cache_type(name, part));
    return types;
  };
  for (const int n_threads : sizes_or("--threads", options.threads, options.model.n_threads)) {
    if (n_threads > kMaxThreads)
      throw UsageError(
          fmt::format("--threads: {} is out of range, it must be from 0 to {}", n_threads, kMaxThreads));
    for (const int n_batch : sizes_or("--batch-size", options.batch_sizes, 0)) {
      for (const int n_ubatch : sizes_or("--ubatch-size", options.ubatch_sizes, 0)) {
        for (const CacheType k_type : types_or("--cache-type-k", options.k_types)) {
          for (const CacheType v_type : types_or("--cache-type-v", options.v_types)) {
            Matrix::Setting setting{n_threads, options.context};
            setting.context.n_batch = n_batch;
            setting.context.n_ubatch = n_ubatch;
            setting.context.k_type = k_type;
            setting.context.v_type = v_type;
            matrix.settings.push_back(setting);
          }
        }
      }
    }
  }
  return matrix;
}

}  // namespace weft::cli
