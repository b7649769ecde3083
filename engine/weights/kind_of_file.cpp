#include <mailgrad/engine/weights/kind_of_file.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
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

/// Its first bytes, at most 256.
std::string beginning_of(const std::filesystem::path& path) {
  std::string bytes(256, '\0');
  std::ifstream file(path, std::ios::binary);
  bytes.resize(static_cast<std::size_t>(file.read(bytes.data(), std::ssize(bytes)).gcount()));
  return bytes;
}

/// A message of protobuf whose first field is a version of ONNX, and whose next one is the producer, the
/// graph or the operators.
bool is_onnx(std::string_view first) {
  constexpr std::string_view next_fields = "\x12\x3a\x42";
  return first.size() > 2 && first[0] == '\x08' && first[1] > 0 && first[1] < 32 &&
         next_fields.find(first[2]) != next_fields.npos;
}

/// A zip archive whose first entry is "NAME/data.pkl", as torch.save() writes it, or the pickle alone that it
/// wrote before.
bool is_pickle(std::string_view first) {
  constexpr std::size_t name_begins = 30, length_at = 26;
  if (first.starts_with("\x80\x02") || first.starts_with("\x80\x04")) return true;
  if (!first.starts_with("PK\3\4") || first.size() < name_begins) return false;
  const std::size_t length = number_in<2>(first.substr(length_at));
  return first.substr(name_begins, length).ends_with("/data.pkl");
}

/// Whether what a safetensors file begins with, the length of its header, can be.
bool may_be_safetensors(std::string_view first, std::uint64_t size) {
  constexpr std::size_t length_bytes = 8;
  return size >= length_bytes && first.size() >= length_bytes &&
         number_in<length_bytes>(first) <= size - length_bytes;
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view what) {
  throw_malformed(path, fmt::format("expected a file of weights, found {}", what));
}

/// A recording begins with these bytes.
constexpr std::string_view recording_begins = "mgradrec";

/// What a file is that begins so and is no safetensors file, and what may be done with it.
std::string kind_by_beginning(const std::filesystem::path& path, std::string_view first) {
  const std::string name = shell_word(path.string());
  if (is_onnx(first))
    return "a model of ONNX; 'mailgrad train --load' begins a run with the weights that it is of";
  if (is_pickle(first)) return "a pickle of PyTorch, which holds no run";
  if (first.starts_with(recording_begins))
    return fmt::format("a recording; 'mailgrad replay {}' repeats its run", name);
  const std::size_t text = first.find_first_not_of(" \t\r\n");
  if (text != first.npos && (first[text] == '{' || first[text] == '['))
    return "a text in JSON, such as a report or a model";
  const auto is_of_text = [](unsigned char c) { return (c >= ' ' && c != 0x7f) || (c >= '\t' && c <= '\r'); };
  return std::ranges::all_of(first, is_of_text) ? "a text" : "";
}

} // namespace

void require_may_be_checkpoint(const std::filesystem::path& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  if (unknown) return;
  const std::string first = beginning_of(path);
  if (first.empty() && size > 0) return; // who reads it says why that cannot be done
  const std::string found = size == 0 ? "an empty file" : kind_by_beginning(path, first);
  if (found.empty() || may_be_safetensors(first, size)) return;
  throw_malformed(path, fmt::format("expected a checkpoint, found {}; --resume takes the folder that "
                                    "--checkpoint named, or a file in it",
                                    found));
}

void require_no_foreign_file(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) refuse(path, "a folder; name a file in it");
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  if (unknown) return;
  if (size == 0) refuse(path, "an empty file; name one that 'mailgrad train --save' wrote");
  const std::string first = beginning_of(path);
  if (may_be_safetensors(first, size)) return;
  if (is_onnx(first)) refuse(path, "a model of ONNX; name the file of weights that it was exported from");
  if (is_pickle(first))
    refuse(path, "a pickle of PyTorch; write its weights by safetensors.torch.save_file() in Python, and "
                 "name that file");
}

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
