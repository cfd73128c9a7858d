// Edits by grapheme clusters.
#include "terminal/edit_buffer.h"

#include <gtest/gtest.h>

#include "terminal/graphemes.h"

namespace weft::cli {
namespace {

const std::string kFamily = "👨‍👩‍👧‍👦";  // Four emoji and three joiners.
const std::string kFlag = "🇰🇷";
const std::string kAccent = "e\u0301";
const std::string kHangul = "\u1112\u1161\u11ab";  // Three jamo.
const std::string kThumb = "👍🏽";
const std::string kHeart = "❤\ufe0f";
const std::string kDevanagari = "नि";
const std::string kKeycap = "1\ufe0f\u20e3";

TEST(Graphemes, AreUserPerceivedCharacters) {
  for (const std::string& cluster : {kFamily, kFlag, kAccent, kHangul, kThumb, kHeart, kDevanagari, kKeycap,
                                     std::string("漢"), std::string("\r\n"), std::string("a")}) {
    const std::string text = "x" + cluster + "y";
    EXPECT_EQ(grapheme_starts(text), (std::vector<std::size_t>{0, 1, 1 + cluster.size(), text.size()}))
        << cluster;
  }
  EXPECT_EQ(grapheme_starts(kFlag + kFlag), (std::vector<std::size_t>{0, kFlag.size(), 2 * kFlag.size()}));
  EXPECT_EQ(grapheme_starts(""), (std::vector<std::size_t>{0}));
  EXPECT_EQ(grapheme_starts("a\xff\xe2\x82"), (std::vector<std::size_t>{0, 1, 2, 3, 4}));  // Not UTF-8.
}

TEST(Graphemes, HaveTheMostColumnsThatTerminalsGiveThem) {
  EXPECT_EQ(grapheme_columns("a"), 1);
  EXPECT_EQ(grapheme_columns(kAccent), 1);
  EXPECT_EQ(grapheme_columns("漢"), 2);
  EXPECT_EQ(grapheme_columns(kHeart), 2);
  EXPECT_EQ(grapheme_columns("\u0301"), 1);  // Alone.
  EXPECT_GE(grapheme_columns(kFamily), 2);
  EXPECT_GE(grapheme_columns(kFlag), 2);
}

TEST(Graphemes, BoundariesNearAPlaceAreThoseOfTheWholeText) {
  std::string text;
  for (int i = 0; i < 900; ++i)
    text += i % 5 == 0    ? "漢"
            : i % 7 == 0  ? "e\u0301"
            : i % 11 == 0 ? "👨‍👩‍👧‍👦"
            : i % 13 == 0 ? "\r\n"
                          : "a";
  const std::vector<std::size_t> starts = grapheme_starts(text);
  for (std::size_t place = 0; place <= text.size(); ++place) {
    const ClusterBounds near = cluster_bounds(text, place);
    const auto at = std::lower_bound(starts.begin(), starts.end(), place);
    const auto after = std::upper_bound(starts.begin(), starts.end(), place);
    ASSERT_EQ(near.before, at == starts.begin() ? 0 : *(at - 1)) << place;
    ASSERT_EQ(near.at, *at) << place;
    ASSERT_EQ(near.after, after == starts.end() ? text.size() : *after) << place;
  }
}

TEST(EditBuffer, BackspaceErasesAWholeCluster) {
  for (const std::string& cluster :
       {kFamily, kFlag, kAccent, kHangul, kThumb, kHeart, kDevanagari, kKeycap}) {
    EditBuffer buffer;
    buffer.insert("a" + cluster + "b");
    buffer.move_left();
    buffer.erase_before();
    EXPECT_EQ(buffer.text(), "ab") << cluster;
    EXPECT_EQ(buffer.cursor(), 1u) << cluster;
  }
}

TEST(EditBuffer, MovesByClusters) {
  EditBuffer buffer;
  buffer.insert(kFamily + kAccent + "漢");
  std::vector<std::size_t> places;
  for (int i = 0; i < 4; ++i, buffer.move_left()) places.push_back(buffer.cursor());
  EXPECT_EQ(places, (std::vector<std::size_t>{kFamily.size() + kAccent.size() + 3,
                                              kFamily.size() + kAccent.size(), kFamily.size(), 0}));
  EXPECT_EQ(buffer.cursor(), 0u);
  buffer.move_right();
  EXPECT_EQ(buffer.cursor(), kFamily.size());
}

TEST(EditBuffer, JoinsClustersTypedInPieces) {
  EditBuffer buffer;
  buffer.insert("e");
  buffer.insert("\u0301");  // As an input method sends it.
  EXPECT_EQ(buffer.cursor(), kAccent.size());
  buffer.insert("x");
  buffer.move_left();
  buffer.move_left();
  EXPECT_EQ(buffer.cursor(), 0u);
  buffer.set("👨");
  buffer.insert("\u200d");
  buffer.insert("👩");
  buffer.erase_before();
  EXPECT_TRUE(buffer.empty());
}

TEST(EditBuffer, KillsAndYanks) {
  EditBuffer buffer;
  buffer.insert("one two\nthree four");
  buffer.kill_word_before();
  EXPECT_EQ(buffer.text(), "one two\nthree ");
  buffer.kill_before();
  EXPECT_EQ(buffer.text(), "one two\n");
  buffer.yank();
  EXPECT_EQ(buffer.text(), "one two\nthree ");
  buffer.move_home();
  EXPECT_EQ(buffer.cursor(), 8u);
  buffer.kill_after();
  EXPECT_EQ(buffer.text(), "one two\n");
  buffer.kill_after();  // Nothing is erased, so the kill buffer stays.
  buffer.yank();
  EXPECT_EQ(buffer.text(), "one two\nthree ");
}

TEST(EditBuffer, TransposesClusters) {
  EditBuffer buffer;
  buffer.insert("a" + kFlag);
  buffer.transpose();
  EXPECT_EQ(buffer.text(), kFlag + "a");
  buffer.set("a");
  buffer.transpose();
  EXPECT_EQ(buffer.text(), "a");
}

TEST(EditBuffer, DropsInvalidUtf8) {
  EditBuffer buffer;
  buffer.insert(
      "a\xff"
      "b\xe2\x82");
  EXPECT_EQ(buffer.text(), "ab");
}

}  // namespace
}  // namespace weft::cli
