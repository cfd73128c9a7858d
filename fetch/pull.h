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

/// The name under which to fetch this model (its first part) again, since some of its files were replaced and
/// others not; empty: nothing is known against it.
std::string name_to_finish(const std::filesystem::path& model);

/// The vision file that was fetched with this model (its first part); empty: none.
std::filesystem::path find_vision(const std::filesystem::path& model);

/// Removes the files of a model (its first part) in `folder`: what was fetched with it and no other model
/// names, else its parts; what was begun of them, and folders that are empty then. Returns how many bytes
/// they took. Throws Error kIo, also while another process fetches one of them.
std::int64_t remove_model(const std::filesystem::path& folder, const std::filesystem::path& model);

/// `label` says which file of how many it is.
using OnFile =
    std::function<bool(const std::string& label, Stage stage, std::int64_t n_bytes, std::int64_t size)>;

/// Fetches what is missing, and what the hub has changed since: from the first file that is replaced until
/// all are there, models with that file are none to find_pulled. Throws Error as find_remote and download.
PulledModel pull(const std::filesystem::path& folder, const ModelName& name, const Hosts& hosts,
                 const DownloadParams& params, const OnFile& on_progress);

}  // namespace weft::fetch
