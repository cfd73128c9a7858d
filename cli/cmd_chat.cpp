// weft chat: a conversation by the model's template.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "base/atomic_file.h"
#include "command.h"
#include "conversation.h"
#include "interrupt.h"
#include "json_output.h"
#include "line_editor.h"
#include "media_options.h"
#include "option_table.h"
#include "options.h"
#include "terminal.h"
#include "text_format.h"
#include "weft/error.h"
#include "word_wrap.h"

namespace weft::cli {
namespace {

constexpr std::string_view kHelp =
    "  /help           this list\n"
    "  /regen          another answer to the last question\n"
    "  /clear          begin anew (the system prompt stays)\n"
    "  /image FILE     a picture for the next question, PNG or JPEG; needs --mmproj\n"
    "  /audio FILE     a sound for the next question; needs --mmproj\n"
    "  /system TEXT    set the system prompt and begin anew; without a text: none\n"
    "  /save FILE      write the conversation as JSON\n"
    "  /load FILE      go on with a conversation that was saved\n"
    "  /exit           leave (so does Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one; lines between \"\"\" and "
    "\"\"\"\n"
    "are one question, and so is what you paste.\n";

struct ChatOptions : GenerationOptions {
  std::string system;
  std::optional<std::string> prompt;
  std::string mmproj;
  std::vector<std::string> images;
  std::vector<std::string> sounds;
  std::string template_file;
  std::string template_variables;  // a JSON object
  std::optional<bool> reasoning;
  std::string reasoning_effort;
  bool wrap = true;
  int n_predict = -1;
  bool single_turn = false;
  bool history = true;
};

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// In small letters: what the user types as a command.
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "/save" and so on; a path at the beginning of a question is none.
bool is_command(std::string_view input) {
  return input.starts_with('/') && input.substr(0, input.find_first_of(" \t\n")).rfind('/') == 0;
}

// The local time, as templates' strftime_now has it.
std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local)};
}

/// The template's variables: the time, and what the options say. The same for all of a conversation, so that
/// its beginning stays what it was.
std::string template_variables(const ChatOptions& options) {
  constexpr int kMaxDepth = 64;
  Json variables = {{"now", now_text()}};
  if (options.reasoning) {
    // Templates call it the one or the other.
    variables["enable_thinking"] = *options.reasoning;
    variables["thinking"] = *options.reasoning;
  }
  if (!options.reasoning_effort.empty()) variables["reasoning_effort"] = options.reasoning_effort;
  if (options.template_variables.empty()) return variables.dump();
  const auto refuse = [](std::string_view reason) {
    throw UsageError(
        fmt::format("--chat-template-kwargs: {}; expected a JSON object such as "
                    "'{{\"enable_thinking\": false}}'",
                    reason));
  };
  Json given;
  try {
    given = Json::parse(options.template_variables, [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) refuse("it is nested too deep");
      return true;
    });
  } catch (const Json::parse_error&) {
    refuse("this is no JSON");
  }
  if (!given.is_object()) refuse("this is no object");
  for (const char* name : {"messages", "tools", "add_generation_prompt"})
    if (given.contains(name)) refuse(fmt::format("'{}' is what weft says itself", name));
  variables.update(given);
  return variables.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A conversation that /save wrote, or one like it. Throws Error.
std::vector<ChatMessage> read_conversation(const std::string& path) {
  const auto refuse = [&](std::string_view reason) {
    throw Error(ErrorCode::kInvalidFile,
                fmt::format("{} is no saved conversation: {}; nothing was loaded", path, reason));
  };
  const Json json = Json::parse(read_text(path), nullptr, false);
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    refuse("expected a JSON object with an array \"messages\"");
  std::vector<ChatMessage> messages;
  for (const Json& message : json["messages"]) {
    const auto text_of = [&](const char* key) {
      if (!message.is_object() || !message.contains(key) || !message[key].is_string())
        refuse(fmt::format("message {} has no text \"{}\"", messages.size() + 1, key));
      return message[key].get<std::string>();
    };
    messages.push_back({text_of("role"), text_of("content")});
    const std::string& role = messages.back().role;
    if (role != "system" && role != "user" && role != "assistant")
      refuse(fmt::format("message {} is of '{}', expected system, user or assistant", messages.size(), role));
  }
  if (!messages.empty() && messages.back().role == "user") refuse("its last question has no answer");
  return messages;
}

