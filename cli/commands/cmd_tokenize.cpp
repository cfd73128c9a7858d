// weft tokenize: converts standard input to token ids.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/text_format.h"
#include "weft/model.h"

namespace weft::cli {
namespace {

struct TokenizeOptions {
  Verbosity talk;
  std::string model;
  std::string pre_tokenizer;
  std::string file = "-";
  bool null = false;
  bool json = false;
  bool bos = true;
  bool special = true;
};

std::string listing(const Tokenizer& tokenizer, std::string_view text, const TokenizeOptions& options) {
  const std::vector<Token> tokens =
      tokenizer.encode(text, {.add_special = options.bos, .parse_special = options.special});
  if (options.json) return to_text(Json(tokens));
  // As JSON strings: pieces of characters and control characters stay visible.
  std::string out;
  for (const Token id : tokens) {
    const Json piece = tokenizer.piece(id, true);
    out += fmt::format("{:>7}  {}", id, to_text(piece));
  }
  return out;
}

int run(const TokenizeOptions& options) {
  const Tokenizer tokenizer = load_tokenizer(find_model(options.model, options.talk), options.pre_tokenizer);
  for (const std::string& what : tokenizer.notes()) note(options.talk, "note: " + printable(what));
  const std::string text = read_bytes(options.file);
  std::string out;
  if (options.null) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\0', begin), text.size());
      out += listing(tokenizer, std::string_view(text).substr(begin, end - begin), options);
      begin = end + 1;
    }
  } else {
    out = listing(tokenizer, text, options);
  }
  print(out);
  return kExitOk;
}

std::function<int()> prepare_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  const std::string group = "Options";
  app.add_option("-m,--model", options->model,
                 "a GGUF file, which needs no tensors, or a name in the model cache")
      ->type_name("FILE")
      ->group(group);
  app.add_option("-f,--file", options->file, "the input (default: standard input, byte for byte)")
      ->type_name("FILE")
      ->group(group);
  add_pre_tokenizer_option(app, options->pre_tokenizer, group);
  add_switch(app, "--null", options->null, "the input has several strings, each terminated by a zero byte")
      ->group(group);
  add_switch(app, "--json", options->json, "print a JSON array of ids for each string, one per line")
      ->group("Output");
  add_switch(app, "--bos", options->bos,
             "add the special tokens that the model expects around a prompt (default)")
      ->group(group);
  add_switch(app, "--special", options->special,
             "parse control tokens such as <|im_end|> (default); --no-special: as plain text")
      ->group(group);
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize", "[options] < TEXT", "convert text to token ids",
    "Prints each token on a line: its id, and its characters as a JSON string. With --json: one array of "
    "ids.\n"
    "\n"
    "Examples:\n"
    "  printf 'Hello world' | weft tokenize\n"
    "  weft tokenize -m vocabulary.gguf -f book.txt --json --no-bos --no-special\n",
    prepare_tokenize};

}  // namespace weft::cli
