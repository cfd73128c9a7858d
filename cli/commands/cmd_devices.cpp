// weft devices: lists devices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands/command.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/device.h"
#include "weft/measure.h"

namespace weft::cli {
namespace {

int run(bool json, bool measured, const Verbosity& talk) {
  Json array = Json::array();
  std::string text;
  const std::shared_ptr<Registry> registry = find_all_backends();
  for (const DeviceInfo& device : list_devices(*registry)) {
    array.push_back({{"name", device.name},
                     {"backend", device.backend},
                     {"description", device.description},
                     {"memory_total", device.memory_total},
                     {"memory_free", device.memory_free},
                     {"threads", device.n_threads},
                     {"on_host_cpu", device.on_host_cpu},
                     {"features", device.features}});
    std::string speed_text;
    if (measured) {
      const DeviceSpeed speed = measure(*registry, device.name);
      array.back()["measured"] = {{"bytes_per_second", speed.bytes_per_second},
                                  {"flops", speed.flops},
                                  {"step_seconds", speed.step_seconds},
                                  {"copy_bytes_per_second", speed.copy_bytes_per_second}};
      speed_text = fmt::format(
          "    measured  {:.1f} GB/s of weights, {:.0f} GFLOPS, {:.0f} us a step, copies {:.1f} GB/s\n",
          speed.bytes_per_second / 1e9, speed.flops / 1e9, speed.step_seconds * 1e6,
          speed.copy_bytes_per_second / 1e9);
    }
    text += fmt::format("{}  {}\n", device.name, device.description);
    text += fmt::format("    memory    {} ({} free)\n", bytes_text(device.memory_total),
                        bytes_text(device.memory_free));
    if (device.n_threads > 0) text += fmt::format("    threads   {}\n", device.n_threads);
    if (!device.features.empty()) text += fmt::format("    features  {}\n", fmt::join(device.features, " "));
    text += speed_text;
  }
  for (const std::string& problem : problems(*registry)) note(talk, problem);
  print(json ? to_text(array, 2) : text);
  return kExitOk;
}

std::function<int()> prepare_devices(CLI::App& app) {
  struct Options {
    Verbosity talk;
    bool json = false, measured = false;
  };
  auto options = std::make_shared<Options>();
  add_switch(app, "--json", options->json, "print one JSON array")->group("Output");
  add_switch(app, "--measure", options->measured, "measure their speed (takes some seconds)")
      ->group("Output");
  add_verbosity_options(app, options->talk);
  app.remove_option(app.get_option("--progress"));
  return [options] { return run(options->json, options->measured, options->talk); };
}

}  // namespace

const Command kDevicesCommand = {
    "devices", "[options]", "list the devices of this machine",
    "--device and --pin take these names. Backends are modules: weft looks for them next to the program, in\n"
    "lib/weft, and in the folders of WEFT_BACKENDS.\n"
    "\n"
    "Examples:\n"
    "  weft devices\n"
    "  weft devices --measure\n",
    prepare_devices};

}  // namespace weft::cli
