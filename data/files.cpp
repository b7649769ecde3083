#include <mailgrad/data/files.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

struct pair_rule {
  std::string_view train;
  std::string_view test;
  file_format format;
};

constexpr std::array pair_rules{
    pair_rule{".train", ".test", file_format::automatic}, pair_rule{".tra", ".tes", file_format::csv},
    pair_rule{"train.csv", "test.csv", file_format::csv}, pair_rule{"", ".t", file_format::libsvm}};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string without_gz(std::string name) {
  if (in_small_letters(name).ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

/// The files of a folder. One is found by its name in capitals or not, but a name as it is written comes
/// first.
class listing {
public:
  explicit listing(const fs::path& folder) : folder_(folder) {
    const fs::path here = folder.empty() ? fs::path(".") : folder;
    std::error_code gone;
    for (fs::directory_iterator entry{here, error_}, end; !error_ && entry != end; entry.increment(error_))
      if (entry->is_regular_file(gone)) files_.push_back(folder / entry->path().filename());
    std::ranges::sort(files_);
    for (const fs::path& file : files_) by_name_.emplace(in_small_letters(file.filename().string()), file);
  }

  /// Why the folder cannot be listed. It counts as empty then.
  const std::error_code& error() const noexcept { return error_; }
  const std::vector<fs::path>& all() const noexcept { return files_; }
  /// The path of `name`, plain or packed; empty if there is neither.
  fs::path find(const std::string& name) const {
    for (const char* suffix : {"", ".gz"}) {
      if (const fs::path path = folder_ / (name + suffix); std::ranges::binary_search(files_, path))
        return path;
      if (const auto found = by_name_.find(in_small_letters(name) + suffix); found != by_name_.end())
        return found->second;
    }
    return {};
  }

private:
  fs::path folder_;
  std::error_code error_;
  std::vector<fs::path> files_;             ///< in the order of their names
  std::map<std::string, fs::path> by_name_; ///< in small letters
};

using candidates = std::vector<data_files>;

/// The files of an IDX data set: pictures and labels for training, and both for testing.
constexpr std::array<std::array<const char*, 2>, 4> idx_parts{
    {{"train-images", "idx3"}, {"train-labels", "idx1"}, {"t10k-images", "idx3"}, {"t10k-labels", "idx1"}}};

/// "train-images-idx3-ubyte", or with a point before "idx", as some archives have it.
fs::path idx_in(const listing& folder, const std::array<const char*, 2>& part) {
  const std::string what = part[0], kind = part[1];
  fs::path found = folder.find(what + "-" + kind + "-ubyte");
  return found.empty() ? folder.find(what + "." + kind + "-ubyte") : found;
}

candidates idx_quartets(const listing& folder) {
  std::array<fs::path, 4> found;
  std::ranges::transform(idx_parts, found.begin(), [&](const auto& part) { return idx_in(folder, part); });
  if (std::ranges::any_of(found, &fs::path::empty)) return {};
  return {data_files{.format = file_format::idx,
                     .train = {found[0]},
                     .train_labels = found[1],
                     .test = found[2],
                     .test_labels = found[3]}};
}

/// Those that a folder lacks which has others: "train-labels-idx1-ubyte". Empty if it has none, or all.
std::string missing_of_idx(const listing& folder) {
  std::vector<std::string> missing;
  for (const auto& part : idx_parts)
    if (idx_in(folder, part).empty()) missing.push_back(fmt::format("{}-{}-ubyte", part[0], part[1]));
  return missing.size() < idx_parts.size() ? fmt::format("{}", fmt::join(missing, " and no ")) : "";
}

/// Looks for the file with a name a line of each class. That of CIFAR-100 says that records have two labels.
void find_class_names(data_files& files, const listing& folder) {
  constexpr const char* of_100 = "fine_label_names.txt";
  for (const char* name : {of_100, "labels.txt", "batches.meta.txt"})
    if (files.class_names.empty()) files.class_names = folder.find(name);
  if (files.class_names == folder.find(of_100) && !files.class_names.empty()) files.label_bytes = 2;
}

candidates cifar_records_in(const listing& folder) {
  data_files files{.format = file_format::cifar};
  if (const fs::path train = folder.find("train.bin"); !train.empty()) {
    files.train = {train};
    files.test = folder.find("test.bin");
  } else {
    for (int i = 1; i <= 5; ++i)
      if (const auto part = folder.find("data_batch_" + std::to_string(i) + ".bin"); !part.empty())
        files.train.push_back(part);
    files.test = folder.find("test_batch.bin");
  }
  find_class_names(files, folder);
  return files.train.empty() || files.test.empty() ? candidates{} : candidates{files};
}

data_files rated_in(const fs::path& ratings) {
  return {.format = file_format::ratings,
          .train = {ratings},
          .items = listing(ratings.parent_path()).find("movies.dat")};
}

candidates ratings_in(const listing& folder) {
  const fs::path file = folder.find("ratings.dat");
  return file.empty() ? candidates{} : candidates{rated_in(file)};
}

/// Samples called x_train, or x, with what lies beside them. Samples without answers are found as well, so
/// that whoever opens them can say what is lacking.
candidates arrays_in(const listing& folder) {
  data_files files{.format = file_format::npy};
  const bool named = !folder.find("x_train.npy").empty();
  files.train = {folder.find(named ? "x_train.npy" : "x.npy")};
  files.train_labels = folder.find(named ? "y_train.npy" : "y.npy");
  files.test = folder.find("x_test.npy");
  files.test_labels = folder.find("y_test.npy");
  return files.train[0].empty() ? candidates{} : candidates{files};
}

/// The file `samples` with its answers. It has a test part if it is the training part of its folder.
candidates array_with_partners(const fs::path& samples) {
  const listing folder(samples.parent_path());
  candidates found = arrays_in(folder);
  if (!found.empty() && found[0].train[0] == samples) return found;
  found = {data_files{.format = file_format::npy, .train = {samples}}};
  std::string name = without_gz(samples.filename().string());
  if (const std::string stem = name.substr(0, name.find_first_of("._")); stem == "x" || stem == "X") {
    name.front() = 'y';
    found[0].train_labels = folder.find(name);
  }
  return found;
}

/// Pairs `train` with the test file beside it, by the first rule that finds one.
candidates with_partner(const fs::path& train, const listing& folder) {
  const std::string name = without_gz(train.filename().string());
  for (const pair_rule& rule : pair_rules) {
    if (!in_small_letters(name).ends_with(rule.train)) continue;
    const std::string stem = name.substr(0, name.size() - rule.train.size());
    const fs::path test = folder.find(stem + std::string(rule.test));
    if (!test.empty()) return {data_files{.format = rule.format, .train = {train}, .test = test}};
  }
  return {};
}

candidates pairs_in(const listing& folder) {
  candidates found;
  for (const fs::path& file : folder.all())
    for (data_files& files : with_partner(file, folder)) found.push_back(std::move(files));
  return found;
}

candidates singles_in(const listing& folder, file_format format) {
  candidates found;
  for (const fs::path& file : folder.all())
    if (format_of_name(file.filename().string()) == format)
      found.push_back({.format = format, .train = {file}});
  return found;
}

/// Otherwise the parts of a data set become its classes.
void require_class_folders(const fs::path& folder) {
  std::size_t parts = 0, others = 0;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, gone)) {
    if (!entry.is_directory(gone) || pictures_of(entry.path()).empty()) continue;
    const std::string name = entry.path().filename().string();
    ++(name == "train" || name == "test" || name == "val" || name == "valid" ? parts : others);
  }
  if (parts >= 2 && others == 0)
    throw_malformed(folder, "expected a folder for each class in train and in test, found pictures there");
}

