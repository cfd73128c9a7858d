// Batches without HTTP and models: the host sends responses or errors, or keeps requests.
#include "files/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "files/batch_input.h"
#include "server/files_folder.h"
#include "server/running_server.h"

namespace weft::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kChat = "/v1/chat/completions";

std::string request_line(const std::string& id, const std::string& body = "{}",
                         const std::string& url = kChat) {
  return R"({"custom_id": ")" + id + R"(", "method": "POST", "url": ")" + url + R"(", "body": )" + body +
         "}\n";
}

/// The host of batches: `serve` decides what happens to a request.
struct Host {
  using Serve = std::function<void(std::shared_ptr<Exchange>)>;
  explicit Host(Serve serve_in) : serve(std::move(serve_in)) {}

  BatchHost calls() {
    return {.serve = [this](std::shared_ptr<Exchange> exchange,
                            const std::string&) { serve(std::move(exchange)); },
            .post = [](std::function<void()> call) { call(); },
            .after = [](std::chrono::milliseconds, std::function<void()> call) { call(); }};
  }
  Serve serve;
};

void respond(const std::shared_ptr<Exchange>& exchange, int status = 200, HttpHeaders headers = {}) {
  headers.emplace_back("X-Request-Id", "req_1");
  exchange->send(
      {.status = status, .body = R"({"sent":)" + exchange->request().body + "}", .headers = headers});
}

/// As the API refuses a request.
void refuse(const std::shared_ptr<Exchange>& exchange, const ApiError& error) {
  exchange->send(error_response(error, ErrorShape::kOpenAi));
}

class BatchesTest : public testing::Test {
 protected:
  void open(Host::Serve serve, FilesSetup setup) {
    batches.reset();
    store.reset();
    notes.clear();
    host = std::make_unique<Host>(std::move(serve));
    const auto note = [this](const std::string& line) { notes.push_back(line); };
    store = std::make_unique<FileStore>(setup, note);
    batches = std::make_unique<Batches>(*store, note);
    batches->start(host->calls());
  }
  void open(Host::Serve serve) { open(std::move(serve), folder.setup()); }
  void open_without_responses(const FilesSetup& setup) {
    open(
        [this](const auto& exchange) {
          const std::lock_guard lock(unanswered_mutex);
          unanswered.push_back(exchange);
        },
        setup);
  }

  Batch create(const std::string& input, const std::string& owner = "") {
    const FileInfo file = add_file(*store, input, {.owner = owner, .purpose = "batch"});
    return batches->create({.owner = owner, .endpoint = kChat, .input_file = file.id, .window = "24h"});
  }
  Batch ended(const std::string& id) {
    EXPECT_TRUE(eventually([&] { return batches->find("", id)->ended(); }));
    return *batches->find("", id);
  }
  /// The lines of a file of results by their custom_id.
  std::map<std::string, Json> results(const std::string& file) {
    std::map<std::string, Json> lines;
    if (file.empty()) return lines;
    std::istringstream text(content_of(*store, file));
    for (std::string line; std::getline(text, line);) {
      Json json = Json::parse(line);
      const auto id = json["custom_id"].get<std::string>();
      EXPECT_TRUE(lines.emplace(id, std::move(json)).second) << id << " has two results";
    }
    return lines;
  }

  FilesFolder folder;
  std::vector<std::string> notes;
  std::mutex unanswered_mutex;
  std::vector<std::shared_ptr<Exchange>> unanswered;
  std::unique_ptr<Host> host;
  std::unique_ptr<FileStore> store;
  std::unique_ptr<Batches> batches;
};

