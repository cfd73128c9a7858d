// Many clients ask one question after another, all with the same system prompt, and the batcher serves them
// together. The system prompt is computed once. A client with a complete response asks the next question at
// once (continuous batching). With --no-cb it waits until all responses of the round are complete.
//
//   parallel -m MODEL [-np CLIENTS] [-ns SEQUENCES] [-n TOKENS] [--no-cb] [--system FILE] [--draw [FILE.svg]]
//   ...
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cache_plot.h"
#include "weft/batcher.h"
#include "weft/error.h"

namespace {

constexpr const char* kUsage =
    "usage: parallel -m MODEL [options]\n"
    "  -np N              clients at the same time (4)\n"
    "  -ns N              sequences in all (8)\n"
    "  -n N               maximum number of tokens of a response (32)\n"
    "  -cb, --no-cb       a client asks again when its response is complete (default), or when all are\n"
    "  -c N               cells of the cache (default: as many as all clients need)\n"
    "  -t N               threads (all cores)\n"
    "  --system FILE      the system prompt\n"
    "  --system-tokens N  N random tokens instead of a system prompt, for benchmarks\n"
    "  --prompt-tokens N  N random tokens instead of each question\n"
    "  --ignore-end       responses have their full length\n"
    "  --draw [FILE.svg]  plot the cache over time, in the terminal or as a file\n"
    "  --json             print only totals, as JSON\n";

constexpr std::string_view kSystem =
    "A conversation between a curious user and an assistant. The assistant answers in a sentence or two.\n\n";
constexpr std::string_view kQuestions[] = {
    "What is a loom?",      "Who was Ada Lovelace?",   "How do tides work?",
    "Why is the sky blue?", "How is bread made?",      "What do bees eat?",
    "How far is the Moon?", "What is a prime number?", "Where do rivers begin?",
    "Who invented paper?",  "What does a judge do?",   "How do birds find their way?",
};

struct Options {
  std::string model;
  int n_clients = 4;
  int n_sequences = 8;
  int n_tokens = 32;
  bool continuous = true;
  int n_cells = 0;
  int n_threads = 0;
  std::string system_file;
  int n_system = 0;
  int n_prompt = 0;
  bool ignore_end = false;
  bool draw = false;
  std::string draw_file;
  bool json = false;
};

[[noreturn]] void fail_usage(const std::string& reason) {
  std::fprintf(stderr, "parallel: %s\n%s", reason.c_str(), kUsage);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) fail_usage(std::string(option) + " needs a value");
      return argv[++i];
    };
    const auto count = [&](int& n) {
      n = std::atoi(value());
      if (n < 1) fail_usage(std::string(option) + " must be at least 1");
    };
    if (option == "-m")
      o.model = value();
    else if (option == "-np")
      count(o.n_clients);
    else if (option == "-ns")
      count(o.n_sequences);
    else if (option == "-n")
      count(o.n_tokens);
    else if (option == "-c")
      count(o.n_cells);
    else if (option == "-t")
      count(o.n_threads);
    else if (option == "-cb")
      o.continuous = true;
    else if (option == "--no-cb")
      o.continuous = false;
    else if (option == "--system")
      o.system_file = value();
    else if (option == "--system-tokens")
      count(o.n_system);
    else if (option == "--prompt-tokens")
      count(o.n_prompt);
    else if (option == "--ignore-end")
      o.ignore_end = true;
    else if (option == "--json")
      o.json = true;
    else if (option == "--draw") {
      o.draw = true;
      if (i + 1 < argc && argv[i + 1][0] != '-') o.draw_file = value();
    } else
      fail_usage("unknown option " + std::string(option));
  }
  if (o.model.empty()) fail_usage("-m is missing");
  return o;
}

/// The system prompt, and the questions after it.
struct Prompts {
  std::vector<weft::Token> system;
  std::vector<std::vector<weft::Token>> own;

