#pragma once
// Images and audio in conversations: files in base64, or data: URLs. Other URLs are refused: the server
// fetches nothing.
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/job.h"
#include "weft/media.h"

namespace weft::server {

/// A file as it was sent. It is decoded when its turn comes: a small file may be a large image.
struct MediaFile {
  std::string path;  ///< The path of its part, for errors.
  std::vector<std::byte> bytes;
  bool is_sound = false;
};

struct Media {
  std::string mark;  ///< Replaces each file in the messages.
  std::vector<MediaFile> files;
  std::function<bool()> is_wanted;  ///< Whether the client is still there.
};

/// Takes images and audio out of a conversation, in order. Throws ApiError that names `path` if the model
/// cannot read them, if there are too many files, or if the data are neither a data: URL nor base64.
class MediaTaker {
 public:
  /// The job must outlive it.
  explicit MediaTaker(Job& job);

  /// Whether the next files are in the result of a tool. There a file that the model cannot read is left out
  /// with a note. Agents' tools return images by default, and an error would come again with each turn.
  void in_tool_result(bool is_in) { in_tool_result_ = is_in; }
  bool is_in_tool_result() const { return in_tool_result_; }
  /// These return the mark that replaces the file, or words in place of a file that is left out.
  std::string take_url(std::string_view url, const std::string& path);
  std::string take_picture(std::string_view base64, const std::string& path);
  /// A part {"type": "input_audio", "input_audio": {"data": base64, "format": "wav"}} of OpenAI's APIs.
  std::string take_sound(const Json& part, const std::string& path);
  /// A data: URL.
  std::string take_sound_url(std::string_view url, const std::string& path);
  Media finish() { return std::move(media_); }

 private:
  std::string add(std::string_view base64, const std::string& path, bool is_sound);
  /// For a file that the model cannot read. Throws ApiError outside results of tools.
  std::string leave_out(bool is_sound, const std::string& path);

  const ServedModel& model_;
  Ignored* ignored_;
  Media media_;
  bool in_tool_result_ = false;
};

/// Whether a request's body has an image or audio, in the format of any API.
bool has_media(const Json& body);

/// Takes the files of an array of messages of OpenAI's chat API, also from parts `{"type": "image_url",
/// "image_url": {"url": "data:image/png;base64,..."}}`.
Media take_media(Json& messages, Job& job);

/// Tokenizes the prompt, and puts the embeddings of its files in place of the marks. Embeddings of files that
/// the model has seen come from its cache. Throws ApiError for unreadable files, and for too many pixels or
/// seconds in total. Throws Error kCancelled if the client has gone.
PromptWithMedia with_media(const std::vector<PromptPiece>& prompt, const Media& media,
                           const ServedModel& model);

}  // namespace weft::server
