#pragma once
// Limits of a chat template's cost. Templates come from untrusted files. So the interpreter spends all its
// work from a Budget, which bounds time, memory and stack for any template.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace weft::text::jinja {

inline constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxSteps = 1'000'000;
/// Limit of one string, and so of the output, too.
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;
/// Work on strings counts as one step per this many bytes.
inline constexpr std::size_t kBytesPerStep = 128;
/// Copies of values count as one step per this many.
inline constexpr std::size_t kValuesPerStep = 4;
/// Nesting of brackets, blocks and unary operators in a template's source.
inline constexpr int kMaxNesting = 200;
/// Macros that call macros.
inline constexpr int kMaxCalls = 200;
/// Statements and expressions in progress, over all macros: bounds the use of the stack.
inline constexpr int kMaxDepth = 1000;
/// Nesting of values when they are printed or compared, and of parsed JSON.
inline constexpr int kMaxValueDepth = 100;
/// Limit of range(), as in Jinja's sandbox.
inline constexpr std::size_t kMaxRange = 100'000;

/// An error of a template or its arguments. Becomes a weft::Error, with the line, where rendering starts.
class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An error in a template's source.
class SyntaxProblem : public Problem {
 public:
  SyntaxProblem(const std::string& what, int line)
      : Problem("chat template, line " + std::to_string(line) + ": " + what) {}
};

class Budget {
 public:
  /// For building the variables, which is not the template's work.
  static Budget unlimited() { return Budget(SIZE_MAX); }
  Budget() = default;

  void spend(std::size_t steps = 1) {
    if (steps > left_) exhausted();
    left_ -= steps;
  }
  void spend_bytes(std::size_t n_bytes) { spend(n_bytes / kBytesPerStep); }
  void spend_values(std::size_t n_values) { spend(n_values / kValuesPerStep); }
  std::size_t left() const { return left_; }

 private:
  explicit Budget(std::size_t steps) : left_(steps) {}
  [[noreturn]] static void exhausted() {
    throw Problem("rendering takes more than " + std::to_string(kMaxSteps) +
                  " steps: the template loops or the conversation is too long for it");
  }
  std::size_t left_ = kMaxSteps;
};

/// Counts one level of nesting during its lifetime.
class Level {
 public:
  Level(int& depth, int limit, const char* what) : depth_(depth) {
    if (depth >= limit) {
      throw Problem(std::string(what) + " nested deeper than " + std::to_string(limit) + " levels");
    }
    ++depth_;
  }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

}  // namespace weft::text::jinja
