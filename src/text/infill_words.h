#pragma once
// Names of the tokens between files in prompts of fill-in-the-middle models: in the order of preference,
// where a vocabulary has several.
#include <array>
#include <string_view>

namespace weft::text {

/// Before a file's name.
inline constexpr std::array<std::string_view, 2> kFileSeparators = {"<|file_sep|>", "<file_sep>"};
/// Before a repository's name.
inline constexpr std::array<std::string_view, 5> kRepositoryMarks = {"<|repo_name|>", "<|fim_repo|>",
                                                                     "<fim-repo>", "<reponame>", "<REPO>"};

}  // namespace weft::text
