#include "backend/remote/server.h"

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
  if (at == objects.end()) throw Error(ErrorCode::kDevice, "the leader names an object that is not there");
  return at->second;
}

class Server {
 public:
  Server(const Registry& registry, Link& link, Patience patience)
      : registry_(registry), link_(link), patience_(patience) {}

  void run() {
    std::jthread worker([this] { work(); });
    try {
      while (take_in()) {
      }
    } catch (...) {
      link_.give_up();  // Or the worker waits for ever for who takes its answer.
      end();
      throw;
    }
    end();
  }

 private:
  struct OpenDevice {
    std::shared_ptr<Device> device;
    std::shared_ptr<Workspaces> workspaces = std::make_shared<Workspaces>();
  };
  struct OpenPlan {
    Graph graph;
    Bindings bindings;
    std::shared_ptr<std::atomic<bool>> cancelled;
    std::unique_ptr<DevicePlan> plan;  // Last: it uses the others.
  };

  /// While the worker works, what comes is taken from the link here: what need not wait is answered beside a
  /// step that runs. A worker that has nothing to do listens itself, so that nobody has to be woken for the
  /// next step.
  bool take_in() {
    {
      std::unique_lock lock(mutex_);
      idle_.wait_for(lock, kGlance, [&] { return ended_; });
      if (ended_) return false;
      if (failure_) std::rethrow_exception(failure_);
      if (!is_working_) return true;
    }
    // To listen takes a core, which the worker may need: a glance now and then will do. They must not be rare:
    // an answer and a request that are both too large for MPI to keep wait for the other end to listen.
    std::unique_lock reading(reading_, std::try_to_lock);
    if (reading) listen(kSlice.zero());
    return true;
  }

