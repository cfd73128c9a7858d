#include "files/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "server/files_folder.h"
#include "weft/error.h"

namespace weft::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

int status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 200;
}

std::vector<std::string> names(const Page<FileInfo>& page) {
  std::vector<std::string> result;
  for (const FileInfo& info : page.records) result.push_back(info.name);
  return result;
}

TEST(FileStore, FilesSurviveARestart) {
  const FilesFolder folder;
  FileInfo info;
  {
    FileStore store(folder.setup(), nullptr);
    info = add_file(store, "abc", {.owner = "alice", .name = "../../x\n", .purpose = "batch"});
    EXPECT_EQ(fs::status(folder.path / info.id).permissions(),
              fs::perms::owner_read | fs::perms::owner_write);
  }
  FileStore store(folder.setup(), nullptr);
  const auto found = store.find("alice", info.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "../../x\n");
  EXPECT_EQ(found->bytes, 3u);
  EXPECT_EQ(content_of(store, info.id), "abc");
  store.remove(*found);
  EXPECT_FALSE(store.find("alice", info.id));
  EXPECT_FALSE(fs::exists(folder.path / info.id));
}

TEST(FileStore, OwnersSeeOnlyTheirOwn) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  const FileInfo hers = add_file(store, "a", {.owner = "alice", .name = "a"});
  add_file(store, "b", {.owner = "bob", .name = "b"});
  EXPECT_FALSE(store.find("bob", hers.id));
  EXPECT_TRUE(store.find("", hers.id));
  EXPECT_THAT(names(store.list({}, "bob", "")), ElementsAre("b"));
  EXPECT_THAT(names(store.list({.ascending = true}, "", "")), ElementsAre("a", "b"));
  EXPECT_EQ(status_of([&] { store.list({.after = hers.id}, "bob", ""); }), 400);
}

TEST(FileStore, ListsAreInPages) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c", "d"})
    ids.push_back(add_file(store, name, {.name = name, .purpose = *name == 'c' ? "vision" : "batch"}).id);
  EXPECT_THAT(names(store.list({}, "", "")), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(names(store.list({.limit = 2, .after = ids[3]}, "", "")), ElementsAre("c", "b"));
  EXPECT_TRUE(store.list({.limit = 3}, "", "").has_more);
  EXPECT_FALSE(store.list({.limit = 4}, "", "").has_more);
  EXPECT_THAT(names(store.list({.after = ids[1], .ascending = true}, "", "batch")), ElementsAre("d"));
  EXPECT_THAT(names(store.list({}, "", "vision")), ElementsAre("c"));
  EXPECT_THAT(names(store.list({.after = ids[0]}, "", "")), ElementsAre());
}

TEST(FileStore, LimitsAreKept) {
  const FilesFolder folder;
  FilesSetup setup = folder.setup();
  setup.file_bytes = 1000;
  setup.folder_bytes = 18000;
  setup.n_files = 2;
  FileStore store(setup, nullptr);
  EXPECT_EQ(status_of([&] { add_file(store, std::string(1001, 'a')); }), 413);
  const FileInfo one = add_file(store, std::string(1000, 'a'));
  add_file(store, "b");
  EXPECT_EQ(status_of([&] { add_file(store, "c"); }), 413);  // Their number.
  store.remove(one);
  EXPECT_EQ(status_of([&] { add_file(store, std::string(1000, 'a')); }), 200);
  setup.n_files = 10;
  const FilesFolder other;
  setup.folder = other.path;
  FileStore small(setup, nullptr);
  const FileInfo first = add_file(small, std::string(800, 'a'));
  add_file(small, std::string(800, 'a'));
  EXPECT_EQ(status_of([&] { add_file(small, "b"); }), 413);  // Their bytes.
  small.remove(first);
  EXPECT_EQ(status_of([&] { add_file(small, "b"); }), 200);
}

