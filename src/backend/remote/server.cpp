#include "backend/remote/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/host_tensor.h"
#include "backend/remote/memory_speed.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"
#include "base/hash.h"
#include "base/open_file.h"
#include "weft/backend/device.h"
#include "weft/error.h"

namespace weft::remote {
namespace {

template <typename T>
T& found(std::map<std::uint64_t, T>& objects, std::uint64_t id) {
  const auto at = objects.find(id);
  if (at == objects.end()) throw Error(ErrorCode::kDevice, "the leader names an object that does not exist");
  return at->second;
}

class Server {
 public:
  Server(const Registry& registry, Link& link, Patience patience, Peers::Connect connect)
      : registry_(registry), link_(link), patience_(patience), peers_(std::move(connect)) {}

  void run() {
    std::jthread worker([this] { work(); });
    try {
      while (take_in()) {
      }
    } catch (...) {
      link_.give_up();  // Otherwise the worker waits forever for a reader of its response.
      end();
      throw;
    }
    end();
  }

 private:
  struct Request {
    Label label;
    Message contents;
  };
  /// Of a plan's steps. `flag` is read while one runs; the rest with mutex_ held.
  struct Cancellation {
    std::atomic<bool> flag = false;
    std::uint64_t running = 0, told = 0;  // Requests: of the step, and of the last one that may end early.
  };
  struct OpenDevice {
    std::shared_ptr<Device> device;
    std::shared_ptr<Workspaces> workspaces = std::make_shared<Workspaces>();
  };
  struct OpenPlan {
    Graph graph;
    Bindings bindings;
    std::vector<ValueId> for_host;  // Of the outputs.
    std::shared_ptr<Cancellation> cancellation;
    std::unique_ptr<DevicePlan> plan;  // Last: it uses the others.
  };

  /// While the worker works, this takes messages from the link, and responds at once to requests that need
  /// not wait for the running step. An idle worker listens itself, so that no thread has to be woken for the
  /// next step.
  bool take_in() {
    {
      std::unique_lock lock(mutex_);
      idle_.wait_for(lock, kGlance, [&] { return ended_; });
      if (ended_) return false;
      if (failure_) std::rethrow_exception(failure_);
      if (!is_working_) return true;
    }
    // Listening takes a core, which the worker may need, so it is done now and then. It must not be rare: a
    // large request arrives during the step before it, so that the worker finds it here.
    std::unique_lock reading(reading_, std::try_to_lock);
    if (reading) listen(kSlice.zero());
    peers_.listen();
    return true;
  }

