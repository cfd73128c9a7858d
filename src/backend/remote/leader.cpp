#include "backend/remote/leader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "backend/host_tensor.h"
#include "backend/remote/conversation.h"
#include "backend/remote/file_part.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"
#include "base/hash.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::remote {
namespace {

/// What the link is measured with.
constexpr std::size_t kProbeBytes = std::size_t{1} << 20;
constexpr int kTries = 5;

/// A tensor of the follower's device. A tensor that the host reaches has a copy here, and a copy of the
/// follower's bytes, so that only differences are sent.
class RemoteTensor final : public DeviceTensor {
 public:
  RemoteTensor(std::shared_ptr<Conversation> with, std::uint64_t id, DType dtype, std::size_t bytes,
               bool host_reaches)
      : with_(std::move(with)), id_(id), dtype_(dtype), bytes_(bytes) {
    if (!host_reaches) return;
    here_.resize(bytes);
    there_.resize(bytes);
    is_known_.resize((bytes + kBlockBytes - 1) / kBlockBytes);
  }
  ~RemoteTensor() override { with_->tell(Kind::kDropTensor, Writer().put(id_)); }
  RemoteTensor(const RemoteTensor&) = delete;
  RemoteTensor& operator=(const RemoteTensor&) = delete;

  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return bytes_; }
  std::span<std::byte> host() override { return here_; }
  bool reads_source() const override { return false; }
  std::uint64_t id() const { return id_; }

  /// Writes the bytes among the first `n` that the follower lacks, as contiguous blocks. It has the results
  /// of earlier steps.
  void put_changes(std::size_t n, Writer& out) {
    if (n_coming_ > 0 || is_made_there_) return;
    for (std::size_t begin = 0; begin < n;) {
      std::size_t end = begin;
      while (end < n && differs(end, std::min(n, end + kBlockBytes))) end = std::min(n, end + kBlockBytes);
      if (end > begin) {
        out.put(WrittenPart{.tensor = id_, .offset = begin, .bytes = end - begin});
        out.raw(std::span(here_).subspan(begin, end - begin));
        std::memcpy(there_.data() + begin, here_.data() + begin, end - begin);
        know(begin, end, true);
      } else {
        end = begin + kBlockBytes;
      }
      begin = end;
    }
  }
  /// It gets all that it has there, and not here.
  void is_made_there() { is_made_there_ = true; }
  /// A step of the follower that is on its way writes it.
  void expect() { ++n_coming_; }
  void expect_no_more() { --n_coming_; }
  /// A step of the follower has written the first bytes.
  void arrived(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(here_.data(), bytes.data(), bytes.size());
    std::memcpy(there_.data(), bytes.data(), bytes.size());
    know(0, bytes.size(), true);
  }
  /// What the follower has is not known: a step failed.
  void forget() { std::fill(is_known_.begin(), is_known_.end(), false); }

 private:
  bool differs(std::size_t begin, std::size_t end) const {
    return !is_known_[begin / kBlockBytes] ||
           std::memcmp(here_.data() + begin, there_.data() + begin, end - begin) != 0;
  }
  /// A partly written block stays known, or counts if it ends with the written bytes.
  void know(std::size_t begin, std::size_t end, bool known) {
    for (std::size_t block = begin / kBlockBytes; block * kBlockBytes < end; ++block)
      if ((block + 1) * kBlockBytes <= end || end == bytes_) is_known_[block] = known;
  }

  const std::shared_ptr<Conversation> with_;
  const std::uint64_t id_;
  const DType dtype_;
  const std::size_t bytes_;
  std::vector<std::byte> here_, there_;
  std::vector<bool> is_known_;  // By block, whether there_ is what the follower has.
  bool is_made_there_ = false;
  int n_coming_ = 0;  // Steps on their way that write it.
};

RemoteTensor& remote(DeviceTensor* tensor) { return static_cast<RemoteTensor&>(*tensor); }

std::vector<std::uint64_t> ids_of(const Bindings& bindings) {
  std::vector<std::uint64_t> ids;
  for (DeviceTensor* const tensor : bindings) ids.push_back(tensor == nullptr ? 0 : remote(tensor).id());
  return ids;
}

PlanRequest request_of(const CompileOptions& options) {
  return {.shapes = options.allowed.shapes,
          .tensors = options.allowed.tensors,
          .shares_workspace = options.workspaces != nullptr};
}

