#pragma once
// Reads one call of a tool, from where its opening tag ends, while it is being written. A reader is a value:
// it can be copied at any time. It never goes back, so a text is read once.
//
// A reader reports a call when it knows the name and the beginning of the arguments. complete() ends a
// reported call whose arguments are not JSON, so that each reported call is whole.
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "chat/format.h"
#include "chat/json_scanner.h"
#include "chat/tools.h"
#include "weft/chat.h"

namespace weft::chat {

/// Where calls are told.
struct CallEvents {
  std::vector<AnswerEvent>& events;
  int& n_calls;

  void begin(std::string name, std::string id);
  void arguments(std::string_view json);
  void end();
};

/// The text that is not read yet begins at `at`; readers move it forward.
struct Input {
  std::string_view text;
  std::size_t& at;
  bool ended;  ///< No more text follows.

  bool empty() const { return at >= text.size(); }
  std::string_view rest() const { return text.substr(at); }
};

enum class Progress { kMore, kDone, kFailed };

/// What all readers share. The format has its tags without white space; both outlive the reader.
struct CallContext {
  const CallFormat* format;
  const std::vector<Tool>* tools;
};

/// {"name": "f", "arguments": {...}}, keys in any order, also inside {"function": ...}.
class ObjectCall {
 public:
  /// `certain`: a tag said that this is a call. Otherwise only what has a known name and no foreign keys is
  /// one.
  explicit ObjectCall(bool certain) : certain_(certain) {}
  Progress read(Input& input, const CallContext& context, CallEvents& out);
  void complete(CallEvents& out);

 private:
  enum class Mode { kOpen, kFirstKey, kKeyFollows, kKey, kColon, kValueFollows, kValue, kAfterValue };
  enum class Field { kName, kArguments, kId, kFunction, kOther };

  Progress step(char c, Input& input, const CallContext& context, CallEvents& out);
  bool key_ended(const CallFormat& format);
  bool value_follows(char c);
  bool value_ended(const CallContext& context);
  void tell_arguments(CallEvents& out);
  Progress object_ended(CallEvents& out);

  bool certain_;
  Mode mode_ = Mode::kOpen;
  Field field_ = Field::kOther;
  int depth_ = 0;
  JsonScanner scanner_ = {};
  std::string value_ = {};      ///< The key or value that is being read; of arguments, what was not told yet.
  std::string arguments_ = {};  ///< Those that came before the name, or as a string.
  std::string name_ = {}, id_ = {};
  bool has_arguments_ = false;
  bool streams_ = false;  ///< The value that is being read is the arguments' object.
  bool told_ = false;
};

/// A name, a tag and the arguments as a JSON object.
class NamedCall {
 public:
  NamedCall() = default;
  /// The name is known, only the arguments follow.
  explicit NamedCall(std::string name) : name_(std::move(name)), in_header_(false) {}
  Progress read(Input& input, const CallContext& context, CallEvents& out);
  void complete(CallEvents& out);

 private:
  bool read_header(const CallFormat& format);

  std::string header_ = {};
  std::string name_ = {}, id_ = {};
  bool in_header_ = true;
  bool told_ = false;
  JsonScanner scanner_ = {};
  std::string object_ = {};  ///< The part of the arguments that is not reported yet.
};

/// A name, and each argument between tags.
class ParameterCall {
 public:
  Progress read(Input& input, const CallContext& context, CallEvents& out);
  void complete(CallEvents& out);

 private:
  enum class Mode { kName, kNext, kKey, kBeforeValue, kText, kOther };
  Progress step(Input& input, const CallContext& context, CallEvents& out);
  enum class Found { kYes, kNotYet, kTooLate };
  Found take_until(Input& input, const std::vector<std::string>& tags, std::size_t most);
  Progress next(Input& input, const CallContext& context, CallEvents& out);
  void value_begins(const CallContext& context);
  std::string value_json(const CallFormat& format) const;
  void tell(std::string_view json, CallEvents& out);

  Mode mode_ = Mode::kName;
  std::string part_ = {};  ///< Of a name, key or value: what was read.
  std::string name_ = {}, key_ = {};
  int n_parameters_ = 0;
  bool value_is_empty_ = true;
  unsigned types_ = 0;        ///< TypeBit: the types that the value may have.
  JsonScanner check_ = {};    ///< What is told is JSON, whatever bytes the model wrote.
  bool broken_ = false;       ///< It would be none: nothing more is told, and the call has no end.
  std::string pending_ = {};  ///< The part of the JSON that is not reported yet.
};

/// Calls that are read when they are whole.
class WholeCalls {
 public:
  Progress read(Input& input, const CallContext& context, CallEvents& out);
  void complete(CallEvents&) {}  // Told when they are whole.

 private:
  std::string text_ = {};
};

using CallReader = std::variant<ObjectCall, NamedCall, ParameterCall, WholeCalls>;

}  // namespace weft::chat