TEST_F(BatchesTest, EachRequestHasAResult) {
  open([](const auto& exchange) { respond(exchange, exchange->request().body == "{\"n\":2}" ? 400 : 200); });
  const Batch batch = ended(create(request_line("a", R"({"n":1})") + request_line("b", R"({"n":2})") +
                                   request_line("c\\n", R"({"n":3})"))
                                .id);
  EXPECT_EQ(batch.status, BatchStatus::kCompleted);
  EXPECT_EQ(batch.n_total, 3u);
  EXPECT_EQ(batch.n_completed, 2u);
  EXPECT_EQ(batch.n_failed, 1u);
  const auto output = results(batch.output_file), errors = results(batch.error_file);
  EXPECT_EQ(output.size(), 2u);
  const Json& a = output.at("a");
  EXPECT_THAT(a["id"].get<std::string>(), HasSubstr("batch_req_"));
  EXPECT_EQ(a["response"]["status_code"], 200);
  EXPECT_EQ(a["response"]["request_id"], "req_1");
  EXPECT_EQ(a["response"]["body"]["sent"]["n"], 1);
  EXPECT_TRUE(a["error"].is_null());
  EXPECT_TRUE(output.contains("c\n"));
  EXPECT_EQ(errors.at("b")["response"]["status_code"], 400);
  EXPECT_EQ(store->find("", batch.output_file)->purpose, "batch_output");
}

TEST_F(BatchesTest, BadInputsFailWithTheirLines) {
  open([](const auto& exchange) { respond(exchange); });
  const auto errors_of = [&](const std::string& input) {
    const Batch batch = ended(create(input).id);
    EXPECT_EQ(batch.status, BatchStatus::kFailed);
    std::vector<std::string> errors;
    for (const BatchError& error : batch.errors)
      errors.push_back(error.code + (error.line ? " " + std::to_string(*error.line) : ""));
    return errors;
  };
  EXPECT_THAT(errors_of(""), ElementsAre("empty_file"));
  EXPECT_THAT(errors_of("\n \r\n"), ElementsAre("empty_file"));
  EXPECT_THAT(errors_of(request_line("a") + "{\"custom_id\n[1]\n\"text\"\nnull\n" + request_line("a")),
              ElementsAre("invalid_json_line 2", "invalid_json_line 3", "invalid_json_line 4",
                          "invalid_json_line 5", "duplicate_custom_id 6"));
  EXPECT_THAT(
      errors_of(request_line("a", "{}", "/v1/embeddings") + request_line("b", "[]") + request_line("") +
                R"({"custom_id": 1, "method": "POST", "url": "/v1/chat/completions", "body": {}})"),
      ElementsAre("invalid_url 1", "invalid_type 2", "invalid_custom_id 3", "invalid_type 4"));
  EXPECT_THAT(
      errors_of(R"({"custom_id": "a", "url": "/v1/chat/completions", "body": {}})"
                "\n"
                R"({"custom_id": "a", "method": "GET", "url": "/v1/chat/completions", "body": {}})"
                "\n"
                R"({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"})"),
      ElementsAre("missing_required_parameter 1", "invalid_method 2", "missing_required_parameter 3"));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "x\n";
  EXPECT_EQ(errors_of(many).size(), 50u);
}

TEST_F(BatchesTest, InputsOfOtherEditorsAreRead) {
  open([](const auto& exchange) { respond(exchange); });
  std::string last = request_line("b");
  last.pop_back();  // The end of the file ends the last line.
  const Batch batch = ended(create("\xEF\xBB\xBF" + request_line("a") + "\r\n\n" + last + "\r\n\n\n").id);
  EXPECT_EQ(batch.status, BatchStatus::kCompleted);
  EXPECT_EQ(results(batch.output_file).size(), 2u);
}

TEST_F(BatchesTest, TheNumberOfRequestsIsBounded) {
  FilesSetup setup = folder.setup();
  setup.n_lines = 2;
  open([](const auto& exchange) { respond(exchange); }, setup);
  const Batch batch = ended(create(request_line("a") + request_line("b") + request_line("c")).id);
  ASSERT_EQ(batch.errors.size(), 1u);
  EXPECT_EQ(batch.errors[0].code, "too_many_requests");
}

