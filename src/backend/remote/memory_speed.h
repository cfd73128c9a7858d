#pragma once
// How fast a process's CPU reads memory, which is what tokens wait for.

namespace weft::remote {

/// In bytes per second, the best of a few tries that take some hundredths of a second. 0: not enough memory.
double measure_memory(int n_threads) noexcept;

}  // namespace weft::remote
