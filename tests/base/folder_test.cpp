#include "base/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

TEST(Folder, IsMadeForItsOwnerAloneOrRefusedByName) {
  const fs::path root = fs::temp_directory_path() / ("weft_folder_" + std::to_string(::getpid()));
  for (const fs::path& folder : {root / "a" / "b", root / "c" / "", root / "a" / "b"}) {
    make_private_folder(folder);
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all) << folder;
  }
  std::ofstream(root / "file") << "x";
  for (const fs::path& folder : {root / "file", root / "file" / "below"}) {
    try {
      make_private_folder(folder);
      FAIL() << folder;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_NE(std::string(error.what()).find(folder.string()), std::string::npos) << error.what();
    }
  }
  fs::remove_all(root);
}

}  // namespace
}  // namespace weft::base
