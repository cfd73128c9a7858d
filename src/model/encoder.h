#pragma once
// Parts of encoder families, in addition to the common blocks (blocks.h). An encoder reads the concatenated
// sequences of a step. Each token sees all of its own sequence, or a window around itself, and no other
// sequence. Nothing is kept from step to step.
#include "model/blocks.h"

namespace weft::model {

/// Rows of the tables for tokens, their types and, in families with learned positions, for positions (a table
/// of n_ctx_train). A norm follows. {n_tokens, n_embd}
ValueId embed_texts(Builder& b, NormKind kind);

/// Attention of all rows of q over all of k, for families that read one sequence a step. `bias` {1, heads,
/// rows, rows} is added to scores; `scale` 0: 1 / sqrt(k_head_dim). {n_tokens, n_heads * v_head_dim}
ValueId attend_to_step(Builder& b, const Projections& of, float scale, ValueId bias, const std::string& name);
/// The distance of each key from each row of a sequence, whose `positions` {rows} are I32: {rows, rows},
/// below 0 where the key precedes the row.
ValueId distances(Builder& b, ValueId positions);

/// The layers, the output norm, where the file has it, and the vectors. A window has one half on each side of
/// a token.
///
/// A vector is the mean of the rows in its inputs (TextInputs): all rows of a sequence, one, or each. The
/// products dense_2 and dense_3, where the file has them, are applied to the vectors. Where the file has a
/// classifier (cls, cls.norm, cls.output), the builder gets its scores of the vectors. `classifier` is the
/// activation between its layers.
ValueId encoder(Builder& b, ValueId x, Decoder how, Activation classifier = Activation::kNone);

}  // namespace weft::model