class Chat {
 public:
  Chat(const ChatOptions& options, Context& context, Conversation& conversation, InterruptGuard& interrupt,
       std::string model_name, MediaModels media_models)
      : options_(options),
        context_(context),
        conversation_(conversation),
        interrupt_(interrupt),
        model_name_(std::move(model_name)),
        media_models_(std::move(media_models)),
        media_(encode_files(media_models_, options.images, options.sounds)),
        color_(use_color(options.talk.color, 1)),
        wraps_(options.wrap && moves_cursor(1)) {
    if (wraps_) use_utf8();
  }

  int loop() {
    if (options_.prompt) {
      ask(*options_.prompt);
      if (options_.single_turn) return exit_code();
    }
    LineEditor editor(options_.history ? default_history_file() : std::filesystem::path());
    const bool at_terminal = is_terminal(0) && is_terminal(1);
    bool interrupted_before = false;
    while (true) {
      interrupt_.reset();
      std::string input;
      const LineEditor::Result result = read_input(editor, input);
      if (result == LineEditor::Result::kInterrupted) {
        if (interrupted_before) return kExitInterrupted;
        interrupted_before = true;
        note(options_.talk, "\n(Ctrl-C again, Ctrl-D or /exit to leave)");
        continue;
      }
      interrupted_before = false;
      if (result == LineEditor::Result::kEnd) {
        if (is_terminal(1)) print("\n");
        // Somebody at a terminal has seen what went wrong.
        return at_terminal ? kExitOk : exit_code();
      }
      const std::string text = trim(input);
      if (text.empty()) continue;
      if (is_command(text)) {
        if (!command(text)) return at_terminal ? kExitOk : exit_code();
      } else {
        ask(input);
        if (options_.single_turn) return exit_code();
      }
    }
  }

 private:
  int exit_code() const {
    if (interrupt_.requested()) return kExitInterrupted;
    return failed_ ? kExitFailure : kExitOk;
  }

  // One question or command: a line, lines that end in \, or lines between """ and """.
  LineEditor::Result read_input(LineEditor& editor, std::string& input) {
    constexpr std::string_view kQuotes = "\"\"\"";
    bool quoted = false;
    while (true) {
      std::string line;
      const bool first = input.empty() && !quoted;
      const LineEditor::Result result = editor.read(first ? "> " : ". ", color_, line);
      if (result == LineEditor::Result::kInterrupted) return result;
      if (result == LineEditor::Result::kEnd) return first ? result : LineEditor::Result::kLine;
      if (first && line.starts_with(kQuotes)) {
        quoted = true;
        line.erase(0, kQuotes.size());
      }
      if (quoted && line.ends_with(kQuotes)) {
        input += line.substr(0, line.size() - kQuotes.size());
        while (input.ends_with('\n')) input.pop_back();
        return result;
      }
      if (quoted) {
        if (!line.empty() || !input.empty()) input += line + "\n";
      } else if (line.ends_with('\\')) {
        line.back() = '\n';
        input += line;
      } else {
        input += line;
        return result;
      }
    }
  }

  void ask(const std::string& text) {
    answer([&](const GenerateParams& params) {
      return conversation_.ask(text, std::exchange(media_, {}), params);
    });
  }

