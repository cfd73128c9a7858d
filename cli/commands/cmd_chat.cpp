// weft chat: a conversation by the model's template.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "commands/command.h"
#include "conversation/conversation.h"
#include "conversation/response_view.h"
#include "conversation/saved_conversation.h"
#include "conversation/tool_command.h"
#include "files/json_input.h"
#include "files/text_input.h"
#include "models/served_model.h"
#include "options/arguments.h"
#include "options/constraint_options.h"
#include "options/escapes.h"
#include "options/fit_options.h"
#include "options/media_options.h"
#include "options/option_table.h"
#include "options/options.h"
#include "options/snapshot_options.h"
#include "options/speculation_options.h"
#include "options/template_options.h"
#include "options/tier_options.h"
#include "terminal/interrupt.h"
#include "terminal/line_editor.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/chat.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::string_view kHelp =
    "  /help           this list\n"
    "  /regen          regenerate the last response\n"
    "  /clear          begin a new conversation (the system prompt stays)\n"
    "  /image FILE     an image for the next message, PNG or JPEG; needs --mmproj\n"
    "  /audio FILE     audio for the next message; needs --mmproj\n"
    "  /tools FILE     functions that the model may call (JSON as in OpenAI's API); without a file: none\n"
    "  /system TEXT    set the system prompt and begin a new conversation; without TEXT: none\n"
    "  /save FILE      write the conversation as JSON, with its images, audio and calls\n"
    "  /load FILE      continue a saved conversation\n"
    "  /exit           leave; Ctrl-D does the same\n"
    "Ctrl-C stops a response, or clears the line; in an empty line it leaves when pressed twice. A line "
    "that\n"
    "ends in \\ continues in the next one. Lines between \"\"\" and \"\"\" are one message, and so is a "
    "paste.\n"
    "Alt-Enter begins a new line, Ctrl-R searches the history.\n"
    "When the model calls a function, type its result after 'name = '; Ctrl-D removes the question.\n"
    "With --tool-command CMD, that program computes the result; no other program is run.\n";

/// The running request's sequence, and others for earlier turns.
constexpr int kSequences = 4;
/// More sequences, for the snapshots of models that need them.
constexpr int kMostSnapshots = 4;

struct ChatOptions : GenerationOptions {
  std::string system;
  std::string system_file;
  std::optional<std::string> prompt;
  std::string mmproj;
  std::vector<std::string> images;
  std::vector<std::string> sounds;
  SnapshotOptions snapshots;
  TierOptions tiers;
  TemplateOptions chat_template;
  ConstraintOptions constraint;
  SpeculationOptions speculation;
  std::string tools;
  std::string tool_command;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string session;
  bool wrap = true;
  bool markdown = true;
  int n_predict = -1;
  bool single_turn = false;
  bool history = true;
};

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// Lower case, for commands.
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Whether the input is a command such as "/save"; questions may begin with a path.
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

/// The template's variables. They stay the same for the whole conversation, so that its prefix stays cached.
server::ChatDefaults chat_defaults_now(const TemplateOptions& options) {
  server::ChatDefaults defaults = chat_defaults(options);
  Json variables = {{"now", now_text()}};
  if (!defaults.variables_json.empty()) variables.update(parse_json(defaults.variables_json));
  defaults.variables_json = variables.dump();
  return defaults;
}

/// The tools of a file: an array, or an object with one as a request has it. Throws Error.
std::string read_tools(const std::string& path) {
  const std::string text = read_text(path);
  const Json json = parse_json(text, path);
  return json.is_object() && json.contains("tools") ? to_text(json["tools"]) : text;
}

class Session {
 public:
  Session(const ChatOptions& options, Context& context, Conversation& conversation, InterruptGuard& interrupt,
          std::string model_name, MediaModels media_models)
      : options_(options),
        context_(context),
        conversation_(conversation),
        interrupt_(interrupt),
        model_name_(std::move(model_name)),
        media_models_(std::move(media_models)),
        media_(read_media_files(media_models_, options.images, options.sounds)),
        color_(use_color(options.talk.color, 1)),
        view_{.styled = color_ && moves_cursor(1),
              .markdown = options.markdown,
              .wraps = options.wrap && moves_cursor(1)},
        editor_(options.history ? default_history_file() : std::filesystem::path()) {
    if (view_.wraps) use_utf8();
    if (!options.tools.empty()) set_tools(options.tools);
    if (!options.session.empty() && std::filesystem::exists(options.session)) {
      load(options.session);
      if (!options.system.empty()) conversation_.set_system(options.system);
    }
  }

