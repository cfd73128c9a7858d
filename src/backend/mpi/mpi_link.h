#pragma once
#include <memory>

#include "backend/remote/link.h"

namespace weft::mpi {

/// This process's place among the processes that the launcher started.
struct World {
  int rank = 0;
  int size = 1;
};

/// Joins them; later calls return the same. Throws Error kUnsupported where no launcher started this process,
/// or its MPI does not support calls from several threads at once.
World join();
/// A link to another process. Each of the two processes has one end. The destructor of an end waits for sent
/// messages, for at most two seconds. Messages still in transit then count as the end of the link.
std::unique_ptr<remote::Link> link_to(int rank);
/// The same for two followers: `send` never waits. Messages that the other end no longer receives, as it may
/// be gone, are harmless.
std::unique_ptr<remote::Link> link_between_followers(int rank);
/// The leader is dead, which the others may not notice: when this process exits, all others end.
void end_all_at_exit();

}  // namespace weft::mpi
