#pragma once
// Reads one call of a tool, from where its opening tag ends, while it is being written. A reader is a value:
// it can be copied at any time. It never goes back: each byte is read once.
//
// A reader reports a call when it knows the name and the beginning of the arguments. If the arguments stop
// being JSON, complete() ends the reported call so that each reported call is whole.
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

/// Receives the events of calls.
struct CallEvents {
  std::vector<ResponseEvent>& events;
  int& n_calls;

  void begin(std::string name, std::string id);
  void arguments(std::string_view json);
  void end();
};

/// The unread input begins at `at`; readers move it forward.
struct Input {
  std::string_view text;
  std::size_t& at;
  bool ended;  ///< No more input follows.

  bool empty() const { return at >= text.size(); }
  std::string_view rest() const { return text.substr(at); }
};

enum class Progress { kMore, kDone, kFailed };

/// Shared by all readers, and outlives them. The format's tags have no white space.
struct CallContext {
  const CallFormat* format;
  const std::vector<Tool>* tools;
};

/// {"name": "f", "arguments": {...}}, keys in any order, also inside {"function": ...}.
class ObjectCall {
 public:
  /// `certain`: a tag announced a call. Otherwise only an object with a known name and no foreign keys is a
  /// call.
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
  /// The key or value that is being read; for arguments, the part that is not reported yet.
  std::string value_ = {};
  std::string arguments_ = {};  ///< Arguments that came before the name, or as a string.
  std::string name_ = {}, id_ = {};
  bool has_arguments_ = false;
  bool streams_ = false;  ///< The value that is being read is the arguments' object.
  bool reported_ = false;
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
  bool reported_ = false;
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
  std::string part_ = {};  ///< The part of a name, key or value that was read.
  std::string name_ = {}, key_ = {};
  int n_parameters_ = 0;
  bool value_is_empty_ = true;
  unsigned types_ = 0;      ///< TypeBit: the types that the value may have.
  JsonScanner check_ = {};  ///< Ensures that the reported arguments are JSON for any input.
  /// The arguments stopped being JSON: nothing more is reported, and the call has no end.
  bool broken_ = false;
  std::string pending_ = {};  ///< The part of the JSON that is not reported yet.
};

/// Calls that are read when they are whole.
class WholeCalls {
 public:
  Progress read(Input& input, const CallContext& context, CallEvents& out);
  void complete(CallEvents&) {}  // Reported when they are whole.

 private:
  std::string text_ = {};
};

using CallReader = std::variant<ObjectCall, NamedCall, ParameterCall, WholeCalls>;

}  // namespace weft::chat
