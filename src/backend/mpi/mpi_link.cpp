#include "backend/mpi/mpi_link.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/remote/no_signals.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::mpi {
namespace {

constexpr int kTag = 1;
/// MPI counts bytes with an int, so a message goes in pieces: all but the last are of this size.
constexpr std::size_t kPiece = std::size_t{256} << 20;
/// MPI would spin for as long as it waits. A step's response comes within a fraction of this, and is worth a
/// core; slower messages are polled between naps.
constexpr std::chrono::microseconds kSpin{2000};
constexpr std::chrono::microseconds kNap{50};
/// Messages of fewer bytes MPI copies, and delivers without being called again: the least of its limits here.
constexpr std::size_t kSmall = std::size_t{4} << 10;
/// While more than this is on its way to an end that does not listen, nothing more is sent.
constexpr std::size_t kMostKept = std::size_t{4} << 20;
/// The time that the end of a link waits for its sent messages.
constexpr std::chrono::seconds kPartingWait{2};

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ErrorCode::kDevice, std::string(what) + ": " + std::string(text, to_size(length)));
}

/// What another rank does not take up any more: MPI still reads or writes it.
void keep_for_ever(std::unique_ptr<remote::Message> message) noexcept {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<remote::Message>>;
  const std::scoped_lock lock(mutex);
  try {
    kept->emplace_back();
  } catch (...) {
    message.release();
    return;
  }
  kept->back() = std::move(message);
}

/// Whether a link was given up: the others cannot end in order.
std::atomic<bool> is_broken = false;
std::atomic<bool> ends_all = false;

/// Until `done` or the deadline; returns which.
template <typename F>
bool poll(F done, remote::Deadline deadline) {
  const auto spin_until = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    if (done()) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    if (now >= spin_until) {
      std::this_thread::sleep_for(kNap);
    } else {
      std::this_thread::yield();
    }
  }
}

/// A message on its way: MPI reads it until all its pieces are there.
class Sending {
 public:
  explicit Sending(remote::Message message)
      : message_(std::make_unique<remote::Message>(std::move(message))),
        pieces_(message_->size() / kPiece + 1, MPI_REQUEST_NULL) {}
  ~Sending() {
    if (message_ != nullptr) keep_for_ever(std::move(message_));
  }
  Sending(Sending&&) = default;
  Sending& operator=(Sending&&) = default;

  void begin(int rank) {
    const std::size_t n_bytes = message_->size();
    // A last piece that is empty ends a message whose length is a multiple.
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::size_t begin = i * kPiece;
      check(MPI_Isend(message_->data() + begin, static_cast<int>(std::min(kPiece, n_bytes - begin)), MPI_BYTE,
                      rank, kTag, MPI_COMM_WORLD, &pieces_[i]),
            "a message could not be sent");
    }
  }
  bool is_done() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(pieces_.size()), pieces_.data(), &done, MPI_STATUSES_IGNORE),
          "a message could not be sent");
    if (done != 0) message_.reset();
    return done != 0;
  }

 private:
  std::unique_ptr<remote::Message> message_;  // Until it is done.
  std::vector<MPI_Request> pieces_;
};

/// A computing process must not wait for another computing one: messages are sent asynchronously to the
/// caller. For large ones a thread does that, as MPI may move these only while it is called.
class MpiLink final : public remote::Link {
 public:
  enum class Between : std::uint8_t { kLeaderAndFollower, kFollowers };

  MpiLink(int rank, Between between) : rank_(rank), between_(between) {
    const remote::NoSignals inherited;
    pusher_ = std::jthread([this](const std::stop_token& stop) { push(stop); });
  }
  ~MpiLink() override {
    pusher_.request_stop();
    pusher_.join();
    if (!on_their_way_.empty() && between_ == Between::kLeaderAndFollower) give_up();
    if (incoming_ != MPI_REQUEST_NULL) keep_for_ever(std::make_unique<remote::Message>(std::move(pieces_)));
  }
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;

