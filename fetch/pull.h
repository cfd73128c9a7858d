#pragma once
// Models of hubs in a folder on the disk: fetched, remembered by their names, found again without the
// network.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "download.h"
#include "hubs.h"
#include "model_name.h"

namespace weft::fetch {

/// A model that was fetched.
struct PulledModel {
  std::filesystem::path model;   ///< The first part of a split one.
  std::filesystem::path vision;  ///< Empty: there is none.
  std::int64_t n_bytes = 0;      ///< Of all its files.
};

/// What was fetched under that name, if all of it is still there.
std::optional<PulledModel> find_pulled(const std::filesystem::path& folder, const ModelName& name);

/// The vision file that was fetched with this model (its first part); empty: none.
std::filesystem::path find_vision(const std::filesystem::path& model);

/// Removes the files of a model (its first part): what was fetched with it and no other model uses, else its
/// parts. Returns how many bytes they took. Throws Error kIo.
std::int64_t remove_model(const std::filesystem::path& model);

/// `label` says which file of how many it is.
using OnFile =
    std::function<bool(const std::string& label, Stage stage, std::int64_t n_bytes, std::int64_t size)>;

/// Fetches what is missing, and what the hub has changed since. Throws Error as find_remote and download.
PulledModel pull(const std::filesystem::path& folder, const ModelName& name, const Hosts& hosts,
                 const DownloadParams& params, const OnFile& on_progress);

}  // namespace weft::fetch
