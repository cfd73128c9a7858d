#pragma once
// Hub models in a folder on disk: downloaded, recorded by name, and found again without the network.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "download.h"
#include "hubs.h"
#include "model_name.h"

namespace weft::fetch {

/// A downloaded model.
struct PulledModel {
  std::filesystem::path model;   ///< The first part of a split one.
  std::filesystem::path vision;  ///< Empty: there is none.
  std::int64_t n_bytes = 0;      ///< Of all its files.
};

/// The model downloaded under that name, if it is complete.
std::optional<PulledModel> find_pulled(const std::filesystem::path& folder, const ModelName& name);

/// The name to download this model (its first part) again, since only some of its files were replaced; empty
/// if it is complete.
std::string name_to_finish(const std::filesystem::path& model);

/// The vision file downloaded with this model (its first part); empty: none.
std::filesystem::path find_vision(const std::filesystem::path& model);

/// Removes the files of a model (its first part) from `folder`: the files downloaded with it that no other
/// model uses, or its parts if it was not downloaded. Also removes unfinished downloads of them and folders
/// that become empty. Returns the freed bytes. Throws Error kIo, also while another process downloads one of
/// them.
std::int64_t remove_model(const std::filesystem::path& folder, const std::filesystem::path& model);

/// `label` is the file's name, for several files with a number: "x.gguf (2 of 3)".
using OnFile =
    std::function<bool(const std::string& label, Stage stage, std::int64_t n_bytes, std::int64_t size)>;

/// Downloads missing files, and files that have changed on the hub. From the first replaced file until all
/// are complete, find_pulled does not return models with that file. Throws Error as find_remote and download.
PulledModel pull(const std::filesystem::path& folder, const ModelName& name, const Hosts& hosts,
                 const DownloadParams& params, const OnFile& on_progress);

}  // namespace weft::fetch
