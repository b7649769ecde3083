#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/cli/output/reading_words.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace mailgrad {

namespace {

constexpr std::size_t terminal_width = 80;
constexpr std::size_t indent = 10;

std::string line(std::string_view what, std::string_view words) {
  return fmt::format("{:<{}}{}\n", what, indent, wrapped(words, terminal_width - indent, indent));
}

std::string count(std::size_t n, std::string_view one, std::string_view more) {
  return fmt::format("{} {}", n, n == 1 ? one : more);
}

std::string delimiter_in_words(char delimiter) {
  return delimiter == '\t' ? "tabs" : fmt::format("'{}'", delimiter);
}

/// "'.'", or "'.' and ','" where columns differ.
std::string signs_in_words(std::string_view signs) {
  return signs.size() == 1 ? fmt::format("'{}'", signs)
                           : fmt::format("'{}' and '{}'", signs.front(), signs.back());
}

std::string form_in_words(const data_reading& r) {
  if (!r.table) return fmt::format("{}: samples of {}", r.format, to_string(r.dims));
  const table_reading& t = *r.table;
  std::string text =
      fmt::format("{} in {}, {} between fields", r.format, t.encoding, delimiter_in_words(t.delimiter));
  if (!t.decimal.empty()) text += fmt::format(", {} as decimal sign", signs_in_words(t.decimal));
  if (!t.thousands.empty()) text += fmt::format(", {} between thousands", signs_in_words(t.thousands));
  text += t.header ? ", with a header" : ", without a header";
  if (t.comments > 0) text += fmt::format("; {} passed over", count(t.comments, "comment", "comments"));
  return text;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  return names.size() > most ? text + ", ..." : text;
}

std::string columns_in_words(const data_reading& r, const table_reading& t) {
  std::string text = fmt::format("{} of numbers", t.numbers);
  if (t.categories > 0) text += fmt::format(", {} of categories", t.categories);
  if (t.left_out > 0) text += fmt::format(", {} left out ({})", t.left_out, some_of(t.names_left_out));
  return text + "; " + count(r.inputs, "input", "inputs");
}

std::string label_in_words(const table_reading& t) {
  const std::string number = fmt::format("column {}", t.label_column);
  return (t.label_name.empty() ? number : fmt::format("{}, {}", in_quotes(t.label_name), number)) + ": " +
         t.label_why;
}

std::string task_in_words(const data_reading& r) {
  const std::string what =
      r.task == label_kind::numbers ? "a number to predict" : count(r.classes, "class", "classes");
  return fmt::format("{}: {}", what, r.task_why);
}

std::string classes_in_words(const data_reading& r) {
  if (r.smallest->samples == r.largest->samples)
    return count(r.largest->samples, "sample", "samples") + " each";
  return fmt::format("from {} ({}) to {} ({})", count(r.smallest->samples, "sample", "samples"),
                     in_quotes(r.smallest->name), r.largest->samples, in_quotes(r.largest->name));
}

std::string missing_in_words(const table_reading& t) {
  if (t.missing == 0) return "no values";
  const std::string values = count(t.missing, "value", "values");
  if (t.became == missing_values::mean) return values + ", and the mean of the column stands in for each";
  return fmt::format("{}; {} left out", values, count(t.dropped, "row was", "rows were"));
}

} // namespace

std::string in_words(const data_reading& r) {
  std::string text = line("read as", form_in_words(r));
  if (r.table)
    text += line("columns", columns_in_words(r, *r.table)) + line("label", label_in_words(*r.table));
  text += line("task", task_in_words(r));
  if (r.smallest && r.largest && r.classes > 1) text += line("classes", classes_in_words(r));
  text += line("test", fmt::format("{}: {}", count(r.test, "sample", "samples"), r.test_why));
  if (r.table) text += line("missing", missing_in_words(*r.table));
  text.pop_back();
  return text;
}

std::string rows_in_words(std::string_view encoding, char delimiter, bool header) {
  data_reading r;
  r.format = "rows of CSV";
  r.table.emplace();
  r.table->encoding = encoding;
  r.table->delimiter = delimiter;
  r.table->header = header;
  std::string text = line("read as", form_in_words(r));
  text.pop_back();
  return text;
}

namespace {

/// What a built-in model reads that does not read all; "" for one that does, or is none of these.
std::string read_by(const std::string& model, const std::string& kind) {
  if (model == "lenet") return "pictures";
  if (model == "gpt") return "text";
  const bool reads_no_text = model == "mlp" || model == "softmax" || model == "dlrm";
  return reads_no_text && kind == "text" ? "no text" : "";
}

std::string advice_for(const std::string& kind) {
  if (kind == "text") return "take gpt";
  if (kind == "pictures") return "take lenet, mlp or softmax";
  return kind == "rows of categories" ? "take dlrm" : "take mlp or softmax";
}

} // namespace

std::string kind_of_samples(const model_request& r) {
  if (r.features == feature_kind::tokens) return "text";
  if (!r.inputs.empty()) return "arrays";
  if (!r.categories.empty()) return "rows of categories";
  return r.sample_dims.rank() == 3 ? "pictures" : "rows of numbers";
}

std::string samples_in_words(const model_request& r) {
  const std::string kind = kind_of_samples(r);
  if (kind == "pictures") return fmt::format("pictures of {}x{}", r.sample_dims[0], r.sample_dims[1]);
  return kind == "rows of numbers" ? fmt::format("rows of {} numbers", r.sample_dims.size()) : kind;
}

void require_kind_of_samples(const std::string& model, const std::string& data, const model_request& r) {
  const std::string kind = kind_of_samples(r), name = model.substr(0, model.find(':'));
  const std::string read = read_by(name, kind);
  if (read.empty() || read == kind || kind == "arrays") return;
  throw std::invalid_argument(fmt::format("{} reads {}, and '{}' has {}: {}", name, read, data,
                                          samples_in_words(r), advice_for(kind)));
}

} // namespace mailgrad