candidates pictures_in(const fs::path& folder) {
  data_files files{.format = file_format::pictures};
  const fs::path train = folder / "train";
  require_class_folders(folder);
  files.train = {is_folder(train) && is_picture_folder(train) ? train : folder};
  if (files.train[0] == train)
    for (const char* name : {"test", "val", "valid"})
      if (files.test.empty() && is_folder(folder / name)) files.test = folder / name;
  return is_picture_folder(files.train[0]) ? candidates{files} : candidates{};
}

/// Tries the layouts in order and returns the data sets of the first one that the folder has.
candidates layouts_of(const fs::path& path) {
  const listing folder(path);
  if (folder.error()) throw_unreadable(path, folder.error().value());
  for (const auto layout : {idx_quartets, cifar_records_in, ratings_in, arrays_in, pairs_in})
    if (auto found = layout(folder); !found.empty()) return found;
  const candidates pictures = pictures_in(path);
  for (file_format format : {file_format::csv, file_format::libsvm, file_format::npz})
    if (auto found = singles_in(folder, format); !found.empty()) {
      found.insert(found.end(), pictures.begin(), pictures.end());
      return found;
    }
  return pictures.empty() ? singles_in(folder, file_format::text) : pictures;
}

std::string told(const data_files& files) {
  const std::string name = in_quotes(files.train[0].filename().string());
  return files.format == file_format::pictures ? "folders of pictures in " + name : name;
}

