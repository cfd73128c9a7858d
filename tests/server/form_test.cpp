// Forms with a file, as requests for transcriptions have them.
#include "api/form.h"

#include <gtest/gtest.h>

#include "api/error.h"

namespace weft::server {
namespace {

std::string part(const std::string& head, const std::string& content) {
  return "--x\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n";
}

class FormTest : public testing::Test {
 protected:
  /// Reads a body in pieces of this size.
  Form read(const std::string& body, std::size_t piece) {
    FormSink sink("x", held_);
    int n_taken = 0, n_put = 0;
    for (std::size_t at = 0; at < body.size(); at += piece, ++n_put)
      sink.put(body.substr(at, piece), [&] { ++n_taken; });
    EXPECT_EQ(n_taken, n_put);
    return sink.take();
  }
  std::string refusal(const std::string& body) {
    try {
      read(body, 1000);
    } catch (const ApiError& error) {
      return std::to_string(error.status) + " " + error.what();
    }
    return "none";
  }

  std::shared_ptr<std::atomic<std::size_t>> held_ = std::make_shared<std::atomic<std::size_t>>(0);
};

TEST_F(FormTest, PartsBecomeFieldsAndTheFile) {
  const std::string sound("RIFF\0\r\n--y\r\n", 13);
  const std::string body =
      part("name=\"file\"; filename=\"a \\\"b\\\".wav\"", sound) + part("name=model", "whisper-1") +
      part("name=\"temperature\"", "0.5") + part("name=\"stream\"", "true") +
      part("name=\"timestamp_granularities[]\"", "word") +
      part("name=\"timestamp_granularities[]\"", "segment") + part("name=\"prompt\"", "1.5") + "--x--\r\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, body.size()}) {
    const Form form = read(body, piece);
    EXPECT_EQ(form.file, sound);
    EXPECT_EQ(to_text(form.fields), to_text({{"model", "whisper-1"},
                                             {"temperature", 0.5},
                                             {"stream", true},
                                             {"timestamp_granularities", {"word", "segment"}},
                                             {"prompt", "1.5"}}));
  }
  EXPECT_EQ(*held_, 0u);
}

TEST_F(FormTest, DamagedFormsAreRefused) {
  const std::string file = part("name=\"file\"", "a");
  EXPECT_TRUE(refusal(file).starts_with("400")) << refusal(file);
  EXPECT_TRUE(refusal("").starts_with("400"));
  EXPECT_TRUE(refusal("{\"model\": \"x\"}").starts_with("400"));
  EXPECT_NE(refusal(file + file + "--x--\r\n").find("two parts"), std::string::npos);
  EXPECT_NE(
      refusal(part("name=\"prompt\"", std::string(70000, 'a')) + "--x--\r\n").find("more than 65536 bytes"),
      std::string::npos);
}

TEST_F(FormTest, AllFormsTogetherAreBounded) {
  *held_ = FormSink::kMostHeld;
  EXPECT_TRUE(refusal(part("name=\"file\"", "a") + "--x--\r\n").starts_with("503"));
  EXPECT_EQ(*held_, FormSink::kMostHeld);
}

TEST_F(FormTest, OtherBodiesAreNoForms) {
  HttpRequest request;
  request.body = "{}";
  EXPECT_THROW(take_form(request), ApiError);
}

}  // namespace
}  // namespace weft::server
