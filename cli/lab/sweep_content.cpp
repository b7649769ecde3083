#include <mailgrad/cli/lab/sweep_content.hpp>

#include <mailgrad/cli/run_inputs.hpp>

#include <mailgrad/files/sha256.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

/// Of several files, whose names are told from `home` on.
std::string sum_of(std::vector<fs::path> files, const fs::path& home) {
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files)
    text += file.lexically_relative(home).string() + ' ' + sha256_of(file) + '\n';
  return sha256(std::as_bytes(std::span(text)));
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

std::string sum_of(const std::vector<fs::path>& named) {
  if (named.size() == 1 && fs::is_regular_file(named[0])) return sha256_of(named[0]);
  std::vector<fs::path> files;
  for (const fs::path& path : named) {
    const std::vector<fs::path> more = fs::is_directory(path) ? files_below(path) : std::vector{path};
    files.insert(files.end(), more.begin(), more.end());
  }
  return sum_of(std::move(files), named[0].parent_path());
}

/// By their keys, those of the words whose value is a file or a data set.
std::map<std::string, std::vector<fs::path>> named_by(const run_inputs& in) {
  std::map<std::string, std::vector<fs::path>> named;
  for (const input_file& file : files_of(in)) {
    std::error_code none;
    const bool is_data = file.option == "--data";
    if (!is_data && !fs::is_regular_file(file.path, none)) continue; // empty, or the content of a model file
    named[file.option.substr(2) + '=' + (is_data ? in.data : file.path)].emplace_back(file.path);
  }
  return named;
}

} // namespace

void add_content(const train_words& w, std::map<std::string, std::string>& sums) {
  run_inputs in{w.model, w.data, w.policy, w.cure, {w.optimizer, w.outer_optimizer}, nullptr, w.load};
  if (built_in_model(w.model)) in.model.clear(); // a file of that name is not read
  if (sums.contains("data=" + w.data)) in.data.clear();
  for (const auto& [key, files] : named_by(in))
    if (!sums.contains(key)) sums[key] = sum_of(files);
}

} // namespace mailgrad
