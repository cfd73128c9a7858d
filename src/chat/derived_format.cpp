#include "chat/derived_format.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/to_size.h"
#include "chat/json_scanner.h"
#include "chat/messages.h"
#include "chat/reader_state.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFirst = "probe_first", kSecond = "probe_second", kKey = "probe_key",
                           kNumber = "probe_n";

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return to_size(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
std::size_t common_suffix(std::string_view a, std::string_view b) {
  return to_size(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

Tool probe_tool(std::string_view name) {
  Tool tool{.name = std::string(name)};
  tool.properties = {{.name = std::string(kKey), .types = grammar::kStringBit},
                     {.name = std::string(kNumber)}};
  return tool;
}

std::string probe_tools_json() {
  ordered_json all = ordered_json::array();
  for (const std::string_view name : {kFirst, kSecond}) {
    ordered_json properties = ordered_json::object();
    properties[kKey] = {{"type", "string"}, {"description", "a"}};
    properties[kNumber] = {{"type", "integer"}, {"description", "b"}};
    const ordered_json schema = {
        {"type", "object"}, {"properties", properties}, {"required", {kKey, kNumber}}};
    const ordered_json function = {{"name", name}, {"description", "c"}, {"parameters", schema}};
    all.push_back({{"type", "function"}, {"function", function}});
  }
  return all.dump();
}

HistoryCall probe_call(bool first) {
  HistoryCall call{.id = first ? "idprobe01" : "idprobe02", .name = std::string(first ? kFirst : kSecond)};
  call.arguments[kKey] = first ? "probe_one" : "probe_two";
  call.arguments[kNumber] = first ? 7 : 8;
  return call;
}

/// The JSON object or array that begins at `from`; empty where there is none.
std::string_view json_at(std::string_view text, std::size_t from) {
  JsonScanner scanner;
  std::string value;
  for (std::size_t i = from; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.feed(text[i], value);
    if (step == JsonScanner::Step::kDone) return text.substr(from, i + 1 - from);
    if (step != JsonScanner::Step::kMore) break;
  }
  return {};
}

/// A part that ends inside a tag loses it; one that begins inside a tag does, too.
std::string_view without_cut_tail(std::string_view text) {
  const std::size_t open = text.rfind('<'), close = text.rfind('>');
  return open != text.npos && (close == text.npos || close < open) ? text.substr(0, open) : text;
}
std::string_view without_cut_head(std::string_view text) {
  const std::size_t open = text.find('<'), close = text.find('>');
  return close != text.npos && (open == text.npos || close < open) ? text.substr(close + 1) : text;
}

/// The position of one call.
struct Place {
  /// Bounds of the object, or from the name to the end of the last argument.
  std::size_t begin = 0, end = 0;
};

/// The response ends after the calls: whatever follows the first tag is the template's.
std::string_view first_tag(std::string_view text) {
  const std::size_t close = text.find('>');
  return close != text.npos && text.find('<', close) != text.npos ? text.substr(0, close + 1) : text;
}

/// Learns the tags of sections and calls from the strings around and between calls. `first` and `second` are
/// positions in written.two, nullopt where it is empty.
bool learn_tags(CallFormat& format, const WrittenCalls& written, const Place& one,
                const std::optional<Place>& first, const std::optional<Place>& second) {
  const std::string_view single = written.one, both = written.two;
  const std::string_view before = single.substr(0, one.begin), behind = single.substr(one.end);
  if (!first || !second) {
    format.call_begin = before;
    format.call_end = first_tag(behind);
    return both.empty() && !trimmed(before).empty();
  }
  if (before != both.substr(0, first->begin) || behind != both.substr(second->end)) return false;
  const std::string_view between = both.substr(first->end, second->begin - first->end);
  if (trimmed(before).ends_with('[') && trimmed(behind).starts_with(']') && trimmed(between) == ",") {
    format.list = true;
    format.section_begin = before;
    format.section_end = first_tag(behind);
    format.separator = between;
    return true;
  }
  const std::string_view call_begin =
      without_cut_head(before.substr(before.size() - common_suffix(before, between)));
  std::string_view call_end = without_cut_tail(behind.substr(0, common_prefix(behind, between)));
  if (call_begin.size() + call_end.size() > between.size()) call_end = trimmed(call_end);
  if (call_begin.size() + call_end.size() > between.size()) return false;
  format.call_begin = call_begin;
  format.call_end = call_end;
  format.separator = between.substr(call_end.size(), between.size() - call_end.size() - call_begin.size());
  format.section_begin = before.substr(0, before.size() - call_begin.size());
  format.section_end = first_tag(behind.substr(call_end.size()));
  if (trimmed(format.section_begin).empty()) {
    format.section_begin.clear();
    if (call_end.empty()) format.call_end = format.section_end;
    format.section_end.clear();
  }
  return !trimmed(format.opener()).empty();
}

std::optional<CallFormat> objects(const WrittenCalls& written) {
  CallFormat format{.style = CallStyle::kObject};
  const auto place = [&](std::string_view text, std::string_view name) -> std::optional<Place> {
    const std::size_t at = text.find("\"" + std::string(name) + "\"");
    if (at == text.npos) return std::nullopt;
    const std::size_t begin = text.rfind('{', at);
    const std::string_view object = begin == text.npos ? std::string_view() : json_at(text, begin);
    if (object.size() <= at - begin) return std::nullopt;
    bool has_arguments = false;
    const ordered_json parsed = base::try_parse_json<ordered_json>(object).value_or(nullptr);
    for (const auto& [key, value] : parsed.items()) {
      if (value == name) format.name_key = key;
      if (value.is_object() ||
          (value.is_string() && value.get<std::string>().find(kKey) != std::string::npos)) {
        format.arguments_key = key;
        has_arguments = true;
      }
    }
    if (!has_arguments) return std::nullopt;
    return Place{begin, begin + object.size()};
  };
  const auto one = place(written.one, kFirst), first = place(written.two, kFirst),
             second = place(written.two, kSecond);
  if (!one || !learn_tags(format, written, *one, first, second)) return std::nullopt;
  return format;
}

std::optional<CallFormat> named(const WrittenCalls& written) {
  CallFormat format{.style = CallStyle::kNamed};
  const auto place = [&](std::string_view text, std::string_view name) -> std::optional<Place> {
    const std::size_t at = text.find(name);
    if (at == text.npos) return std::nullopt;
    const std::size_t begin = text.find('{', at);
    const std::string_view object = begin == text.npos ? std::string_view() : json_at(text, begin);
    if (object.find(kKey) == object.npos) return std::nullopt;
    format.name_end = text.substr(at + name.size(), begin - at - name.size());
    std::size_t from = at;
    if (const std::size_t id = text.substr(0, at).rfind("idprobe0"); id != text.npos && at - id < 64) {
      from = id;
      format.id_end = text.substr(id + probe_call(true).id.size(), at - id - probe_call(true).id.size());
    }
    return Place{from, begin + object.size()};
  };
  const auto one = place(written.one, kFirst), first = place(written.two, kFirst),
             second = place(written.two, kSecond);
  if (!one || !learn_tags(format, written, *one, first, second)) return std::nullopt;
  return format;
}

/// name X1 key X2 value X3 key X2 value X4
std::optional<CallFormat> parameters(const WrittenCalls& written) {
  CallFormat format{.style = CallStyle::kParameters};
  const auto place = [&](std::string_view text, std::string_view name, std::string_view value,
                         std::string_view number) -> std::optional<Place> {
    std::size_t ends[5] = {}, from = text.find(name);
    const std::size_t begin = from;
    std::string_view gaps[5];
    const std::string_view parts[5] = {name, kKey, value, kNumber, number};
    for (int i = 0; i < 5; ++i) {
      const std::size_t at = from == text.npos ? from : text.find(parts[i], from);
      if (at == text.npos) return std::nullopt;
      if (i > 0) gaps[i] = text.substr(ends[i - 1], at - ends[i - 1]);
      from = ends[i] = at + parts[i].size();
    }
    const std::string_view tail = text.substr(ends[4]);
    std::string_view key_begin =
        without_cut_head(gaps[1].substr(gaps[1].size() - common_suffix(gaps[1], gaps[3])));
    while (!key_begin.empty() && is_space(key_begin.front())) key_begin.remove_prefix(1);
    const std::string_view value_end = without_cut_tail(tail.substr(0, common_prefix(tail, gaps[3])));
    if (gaps[2] != gaps[4] || trimmed(key_begin).empty() || trimmed(value_end).empty() ||
        trimmed(gaps[2]).empty()) {
      return std::nullopt;
    }
    if (key_begin.size() + value_end.size() > gaps[3].size()) return std::nullopt;
    format.key_begin = key_begin;
    format.key_end = gaps[2];
    format.name_end = gaps[1].substr(0, gaps[1].size() - key_begin.size());
    format.value_end =
        std::string(value_end) +
        std::string(gaps[3].substr(value_end.size(), gaps[3].size() - value_end.size() - key_begin.size()));
    if (!tail.starts_with(format.value_end)) format.value_end = value_end;
    format.padded = gaps[2].ends_with('\n') && value_end.starts_with('\n');
    return Place{begin, ends[4] + format.value_end.size()};
  };
  const auto one = place(written.one, kFirst, "probe_one", "7");
  const auto first = place(written.two, kFirst, "probe_one", "7");
  const auto second = place(written.two, kSecond, "probe_two", "8");
  if (!one || !learn_tags(format, written, *one, first, second)) return std::nullopt;
  return format.call_end.empty() ? std::nullopt : std::optional(format);
}

}  // namespace

std::optional<WrittenCalls> write_probe_calls(const ChatTemplate& chat_template, const Abilities& abilities) {
  if (!abilities.calls) return std::nullopt;
  ordered_json variables = {{"now", "2024-07-26"}};
  if (abilities.functions) variables["functions"] = functions_text(probe_tools_json());
  const auto render = [&](const Message& answer) {
    const std::vector<Message> messages = {{.role = "user", .content = "probe_user"}, answer};
    return try_render(chat_template, to_json(messages, abilities).dump(), probe_tools_json(),
                      variables.dump(), false);
  };
  const auto plain = render({.role = "assistant", .content = "probe_content"});
  const auto one = render({.role = "assistant", .calls = {probe_call(true)}});
  auto two = render({.role = "assistant", .calls = {probe_call(true), probe_call(false)}});
  if (!plain || !one) return std::nullopt;
  if (!abilities.parallel_calls) two = one;
  if (!two) return std::nullopt;
  // The common prefix and suffix of all responses are the template's, not the model's.
  const std::size_t common = std::min(common_prefix(*plain, *one), common_prefix(*plain, *two));
  const std::size_t head = without_cut_tail(std::string_view(*one).substr(0, common)).size();
  const std::size_t tail = std::min(
      {common_suffix(*plain, *one), common_suffix(*plain, *two), one->size() - head, two->size() - head});
  const auto own = [&](const std::string& text) {
    return std::string(without_cut_tail(std::string_view(text).substr(head, text.size() - head - tail)));
  };
  return WrittenCalls{own(*one), abilities.parallel_calls ? own(*two) : std::string()};
}

bool reads_back(const Format& format, const WrittenCalls& written) {
  const auto response_format = std::make_shared<const ResponseFormat>(
      format, std::vector<Tool>{probe_tool(kFirst), probe_tool(kSecond)}, true, false);
  for (const bool both : {false, true}) {
    if (both && written.two.empty()) break;
    ReaderState state(response_format);
    std::vector<ResponseEvent> events = state.read(both ? written.two : written.one, false);
    for (ResponseEvent& event : state.read({}, true)) events.push_back(std::move(event));
    std::vector<std::string> calls;
    for (const ResponseEvent& event : events) {
      if (event.kind == ResponseEvent::Kind::kToolCall) calls.push_back(event.name);
      if (event.kind == ResponseEvent::Kind::kToolArguments && !calls.empty()) calls.back() += event.text;
    }
    std::vector<std::string> expected;
    for (const bool first : {true, false}) {
      if (!first && !both) continue;
      const HistoryCall call = probe_call(first);
      expected.push_back(call.name + call.arguments.dump());
    }
    // Models write spaces, dump() does not.
    for (std::string& call : calls)
      call.erase(std::remove_if(call.begin(), call.end(), is_space), call.end());
    if (calls != expected) return false;
  }
  return true;
}

std::optional<Format> derive_format(const WrittenCalls& written) {
  for (const auto learn : {objects, named, parameters}) {
    if (const std::optional<CallFormat> calls = learn(written)) {
      const Format format{.name = "derived", .calls = {*calls}};
      if (reads_back(format, written)) return format;
    }
  }
  return std::nullopt;
}

}  // namespace weft::chat
