#include "backend/remote/peers.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/error.h"

namespace weft::remote {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kListenSlice{100};

[[noreturn]] void fail(int rank, const std::string& what) {
  throw Error(ErrorCode::kDevice, "rank " + std::to_string(rank) + " " + what);
}

}  // namespace

Peers::Peer& Peers::connected(int rank) {
  const std::scoped_lock lock(mutex_);
  Peer& peer = peers_[rank];
  if (peer.link == nullptr && !peer.is_lost) {
    if (!connect_) fail(rank, "cannot be reached from here");
    peer.link = connect_(rank);
  }
  return peer;
}

void Peers::send(const TransferEnd& to, Kind kind, Writer contents) {
  Peer& peer = connected(to.rank);
  if (peer.is_lost) return;
  try {
    peer.link->send(labelled(std::move(contents), {.kind = kind, .request = to.number}));
  } catch (const Error&) {
    if (!peer.is_lost) throw;
  }
}

/// With `reading` held. Whether something came.
bool Peers::listen_to(Peer& peer, Deadline deadline) {
  std::optional<Message> message = peer.link->receive(deadline);
  if (!message) return false;
  const Label label = take_label(*message);
  peer.arrived[label.request] = {label.kind, *std::move(message)};
  return true;
}

Message Peers::receive(const TransferEnd& from, const std::function<bool()>& is_given_up) {
  Peer& peer = connected(from.rank);
  for (;;) {
    const std::scoped_lock lock(peer.reading);
    if (const auto at = peer.arrived.find(from.number); at != peer.arrived.end()) {
      Arrived arrived = std::move(at->second);
      peer.arrived.erase(at);
      if (arrived.kind == Kind::kError) fail(from.rank, "sent nothing: " + Reader(arrived.contents).text());
      if (arrived.contents.size() != from.bytes) fail(from.rank, "sent another number of bytes");
      return std::move(arrived.contents);
    }
    if (peer.is_lost) fail(from.rank, "is lost");
    if (is_given_up()) fail(from.rank, "did not respond in time");
    try {
      listen_to(peer, Clock::now() + kListenSlice);
    } catch (const Error& error) {
      fail(from.rank, peer.is_lost ? "is lost" : error.what());
    }
  }
}

void Peers::listen() {
  std::vector<Peer*> connected;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& [rank, peer] : peers_)
      if (peer.link != nullptr && !peer.is_lost) connected.push_back(&peer);
  }
  for (Peer* const peer : connected) {
    const std::unique_lock lock(peer->reading, std::try_to_lock);
    if (!lock) continue;
    try {
      while (listen_to(*peer, Clock::now())) {
      }
    } catch (const Error&) {  // The next receiver gets the error.
    }
  }
}

void Peers::lose(int rank) {
  const std::scoped_lock lock(mutex_);
  Peer& peer = peers_[rank];
  peer.is_lost = true;
  if (peer.link != nullptr) peer.link->give_up();
}

}  // namespace weft::remote
