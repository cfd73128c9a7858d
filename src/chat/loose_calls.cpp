#include "chat/loose_calls.h"

#include <algorithm>

#include "chat/json_scanner.h"
#include "text/utf8.h"

namespace weft::chat {

namespace {

constexpr int kMaxDepth = 100;

void append_string(std::string& json, std::string_view text) {
  json += '"';
  append_escaped(json, text);
  json += '"';
}

/// A position in the input, with the tokens that both syntaxes share. Functions that read return whether they
/// found the token and append values to `json`.
class Source {
 public:
  explicit Source(std::string_view text) : rest_(text) {}

  void skip_space() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }
  bool take(std::string_view text) {
    skip_space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool next_is(char c) {
    skip_space();
    return rest_.starts_with(c);
  }
  std::string_view word() {
    skip_space();
    std::size_t size = 0;
    while (size < rest_.size() && is_tool_name(rest_.substr(size, 1)) && rest_[size] != ':') ++size;
    return take_bytes(size);
  }
  std::string_view take_bytes(std::size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view rest() const { return rest_; }

  /// A number, true, false, null and Python's names of them.
  bool plain(std::string& json) {
    skip_space();
    std::size_t size = 0;
    while (size < rest_.size() &&
           std::string_view(",)]}:; \t\r\n").find(rest_[size]) == std::string_view::npos) {
      ++size;
    }
    std::string_view text = rest_.substr(0, size);
    if (text == "True") text = "true";
    if (text == "False") text = "false";
    if (text == "None") text = "null";
    if (text.starts_with('"') || text.starts_with('{') || text.starts_with('[') || !is_json(text))
      return false;
    json += text;
    rest_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view rest_;
};

class Python {
 public:
  Python(std::string_view text, const std::vector<Tool>& tools) : source_(text), tools_(&tools) {}

  std::optional<std::vector<WholeCall>> calls() {
    std::vector<WholeCall> all;
    const bool list = source_.take("[");
    while (true) {
      while (source_.take(",") || source_.take(";")) {
      }
      if (list && source_.take("]")) break;
      if (source_.at_end()) break;
      if (!one(all, false)) return std::nullopt;
    }
    if (!source_.at_end() || all.empty()) return std::nullopt;
    return all;
  }

 private:
  bool one(std::vector<WholeCall>& all, bool printed) {
    const std::string_view name = source_.word();
    if (!printed && name == "print" && !find_tool(*tools_, name)) {
      return source_.take("(") && one(all, true) && source_.take(")");
    }
    WholeCall call{std::string(name), "{"};
    if (!is_tool_name(name) || !source_.take("(")) return false;
    const Tool* tool = find_tool(*tools_, name);
    for (std::size_t n_positional = 0; !source_.take(")");) {
      if (call.arguments.size() > 1) {
        if (!source_.take(",")) return false;
        if (source_.take(")")) break;
        call.arguments += ", ";
      }
      Source key_source = source_;
      const std::string_view key = key_source.word();
      if (!key.empty() && key_source.take("=")) {
        source_ = key_source;
        append_string(call.arguments, key);
      } else {
        if (!tool || n_positional >= tool->properties.size()) return false;
        append_string(call.arguments, tool->properties[n_positional++].name);
      }
      call.arguments += ": ";
      if (!value(call.arguments, 0)) return false;
    }
    call.arguments += '}';
    all.push_back(std::move(call));
    return true;
  }

  bool value(std::string& json, int depth) {
    if (depth >= kMaxDepth) return false;
    if (source_.next_is('"') || source_.next_is('\'')) return string(json);
    if (source_.take("[")) return items(json, "]", depth);
    if (source_.take("(")) return items(json, ")", depth);
    if (source_.take("{")) return entries(json, depth);
    return source_.plain(json);
  }

  bool items(std::string& json, std::string_view end, int depth) {
    json += '[';
    for (bool first = true; !source_.take(end); first = false) {
      if (!first) {
        if (!source_.take(",")) return false;
        if (source_.take(end)) break;
        json += ", ";
      }
      if (!value(json, depth + 1)) return false;
    }
    json += ']';
    return true;
  }

  bool entries(std::string& json, int depth) {
    json += '{';
    for (bool first = true; !source_.take("}"); first = false) {
      if (!first) {
        if (!source_.take(",")) return false;
        if (source_.take("}")) break;
        json += ", ";
      }
      source_.skip_space();
      if (!string(json) || !source_.take(":")) return false;
      json += ": ";
      if (!value(json, depth + 1)) return false;
    }
    json += '}';
    return true;
  }

  bool string(std::string& json) {
    source_.skip_space();
    if (source_.rest().empty() || (source_.rest()[0] != '"' && source_.rest()[0] != '\'')) return false;
    const char c = source_.rest()[0];
    const std::string triple(3, c);
    const std::string_view quote =
        source_.rest().starts_with(triple) ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
    source_.take_bytes(quote.size());
    std::string text;
    while (!source_.rest().starts_with(quote)) {
      if (source_.rest().empty()) return false;
      const char byte = source_.take_bytes(1)[0];
      if (byte != '\\') {
        text += byte;
      } else if (!escape(text)) {
        return false;
      }
    }
    source_.take_bytes(quote.size());
    append_string(json, text);
    return true;
  }

  bool escape(std::string& text) {
    if (source_.rest().empty()) return false;
    const char c = source_.take_bytes(1)[0];
    constexpr std::string_view kLetters = "abfnrtv0", kBytes("\a\b\f\n\r\t\v\0", 8);
    if (const std::size_t i = kLetters.find(c); i != kLetters.npos) {
      text += kBytes[i];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return code_point(text, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == '\\' || c == '\'' || c == '"') {
      text += c;
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
    return true;
  }

  bool code_point(std::string& text, std::size_t n_digits) {
    const std::string_view digits = source_.take_bytes(std::min(n_digits, source_.rest().size()));
    char32_t code = 0;
    for (const char d : digits) {
      const char lower = static_cast<char>(d | 0x20);
      if (d >= '0' && d <= '9') {
        code = code * 16 + static_cast<char32_t>(d - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code * 16 + static_cast<unsigned>(lower - 'a' + 10);
      } else {
        return false;
      }
    }
    if (digits.size() != n_digits || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    text::append_utf8(text, code);
    return true;
  }

  Source source_;
  const std::vector<Tool>* tools_;
};

class Unquoted {
 public:
  Unquoted(std::string_view text, std::string_view quote) : source_(text), quote_(quote) {}

  std::optional<WholeCall> call() {
    WholeCall call{std::string(source_.word()), {}};
    if (!is_tool_name(call.name) || !source_.take("{")) return std::nullopt;
    if (!entries(call.arguments, 0) || !source_.at_end()) return std::nullopt;
    return call;
  }

 private:
  bool value(std::string& json, int depth) {
    if (depth >= kMaxDepth) return false;
    if (source_.take(quote_)) return text(json);
    if (source_.take("{")) return entries(json, depth);
    if (source_.take("[")) {
      json += '[';
      for (bool first = true; !source_.take("]"); first = false) {
        if (!first && !source_.take(",")) return false;
        if (!first) json += ", ";
        if (!value(json, depth + 1)) return false;
      }
      json += ']';
      return true;
    }
    if (source_.next_is('"')) return json_string(json);
    return source_.plain(json);
  }

  bool entries(std::string& json, int depth) {
    json += '{';
    for (bool first = true; !source_.take("}"); first = false) {
      if (!first && !source_.take(",")) return false;
      if (!first) json += ", ";
      if (!key(json) || !source_.take(":")) return false;
      json += ": ";
      if (!value(json, depth + 1)) return false;
    }
    json += '}';
    return true;
  }

  bool key(std::string& json) {
    if (source_.take(quote_)) return text(json);
    if (source_.next_is('"')) return json_string(json);
    const std::size_t end = source_.rest().find(':');
    if (end == std::string_view::npos) return false;
    const std::string_view name = trimmed(source_.take_bytes(end));
    if (name.empty() || name.find_first_of("{}[],\"") != std::string_view::npos) return false;
    append_string(json, name);
    return true;
  }

  bool text(std::string& json) {
    const std::size_t end = source_.rest().find(quote_);
    if (end == std::string_view::npos) return false;
    append_string(json, source_.take_bytes(end));
    source_.take_bytes(quote_.size());
    return true;
  }

  bool json_string(std::string& json) {
    JsonScanner scanner;
    while (!source_.rest().empty()) {
      const JsonScanner::Step step = scanner.feed(source_.take_bytes(1)[0], json);
      if (step != JsonScanner::Step::kMore) return step == JsonScanner::Step::kDone;
    }
    return false;
  }

  Source source_;
  std::string_view quote_;
};

}  // namespace

std::optional<std::vector<WholeCall>> read_python_calls(std::string_view text,
                                                        const std::vector<Tool>& tools) {
  std::optional<std::vector<WholeCall>> calls = Python(text, tools).calls();
  // Keys, names and depth are checked above. Invalid UTF-8 is the only other error.
  if (calls &&
      !std::all_of(calls->begin(), calls->end(), [](const WholeCall& c) { return is_json(c.arguments); })) {
    return std::nullopt;
  }
  return calls;
}

std::optional<WholeCall> read_unquoted_call(std::string_view text, std::string_view quote) {
  std::optional<WholeCall> call = Unquoted(text, quote).call();
  if (call && !is_json(call->arguments)) return std::nullopt;
  return call;
}

}  // namespace weft::chat
