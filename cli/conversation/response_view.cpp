#include "conversation/response_view.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "terminal/markdown.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "terminal/word_wrap.h"

namespace weft::cli {
namespace {

// Generated output cannot move the cursor or set the title.
std::string harmless(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_c1) {
      ++i;
    } else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

struct ResponseView::Impl {
  explicit Impl(Params params_in) : params(params_in), on_terminal(is_terminal(1)) {
    if (params.wraps)
      wrap.emplace([this](std::string_view text) { write_out(text); }, [] { return columns_of(1); });
    if (params.styled && params.markdown)
      markdown.emplace([this](std::string_view text, bool breaks) { put(text, breaks); });
  }

  void write_out(std::string_view text) {
    if (text.empty()) return;
    print(text);
    last = text.back();
  }

  void put(std::string_view text, bool breaks = true) {
    if (!wrap) return write_out(text);
    if (breaks) {
      wrap->push(text);
    } else {
      wrap->push_lines(text);
    }
  }

  void begin_thoughts() {
    put(params.styled ? kDimOnly : "<think>\n");
    thinking = true;
  }
  void end_thoughts() {
    if (!thinking) return;
    thinking = false;
    if (last != '\n') put("\n");
    put(params.styled ? "\033[0m\n" : "</think>\n\n");
  }

  void show_content(std::string_view text) {
    if (markdown) {
      markdown->push(text);
    } else {
      put(text);
    }
  }

  // name({"argument": 1})
  void show_call(const ResponseEvent& event) {
    if (event.kind == ResponseEvent::Kind::kToolCall) {
      if (markdown) markdown->finish();
      if (last != '\n') put("\n");
      put(fmt::format("{}call {}(", params.styled ? kDimOnly : "", printable(event.name)));
    } else if (event.kind == ResponseEvent::Kind::kToolArguments) {
      put(on_terminal ? harmless(event.text) : event.text);
    } else {
      put(params.styled ? ")\033[0m\n" : ")\n");
    }
  }

  static constexpr std::string_view kDimOnly = "\033[0;2m";

  const Params params;
  const bool on_terminal;
  std::optional<WordWrap> wrap;
  std::optional<Markdown> markdown;
  bool any = false;
  bool thinking = false;
  char last = '\n';  // That was written.
};

ResponseView::ResponseView(Params params) : impl_(std::make_unique<Impl>(params)) {}
ResponseView::~ResponseView() = default;

void ResponseView::show(const ResponseEvent& event) {
  Impl& impl = *impl_;
  impl.any = true;
  const std::string text = impl.on_terminal ? harmless(event.text) : event.text;
  switch (event.kind) {
    case ResponseEvent::Kind::kReasoning:
      if (!impl.thinking) impl.begin_thoughts();
      impl.put(text);
      break;
    case ResponseEvent::Kind::kContent:
      impl.end_thoughts();
      impl.show_content(text);
      break;
    default:
      impl.end_thoughts();
      impl.show_call(event);
  }
}

bool ResponseView::any() const { return impl_->any; }

void ResponseView::finish() {
  Impl& impl = *impl_;
  if (impl.markdown) impl.markdown->finish();
  impl.end_thoughts();
  if (impl.last != '\n' || !impl.any) print("\n");
  if (impl.params.styled) print("\033[0m");
}

}  // namespace weft::cli
