#include "model_folder.h"

#include <fmt/format.h>

#include "model_cache.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft::cli {

std::filesystem::path converted_model(const std::filesystem::path& folder, const Talk& talk,
                                      const std::function<bool()>& keep_going) {
  const std::filesystem::path cache = converted_cache_dir();
  if (cache.empty())
    throw Error(ErrorCode::kNotFound, fmt::format("{} is a folder, and there is no cache for its converted "
                                                  "model: set WEFT_CACHE, or use 'weft convert'",
                                                  folder.string()));
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  Progress bar(talk, "converting " + (error ? folder : whole).filename().string());
  const auto progress = [&](double fraction) {
    bar.update(fraction);
    return keep_going();
  };
  const ConvertedModel made = converted(folder, cache, progress);
  if (made.made)
    for (const std::string& line : made.made->notes) note(talk, line);
  return made.file;
}

}  // namespace weft::cli
