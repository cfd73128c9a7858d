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
  bool is_audio = false;
  bool may_be_left_out = false;  ///< It is in the result of a tool.
};

struct Media {
  std::string mark;  ///< Replaces each file in the messages.
  std::vector<MediaFile> files;
  std::function<bool()> is_wanted;  ///< Whether the client is still there.
  /// Notes that a file is left out because of the error.
  std::function<void(const ApiError& error)> note_left_out;
};

/// Takes images and audio out of a conversation, in order. Throws ApiError that names `path` if the model
/// cannot read them, if there are too many files, or if the data are neither a data: URL nor base64.
///
/// In the result of a tool such a file is left out with a note and a warning instead. Agents send results
/// again with each turn, so an error would end the conversation.
class MediaTaker {
 public:
  /// The job must outlive it.
  explicit MediaTaker(Job& job);

  /// Whether the next files are in the result of a tool.
  void in_tool_result(bool is_in) { in_tool_result_ = is_in; }
  bool is_in_tool_result() const { return in_tool_result_; }
  /// The result of `read`, which may throw ApiError: a string for a part. Returns a note that `what`,
  /// such as "image", is left out if that throws for the result of a tool.
  std::string take(std::string_view what, const std::function<std::string()>& read) const;
  /// These return the mark that replaces the file.
  std::string take_url(std::string_view url, const std::string& path);
  std::string take_image(std::string_view base64, const std::string& path);
  /// A part {"type": "input_audio", "input_audio": {"data": base64, "format": "wav"}} of OpenAI's APIs.
  std::string take_audio(const Json& part, const std::string& path);
  /// An image or audio: the model that reads only one of them decides, or else the file's first bytes.
  std::string take_data(std::string_view base64, const std::string& path);
  /// A data: URL.
  std::string take_audio_url(std::string_view url, const std::string& path);
  Media finish() { return std::move(media_); }

 private:
  std::string add(std::string_view base64, const std::string& path, bool is_audio);
  void check_vision(const std::string& path) const;
  void check_hearing(const std::string& path) const;

  const ServedModel& model_;
  Ignored* ignored_;
  Media media_;
  bool in_tool_result_ = false;
};

/// 400 for a file, such as a PDF.
ApiError no_files(const std::string& path);

/// A prompt of llama.cpp's server: `text` has its marker <__media__> for each base64 of `data`. Throws
/// ApiError as MediaTaker and with_media do, and if the numbers differ.
PromptWithMedia read_media_prompt(Job& job, const std::string& text, bool parse_special, const Json& data,
                                  const std::string& path);

/// Whether a request's body has an image or audio, in the format of any API.
bool has_media(const Json& body);

/// Takes the files of an array of messages of OpenAI's chat API, also from parts `{"type": "image_url",
/// "image_url": {"url": "data:image/png;base64,..."}}`.
Media take_media(Json& messages, Job& job);

/// Tokenizes the prompt, and puts the embeddings of its files in place of the marks. Embeddings of files that
/// the model has seen come from its cache. Throws ApiError for unreadable files, and for too many pixels or
/// seconds in total, except for files that may be left out. Throws Error kCancelled if the client has gone.
PromptWithMedia with_media(const std::vector<PromptPiece>& prompt, const Media& media,
                           const ServedModel& model);

}  // namespace weft::server