TEST_F(BatchesTest, FewRequestsAreGivenOutAtATimeAndBatchesTakeTurns) {
  FilesSetup setup = folder.setup();
  setup.n_lines_at_once = 3;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  std::atomic<std::size_t> n_most = 0;
  open(
      [&](const auto& exchange) {
        const std::lock_guard lock(mutex);
        held.push_back(exchange);
        n_most = std::max(n_most.load(), held.size());
      },
      setup);
  std::string first, second;
  for (int i = 0; i < 20; ++i) {
    first += request_line(std::to_string(i), R"({"of":1})");
    second += request_line(std::to_string(i), R"({"of":2})");
  }
  const std::string one = create(first).id;
  EXPECT_TRUE(eventually([&] { return std::lock_guard(mutex), held.size() == 3; }));
  const std::string two = create(second).id;
  EXPECT_TRUE(eventually([&] { return batches->find("", two)->status == BatchStatus::kInProgress; }));
  std::string order;
  while (!batches->find("", one)->ended() || !batches->find("", two)->ended()) {
    std::shared_ptr<Exchange> next;
    {
      const std::lock_guard lock(mutex);
      if (held.empty()) continue;
      next = std::move(held.front());
      held.erase(held.begin());
    }
    order += next->request().body[6];
    respond(next);
  }
  EXPECT_EQ(n_most, 3u);
  EXPECT_EQ(order.size(), 40u);
  EXPECT_THAT(order, HasSubstr("1212121212121212"));
}

TEST_F(BatchesTest, ContinuesInAnotherProcess) {
  std::atomic<int> n_answered = 0;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  FilesSetup setup = folder.setup();
  setup.n_lines_at_once = 4;
  open(
      [&](const auto& exchange) {
        if (n_answered < 10) {
          ++n_answered;
          return respond(exchange, n_answered % 3 == 0 ? 400 : 200);
        }
        const std::lock_guard lock(mutex);
        held.push_back(exchange);
      },
      setup);
  std::string input;
  for (int i = 0; i < 30; ++i) input += request_line(std::to_string(i));
  const std::string id = create(input).id;
  EXPECT_TRUE(eventually([&] { return std::lock_guard(mutex), held.size() == 4; }));
  EXPECT_TRUE(eventually([&] {
    const Batch batch = *batches->find("", id);
    return batch.n_completed + batch.n_failed == 10;
  }));
  batches->stop();
  for (const auto& exchange : held) {
    EXPECT_TRUE(exchange->closed());
    respond(exchange);  // Too late: no batch waits.
  }
  // The process was killed while it wrote.
  std::ofstream(folder.path / (id + ".output"), std::ios::app)
      << R"({"id":"batch_req_x","custom_id":"29","resp)";
  std::atomic<int> n_again = 0;
  open([&](const auto& exchange) { ++n_again, respond(exchange); });
  const Batch batch = ended(id);
  EXPECT_EQ(batch.status, BatchStatus::kCompleted);
  EXPECT_EQ(n_again, 20);
  EXPECT_EQ(batch.n_completed, 27u);
  EXPECT_EQ(batch.n_failed, 3u);
  auto all = results(batch.output_file);
  all.merge(results(batch.error_file));
  EXPECT_EQ(all.size(), 30u);
}

TEST_F(BatchesTest, DamagedResultsAreComputedAgain) {
  open([](const auto& exchange) { respond(exchange); });
  std::string input;
  for (int i = 0; i < 6; ++i) input += request_line(std::to_string(i));
  const FileInfo file = add_file(*store, input, {.purpose = "batch"});
  batches->stop();
  const std::string id = batches->create({.endpoint = kChat, .input_file = file.id, .window = "24h"}).id;
  const std::string fine = R"(,"response":{"status_code":200,"request_id":"","body":{}},"error":null})"
                           "\n";
  std::ofstream(folder.path / (id + ".output")) << R"({"id":"x","custom_id":"0")" + fine +
                                                       R"({"id":"x","custom_id":"3")" + fine +
                                                       R"({"id":"x","custom_id":"0")" + fine +  // Twice.
                                                       R"({"id":"x","custom_id":"4")" + fine;
  std::ofstream(folder.path / (id + ".errors")) << R"({"id":"x","custom_id":"other")" + fine;
  std::atomic<int> n = 0;
  open([&](const auto& exchange) { ++n, respond(exchange); });
  const Batch batch = ended(id);
  EXPECT_EQ(n, 4);
  EXPECT_EQ(results(batch.output_file).size(), 6u);
  EXPECT_EQ(batch.error_file, "");
}