  /// With reading_ held.
  void listen(std::chrono::milliseconds slice) {
    std::optional<Message> message = link_.receive(std::chrono::steady_clock::now() + slice);
    if (!message) {
      if (silence_.so_far() <= 3 * patience_.lost_after) return;
      if (silence_.longest_absence() >= patience_.lost_after)
        throw Error(ErrorCode::kUnavailable,
                    "this process was stopped, and its leader no longer waits for it");
      throw Error(ErrorCode::kDevice, "the leader no longer sends messages");
    }
    silence_.broken();
    const Label label = take_label(*message);
    if (static_cast<std::size_t>(label.kind) >= kKinds)
      throw Error(ErrorCode::kDevice,
                  "the leader has another version of weft; install the same one on all machines");
    if (label.kind == Kind::kPing) {
      answer(label, Kind::kResponse, Writer().raw(*message));
      return;
    }
    if (label.kind == Kind::kLost) {
      peers_.lose(Reader(*message).get<std::int32_t>());
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (label.kind == Kind::kCancel) {
      Reader reader(*message);
      if (const auto at = cancellations_.find(reader.get<std::uint64_t>()); at != cancellations_.end()) {
        at->second->told = reader.get<std::uint64_t>();
        if (at->second->running == at->second->told) at->second->flag = true;
      }
    } else if (label.kind == Kind::kEnd) {
      ended_ = true;
      idle_.notify_one();
    } else {
      queue_.push_back({label, *std::move(message)});
    }
  }

  /// The next message for the worker; nothing at the end.
  std::optional<Request> next() {
    for (;;) {
      {
        const std::scoped_lock lock(mutex_);
        is_working_ = false;
        if (ended_) return std::nullopt;
        if (!queue_.empty()) {
          std::optional<Request> request(std::move(queue_.front()));
          queue_.pop_front();
          is_working_ = true;
          return request;
        }
      }
      const std::scoped_lock reading(reading_);
      // The thread that listened before may have received a message in the meantime.
      if (has_news()) continue;
      listen(kSlice);
    }
  }
  bool has_news() {
    const std::scoped_lock lock(mutex_);
    return ended_ || !queue_.empty();
  }
  bool has_ended() {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    for (const auto& [plan, cancellation] : cancellations_) cancellation->flag = true;
  }

  std::optional<Request> next_or_failure() {
    try {
      return next();
    } catch (...) {  // Of the link: the serving thread reports it.
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
      return std::nullopt;
    }
  }

  void work() {
    while (const std::optional<Request> request = next_or_failure()) {
      const Label& label = request->label;
      Reader reader(request->contents);
      try {
        Writer result;
        if (carry_out(label, reader, result)) answer(label, Kind::kResponse, std::move(result));
      } catch (const Error& error) {
        refuse(label, error.code(), error.what());
      } catch (const std::bad_alloc&) {
        refuse(label, ErrorCode::kOutOfMemory, "a follower is out of memory");
      } catch (const std::exception& error) {
        refuse(label, ErrorCode::kDevice, error.what());
      }
    }
    // In this thread, as what made them.
    plans_.clear();
    tensors_.clear();
    devices_.clear();
  }

  void refuse(const Label& asked, ErrorCode code, std::string_view text) {
    if (asked.kind == Kind::kWeightBytes) {  // Told when the weight is to be created.
      weight_bytes_.clear();
      return;
    }
    if (asked.kind == Kind::kCopy || asked.kind == Kind::kSend || asked.kind == Kind::kReceive) {
      // The request has no response, and another process may wait for its result: this one ends.
      const std::scoped_lock lock(mutex_);
      failure_ = std::make_exception_ptr(Error(ErrorCode::kUnavailable, std::string(text)));
      return;
    }
    answer(asked, Kind::kError, Writer().put(code).put(text));
  }

  void answer(const Label& asked, Kind kind, Writer result) {
    Message message = labelled(std::move(result), {.kind = kind, .request = asked.request});
    const std::scoped_lock lock(sending_);
    try {
      link_.send(std::move(message));
    } catch (const Error&) {  // The thread that receives learns it, too.
    }
  }

  /// Returns whether there is a response.
  bool carry_out(const Label& asked, Reader& in, Writer& out) {
    switch (const Kind kind = asked.kind; kind) {
      case Kind::kGreet: {
        if (const std::string leader = in.text(); leader != build_name())
          throw Error(ErrorCode::kUnsupported, "this process runs " + build_name() +
                                                   ", but the leader runs " + leader +
                                                   "; install the same weft on all machines");
        std::vector<DeviceInfo> infos = registry_.devices();
        for (DeviceInfo& info : infos)
          if (info.n_threads > 0) info.speed.bytes_per_second = measure_memory(info.n_threads);
        out.put(infos);
        return true;
      }
      case Kind::kOpen: {
        const auto id = in.get<std::uint64_t>();
        const std::string name = in.text();
        OpenDevice opened{.device = registry_.open(name)};
        out.put(opened.device->best_cache_type());
        devices_[id] = std::move(opened);
        return true;
      }
      case Kind::kSupports: {
        const Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        const Graph graph = in.graph();
        std::vector<std::uint8_t> supported(graph.values().size());
        for (const Node& node : graph.nodes())
          supported[index(node.output)] = device.supports(graph, node) ? 1 : 0;
        out.put(supported);
        return true;
      }
      case Kind::kBytesOf: {
        const Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        const auto value = in.get<ValueKind>();
        const auto dtype = in.get<DType>();
        out.put(std::uint64_t{device.bytes_of(value, dtype, in.list<std::int64_t>())});
        return true;
      }
      case Kind::kFileBytes: {
        const auto id = in.get<std::uint64_t>();
        const std::string path = in.text();
        const auto pieces = in.get<FilePieces>();
        out.put(read_file(path, pieces, in.get<Hash128>(), weight_bytes_[id]));
        return true;
      }
      case Kind::kWeightBytes: {
        std::vector<std::byte>& bytes = weight_bytes_[in.get<std::uint64_t>()];
        bytes.insert(bytes.end(), in.rest().begin(), in.rest().end());
        return false;
      }
      case Kind::kCreateWeight: {
        Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        const auto id = in.get<std::uint64_t>();
        const auto dtype = in.get<DType>();
        const auto shape = in.list<std::int64_t>();
        const std::string name = in.text();
        const std::vector<std::byte> bytes = std::exchange(weight_bytes_[id], {});
        weight_bytes_.erase(id);
        if (bytes.size() != in.get<std::uint64_t>())
          throw Error(ErrorCode::kOutOfMemory, "a follower has no memory for the weight " + name);
        auto tensor = device.create_weight(dtype, shape, {.bytes = bytes, .name = name});
        out.put(std::uint64_t{tensor->bytes()});
        tensors_[id] = std::move(tensor);
        return true;
      }
      case Kind::kFinish:
        out.put(found(devices_, in.get<std::uint64_t>()).device->finish_weights());
        return true;
      case Kind::kSettle:
        found(devices_, in.get<std::uint64_t>()).device->settle();
        return true;
      case Kind::kCreateState:
      case Kind::kCreateHost: {
        Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        const auto id = in.get<std::uint64_t>();
        const auto dtype = in.get<DType>();
        const auto shape = in.list<std::int64_t>();
        auto tensor = kind == Kind::kCreateState ? device.create_state(dtype, shape)
                                                 : device.create_host_tensor(dtype, shape);
        out.put(std::uint64_t{kind == Kind::kCreateState ? tensor->bytes() : tensor->host().size()});
        tensors_[id] = std::move(tensor);
        return true;
      }
      case Kind::kReadCells: {
        Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        const DeviceTensor& state = *found(tensors_, in.get<std::uint64_t>());
        const auto role = in.get<CacheRole>();
        const auto cells = in.list<std::int32_t>();
        std::vector<std::byte> rows(in.get<std::uint64_t>());
        device.read_cells(state, role, cells, rows);
        out.raw(rows);
        return true;
      }
      case Kind::kWriteCells: {
        Device& device = *found(devices_, in.get<std::uint64_t>()).device;
        DeviceTensor& state = *found(tensors_, in.get<std::uint64_t>());
        const auto role = in.get<CacheRole>();
        const auto cells = in.list<std::int32_t>();
        device.write_cells(state, role, cells, in.rest());
        return true;
      }
      case Kind::kMemoryOf: {
        OpenDevice& open = found(devices_, in.get<std::uint64_t>());
        const Graph graph = in.graph();
        const PlanMemory memory =
            open.device->memory_of(graph, options(open, in.get<PlanRequest>(), nullptr));
        out.put(PlanFacts{.own = memory.own, .shared = memory.shared});
        return true;
      }
      case Kind::kCompile:
        compile(in, out);
        return true;
      case Kind::kStep:
        step(asked.request, in, out);
        return true;
      case Kind::kCopy: {
        const auto from = in.get<std::uint64_t>();
        const auto to = in.get<std::uint64_t>();
        fill(to, [&] { return part(from, in.get<std::uint64_t>()); });
        return false;
      }
      case Kind::kSend: {
        const auto from = in.get<std::uint64_t>();
        send(from, in.get<TransferEnd>());
        return false;
      }
      case Kind::kReceive: {
        const auto to = in.get<std::uint64_t>();
        fill(to, [&] { return peers_.receive(in.get<TransferEnd>(), [this] { return has_ended(); }); });
        return false;
      }
      case Kind::kDropTensor: {
        const auto id = in.get<std::uint64_t>();
        if (const auto at = tensors_.find(id); at != tensors_.end()) {
          missing_.erase(at->second.get());
          tensors_.erase(at);
        }
        return false;
      }
      case Kind::kDropPlan: {
        const auto id = in.get<std::uint64_t>();
        plans_.erase(id);
        const std::scoped_lock lock(mutex_);
        cancellations_.erase(id);
        return false;
      }
      case Kind::kDropDevice:
        devices_.erase(in.get<std::uint64_t>());
        return false;
      default:
        return false;
    }
  }

  static bool lies_in(const FilePieces& pieces, std::uint64_t file_bytes) {
    if (pieces.n == 0 || pieces.bytes == 0 || pieces.bytes > file_bytes ||
        pieces.offset > file_bytes - pieces.bytes)
      return false;
    return pieces.n == 1 || (pieces.stride >= pieces.bytes &&
                             pieces.stride <= (file_bytes - pieces.bytes - pieces.offset) / (pieces.n - 1));
  }

  /// Whether there is such a file. Throws where it is another one than the leader's.
  static bool read_file(const std::string& path, const FilePieces& pieces, const Hash128& hash,
                        std::vector<std::byte>& to) {
    std::optional<base::OpenFile> file;
    try {
      file.emplace(path);
    } catch (const Error&) {  // It is sent.
      return false;
    }
    if (lies_in(pieces, file->size())) {
      to.resize(pieces.n * pieces.bytes);
      base::Hasher hasher;
      for (std::uint64_t i = 0; i < pieces.n; ++i) {
        const auto piece = std::span(to).subspan(i * pieces.bytes, pieces.bytes);
        hasher.add(piece.first(file->read_at(pieces.offset + i * pieces.stride, piece)));
      }
      if (hasher.result() == hash) return true;
    }
    to.clear();
    throw Error(ErrorCode::kInvalidFile, path +
                                             " differs from the leader's file; copy that one here, or remove "
                                             "this one, and the leader sends it");
  }

  static CompileOptions options(const OpenDevice& open, const PlanRequest& request,
                                const std::atomic<bool>* cancelled) {
    return {.allowed = {.shapes = request.shapes, .tensors = request.tensors},
            .workspaces = request.shares_workspace ? open.workspaces : nullptr,
            .cancelled = cancelled};
  }

  Bindings bindings(Reader& in) {
    Bindings result;
    for (const std::uint64_t id : in.list<std::uint64_t>())
      result.push_back(id == 0 ? nullptr : found(tensors_, id).get());
    return result;
  }

  void compile(Reader& in, Writer& out) {
    OpenDevice& open = found(devices_, in.get<std::uint64_t>());
    const auto id = in.get<std::uint64_t>();
    OpenPlan made;
    made.graph = in.graph();
    made.bindings = bindings(in);
    made.cancellation = std::make_shared<Cancellation>();
    made.plan = open.device->compile(made.graph, made.bindings,
                                     options(open, in.get<PlanRequest>(), &made.cancellation->flag));
    const auto not_for_host = in.list<ValueId>();
    for (const ValueId output : made.graph.outputs())
      if (std::count(not_for_host.begin(), not_for_host.end(), output) == 0) made.for_host.push_back(output);
    const PlanMemory memory = made.plan->memory();
    out.put(PlanFacts{.own = memory.own,
                      .shared = memory.shared,
                      .n_launches = made.plan->n_launches(),
                      .n_phases = made.plan->n_phases()})
        .put(made.plan->describe());
    const std::scoped_lock lock(mutex_);
    cancellations_[id] = made.cancellation;
    plans_[id] = std::move(made);
  }

  void step(std::uint64_t request, Reader& in, Writer& out) {
    OpenPlan& plan = found(plans_, in.get<std::uint64_t>());
    const auto head = in.get<StepHead>();
    const auto symbols = in.list<std::int64_t>();
    if (head.tensors) plan.bindings = bindings(in);
    while (!in.rest().empty()) {
      const auto part = in.get<WrittenPart>();
      const std::span<std::byte> memory = found(tensors_, part.tensor)->host();
      const auto bytes = in.raw(part.bytes);
      if (part.offset > memory.size() || part.bytes > memory.size() - part.offset)
        throw Error(ErrorCode::kDevice, "the leader writes past the end of a tensor");
      std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(part.offset));
    }
    if (!missing_.empty())
      for (std::size_t v = 0; v < plan.bindings.size(); ++v)
        if (const auto at = missing_.find(plan.bindings[v]);
            at != missing_.end() && plan.graph.values()[v].kind == ValueKind::kInput)
          throw Error(ErrorCode::kDevice, at->second);
    {
      Cancellation& cancellation = *plan.cancellation;
      const std::scoped_lock lock(mutex_);
      cancellation.running = request;
      cancellation.flag = ended_ || head.cancelled || cancellation.told == request;
    }
    try {
      run(plan, symbols, {.shapes = head.shapes, .tensors = head.tensors});
    } catch (const std::exception& error) {
      for (const ValueId id : plan.graph.outputs()) missing_[plan.bindings[index(id)]] = error.what();
      throw;
    }
    if (!missing_.empty())
      for (const ValueId id : plan.graph.outputs()) missing_.erase(plan.bindings[index(id)]);
    out.put(plan.plan->kernel_seconds());
    for (const ValueId id : plan.for_host)
      out.raw(plan.bindings[index(id)]->host().first(value_bytes(plan.graph.value(id), symbols)));
  }