data_files in_folder(const fs::path& folder, const file_options& options) {
  candidates found = layouts_of(folder);
  const auto refuse = [&](std::string_view why) { throw_malformed(folder, why); };
  if (const std::string missing = found.empty() ? missing_of_idx(listing(folder)) : ""; !missing.empty())
    refuse("expected train-images-idx3-ubyte and its three companions, found no " + missing);
  if (found.empty())
    refuse("expected a data set: train-images-idx3-ubyte and its three companions, train.bin "
           "and test.bin, ratings.dat, x.npy and y.npy, X and X.t, X.train and X.test, X.tra and X.tes, "
           "train.csv and test.csv, one *.data, *.csv, *-vect, *.libsvm or *.txt, each plain or .gz, one "
           "*.npz, or a folder of *.png or *.jpg for each class; found none of them");
  if (found.size() > 1)
    refuse(fmt::format("expected one data set, found {} and {}; name the file instead of the folder",
                       told(found[0]), told(found[1])));
  if (options.train_fraction && !found.front().test.empty())
    refuse(fmt::format("expected one file to cut, as a part for testing is asked for, found {} with its "
                       "test file {}; name the file instead of the folder",
                       in_quotes(found[0].train[0].filename().string()),
                       in_quotes(found[0].test.filename().string())));
  return found.front();
}

file_format format_of(const fs::path& file) {
  const file_format format = format_of_name(without_gz(file.filename().string()));
  return format != file_format::automatic ? format : format_of_content(file);
}

data_files of_file(const fs::path& file, const file_options& options) {
  const listing folder(file.parent_path());
  candidates found = options.train_fraction ? candidates{} : with_partner(file, folder);
  if (found.empty()) found.emplace_back().train = {file};
  data_files& files = found.front();
  if (options.format != file_format::automatic) files.format = options.format;
  if (files.format == file_format::automatic) files.format = format_of(file);
  if (files.format == file_format::ratings) return rated_in(file);
  if (files.format == file_format::npy) {
    found = array_with_partners(file);
    if (options.train_fraction) found[0].test = found[0].test_labels = fs::path();
    return found.front();
  }
  if (files.format == file_format::idx) {
    found = idx_quartets(folder);
    if (found.empty())
      throw_malformed(file, "expected three IDX companions beside it, found no " + missing_of_idx(folder));
    return found.front();
  }
  if (files.format == file_format::cifar) find_class_names(files, folder);
  return found.front();
}

fs::path find_path(std::string_view name_or_path, const file_options& options) {
  const fs::path path(name_or_path);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::string searched;
  if (path.is_relative() && !path.empty())
    for (const fs::path& folder : options.search) {
      if (is_folder(folder / path) || fs::is_regular_file(folder / path, ignored)) return folder / path;
      searched += (searched.empty() ? "" : ", ") + folder.string();
    }
  std::string where = searched.empty() ? "" : fmt::format("; looked for that name in {}, too", searched);
  if (name_or_path == "fashion-mnist") where += "; Debian's package dataset-fashion-mnist brings it";
  throw file_error(
      std::make_error_code(std::errc::no_such_file_or_directory),
      fmt::format("'{}': expected a data set, found no such file or folder{}", name_or_path, where));
}

constexpr std::size_t head_bytes = std::size_t{1} << 16;
constexpr std::size_t head_lines = 16;

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

std::string_view cut_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

/// Whether a line looks like "label index:value ..." or "label qid:query ...".
bool is_sparse_row(std::string_view line) {
  constexpr std::string_view blanks = " \t";
  const auto end = line.find_first_of(blanks);
  if (end == std::string_view::npos || !parse_number(line.substr(0, end))) return false;
  const std::string_view rest = line.substr(end);
  const std::string_view entry = rest.substr(std::min(rest.size(), rest.find_first_not_of(blanks)));
  const auto colon = entry.find(':');
  if (colon == std::string_view::npos) return false;
  return entry.starts_with("qid:") || parse_number(entry.substr(0, colon)).has_value();
}

/// Whether a line looks like "user::item::rating::time".
bool is_rating(std::string_view line) {
  const auto end = line.find("::");
  if (end == std::string_view::npos || !parse_number(line.substr(0, end))) return false;
  const auto next = line.find("::", end + 2);
  return next != std::string_view::npos && line.find("::", next + 2) != std::string_view::npos;
}

