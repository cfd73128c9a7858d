#pragma once
#include <memory>

#include "backend/remote/link.h"

namespace weft::mpi {

/// This process's place among those that the launcher started.
struct World {
  int rank = 0;
  int size = 1;
};

/// Joins them; the first call does it, later ones tell the same. Throws Error kUnsupported where no launcher
/// started this process, or its MPI lets no two threads talk at once.
World join();
/// A way to another of them. Of two ends, each process has one. Their ends wait for what they sent, for two
/// seconds at most: what is then still on its way is taken for the end of the link.
std::unique_ptr<remote::Link> link_to(int rank);
/// The same for two that serve: `send` never waits, and what the other end does not want any more, as it may
/// be gone, breaks nothing.
std::unique_ptr<remote::Link> link_between_followers(int rank);
/// The leader is dead, which nobody else may notice: with this process all others end.
void end_all_at_exit();

}  // namespace weft::mpi