  static void run(OpenPlan& plan, std::span<const std::int64_t> symbols, const Changes& changes) {
    try {
      plan.plan->submit(symbols, plan.bindings, changes);
    } catch (...) {
      try {
        plan.plan->wait();
      } catch (...) {  // The first error is reported.
      }
      throw;
    }
    plan.plan->wait();
  }

  // What followers send each other.

  std::span<const std::byte> part(std::uint64_t id, std::uint64_t n_bytes) {
    DeviceTensor* const tensor = found(tensors_, id).get();
    if (const auto at = missing_.find(tensor); at != missing_.end())
      throw Error(ErrorCode::kDevice, at->second);
    const std::span<const std::byte> memory = tensor->host();
    if (n_bytes > memory.size()) Reader::refuse();
    return memory.first(n_bytes);
  }
  /// A failure has no response: steps that would read the tensor fail instead.
  template <typename F>
  void fill(std::uint64_t tensor, F contents) {
    std::string why;
    try {
      const auto bytes = contents();
      if (tensor == 0) return;
      const std::span<std::byte> memory = found(tensors_, tensor)->host();
      if (bytes.size() > memory.size()) Reader::refuse();
      std::copy(bytes.begin(), bytes.end(), memory.begin());
      missing_.erase(found(tensors_, tensor).get());
      return;
    } catch (const Error& error) {
      why = error.what();
    }
    if (const auto at = tensors_.find(tensor); at != tensors_.end()) missing_[at->second.get()] = why;
  }

