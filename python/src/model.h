#pragma once
// A model as Python holds it, shared by all objects that are made from it.
#include <memory>
#include <mutex>

#include "weft/grammar.h"
#include "weft/model.h"

namespace weft::python {

class LoadedModel {
 public:
  LoadedModel(std::shared_ptr<const Model> model, PlacementReport placement)
      : model_(std::move(model)), placement_(std::move(placement)) {}

  const std::shared_ptr<const Model>& model() const { return model_; }
  const PlacementReport& placement() const { return placement_; }
  const Tokenizer& tokenizer() const { return model_->tokenizer(); }
  /// The compiler for the model's vocabulary, created on first use. Thread-safe.
  const GrammarCompiler& grammars() const {
    std::call_once(once_, [this] { grammars_ = std::make_unique<GrammarCompiler>(tokenizer()); });
    return *grammars_;
  }

 private:
  std::shared_ptr<const Model> model_;
  PlacementReport placement_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const GrammarCompiler> grammars_;
};

using ModelPtr = std::shared_ptr<LoadedModel>;

}  // namespace weft::python