  Prompts(const Options& o, const weft::Tokenizer& tokenizer) {
    std::mt19937 random(1);
    const auto random_tokens = [&](int n) {
      std::vector<weft::Token> tokens(static_cast<std::size_t>(n));
      for (weft::Token& token : tokens)
        token = static_cast<weft::Token>(random() % static_cast<unsigned>(tokenizer.n_vocab()));
      return tokens;
    };
    system = o.n_system > 0 ? random_tokens(o.n_system) : tokenizer.encode(system_prompt(o));
    for (int i = 0; i < o.n_sequences; ++i) {
      const auto question = kQuestions[static_cast<std::size_t>(i) % std::size(kQuestions)];
      own.push_back(o.n_prompt > 0 ? random_tokens(o.n_prompt)
                                   : tokenizer.encode("User: " + std::string(question) + "\nAssistant:",
                                                      {.add_special = false}));
    }
  }

  static std::string system_prompt(const Options& o) {
    if (o.system_file.empty()) return std::string(kSystem);
    std::ifstream file(o.system_file, std::ios::binary);
    if (!file) throw weft::Error(weft::ErrorCode::kNotFound, "cannot open '" + o.system_file + "'");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  int n_longest() const {
    std::size_t n = 0;
    for (const auto& tokens : own) n = std::max(n, tokens.size());
    return static_cast<int>(n);
  }
};

/// The response to a request, and its statistics.
struct Response {
  int client = 0;
  std::string text;
  weft::StopReason stop = weft::StopReason::kEnd;
  weft::CompletionStats stats;
};

class Day {
 public:
  Day(const Options& options, const Prompts& prompts, weft::Context& context)
      : options_(options),
        prompts_(prompts),
        context_(context),
        batcher_(context, {.n_running = options.n_clients}),
        responses_(prompts.own.size()),
        held_(static_cast<std::size_t>(options.n_clients), CachePlot::Share{0, 0}) {
    if (options.draw) plot_.emplace(context.cache().cells_total(), static_cast<int>(prompts.system.size()));
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (n_begun_ < options_.n_sequences) {
      for (int client = 0; client < options_.n_clients; ++client) ask(client);
      while (batcher_.step())
        if (plot_) plot_->add({seconds(), context_.cache().cells_used(), held_});
    }
    seconds_ = seconds();
    cpu_seconds_ = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  }

  const std::vector<Response>& responses() const { return responses_; }
  weft::BatcherStats stats() const { return batcher_.stats(); }
  const CachePlot* plot() const { return plot_ ? &*plot_ : nullptr; }
  double seconds() const { return seconds_; }
  double cpu_seconds() const { return cpu_seconds_; }  // Of all threads.

 private:
  /// The client submits the next question, if there is one.
  void ask(int client) {
    if (n_begun_ == options_.n_sequences) return;
    const int sequence = n_begun_++;
    response(sequence).client = client;
    std::vector<weft::Token> prompt = prompts_.system;
    const auto& own = prompts_.own[static_cast<std::size_t>(sequence)];
    prompt.insert(prompt.end(), own.begin(), own.end());

    weft::RequestParams params{.n_predict = options_.n_tokens, .ignore_end = options_.ignore_end};
    params.sampler.temperature = 0.0f;
    if (options_.n_prompt == 0) params.stop = {"\nUser:"};
    params.on_output = [this, client, sequence,
                        n_held = static_cast<int>(own.size()) - 1](const weft::Output& output) mutable {
      response(sequence).text += output.text;
      n_held += static_cast<int>(output.tokens.size());  // The last one drawn is not in the cache yet.
      held_[static_cast<std::size_t>(client)] = {sequence, output.done ? 0 : n_held};
      if (output.done) {
        response(sequence).stop = output.stop;
        response(sequence).stats = output.stats;
        if (options_.continuous) ask(client);
      }
      return true;
    };
    batcher_.submit(prompt, std::move(params));
  }
  Response& response(int sequence) { return responses_[static_cast<std::size_t>(sequence)]; }

  const Options& options_;
  const Prompts& prompts_;
  weft::Context& context_;
  weft::Batcher batcher_;
  std::vector<Response> responses_;
  std::vector<CachePlot::Share> held_;  // By client.
  std::optional<CachePlot> plot_;
  int n_begun_ = 0;
  double seconds_ = 0.0;
  double cpu_seconds_ = 0.0;
};

/// The start of a string, in one line.
std::string in_a_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, 60)) line += static_cast<unsigned char>(c) < ' ' || c == 127 ? ' ' : c;
  // No half of a character at the end.
  while (line.size() == 60 && !line.empty() && (line.back() & 0x80) != 0) line.pop_back();
  return line;
}

