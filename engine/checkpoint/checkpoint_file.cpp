#include <mailgrad/engine/checkpoint/checkpoint_file.hpp>

#include <mailgrad/engine/weights/kind_of_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <span>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::string_view checksum_prefix = "crc32 of ";
constexpr const char* found_weights =
    "expected a checkpoint, found a file of weights; 'mailgrad train --load' begins a run with them";
constexpr const char* found_others =
    "expected a checkpoint, found a safetensors file of another program; if it has the weights of a model, "
    "'mailgrad train --load' begins a run with them";

/// The checksum of a part: of its fields, and of the names and the bytes of its arrays.
std::string checksum(std::string_view text, std::span<const archived_array> arrays) {
  uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  for (const archived_array& a : arrays) {
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(a.path.data()), a.path.size());
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(a.values.data()), a.values.size_bytes());
  }
  return fmt::format("{:08x}", sum);
}

} // namespace

std::uint64_t write_checkpoint_file(const std::filesystem::path& path, const checkpoint_parts& parts) {
  std::vector<array_to_store> arrays;
  std::map<std::string, std::string> texts{{checkpoint_format_key, checkpoint_format}};
  for (const auto& [name, fields] : parts) {
    for (const archived_array& a : fields->arrays())
      arrays.push_back({name + '/' + a.path, shape{a.values.size()}, a.values});
    const std::string text = fields->text();
    texts[std::string(checksum_prefix) + name] = checksum(text, fields->arrays());
    texts[name] = text;
  }
  write_safetensors(path, arrays, texts, replaced_file::if_link::replaced);
  return std::filesystem::file_size(path);
}

checkpoint checkpoint::read(const std::filesystem::path& path) {
  require_may_be_checkpoint(path);
  if (npz_file::is_npz(path)) throw_malformed(path, found_weights);
  safetensors_file file(path);
  const auto& texts = file.metadata();
  const kind_of_file kind = kind_of(texts);
  if (kind == kind_of_file::weights) throw_malformed(path, found_weights);
  if (kind == kind_of_file::other) throw_malformed(path, found_others);
  checkpoint read(path);
  for (const auto& [name, text] : texts)
    if (name != checkpoint_format_key && !name.starts_with(checksum_prefix)) read.parts_[name].text = text;
  for (const stored_array& a : file.arrays()) {
    const std::size_t slash = a.name.find('/');
    const auto part = read.parts_.find(a.name.substr(0, slash));
    if (slash == std::string::npos || part == read.parts_.end())
      throw_malformed(path, fmt::format("array {} is of no part", in_quotes(a.name)));
    const auto values = std::make_shared<std::vector<float>>(a.dims.size());
    file.read(a, *values);
    part->second.arrays.push_back({a.name.substr(slash + 1), values, *values});
  }
  for (const auto& [name, part] : read.parts_) {
    const auto sum = texts.find(std::string(checksum_prefix) + name);
    if (sum == texts.end() || sum->second != checksum(part.text, part.arrays))
      throw_malformed(path, fmt::format("{} is damaged: its checksum is not right", in_quotes(name)));
  }
  return read;
}

checkpoint checkpoint::of(const checkpoint_parts& parts, const std::string& name) {
  checkpoint made(name);
  for (const auto& [part, fields] : parts) made.parts_[part] = {fields->text(), fields->arrays()};
  return made;
}

std::shared_ptr<saved_fields> checkpoint::part(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end())
    throw archive_error(fmt::format("checkpoint '{}' has no part '{}'", path_.string(), name));
  return std::make_shared<saved_fields>(found->second.text, found->second.arrays);
}

} // namespace mailgrad
