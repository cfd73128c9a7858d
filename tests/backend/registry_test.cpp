// Backends registered by hand and from modules. A broken module is reported and does no harm.
#include "weft/backend/registry.h"

#include <gtest/gtest.h>

#include <fstream>

#include "weft/error.h"

namespace weft {
namespace {

Backend named(const std::string& backend, const std::string& device) {
  return {backend, [=] { return std::vector{DeviceInfo{.name = device, .backend = backend}}; },
          [](std::string_view, const OpenOptions&) { return std::shared_ptr<Device>(); }};
}

TEST(Registry, ListsDevicesByBackendAndNamesMissingOnes) {
  Registry registry;
  registry.add(named("a", "a0"));
  registry.add(named("b", "b0"));
  registry.add(named("a", "a1"));  // In place of the first.
  const auto devices = registry.devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "a1");
  EXPECT_EQ(devices[1].name, "b0");
  try {
    registry.open("c0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "unknown device \"c0\"; known are a1, b0");
  }
}

TEST(Registry, OpensNoDeviceToFindAnother) {
  Registry registry;
  int n_listed = 0;
  std::string opened;
  const auto add = [&](const std::string& backend) {
    Backend own = named(backend, backend + "0");
    own.list = [&n_listed, list = own.list] {
      ++n_listed;
      return list();
    };
    own.open = [&opened](std::string_view device, const OpenOptions&) {
      opened = device;
      return std::shared_ptr<Device>();
    };
    own.has = [backend](std::string_view device) { return device == backend + "0"; };
    registry.add(own);
  };
  add("a");
  add("b");
  try {
    registry.open("b0");
    FAIL() << "these open nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the backend b lists the device \"b0\" but cannot open it");
  }
  EXPECT_EQ(opened, "b0");
  EXPECT_EQ(n_listed, 0);
  // Names are listed where one is missing.
  EXPECT_THROW(registry.open("b1"), Error);
  EXPECT_EQ(n_listed, 2);
}

TEST(Registry, LooksForGpusOnlyWhereThereMayBeSome) {
  Registry registry;
  int n_listed = 0;
  bool may_find = false;
  const auto list = [&] {
    ++n_listed;
    return std::vector{DeviceInfo{.name = "a0", .backend = "a"},
                       DeviceInfo{.name = "a1", .backend = "a", .on_host_cpu = true}};
  };
  registry.add({"a", list, nullptr, [&] { return may_find; }});
  EXPECT_TRUE(registry.gpus().empty());
  EXPECT_EQ(n_listed, 0);
  EXPECT_EQ(registry.devices().size(), 2u);
  may_find = true;
  ASSERT_EQ(registry.gpus().size(), 1u);
  EXPECT_EQ(registry.gpus()[0].name, "a0");
}

TEST(Registry, ListsAGpuOfTwoBackendsOnce) {
  Registry registry;
  const auto add = [&](const std::string& backend, const std::string& uuid) {
    Backend own = named(backend, backend + "0");
    own.list = [backend, uuid] {
      return std::vector{DeviceInfo{.name = backend + "0", .backend = backend, .uuid = uuid}};
    };
    registry.add(own);
  };
  add("a", "00ff");
  add("b", "00ff");
  add("c", "");
  add("d", "");
  std::vector<std::string> names;
  for (const DeviceInfo& gpu : registry.gpus()) names.push_back(gpu.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a0", "c0", "d0"}));
  EXPECT_EQ(registry.devices().size(), 4u);  // By name it can still be opened.
}

TEST(Registry, ReportsTruncatedModules) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cut_modules";
  std::filesystem::create_directories(folder);
  const std::filesystem::path cut = folder / "weft_backend_cut.so";
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TEST_MODULES)) {
    if (entry.path().filename() == "weft_backend_broken.so") continue;
    for (const std::uintmax_t left : {1000, 100}) {
      std::filesystem::copy_file(entry.path(), cut, std::filesystem::copy_options::overwrite_existing);
      std::filesystem::resize_file(cut, left);
      Registry registry;
      registry.load_module(cut);
      ASSERT_EQ(registry.problems().size(), 1u) << entry.path();
      EXPECT_NE(registry.problems()[0].find("weft_backend_cut.so: is incomplete"), std::string::npos)
          << registry.problems()[0];
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(Registry, LoadsModulesAndReportsBrokenOnes) {
  std::ofstream(std::string(WEFT_TEST_MODULES) + "/weft_backend_broken.so") << "no library";
  const std::filesystem::path folders[] = {"/there/is/no/such/folder", WEFT_TEST_MODULES};
  Registry registry;
  registry.load_modules(folders);
  ASSERT_EQ(registry.backends().size(), 1u);
  // Opened twice under two names; an error of the module is one here.
  const auto one = registry.open("idle0"), other = registry.open("idle0", {.name = "second"});
  EXPECT_EQ(one->info().name, "idle0");
  EXPECT_EQ(other->info().name, "second");
  try {
    one->create_state(DType::kF32, std::vector<std::int64_t>{1, 1, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
  ASSERT_EQ(registry.problems().size(), 3u);
  EXPECT_NE(registry.problems()[0].find("weft_backend_broken.so"), std::string::npos)
      << registry.problems()[0];
  EXPECT_NE(registry.problems()[1].find("no driver here"), std::string::npos) << registry.problems()[1];
  EXPECT_NE(registry.problems()[2].find("another version"), std::string::npos) << registry.problems()[2];
}

}  // namespace
}  // namespace weft