// With several keys, one cannot fill the folder for the others.
TEST(FileStore, EachOwnerLeavesAsMuchFreeAsItHas) {
  const FilesFolder folder;
  FilesSetup setup = folder.setup();
  setup.n_files = 12;
  setup.folder_bytes = 200000;
  FileStore store(setup, nullptr);
  store.set_shared(true);
  const auto n_added = [&](const std::string& owner, std::size_t bytes) {
    int n = 0;
    while (status_of([&] { add_file(store, std::string(bytes, 'a'), {.owner = owner}); }) == 200) ++n;
    return n;
  };
  EXPECT_EQ(n_added("alice", 1), 6);
  EXPECT_EQ(n_added("bob", 1), 3);
  EXPECT_EQ(n_added("carol", 1), 1);
  EXPECT_EQ(n_added("alice", 1), 0);
  for (const FileInfo& info : store.list({}, "", "").records) store.remove(info);
  EXPECT_EQ(n_added("alice", 40000), 2);  // Of 48 KB each.
  EXPECT_EQ(n_added("bob", 40000), 1);
  try {
    add_file(store, std::string(40000, 'a'), {.owner = "bob"});
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.code, "storage_limit");
    EXPECT_THAT(error.what(), HasSubstr("leaves free to others"));
  }
  // A server with one key gives it everything.
  store.set_shared(false);
  EXPECT_EQ(n_added("alice", 40000), 1);
}

TEST(FileStore, SharesAreKnownAgainAfterARestart) {
  const FilesFolder folder;
  FilesSetup setup = folder.setup();
  setup.n_files = 4;
  {
    FileStore store(setup, nullptr);
    for (int i = 0; i < 2; ++i) add_file(store, "a", {.owner = "alice"});
  }
  FileStore store(setup, nullptr);
  store.set_shared(true);
  EXPECT_EQ(status_of([&] { add_file(store, "a", {.owner = "alice"}); }), 413);
  EXPECT_EQ(status_of([&] { add_file(store, "a", {.owner = "bob"}); }), 200);
}

TEST(FileStore, FilesOfATimeWithoutKeysBelongToAll) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  const FileInfo info = add_file(store, "a", {.name = "a"});
  EXPECT_TRUE(store.find("alice", info.id));
  EXPECT_THAT(names(store.list({}, "alice", "")), ElementsAre("a"));
}

TEST(FileStore, UnfinishedFilesLeaveNothing) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  {
    const auto file = store.begin("");
    file->write("abc");
  }
  std::size_t n = 0;
  for (const auto& entry : fs::directory_iterator(folder.path))
    n += entry.path().filename() != ".lock" ? 1 : 0;
  EXPECT_EQ(n, 0u);
}

TEST(FileStore, DamagedDescriptionsAreNotedAndIgnored) {
  const FilesFolder folder;
  std::vector<std::string> ids;
  {
    FileStore store(folder.setup(), nullptr);
    for (int i = 0; i < 5; ++i) ids.push_back(add_file(store, "abc").id);
  }
  std::ofstream(folder.path / (ids[0] + ".json")) << "{\"owner\"";
  std::ofstream(folder.path / (ids[1] + ".json")) << R"({"owner": 3, "filename": []})";
  std::ofstream(folder.path / ids[2]) << "another size";
  fs::remove(folder.path / (ids[3] + ".json"));  // Its writer was killed.
  std::ofstream(folder.path / "a_file_of_others") << "x";
  std::vector<std::string> notes;
  FileStore store(folder.setup(), [&](const std::string& note) { notes.push_back(note); });
  EXPECT_EQ(notes.size(), 3u);
  EXPECT_EQ(store.list({}, "", "").records.size(), 1u);
  EXPECT_TRUE(store.find("", ids[4]));
  EXPECT_TRUE(fs::exists(folder.path / ids[0]));
  EXPECT_FALSE(fs::exists(folder.path / ids[3]));
  EXPECT_TRUE(fs::exists(folder.path / "a_file_of_others"));
}

TEST(FileStore, TwoServersDoNotShareAFolder) {
  const FilesFolder folder;
  const FileStore store(folder.setup(), nullptr);
  try {
    const FileStore second(folder.setup(), nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("another server"));
  }
}

TEST(FileStore, AdoptionCanBeRepeated) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  std::ofstream(folder.path / "part") << "abc";
  const FileInfo info{.id = "file-" + std::string(24, 'a'), .name = "results", .created_ns = 5};
  store.adopt(folder.path / "part", info);
  store.adopt(folder.path / "part", info);
  EXPECT_EQ(content_of(store, info.id), "abc");
  EXPECT_EQ(store.find("", info.id)->bytes, 3u);
}

TEST(FileStore, AFullDiskIsAnError) {
  const FilesFolder folder;
  FileStore store(folder.setup(), nullptr);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const int status = status_of([&] { add_file(store, std::string(8192, 'a')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status, 507);
  EXPECT_EQ(status_of([&] { add_file(store, "b"); }), 200);
  EXPECT_EQ(store.list({}, "", "").records.size(), 1u);
}

}  // namespace
}  // namespace weft::server
