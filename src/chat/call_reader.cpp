#include "chat/call_reader.h"

#include <utility>

#include "chat/loose_calls.h"
#include "chat/tag_finder.h"
#include "text/utf8.h"

namespace weft::chat {

namespace {

using Step = JsonScanner::Step;

bool is_object(std::string_view json) { return trimmed(json).starts_with('{') && is_json(json); }

bool strip_prefix(std::string_view& text, std::string_view prefix) {
  if (prefix.empty() || !text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

char32_t hex(std::string_view digits) {
  char32_t code = 0;
  for (const char d : digits)
    code = code * 16 + static_cast<char32_t>(d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
  return code;
}

/// Reports more of an object. A comma is held until the next member begins, which may not be JSON. A
/// character or escape is held until it is complete.
void tell_object(const JsonScanner& scanner, std::string& object, CallEvents& out) {
  const std::size_t size =
      scanner.is_after_comma() ? object.rfind(',') : object.size() - scanner.n_incomplete();
  out.arguments(std::string_view(object).substr(0, size));
  object.erase(0, size);
}

/// Reports the end of an object that stops being JSON.
void complete_object(const JsonScanner& scanner, std::string& object, CallEvents& out) {
  scanner.complete(object);
  out.arguments(object);
}

/// The type of a JSON value, as TypeBit.
unsigned json_type(std::string_view json) {
  switch (json.front()) {
    case '{':
      return grammar::kObjectBit;
    case '[':
      return grammar::kArrayBit;
    case '"':
      return grammar::kStringBit;
    case 't':
    case 'f':
      return grammar::kBoolBit;
    case 'n':
      return grammar::kNullBit;
    default:
      // 3.0 is an integer, too.
      return json.find_first_of(".eE") == json.npos ? grammar::kIntegerBit
                                                    : grammar::kNumberBit | grammar::kIntegerBit;
  }
}

/// A string or number that the scanner has seen, without quotes and escapes.
std::string plain_text(std::string_view json) {
  json = trimmed(json);
  if (!json.starts_with('"')) return std::string(json);
  json = json.substr(1, json.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '\\') {
      text += json[i];
      continue;
    }
    constexpr std::string_view kLetters = "bfnrt", kBytes = "\b\f\n\r\t";
    const char c = json[++i];
    if (c == 'u') {
      char32_t code = hex(json.substr(i + 1, 4));
      i += 4;
      if (code >= 0xD800 && code <= 0xDBFF) {  // The other half follows: the scanner has seen to it.
        code = 0x10000 + ((code - 0xD800) << 10) + (hex(json.substr(i + 3, 4)) - 0xDC00);
        i += 6;
      }
      text::append_utf8(text, code);
    } else if (const std::size_t letter = kLetters.find(c); letter != kLetters.npos) {
      text += kBytes[letter];
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

void CallEvents::begin(std::string name, std::string id) {
  events.push_back({ResponseEvent::Kind::kToolCall, {}, n_calls++, std::move(name), std::move(id)});
}

void CallEvents::arguments(std::string_view json) {
  if (json.empty()) return;
  if (!events.empty() && events.back().kind == ResponseEvent::Kind::kToolArguments) {
    events.back().text += json;
  } else {
    events.push_back({ResponseEvent::Kind::kToolArguments, std::string(json), n_calls - 1});
  }
}

void CallEvents::end() { events.push_back({ResponseEvent::Kind::kToolCallEnd, {}, n_calls - 1}); }

// ObjectCall

Progress ObjectCall::read(Input& input, const CallContext& context, CallEvents& out) {
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore && !input.empty()) {
    progress = step(input.text[input.at], input, context, out);
  }
  if (progress != Progress::kDone && streams_ && reported_) tell_arguments(out);
  return progress == Progress::kMore && input.ended ? Progress::kFailed : progress;
}

bool ObjectCall::key_ended(const CallFormat& format) {
  const std::string key = plain_text(value_);
  const bool arguments =
      key == format.arguments_key || key == "arguments" || key == "parameters" || key == "args";
  field_ = key == format.name_key || key == "name" ? Field::kName
           : arguments                             ? Field::kArguments
           : key == "id" || key == format.id_key   ? Field::kId
           : key == "function" && depth_ == 1      ? Field::kFunction
                                                   : Field::kOther;
  mode_ = Mode::kColon;
  return certain_ || field_ != Field::kOther || key == "type";
}

bool ObjectCall::value_follows(char c) {
  value_.clear();
  scanner_ = {};
  mode_ = Mode::kValue;
  if (field_ == Field::kFunction) {
    // Either the object that holds name and arguments, or the name itself.
    if (c == '{') {
      mode_ = Mode::kOpen;
    } else {
      field_ = Field::kName;
    }
    return true;
  }
  if (field_ != Field::kArguments) return true;
  if (has_arguments_) return false;
  has_arguments_ = true;
  streams_ = c == '{';
  return streams_ || c == '"' || c == 'n';
}

bool ObjectCall::value_ended(const CallContext& context) {
  switch (field_) {
    case Field::kName:
      if (!name_.empty() || !value_.starts_with('"')) return false;
      name_ = plain_text(value_);
      if (!is_tool_name(name_) || !(certain_ || find_tool(*context.tools, name_))) return false;
      break;
    case Field::kId:
      id_ = plain_text(value_);
      if (id_.size() > kMaxHeaderBytes) return false;
      break;
    case Field::kArguments:
      if (!streams_) {
        arguments_ = plain_text(value_);
        if (arguments_ == "null" || arguments_.empty()) arguments_ = "{}";
        if (!is_object(arguments_)) return false;
      }
      break;
    case Field::kFunction:
    case Field::kOther:
      break;
  }
  mode_ = Mode::kAfterValue;
  return true;
}

/// Reports the call and its arguments so far, once the name is known and arguments have begun.
void ObjectCall::tell_arguments(CallEvents& out) {
  if (name_.empty() || !has_arguments_) return;
  // A brace alone may still be the beginning of something else.
  if (streams_ && !reported_ && arguments_.empty() && trimmed(value_).size() < 2) return;
  if (!reported_) out.begin(name_, id_);
  reported_ = true;
  out.arguments(arguments_);
  arguments_.clear();
  if (streams_) tell_object(scanner_, value_, out);
}

void ObjectCall::complete(CallEvents& out) {
  if (streams_) complete_object(scanner_, value_, out);
  out.end();
}

Progress ObjectCall::object_ended(CallEvents& out) {
  if (--depth_ > 0) {
    mode_ = Mode::kAfterValue;
    return Progress::kMore;
  }
  if (name_.empty()) return Progress::kFailed;
  if (!has_arguments_) {
    if (!certain_) return Progress::kFailed;
    has_arguments_ = true;
    arguments_ = "{}";
  }
  tell_arguments(out);
  out.end();
  return Progress::kDone;
}

Progress ObjectCall::step(char c, Input& input, const CallContext& context, CallEvents& out) {
  const auto fail_unless = [&](bool good) { return good ? Progress::kMore : Progress::kFailed; };
  const bool reads_value = mode_ == Mode::kKey || mode_ == Mode::kValue;
  if (!reads_value && is_space(c)) {
    ++input.at;
    return Progress::kMore;
  }
  switch (mode_) {
    case Mode::kOpen:
      if (c != '{') return Progress::kFailed;
      ++depth_;
      mode_ = Mode::kFirstKey;
      break;
    case Mode::kFirstKey:
    case Mode::kAfterValue:
      if (c == '}') {
        ++input.at;
        return object_ended(out);
      }
      if (mode_ == Mode::kAfterValue) {
        if (c != ',') return Progress::kFailed;
        mode_ = Mode::kKeyFollows;
        break;
      }
      [[fallthrough]];
    case Mode::kKeyFollows:
      if (c != '"') return Progress::kFailed;
      mode_ = Mode::kKey;
      value_.clear();
      scanner_ = {};
      return Progress::kMore;
    case Mode::kColon:
      if (c != ':') return Progress::kFailed;
      mode_ = Mode::kValueFollows;
      break;
    case Mode::kValueFollows:
      // The value's first byte is read as part of it.
      return fail_unless(value_follows(c));
    case Mode::kKey:
    case Mode::kValue: {
      const Step step = scanner_.feed(c, value_);
      if (step == Step::kBad) return Progress::kFailed;
      if (step != Step::kDoneBefore) ++input.at;
      if (mode_ == Mode::kKey) {
        if (value_.size() > kMaxHeaderBytes) return Progress::kFailed;
        return step == Step::kDone ? fail_unless(key_ended(*context.format)) : Progress::kMore;
      }
      if (field_ == Field::kOther) value_.clear();
      if (streams_ && !reported_ && !name_.empty()) tell_arguments(out);
      if (step == Step::kMore) return Progress::kMore;
      if (!value_ended(context)) return Progress::kFailed;
      if (streams_) {
        // Arguments that came before the name wait for it.
        if (!reported_) arguments_ = std::exchange(value_, {});
        tell_arguments(out);
        streams_ = false;
      }
      return Progress::kMore;
    }
  }
  ++input.at;
  return Progress::kMore;
}

// NamedCall

/// Parses prefix, name and end, with an id before or after the name.
bool NamedCall::read_header(const CallFormat& format) {
  std::string_view text = trimmed(header_);
  if (const std::string_view end = trimmed(format.name_end); text.ends_with(end))
    text.remove_suffix(end.size());
  if (!format.id_end.empty()) {
    if (const std::size_t mark = text.find(format.id_end); mark != text.npos) {
      std::string_view id = text.substr(0, mark);
      strip_prefix(id, format.name_prefix);
      id_ = trimmed(id);
      text.remove_prefix(mark + format.id_end.size());
    }
  }
  if (!format.id_begin.empty()) {
    if (const std::size_t mark = text.find(format.id_begin); mark != text.npos) {
      id_ = trimmed(text.substr(mark + format.id_begin.size()));
      text = text.substr(0, mark);
    }
  }
  text = trimmed(text);
  const std::string_view whole = text;
  strip_prefix(text, format.name_prefix);
  if (!format.index_mark.empty()) {
    if (const std::size_t mark = text.rfind(format.index_mark); mark != text.npos) {
      id_ = whole;
      text = text.substr(0, mark);
    }
  }
  name_ = trimmed(text);
  return is_tool_name(name_);
}

Progress NamedCall::read(Input& input, const CallContext& context, CallEvents& out) {
  if (in_header_) {
    const TagMatch match = find_tag(input.text, input.at, {"{", context.format->call_end}, input.ended);
    const std::size_t left = kMaxHeaderBytes - header_.size();
    if (match.at - input.at > left) {
      input.at += left;
      return Progress::kFailed;
    }
    header_ += input.text.substr(input.at, match.at - input.at);
    input.at = match.at;
    if (match.tag == TagMatch::kNone) return input.ended ? Progress::kFailed : Progress::kMore;
    if (!read_header(*context.format)) return Progress::kFailed;
    in_header_ = false;
    if (match.tag == 1) {  // A call without arguments.
      out.begin(name_, id_);
      out.arguments("{}");
      out.end();
      return Progress::kDone;
    }
  }
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore && !input.empty()) {
    const char c = input.text[input.at];
    if (object_.empty() && !reported_ && c != '{' && !is_space(c)) return Progress::kFailed;
    if (object_.empty() && !reported_ && is_space(c)) {
      ++input.at;
      continue;
    }
    const Step step = scanner_.feed(c, object_);
    if (step == Step::kBad) {
      progress = Progress::kFailed;
    } else {
      ++input.at;
      if (step == Step::kDone) progress = Progress::kDone;
    }
  }
  // A brace alone may still be the beginning of something else.
  if (!reported_ && trimmed(object_).size() > 1) {
    out.begin(name_, id_);
    reported_ = true;
  }
  if (reported_) tell_object(scanner_, object_, out);
  if (progress == Progress::kDone) out.end();
  return progress == Progress::kMore && input.ended ? Progress::kFailed : progress;
}

void NamedCall::complete(CallEvents& out) {
  complete_object(scanner_, object_, out);
  out.end();
}

// ParameterCall

Progress ParameterCall::read(Input& input, const CallContext& context, CallEvents& out) {
  while (true) {
    const Mode mode = mode_;
    const std::size_t at = input.at;
    const Progress progress = step(input, context, out);
    if (progress != Progress::kMore) return progress;
    if (mode_ == mode && input.at == at) return input.ended ? Progress::kFailed : Progress::kMore;
  }
}

/// Moves the input that certainly precedes all of the tags into part_.
ParameterCall::Found ParameterCall::take_until(Input& input, const std::vector<std::string>& tags,
                                               std::size_t most) {
  const TagMatch match = find_tag(input.text, input.at, tags, input.ended);
  if (match.at - input.at > most - part_.size()) {
    input.at += most - part_.size();
    return Found::kTooLate;
  }
  part_ += input.text.substr(input.at, match.at - input.at);
  input.at = match.at;
  return match.tag == TagMatch::kNone ? Found::kNotYet : Found::kYes;
}

void ParameterCall::tell(std::string_view json, CallEvents& out) {
  for (const char c : json) {
    if (broken_) break;
    broken_ = check_.feed(c, pending_) == Step::kBad;
  }
  tell_object(check_, pending_, out);
}

void ParameterCall::complete(CallEvents& out) {
  complete_object(check_, pending_, out);
  out.end();
}

void ParameterCall::value_begins(const CallContext& context) {
  const Tool* tool = find_tool(*context.tools, name_);
  const ToolParameter* parameter = tool ? find_parameter(*tool, key_) : nullptr;
  types_ = parameter ? parameter->types : static_cast<unsigned>(grammar::kAllTypes);
  // DeepSeek's models mark strings, which decides if the schema allows strings and other types.
  const std::string_view text_kind = trimmed(context.format->text_kind);
  if (!text_kind.empty() && trimmed(part_) == text_kind && (types_ & grammar::kStringBit) != 0)
    types_ = grammar::kStringBit;
  mode_ = (types_ & ~grammar::kNullBit) == grammar::kStringBit ? Mode::kText : Mode::kOther;
  part_.clear();
  value_is_empty_ = true;
}

/// Returns the value if it is JSON of a type that the parameter allows, otherwise the value as a JSON string.
std::string ParameterCall::value_json(const CallFormat& format) const {
  const std::string_view value = trimmed(part_);
  const bool may_be_text = (types_ & grammar::kStringBit) != 0;
  if (is_json(value) && (!may_be_text || (types_ & json_type(value)) != 0)) return std::string(value);
  std::string json = "\"";
  std::string_view text = part_;
  if (format.padded && text.starts_with('\n')) text.remove_prefix(1);
  if (format.padded && text.ends_with('\n')) text.remove_suffix(1);
  append_escaped(json, text);
  return json + '"';
}

/// Between parameters: a key or the call's end.
Progress ParameterCall::next(Input& input, const CallContext& context, CallEvents& out) {
  const CallFormat& format = *context.format;
  while (!input.empty() && is_space(input.text[input.at])) ++input.at;
  if (input.empty()) return Progress::kMore;
  const Begins key = begins(input.rest(), format.key_begin, input.ended);
  const Begins end = begins(input.rest(), format.call_end, input.ended);
  if (key == Begins::kYes) {
    input.at += format.key_begin.size();
    part_.clear();
    mode_ = Mode::kKey;
    return Progress::kMore;
  }
  if (end == Begins::kYes) {
    tell("}", out);
    if (broken_) return Progress::kFailed;
    out.end();
    return Progress::kDone;
  }
  return key == Begins::kPerhaps || end == Begins::kPerhaps ? Progress::kMore : Progress::kFailed;
}

Progress ParameterCall::step(Input& input, const CallContext& context, CallEvents& out) {
  const CallFormat& format = *context.format;
  switch (mode_) {
    case Mode::kName: {
      // If the format has no tag after the name, the first key or the call's end ends it.
      const bool tagged = !format.name_end.empty();
      const Found found = tagged ? take_until(input, {format.name_end}, kMaxHeaderBytes)
                                 : take_until(input, {format.key_begin, format.call_end}, kMaxHeaderBytes);
      if (found != Found::kYes) return found == Found::kTooLate ? Progress::kFailed : Progress::kMore;
      if (tagged) input.at += format.name_end.size();
      std::string_view name = trimmed(part_);
      strip_prefix(name, format.name_prefix);
      name_ = name;
      if (!is_tool_name(name_)) return Progress::kFailed;
      out.begin(name_, {});
      mode_ = Mode::kNext;
      tell("{", out);
      return Progress::kMore;
    }
    case Mode::kNext:
      return next(input, context, out);
    case Mode::kKey: {
      const Found found = take_until(input, {format.key_end}, kMaxHeaderBytes);
      if (found != Found::kYes) return found == Found::kTooLate ? Progress::kFailed : Progress::kMore;
      input.at += format.key_end.size();
      key_ = trimmed(part_);
      std::string json = n_parameters_++ > 0 ? ", \"" : "\"";
      append_escaped(json, key_);
      json += "\": ";
      tell(json, out);
      part_.clear();
      mode_ = Mode::kBeforeValue;
      if (format.value_begin.empty()) value_begins(context);
      return Progress::kMore;
    }
    case Mode::kBeforeValue: {
      const Found found = take_until(input, {format.value_begin}, kMaxHeaderBytes);
      if (found != Found::kYes) return found == Found::kTooLate ? Progress::kFailed : Progress::kMore;
      input.at += format.value_begin.size();
      value_begins(context);
      return Progress::kMore;
    }
    case Mode::kText:
    case Mode::kOther:
      break;
  }
  const bool found = take_until(input, {format.value_end}, std::string::npos) == Found::kYes;
  if (mode_ == Mode::kOther) {
    if (!found) return Progress::kMore;
    tell(value_json(format), out);
  } else if (value_is_empty_ && (types_ & grammar::kNullBit) != 0 &&
             std::string_view("null").starts_with(trimmed(part_)) && !(found && trimmed(part_) != "null")) {
    if (!found) return Progress::kMore;
    tell("null", out);
  } else {
    // A line break at the value's beginning and end belongs to the format; the last one waits for the tag.
    std::string json = value_is_empty_ && !part_.empty() ? "\"" : "";
    std::string_view text = part_;
    if (value_is_empty_ && format.padded && text.starts_with('\n')) text.remove_prefix(1);
    const bool held = format.padded && text.ends_with('\n');
    if (held) text.remove_suffix(1);
    if (!part_.empty()) value_is_empty_ = false;
    append_escaped(json, text);
    if (found) {
      if (value_is_empty_) json += '"';
      json += '"';
    }
    part_ = held && !found ? "\n" : "";
    tell(json, out);
    if (!found) return Progress::kMore;
  }
  input.at += format.value_end.size();
  part_.clear();
  mode_ = Mode::kNext;
  return Progress::kMore;
}

// WholeCalls

Progress WholeCalls::read(Input& input, const CallContext& context, CallEvents& out) {
  const CallFormat& format = *context.format;
  const std::string& end = format.style == CallStyle::kPython ? format.section_end : format.call_end;
  const TagMatch match = find_tag(input.text, input.at, {end}, input.ended);
  text_ += input.text.substr(input.at, match.at - input.at);
  input.at = match.at;
  if (match.tag == TagMatch::kNone && !input.ended) return Progress::kMore;
  std::vector<WholeCall> calls;
  if (format.style == CallStyle::kPython) {
    if (auto all = read_python_calls(text_, *context.tools)) calls = std::move(*all);
  } else {
    std::string_view text = trimmed(text_);
    strip_prefix(text, format.name_prefix);
    if (auto call = read_unquoted_call(text, format.quote)) calls.push_back(std::move(*call));
  }
  for (WholeCall& call : calls) {
    out.begin(std::move(call.name), {});
    out.arguments(call.arguments);
    out.end();
  }
  return calls.empty() ? Progress::kFailed : Progress::kDone;
}

}  // namespace weft::chat
