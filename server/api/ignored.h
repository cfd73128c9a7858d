#pragma once
// The parts of a request that the server ignored: names of fields and of entries in lists.
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Names in the order in which they were found, each once. Bounded.
class Ignored {
 public:
  static constexpr std::size_t kMostNames = 32, kMostBytes = 64;

  /// `path` is "tools[3].type"; the name is "tools.type". Bytes outside HTTP's token characters become '_',
  /// and long names are cut.
  void add(std::string_view path);
  const std::vector<std::string>& names() const { return names_; }
  /// The header X-Weft-Ignored: "a, b"; "..." at its end says that there are more. Empty: nothing was
  /// ignored.
  std::string header() const;

 private:
  std::vector<std::string> names_;
  bool has_more_ = false;
};

}  // namespace weft::server
