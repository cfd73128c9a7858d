#include "chat/call_writer.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

std::string write_object(const CallFormat& format, const HistoryCall& call) {
  ordered_json object = ordered_json::object();
  if (!format.id_key.empty() && format.id_first) object[format.id_key] = call.id;
  object[format.name_key] = call.name;
  object[format.arguments_key] = call.arguments;
  if (!format.id_key.empty() && !format.id_first) object[format.id_key] = call.id;
  return object.dump();
}

std::string write_named(const CallFormat& format, const HistoryCall& call, std::size_t index) {
  std::string text = format.id_end.empty() ? std::string() : call.id + format.id_end;
  text += format.name_prefix + call.name;
  if (!format.index_mark.empty()) text += format.index_mark + std::to_string(index);
  return text + format.name_end + call.arguments.dump();
}

std::string write_parameters(const CallFormat& format, const HistoryCall& call) {
  std::string text = format.name_prefix + call.name + format.name_end;
  for (const auto& [key, value] : call.arguments.items()) {
    text +=
        format.key_begin + key + format.key_end + (value.is_string() ? format.text_kind : format.other_kind);
    text += format.value_begin;
    text += (value.is_string() ? value.get<std::string>() : value.dump()) + format.value_end;
  }
  return text;
}

/// JSON's values are Python's, but for three names; the reader takes either.
std::string write_python(const HistoryCall& call) {
  std::string text = call.name + "(";
  for (const auto& [key, value] : call.arguments.items()) {
    if (text.back() != '(') text += ", ";
    text += key + "=" + value.dump();
  }
  return text + ")";
}

std::string write_unquoted(const CallFormat& format, const HistoryCall& call) {
  std::string text = format.name_prefix + call.name + "{";
  for (const auto& [key, value] : call.arguments.items()) {
    if (text.back() != '{') text += ",";
    text += key + ":" +
            (value.is_string() ? format.quote + value.get<std::string>() + format.quote : value.dump());
  }
  return text + "}";
}

std::string write_call(const CallFormat& format, const HistoryCall& call, std::size_t index) {
  switch (format.style) {
    case CallStyle::kObject:
      return write_object(format, call);
    case CallStyle::kNamed:
      return write_named(format, call, index);
    case CallStyle::kParameters:
      return write_parameters(format, call);
    case CallStyle::kPython:
      return write_python(call);
    case CallStyle::kUnquoted:
      return write_unquoted(format, call);
  }
  return {};
}

}  // namespace

std::string write_calls(const CallFormat& format, const std::vector<HistoryCall>& calls) {
  std::string text = format.section_begin;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) text += format.separator;
    text += format.call_begin + write_call(format, calls[i], i) + format.call_end;
  }
  return text + format.section_end;
}

}  // namespace weft::chat