  void send(remote::Message message) override {
    const std::size_t n_bytes = message.size();
    Sending sending(std::move(message));
    std::unique_lock lock(mutex_);
    if (between_ == Between::kLeaderAndFollower)
      news_.wait(lock, [&] { return n_kept_ <= kMostKept || given_up_; });
    check_given_up();
    try {
      sending.begin(rank_);
      if (sending.is_done()) return;
      forget_done();
      on_their_way_.push_back({std::move(sending), n_bytes});
    } catch (...) {  // Later messages must not come without this one.
      give_up();
      throw;
    }
    n_kept_ += n_bytes;
    if (is_pushed()) news_.notify_all();
  }

  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    for (;;) {
      check_given_up();
      if (incoming_ == MPI_REQUEST_NULL && !begin_to_receive(deadline)) return std::nullopt;
      // A large one is fetched from the other process, which may die over it.
      const auto is_whole = [&] {
        int done = 0;
        check(MPI_Test(&incoming_, &done, MPI_STATUS_IGNORE), "no message can be received");
        return done != 0 || given_up_;
      };
      if (!poll(is_whole, deadline)) return std::nullopt;
      check_given_up();
      if (n_incoming_ < kPiece) return std::exchange(pieces_, {});
    }
  }

  void give_up() noexcept override {
    given_up_ = true;
    is_broken = true;
    news_.notify_all();
  }

 private:
  // With mutex_ held:
  bool is_pushed() const { return n_kept_ >= kSmall; }
  /// From the oldest on, up to one that is not done: to ask for thousands would take longer than to send.
  void forget_done() {
    while (!on_their_way_.empty() && on_their_way_.front().first.is_done()) {
      n_kept_ -= on_their_way_.front().second;
      on_their_way_.pop_front();
    }
  }
  /// Until it is to stop, and a little longer where something is on its way.
  void push(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    std::optional<remote::Deadline> last;
    while (!given_up_) {
      news_.wait(lock, stop, [&] { return is_pushed() || given_up_; });
      if (stop.stop_requested()) {
        if (!last) last = std::chrono::steady_clock::now() + kPartingWait;
        if (on_their_way_.empty() || std::chrono::steady_clock::now() >= *last) return;
      }
      try {
        forget_done();
      } catch (...) {
        failure_ = std::current_exception();
        has_failed_ = true;
        give_up();
      }
      news_.notify_all();
      lock.unlock();
      std::this_thread::sleep_for(kNap);
      lock.lock();
    }
    news_.notify_all();
  }
  bool begin_to_receive(remote::Deadline deadline) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    const auto came = [&] {
      int found = 0;
      check(MPI_Improbe(rank_, kTag, MPI_COMM_WORLD, &found, &message, &status),
            "no message can be received");
      return found != 0 || given_up_;
    };
    if (!poll(came, deadline)) return false;
    check_given_up();
    int n = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &n), "no message can be received");
    n_incoming_ = to_size(n);
    const std::size_t before = pieces_.size();
    pieces_.resize(before + n_incoming_);
    check(MPI_Imrecv(pieces_.data() + before, n, MPI_BYTE, &message, &incoming_),
          "no message can be received");
    return true;
  }
  void check_given_up() const {
    if (!given_up_) return;
    if (has_failed_) std::rethrow_exception(failure_);
    throw Error(ErrorCode::kDevice, "it was given up");
  }

  const int rank_;
  const Between between_;
  std::atomic<bool> given_up_ = false, has_failed_ = false;
  std::exception_ptr failure_;  // Of the pusher; set before has_failed_ is.
  // Of a message that has not come whole.
  remote::Message pieces_;
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::size_t n_incoming_ = 0;
  std::mutex mutex_;  // Guards messages in transit.
  std::condition_variable_any news_;
  std::deque<std::pair<Sending, std::size_t>> on_their_way_;  // With their bytes.
  std::size_t n_kept_ = 0;                                    // The sum of these.
  std::jthread pusher_;                                       // Last: it uses the others.
};

/// At the end of the process.
void part(int status, void* /*nothing*/) {
  if (!is_broken) {
    MPI_Finalize();
    return;
  }
  // MPI_Finalize would wait for lost processes. The leader ends them all, hung ones too. Another process,
  // which may itself be the lost one, ends only itself, and in a way that mpirun lets the others continue.
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 || ends_all) MPI_Abort(MPI_COMM_WORLD, status);
  std::raise(SIGKILL);
}

}  // namespace

World join() {
  static const World kWorld = [] {
    int provided = MPI_THREAD_SINGLE;
    {
      const remote::NoSignals inherited;  // By MPI's threads.
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI does not start");
    }
    on_exit(part, nullptr);
    if (provided < MPI_THREAD_MULTIPLE)
      throw Error(ErrorCode::kUnsupported, "this MPI does not support MPI_THREAD_MULTIPLE, which weft needs");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI does not start");
    World world;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI does not start");
    check(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI does not start");
    return world;
  }();
  return kWorld;
}

void end_all_at_exit() { ends_all = true; }

std::unique_ptr<remote::Link> link_to(int rank) {
  return std::make_unique<MpiLink>(rank, MpiLink::Between::kLeaderAndFollower);
}

std::unique_ptr<remote::Link> link_between_followers(int rank) {
  return std::make_unique<MpiLink>(rank, MpiLink::Between::kFollowers);
}

}  // namespace weft::mpi
