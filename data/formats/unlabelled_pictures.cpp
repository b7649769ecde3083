#include <mailgrad/data/formats/unlabelled_pictures.hpp>

#include <mailgrad/data/formats/picture_file.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>

namespace mailgrad {

namespace fs = std::filesystem;

std::vector<fs::path> find_pictures(std::span<const std::string> named) {
  std::vector<fs::path> all;
  for (const fs::path path : named) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) throw_unreadable(path, error ? error.value() : ENOENT);
    if (!fs::is_directory(status)) {
      all.push_back(path);
      continue;
    }
    const std::vector<fs::path> files = pictures_of(path);
    if (files.empty()) throw_malformed(path, "expected pictures *.png or *.jpg in the folder, found none");
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

byte_features decode_pictures(std::span<const fs::path> files, const shape& dims) {
  if (dims.rank() != 3 || (dims[2] != 1 && dims[2] != 3))
    throw std::invalid_argument(
        fmt::format("pictures: expected a height, a width and 1 or 3 channels, found {}", to_string(dims)));
  const std::size_t each = dims.size();
  byte_features all{dims, std::vector<std::uint8_t>(each * files.size())};
  for (std::size_t i = 0; i < files.size(); ++i) {
    picture_file picture(files[i]);
    if (picture.height() != dims[0] || picture.width() != dims[1])
      throw_malformed(files[i], fmt::format("expected {}x{} pixels, as the model reads them, found {}x{}",
                                            dims[1], dims[0], picture.width(), picture.height()));
    picture.read(std::span(all.values).subspan(i * each, each), dims[2]);
  }
  return all;
}

} // namespace mailgrad
