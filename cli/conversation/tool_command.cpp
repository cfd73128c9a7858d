#include "conversation/tool_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/to_size.h"
#include "files/json_input.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

using base::Descriptor;

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::kIo,
              std::string("cannot run the tool's command: ") + what + ": " + std::strerror(errno));
}

// Writes to a file in memory, so a slow reader cannot block the writer.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("its input cannot be written");
    text.remove_prefix(to_size(n));
  }
  ::lseek(fd, 0, SEEK_SET);
}

// Replaces bytes that are not UTF-8 with U+FFFD.
std::string as_utf8(const std::string& bytes) {
  return parse_json(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

ToolResult run_tool(const std::string& command, const std::string& input) {
  Descriptor in(::memfd_create("call", MFD_CLOEXEC));
  if (in.get() < 0) fail("no memory for its input");
  write_all(in.get(), input);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("no pipe for its output");
  Descriptor out(ends[0]), childs_out(ends[1]);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, childs_out.get(), STDOUT_FILENO);
  std::string shell = "sh", option = "-c", words = command;
  char* const arguments[] = {shell.data(), option.data(), words.data(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/bin/sh", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    errno = error;
    fail("/bin/sh");
  }
  childs_out.close();

  ToolResult result;
  char block[1 << 14];
  for (;;) {
    const ssize_t n = ::read(out.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const std::size_t taken = std::min(to_size(n), kMaxToolOutput - result.output.size());
    result.output.append(block, taken);
    result.was_cut = result.was_cut || taken < to_size(n);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  while (result.output.ends_with('\n')) result.output.pop_back();
  result.output = as_utf8(result.output);
  return result;
}

}  // namespace weft::cli
