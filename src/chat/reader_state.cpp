#include "chat/reader_state.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "chat/tag_finder.h"

namespace weft::chat {

using Kind = ResponseEvent::Kind;
using Tag = ResponseFormat::Tag;

namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>";

std::size_t skip_space(Input& input) {
  while (!input.empty() && is_space(input.text[input.at])) ++input.at;
  return input.at;
}

}  // namespace

ReaderState::ReaderState(std::shared_ptr<const ResponseFormat> response_format)
    : format_(std::move(response_format)) {
  if (format_->opens_in_reasoning) mode_ = Mode::kReasoning;
  if (format_->channels) {
    mode_ = Mode::kHeader;
    expects_header_ = true;
  }
}

std::vector<ResponseEvent> ReaderState::read(std::string_view more, bool ended) {
  text_ += more;
  Input input{text_, at_, ended};
  while (step(input)) {
  }
  if (ended && mode_ == Mode::kText && !drops_space_) tell(Kind::kContent, held_space_);
  if (ended) held_space_.clear();
  // Erases decided input only now and then, so that the total time is linear.
  const bool keeps_raw = mode_ != Mode::kText && mode_ != Mode::kReasoning;
  const std::size_t decided = keeps_raw ? std::min(raw_begin_, at_) : at_;
  if (decided == text_.size() || decided > std::max<std::size_t>(4096, text_.size() / 2)) {
    text_.erase(0, decided);
    at_ -= decided;
    raw_begin_ -= std::min(raw_begin_, decided);
  }
  return std::exchange(events_, {});
}

/// Returns false if it needs more input or none is left.
bool ReaderState::step(Input& input) {
  switch (mode_) {
    case Mode::kText:
      return text_step(input);
    case Mode::kReasoning:
      return reasoning_step(input);
    case Mode::kHeader:
      return header_step(input);
    case Mode::kBetween:
      return between_step(input);
    case Mode::kCall:
      return call_step(input);
    case Mode::kSkip:
      return skip_step(input);
  }
  return false;
}

void ReaderState::tell(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!events_.empty() && events_.back().kind == kind) {
    events_.back().text += text;
  } else {
    events_.push_back({kind, std::string(text)});
  }
}

void ReaderState::tell_trimmed(Kind kind, std::string_view text) {
  std::size_t size = text.size();
  while (size > 0 && is_space(text[size - 1])) --size;
  if (size == 0) {
    held_space_ += text;
    return;
  }
  if (drops_space_) {
    held_space_.clear();
    const auto n_space = to_size(trimmed(text).data() - text.data());
    text.remove_prefix(n_space);
    size -= n_space;
    drops_space_ = false;
  }
  tell(kind, std::exchange(held_space_, {}));
  tell(kind, text.substr(0, size));
  held_space_ = text.substr(size);
  if (kind == Kind::kContent) may_reason_ = false;
  if (kind == Kind::kReasoning) reasoned_ = true;
}

bool ReaderState::text_step(Input& input) {
  if (format_->bare_object && may_reason_) {
    // Calls without a tag are at the beginning of the response.
    const std::size_t from = input.at;
    tell_trimmed(Kind::kContent, input.text.substr(from, skip_space(input) - from));
    if (input.empty()) return false;
    if (input.text[input.at] == '{' || input.text[input.at] == '[') {
      raw_begin_ = input.at;
      begin_section(format_->bare, false);
      return true;
    }
  }
  const TagMatch match = find_tag(input.text, input.at, format_->text_tags, input.ended);
  tell_trimmed(Kind::kContent, input.text.substr(input.at, match.at - input.at));
  input.at = match.at;
  if (match.tag == TagMatch::kNone) return false;
  const auto [kind, call] = format_->text_tag_kinds[to_size(match.tag)];
  const std::string& tag = format_->text_tags[to_size(match.tag)];
  if ((kind == Tag::kReasoning || kind == Tag::kReasoningEnd) && !may_reason_) {
    // In the middle of content the tag is part of the content. Before it, models repeat the closing tag.
    tell_trimmed(Kind::kContent, tag);
    input.at += tag.size();
    return true;
  }
  raw_begin_ = input.at;
  n_in_section_ = 0;
  if (kind == Tag::kHeader) {
    mode_ = Mode::kHeader;
    return true;
  }
  input.at += tag.size();
  if (kind == Tag::kCalls) {
    opener_ = call;
    chooses_ = true;
    mode_ = Mode::kBetween;
    return true;
  }
  held_space_.clear();
  drops_space_ = true;
  if (kind == Tag::kReasoning) {
    mode_ = Mode::kReasoning;
    reasoned_ = false;
  }
  return true;
}

