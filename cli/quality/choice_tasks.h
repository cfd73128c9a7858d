#pragma once
// Multiple-choice tasks in llama.cpp's file formats. The files are untrusted.
//
//   HellaSwag: six lines a task: how a story begins, the number of the right ending (from 0), four endings.
//   WinoGrande: CSV, a task a line: number, sentence with a _, two words for it, which is right (1 or 2).
//   Multiple choice, little-endian: u32 tasks, u32 of each where it begins; a task is a question (u32 length,
//   bytes) and two lists of answers, of which the first is used: u32 answers, each as the question, i32 of
//   each whether it is right.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tokenizer.h"

namespace weft::cli {

enum class ChoiceKind { kHellaSwag, kWinoGrande, kMultipleChoice };

/// One choice of a task.
struct ChoiceText {
  std::string text;
  bool right = false;
  /// Bytes after which all choices are equal: the end of a WinoGrande sentence's word. 0: they may differ to
  /// the end.
  std::size_t n_differ = 0;
};
using ChoiceTask = std::vector<ChoiceText>;

/// Reads n_wanted tasks (0: all), chosen by a fixed seed as llama-perplexity chooses them. Throws Error
/// kInvalidFile that names the invalid task.
std::vector<ChoiceTask> read_choice_tasks(ChoiceKind kind, std::string_view file, std::size_t n_wanted);

/// A choice as tokens. The probabilities of tokens [begin, end) are its score.
struct TokenizedChoice {
  std::vector<Token> tokens;
  std::size_t begin = 0, end = 0;
};
struct TokenizedTask {
  std::vector<TokenizedChoice> choices;
  std::vector<bool> right;
  std::size_t n_shared = 0;  ///< Length of the common prefix; less than the tokens of any choice.

  std::size_t n_tokens() const;  ///< Counts the shared tokens once.
};
/// Throws Error kInvalidFile for a choice without a token to predict.
TokenizedTask tokenize(const ChoiceTask& task, ChoiceKind kind, const Tokenizer& tokenizer);

}  // namespace weft::cli
