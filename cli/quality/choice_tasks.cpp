#include "quality/choice_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::size_t kEndings = 4;           // Of HellaSwag.
constexpr std::uint32_t kMaxResponses = 100;  // As llama.cpp has it.
constexpr std::uint32_t kSeed = 1;

[[noreturn]] void invalid(const std::string& problem) { throw Error(ErrorCode::kInvalidFile, problem); }

std::vector<std::string_view> lines_of(std::string_view file) {
  std::vector<std::string_view> lines;
  while (!file.empty()) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return lines;
}

/// A number from 0 to `most`, or -1.
int digit_of(std::string_view text, int most) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text.size() == 1 && text[0] >= '0' && text[0] <= '0' + most ? text[0] - '0' : -1;
}

std::vector<ChoiceTask> read_hellaswag(std::string_view file) {
  const std::vector<std::string_view> lines = lines_of(file);
  constexpr std::size_t kLines = 2 + kEndings;
  if (lines.empty() || lines.size() % kLines != 0)
    invalid(
        fmt::format("a HellaSwag file has {} lines for each task, this one has {}", kLines, lines.size()));
  std::vector<ChoiceTask> tasks;
  for (std::size_t begin = 0; begin < lines.size(); begin += kLines) {
    const int right = digit_of(lines[begin + 1], kEndings - 1);
    if (right < 0)
      invalid(
          fmt::format("line {}: '{}' is not the number of an ending, 0 to 3", begin + 2, lines[begin + 1]));
    ChoiceTask& task = tasks.emplace_back();
    for (std::size_t i = 0; i < kEndings; ++i)
      task.push_back(
          {.text = fmt::format("{} {}", lines[begin], lines[begin + 2 + i]), .right = i == to_size(right)});
  }
  return tasks;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        cells.back() += line[i++];
      else
        quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

std::vector<ChoiceTask> read_winogrande(std::string_view file) {
  std::vector<ChoiceTask> tasks;
  const std::vector<std::string_view> lines = lines_of(file);
  for (std::size_t n = 0; n < lines.size(); ++n) {
    if (lines[n].empty()) continue;
    const std::vector<std::string> cells = cells_of(lines[n]);
    if (cells.size() != 5)
      invalid(
          fmt::format("line {}: has {} cells, expected a number, a sentence, two words and which is right",
                      n + 1, cells.size()));
    const std::string& sentence = cells[1];
    const std::size_t blank = sentence.find('_');
    if (blank == std::string::npos) invalid(fmt::format("line {}: the sentence has no _", n + 1));
    const int right = digit_of(cells[4], 2);
    if (right < 1) invalid(fmt::format("line {}: '{}' is neither 1 nor 2", n + 1, cells[4]));
    ChoiceTask& task = tasks.emplace_back();
    for (int i = 0; i < 2; ++i) {
      const std::string begin = sentence.substr(0, blank) + cells[to_size(2 + i)];
      task.push_back(
          {.text = begin + sentence.substr(blank + 1), .right = i + 1 == right, .n_differ = begin.size()});
    }
  }
  if (tasks.empty()) invalid("the WinoGrande file has no tasks");
  return tasks;
}

/// Reads a multiple-choice file from any offset.
class TaskReader {
 public:
  explicit TaskReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number() {
    std::uint32_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }
  void go_to(std::size_t place) {
    if (place > bytes_.size()) ends();
    place_ = place;
  }

 private:
  [[noreturn]] static void ends() { invalid("the multiple-choice file ends in the middle of a task"); }
  std::string_view take(std::size_t n) {
    if (bytes_.size() - place_ < n) ends();
    return bytes_.substr(std::exchange(place_, place_ + n), n);
  }

  std::string_view bytes_;
  std::size_t place_ = 0;
};

ChoiceTask read_multiple_choice(TaskReader& reader, std::size_t number) {
  const std::string question = reader.text();
  ChoiceTask task;
  for (const bool used : {true, false}) {
    const std::uint32_t n = reader.number();
    if (n > kMaxResponses || (used && n == 0))
      invalid(fmt::format("task {} has {} choices, expected 1 to {}", number, n, kMaxResponses));
    for (std::uint32_t i = 0; i < n; ++i) {
      std::string answer = reader.text();
      if (used) task.push_back({.text = fmt::format("{} {}", question, answer)});
      if (used && answer.empty()) invalid(fmt::format("task {} has an empty choice", number));
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      const bool right = reader.number() == 1;
      if (used) task[i].right = right;
    }
  }
  return task;
}

/// Chooses without replacement, as llama-perplexity does. HellaSwag's choices keep the remaining tasks in
/// order; for other kinds, the last task of the list takes the chosen one's place.
std::vector<std::size_t> choose(ChoiceKind kind, std::size_t n_tasks, std::size_t n_wanted) {
  std::vector<std::size_t> left(n_tasks);
  std::iota(left.begin(), left.end(), 0);
  if (n_wanted == 0 || n_wanted >= n_tasks) return left;
  std::mt19937 random(kSeed);
  std::vector<std::size_t> chosen;
  constexpr float kScale = 1.0f / (1.0f + static_cast<float>(std::mt19937::max()));
  while (chosen.size() < n_wanted) {
    if (kind == ChoiceKind::kHellaSwag) {
      const std::size_t i = std::uniform_int_distribution<std::size_t>(0, left.size() - 1)(random);
      chosen.push_back(left[i]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      const float place = kScale * static_cast<float>(random()) * static_cast<float>(left.size());
      const std::size_t i = std::min(static_cast<std::size_t>(place), left.size() - 1);
      chosen.push_back(std::exchange(left[i], left.back()));
      left.pop_back();
    }
  }
  return chosen;
}

}  // namespace

std::vector<ChoiceTask> read_choice_tasks(ChoiceKind kind, std::string_view file, std::size_t n_wanted) {
  std::vector<ChoiceTask> chosen;
  if (kind == ChoiceKind::kMultipleChoice) {
    TaskReader reader(file);
    const std::size_t n_tasks = reader.number();
    if (n_tasks == 0) invalid("the multiple-choice file has no tasks");
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < n_tasks; ++i) places.push_back(reader.number());
    for (const std::size_t i : choose(kind, n_tasks, n_wanted)) {
      // Tasks follow each other. The file's offsets are used only if some tasks are skipped.
      if (n_wanted != 0 && n_wanted < n_tasks) reader.go_to(places[i]);
      chosen.push_back(read_multiple_choice(reader, i + 1));
    }
    return chosen;
  }
  std::vector<ChoiceTask> all = kind == ChoiceKind::kHellaSwag ? read_hellaswag(file) : read_winogrande(file);
  for (const std::size_t i : choose(kind, all.size(), n_wanted)) chosen.push_back(std::move(all[i]));
  return chosen;
}

