#pragma once
// The state of the reader of one response.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call_reader.h"
#include "chat/response_format.h"
#include "weft/chat.h"

namespace weft {

namespace chat {

class ReaderState {
 public:
  explicit ReaderState(std::shared_ptr<const ResponseFormat> response_format);

  /// Reads the next bytes of the response. With `ended` they are the last ones.
  std::vector<ResponseEvent> read(std::string_view more, bool ended);

  int n_calls() const { return n_calls_; }
  /// Whether the next bytes are reasoning, as far as is known.
  bool is_reasoning() const { return mode_ == Mode::kReasoning; }
  /// Whether the last bytes may be the beginning of a tag.
  bool is_undecided() const { return at_ < text_.size(); }

 private:
  enum class Mode {
    kText,
    kReasoning,
    kHeader,   ///< In the header of a message with a channel.
    kBetween,  ///< In a section, outside of calls.
    kCall,
    kSkip,  ///< In a call that was completed, up to its end.
  };

  bool step(Input& input);
  bool text_step(Input& input);
  bool reasoning_step(Input& input);
  bool header_step(Input& input);
  bool between_step(Input& input);
  bool between_objects_step(Input& input, bool& decided);
  bool call_step(Input& input);
  bool skip_step(Input& input);

  /// The opener has been read. The bytes after it choose among the formats that share the opener.
  bool choose_format(const Input& input);
  void begin_message(std::string_view header);
  void begin_section(const CallFormat& format, bool certain);
  void begin_call();
  void end_section();
  /// The section turned out not to hold a call: the input from raw_begin_ on is content.
  bool give_up(Input& input);

  void tell(ResponseEvent::Kind kind, std::string_view text);
  /// As tell(), without white space at the beginning and end of a run.
  void tell_trimmed(ResponseEvent::Kind kind, std::string_view text);

  std::shared_ptr<const ResponseFormat> format_;
  std::string text_ = {};      ///< Input from the first undecided byte on.
  std::size_t at_ = 0;         ///< How much of text_ is read.
  std::size_t raw_begin_ = 0;  ///< In a section or header: start of the input that may become content.
  Mode mode_ = Mode::kText;
  std::string held_space_ = {};  ///< White space that is dropped if a tag follows.
  bool drops_space_ = false;     ///< Nothing was reported since a tag.
  bool may_reason_ = true;       ///< No content since the beginning or the last call.
  bool reasoned_ = false;        ///< In reasoning: some was reported.
  bool expects_header_ = false;  ///< The prompt ends within a header.
  bool chooses_ = false;         ///< An opener was read, choose_format is next.
  const CallFormat* calls_ = nullptr;
  std::size_t opener_ = 0;  ///< Index of the first format of the opener.
  bool certain_ = true;     ///< A tag opened the section.
  bool list_open_ = false;
  int n_in_section_ = 0;  ///< Calls that were reported.
  bool reported_in_call_ = false;
  CallReader reader_ = WholeCalls{};
  std::vector<ResponseEvent> events_ = {};
  int n_calls_ = 0;
};

}  // namespace chat

struct ResponseReader::State {
  chat::ReaderState answer;
};

}  // namespace weft
