#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace mailgrad {

/// What a safetensors file says of itself in its texts.
enum class kind_of_file : std::uint8_t {
  weights, ///< that a run of Mailgrad has saved
  checkpoint,
  best_weights, ///< beside the checkpoints of a run
  other
};
kind_of_file kind_of(const std::map<std::string, std::string>& texts);

// The texts by which a file says so.
inline constexpr const char* card_key = "mailgrad"; ///< of weights, with their model
inline constexpr const char* checkpoint_format_key = "format";
inline constexpr const char* checkpoint_format = "mailgrad checkpoint 1";
inline constexpr const char* best_weights_part = "best weights";

// The name of a checkpoint begins and ends so.
inline constexpr std::string_view checkpoint_prefix = "checkpoint-";
inline constexpr std::string_view checkpoint_suffix = ".safetensors";

/// Requires files that are to be read as weights to be no part of a run that goes on. Nothing happens if
/// `path` is another folder, or not there.
///
/// Errors  file_error in one line that says what to do: a folder of checkpoints.
void require_no_checkpoints_in(const std::filesystem::path& path);
/// Requires a file that may have weights: no folder, not empty, and no model of ONNX or pickle of PyTorch,
/// which people take for weights. Nothing happens if `path` is not there, or a pipe or a device.
///
/// Errors  file_error in one line that says what it is, and what to do.
void require_no_foreign_file(const std::filesystem::path& path);
/// Requires a file that may be a checkpoint: not empty, and none of the other files that a run reads or
/// leaves: weights, a model of ONNX, a recording, a report. Nothing happens if `path` is not there.
///
/// Errors  file_error in one line that says what it is, and what goes on from it.
void require_may_be_checkpoint(const std::filesystem::path& path);
/// Errors  file_error, likewise: a checkpoint, or the best weights of a run. `path` has these texts.
void require_no_checkpoint(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& texts);

} // namespace mailgrad