std::size_t TokenizedTask::n_tokens() const {
  std::size_t n = n_shared;
  for (const TokenizedChoice& choice : choices) n += choice.tokens.size() - n_shared;
  return n;
}

TokenizedTask tokenize(const ChoiceTask& task, ChoiceKind kind, const Tokenizer& tokenizer) {
  TokenizedTask result;
  std::size_t shortest = SIZE_MAX;
  for (const ChoiceText& choice : task) {
    result.choices.push_back({tokenizer.encode(choice.text)});
    result.right.push_back(choice.right);
    shortest = std::min(shortest, result.choices.back().tokens.size());
  }
  if (shortest < 2) invalid(fmt::format("'{}' has no token to predict", task.front().text));
  const auto same_at = [&](std::size_t i) {
    return std::all_of(result.choices.begin(), result.choices.end(), [&](const TokenizedChoice& choice) {
      return choice.tokens[i] == result.choices.front().tokens[i];
    });
  };
  while (result.n_shared + 1 < shortest && same_at(result.n_shared)) ++result.n_shared;
  for (TokenizedChoice& choice : result.choices) {
    choice.begin = std::max<std::size_t>(result.n_shared, 1);
    choice.end = choice.tokens.size();
  }
  if (kind != ChoiceKind::kWinoGrande) return result;
  // If it is long enough, only the part after the word is scored, without its last token, which is mostly a
  // full stop.
  constexpr std::size_t kLeastBehind = 3;
  const bool skip_word = std::all_of(
      result.choices.begin(), result.choices.end(),
      [&](const TokenizedChoice& choice) { return choice.tokens.size() - result.n_shared > kLeastBehind; });
  for (std::size_t i = 0; i < task.size(); ++i) {
    TokenizedChoice& choice = result.choices[i];
    if (skip_word) {
      const std::size_t n = tokenizer.encode(task[i].text.substr(0, task[i].n_differ)).size();
      choice.begin = std::clamp<std::size_t>(n, choice.begin, choice.end - 1);
    }
    if (choice.end - choice.begin > 1) --choice.end;
  }
  return result;
}

}  // namespace weft::cli
