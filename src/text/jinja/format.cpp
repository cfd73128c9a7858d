// Formatting: "%s" % values, "{}".format(values), strftime_now.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "base/to_size.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace weft::text::jinja {
namespace {

constexpr std::size_t kMaxWidth = 10'000;

// One conversion of a %-format: %(name)-08.3f
struct Conversion {
  std::optional<std::string> name;
  std::string flags;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char type = 's';
};

class PercentFormat {
 public:
  PercentFormat(Heap& heap, const Text& format, const Value& values)
      : heap_(heap), format_(format), bytes_(format.bytes()), values_(values) {}

  Text run() {
    heap_.budget.spend_bytes(bytes_.size());
    while (position_ < bytes_.size()) {
      const std::size_t percent = std::min(bytes_.find('%', position_), bytes_.size());
      out_.append(format_, position_, percent);
      position_ = percent + 1;
      if (percent < bytes_.size()) convert(read_conversion());
    }
    const List* tuple = as<List>(values_);
    const bool all_used = tuple && tuple->kind == ListKind::kTuple
                              ? n_used_ >= tuple->items.size()
                              : n_used_ > 0 || as<Dict>(values_) || tuple;
    if (!all_used) throw Problem("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (position_ >= bytes_.size()) throw Problem("incomplete format");
    return bytes_[position_];
  }
  std::size_t read_size() {
    if (peek() == '*') {
      ++position_;
      const auto value = as_integer(next_value());
      if (!value || *value < 0) throw Problem("* wants a number from 0");
      return check_size(to_size(*value));
    }
    std::size_t size = 0;
    while (peek() >= '0' && peek() <= '9') size = check_size(size * 10 + to_size(bytes_[position_++] - '0'));
    return size;
  }
  static std::size_t check_size(std::size_t size) {
    if (size > kMaxWidth) throw Problem("a width or precision in a format is too large");
    return size;
  }

  Conversion read_conversion() {
    Conversion conversion;
    if (peek() == '(') {
      const std::size_t end = bytes_.find(')', position_);
      if (end == std::string_view::npos) throw Problem("incomplete format key");
      conversion.name = bytes_.substr(position_ + 1, end - position_ - 1);
      position_ = end + 1;
    }
    while (std::string_view("-+ #0").find(peek()) != std::string_view::npos)
      conversion.flags += bytes_[position_++];
    conversion.width = read_size();
    if (peek() == '.') {
      ++position_;
      conversion.precision = read_size();
    }
    conversion.type = peek();
    ++position_;
    return conversion;
  }

  const Value& next_value() {
    const List* tuple = as<List>(values_);
    const bool several = tuple && tuple->kind == ListKind::kTuple;
    if (n_used_ >= (several ? tuple->items.size() : 1))
      throw Problem("not enough arguments for format string");
    ++n_used_;
    return several ? tuple->items[n_used_ - 1] : values_;
  }
  const Value& value_of(const Conversion& conversion) {
    if (!conversion.name) return next_value();
    const Dict* dict = as<Dict>(values_);
    if (!dict) throw Problem("format requires a mapping");
    const Value* found = get(*dict, *conversion.name);
    if (!found) throw Problem("the format's key '" + *conversion.name + "' is missing");
    return *found;
  }

  void convert(const Conversion& conversion) {
    heap_.budget.spend(1 + conversion.width / kBytesPerStep);
    if (conversion.type == '%') return out_.append("%", format_.from_template(position_ - 1));
    const Value value = value_of(conversion);
    switch (conversion.type) {
      case 's':
      case 'r':
      case 'a':
      case 'c':
        return convert_text(conversion, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return convert_integer(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return convert_float(conversion, value);
      default:
        throw Problem(std::string("unsupported format character '") + conversion.type + "'");
    }
  }

  void convert_text(const Conversion& conversion, const Value& value) {
    Text text =
        conversion.type == 's' || conversion.type == 'c' ? to_text(heap_, value) : to_repr(heap_, value);
    if (conversion.precision) text = text.slice(0, character_position(text.bytes(), *conversion.precision));
    const std::size_t size = count_characters(text.bytes());
    const std::string padding(conversion.width > size ? conversion.width - size : 0, ' ');
    const bool left = conversion.flags.find('-') != std::string::npos;
    if (!left) out_.append(padding, false);
    out_.append(text);
    if (left) out_.append(padding, false);
  }

  std::string printf_format(const Conversion& conversion, const char* size, char type) const {
    return "%" + conversion.flags + std::to_string(conversion.width) +
           (conversion.precision ? "." + std::to_string(*conversion.precision) : "") + size + type;
  }

  template <class Number>
  void print(const std::string& format, Number number) {
    // The format is safe: its parts were parsed and checked above.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int size = std::snprintf(nullptr, 0, format.c_str(), number);
    std::string result(to_size(size) + 1, '\0');
    std::snprintf(result.data(), result.size(), format.c_str(), number);
#pragma GCC diagnostic pop
    result.pop_back();
    out_.append(result, false);
  }

  void convert_integer(const Conversion& conversion, const Value& value) {
    std::optional<std::int64_t> number = as_integer(value);
    if (const auto real = number ? std::nullopt : as_number(value)) number = truncated(*real);
    if (!number) throw Problem("%d format: a real number is required, not " + std::string(type_name(value)));
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (!decimal && *number < 0) throw Problem("negative numbers in hexadecimal or octal are not supported");
    // A width of 0 would read as a flag; printf takes the flag twice without harm.
    print(printf_format(conversion, "ll", decimal ? 'd' : conversion.type), static_cast<long long>(*number));
  }

  void convert_float(const Conversion& conversion, const Value& value) {
    const auto number = as_number(value);
    if (!number) throw Problem("must be real number, not " + std::string(type_name(value)));
    print(printf_format(conversion, "", conversion.type), *number);
  }

  Heap& heap_;
  const Text& format_;
  std::string_view bytes_;
  const Value& values_;
  std::size_t position_ = 0;
  std::size_t n_used_ = 0;
  Text out_;
};

// A moment, as calendar and clock show it.
struct Moment {
  std::chrono::year_month_day date{};
  std::int64_t hour = 0, minute = 0, second = 0;
};

std::int64_t digits_at(std::string_view text, std::size_t position, std::size_t count) {
  std::int64_t value = -1;
  const std::string_view digits = text.substr(std::min(position, text.size()), count);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return digits.size() == count && end.ec == std::errc() && end.ptr == digits.data() + count ? value : -1;
}

Moment read_moment(const Value& now) {
  using namespace std::chrono;
  Moment moment;
  if (const auto seconds = as_number(now); seconds && *seconds > -6e10 && *seconds < 2e11) {
    const auto whole = static_cast<std::int64_t>(*seconds);
    const std::int64_t day = whole / 86400 - (whole % 86400 < 0 ? 1 : 0), rest = whole - day * 86400;
    moment.date = year_month_day(sys_days(days(day)));
    moment.hour = rest / 3600, moment.minute = rest / 60 % 60, moment.second = rest % 60;
    return moment;
  }
  const Text* text = as_text(now);
  const std::string_view bytes = text ? text->bytes() : std::string_view();
  moment.date = year_month_day(year(static_cast<int>(digits_at(bytes, 0, 4))),
                               month(static_cast<unsigned>(digits_at(bytes, 5, 2))),
                               day(static_cast<unsigned>(digits_at(bytes, 8, 2))));
  bool valid = digits_at(bytes, 0, 4) >= 0 && moment.date.ok() && bytes[4] == '-' && bytes[7] == '-';
  if (bytes.size() > 10) {
    moment.hour = digits_at(bytes, 11, 2), moment.minute = digits_at(bytes, 14, 2);
    moment.second = bytes.size() > 16 ? digits_at(bytes, 17, 2) : 0;
    valid = valid && moment.hour >= 0 && moment.hour < 24 && moment.minute >= 0 && moment.minute < 60 &&
            moment.second >= 0 && moment.second < 61;
  }
  if (!valid) {
    throw Problem("the variable now must be \"YYYY-MM-DD\", \"YYYY-MM-DDTHH:MM:SS\" or seconds since 1970");
  }
  return moment;
}

std::string padded(std::int64_t value, std::size_t width, char fill = '0') {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), fill);
  return digits;
}

// strftime in the C locale; codes that it does not know stay as they are.
std::string format_moment(const Moment& at, std::string_view format) {
  constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                        "May",       "June",     "July",     "August",
                                                        "September", "October",  "November", "December"};
  constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                     "Thursday", "Friday", "Saturday"};
  const int year = static_cast<int>(at.date.year());
  const auto month = static_cast<unsigned>(at.date.month()), day = static_cast<unsigned>(at.date.day());
  const std::chrono::sys_days date(at.date);
  const unsigned weekday = std::chrono::weekday(date).c_encoding();
  const auto day_of_year = (date - std::chrono::sys_days(at.date.year() / 1 / 1)).count() + 1;
  const std::int64_t hour12 = at.hour % 12 == 0 ? 12 : at.hour % 12;
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();  // %-d: without padding.
    i += bare ? 2 : 1;
    const auto number = [&](std::int64_t value, std::size_t width) {
      out += padded(value, bare ? 1 : width);
    };
    switch (format[i]) {
      case 'Y':
        number(year, 4);
        break;
      case 'y':
        number(year % 100, 2);
        break;
      case 'm':
        number(month, 2);
        break;
      case 'd':
        number(day, 2);
        break;
      case 'e':
        out += padded(day, 2, ' ');
        break;
      case 'j':
        number(day_of_year, 3);
        break;
      case 'H':
        number(at.hour, 2);
        break;
      case 'I':
        number(hour12, 2);
        break;
      case 'M':
        number(at.minute, 2);
        break;
      case 'S':
        number(at.second, 2);
        break;
      case 'B':
        out += kMonths[month - 1];
        break;
      case 'b':
      case 'h':
        out += kMonths[month - 1].substr(0, 3);
        break;
      case 'A':
        out += kDays[weekday];
        break;
      case 'a':
        out += kDays[weekday].substr(0, 3);
        break;
      case 'w':
        number(weekday, 1);
        break;
      case 'u':
        number(weekday == 0 ? 7 : weekday, 1);
        break;
      case 'p':
        out += at.hour < 12 ? "AM" : "PM";
        break;
      case 'F':
        out += format_moment(at, "%Y-%m-%d");
        break;
      case 'T':
        out += format_moment(at, "%H:%M:%S");
        break;
      case 'R':
        out += format_moment(at, "%H:%M");
        break;
      case 'D':
        out += format_moment(at, "%m/%d/%y");
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case '%':
        out += '%';
        break;
      default:
        out += {'%', format[i]};
    }
  }
  return out;
}

