#include "terminal/interrupt.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX

#include <atomic>

namespace weft::cli {
namespace {

// A signal handler has no arguments of ours, so these are the program's only globals.
std::atomic<bool> g_requested{false};
std::atomic<Context*> g_context{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Context*>::is_always_lock_free);

void on_interrupt(int) {
  g_requested.store(true);
  if (Context* context = g_context.load()) context->cancel();
}

void arm() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  // Once only, and without SA_RESTART: a read that waits for the user returns.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_requested.store(false);
  arm();
}

InterruptGuard::~InterruptGuard() { ::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::requested() const { return g_requested.load(); }

void InterruptGuard::reset() {
  g_requested.store(false);
  arm();
}

CancelOnInterrupt::CancelOnInterrupt(Context& context) { g_context.store(&context); }

CancelOnInterrupt::~CancelOnInterrupt() {
  if (Context* context = g_context.exchange(nullptr)) context->take_back_cancel();
}

}  // namespace weft::cli