void print_json(const Day& day, const weft::Context& context) {
  const weft::BatcherStats s = day.stats();
  std::printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"decode_seconds\": %.6f, ", day.seconds(),
              day.cpu_seconds(), s.decode_seconds);
  std::printf("\"host_seconds\": %.6f, \"steps\": %lld, ", s.host_seconds, static_cast<long long>(s.n_steps));
  std::printf(
      "\"prompt_tokens\": %lld, \"cached_tokens\": %lld, \"generated_tokens\": %lld, \"misses\": %lld, ",
      static_cast<long long>(s.n_prompt_tokens), static_cast<long long>(s.n_cached_tokens),
      static_cast<long long>(s.n_generated_tokens), static_cast<long long>(s.n_preempted));
  std::printf("\"cells_peak\": %d, \"plans_compiled\": %lld}\n", s.cells_peak,
              static_cast<long long>(context.plan_stats().compiled));
}

void print_table(const Day& day, const weft::Context& context) {
  std::printf("client  sequence  prompt  cached  generated  tokens/s  response\n");
  for (std::size_t i = 0; i < day.responses().size(); ++i) {
    const Response& a = day.responses()[i];
    std::printf("%6d  %8zu  %6d  %6d  %9d  %8.1f %s%s\n", a.client, i, a.stats.n_prompt, a.stats.n_cached,
                a.stats.n_generated, 1e3 * a.stats.n_generated / std::max(a.stats.total_ms, 1e-3),
                in_a_line(a.text).c_str(), a.stop == weft::StopReason::kContextFull ? " (context full)" : "");
  }
  const weft::BatcherStats s = day.stats();
  const auto n_prompt = static_cast<double>(s.n_prompt_tokens);
  const auto n_generated = static_cast<double>(s.n_generated_tokens);
  std::printf("\nprompts    %6.0f tokens computed, %lld cached\n", n_prompt,
              static_cast<long long>(s.n_cached_tokens));
  std::printf("responses  %6.0f tokens\n", n_generated);
  std::printf("total      %6.2f s, %.1f tokens/s computed, %.1f generated\n", day.seconds(),
              (n_prompt + n_generated) / day.seconds(), n_generated / day.seconds());
  std::printf("steps      %6lld, %.1f tokens in each; plans compiled: %lld\n",
              static_cast<long long>(s.n_steps),
              (n_prompt + n_generated) / static_cast<double>(std::max<std::int64_t>(s.n_steps, 1)),
              static_cast<long long>(context.plan_stats().compiled));
  std::printf("cells      %6d of %d in use at most; %lld preemptions\n", s.cells_peak,
              context.cache().cells_total(), static_cast<long long>(s.n_preempted));
}

void draw(const CachePlot& plot, const std::string& path) {
  if (path.empty()) {
    std::printf("\n%s", plot.as_text(isatty(STDOUT_FILENO) != 0).c_str());
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << plot.as_svg();
  if (!file.flush()) throw weft::Error(weft::ErrorCode::kIo, "cannot write '" + path + "'");
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const auto model = weft::Model::load(options.model, {.n_threads = options.n_threads});
  const Prompts prompts(options, model->tokenizer());
  // Whole pages are shared: the one in which the system prompt ends is each client's own.
  constexpr int kPage = 64;
  const int n_own = prompts.n_longest() + options.n_tokens + kPage;
  const int n_needed = static_cast<int>(prompts.system.size()) + options.n_clients * n_own;
  weft::Context context(model, {.n_ctx = options.n_cells > 0 ? options.n_cells : n_needed,
                                .n_sequences = options.n_clients,
                                .n_threads = options.n_threads});
  Day day(options, prompts, context);
  day.run();
  if (options.json) {
    print_json(day, context);
  } else {
    print_table(day, context);
  }
  if (day.plot() != nullptr) draw(*day.plot(), options.draw_file);
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "parallel: %s\n", error.what());
  return 1;
}
