#pragma once
// Completions for shells, made from the table of commands and their options.
#include <string>

namespace weft::cli {

/// The completion files of shells: bash-completion/completions/weft, zsh/site-functions/_weft, and
/// fish/vendor_completions.d/weft.fish below share/.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace weft::cli
