#include <mailgrad/engine/weights/kind_of_file.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/shell_word.hpp>

#include <fmt/format.h>

#include <string>
#include <system_error>

namespace mailgrad {

namespace {

/// `resumed` is what is resumed to have the weights of `path`.
[[noreturn]] void refuse(const std::filesystem::path& path, const char* what,
                         const std::filesystem::path& resumed) {
  throw_malformed(path,
                  fmt::format("expected a file of weights, found {}; 'mailgrad train --resume {} --steps "
                              "1 --save weights.safetensors' writes such a file without further training",
                              what, shell_word(resumed.string())));
}

} // namespace

kind_of_file kind_of(const std::map<std::string, std::string>& texts) {
  if (texts.contains(card_key)) return kind_of_file::weights;
  const auto format = texts.find(checkpoint_format_key);
  if (format == texts.end() || format->second != checkpoint_format) return kind_of_file::other;
  return texts.contains(best_weights_part) ? kind_of_file::best_weights : kind_of_file::checkpoint;
}

void require_no_checkpoints_in(const std::filesystem::path& path) {
  std::error_code wrong;
  for (std::filesystem::directory_iterator file(path, wrong), end; !wrong && file != end;
       file.increment(wrong)) {
    const std::string name = file->path().filename().string();
    if (name.starts_with(checkpoint_prefix) && name.ends_with(checkpoint_suffix))
      refuse(path, "a folder of checkpoints", path);
  }
}

void require_no_checkpoint(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& texts) {
  const kind_of_file kind = kind_of(texts);
  if (kind == kind_of_file::checkpoint) refuse(path, "a checkpoint", path);
  if (kind == kind_of_file::best_weights)
    refuse(path, "the best weights that a run keeps beside its checkpoints",
           path.has_parent_path() ? path.parent_path() : ".");
}

} // namespace mailgrad
