// Which instruction sets this machine has, and the kernels of each.
#include <ranges>
#include <string>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/stand_ins.h"
#include "base/check.h"
#include "weft/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace weft::cpu {

#if defined(__aarch64__) && defined(__linux__)
static constexpr unsigned long kHwcap2I8mm = 1ul << 13;  // HWCAP2_I8MM, which older headers lack.
#endif

// Defined by table.inl, compiled once in the file of each instruction set.
namespace generic {
extern const Kernels kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kTable;
}
namespace avxvnni {
const Kernels& table();
}
namespace avx512 {
extern const Kernels kTable;
}
namespace avx512bf16 {
const Kernels& table();
}
namespace amx {
const Kernels& table();
}
#elif defined(__aarch64__)
namespace neon {
extern const Kernels kTable;
}
namespace i8mm {
const Kernels& table();
}
#endif

#if defined(__x86_64__)
/// Leaf 7, subleaf 1: GCC's own query has it under a name that others lack.
static bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

/// Linux enables tiles for a process that requests them. Untested on other systems.
static constexpr int kTileData = 18;

static bool has_tiles_of_bytes() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr unsigned kTilesAndInt8 = 3u << 24;  // Of leaf 7.
  constexpr int kGetSupported = 0x1021;
  unsigned a = 0, b = 0, c = 0, d = 0;
  std::uint64_t supported_parts = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTilesAndInt8) == kTilesAndInt8 &&
         syscall(SYS_arch_prctl, kGetSupported, &supported_parts) == 0 &&
         (supported_parts >> kTileData & 1) != 0;
#else
  return false;
#endif
}

/// Asked for by who uses tiles only: from then on the frames of all the process's signals are larger.
static bool may_use_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
#else
  return false;
#endif
}
#endif

static bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::kAvxVnni:
      return machine_has(Isa::kAvx2) && has_avx_vnni();
    case Isa::kAvx512:
      return machine_has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    case Isa::kAvx512Bf16:
      return machine_has(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx: {
      static const bool has = machine_has(Isa::kAvx512) && has_tiles_of_bytes();
      return has;
    }
#elif defined(__aarch64__)
    case Isa::kNeon:
#if defined(__linux__)
      return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
      return true;  // The systems without that call that weft knows have it on all their machines.
#endif
    case Isa::kI8mm:
#if defined(__linux__)
      return machine_has(Isa::kNeon) && (getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0;
#else
      return false;  // Untested on other systems.
#endif
#endif
    default:
      return false;
  }
}

bool supported(Isa isa) { return machine_has(isa) || stand_in(isa) != nullptr; }

/// Whether it is faster than the sets after it, where it is supported. Intel's processors take as long for a
/// product of pairs of bfloat16 as for four products of floats, which have half as many numbers each. So
/// attention is faster with floats there (labs/attention_lab).
static bool pays([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return false;  // Used only if requested: it was not timed on a processor.
  return isa != Isa::kAvx512Bf16 || !__builtin_cpu_is("intel");
#else
  return true;
#endif
}

Isa best_isa() {
  for (const Isa isa : kIsas | std::views::reverse)
    if (pays(isa) && supported(isa)) return isa;
  return Isa::kGeneric;
}

Isa isa_named(std::string_view name) {
  if (name.empty()) return best_isa();
  for (const Isa isa : kIsas)
    if (supported(isa) && kernels(isa).name == name) return isa;
  throw Error(ErrorCode::kUnsupported, "this machine has no instruction set \"" + std::string(name) + "\"");
}

const Kernels& kernels(Isa isa) {
  WEFT_CHECK(supported(isa));
  if (!machine_has(isa)) return *stand_in(isa);
#if defined(__x86_64__)
  // A process with small stacks for its signals is refused tiles. Without them the same bits are made.
  if (isa == Isa::kAmx) return may_use_tiles() ? amx::table() : avx512::kTable;
  if (isa == Isa::kAvx512Bf16) return avx512bf16::table();
  if (isa == Isa::kAvx512) return avx512::kTable;
  if (isa == Isa::kAvxVnni) return avxvnni::table();
  if (isa == Isa::kAvx2) return avx2::kTable;
#elif defined(__aarch64__)
  if (isa == Isa::kI8mm) return i8mm::table();
  if (isa == Isa::kNeon) return neon::kTable;
#endif
  return generic::kTable;
}

}  // namespace weft::cpu
