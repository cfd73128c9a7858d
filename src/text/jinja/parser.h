#pragma once
// Template source to its tree. The grammar is that of jinja2 3.1 (parser.py) with loop controls, without what
// reaches other templates (include, import, extends, block).
#include <string_view>

#include "text/jinja/ast.h"

namespace weft::text::jinja {

/// Throws SyntaxProblem, with the line.
ast::Block parse(std::string_view source);

}  // namespace weft::text::jinja
