#include "text/end_tokens.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/to_size.h"
#include "text/infill_words.h"
#include "weft/chat_template.h"
#include "weft/error.h"

namespace weft::text {
namespace {

/// End a turn, a message or a document in all models that have them, and are control tokens.
constexpr std::array<std::string_view, 22> kEnds = {"<|im_end|>",
                                                    "<|eot_id|>",
                                                    "<|eom_id|>",
                                                    "<|eot|>",
                                                    "<|eom|>",
                                                    "<|EOT|>",
                                                    "<|end|>",
                                                    "<|return|>",
                                                    "<|call|>",
                                                    "<|calls|>",
                                                    "<|flush|>",
                                                    "<|endoftext|>",
                                                    "<|end_of_text|>",
                                                    "<|end_of_turn|>",
                                                    "<|endofturn|>",
                                                    "[|endofturn|]",
                                                    "<|END_OF_TURN_TOKEN|>",
                                                    "<end_of_turn>",
                                                    "<turn|>",
                                                    "<|tool_response>",
                                                    "<end_of_utterance>",
                                                    "<｜end▁of▁sentence｜>"};

/// The same, but ordinary prompts may hold these words: a token that merges produce does not count.
constexpr std::array<std::string_view, 5> kLikelyEnds = {"<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"};

/// End a file in fill-in-the-middle models, as kFileSeparators and kRepositoryMarks do.
constexpr std::array<std::string_view, 4> kFileEnds = {"<repo_name>", "<|fim_pad|>", "<fim_pad>",
                                                       "<fim-pad>"};

/// Begin a turn or a document, and are control tokens.
constexpr std::array<std::string_view, 7> kMarks = {
    "<|im_start|>",      "<start_of_turn>",        "<|turn>", "<|start_header_id|>", "<|end_header_id|>",
    "<|begin_of_text|>", "<|START_OF_TURN_TOKEN|>"};

bool is_one_of(std::span<const std::string_view> names, std::string_view text) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool ends_file(std::string_view text) {
  return is_one_of(kFileEnds, text) || is_one_of(kFileSeparators, text) || is_one_of(kRepositoryMarks, text);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0; }

/// Whether a token is written like a marker: a word in brackets.
bool is_marker(std::string_view text) {
  if (text.size() < 3) return false;
  const bool brackets =
      (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
  return brackets && std::any_of(text.begin(), text.end(), is_letter) &&
         text.find_first_of(" \t\r\n") == std::string_view::npos;
}

bool is_piped(std::string_view text) {
  return is_marker(text) && text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
}

bool can_begin_name(std::string_view text) {
  return text.size() > 4 && (text[0] == '<' || text[0] == '[' || text[0] == '_');
}

class Ends {
 public:
  Ends(Vocabulary& vocabulary, const TokenIndex& index)
      : v_(vocabulary), index_(index), is_end_(vocabulary.tokens.size()) {}

  std::vector<Token> find() && {
    for (const Token id : {v_.eos, v_.eot, v_.eom}) add(id);
    for (const Token id : v_.ends) add(id);
    by_name();
    by_template();
    note_changes();
    std::sort(ends_.begin(), ends_.end());
    return std::move(ends_);
  }

 private:
  const std::string& text(Token id) const { return v_.tokens[to_size(id)]; }
  TokenKind& kind(Token id) { return v_.kinds[to_size(id)]; }
  bool has(std::string_view name) const { return index_.find(name) != kNoToken; }

  void add(Token id) {
    if (id == kNoToken || is_end_[to_size(id)]) return;
    is_end_[to_size(id)] = true;
    ends_.push_back(id);
  }

  void make_control(Token id) {
    if (kind(id) == TokenKind::kControl) return;
    kind(id) = TokenKind::kControl;
    changed_.push_back(id);
  }

  void by_name() {
    // Where <|return|> or <|flush|> ends a turn, <|end|> ends only one of its messages.
    const bool has_call = has("<|call|>") || has("<|calls|>");
    ends_message_ = has_call && (has("<|return|>") || has("<|flush|>")) ? "<|end|>" : "";
    std::vector<Token> doubtful;  // Ordinary words, or special tokens of a wrong type.
    for (std::size_t i = 0; i < v_.tokens.size(); ++i) {
      const auto id = static_cast<Token>(i);
      const std::string_view name = v_.tokens[i];
      if (!can_begin_name(name)) continue;
      if (is_one_of(kEnds, name)) {
        make_control(id);
        if (name != ends_message_) add(id);
      } else if (is_one_of(kMarks, name)) {
        make_control(id);
      } else if (ends_file(name)) {
        // User-defined ones keep their type: clients write such prompts out, and the tokenizer finds only
        // user-defined tokens there.
        if (kind(id) != TokenKind::kUserDefined) make_control(id);
        add(id);
      } else if (is_one_of(kLikelyEnds, name) || is_piped(name)) {
        if (kind(id) == TokenKind::kNormal)
          doubtful.push_back(id);
        else if (!is_piped(name))
          end_turn(id);
      }
    }
    remove_pieces_of_text(doubtful);
    for (const Token id : doubtful) is_piped(text(id)) ? make_control(id) : end_turn(id);
  }

  void end_turn(Token id) {
    make_control(id);
    add(id);
  }

  /// Keeps the ids of tokens that merges never produce.
  void remove_pieces_of_text(std::vector<Token>& ids) const {
    if (ids.empty()) return;
    if (v_.kind == VocabularyKind::kBpe || v_.kind == VocabularyKind::kCharacterBpe) {
      std::vector<bool> is_made(v_.tokens.size());
      for (const std::string& merge : v_.merges) {
        const std::size_t space = merge.find(' ', 1);
        const auto is_asked_for = [&](Token id) { return text(id).size() + 1 == merge.size(); };
        if (space == std::string::npos || std::ranges::none_of(ids, is_asked_for)) continue;
        const Token made = index_.find(merge.substr(0, space) + merge.substr(space + 1));
        if (made != kNoToken) is_made[to_size(made)] = true;
      }
      std::erase_if(ids, [&](Token id) { return is_made[to_size(id)]; });
    } else if (v_.kind == VocabularyKind::kSpm) {
      std::erase_if(ids, [&](Token id) {
        const std::string_view whole = text(id);
        for (std::size_t at = 1; at < whole.size(); ++at)
          if (has(whole.substr(0, at)) && has(whole.substr(at))) return true;
        return false;
      });
    } else {
      ids.clear();
    }
  }

  // --- The chat template

  static constexpr std::string_view kResponse = "probe_answer", kThought = "probe_thought";
  static constexpr std::size_t kMostSearched = 4096;  ///< Bytes after a message.

  static std::string message(std::string_view role, std::string_view content, bool parts,
                             std::string_view further = {}) {
    const std::string quoted = '"' + std::string(content) + '"';
    const std::string written = parts ? R"([{"type":"text","text":)" + quoted + "}]" : quoted;
    return R"({"role":")" + std::string(role) + R"(","content":)" + written + std::string(further) + '}';
  }

  /// If the template rejects the messages, renders them after a system message: some templates require one.
  static std::optional<std::string> render(const ChatTemplate& chat, const std::string& messages) {
    for (const std::string& before : {std::string(), message("system", "probe_system", false) + ','}) {
      try {
        return join(chat.render_json(
            '[' + before + messages + ']',
            {.add_generation_prompt = false, .tools_json = {}, .variables_json = R"({"now":"2024-07-26"})"}));
      } catch (const Error&) {
        continue;
      }
    }
    return std::nullopt;
  }

  /// Whether special_in() looks for this token.
  bool is_special(Token id) const {
    return v_.kinds[to_size(id)] == TokenKind::kControl || is_marker(text(id));
  }

  /// Sets the bounds of special_in().
  void measure_specials() {
    constexpr std::size_t kLongest = 256;
    for (std::size_t i = 0; i < v_.tokens.size(); ++i) {
      const std::string& written = v_.tokens[i];
      if (written.empty() || written.size() > kLongest || !is_special(static_cast<Token>(i))) continue;
      longest_special_ = std::max(longest_special_, written.size());
      begins_special_[static_cast<unsigned char>(written[0])] = true;
    }
  }

  /// The first special token of a string; if `at_front`, only one that the string begins with.
  Token special_in(std::string_view text, bool at_front) const {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const bool may_begin = begins_special_[static_cast<unsigned char>(text[at])];
      for (std::size_t size = may_begin ? std::min(longest_special_, text.size() - at) : 0; size > 0; --size)
        if (const Token id = index_.find(text.substr(at, size));
            id != kNoToken && id != v_.unk && is_special(id))
          return id;
      if (at_front) break;
    }
    return kNoToken;
  }

  /// The first word of the string, if it is a token that encoding a prompt never produces.
  Token lone_word(std::string_view text) const {
    constexpr std::size_t kShortest = 3;
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n"));
    const Token id = word.size() < kShortest ? kNoToken : index_.find(word);
    std::vector<Token> left;
    if (id != kNoToken && id != v_.unk) left.push_back(id);
    remove_pieces_of_text(left);
    return left.empty() ? kNoToken : id;
  }

  static std::string_view without_space(std::string_view text) {
    const std::size_t at = text.find_first_not_of(" \t\r\n");
    return at == std::string_view::npos ? std::string_view() : text.substr(at);
  }

  /// What follows the last `mark`. The template is untrusted and may write much there.
  static std::string_view after(std::string_view prompt, std::string_view mark) {
    const std::size_t at = prompt.rfind(mark);
    if (at == std::string_view::npos) return {};
    return without_space(prompt.substr(at + mark.size())).substr(0, kMostSearched);
  }

  /// First renders a conversation that ends with the assistant's message. If no special token follows that
  /// message, renders one with a further user message.
  Token ends_response(const ChatTemplate& chat, bool parts) const {
    const std::string user = message("user", "probe_user", parts) + ',',
                      answer = message("assistant", kResponse, parts);
    if (const auto last = render(chat, user + answer)) {
      const std::string_view rest = after(*last, kResponse);
      for (const Token end : ends_)  // A token before a known end only ends a part of the message.
        if (!text(end).empty() && rest.find(text(end)) != std::string_view::npos) return end;
      if (const Token id = special_in(rest, false); id != kNoToken) return id;
      if (const Token id = lone_word(rest); id != kNoToken) return id;
    }
    const auto goes_on = render(chat, user + answer + ',' + message("user", "probe_more", parts));
    return goes_on ? special_in(after(*goes_on, kResponse), true) : kNoToken;
  }

  /// The special token that the template writes after a message with a tool call, before the call's result.
  /// None if that message has a known end.
  Token ends_calls(const ChatTemplate& chat, bool parts) const {
    constexpr std::string_view kValue = "probe_value";
    const std::string call =
        message("user", "probe_user", parts) + ',' +
        message("assistant", "", false,
                R"(,"tool_calls":[{"id":"probecall","type":"function","function":{"name":"probe_tool",)"
                R"("arguments":{"probe_key":"probe_value"}}}])");
    const std::string result =
        message("tool", "probe_result", parts, R"(,"tool_call_id":"probecall","name":"probe_tool")");
    const auto called = render(chat, call), answered = render(chat, call + ',' + result);
    if (!called || !answered) return kNoToken;
    const std::size_t value = called->rfind(kValue), last = called->find_last_not_of(" \t\r\n");
    const std::string_view message_end =
        std::string_view(*called).substr(std::min(value, called->size())).substr(0, kMostSearched);
    for (const Token end : ends_)
      if (!text(end).empty() && message_end.find(text(end)) != std::string_view::npos) return kNoToken;
    if (value == std::string::npos || answered->compare(0, last + 1, *called, 0, last + 1) != 0)
      return kNoToken;
    const Token id = special_in(without_space(std::string_view(*answered).substr(last + 1)), true);
    return id == kNoToken || is_one_of(kMarks, text(id)) ? kNoToken : id;
  }

  /// Whether the template also writes `end` between the reasoning and the content of an assistant's message.
  bool ends_thoughts(const ChatTemplate& chat, bool parts, std::string_view end) const {
    std::string further;
    for (const char* key : {"reasoning_content", "reasoning", "thinking", "thought"})
      further += std::string(",\"") + key + "\":\"" + std::string(kThought) + '"';
    const auto prompt = render(
        chat, message("user", "probe_user", parts) + ',' + message("assistant", kResponse, parts, further));
    if (!prompt) return false;
    const std::string_view from = after(*prompt, kThought);
    const std::size_t answer = from.find(kResponse);
    return answer != std::string_view::npos && from.substr(0, answer).find(end) != std::string_view::npos;
  }

  void by_template() {
    if (v_.chat_template.empty()) return;
    measure_specials();
    const auto text_of = [&](Token id) { return id == kNoToken ? std::string() : text(id); };
    try {
      const ChatTemplate chat(v_.chat_template, text_of(v_.bos), text_of(v_.eos));
      for (const bool parts : {false, true}) {
        const Token id = ends_response(chat, parts);
        if (id == kNoToken) continue;
        if (text(id) != ends_message_ && !ends_thoughts(chat, parts, text(id))) end_turn(id);
        if (const Token of_calls = ends_calls(chat, parts); of_calls != kNoToken) end_turn(of_calls);
        break;
      }
    } catch (const Error&) {
      // An invalid template gives no end token; loading the model reports it.
    }
  }

  void note_changes() {
    if (changed_.empty()) return;
    constexpr std::size_t kShown = 8;
    std::string names;
    for (std::size_t i = 0; i < std::min(kShown, changed_.size()); ++i)
      names += (i > 0 ? ", " : "") + text(changed_[i]);
    if (changed_.size() > kShown) names += " and " + std::to_string(changed_.size() - kShown) + " more";
    v_.notes.push_back(
        "tokenizer.ggml.token_type gives special tokens another type; weft treats them as control tokens: " +
        names);
  }

  Vocabulary& v_;
  const TokenIndex& index_;
  std::vector<Token> ends_, changed_;
  std::array<bool, 256> begins_special_ = {};  ///< By byte: whether a special token begins with it.
  std::size_t longest_special_ = 0;
  std::vector<bool> is_end_;  ///< By token: whether it is in `ends_`.
  std::string_view ends_message_;
};

}  // namespace

std::vector<Token> find_ends(Vocabulary& vocabulary, const TokenIndex& index) {
  return Ends(vocabulary, index).find();
}

}  // namespace weft::text
