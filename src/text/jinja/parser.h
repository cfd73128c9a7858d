#pragma once
// Parses a template's source. The grammar is jinja2 3.1's (parser.py) with loop controls, without statements
// that load other templates (include, import, extends, block).
#include <string_view>

#include "text/jinja/ast.h"

namespace weft::text::jinja {

/// Throws SyntaxProblem, with the line.
ast::Block parse(std::string_view source);

}  // namespace weft::text::jinja
