#pragma once
// Tasks in which a model chooses one of several texts, as llama.cpp's files have them. The files are
// untrusted.
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

/// A text that a task chooses among.
struct ChoiceText {
  std::string text;
  bool right = false;
  /// Of the text so far as the choices may differ: the word of a WinoGrande sentence. 0: they may differ to
  /// the end.
  std::size_t n_differ = 0;
};
using ChoiceTask = std::vector<ChoiceText>;

/// Of n_wanted of them (0: all) chosen by chance, always the same: the ones that llama-perplexity chooses.
/// Throws Error kInvalidFile that says which task is none.
std::vector<ChoiceTask> read_choice_tasks(ChoiceKind kind, std::string_view file, std::size_t n_wanted);

/// A text as tokens, and those [begin, end) whose probabilities tell how likely it is.
struct TokenizedChoice {
  std::vector<Token> tokens;
  std::size_t begin = 0, end = 0;
};
struct TokenizedTask {
  std::vector<TokenizedChoice> choices;
  std::vector<bool> right;
  std::size_t n_shared = 0;  ///< Tokens that all begin with; less than any of them has.

  std::size_t n_tokens() const;  ///< With the shared ones once.
};
/// Throws Error kInvalidFile for a text of no token that could be foretold.
TokenizedTask tokenize(const ChoiceTask& task, ChoiceKind kind, const Tokenizer& tokenizer);

}  // namespace weft::cli