class RemotePlan final : public DevicePlan {
 public:
  RemotePlan(std::shared_ptr<Conversation> with, std::uint64_t device, const Graph& graph,
             const Bindings& bindings, const CompileOptions& options)
      : with_(std::move(with)),
        id_(with_->new_id()),
        graph_(graph),
        cancelled_(options.cancelled),
        not_for_host_(options.not_for_host),
        bound_(ids_of(bindings)) {
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      if (graph.values()[v].kind == ValueKind::kInput) inputs_.push_back(static_cast<ValueId>(v));
    for (const ValueId output : graph.outputs())
      if (std::count(not_for_host_.begin(), not_for_host_.end(), output) == 0) for_host_.push_back(output);
    const Message answer = with_->call(
        Kind::kCompile,
        Writer().put(device).put(id_).put(graph).put(bound_).put(request_of(options)).put(not_for_host_));
    Reader reader(answer);
    facts_ = reader.get<PlanFacts>();
    description_ = reader.text();
  }
  ~RemotePlan() override {
    try {
      wait();
    } catch (...) {  // The caller destroys a plan and expects no error.
    }
    with_->tell(Kind::kDropPlan, Writer().put(id_));
  }
  RemotePlan(const RemotePlan&) = delete;
  RemotePlan& operator=(const RemotePlan&) = delete;

  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    wait();
    std::vector<std::uint64_t> ids = ids_of(bindings);
    Writer request;
    StepHead head{.shapes = actual.shapes, .tensors = ids != bound_, .cancelled = is_cancelled(cancelled_)};
    request.put(id_).put(head).put(symbols);
    if (head.tensors) request.put(ids);
    bound_.clear();  // Until the step is sent, the bindings there are unknown.
    written_.clear();
    coming_.clear();
    std::size_t n_bytes = 0;
    // What is in a request that is not sent, the follower does not have.
    try {
      for (const ValueId input : inputs_) {
        RemoteTensor& tensor = remote(bindings[index(input)]);
        written_.push_back(&tensor);
        tensor.put_changes(value_bytes(graph_.value(input), symbols), request);
      }
      for (const ValueId output : not_for_host_) remote(bindings[index(output)]).is_made_there();
      for (const ValueId output : for_host_)
        coming_.emplace_back(&remote(bindings[index(output)]), value_bytes(graph_.value(output), symbols));
      n_bytes = sizeof(Label) + request.message().size();
      step_ = with_->ask(Kind::kStep, std::move(request));
    } catch (...) {
      forget();
      throw;
    }
    for (const auto& [tensor, bytes] : coming_) tensor->expect();
    bound_ = std::move(ids);
    ++with_->traffic().n_steps;
    with_->traffic().bytes_there += n_bytes;
  }

  void wait() override {
    if (!step_) return;
    for (const auto& [tensor, bytes] : coming_) tensor->expect_no_more();
    const auto cancel = [&, step = *step_] {
      if (is_cancelled(cancelled_)) with_->tell(Kind::kCancel, Writer().put(id_).put(step));
    };
    try {
      const Message answer = with_->wait(*std::exchange(step_, std::nullopt), cancel);
      with_->traffic().bytes_back += sizeof(Label) + answer.size();
      Reader reader(answer);
      kernel_seconds_ = reader.get<double>();
      for (const auto& [tensor, bytes] : coming_) tensor->arrived(reader.raw(bytes));
    } catch (...) {
      forget();
      throw;
    }
  }

  PlanMemory memory() const override { return {.own = facts_.own, .shared = facts_.shared}; }
  double kernel_seconds() const override { return kernel_seconds_; }
  int n_launches() const override { return facts_.n_launches; }
  int n_phases() const override { return facts_.n_phases; }
  std::string describe() const override { return description_; }

 private:
  void forget() {
    for (RemoteTensor* const tensor : written_) tensor->forget();
    for (const auto& [tensor, bytes] : coming_) tensor->forget();
    bound_.clear();
  }

  const std::shared_ptr<Conversation> with_;
  const std::uint64_t id_;
  const Graph graph_;
  const std::atomic<bool>* const cancelled_;
  PlanFacts facts_;
  std::string description_;
  const std::vector<ValueId> not_for_host_;
  std::vector<ValueId> inputs_, for_host_;
  std::vector<std::uint64_t> bound_;  // By value: what the follower has bound.
  // Of the step on its way.
  std::optional<std::uint64_t> step_;
  std::vector<RemoteTensor*> written_;
  std::vector<std::pair<RemoteTensor*, std::size_t>> coming_;
  double kernel_seconds_ = 0.0;
};

