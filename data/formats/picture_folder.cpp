#include <mailgrad/data/formats/picture_file.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

/// What stands in a folder and is wanted, in the order of the names.
template <class Wanted>
std::vector<fs::path> listed(const fs::path& folder, Wanted wanted) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry{folder, error}, end; !error && entry != end; entry.increment(error))
    if (wanted(*entry)) found.push_back(entry->path());
  if (error) throw_unreadable(folder, error.value());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  return listed(folder, [](const fs::directory_entry& e) {
    std::error_code gone;
    const std::string name = e.path().filename().string();
    return e.is_directory(gone) && !name.starts_with('.') && name != "__MACOSX"; // of archives by Apple
  });
}

/// A picture and the number of its class.
struct labelled_file {
  fs::path file;
  std::int32_t label = 0;
};

std::vector<labelled_file> files_of(const fs::path& folder, label_map& labels) {
  std::vector<labelled_file> all;
  for (const fs::path& group : folders_in(folder)) {
    const std::string name = group.filename().string();
    const auto label = labels.find(name);
    if (!label)
      throw_malformed(group, fmt::format("expected {}, found the folder {}", labels.expected("class name"),
                                         in_quotes(name)));
    const std::vector<fs::path> files = pictures_of(group);
    if (files.empty()) throw_malformed(group, "expected pictures *.png or *.jpg of a class, found none");
    for (const fs::path& file : files) all.push_back({file, *label});
  }
  if (all.empty()) throw_malformed(folder, "expected a folder for each class, found none");
  return all;
}

/// The size of every picture: that of the first, unless it is known.
shape dims_of(const fs::path& first, const picture_options& options) {
  if (options.dims.rank() > 0) return options.dims;
  const picture_file picture(first);
  const bool coloured = options.channels == picture_channels::rgb ||
                        (options.channels == picture_channels::automatic && picture.has_colours());
  return {picture.height(), picture.width(), coloured ? std::size_t{3} : std::size_t{1}};
}

std::string size_of(std::size_t width, std::size_t height) { return fmt::format("{}x{}", width, height); }

void read_into(std::span<std::uint8_t> pixels, picture_file& picture, const fs::path& file, const shape& dims,
               picture_channels channels) {
  if (picture.height() != dims[0] || picture.width() != dims[1])
    throw_malformed(file, fmt::format("expected {} pixels, as the other pictures have, found {}",
                                      size_of(dims[1], dims[0]), size_of(picture.width(), picture.height())));
  if (channels == picture_channels::automatic && dims[2] == 1 && picture.has_colours())
    throw_malformed(
        file, "expected a picture of greys, as the first is, found one with colours; --pictures grey or "
              "rgb (picture_options::channels) takes both");
  picture.read(pixels, dims[2]);
}

} // namespace

std::vector<fs::path> pictures_of(const fs::path& folder) {
  return listed(folder, [](const fs::directory_entry& e) {
    std::error_code gone;
    return is_picture_name(e.path().filename().string()) && e.is_regular_file(gone);
  });
}

bool is_picture_folder(const fs::path& folder) {
  return std::ranges::any_of(folders_in(folder), [](const fs::path& f) { return !pictures_of(f).empty(); });
}

labelled_pictures read_pictures(const fs::path& folder, const picture_options& options, label_map& labels) {
  const std::vector<labelled_file> files = files_of(folder, labels);
  const shape dims = dims_of(files.front().file, options);
  const std::size_t each = dims.size();
  options.limit.require(folder, each > options.limit.bytes / files.size() ? options.limit.bytes + 1
                                                                          : each * files.size());
  labelled_pictures all{{dims, std::vector<std::uint8_t>(each * files.size())}, {}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    picture_file picture(files[i].file);
    read_into(std::span(all.images.values).subspan(i * each, each), picture, files[i].file, dims,
              options.channels);
    all.deep += picture.is_deep() ? 1 : 0;
    all.labels.push_back(files[i].label);
  }
  if (labels.is_open()) labels.settle(all.labels);
  return all;
}

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