  // Returns false to leave.
  bool command(const std::string& input) {
    const std::size_t space = input.find_first_of(" \t\n");
    const std::string word = lower(input.substr(0, space));
    const std::string rest = space == std::string::npos ? "" : trim(std::string_view(input).substr(space));
    if (word == "/exit" || word == "/quit" || word == "/bye") return false;
    if (word == "/help") {
      print(kHelp);
    } else if (word == "/clear") {
      conversation_.clear();
      note(options_.talk, "(cleared)");
    } else if (word == "/system") {
      conversation_.clear();
      conversation_.set_system(rest);
      note(options_.talk, rest.empty() ? "(no system prompt)" : "(system prompt set)");
    } else if (word == "/regen") {
      if (conversation_.can_regenerate()) {
        answer([&](const GenerateParams& params) { return conversation_.regenerate(params); });
      } else {
        complain("there is no answer yet to generate again");
      }
    } else if (word == "/image") {
      attempt([&] { add_media(word, rest, encode_image); });
    } else if (word == "/audio") {
      attempt([&] { add_media(word, rest, encode_sound); });
    } else if (word == "/save") {
      attempt([&] { save(rest); });
    } else if (word == "/load") {
      attempt([&] { load(rest); });
    } else {
      const std::string suggestion = nearest(
          word, {"/help", "/regen", "/clear", "/image", "/audio", "/system", "/save", "/load", "/exit"});
      complain(fmt::format(
          "unknown command {}{}", word,
          suggestion.empty() ? "; /help lists them" : fmt::format("; did you mean {}?", suggestion)));
    }
    return true;
  }

  template <typename Ask>
  void answer(const Ask& ask) {
    bool any = false;
    char last = '\n';
    GenerateParams params;
    params.n_predict = options_.n_predict;
    params.on_prefill = [&](int) { return !interrupt_.requested(); };
    WordWrap wrapped(print, [] { return columns_of(1); });
    params.on_text = [&](std::string_view text) {
      any = any || !text.empty();
      if (!text.empty()) last = text.back();
      if (wraps_) {
        wrapped.push(text);
      } else {
        print(text);
      }
      return !interrupt_.requested();
    };
    Conversation::Turn turn;
    try {
      // Only here: a Ctrl-C at the prompt must not cancel the next answer.
      interrupt_.watch(context_);
      turn = ask(params);
      interrupt_.unwatch();
    } catch (const Error& error) {
      interrupt_.unwatch();
      failed_ = true;
      if (any && last != '\n') print("\n");
      complain(error.what());
      return;
    }
    if (last != '\n' || !any) print("\n");
    // A blank line between turns, for people only.
    if (is_terminal(1)) print("\n");
    if (turn.n_forgotten > 0) {
      note(options_.talk,
           fmt::format("(the context is full: the oldest {} messages were forgotten; -c makes it larger)",
                       turn.n_forgotten));
    }
    const Generation& g = turn.generation;
    if (g.stop == StopReason::kContextFull) note(options_.talk, "(the context is full; -c makes it larger)");
    if (g.stop == StopReason::kCancelled) note(options_.talk, "(stopped)");
    if (options_.talk.verbose) {
      note(options_.talk,
           fmt::format("(prompt: {} tokens and {} reused, {:.0f} ms; answer: {} tokens, {:.1f}/s)",
                       g.n_prompt, turn.n_reused, g.prefill_ms, g.tokens.size(),
                       g.decode_ms > 0 ? 1000.0 * g.n_decoded / g.decode_ms : 0.0));
    }
  }

  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      failed_ = true;
      complain(error.what());
    }
  }

  void add_media(const std::string& command, const std::string& path,
                 std::shared_ptr<const EncodedMedia> (*encode)(const MediaModels&, const std::string&)) {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, command + " needs a file's name");
    media_.push_back(encode(media_models_, path));
    note(options_.talk, fmt::format("(the next question has {} in front)", path));
  }

  void save(const std::string& path) const {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, "/save needs a file's name");
    Json json = {{"model", model_name_}, {"messages", Json::array()}};
    bool any_media = false;
    for (const Conversation::Message& message : conversation_.messages()) {
      any_media = any_media || !message.media.empty();
      json["messages"].push_back({{"role", message.role}, {"content", message.content}});
    }
    const std::string text = to_text(json, 2);
    base::AtomicFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
    note(options_.talk, fmt::format("(saved {} messages to {}{})", conversation_.messages().size(), path,
                                    any_media ? ", without their pictures and sounds" : ""));
  }

  void load(const std::string& path) {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, "/load needs a file's name");
    conversation_.set_messages(read_conversation(path));
    note(options_.talk, fmt::format("(loaded {} messages from {})", conversation_.messages().size(), path));
  }

  void complain(const std::string& text) const {
    fmt::print(stderr, "{} {}\n", styled("weft: error:", kRed, use_color(options_.talk.color, 2)),
               printable(text));  // It may hold what a hostile template says.
  }

  const ChatOptions& options_;
  Context& context_;
  Conversation& conversation_;
  InterruptGuard& interrupt_;
  std::string model_name_;
  MediaModels media_models_;
  Conversation::Media media_;  // Of the next question.
  bool color_;
  bool wraps_;
  bool failed_ = false;
};