  void send(std::uint64_t tensor, const TransferEnd& transfer) {
    Writer contents;
    Kind kind = Kind::kResponse;
    try {
      contents.raw(part(tensor, transfer.bytes));
    } catch (const std::exception& error) {
      contents.put(std::string_view(error.what()));
      kind = Kind::kError;
    }
    peers_.send(transfer, kind, std::move(contents));
  }

  static constexpr std::chrono::milliseconds kSlice{100};
  static constexpr std::chrono::microseconds kGlance{200};

  const Registry& registry_;
  Link& link_;
  const Patience patience_;
  Peers peers_;
  Silence silence_;
  std::mutex sending_;
  // Of the working thread.
  std::map<std::uint64_t, OpenDevice> devices_;
  std::map<std::uint64_t, std::unique_ptr<DeviceTensor>> tensors_;
  std::map<std::uint64_t, OpenPlan> plans_;
  std::map<std::uint64_t, std::vector<std::byte>> weight_bytes_;
  std::map<const DeviceTensor*, std::string> missing_;  // What has not come or was not made, and why.
  // Of both.
  std::mutex mutex_;
  std::mutex reading_;  // Held by the listening thread; mutex_ is taken after it.
  std::condition_variable idle_;
  std::exception_ptr failure_;  // The worker's error: of the link, or of a result that others rely on.
  std::deque<Request> queue_;
  std::map<std::uint64_t, std::shared_ptr<Cancellation>> cancellations_;  // By plan.
  bool is_working_ = false;
  bool ended_ = false;
};

}  // namespace

void serve(const Registry& registry, Link& link, Patience patience, Peers::Connect connect) {
  Server(registry, link, patience, std::move(connect)).run();
}

}  // namespace weft::remote
