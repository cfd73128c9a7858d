#pragma once
// What leader and followers say to each other. The leader asks, in the order of its calls; a follower carries
// out one request after the other, in that order, and answers those that have an answer. Followers know each
// other by their ranks, and send each other what the leader says, and nothing else. Objects have numbers
// that the leader gives. A message is what belongs to its kind, written as wire.h says, and its Label.
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
  kAnswer,
  kError,  ///< ErrorCode, text
};
inline constexpr std::size_t kKinds = std::size_t{1} + static_cast<std::size_t>(Kind::kError);

/// Stands at the end, so that neither end copies what is before it.
struct Label {
  Kind kind = Kind::kPing;
  std::uint64_t request = 0;  ///< An answer has that of what it answers.
};
Message labelled(Writer contents, const Label& label);
/// Takes the label off. Throws Error kDevice where there is none.
Label take_label(Message& message);

/// Counts the changes of what is said, and how.
inline constexpr int kProtocol = 3;
/// What both ends say of themselves: of one build, or objects are laid out otherwise. Text, which other
/// builds can read, too.
std::string build_name();

/// The first bytes of a tensor, from one follower to another: a message of kind kAnswer, or kError with text,
/// with this number. The request to send goes out before the one to receive: so nobody waits for what stands
/// behind what waits for it.
struct TransferEnd {
  std::uint64_t number = 0, bytes = 0;
  std::int32_t rank = 0;  ///< The other end.
};

/// Of one length, at equal distances.
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

/// Inputs are compared, and sent, in blocks of so many bytes.
inline constexpr std::size_t kBlockBytes = 1024;
/// Weights are sent in parts of so many bytes at most.
inline constexpr std::size_t kWeightPart = std::size_t{4} << 20;

}  // namespace weft::remote