bool ReaderState::reasoning_step(Input& input) {
  if (!reasoned_ && !format_->channels) {
    // The prompt opened it, and the model does so once more.
    skip_space(input);
    const Begins how = begins(input.rest(), format_->reasoning_begin, input.ended);
    if (how == Begins::kPerhaps) return false;
    if (how == Begins::kYes) input.at += format_->reasoning_begin.size();
    drops_space_ = true;
  }
  const TagMatch match = find_tag(input.text, input.at, format_->reasoning_tags, input.ended);
  tell_trimmed(Kind::kReasoning, input.text.substr(input.at, match.at - input.at));
  input.at = match.at;
  if (match.tag == TagMatch::kNone) return false;
  held_space_.clear();
  drops_space_ = true;
  reasoned_ = false;
  mode_ = Mode::kText;
  // A header is read from its own tag on.
  if (!format_->channels) input.at += format_->reasoning_tags[to_size(match.tag)].size();
  return true;
}

bool ReaderState::header_step(Input& input) {
  if (expects_header_) {
    bool perhaps = false, yes = false;
    for (const std::string_view beginning : {"<|channel|>", "<|start|>", " to=", "to="}) {
      const Begins how = begins(input.rest(), beginning, input.ended);
      perhaps |= how == Begins::kPerhaps;
      yes |= how == Begins::kYes;
    }
    if (!yes && perhaps) return false;
    expects_header_ = false;
    if (!yes) {
      mode_ = Mode::kText;
      return true;
    }
  }
  static const std::vector<std::string> kEnd = {std::string(kMessage)};
  const TagMatch match = find_tag(input.text, input.at, kEnd, input.ended);
  if (match.at - raw_begin_ > kMaxHeaderBytes) {
    input.at = raw_begin_ + kMaxHeaderBytes;
    return give_up(input);
  }
  input.at = match.at;
  if (match.tag == TagMatch::kNone) return input.ended && input.at > raw_begin_ ? give_up(input) : false;
  input.at += kMessage.size();
  begin_message(input.text.substr(raw_begin_, match.at - raw_begin_));
  return true;
}

void ReaderState::begin_message(std::string_view header) {
  const auto word_behind = [header](std::string_view mark) {
    const std::size_t found = header.rfind(mark);
    if (found == header.npos) return std::string_view();
    const std::string_view rest = header.substr(found + mark.size());
    return rest.substr(0, std::min(rest.size(), rest.find_first_of(" \n<")));
  };
  const std::string_view channel = word_behind(kChannel);
  std::string_view recipient = word_behind("to=");
  held_space_.clear();
  drops_space_ = true;
  constexpr std::string_view kFunctions = "functions.";
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  if (format_->reads_calls && is_tool_name(recipient)) {
    begin_section(format_->bare, true);
    begin_call();
    reader_ = NamedCall(std::string(recipient));
  } else {
    mode_ = channel == "analysis" ? Mode::kReasoning : Mode::kText;
  }
}

void ReaderState::begin_section(const CallFormat& format, bool certain) {
  calls_ = &format;
  certain_ = certain;
  list_open_ = false;
  n_in_section_ = 0;
  mode_ = Mode::kBetween;
}

bool ReaderState::choose_format(const Input& input) {
  std::size_t chosen = opener_;
  const std::string& opener = format_->calls[opener_].opener();
  for (std::size_t i = opener_; i < format_->calls.size(); ++i) {
    if (format_->calls[i].opener() != opener) continue;
    const bool object = !input.empty() && (input.rest().front() == '{' || input.rest().front() == '[');
    if ((format_->calls[i].style == CallStyle::kObject) == object) {
      chosen = i;
      break;
    }
  }
  begin_section(format_->calls[chosen], true);
  if (calls_->section_begin.empty() || calls_->style == CallStyle::kPython) begin_call();
  return true;
}

void ReaderState::begin_call() {
  switch (calls_->style) {
    case CallStyle::kObject:
      reader_ = ObjectCall(certain_);
      break;
    case CallStyle::kNamed:
      reader_ = NamedCall();
      break;
    case CallStyle::kParameters:
      reader_ = ParameterCall();
      break;
    case CallStyle::kPython:
    case CallStyle::kUnquoted:
      reader_ = WholeCalls();
      break;
  }
  reported_in_call_ = false;
  mode_ = Mode::kCall;
}