TEST_F(BatchesTest, DamagedStatesAreNotedAndIgnored) {
  open([](const auto& exchange) { respond(exchange); });
  const std::string good = create(request_line("a")).id, bad = create(request_line("a")).id,
                    other = create(request_line("a")).id;
  for (const std::string& id : {good, bad, other}) ended(id);
  batches->stop();
  std::ofstream(folder.path / (bad + ".json")) << "{\"id\": ";
  std::ofstream(folder.path / (other + ".json")) << R"({"owner": "", "created_ns": "now"})";
  open([](const auto& exchange) { respond(exchange); });
  EXPECT_EQ(notes.size(), 2u);
  EXPECT_TRUE(batches->find("", good));
  EXPECT_FALSE(batches->find("", bad));
  EXPECT_EQ(batches->list({}, "").records.size(), 1u);
}

TEST_F(BatchesTest, ACancelledBatchKeepsItsResults) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  std::atomic<int> n = 0;
  open([&](const auto& exchange) {
    if (n++ < 5) return respond(exchange);
    const std::lock_guard lock(mutex);
    held.push_back(exchange);
  });
  std::string input;
  for (int i = 0; i < 8; ++i) input += request_line(std::to_string(i));
  const std::string id = create(input, "alice").id;
  EXPECT_TRUE(eventually([&] { return batches->find("", id)->n_completed == 5; }));
  EXPECT_FALSE(batches->cancel("bob", id));
  EXPECT_TRUE(batches->cancel("", id));
  const Batch batch = ended(id);
  EXPECT_EQ(batch.status, BatchStatus::kCancelled);
  EXPECT_EQ(results(batch.output_file).size(), 5u);
  EXPECT_GT(batch.cancelled_at, 0);
  for (const auto& exchange : held) EXPECT_TRUE(exchange->closed());
  EXPECT_EQ(batches->cancel("", id)->status, BatchStatus::kCancelled);
}

TEST_F(BatchesTest, AnOverloadedServerGetsRequestsAgain) {
  std::atomic<int> n = 0;
  open([&](const auto& exchange) {
    ++n;
    if (n <= 20) return refuse(exchange, unavailable(n % 2 == 0 ? kOverloaded : kNoRoom, "busy", 1.0));
    respond(exchange);
  });
  const Batch batch = ended(create(request_line("a") + request_line("b")).id);
  EXPECT_EQ(batch.n_completed, 2u);
  EXPECT_EQ(n, 22);
  // A model that cannot be used fails its requests in the end.
  n = 0;
  open([&](const auto& exchange) { ++n, respond(exchange, 503, {{"Retry-After-Ms", "1"}}); });
  // Words of the response do not decide it.
  EXPECT_EQ(ended(create(request_line("a", R"({"code":"overloaded"})")).id).n_failed, 1u);
  EXPECT_EQ(n, 5);
}