Value strftime_now(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters given("strftime_now", arguments, {"format"});
  interpreter.budget().spend(given.text(0).size());
  return computed(format_moment(read_moment(self), given.text(0).bytes()));
}

}  // namespace

Text format_percent(Heap& heap, const Text& format, const Value& values) {
  return PercentFormat(heap, format, values).run();
}

Text format_braces(Heap& heap, const Text& format, const Arguments& arguments) {
  const std::string_view bytes = format.bytes();
  heap.budget.spend_bytes(bytes.size());
  Text out;
  std::size_t n_automatic = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    if (bytes[i] != '{' && bytes[i] != '}') {
      const std::size_t end = std::min(bytes.find_first_of("{}", i), bytes.size());
      out.append(format, i, end);
      i = end;
      continue;
    }
    if (i + 1 < bytes.size() && bytes[i + 1] == bytes[i]) {  // {{ and }}
      out.append(format, i, i + 1);
      i += 2;
      continue;
    }
    const std::size_t end = bytes.find('}', i);
    if (bytes[i] == '}' || end == std::string_view::npos) throw Problem("single brace in a format string");
    const std::string_view field = bytes.substr(i + 1, end - i - 1);
    heap.budget.spend(1 + arguments.named.size());
    const Value* value = nullptr;
    const bool automatic = field.empty();
    std::size_t position = automatic ? n_automatic++ : 0;
    const auto read = std::from_chars(field.data(), field.data() + field.size(), position);
    if (automatic || (read.ec == std::errc() && read.ptr == field.data() + field.size())) {
      if (position < arguments.positional.size()) value = &arguments.positional[position];
    } else {
      for (const auto& [name, named] : arguments.named) value = name == field ? &named : value;
    }
    if (!value && field.find_first_of("!:.[") != std::string_view::npos)
      throw Problem(
          "format: {" + std::string(field) +
          "} is not supported: only {}, {0} and {name} are; use filters for the value, or '%5s' % value");
    if (!value) throw Problem("format: there is no value for {" + std::string(field) + "}");
    out.append(to_text(heap, *value));
    i = end + 1;
  }
  return out;
}

Value format_time(const Value& now, std::string_view format) {
  return computed(format_moment(read_moment(now), format));
}

Value strftime_function(Heap& heap, const Value& now) {
  read_moment(now);
  return function(heap, strftime_now, now);
}

}  // namespace weft::text::jinja
