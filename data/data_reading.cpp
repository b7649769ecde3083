#include <mailgrad/data/data_reading.hpp>

#include <mailgrad/data/open_table.hpp>
#include <mailgrad/files/npz.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

std::string format_in_words(file_format format) {
  constexpr std::array<const char*, 10> words{"",     "IDX",     "CIFAR", "CSV", "libsvm",
                                              "text", "ratings", "npz",   "npy", "pictures"};
  return words[static_cast<std::size_t>(format)];
}

bool has_test_arrays(const data_files& files) {
  if (files.format != file_format::npz) return false;
  const npz_file archive(files.train.front(), {"x_test", "X_test"});
  return archive.find("x_test") != nullptr || archive.find("X_test") != nullptr;
}

/// "0.2 of the file, drawn from each class in proportion"
std::string test_in_words(const data_split& data, const data_files& files, const open_options& options) {
  if (!files.test.empty()) return files.test.filename().string();
  if (has_test_arrays(files)) return "x_test of the file";
  if (options.known) return "all of the file";
  const bool text = files.format == file_format::text;
  const double part =
      1 - options.files.train_fraction.value_or(text ? usual_text_fraction : usual_training_fraction);
  if (text) return fmt::format("the last {:.4g} of the text", part);
  if (files.format == file_format::ratings && options.ratings.order == rating_order::by_time)
    return fmt::format("the latest {:.4g} of the file", part);
  return fmt::format("{:.4g} of the file, drawn{}", part,
                     data.train.has_targets() ? "" : " from each class in proportion");
}

/// Classes of samples whose labels nobody has looked at are not counted.
void count_classes(data_reading& r, const data_split& data, const dataset& samples, csv_answers answers) {
  r.classes = samples.classes();
  if (samples.labels().empty() || (r.table && answers == csv_answers::passed_over)) return;
  std::vector<std::size_t> counts(r.classes);
  for (const std::int32_t label : samples.labels()) ++counts[static_cast<std::size_t>(label)];
  const auto named = [&](auto at) {
    const auto label = static_cast<std::size_t>(at - counts.begin());
    return class_size{label < data.class_names.size() ? data.class_names[label] : std::to_string(label), *at};
  };
  r.smallest = named(std::ranges::min_element(counts));
  r.largest = named(std::ranges::max_element(counts));
}

} // namespace

data_reading reading_of(const data_split& data, const data_files& files, const open_options& options,
                        data_reading noted) {
  data_reading r = std::move(noted);
  const dataset& samples = options.known ? data.test : data.train;
  r.format = format_in_words(files.format);
  r.dims = samples.sample_dims();
  r.inputs = samples.sample_dims().size() + samples.category_counts().size();
  r.train = data.train.size();
  r.validation = data.validation.size();
  r.test = data.test.size();
  r.test_why = test_in_words(data, files, options);
  r.task = samples.labelled_with();
  if (r.task_why.empty())
    r.task_why = options.known ? "as in training" : options.task ? "--task says so" : "as such files have it";
  if (!samples.has_targets()) count_classes(r, data, samples, options.csv.answers);
  return r;
}

} // namespace mailgrad