// A client needs the memory of their models.
TEST_F(BatchesTest, RequestsInProgressYieldAndAreComputedAgain) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  std::atomic<int> n = 0, n_refused = 0;
  std::atomic<bool> is_crowded = false;
  open([&](const auto& exchange) {
    if (is_crowded) {
      is_crowded = ++n_refused < 10;
      return refuse(exchange, unavailable(kNoRoom, "no room", 1.0));
    }
    if (n < 3 || n_refused > 0) return ++n, respond(exchange);
    const std::lock_guard lock(mutex);
    held.push_back(exchange);
  });
  std::string input;
  for (int i = 0; i < 8; ++i) input += request_line(std::to_string(i));
  const std::string id = create(input).id;
  EXPECT_TRUE(eventually([&] { return std::lock_guard(mutex), held.size() == 5; }));
  EXPECT_TRUE(eventually([&] { return batches->find("", id)->n_completed == 3; }));
  is_crowded = true;
  batches->yield();
  EXPECT_TRUE(eventually([&] { return n_refused == 10; }));
  for (const auto& exchange : held) {
    EXPECT_TRUE(exchange->closed());
    respond(exchange, 400);  // Too late.
  }
  const Batch batch = ended(id);
  EXPECT_EQ(batch.status, BatchStatus::kCompleted);
  EXPECT_EQ(batch.n_completed, 8u);
  EXPECT_EQ(results(batch.output_file).size(), 8u);
  EXPECT_EQ(n, 8);
}

TEST_F(BatchesTest, OneRequestAtATimeAsksWhetherTheServerHasTime) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  std::atomic<bool> refuses = true;
  open([&](const auto& exchange) {
    if (refuses.exchange(false)) return refuse(exchange, unavailable(kOverloaded, "busy", 1.0));
    const std::lock_guard lock(mutex);
    held.push_back(exchange);
  });
  const auto n_held = [&] { return std::lock_guard(mutex), held.size(); };
  std::string input;
  for (int i = 0; i < 6; ++i) input += request_line(std::to_string(i));
  const std::string id = create(input).id;
  EXPECT_TRUE(eventually([&] { return n_held() == 5; }));  // Given out together with the refused one.
  for (const auto& exchange : std::exchange(held, {})) respond(exchange);
  EXPECT_TRUE(eventually([&] { return n_held() == 1; }));
  respond(held.front());
  EXPECT_EQ(ended(id).n_completed, 6u);
}

TEST_F(BatchesTest, ACancelledBatchIsNotValidated) {
  open([](const auto& exchange) { respond(exchange); });
  const FileInfo file = add_file(*store, request_line("a") + request_line("b"), {.purpose = "batch"});
  batches->stop();
  const std::string id = batches->create({.endpoint = kChat, .input_file = file.id, .window = "24h"}).id;
  EXPECT_EQ(batches->cancel("", id)->status, BatchStatus::kCancelling);
  // An earlier process left a result, and a part of one.
  std::ofstream(folder.path / (id + ".output"))
      << R"({"id":"x","custom_id":"a","response":{},"error":null})" << "\n{\"id\":\"x";
  open([](const auto& exchange) { respond(exchange); });
  const Batch batch = ended(id);
  EXPECT_EQ(batch.status, BatchStatus::kCancelled);
  EXPECT_EQ(batch.n_total, 0u);
  EXPECT_EQ(results(batch.output_file).size(), 1u);
}

TEST(BatchInput, EndsSoonAfterItIsStopped) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  std::string input;
  for (int i = 0; i < 1000; ++i) input += request_line(std::to_string(i));
  const FileInfo file = add_file(store, input);
  int n_lines = 0;
  BatchInput reader(store.open(file.id), kChat, 5000);
  reader.check([&] { return ++n_lines == 10; });
  EXPECT_EQ(n_lines, 10);
  EXPECT_EQ(reader.size(), 9u);
}

TEST_F(BatchesTest, RequestsWithoutAResponseAndStreamsFail) {
  open([](const auto& exchange) {
    if (exchange->request().body != "{}") respond(exchange);  // Otherwise the API drops it.
  });
  const Batch batch =
      ended(create(request_line("dropped") + request_line("stream", R"({"stream": true})")).id);
  const auto errors = results(batch.error_file);
  EXPECT_EQ(errors.at("dropped")["response"]["status_code"], 500);
  EXPECT_EQ(errors.at("stream")["response"]["status_code"], 400);
  EXPECT_EQ(batch.output_file, "");
}

