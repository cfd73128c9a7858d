#include "backend/mpi/mpi_link.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/remote/no_signals.h"
#include "weft/error.h"

namespace weft::mpi {
namespace {

constexpr int kTag = 1;
/// MPI counts bytes with an int, so a message goes in pieces: all but the last are of this size.
constexpr std::size_t kPiece = std::size_t{256} << 20;
/// MPI would spin for as long as it waits. A step's answer comes within a fraction of this, and is worth a
/// core; what takes longer is looked for between naps.
constexpr std::chrono::microseconds kSpin{2000};
constexpr std::chrono::microseconds kNap{50};

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ErrorCode::kDevice,
              std::string(what) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

/// What another rank does not take up any more: MPI still reads it.
void keep_for_ever(remote::Message message) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<remote::Message>;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(message));
}

/// Whether a link was given up: those that are left cannot part in peace.
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

class MpiLink final : public remote::Link {
 public:
  explicit MpiLink(int rank) : rank_(rank) {}

  void send(remote::Message message) override {
    // A last piece that is empty ends a message whose length is a multiple.
    for (std::size_t begin = 0;; begin += kPiece) {
      const std::size_t n = std::min(kPiece, message.size() - begin);
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(message.data() + begin, static_cast<int>(n), MPI_BYTE, rank_, kTag, MPI_COMM_WORLD,
                      &request),
            "a message could not be sent");
      const auto sent = [&] {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "a message could not be sent");
        return done != 0 || given_up_;
      };
      poll(sent, remote::Deadline::max());
      if (given_up_) {
        keep_for_ever(std::move(message));
        check_given_up();
      }
      if (n < kPiece) return;
    }
  }

  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    for (;;) {
      if (incoming_ == MPI_REQUEST_NULL && !begin_to_receive(deadline)) return std::nullopt;
      // A large one is fetched from the other process, which may die over it.
      const auto is_whole = [&] {
        int done = 0;
        check(MPI_Test(&incoming_, &done, MPI_STATUS_IGNORE), "no message can be received");
        return done != 0 || given_up_;
      };
      if (!poll(is_whole, deadline)) return std::nullopt;
      if (given_up_) keep_for_ever(std::exchange(pieces_, {}));
      check_given_up();
      if (n_incoming_ < kPiece) return std::exchange(pieces_, {});
    }
  }

  void give_up() noexcept override { given_up_ = is_broken = true; }

 private:
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
    n_incoming_ = static_cast<std::size_t>(n);
    const std::size_t before = pieces_.size();
    pieces_.resize(before + n_incoming_);
    check(MPI_Imrecv(pieces_.data() + before, n, MPI_BYTE, &message, &incoming_),
          "no message can be received");
    return true;
  }
  void check_given_up() const {
    if (given_up_) throw Error(ErrorCode::kDevice, "it was given up");
  }

  const int rank_;
  std::atomic<bool> given_up_ = false;
  // Of a message that has not come whole.
  remote::Message pieces_;
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::size_t n_incoming_ = 0;
};

/// At the end of the process.
void part(int status, void* /*nothing*/) {
  if (!is_broken) {
    MPI_Finalize();
    return;
  }
  // MPI_Finalize would wait for those that are lost. The leader ends them all, hung ones too. Another one,
  // which may itself be what was given up, ends nobody but itself, and so that mpirun lets the others go on.
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
      throw Error(ErrorCode::kUnsupported, "this MPI lets no two threads talk at once (MPI_THREAD_MULTIPLE)");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI does not start");
    World world;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI does not start");
    check(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI does not start");
    return world;
  }();
  return kWorld;
}

void end_all_at_exit() { ends_all = true; }

std::unique_ptr<remote::Link> link_to(int rank) { return std::make_unique<MpiLink>(rank); }

}  // namespace weft::mpi
