// BERT's vocabulary as its authors published it: vocab.txt.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/read_file.h"
#include "text/vocabulary.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;

}  // namespace

Tokenizer read_word_pieces(const std::filesystem::path& vocabulary, bool lowercase) {
  const std::vector<std::byte> bytes = base::read_file(vocabulary, kMaxFileBytes);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kWordPiece;
  v.lowercase = lowercase;
  const std::array<std::pair<std::string_view, Token*>, 5> special = {
      {{"[UNK]", &v.unk}, {"[CLS]", &v.cls}, {"[SEP]", &v.sep}, {"[PAD]", &v.pad}, {"[MASK]", &v.mask}}};
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto named =
        std::find_if(special.begin(), special.end(), [&](const auto& s) { return s.first == line; });
    v.kinds.push_back(named == special.end()    ? TokenKind::kNormal
                      : named->second == &v.unk ? TokenKind::kUnknown
                                                : TokenKind::kControl);
    if (named != special.end()) {
      *named->second = static_cast<Token>(v.tokens.size());
      v.tokens.emplace_back(line);
    } else if (line.starts_with("##")) {
      v.tokens.emplace_back(line.substr(2));
    } else {
      v.tokens.push_back("\u2581" + std::string(line));
    }
  }
  for (const auto& [name, token] : special)
    if (*token == kNoToken && token != &v.pad && token != &v.mask)
      throw Error(ErrorCode::kInvalidFile, vocabulary.string() + " has no line \"" + std::string(name) +
                                               "\", so it is no vocab.txt of BERT's");
  return Tokenizer(std::move(v));
}

}  // namespace weft