TEST_F(BatchesTest, AFullFolderEndsABatchWithItsResultsSoFar) {
  FilesSetup setup = folder.setup();
  setup.folder_bytes = 12000;
  open([](const auto& exchange) { respond(exchange); }, setup);
  std::string input;
  for (int i = 0; i < 25; ++i) input += request_line(std::to_string(i));
  const Batch batch = ended(create(input).id);
  EXPECT_EQ(batch.status, BatchStatus::kFailed);
  ASSERT_EQ(batch.errors.size(), 1u);
  EXPECT_EQ(batch.errors[0].code, "storage_limit");
  EXPECT_GT(results(batch.output_file).size(), 3u);
  EXPECT_LT(results(batch.output_file).size(), 25u);
  for (const std::string& file : {batch.input_file, batch.output_file}) store->remove(*store->find("", file));
  EXPECT_EQ(ended(create(request_line("a")).id).status, BatchStatus::kCompleted);
}

TEST_F(BatchesTest, UnfinishedBatchesOfAnOwnerAreBounded) {
  FilesSetup setup = folder.setup();
  setup.n_batches = 2;
  setup.n_ended = 2;
  open_without_responses(setup);
  const std::string first = create(request_line("a"), "alice").id;
  EXPECT_EQ(batches->reader_of(batches->find("", first)->input_file), first);
  create(request_line("a"), "alice");
  try {
    create(request_line("a"), "alice");
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 429);
  }
  create(request_line("a"), "bob");
  batches->cancel("", first);
  EXPECT_EQ(ended(first).status, BatchStatus::kCancelled);
  for (int i = 0; i < 2; ++i) {  // The oldest that has ended is forgotten.
    EXPECT_TRUE(batches->find("", first));
    const std::string id = create(request_line("a"), "alice").id;
    batches->cancel("", id);
    ended(id);
  }
  create(request_line("a"), "alice");
  EXPECT_FALSE(batches->find("", first));
  EXPECT_FALSE(fs::exists(folder.path / (first + ".json")));
  batches->stop();
}

// Clients create, cancel and delete at the same time; limits hold.
TEST_F(BatchesTest, LimitsHoldForConcurrentClients) {
  FilesSetup setup = folder.setup();
  setup.n_batches = 3;
  setup.n_files = 16;
  open_without_responses(setup);
  std::atomic<int> n_refused = 0, n_files_refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        std::optional<FileInfo> file;
        try {
          file = add_file(*store, request_line("a"), {.owner = "alice", .purpose = "batch"});
          const std::string id =
              batches->create({.owner = "alice", .endpoint = kChat, .input_file = file->id, .window = "24h"})
                  .id;
          if ((i + t) % 2 == 0) batches->cancel("alice", id);
        } catch (const ApiError& error) {
          ++(error.status == 429 ? n_refused : n_files_refused);
          if (file) store->remove(*file);
        }
        std::size_t n_open = 0;
        for (const Batch& batch : batches->list({.limit = 200}, "alice").records)
          n_open += batch.ended() ? 0 : 1;
        EXPECT_LE(n_open, 3u);
        EXPECT_LE(store->list({.limit = 200}, "alice", "").records.size(), 16u);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_refused, 0);
  batches->stop();
  // Everything that was taken was given back.
  for (const FileInfo& file : store->list({.limit = 200}, "", "").records) store->remove(file);
  for (int i = 0; i < 16; ++i) add_file(*store, "");
  EXPECT_THROW(add_file(*store, ""), ApiError);
}

TEST_F(BatchesTest, AMissingInputFailsTheBatch) {
  open([](const auto& exchange) { respond(exchange); });
  const FileInfo file = add_file(*store, request_line("a"));
  batches->stop();
  const std::string id = batches->create({.endpoint = kChat, .input_file = file.id, .window = "24h"}).id;
  store->remove(file);
  open([](const auto& exchange) { respond(exchange); });
  EXPECT_EQ(ended(id).status, BatchStatus::kFailed);
}

}  // namespace
}  // namespace weft::server
