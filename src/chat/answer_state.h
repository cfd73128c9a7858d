#pragma once
// Where a reader stands in an answer.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_format.h"
#include "chat/call_reader.h"
#include "weft/chat.h"

namespace weft {

namespace chat {

class AnswerState {
 public:
  explicit AnswerState(std::shared_ptr<const AnswerFormat> answer_format);

  /// Reads on, with more text or, where `ended`, to the end.
  std::vector<AnswerEvent> read(std::string_view more, bool ended);

  int n_calls() const { return n_calls_; }

 private:
  enum class Mode {
    kText,
    kReasoning,
    kHeader,   ///< Of a message with a channel.
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

  /// The opener has been read: what stands behind it says which of the formats that begin so it is.
  bool choose_format(const Input& input);
  void begin_message(std::string_view header);
  void begin_section(const CallFormat& format, bool certain);
  void begin_call();
  void end_section();
  /// It was no call: what was read since the last one is content.
  bool give_up(Input& input);

  void tell(AnswerEvent::Kind kind, std::string_view text);
  /// Text whose white space at the beginning and end is not the model's to say.
  void tell_trimmed(AnswerEvent::Kind kind, std::string_view text);

  std::shared_ptr<const AnswerFormat> format_;
  std::string text_ = {};      ///< From the first byte on that is not decided.
  std::size_t at_ = 0;         ///< What is read of it.
  std::size_t raw_begin_ = 0;  ///< In a section or header: what is content if nothing comes of it.
  Mode mode_ = Mode::kText;
  std::string held_space_ = {};  ///< White space that is dropped if a tag follows.
  bool drops_space_ = false;     ///< Nothing was said since a tag.
  bool may_reason_ = true;       ///< No content since the beginning or the last call.
  bool reasoned_ = false;        ///< In reasoning: some was told.
  bool expects_header_ = false;  ///< The prompt ends within a header.
  bool chooses_ = false;         ///< An opener was read, choose_format is next.
  const CallFormat* calls_ = nullptr;
  std::size_t opener_ = 0;  ///< Index of the first format of the opener.
  bool certain_ = true;     ///< A tag opened the section.
  bool list_open_ = false;
  int n_in_section_ = 0;  ///< Calls that were told.
  bool told_in_call_ = false;
  CallReader reader_ = WholeCalls{};
  std::vector<AnswerEvent> events_ = {};
  int n_calls_ = 0;
};

}  // namespace chat

struct AnswerReader::State {
  chat::AnswerState answer;
};

}  // namespace weft
