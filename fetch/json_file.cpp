#include "json_file.h"

#include "base/read_file.h"
#include "weft/error.h"

namespace weft::fetch {

std::optional<nlohmann::json> json_of(const std::filesystem::path& path) try {
  constexpr std::uint64_t kMaxBytes = 64 << 20;
  const std::vector<std::byte> bytes = base::read_file(path, kMaxBytes);
  return base::try_parse_json<nlohmann::json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace weft::fetch
