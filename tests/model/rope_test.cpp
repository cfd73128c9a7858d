// Rope's metadata: which kinds of scaling use the factor.
#include "model/params/rope.h"

#include <gtest/gtest.h>

#include "gguf/writer.h"

namespace weft::model {
namespace {

TEST(Rope, NoScalingIgnoresTheFactor) {
  const auto scale_of = [](const char* type, const char* factor_key) {
    gguf::Writer writer;
    if (type != nullptr) writer.set("llama.rope.scaling.type", type);
    writer.set(std::string("llama.rope.") + factor_key, 4.0f);
    const gguf::File file = writer.planned();
    return read_rope(Metadata(file, "llama"), 64, 4096).freq_scale;
  };
  for (const char* factor : {"scaling.factor", "scale_linear"}) {
    for (const char* type : {static_cast<const char*>(nullptr), "", "linear", "yarn"})
      EXPECT_EQ(scale_of(type, factor), 0.25f) << (type == nullptr ? "no type" : type);
    for (const char* type : {"none", "default"}) EXPECT_EQ(scale_of(type, factor), 1.0f) << type;
  }
}

}  // namespace
}  // namespace weft::model