  /// With reading_ held.
  void listen(std::chrono::milliseconds slice) {
    std::optional<Message> message = link_.receive(std::chrono::steady_clock::now() + slice);
    if (!message) {
      if (silence_.so_far() <= 3 * patience_.lost_after) return;
      if (silence_.longest_absence() >= patience_.lost_after)
        throw Error(ErrorCode::kUnavailable, "this process was stopped, and its leader has given it up");
      throw Error(ErrorCode::kDevice, "the leader is not heard of any more");
    }
    silence_.broken();
    Reader reader(*message);
    const auto head = reader.get<Head>();
    if (head.kind == Kind::kPing) {
      answer(head, Kind::kAnswer, Writer().raw(reader.rest()));
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (head.kind == Kind::kCancel) {
      if (const auto at = flags_.find(reader.get<std::uint64_t>()); at != flags_.end())
        at->second->store(true);
    } else if (head.kind == Kind::kEnd) {
      ended_ = true;
      idle_.notify_one();
    } else {
      queue_.push_back(*std::move(message));
    }
  }

  /// The next message for the worker; nothing at the end.
  std::optional<Message> next() {
    for (;;) {
      {
        const std::scoped_lock lock(mutex_);
        is_working_ = false;
        if (ended_) return std::nullopt;
        if (!queue_.empty()) {
          std::optional<Message> message(std::move(queue_.front()));
          queue_.pop_front();
          is_working_ = true;
          return message;
        }
      }
      const std::scoped_lock reading(reading_);
      // Who listened before may have heard something meanwhile.
      if (has_news()) continue;
      listen(kSlice);
    }
  }
  bool has_news() {
    const std::scoped_lock lock(mutex_);
    return ended_ || !queue_.empty();
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    for (const auto& [plan, flag] : flags_) flag->store(true);
  }

  std::optional<Message> next_or_failure() {
    try {
      return next();
    } catch (...) {  // Of the link: told by the thread that serves.
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
      return std::nullopt;
    }
  }

  void work() {
    while (const std::optional<Message> message = next_or_failure()) {
      Reader reader(*message);
      const auto head = reader.get<Head>();
      try {
        Writer result;
        if (carry_out(head.kind, reader, result)) answer(head, Kind::kAnswer, result);
      } catch (const Error& error) {
        refuse(head, error.code(), error.what());
      } catch (const std::bad_alloc&) {
        refuse(head, ErrorCode::kOutOfMemory, "a follower has no memory left");
      } catch (const std::exception& error) {
        refuse(head, ErrorCode::kDevice, error.what());
      }
    }
    // In this thread, as what made them.
    plans_.clear();
    tensors_.clear();
    devices_.clear();
  }

  void refuse(const Head& head, ErrorCode code, std::string_view text) {
    if (head.kind == Kind::kWeightBytes) {  // Told when the weight is to be created.
      weight_bytes_.clear();
      return;
    }
    answer(head, Kind::kError, Writer().put(code).put(text));
  }

  void answer(const Head& asked, Kind kind, const Writer& result) {
    Writer message;
    message.put(Head{.kind = kind, .request = asked.request}).raw(result.message());
    const std::scoped_lock lock(sending_);
    try {
      link_.send(std::move(message).take());
    } catch (const Error&) {  // The thread that receives learns it, too.
    }
  }

  /// Returns whether there is an answer.
  bool carry_out(Kind kind, Reader& in, Writer& out) {
    switch (kind) {
      case Kind::kGreet: {
        if (const std::string leader = in.text(); leader != build_name())
          throw Error(ErrorCode::kUnsupported, "this process runs " + build_name() + ", the leader " +
                                                   leader + "; install the same weft on all machines");
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
        const auto offset = in.get<std::uint64_t>();
        const auto n = in.get<std::uint64_t>();
        out.put(read_file(path, offset, n, in.get<Hash128>(), weight_bytes_[id]));
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
        step(in, out);
        return true;
      case Kind::kDropTensor:
        tensors_.erase(in.get<std::uint64_t>());
        return false;
      case Kind::kDropPlan: {
        const auto id = in.get<std::uint64_t>();
        plans_.erase(id);
        const std::scoped_lock lock(mutex_);
        flags_.erase(id);
        return false;
      }
      case Kind::kDropDevice:
        devices_.erase(in.get<std::uint64_t>());
        return false;
      default:
        return false;
    }
  }

  /// Whether there is such a file. Throws where it is another one than the leader's.
  static bool read_file(const std::string& path, std::uint64_t offset, std::uint64_t n, const Hash128& hash,
                        std::vector<std::byte>& to) {
    std::optional<base::OpenFile> file;
    try {
      file.emplace(path);
    } catch (const Error&) {  // It is sent.
      return false;
    }
    const bool is_long_enough = n <= file->size() && offset <= file->size() - n;
    base::Hasher hasher;
    if (is_long_enough) {
      to.resize(n);
      hasher.add(std::span(to).first(file->read_at(offset, to)));
    }
    if (is_long_enough && hasher.result() == hash) return true;
    to.clear();
    throw Error(
        ErrorCode::kInvalidFile,
        path + " is another file here than the leader's; copy that one, or remove it, and it is sent");
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
    made.cancelled = std::make_shared<std::atomic<bool>>(false);
    made.plan = open.device->compile(made.graph, made.bindings,
                                     options(open, in.get<PlanRequest>(), made.cancelled.get()));
    const PlanMemory memory = made.plan->memory();
    out.put(PlanFacts{.own = memory.own,
                      .shared = memory.shared,
                      .n_launches = made.plan->n_launches(),
                      .n_phases = made.plan->n_phases()})
        .put(made.plan->describe());
    const std::scoped_lock lock(mutex_);
    flags_[id] = made.cancelled;
    plans_[id] = std::move(made);
  }

  void step(Reader& in, Writer& out) {
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
    plan.cancelled->store(head.cancelled);
    try {
      plan.plan->submit(symbols, plan.bindings, {.shapes = head.shapes, .tensors = head.tensors});
    } catch (...) {
      try {
        plan.plan->wait();
      } catch (...) {  // The first error is the one to tell.
      }
      throw;
    }
    plan.plan->wait();
    out.put(plan.plan->kernel_seconds());
    for (const ValueId id : plan.graph.outputs()) {
      out.raw(plan.bindings[index(id)]->host().first(value_bytes(plan.graph.value(id), symbols)));
    }
  }

  static constexpr std::chrono::milliseconds kSlice{100};
  static constexpr std::chrono::microseconds kGlance{200};

  const Registry& registry_;
  Link& link_;
  const Patience patience_;
  Silence silence_;
  std::mutex sending_;
  // Of the working thread.
  std::map<std::uint64_t, OpenDevice> devices_;
  std::map<std::uint64_t, std::unique_ptr<DeviceTensor>> tensors_;
  std::map<std::uint64_t, OpenPlan> plans_;
  std::map<std::uint64_t, std::vector<std::byte>> weight_bytes_;
  // Of both.
  std::mutex mutex_;
  std::mutex reading_;  // Held by whoever listens; mutex_ is taken behind it.
  std::condition_variable idle_;
  std::exception_ptr failure_;  // What the worker heard of the link.
  std::deque<Message> queue_;
  std::map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> flags_;
  bool is_working_ = false;
  bool ended_ = false;
};

}  // namespace

void serve(const Registry& registry, Link& link, Patience patience) {
  Server(registry, link, patience).run();
}

}  // namespace weft::remote
