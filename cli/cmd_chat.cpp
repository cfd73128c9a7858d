// weft chat: a conversation by the model's template.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "arguments.h"
#include "command.h"
#include "conversation.h"
#include "interrupt.h"
#include "json_output.h"
#include "line_editor.h"
#include "options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::string_view kHelp =
    "  /help           this list\n"
    "  /regen          another answer to the last question\n"
    "  /clear          begin anew (the system prompt stays)\n"
    "  /system TEXT    set the system prompt and begin anew; without a text: none\n"
    "  /save FILE      write the conversation as JSON\n"
    "  /exit           leave (so does Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

struct ChatOptions : GenerationOptions {
  std::string system;
  std::optional<std::string> prompt;
  std::string template_file;
  int n_predict = -1;
  bool single_turn = false;
  bool history = true;
};

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

class Chat {
 public:
  Chat(const ChatOptions& options, Context& context, Conversation& conversation, InterruptGuard& interrupt,
       std::string model_name)
      : options_(options),
        context_(context),
        conversation_(conversation),
        interrupt_(interrupt),
        model_name_(std::move(model_name)),
        color_(use_color(options.talk.color, 1)) {}

  int loop() {
    if (options_.prompt) {
      answer([&](const GenerateParams& params) { return conversation_.ask(*options_.prompt, params); });
      if (options_.single_turn) return interrupt_.requested() ? kExitInterrupted : kExitOk;
    }
    LineEditor editor(options_.history ? default_history_file() : std::filesystem::path());
    bool interrupted_before = false;
    std::string text;
    while (true) {
      interrupt_.reset();
      std::string line;
      const LineEditor::Result result = editor.read(text.empty() ? "> " : ". ", color_, line);
      if (result == LineEditor::Result::kInterrupted) {
        if (interrupted_before) return kExitInterrupted;
        interrupted_before = true;
        text.clear();
        note(options_.talk, "\n(Ctrl-C again, Ctrl-D or /exit to leave)");
        continue;
      }
      interrupted_before = false;
      if (result == LineEditor::Result::kEnd) {
        if (text.empty()) {
          if (is_terminal(1)) print("\n");
          return kExitOk;
        }
      } else if (line.ends_with('\\')) {
        line.pop_back();
        text += line + "\n";
        continue;
      }
      text += line;
      const std::string input = std::exchange(text, {});
      if (trim(input).empty()) continue;
      if (input.front() == '/') {
        if (!command(input)) return kExitOk;
      } else {
        answer([&](const GenerateParams& params) { return conversation_.ask(input, params); });
        if (options_.single_turn) return interrupt_.requested() ? kExitInterrupted : kExitOk;
      }
    }
  }

 private:
  // Returns false to leave.
  bool command(const std::string& input) {
    const std::size_t space = input.find(' ');
    const std::string word = input.substr(0, space);
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
    } else if (word == "/save") {
      save(rest);
    } else {
      const std::string suggestion =
          nearest(word, {"/help", "/regen", "/clear", "/system", "/save", "/exit"});
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
    params.on_text = [&](std::string_view text) {
      any = any || !text.empty();
      if (!text.empty()) last = text.back();
      print(text);
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

  void save(const std::string& path) {
    if (path.empty()) return complain("/save needs a file's name");
    Json json = {{"model", model_name_}, {"messages", Json::array()}};
    for (const ChatMessage& message : conversation_.messages()) {
      json["messages"].push_back({{"role", message.role}, {"content", message.content}});
    }
    const std::string text = to_text(json, 2);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if ((file != nullptr && std::fclose(file) != 0) || !written) return complain("cannot write to " + path);
    note(options_.talk, fmt::format("(saved {} messages to {})", conversation_.messages().size(), path));
  }

  void complain(const std::string& text) const {
    fmt::print(stderr, "{} {}\n", styled("weft: error:", kRed, use_color(options_.talk.color, 2)), text);
  }

  const ChatOptions& options_;
  Context& context_;
  Conversation& conversation_;
  InterruptGuard& interrupt_;
  std::string model_name_;
  bool color_;
};

int run(const ChatOptions& options) {
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
  Conversation conversation(context, *chat_template, sampling, options.system);
  const std::string name = loaded.model->info().name;
  if (is_terminal(0) && is_terminal(1)) note(options.talk, fmt::format("{}; /help lists the commands", name));
  return Chat(options, context, conversation, interrupt, name).loop();
}

std::function<int()> prepare(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  const std::string group = "Conversation";
  app.add_option("--system-prompt", options->system, "what the model is told first")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("-p,--prompt", options->prompt, "the first question")->type_name("TEXT")->group(group);
  add_switch(app, "--single-turn", options->single_turn, "leave after one answer")->group(group);
  add_size(app, "-n,--predict,--n-predict", options->n_predict, kPredictRange,
           "tokens of an answer at most (default -1: no limit)")
      ->group(group);
  app.add_option("--chat-template-file", options->template_file, "a Jinja template instead of the model's")
      ->type_name("FILE")
      ->group(group);
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
    "  weft chat -p \"What is a loom?\" --single-turn -q > answer.txt\n",
    prepare};

}  // namespace weft::cli
