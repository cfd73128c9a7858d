#include "chat/response_format.h"

#include <algorithm>
#include <utility>

#include "chat/json_scanner.h"

namespace weft::chat {

namespace {

CallFormat for_reading(CallFormat format) {
  for (std::string CallFormat::* tag :
       {&CallFormat::section_begin, &CallFormat::section_end, &CallFormat::call_begin, &CallFormat::call_end,
        &CallFormat::name_prefix, &CallFormat::name_end, &CallFormat::id_begin, &CallFormat::id_end,
        &CallFormat::key_begin, &CallFormat::key_end, &CallFormat::value_begin, &CallFormat::value_end}) {
    format.*tag = std::string(trimmed(format.*tag));
  }
  if (format.list) {
    // The brackets of a list are removed from the tags. They are read where they occur, and may be missing.
    if (format.section_begin.ends_with('[')) format.section_begin.pop_back();
    if (format.section_end.starts_with(']')) format.section_end.erase(0, 1);
    format.section_begin = std::string(trimmed(format.section_begin));
    format.section_end = std::string(trimmed(format.section_end));
  }
  if (format.style == CallStyle::kObject && format.section_begin.empty()) {
    // One pair of tags may hold several objects.
    format.section_begin = std::exchange(format.call_begin, {});
    format.section_end = std::exchange(format.call_end, {});
  }
  return format;
}

}  // namespace

ResponseFormat::ResponseFormat(const Format& format, std::vector<Tool> known_tools, bool with_calls,
                               bool reasoning_is_open)
    : tools(std::move(known_tools)),
      reads_calls(with_calls),
      bare_object(with_calls && format.bare_object),
      channels(format.channels),
      opens_in_reasoning(reasoning_is_open),
      reasoning_begin(trimmed(format.reasoning_begin)) {
  const auto add = [&](std::string_view tag, Tag kind, std::size_t call = 0) {
    if (tag.empty() || std::find(text_tags.begin(), text_tags.end(), tag) != text_tags.end()) return;
    text_tags.emplace_back(tag);
    text_tag_kinds.push_back({kind, call});
  };
  add(reasoning_begin, Tag::kReasoning);
  if (with_calls) {
    for (const CallFormat& call : format.calls) {
      calls.push_back(for_reading(call));
      add(calls.back().opener(), Tag::kCalls, calls.size() - 1);
    }
  }
  if (format.bare_object && !format.calls.empty()) {
    bare.name_key = format.calls.front().name_key;
    bare.arguments_key = format.calls.front().arguments_key;
  }
  for (const std::string& wrapper : format.wrappers) add(trimmed(wrapper), Tag::kWrapper);
  if (!format.reasoning_end.empty()) reasoning_tags.emplace_back(trimmed(format.reasoning_end));
  if (!channels) add(trimmed(format.reasoning_end), Tag::kReasoningEnd);
  if (channels) {
    bare.style = CallStyle::kNamed;
    bare.call_end = "<|call|>";
    for (const char* tag : {"<|channel|>", "<|start|>"}) add(tag, Tag::kHeader);
    for (const char* tag : {"<|end|>", "<|return|>", "<|call|>"}) add(tag, Tag::kMessageEnd);
    reasoning_tags = text_tags;
  }
}

}  // namespace weft::chat
