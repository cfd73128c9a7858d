#pragma once
// A grammar as Python holds it.
#include <memory>

#include "model.h"
#include "weft/grammar.h"

namespace weft::python {

/// Over the tokens of one model.
struct PyGrammar {
  std::shared_ptr<LoadedModel> model;  // The tokenizer must outlive the compiled grammar.
  std::shared_ptr<const CompiledGrammar> compiled;
};

}  // namespace weft::python
