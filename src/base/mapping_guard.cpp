#include "base/mapping_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace weft::base {

/// A guarded range, in a list that only grows: a slot is taken again once its guard is gone. The handler
/// reads the list without locks.
struct MappingGuard::Slot {
  std::atomic<bool> taken{true};
  std::atomic<std::uint32_t> version{0};  // Odd while the range changes.
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
  std::atomic<bool> lost{false};
  Slot* next = nullptr;
};

namespace {

using Slot = MappingGuard::Slot;

// A signal handler has no other way to learn of ranges.
std::atomic<Slot*> slots{nullptr};
std::atomic<bool> allowed_guards{true};
struct sigaction previous = {};

static_assert(std::atomic<Slot*>::is_always_lock_free && std::atomic<std::uintptr_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

void set_range(Slot& slot, std::uintptr_t begin, std::size_t size) {
  slot.version.fetch_add(1);
  slot.begin.store(begin);
  slot.size.store(size);
  slot.version.fetch_add(1);
}

/// A slot whose range is changing belongs to another mapping: the slot of a mapped address does not change.
bool holds(const Slot& slot, std::uintptr_t address) {
  const std::uint32_t version = slot.version.load();
  const std::uintptr_t begin = slot.begin.load();
  const std::size_t size = slot.size.load();
  return version % 2 == 0 && slot.version.load() == version && address >= begin && address - begin < size;
}

// From here to the handler: async-signal-safe code only.

/// A system call of its own, as sanitizers take note of mmap in ways that a handler must not.
bool map_zeros(std::uintptr_t begin, std::size_t size) {
  return ::syscall(SYS_mmap, begin, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                   -1L, 0L) != -1;
}

bool replace_lost(std::uintptr_t address) {
  for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
    if (!holds(*slot, address)) continue;
    slot->lost.store(true);  // First: no reader may take the zeros for the file's.
    return map_zeros(slot->begin.load(), slot->size.load());
  }
  return false;
}

/// What would happen without this handler.
void hand_on(int signal, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;
  const bool is_default = previous.sa_handler == SIG_DFL ||
                          (previous.sa_handler == SIG_IGN && is_fault);  // As the system has it.
  if (!is_default) {
    if (previous.sa_handler == SIG_IGN) return;
    const struct sigaction handler = previous;
    if ((handler.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) previous = {};  // It is called once.
    if ((handler.sa_flags & SA_SIGINFO) != 0) return handler.sa_sigaction(signal, info, context);
    return handler.sa_handler(signal);
  }
  // A later handler that could not mend a fault raises the signal. The faulting instruction runs again when
  // it returns, and the fault comes here.
  if (info->si_code == SI_TKILL && info->si_pid == ::getpid()) return;
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  if (!is_fault) ::raise(signal);  // Comes when this handler returns; a fault comes again by itself.
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;
  if (!is_fault || !replace_lost(reinterpret_cast<std::uintptr_t>(info->si_addr)))
    hand_on(signal, info, context);
  errno = error;
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::sigaction(SIGBUS, nullptr, &previous);  // Before the handler may need it.
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

Slot* take_slot() {
  for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next)
    if (!slot->taken.exchange(true)) return slot;
  auto* const slot = new Slot;  // Stays in the list.
  slot->next = slots.load();
  while (!slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

}  // namespace

void allow_mapping_guards(bool allowed) { allowed_guards.store(allowed); }

MappingGuard::MappingGuard(std::span<const std::byte> range) : slot_(take_slot()) {
  slot_->lost.store(false);
  set_range(*slot_, reinterpret_cast<std::uintptr_t>(range.data()), range.size());
  if (allowed_guards.load()) install_handler();
}

MappingGuard::~MappingGuard() {
  set_range(*slot_, 0, 0);
  slot_->taken.store(false);
}

bool MappingGuard::lost() const { return slot_->lost.load(); }

}  // namespace weft::base