int run(const ChatOptions& options) {
  const std::string variables = template_variables(options);
  InterruptGuard interrupt;
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt, options.context);
  const Tokenizer& tokenizer = loaded.model->tokenizer();
  const SamplerParams sampling = sampler_params(options.sampling, tokenizer);

  std::unique_ptr<const ChatTemplate> own_template;
  const ChatTemplate* chat_template = loaded.model->chat_template();
  if (!options.template_file.empty()) {
    const auto text_of = [&](Token id) { return std::string(id == kNoToken ? "" : tokenizer.text(id)); };
    own_template = std::make_unique<ChatTemplate>(read_text(options.template_file), text_of(tokenizer.bos()),
                                                  text_of(tokenizer.eos()));
    chat_template = own_template.get();
  }
  if (chat_template == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                "this model has no chat template; give one with --chat-template-file, or continue a text "
                "with 'weft run'");
  }

  Context context(loaded.model, context_params(options.context, options.model));
  Conversation conversation(context, *chat_template, variables, sampling, options.system);
  const std::string name = loaded.model->info().name;
  if (is_terminal(0) && is_terminal(1)) note(options.talk, fmt::format("{}; /help lists the commands", name));
  return Chat(options, context, conversation, interrupt, name,
              load_media(options.mmproj, loaded.path, options.model, *loaded.model, options.talk))
      .loop();
}

std::optional<bool> parse_reasoning(const std::string& text) {
  if (text == "on") return true;
  if (text == "off") return false;
  if (text == "auto") return std::nullopt;
  throw UsageError(fmt::format("--reasoning: '{}' is none of on, off, auto", text));
}

std::function<int()> prepare(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  const std::string group = "Conversation";
  app.add_option("--system-prompt", options->system, "what the model is told first")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("-p,--prompt", options->prompt, "the first question")->type_name("TEXT")->group(group);
  add_image_option(app, options->images, group);
  add_audio_option(app, options->sounds, group);
  add_mmproj_option(app, options->mmproj, group);
  add_switch(app, "--single-turn", options->single_turn, "leave after one answer")->group(group);
  add_size(app, "-n,--predict,--n-predict", options->n_predict, kPredictRange,
           "tokens of an answer at most (default -1: no limit)")
      ->group(group);
  app.add_option("--chat-template-file", options->template_file, "a Jinja template instead of the model's")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--chat-template-kwargs", options->template_variables,
                 "variables for the template, e.g. '{\"enable_thinking\": false}'; \"now\" is the time of "
                 "strftime_now (default: that of the start)")
      ->type_name("JSON")
      ->group(group);
  app.add_option_function<std::string>(
         "--reasoning", [options](const std::string& text) { options->reasoning = parse_reasoning(text); },
         "whether the model thinks before it answers, where its template has a choice (default auto: as the "
         "template likes)")
      ->type_name("on|off|auto")
      ->group(group);
  app.add_option("--reasoning-effort", options->reasoning_effort,
                 "how much it thinks, as the template names it: low, medium, high")
      ->type_name("WORD")
      ->group(group);
  add_switch(app, "--wrap", options->wrap,
             "break lines at words on a terminal (default); --no-wrap leaves them as they come")
      ->group("Output");
  add_switch(app, "--history", options->history,
             "keep typed lines in ~/.local/state/weft/history; --no-history: don't")
      ->group(group);
  add_generation_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kChatCommand = {
    "chat", "[options]", "talk to a model",
    "Lines from a pipe are questions, too. In the conversation /help lists its commands.\n"
    "\n"
    "Examples:\n"
    "  weft chat\n"
    "  weft chat -m gemma --system-prompt \"Answer in one sentence.\" --temp 0.3\n"
    "  weft chat --reasoning off --chat-template-kwargs '{\"custom\": 1}'\n"
    "  weft chat -p \"What is a loom?\" --single-turn -q > answer.txt\n",
    prepare};

}  // namespace weft::cli
