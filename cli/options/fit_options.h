#pragma once
// What --fit leaves free on devices, and the table of what a model takes there.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "weft/device.h"
#include "weft/model.h"

namespace weft::cli {

struct ContextOptions;
struct ModelOptions;
struct SpeculationOptions;

/// The devices other than the CPU that options name, or all GPUs.
std::vector<std::string> device_names(const ModelOptions& options, const Registry& registry);

/// The bytes of --fit-target: one number, or one for each device. Throws UsageError.
std::vector<std::uint64_t> parse_fit_target(const std::string& text);

/// The margins of --fit-target; by default 1 GiB on each GPU. Throws UsageError.
std::vector<Margin> target_margins(const ModelOptions& options, const Registry& registry);

/// The memory that other models take in addition to the model of `file`.
using OtherMargins = std::function<std::vector<Margin>(const std::filesystem::path& file, const Registry&)>;
/// The encoders of `mmproj` (see load_media) and the draft model. For encoders it is an estimate: the file's
/// size and 256 MiB on each device. The arguments must outlive the result.
OtherMargins margins_of_companions(const std::string& mmproj, const SpeculationOptions& speculation,
                                   const ModelOptions& model, const ContextOptions& context);

/// What a loaded model will take of the host's free memory: caches and temporaries when they are first used,
/// and weights of mapped files. On other devices it is in use already. The arguments must outlive the result.
OtherMargins margins_beside(const PlacementReport& placed, const Model& model);

/// Whether the model is on several devices, or --fit has changed something.
bool is_worth_a_table(const PlacementReport& report);
/// Lines that say what the model takes on each device, and what --fit has changed.
std::vector<std::string> to_table(const PlacementReport& report);

}  // namespace weft::cli
