#include "chat/json_scanner.h"

namespace weft::chat {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonScanner::Step JsonScanner::value_ended() {
  if (in_object_.empty()) {
    mode_ = Mode::kDone;
    return Step::kDone;
  }
  mode_ = Mode::kAfterValue;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::value_begins(char c) {
  switch (c) {
    case '{':
    case '[':
      if (in_object_.size() >= kMaxDepth) return Step::kBad;
      in_object_.push_back(c == '{');
      mode_ = c == '{' ? Mode::kFirstKey : Mode::kFirstItem;
      return Step::kMore;
    case '"':
      string_is_key_ = false;
      mode_ = Mode::kString;
      return Step::kMore;
    case '-':
      mode_ = Mode::kMinus;
      return Step::kMore;
    case '0':
      mode_ = Mode::kZero;
      return Step::kMore;
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    default:
      if (!is_digit(c)) return Step::kBad;
      mode_ = Mode::kDigits;
      return Step::kMore;
  }
  mode_ = Mode::kLiteral;
  return Step::kMore;
}

/// The bounds of a character's second byte exclude overlong forms, surrogates and code points beyond
/// U+10FFFF.
bool JsonScanner::continues_character(unsigned char c) {
  if (n_continuation_ > 0) {
    if (c < least_ || c > most_) return false;
    n_character_ = --n_continuation_ > 0 ? n_character_ + 1 : 0;
    least_ = 0x80, most_ = 0xBF;
    return true;
  }
  if (c < 0x80) return true;
  if (c < 0xC2 || c > 0xF4) return false;
  n_character_ = 1;
  n_continuation_ = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
  least_ = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
  most_ = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
  return true;
}

JsonScanner::Step JsonScanner::in_string(char c, std::string& out) {
  if (wants_low_surrogate_ && c != '\\') return Step::kBad;
  if (!continues_character(static_cast<unsigned char>(c))) return Step::kBad;
  if (static_cast<unsigned char>(c) < 0x20) {
    append_escaped(out, {&c, 1});
    return Step::kMore;
  }
  out += c;
  if (c == '\\') mode_ = Mode::kEscape;
  if (c != '"') return Step::kMore;
  if (!string_is_key_) return value_ended();
  mode_ = Mode::kColon;
  return Step::kMore;
}

// `out` ends with the escape.
JsonScanner::Step JsonScanner::mend_escape(char c, std::string& out) {
  out.pop_back();
  mode_ = Mode::kString;
  if (c == '\'') {
    out += "u0027";
    return Step::kMore;
  }
  out += '\\';
  return in_string(c, out);
}

JsonScanner::Step JsonScanner::in_hex(char c) {
  const std::uint32_t digit = is_digit(c)            ? static_cast<std::uint32_t>(c - '0')
                              : c >= 'a' && c <= 'f' ? static_cast<std::uint32_t>(c - 'a' + 10)
                              : c >= 'A' && c <= 'F' ? static_cast<std::uint32_t>(c - 'A' + 10)
                                                     : 16;
  if (digit == 16) return Step::kBad;
  const std::uint32_t code = code_ * 16 + digit;
  const bool is_last = n_hex_ == 3, low = code >= 0xDC00 && code <= 0xDFFF;
  if (is_last && low != wants_low_surrogate_) return Step::kBad;
  code_ = code;
  ++n_hex_;
  if (!is_last) return Step::kMore;
  mode_ = Mode::kString;
  wants_low_surrogate_ = code >= 0xD800 && code <= 0xDBFF;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::in_number(char c) {
  const bool digit = is_digit(c), exponent = c == 'e' || c == 'E';
  switch (mode_) {
    case Mode::kMinus:
      if (!digit) return Step::kBad;
      mode_ = c == '0' ? Mode::kZero : Mode::kDigits;
      return Step::kMore;
    case Mode::kPoint:
      if (!digit) return Step::kBad;
      mode_ = Mode::kFraction;
      return Step::kMore;
    case Mode::kExponentSign:
      if (c == '+' || c == '-') {
        mode_ = Mode::kExponentFirst;
        return Step::kMore;
      }
      [[fallthrough]];
    case Mode::kExponentFirst:
      if (!digit) return Step::kBad;
      mode_ = Mode::kExponent;
      return Step::kMore;
    default:
      break;
  }
  if (digit && mode_ != Mode::kZero) return Step::kMore;
  if (c == '.' && (mode_ == Mode::kZero || mode_ == Mode::kDigits)) {
    mode_ = Mode::kPoint;
    return Step::kMore;
  }
  if (exponent && mode_ != Mode::kExponent) {
    mode_ = Mode::kExponentSign;
    return Step::kMore;
  }
  if (value_ended() == Step::kDone) return Step::kDoneBefore;
  return after_value(c);
}

JsonScanner::Step JsonScanner::after_value(char c) {
  if (is_space(c)) return Step::kMore;
  const bool object = in_object_.back();
  if (c == ',') {
    mode_ = object ? Mode::kKey : Mode::kValue;
    return Step::kMore;
  }
  if (c != (object ? '}' : ']')) return Step::kBad;
  in_object_.pop_back();
  return value_ended();
}

JsonScanner::Step JsonScanner::feed(char c, std::string& out) {
  const std::size_t before = out.size();
  const Mode mode = mode_;
  const Step step = read(c, out);
  if (step == Step::kDoneBefore || step == Step::kBad) out.resize(before);
  if (step == Step::kBad) mode_ = mode;
  return step;
}

JsonScanner::Step JsonScanner::read(char c, std::string& out) {
  if (mode_ == Mode::kString) return in_string(c, out);
  out += c;
  switch (mode_) {
    case Mode::kEscape: {
      if (wants_low_surrogate_ && c != 'u') return Step::kBad;
      constexpr std::string_view kEscapes = "\"\\/bfnrtu";
      if (kEscapes.find(c) == kEscapes.npos) return mend_escape(c, out);
      mode_ = c == 'u' ? Mode::kHex : Mode::kString;
      n_hex_ = 0;
      code_ = 0;
      return Step::kMore;
    }
    case Mode::kHex:
      return in_hex(c);
    case Mode::kLiteral:
      if (c != literal_.front()) return Step::kBad;
      literal_.remove_prefix(1);
      return literal_.empty() ? value_ended() : Step::kMore;
    case Mode::kMinus:
    case Mode::kZero:
    case Mode::kDigits:
    case Mode::kPoint:
    case Mode::kFraction:
    case Mode::kExponentSign:
    case Mode::kExponentFirst:
    case Mode::kExponent:
      return in_number(c);
    case Mode::kDone:
    case Mode::kString:
      return Step::kBad;
    case Mode::kValue:
    case Mode::kFirstItem:
    case Mode::kFirstKey:
    case Mode::kKey:
    case Mode::kColon:
    case Mode::kAfterValue:
      break;
  }
  if (is_space(c)) return Step::kMore;
  switch (mode_) {
    case Mode::kFirstItem:
      if (c == ']') return after_value(c);
      return value_begins(c);
    case Mode::kFirstKey:
      if (c == '}') return after_value(c);
      [[fallthrough]];
    case Mode::kKey:
      if (c != '"') return Step::kBad;
      string_is_key_ = true;
      mode_ = Mode::kString;
      return Step::kMore;
    case Mode::kColon:
      if (c != ':') return Step::kBad;
      mode_ = Mode::kValue;
      return Step::kMore;
    case Mode::kAfterValue:
      return after_value(c);
    default:
      return value_begins(c);
  }
}

void JsonScanner::complete(std::string& out) const {
  const bool in_text = mode_ == Mode::kString || mode_ == Mode::kEscape || mode_ == Mode::kHex;
  const bool in_list = !in_object_.empty() && !in_object_.back();
  if (mode_ == Mode::kEscape && !wants_low_surrogate_) {
    out += '\\';
  } else {
    out.resize(out.size() - n_incomplete());
  }
  if (in_text) out += '"';
  if (mode_ == Mode::kKey || (mode_ == Mode::kValue && in_list)) {
    out.resize(out.rfind(','));
  } else if (in_text ? string_is_key_ : mode_ == Mode::kColon) {
    out += ":null";
  } else if (mode_ == Mode::kValue) {
    out += "null";
  } else if (mode_ == Mode::kMinus || mode_ == Mode::kPoint || mode_ == Mode::kExponentSign ||
             mode_ == Mode::kExponentFirst) {
    out += '0';
  } else if (mode_ == Mode::kLiteral) {
    out += literal_;
  }
  for (auto object = in_object_.rbegin(); object != in_object_.rend(); ++object) out += *object ? '}' : ']';
}

bool JsonScanner::whole_at_end() const {
  if (!in_object_.empty()) return false;
  return mode_ == Mode::kDone || mode_ == Mode::kZero || mode_ == Mode::kDigits || mode_ == Mode::kFraction ||
         mode_ == Mode::kExponent;
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  std::string value;
  text = trimmed(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    value.clear();
    switch (scanner.feed(text[i], value)) {
      case JsonScanner::Step::kMore:
        // A control character that was mended is none of JSON's.
        if (value.size() != 1) return false;
        break;
      case JsonScanner::Step::kDone:
        return i + 1 == text.size();
      case JsonScanner::Step::kDoneBefore:
      case JsonScanner::Step::kBad:
        return false;
    }
  }
  return scanner.whole_at_end();
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace weft::chat
