#pragma once
// What the families of encoders are made of, beside the blocks of all (blocks.h). An encoder reads the texts
// of a step as they stand, one behind another: each token sees all of its own text, or a window around
// itself, and no other text. Nothing is kept from step to step.
#include "model/blocks.h"

namespace weft::model {

/// Rows of the tables for tokens, their types and, where the family has learned positions (a table of
/// n_ctx_train), those; and the norm that comes behind them. {n_tokens, n_embd}
ValueId embed_texts(Builder& b, NormKind kind);

/// Attention of all rows of q over all of k, of families that read one text a step. `bias` {1, heads,
/// rows, rows} is added to scores; `scale` 0: 1 / sqrt(k_head_dim). {n_tokens, n_heads * v_head_dim}
ValueId attend_to_step(Builder& b, const Projections& of, float scale, ValueId bias, const std::string& name);
/// How far each key is from each row of a text, whose `positions` {rows} are I32: {rows, rows}, below 0 where
/// it is before it.
ValueId distances(Builder& b, ValueId positions);

/// The layers, of which a window means half of it to either side of a token; the output norm, where the file
/// has it; and the vectors.
///
/// A vector is the mean of the rows that its inputs say (TextInputs): all of a text, one of them, or each.
/// The products dense_2 and dense_3, where the file has them, go over these. Where it has a classifier (cls,
/// cls.norm, cls.output), the builder is told its scores of them; `classifier` is the activation between.
ValueId encoder(Builder& b, ValueId x, Decoder how, Activation classifier = Activation::kNone);

}  // namespace weft::model