  int loop() {
    if (options_.prompt) {
      ask(*options_.prompt);
      if (options_.single_turn) return exit_code();
    }
    const bool at_terminal = is_terminal(0) && is_terminal(1);
    bool interrupted_before = false;
    while (true) {
      interrupt_.reset();
      std::string input;
      const LineEditor::Result result = read_input("> ", input);
      if (result == LineEditor::Result::kInterrupted) {
        // In a question that was begun it gives that up; only in an empty one it leaves.
        if (interrupted_before && input.empty()) return kExitInterrupted;
        interrupted_before = true;
        note(options_.talk, "(Ctrl-C again, Ctrl-D or /exit to leave)");
        continue;
      }
      interrupted_before = false;
      if (result == LineEditor::Result::kEnd) {
        if (is_terminal(1)) print("\n");
        // A user at a terminal has seen the errors.
        return at_terminal ? kExitOk : exit_code();
      }
      const std::string text = trim(input);
      if (text.empty()) continue;
      if (is_command(text)) {
        if (!command(text)) return at_terminal ? kExitOk : exit_code();
        keep_session();
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

  // One question or command: a line, lines that end in \, or lines between """ and """. After an interrupt
  // `input` has the typed characters.
  LineEditor::Result read_input(const std::string& prompt, std::string& input) {
    constexpr std::string_view kQuotes = "\"\"\"";
    bool quoted = false;
    while (true) {
      std::string line;
      const bool first = input.empty() && !quoted;
      const LineEditor::Result result = editor_.read(first ? prompt : ". ", color_, line);
      if (result == LineEditor::Result::kInterrupted) {
        input += line;
        return result;
      }
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
    const bool stands = converse(
        [&](const Conversation::Requirements& wishes) { return conversation_.ask(text, media_, wishes); });
    if (stands) {
      media_.clear();
    } else if (!media_.empty()) {
      note(options_.talk, "(the images and audio stay for the next message; /clear drops them)");
    }
    keep_session();
  }

  // Generates responses until one calls no tools; each call's result goes into the next request. Returns
  // false if the question was taken back.
  template <typename Ask>
  bool converse(const Ask& ask) {
    constexpr int kMaxRounds = 32;
    std::optional<Conversation::Turn> turn = answer(ask);
    for (int round = 1; turn && !turn->answer.calls.empty(); ++round) {
      const std::optional<std::vector<std::string>> results = results_of(turn->answer.calls);
      if (!results) {
        conversation_.take_back();
        failed_ = true;
        note(options_.talk, "(a call has no result: the question was removed)");
        return false;
      }
      turn = answer([&](const Conversation::Requirements& wishes) {
        return conversation_.go_on(*results, round < kMaxRounds, wishes);
      });
    }
    return turn && !turn->was_taken_back;
  }

  // Results come from the user's program, if there is one, else from the keyboard. Nothing if the user gave
  // none.
  std::optional<std::vector<std::string>> results_of(const std::vector<ChatResponse::Call>& calls) {
    std::vector<std::string> results;
    for (const ChatResponse::Call& call : calls) {
      std::string result;
      const bool given = options_.tool_command.empty() ? type_result(call, result) : run_tool(call, result);
      if (!given) return std::nullopt;
      results.push_back(std::move(result));
    }
    return results;
  }

  bool type_result(const ChatResponse::Call& call, std::string& result) {
    return read_input(fmt::format("{} = ", printable(call.name)), result) == LineEditor::Result::kLine;
  }

  bool run_tool(const ChatResponse::Call& call, std::string& result) {
    try {
      // JSON as the model wrote it: its numbers may be any.
      const Json input = {{"id", call.id}, {"name", call.name}, {"arguments", parse_json(call.arguments)}};
      ToolResult made = cli::run_tool(options_.tool_command, to_text(input));
      if (interrupt_.requested()) return false;
      if (made.was_cut) made.output += "\n(the rest was cut off)";
      if (made.exit_code != 0) made.output += fmt::format("\n(failed with exit code {})", made.exit_code);
      result = std::move(made.output);
    } catch (const Error& error) {
      failed_ = true;
      complain(error.what());
      return false;
    }
    constexpr std::size_t kShown = 200;
    const std::string line = one_line(result);
    note(options_.talk, styled(fmt::format("({} = {}{})", printable(call.name), line.substr(0, kShown),
                                           line.size() > kShown ? " ..." : ""),
                               kDim, use_color(options_.talk.color, 2)));
    return true;
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
      media_.clear();
      note(options_.talk, "(cleared)");
    } else if (word == "/system") {
      conversation_.clear();
      conversation_.set_system(rest);
      note(options_.talk, rest.empty() ? "(no system prompt)" : "(system prompt set)");
    } else if (word == "/regen") {
      if (conversation_.can_regenerate()) {
        converse([&](const Conversation::Requirements& wishes) { return conversation_.regenerate(wishes); });
      } else {
        complain("there is no response to generate again");
      }
    } else if (word == "/image" || word == "/audio") {
      attempt([&] { add_media(word, rest, word == "/audio"); });
    } else if (word == "/tools") {
      attempt([&] { set_tools(rest); });
    } else if (word == "/save") {
      attempt([&] { save(rest); });
    } else if (word == "/load") {
      attempt([&] { load(rest); });
    } else {
      const std::string suggestion = nearest(word, {"/help", "/regen", "/clear", "/image", "/audio", "/tools",
                                                    "/system", "/save", "/load", "/exit"});
      complain(fmt::format(
          "unknown command {}{}", word,
          suggestion.empty() ? "; /help lists them" : fmt::format("; did you mean {}?", suggestion)));
    }
    return true;
  }

  // Returns nothing after an error.
  template <typename Ask>
  std::optional<Conversation::Turn> answer(const Ask& ask) {
    ResponseView view(view_);
    Conversation::Requirements wishes;
    wishes.n_predict = options_.n_predict;
    wishes.on_event = [&](const ResponseEvent& event) { view.show(event); };
    wishes.goes_on = [&] { return !interrupt_.requested(); };
    Conversation::Turn turn;
    try {
      // Only here: a Ctrl-C at the prompt must not cancel the next response.
      const CancelOnInterrupt cancels(context_);
      turn = ask(wishes);
    } catch (const Error& error) {
      failed_ = true;
      if (view.any()) view.finish();
      complain(error.what());
      return std::nullopt;
    }
    view.finish();
    // A blank line between turns, for people only.
    if (is_terminal(1)) print("\n");
    tell(turn);
    return turn;
  }

  void tell(const Conversation::Turn& turn) const {
    if (turn.n_forgotten > 0) {
      note(options_.talk, fmt::format("(the context is full: the oldest {} dropped; -c makes it larger)",
                                      base::counted(turn.n_forgotten, "message was", "messages were")));
    }
    const Completion& done = turn.completion;
    if (done.stop == StopReason::kContextFull)
      note(options_.talk, "(the context is full; -c makes it larger)");
    if (done.stop == StopReason::kCancelled) note(options_.talk, "(stopped)");
    if (turn.cut_call) note(options_.talk, "(the response ended within a call, which is not executed)");
    if (options_.talk.verbose) {
      const CompletionStats& stats = done.stats;
      note(options_.talk, fmt::format("(prompt: {} and {} reused, {:.0f} ms; response: {}, {:.1f}/s)",
                                      base::counted(stats.n_prompt - stats.n_cached, "token"), stats.n_cached,
                                      stats.prefill_ms(), base::counted(done.tokens.size(), "token"),
                                      done.decode_per_second()));
      if (stats.n_drafted > 0)
        note(options_.talk, fmt::format("(drafts: {}, of which {} were accepted)",
                                        base::counted(stats.n_drafted, "token"), stats.n_accepted));
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

  void add_media(const std::string& command, const std::string& path, bool is_audio) {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, command + " needs a file's name");
    media_.push_back(read_media(media_models_, path, is_audio));
    note(options_.talk, fmt::format("(the next message begins with {})", path));
  }

  void set_tools(const std::string& path) {
    const std::size_t n = conversation_.set_tools(path.empty() ? "" : read_tools(path));
    note(options_.talk, n == 0 ? "(no tools)" : fmt::format("(tools that the model may call: {})", n));
  }

  void save(const std::string& path) const {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, "/save needs a file's name");
    write_conversation(path, model_name_, conversation_);
    note(options_.talk,
         fmt::format("(saved {} to {})", base::counted(conversation_.messages().size(), "message"), path));
  }

  void load(const std::string& path) {
    if (path.empty()) throw Error(ErrorCode::kInvalidArgument, "/load needs a file's name");
    SavedConversation saved = read_conversation(path, media_models_);
    if (!saved.tools.empty()) conversation_.set_tools(saved.tools);
    conversation_.set_messages(std::move(saved.messages));
    note(options_.talk,
         fmt::format("(loaded {} from {})", base::counted(conversation_.messages().size(), "message"), path));
  }

  // The file of --session is as new as the conversation.
  void keep_session() {
    if (options_.session.empty()) return;
    attempt([&] { write_conversation(options_.session, model_name_, conversation_); });
  }

  void complain(const std::string& text) const {
    fmt::print(stderr, "{} {}\n", styled("weft: error:", kRed, use_color(options_.talk.color, 2)),
               printable(text));  // It may quote a hostile template.
  }

  const ChatOptions& options_;
  Context& context_;
  Conversation& conversation_;
  InterruptGuard& interrupt_;
  std::string model_name_;
  MediaModels media_models_;
  Conversation::Media media_;  // Of the next message.
  bool color_;
  ResponseView::Params view_;
  LineEditor editor_;
  bool failed_ = false;
};

weft::Chat make_chat(const Model& model, const Verbosity& talk) {
  if (model.chat_template() != nullptr) return weft::Chat(*model.chat_template());
  if (const std::string why = server::why_no_template(model); !why.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the model's chat template cannot be used{}; give one with --chat-template-file, "
                            "or continue a prompt with 'weft run'",
                            why));
  note(talk, fmt::format("weft: note: {}", kNoTemplate));
  return weft::Chat::chatml(model.tokenizer());
}

/// Of the context.
int n_sequences(const ChatOptions& options, const ModelInfo& info) {
  int n = info.reads_source ? 1 : kSequences + n_branch_sequences(options.speculation, info);
  if (info.recurrent || info.window > 0) n += std::min(options.snapshots.n, kMostSnapshots);
  return n;
}

int run(ChatOptions options) {
  options.context.state_rewind = n_draft_states(options.speculation, 1);
  if (!options.system_file.empty()) {
    if (!options.system.empty())
      throw UsageError(
          "--system-prompt and --system-prompt-file both set the system prompt; give one of them");
    options.system = read_prompt_file(options.system_file);
  } else {
    options.system = read_escapes(options.system, options.sampling.escape);
  }
  if (options.prompt) options.prompt = read_escapes(*options.prompt, options.sampling.escape);
  replace_escapes(options.sampling);
  Conversation::Params params{.defaults = chat_defaults_now(options.chat_template),
                              .system = options.system,
                              .grammar = grammar_of(options.constraint),
                              .tool_choice = options.tool_choice};
  InterruptGuard interrupt;
  options.model.chat_template = template_text(options.chat_template);
  const ModelInfo info = find_and_describe(options.model, options.talk, interrupt);
  options.context.n_sequences = n_sequences(options, info);
  const LoadedModel loaded =
      load_model(options.model, options.talk, interrupt, options.context,
                 margins_of_companions(options.mmproj, options.speculation, options.model, options.context));
  const SamplerParams sampling = sampler_params(options.sampling, loaded.model->tokenizer());
  // Before the template: for an encoder the context has the better error.
  Context context(loaded.model, context_params(options.context, options.model));
  BatcherParams batcher = batcher_params(
      options.speculation, load_draft(options.speculation, options, loaded.placed, context, interrupt));
  bound_snapshots(batcher, options.snapshots);
  set_cache_tiers(batcher, options.tiers);
  batcher.tiers.on_note = [&talk = options.talk](const std::string& why) {
    note(talk, fmt::format("weft: note: {}", why));
  };
  Completer completer(context, batcher);
  weft::Chat chat = make_chat(*loaded.model, options.talk);
  Conversation conversation(completer, std::move(chat), sampling, std::move(params));
  const std::string name = loaded.model->info().name;
  if (is_terminal(0) && is_terminal(1)) note(options.talk, fmt::format("{}; /help lists the commands", name));
  return Session(options, context, conversation, interrupt, name,
                 load_media(options.mmproj, loaded.path, options.model, *loaded.model, options.talk))
      .loop();
}

void add_tool_options(CLI::App& app, ChatOptions& options) {
  const std::string group = "Tools";
  app.add_option("--tools", options.tools,
                 "file with functions that the model may call: a JSON array of tools as in OpenAI's API")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--tool-command", options.tool_command,
         "shell command that executes a call: it reads the call as JSON (id, name, arguments) from stdin and "
         "prints the result (default: the user types the result)")
      ->type_name("CMD")
      ->group(group);
  add_choice<ToolChoice>(
      app, "--tool-choice", options.tool_choice,
      {{"auto", ToolChoice::kAuto}, {"none", ToolChoice::kNone}, {"required", ToolChoice::kRequired}},
      "whether the model must call a tool; none: never, required: first (default auto: the model decides)")
      ->group(group);
}

std::function<int()> prepare_chat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  const std::string group = "Conversation";
  app.add_option("--system-prompt", options->system, "the system prompt")->type_name("TEXT")->group(group);
  app.add_option("--system-prompt-file", options->system_file,
                 "file with the system prompt, without one newline at its end")
      ->type_name("FILE")
      ->group(group);
  app.add_option("-p,--prompt", options->prompt, "the first user message")->type_name("TEXT")->group(group);
  add_image_option(app, options->images, group);
  add_audio_option(app, options->sounds, group);
  add_mmproj_option(app, options->mmproj, group);
  add_switch(app, "--single-turn", options->single_turn, "exit after one response")->group(group);
  add_size(app, "-n,--predict,--n-predict", options->n_predict, kPredictRange,
           "maximum tokens of a response (default -1: no limit)")
      ->group(group);
  app.add_option("--session", options->session,
                 "continue the conversation in this file, if it exists, and save it there")
      ->type_name("FILE")
      ->group(group);
  add_template_options(app, options->chat_template, group);
  add_tool_options(app, *options);
  add_constraint_options(app, options->constraint);
  add_switch(app, "--markdown", options->markdown,
             "render Markdown on a terminal with colour (default); --no-markdown prints it as it is")
      ->group("Output");
  add_switch(app, "--wrap", options->wrap, "wrap lines at words on a terminal (default)")->group("Output");
  add_switch(app, "--history", options->history, "keep typed lines in ~/.local/state/weft/history (default)")
      ->group(group);
  add_snapshot_options(app, options->snapshots);
  add_tier_options(app, options->tiers);
  add_speculation_options(app, options->speculation);
  add_generation_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kChatCommand = {
    "chat", "[options]", "chat with a model",
    "Reads messages from the terminal, or lines from a pipe. In the conversation, /help lists its commands.\n"
    "\n"
    "Examples:\n"
    "  weft chat\n"
    "  weft chat -m gemma --system-prompt \"Answer in one sentence.\" --temp 0.3\n"
    "  weft chat --reasoning off --chat-template-kwargs '{\"custom\": 1}'\n"
    "  weft chat --session loom.json\n"
    "  weft chat --tools tools.json --tool-command ./answer.py\n"
    "  weft chat -p \"Three colours\" -st -j '{\"type\": \"array\", \"items\": {\"type\": \"string\"}}'\n"
    "  weft chat -p \"What is a loom?\" --single-turn -q > answer.txt\n",
    prepare_chat};

}  // namespace weft::cli
