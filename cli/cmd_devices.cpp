// weft devices: what weft can compute on here.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "arguments.h"
#include "command.h"
#include "json_output.h"
#include "options.h"
#include "terminal.h"
#include "text_format.h"
#include "weft/device.h"

namespace weft::cli {
namespace {

int run(bool json) {
  Json array = Json::array();
  std::string text;
  const std::shared_ptr<Registry> registry = find_all_backends();
  for (const DeviceInfo& device : devices(*registry)) {
    array.push_back({{"name", device.name},
                     {"backend", device.backend},
                     {"description", device.description},
                     {"memory_total", device.memory_total},
                     {"memory_free", device.memory_free},
                     {"threads", device.n_threads},
                     {"features", device.features}});
    text += fmt::format("{}  {}\n", device.name, device.description);
    text += fmt::format("    memory    {} ({} free)\n", bytes_text(device.memory_total),
                        bytes_text(device.memory_free));
    if (device.n_threads > 0) text += fmt::format("    threads   {}\n", device.n_threads);
    if (!device.features.empty()) text += fmt::format("    features  {}\n", fmt::join(device.features, " "));
  }
  for (const std::string& problem : problems(*registry)) note({}, problem);
  print(json ? to_text(array, 2) : text);
  return kExitOk;
}

std::function<int()> prepare(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_switch(app, "--json", *json, "print one JSON array")->group("Output");
  return [json] { return run(*json); };
}

}  // namespace

const Command kDevicesCommand = {"devices", "[--json]", "what weft can compute on here, fastest first",
                                 "Example:\n  weft devices\n", prepare};

}  // namespace weft::cli
