#pragma once
// The protocol of leader and followers. The leader sends requests in the order of its calls. A follower
// executes them one after the other, and responds to requests that have a response. Followers know each other
// by their ranks, and send each other only values that the leader names. Objects have numbers that the leader
// gives. A message is the contents of its kind, written as in wire.h, and its Label.
#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/remote/link.h"
#include "backend/remote/wire.h"

namespace weft::remote {

enum class Kind : std::uint8_t {
  // Of the leader.
  kGreet,         ///< build_name() -> device infos; an error where they are not of one build
  kPing,          ///< bytes -> at once, also while the follower computes
  kOpen,          ///< device, name of the device -> best cache type
  kSupports,      ///< device, graph -> a byte by value: whether there is a node that makes it there
  kBytesOf,       ///< device, value kind, type, dims -> bytes
  kFileBytes,     ///< tensor, path, FilePieces, hash of all -> bool: whether that file is there. It has the
                  ///< bytes of a weight to be created, then; an error where it has others
  kWeightBytes,   ///< tensor, bytes: more of a weight to be created
  kCreateWeight,  ///< device, tensor, type, dims, name, number of bytes -> bytes
  kFinish,        ///< device -> bool
  kSettle,        ///< device ->
  kCreateState,   ///< device, tensor, type, dims -> bytes
  kCreateHost,    ///< device, tensor, type, dims -> bytes that the host reaches
  kReadCells,     ///< device, tensor, role, cells, bytes -> rows
  kWriteCells,    ///< device, tensor, role, cells, rows ->
  kMemoryOf,      ///< device, graph, PlanRequest -> PlanMemory
  kCompile,       ///< device, plan, graph, tensors, PlanRequest, not for the host -> PlanFacts, description
  kStep,     ///< plan, StepHead, symbols, tensors?, written parts -> seconds of kernels, outputs for the host
  kCopy,     ///< tensor, tensor that gets them, bytes
  kSend,     ///< tensor, TransferEnd: that follower gets the bytes
  kReceive,  ///< tensor or 0, TransferEnd: gets them. Where that fails, steps that read them fail
  kLost,     ///< rank: that follower is lost
  kCancel,   ///< plan, request: that step of its may end early
  kDropTensor,  ///< tensor
  kDropPlan,    ///< plan
  kDropDevice,  ///< device
  kEnd,         ///< The follower goes.
  // Of a follower.
  kResponse,
  kError,  ///< ErrorCode, text
};
inline constexpr std::size_t kKinds = std::size_t{1} + static_cast<std::size_t>(Kind::kError);

/// It is at the end, so that neither end copies the bytes before it.
struct Label {
  Kind kind = Kind::kPing;
  std::uint64_t request = 0;  ///< A response has its request's number.
};
Message labelled(Writer contents, const Label& label);
/// Takes the label off. Throws Error kDevice where there is none.
Label take_label(Message& message);

/// The version of the protocol.
inline constexpr int kProtocol = 3;
/// The build of an end. Both must be equal, because otherwise objects have different layouts. A string, so
/// that other builds can read it, too.
std::string build_name();

/// The first bytes of a tensor, from one follower to another, with this number. The message has kind
/// kResponse, or kError with a string. The request to send is sent before the request to receive. So no
/// follower waits for a message that comes after the follower's own wait.
struct TransferEnd {
  std::uint64_t number = 0, bytes = 0;
  std::int32_t rank = 0;  ///< The other end.
};

/// Pieces of one length, at equal distances.
struct FilePieces {
  std::uint64_t offset = 0, bytes = 0, n = 0, stride = 0;
};

struct PlanRequest {
  bool shapes = false, tensors = false;  ///< Changes that are allowed.
  bool shares_workspace = false;
};

struct PlanFacts {
  std::uint64_t own = 0, shared = 0;
  std::int32_t n_launches = 0, n_phases = 0;
};

struct StepHead {
  bool shapes = false, tensors = false;  ///< What did change.
  bool cancelled = false;
};

/// Part of an input's memory that the leader wrote; the bytes follow.
struct WrittenPart {
  std::uint64_t tensor = 0, offset = 0, bytes = 0;
};

/// Inputs are compared, and sent, in blocks of this many bytes.
inline constexpr std::size_t kBlockBytes = 1024;
/// Weights are sent in parts of at most this many bytes.
inline constexpr std::size_t kWeightPart = std::size_t{4} << 20;

}  // namespace weft::remote
