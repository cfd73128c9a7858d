#include "chat/abilities.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json.h"
#include "weft/error.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

constexpr const char* kLongId = "call_0123456789";
constexpr const char* kShortId = "abcdefghi";

ordered_json message(const char* role, ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

ordered_json call(const char* name, const char* id, ordered_json arguments) {
  return {
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

ordered_json result(const char* id) {
  ordered_json all = message("tool", "probe_result");
  all["tool_call_id"] = id;
  all["name"] = "probe_tool";
  return all;
}

ordered_json tools() {
  const ordered_json text = {{"type", "string"}, {"description", "probe_about"}};
  const ordered_json schema = {{"type", "object"},
                               {"properties", {{"probe_property", text}}},
                               {"required", ordered_json::array({"probe_property"})}};
  const ordered_json function = {
      {"name", "probe_tool"}, {"description", "probe_description"}, {"parameters", schema}};
  return ordered_json::array({{{"type", "function"}, {"function", function}}});
}

bool has(const std::optional<std::string>& prompt, std::string_view text) {
  return prompt && prompt->find(text) != prompt->npos;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

class Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : template_(chat_template), tools_(tools().dump()) {}

  Abilities abilities() {
    // If the user message is missing in the output, nothing more can be learned.
    if (!finds_user()) return {};
    roles();
    calls();
    reasoning();
    return found_;
  }

 private:
  std::optional<std::string> render(std::vector<ordered_json> messages, bool with_tools = false,
                                    const ordered_json& variables = ordered_json::object()) const {
    ordered_json all = variables;
    all["now"] = "2024-07-26";
    const std::string_view tools_json =
        with_tools || found_.needs_tools ? std::string_view(tools_) : std::string_view();
    if (found_.functions) all["functions"] = functions_text(tools_json);
    for (ordered_json& one : messages) {
      if (!found_.parts_only || !one["content"].is_string()) continue;
      const ordered_json part = {{"type", "text"}, {"text", one["content"]}};
      one["content"] = ordered_json::array();
      one["content"].push_back(part);
    }
    return try_render(template_, ordered_json(messages).dump(), tools_json, all.dump());
  }

  bool finds_user() {
    const ordered_json user = message("user", "probe_user");
    if (has(render({user}), "probe_user")) return true;
    found_.parts_only = true;
    if (has(render({user}), "probe_user")) return true;
    found_.parts_only = false;
    found_.needs_tools = has(render({user}, true), "probe_user");
    if (found_.needs_tools) return true;
    found_.functions = true;
    return has(render({user}), "probe_user");
  }

  void roles() {
    const ordered_json user = message("user", "probe_user"), assistant = message("assistant", "probe_answer");
    const ordered_json system = message("system", "probe_system");
    found_.system = has(render({system, user}), "probe_system");
    const auto later = render({system, user, assistant, message("system", "probe_later"), user});
    found_.later_system = has(later, "probe_system") && has(later, "probe_later");
    const auto twice = render({user, message("user", "probe_more")});
    found_.repeated_roles = has(twice, "probe_user") && has(twice, "probe_more");
    const auto with_tools = render({user}, true);
    found_.tools = has(with_tools, "probe_tool") || has(render({system, user}, true), "probe_tool");
    found_.results = has(render({user, assistant, result(kShortId), assistant}), "probe_result");
    writes_none_ = has(with_tools, "None");
  }

  /// A conversation with calls, as the abilities found so far want it.
  std::vector<ordered_json> conversation(int n_calls, ordered_json content, const char* id) const {
    ordered_json answer = message("assistant", std::move(content));
    ordered_json arguments = {{"probe_key", "probe_value"}};
    if (!found_.object_arguments) arguments = arguments.dump();
    answer["tool_calls"] = ordered_json::array();
    std::vector<ordered_json> all = {message("user", "probe_user"), nullptr};
    for (int i = 0; i < n_calls; ++i) {
      answer["tool_calls"].push_back(call("probe_call", id, arguments));
      all.push_back(result(id));
    }
    all[1] = answer;
    return all;
  }

  /// Whether a call arrives with its arguments, in JSON or in a syntax of its own, but not as Python prints
  /// it.
  bool arrives(const std::optional<std::string>& prompt) const {
    return has(prompt, "probe_call") && has(prompt, "probe_key") && has(prompt, "probe_value") &&
           !has(prompt, "'probe_key'") && !has(prompt, "\\\"probe_key") &&
           (writes_none_ || !has(prompt, "None"));
  }

  void calls() {
    for (const char* id : {kLongId, kShortId}) {
      for (const bool object : {true, false}) {
        for (const bool null : {false, true}) {
          found_.object_arguments = object;
          found_.null_content = null;
          const ordered_json content = null ? ordered_json(nullptr) : ordered_json("");
          if (!arrives(render(conversation(1, content, id), true))) continue;
          found_.calls = has(render(conversation(1, content, id), true), "probe_result");
          found_.short_ids = id == kShortId;
          const auto two = render(conversation(2, content, id), true);
          found_.parallel_calls = two && count(*two, "probe_value") == 2;
          std::vector<ordered_json> refused = conversation(1, content, id);
          refused.push_back(message("user", "probe_more"));
          found_.user_after_result = has(render(refused, true), "probe_more");
          const auto both = render(conversation(1, "probe_content", id), true);
          found_.content_with_calls = has(both, "probe_content") && arrives(both);
          return;
        }
      }
    }
    found_.object_arguments = true;
    found_.null_content = false;
  }

  void reasoning() {
    const char* id = found_.short_ids ? kShortId : kLongId;
    for (const char* key : {"reasoning_content", "thinking", "reasoning", "thought"}) {
      // Most templates keep reasoning only since the last question.
      const ordered_json empty = found_.null_content ? ordered_json(nullptr) : ordered_json("");
      std::vector<ordered_json> messages = conversation(1, empty, id);
      if (!found_.calls) messages = {message("user", "probe_user"), message("assistant", "probe_answer")};
      messages[1][key] = "probe_reasoning";
      if (!has(render(messages, found_.calls), "probe_reasoning")) continue;
      found_.reasoning_key = key;
      break;
    }
    const std::vector<ordered_json> user = {message("user", "probe_user")};
    const auto plain = [&](const char* name, ordered_json value) {
      ordered_json variables = ordered_json::object();
      variables[name] = std::move(value);
      return render(user, false, variables);
    };
    for (const char* name : kReasoningSwitches) {
      const auto on = plain(name, true), off = plain(name, false);
      if (!on || !off || *on == *off) continue;
      found_.reasoning_switch = name;
      break;
    }
    const auto low = plain("reasoning_effort", "low"), high = plain("reasoning_effort", "high");
    found_.reasoning_effort = low && high && *low != *high;
  }

  const ChatTemplate& template_;
  std::string tools_;
  Abilities found_ = {};
  bool writes_none_ = false;  ///< The template writes "None" itself.
};

}  // namespace

std::string functions_text(std::string_view tools_json) {
  return tools_json.empty() ? std::string() : base::parse_json<ordered_json>(tools_json).dump(2);
}

std::optional<std::string> try_render(const ChatTemplate& chat_template, std::string_view messages_json,
                                      std::string_view tools_json, std::string_view variables_json,
                                      bool add_generation_prompt) {
  try {
    ChatTemplate::Options options;
    options.add_generation_prompt = add_generation_prompt;
    options.tools_json = tools_json;
    options.variables_json = variables_json;
    return join(chat_template.render_json(messages_json, options));
  } catch (const Error&) {
    return std::nullopt;
  }
}

Abilities find_abilities(const ChatTemplate& chat_template) { return Probe(chat_template).abilities(); }

}  // namespace weft::chat