void ReaderState::end_section() {
  mode_ = Mode::kText;
  held_space_.clear();
  drops_space_ = true;
  may_reason_ = true;
}

bool ReaderState::give_up(Input& input) {
  mode_ = Mode::kText;
  chooses_ = false;
  if (n_in_section_ > 0) {
    end_section();
    may_reason_ = false;
  }
  tell_trimmed(Kind::kContent, input.text.substr(raw_begin_, input.at - raw_begin_));
  return true;
}

/// Lists and separators around objects.
bool ReaderState::between_objects_step(Input& input, bool& decided) {
  const char c = input.text[input.at];
  decided = true;
  if (c == '{') {
    begin_call();
  } else if (c == '[' && !list_open_ && n_in_section_ == 0) {
    list_open_ = true;
    ++input.at;
  } else if ((c == ',' || c == ';') && n_in_section_ > 0) {
    ++input.at;
  } else if (c == ']' && list_open_) {
    list_open_ = false;
    ++input.at;
    if (n_in_section_ == 0) return give_up(input);
    raw_begin_ = input.at;
    if (calls_->section_end.empty()) end_section();
  } else {
    decided = false;
  }
  return true;
}

bool ReaderState::between_step(Input& input) {
  skip_space(input);
  if (input.empty()) {
    if (!input.ended) return false;
    if (n_in_section_ == 0) return give_up(input);
    end_section();
    return true;
  }
  if (chooses_) {
    chooses_ = false;
    return choose_format(input);
  }
  if (calls_->style == CallStyle::kObject) {
    bool decided = false;
    const bool more = between_objects_step(input, decided);
    if (decided) return more;
  }
  if (const std::string_view separator = trimmed(calls_->separator);
      n_in_section_ > 0 && !separator.empty() && input.rest().starts_with(separator)) {
    input.at += separator.size();
    return true;
  }
  bool perhaps = false;
  for (const std::string CallFormat::* member :
       {&CallFormat::call_end, &CallFormat::section_end, &CallFormat::call_begin}) {
    const std::string& tag = calls_->*member;
    if (tag.empty()) continue;
    const Begins how = begins(input.rest(), tag, input.ended);
    perhaps |= how == Begins::kPerhaps;
    if (how == Begins::kYes && (n_in_section_ > 0 || member == &CallFormat::call_begin)) {
      input.at += tag.size();
      if (member == &CallFormat::section_end) {
        end_section();
      } else if (member == &CallFormat::call_end) {
        raw_begin_ = input.at;
        if (calls_->section_begin.empty() && calls_->section_end.empty()) end_section();
      } else if (calls_->style != CallStyle::kObject) {
        begin_call();
      }
      return true;
    }
    // The response was cut off within a tag.
    if (input.ended && n_in_section_ > 0 && tag.starts_with(input.rest())) {
      input.at = input.text.size();
      end_section();
      return true;
    }
  }
  if (perhaps) return false;
  return give_up(input);
}

bool ReaderState::call_step(Input& input) {
  const CallContext context{calls_, &format_->tools};
  const int n_before = n_calls_;
  CallEvents out{events_, n_calls_};
  const Progress progress =
      std::visit([&](auto& reader) { return reader.read(input, context, out); }, reader_);
  if (n_calls_ > n_before) {
    // Input that was reported as a call is not content.
    held_space_.clear();
    drops_space_ = true;
    n_in_section_ += n_calls_ - n_before;
    reported_in_call_ = true;
  }
  if (reported_in_call_) raw_begin_ = input.at;
  if (progress == Progress::kMore) return false;
  if (progress == Progress::kFailed && !reported_in_call_) return give_up(input);
  // At the end of the response the call stays unfinished: its last value may be cut.
  if (progress == Progress::kFailed && input.ended && input.empty()) return give_up(input);
  if (progress == Progress::kFailed) std::visit([&](auto& reader) { reader.complete(out); }, reader_);
  mode_ = progress == Progress::kFailed ? Mode::kSkip : Mode::kBetween;
  return true;
}

/// Skips the rest of a call whose arguments were not JSON.
bool ReaderState::skip_step(Input& input) {
  std::vector<std::string> tags;
  for (const std::string& tag : {calls_->call_end, calls_->section_end})
    if (!tag.empty()) tags.push_back(tag);
  const TagMatch match = find_tag(input.text, input.at, tags, input.ended);
  raw_begin_ = input.at = match.at;
  if (match.tag == TagMatch::kNone) return false;
  mode_ = Mode::kBetween;
  return true;
}

}  // namespace weft::chat
