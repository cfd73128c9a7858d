// Forms, whole and in pieces of any size, and malformed ones.
#include "files/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "api/error.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Part {
  std::string name, content;
  std::optional<std::string> filename = std::nullopt;
  bool operator==(const Part&) const = default;
};

class Collected : public FormHandler {
 public:
  void begin_part(FormPart part) override { parts.push_back({part.name, "", part.filename}); }
  void add(std::string_view bytes) override { parts.back().content += bytes; }
  void end_part() override { ++n_ended; }

  std::vector<Part> parts;
  std::size_t n_ended = 0;
};

std::vector<Part> parse(std::string_view body, std::size_t piece, std::string_view boundary = "XX") {
  Collected collected;
  MultipartReader reader(boundary, collected);
  for (std::size_t at = 0; at < body.size(); at += piece) reader.read(body.substr(at, piece));
  reader.finish();
  EXPECT_EQ(collected.n_ended, collected.parts.size());
  return collected.parts;
}

/// The same parts whatever the pieces are.
std::vector<Part> parse(std::string_view body) {
  const std::vector<Part> whole = parse(body, body.size() + 1);
  for (const std::size_t piece : {1, 2, 3, 5, 7, 16}) EXPECT_EQ(parse(body, piece), whole) << piece;
  return whole;
}

/// The message of the 400; empty: the form was read.
std::string refused(std::string_view body) {
  std::string first;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, body.size() + 1}) {
    std::string message;
    try {
      parse(body, piece);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      message = error.what();
    }
    if (piece == 1) first = message;
    EXPECT_EQ(message, first) << piece;
  }
  return first;
}

std::string part(const std::string& head, const std::string& content) {
  return "--XX\r\n" + head + "\r\n\r\n" + content + "\r\n";
}
const std::string kName = "Content-Disposition: form-data; name=\"a\"";

TEST(Multipart, ReadsPartsInAnyPieces) {
  EXPECT_THAT(parse(part("Content-Disposition: form-data; name=\"purpose\"", "batch") +
                    part("content-disposition: FORM-DATA; Filename=\"r.jsonl\"; NAME=file\r\n"
                         "Content-Type: application/octet-stream",
                         "{}\n{}\n") +
                    part(kName, "") + "--XX--\r\n"),
              ElementsAre(Part{"purpose", "batch"}, Part{"file", "{}\n{}\n", "r.jsonl"}, Part{"a", ""}));
}

TEST(Multipart, ContentMayLookLikeBoundaries) {
  const std::string content = "--XX\r\n\r\n--X\r\n--\r\r\n\n--XY\r\n-\r\n--";
  EXPECT_THAT(parse(part(kName, content) + "--XX--"), ElementsAre(Part{"a", content}));
  std::string bytes;
  for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i);
  EXPECT_THAT(parse(part(kName, bytes) + "--XX--"), ElementsAre(Part{"a", bytes}));
}

TEST(Multipart, PreambleEpilogueAndPaddingAreSkipped) {
  EXPECT_THAT(parse("a preamble\r\n--XX \t\r\n" + kName + "\r\n\r\nb\r\n--XX--\r\n--XX\r\nan epilogue"),
              ElementsAre(Part{"a", "b"}));
}

TEST(Multipart, NamesOfFilesAreOnlyStrings) {
  const auto name_of = [](const std::string& parameters) {
    return parse(part("Content-Disposition: form-data; name=file; " + parameters, "") + "--XX--")
        .at(0)
        .filename.value_or("none");
  };
  EXPECT_EQ(name_of("filename=\"../../etc/passwd\""), "../../etc/passwd");
  EXPECT_EQ(name_of("filename=\"C:\\dir\\f.txt\""), "C:\\dir\\f.txt");
  EXPECT_EQ(name_of("filename=\"a\\\"b\""), "a\"b");
  EXPECT_EQ(name_of("filename=\"a;b=c\""), "a;b=c");
  EXPECT_EQ(name_of("filename=plain"), "plain");
  EXPECT_EQ(name_of("filename=\"x\"; filename*=utf-8''na%C3%AFve"), "na\xC3\xAFve");
  EXPECT_EQ(name_of("size=3"), "none");
}

TEST(Multipart, MalformedFormsAreRefused) {
  EXPECT_THAT(refused(""), HasSubstr("final boundary"));
  EXPECT_THAT(refused("no boundary at all"), HasSubstr("final boundary"));
  EXPECT_THAT(refused(part(kName, "b")), HasSubstr("final boundary"));
  EXPECT_THAT(refused(part(kName, "b") + "--XX"), HasSubstr("final boundary"));
  EXPECT_THAT(refused(part(kName, "b") + "--XX-"), HasSubstr("final boundary"));
  EXPECT_THAT(refused(part(kName, "b") + "--XXY\r\n"), HasSubstr("other characters"));
  EXPECT_THAT(refused(part(kName, "b") + "--XX-\r\n"), HasSubstr("other characters"));
  EXPECT_THAT(refused("--XX" + std::string(1000, ' ') + "\r\n"), HasSubstr("too long"));
  EXPECT_THAT(refused("--XX\r\n\r\n\r\nb\r\n--XX--"), HasSubstr("no Content-Disposition"));
  EXPECT_THAT(refused(part("Content-Type: text/plain", "b") + "--XX--"), HasSubstr("no Content-Disposition"));
  EXPECT_THAT(refused(part("no colon", "b") + "--XX--"), HasSubstr("malformed header"));
  EXPECT_THAT(refused(part(kName + "\r\n" + kName, "b") + "--XX--"), HasSubstr("two Content-Dispositions"));
  EXPECT_THAT(refused(part(kName + "; name=b", "b") + "--XX--"), HasSubstr("two names"));
  EXPECT_THAT(refused(part("Content-Disposition: form-data; filename=x", "b") + "--XX--"),
              HasSubstr("no name"));
  EXPECT_THAT(refused(part("Content-Disposition: attachment; name=x", "b") + "--XX--"),
              HasSubstr("form-data"));
  EXPECT_THAT(refused(part("Content-Disposition: form-data; name=\"x", "b") + "--XX--"),
              HasSubstr("form-data"));
  EXPECT_THAT(refused(part(kName + "\r\nContent-Transfer-Encoding: base64", "b") + "--XX--"),
              HasSubstr("Transfer-Encoding"));
}

TEST(Multipart, HeadsAndPartsAreBounded) {
  const std::string huge(MultipartReader::kMostHeadBytes + 1, 'x');
  EXPECT_THAT(refused(part(kName + "\r\nX: " + huge, "b") + "--XX--"), HasSubstr("16 KiB"));
  EXPECT_THAT(refused("--XX\r\nX: " + huge), HasSubstr("16 KiB"));
  std::string many;
  for (int i = 0; i <= MultipartReader::kMostParts; ++i) many += part(kName, "b");
  EXPECT_THAT(refused(many + "--XX--"), HasSubstr("64 parts"));
}

TEST(Multipart, BoundariesAreThoseOfFormsOnly) {
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=XX"), "XX");
  EXPECT_EQ(boundary_of("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), "a b");
  const std::string longest(70, 'b');
  EXPECT_EQ(boundary_of("multipart/form-data;boundary=" + longest), longest);
  for (const std::string& type :
       {std::string(), std::string("application/json"), std::string("multipart/form-data"),
        std::string("multipart/form-data; boundary="), std::string("multipart/form-data; boundary=\"x"),
        std::string("multipart/mixed; boundary=XX"), "multipart/form-data; boundary=" + longest + "b"})
    EXPECT_EQ(boundary_of(type), std::nullopt) << type;
}

}  // namespace
}  // namespace weft::server