/// Whether a line has a number before or after its first delimiter. Prose has delimiters, too, so they alone
/// prove nothing.
bool is_delimited_row(std::string_view line) {
  const auto delimiter = line.find_first_of(",;\t");
  if (delimiter == std::string_view::npos) return false;
  const std::string_view second = line.substr(delimiter + 1);
  return parse_number(line.substr(0, delimiter)) ||
         parse_number(second.substr(0, second.find_first_of(",;\t\r")));
}

/// Whether a text in UTF-16 has rows of fields. No other format is read in UTF-16.
bool is_delimited_utf16(std::string_view head) {
  const std::string decoded = beginning_in_utf8(head);
  if (decoded == head || !is_text(decoded)) return false;
  std::string_view rest = decoded;
  for (std::size_t i = 0; i < head_lines && !rest.empty(); ++i)
    if (is_delimited_row(cut_line(rest))) return true;
  return false;
}

constexpr std::string_view one_picture =
    "one picture; name the folder that has a folder for each class, or predict it by --picture-files";

constexpr std::string_view packed = "a file packed by bzip2 or xz; unpack it, or pack it by gzip";
constexpr std::string_view utf16 = "a text in UTF-16 that is no CSV; write it in UTF-8";

/// By their first bytes.
constexpr auto known_others = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"PAR1", "a Parquet file; write it as CSV: pandas.read_parquet(f).to_csv('f.csv', index=False)"},
     {"BZh", packed},
     {"\3757zXZ", packed},
     {"PK\3\4", "a ZIP archive, or a workbook of Excel; unpack it, or save the sheet as CSV"},
     {"\x89PNG", one_picture},
     {"\xFF\xD8\xFF", one_picture},
     {"\xFF\xFE", utf16},
     {"\xFE\xFF", utf16}});

std::string_view advice_in(std::string_view head) {
  const auto found = std::ranges::find_if(known_others, [=](auto& o) { return head.starts_with(o.first); });
  return found == known_others.end() ? std::string_view{} : found->second;
}

} // namespace

data_files find_files(std::string_view name_or_path, const file_options& options) {
  const fs::path path = find_path(name_or_path, options);
  data_files files = is_folder(path) ? in_folder(path, options) : of_file(path, options);
  // A folder may be given as "mnist/" or "."
  const fs::path absolute = fs::absolute(path).lexically_normal();
  files.name = (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
  if (files.format == file_format::automatic) files.format = format_of(files.train.front());
  return files;
}

std::string in_small_letters(std::string_view name) {
  std::string small(name);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return small;
}

file_format format_of_name(std::string_view full_name) {
  const std::string small = in_small_letters(full_name);
  std::string_view name = small;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  const auto ends_with = [name](auto... suffixes) { return (name.ends_with(suffixes) || ...); };
  if (ends_with(".bin")) return file_format::cifar;
  if (ends_with(".csv", ".data", ".tra", ".tes")) return file_format::csv;
  if (ends_with(".libsvm", ".svm", "-vect")) return file_format::libsvm;
  if (ends_with(".txt")) return file_format::text;
  if (ends_with(".npz")) return file_format::npz;
  if (ends_with(".npy")) return file_format::npy;
  return ends_with("ratings.dat") ? file_format::ratings : file_format::automatic;
}

file_format format_of_content(const std::filesystem::path& file) {
  byte_source source{file};
  const std::vector<std::uint8_t> bytes = read_up_to(source, head_bytes);
  std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (head.starts_with(byte_order_mark)) head.remove_prefix(byte_order_mark.size());
  if (head.starts_with(std::string_view("\0\0\x08", 3))) return file_format::idx;
  if (head.starts_with("PK\3\4") && head.find(".npy") != std::string_view::npos) return file_format::npz;
  if (head.starts_with(npy_magic)) return file_format::npy;
  if (is_delimited_utf16(head)) return file_format::csv;
  if (head.empty() || !is_text(head) || !advice_in(head).empty()) return file_format::automatic;
  std::string_view rest = head;
  for (std::size_t i = 0; i < head_lines && !rest.empty(); ++i) {
    const std::string_view line = cut_line(rest);
    if (line.starts_with('#')) continue; // a comment may have commas
    if (is_rating(line)) return file_format::ratings;
    if (is_sparse_row(line)) return file_format::libsvm;
    if (is_delimited_row(line)) return file_format::csv;
  }
  return file_format::text;
}

std::string_view advice_on(const std::filesystem::path& file) {
  byte_source source{file};
  const std::vector<std::uint8_t> bytes = read_up_to(source, 8);
  return advice_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

} // namespace mailgrad