class RemoteDevice final : public Device {
 public:
  RemoteDevice(std::shared_ptr<Conversation> with, const std::string& name_there, DeviceInfo info)
      : with_(std::move(with)), id_(with_->new_id()), info_(std::move(info)) {
    const Message answer = with_->call(Kind::kOpen, Writer().put(id_).put(name_there));
    best_cache_type_ = Reader(answer).get<DType>();
  }
  ~RemoteDevice() override { with_->tell(Kind::kDropDevice, Writer().put(id_)); }
  RemoteDevice(const RemoteDevice&) = delete;
  RemoteDevice& operator=(const RemoteDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  /// What a step made is here only once it was waited for, but there the next one has it.
  bool in_order() const override { return true; }

  bool supports(const Graph& graph, const Node& node) const override {
    const std::scoped_lock lock(mutex_);
    if (!(graph == asked_)) {
      const Message answer = with_->call(Kind::kSupports, Writer().put(id_).put(graph));
      std::vector<std::uint8_t> supported = Reader(answer).list<std::uint8_t>();
      if (supported.size() != graph.values().size()) Reader::refuse();
      supported_ = std::move(supported);
      asked_ = graph;
    }
    return supported_[index(node.output)] != 0;
  }
  DType best_cache_type() const override { return best_cache_type_; }
  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const override {
    const Message answer = with_->call(Kind::kBytesOf, Writer().put(id_).put(kind).put(dtype).put(shape));
    return Reader(answer).get<std::uint64_t>();
  }

  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) override {
    const std::uint64_t tensor = with_->new_id();
    if (!is_in_its_file(tensor, source))
      for_each_part(source, [&](std::span<const std::byte> part) {
        with_->ask(Kind::kWeightBytes, Writer().put(tensor).raw(part));
      });
    return create(Kind::kCreateWeight,
                  Writer()
                      .put(id_)
                      .put(tensor)
                      .put(dtype)
                      .put(shape)
                      .put(source.name)
                      .put(std::uint64_t{source.bytes.size()}),
                  tensor, dtype);
  }
  bool finish_weights() override {
    const Message answer = with_->call(Kind::kFinish, Writer().put(id_));
    return Reader(answer).get<bool>();
  }
  void settle() override { with_->call(Kind::kSettle, Writer().put(id_)); }

  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) override {
    const std::uint64_t tensor = with_->new_id();
    return create(Kind::kCreateState, Writer().put(id_).put(tensor).put(dtype).put(shape), tensor, dtype);
  }
  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                   std::span<const std::int64_t> shape) override {
    const std::uint64_t tensor = with_->new_id();
    const Message answer =
        with_->call(Kind::kCreateHost, Writer().put(id_).put(tensor).put(dtype).put(shape));
    const std::size_t bytes =
        row_bytes(dtype, std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    if (Reader(answer).get<std::uint64_t>() < bytes)
      throw Error(ErrorCode::kDevice, info_.name + " gives no memory for what crosses");
    return std::make_unique<RemoteTensor>(with_, tensor, dtype, bytes, true);
  }
  void read_cells(const DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) override {
    const Message answer =
        with_->call(Kind::kReadCells, Writer()
                                          .put(id_)
                                          .put(static_cast<const RemoteTensor&>(state).id())
                                          .put(role)
                                          .put(cells)
                                          .put(std::uint64_t{rows.size()}));
    const auto got = Reader(answer).raw(rows.size());
    std::copy(got.begin(), got.end(), rows.begin());
  }
  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    with_->call(Kind::kWriteCells, Writer().put(id_).put(remote(&state).id()).put(role).put(cells).raw(rows));
  }

  bool can_receive_from(const Device& other) const override {
    const auto* const from = dynamic_cast<const RemoteDevice*>(&other);
    return from != nullptr && (from->with_ == with_ || (from->with_->rank != Conversation::kNoRank &&
                                                        with_->rank != Conversation::kNoRank));
  }
  Device::Transfer send_to(Device& other, DeviceTensor& from, std::size_t bytes) override {
    const auto& to = dynamic_cast<const RemoteDevice&>(other);
    Device::Transfer transfer{.from = &from, .bytes = bytes};
    if (to.with_ == with_) return transfer;
    transfer.number = to.with_->new_id();
    with_->ask(Kind::kSend,
               Writer().put(remote(&from).id()).put(TransferEnd{transfer.number, bytes, to.with_->rank}));
    return transfer;
  }
  void receive_from(Device& other, const Device::Transfer& transfer, DeviceTensor* to) override {
    const auto& from = dynamic_cast<const RemoteDevice&>(other);
    if (to != nullptr) remote(to).is_made_there();
    const std::uint64_t tensor = to == nullptr ? 0 : remote(to).id();
    if (from.with_ == with_) {
      if (to == nullptr) return;
      with_->ask(Kind::kCopy,
                 Writer().put(remote(transfer.from).id()).put(tensor).put(std::uint64_t{transfer.bytes}));
      return;
    }
    with_->ask(Kind::kReceive,
               Writer().put(tensor).put(TransferEnd{transfer.number, transfer.bytes, from.with_->rank}));
    with_->traffic().bytes_from_others += transfer.bytes;
  }

  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    const Message answer =
        with_->call(Kind::kMemoryOf, Writer().put(id_).put(graph).put(request_of(options)));
    const auto facts = Reader(answer).get<PlanFacts>();
    return {.own = facts.own, .shared = facts.shared};
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return std::make_unique<RemotePlan>(with_, id_, graph, bindings, options);
  }

 private:
  template <typename F>
  static void for_each_part(const WeightSource& source, F f) {
    std::vector<std::byte> part;
    for (std::size_t begin = 0; begin < source.bytes.size(); begin += kWeightPart) {
      part.resize(std::min(kWeightPart, source.bytes.size() - begin));
      source.read(source.bytes.subspan(begin, part.size()), part);
      f(std::span<const std::byte>(part));
    }
  }
  /// If the bytes are in a file that the follower has too, it reads them there.
  bool is_in_its_file(std::uint64_t tensor, const WeightSource& source) {
    auto pieces = source.copied_from;
    if (pieces.n == 0) pieces = {.first = source.bytes, .n = 1, .stride = 0};
    if (pieces.n * pieces.first.size() != source.bytes.size()) return false;
    const auto file = file_part({pieces.first.data(), (pieces.n - 1) * pieces.stride + pieces.first.size()});
    if (!file) return false;
    base::Hasher hasher;
    for_each_part(source, [&](std::span<const std::byte> part) { hasher.add(part); });
    const Message answer = with_->call(
        Kind::kFileBytes,
        Writer()
            .put(tensor)
            .put(file->path)
            .put(FilePieces{
                .offset = file->offset, .bytes = pieces.first.size(), .n = pieces.n, .stride = pieces.stride})
            .put(hasher.result()));
    return Reader(answer).get<bool>();
  }
  std::unique_ptr<DeviceTensor> create(Kind kind, const Writer& request, std::uint64_t id, DType dtype) {
    const Message answer = with_->call(kind, request);
    return std::make_unique<RemoteTensor>(with_, id, dtype, Reader(answer).get<std::uint64_t>(), false);
  }
  const std::shared_ptr<Conversation> with_;
  const std::uint64_t id_;
  DeviceInfo info_;
  DType best_cache_type_ = DType::kF16;
  mutable std::mutex mutex_;
  mutable Graph asked_;  // The last one, and the response by value.
  mutable std::vector<std::uint8_t> supported_;
};

}  // namespace

