#pragma once
// What the families of encoders are made of, beside the blocks of all (blocks.h). An encoder reads the texts
// of a step as they stand, one behind another: each token sees all of its own text, or a window around
// itself, and no other text. Nothing is kept from step to step.
#include "model/blocks.h"

namespace weft::model {

/// Rows of the tables for tokens, their types and, where the family has learned positions (a table of
/// n_ctx_train), those; and the norm that comes behind them. {n_tokens, n_embd}
ValueId embed_texts(Builder& b, NormKind kind);

/// The layers, of which a window means half of it to either side of a token; the output norm, where the file
/// has it; and the vectors.
///
/// A vector is the mean of the rows that its inputs say (TextInputs): all of a text, one of them, or each.
/// The products dense_2 and dense_3, where the file has them, go over these. Where it has a classifier (cls,
/// cls.norm, cls.output), the builder is told its scores of them; `classifier` is the activation between.
ValueId encoder(Builder& b, ValueId x, Decoder how, Activation classifier = Activation::kNone);

}  // namespace weft::model