Follower::Follower(std::string name, std::unique_ptr<Link> link, Patience patience)
    : conversation_(std::make_shared<Conversation>(std::move(name), std::move(link), patience)) {
  try {
    const Message answer = conversation_->call(Kind::kGreet, Writer().put(build_name()));
    devices_ = Reader(answer).list<DeviceInfo>();
    measure();
  } catch (...) {
    conversation_->end();
    throw;
  }
}

Follower::~Follower() { conversation_->end(); }

/// Figures are rounded to powers of two, so that a placement does not change from start to start.
void Follower::measure() {
  const auto seconds = [&](std::size_t n_bytes) {
    const std::vector<std::byte> bytes(n_bytes);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTries; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      conversation_->call(Kind::kPing, Writer().raw(bytes));
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  const auto rounded = [](double figure) { return std::exp2(std::round(std::log2(figure))); };
  const double empty = std::max(seconds(0), 1e-7);
  link_.seconds = rounded(empty);
  // There and back.
  link_.bytes_per_second = rounded(2.0 * kProbeBytes / std::max(seconds(kProbeBytes) - empty, 1e-7));
}

Follower::Traffic Follower::traffic() const {
  const Conversation::Traffic& so_far = conversation_->traffic();
  return {.n_steps = so_far.n_steps,
          .bytes_there = so_far.bytes_there,
          .bytes_back = so_far.bytes_back,
          .bytes_from_others = so_far.bytes_from_others};
}

void Follower::meet(int rank, std::span<const std::shared_ptr<Follower>> others) {
  std::vector<std::weak_ptr<Conversation>> to_tell;
  for (const auto& other : others)
    if (other->conversation_ != conversation_) to_tell.push_back(other->conversation_);
  conversation_->when_lost([rank, to_tell = std::move(to_tell)] {
    for (const auto& other : to_tell)
      if (const auto conversation = other.lock())
        conversation->tell(Kind::kLost, Writer().put(std::int32_t{rank}));
  });
  conversation_->rank = rank;
}

void Follower::part() { conversation_->end_watch(); }

std::string Follower::lost() const { return conversation_->lost(); }

std::shared_ptr<Device> Follower::open(const DeviceInfo& there, const OpenOptions& options,
                                       DeviceInfo info) const {
  if (!options.name.empty()) info.name = options.name;
  info.is_async = true;
  info.on_host_cpu = false;
  return std::make_shared<RemoteDevice>(conversation_, there.name, std::move(info));
}

}  // namespace weft::remote
