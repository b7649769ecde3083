#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/report_words.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/data/formats/number_rows.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npy_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iosfwd>
#include <iostream>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace mailgrad {

/// Answers cannot be written; the reason is an errno. EPIPE: the reader has closed its end of a pipe.
class answers_not_written : public std::runtime_error {
public:
  explicit answers_not_written(int code);
  const int why;
};

/// Writes the answers of a model, a line for each sample.
///
///     csv          class,probability,T-shirt/top,Trouser,...    or  number, or  number1,number2
///     json_lines   {"class":"Trouser","probability":0.98,"probabilities":[...]}    or  {"numbers":[3.2]}
///
/// Where samples are files, the name of the file comes first: a column "file", or a field.
class prediction_output {
public:
  enum class form : std::uint8_t { csv, json_lines };

  prediction_output(std::ostream& out, const model_card& card, form how);

  /// Calls of one output all name files, or none does.
  ///
  /// Shapes  answers: float32[n, outputs], the logits or the numbers of a model; files: n of them, or none.
  /// Errors  answers_not_written.
  void write(std::span<const float> answers, std::span<const std::filesystem::path> files = {});

private:
  void write_header(bool names_files);
  std::size_t likeliest_in_row();
  void write_csv(std::span<const float> found, const std::filesystem::path* file);
  void write_json(std::span<const float> found, const std::filesystem::path* file);

  std::ostream& out_;
  const model_card& card_;
  form form_;
  bool begun_ = false;
  std::vector<float> row_;
};

namespace {

using json = nlohmann::ordered_json;

/// A field of RFC 4180: quoted where it holds a comma, a quote or a line break.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string name_of(const model_card& card, std::size_t c) {
  return card.class_names.empty() ? std::to_string(c) : card.class_names[c];
}

} // namespace

answers_not_written::answers_not_written(int code)
    : std::runtime_error("answers cannot be written: " + std::generic_category().message(code)), why(code) {}

prediction_output::prediction_output(std::ostream& out, const model_card& card, form how)
    : out_(out), card_(card), form_(how) {}

void prediction_output::write_header(bool names_files) {
  const std::size_t outputs = card_.request.outputs();
  std::string line = names_files ? "file," : "";
  if (card_.request.wanted == answer::a_class) {
    line += "class,probability";
    for (std::size_t c = 0; c < outputs; ++c) line += ',' + field(name_of(card_, c));
  } else if (outputs == 1) {
    line += "number";
  } else {
    for (std::size_t i = 0; i < outputs; ++i) line += fmt::format("{}number{}", i == 0 ? "" : ",", i + 1);
  }
  out_ << line << '\n';
}

void prediction_output::write(std::span<const float> answers, std::span<const std::filesystem::path> files) {
  if (!begun_ && form_ == form::csv) write_header(!files.empty());
  begun_ = true;
  const std::size_t outputs = card_.request.outputs();
  for (std::size_t i = 0; i * outputs < answers.size(); ++i) {
    const std::filesystem::path* const file = files.empty() ? nullptr : &files[i];
    errno = 0;
    if (form_ == form::csv)
      write_csv(answers.subspan(i * outputs, outputs), file);
    else
      write_json(answers.subspan(i * outputs, outputs), file);
    if (!out_) throw answers_not_written(errno != 0 ? errno : EIO);
  }
}

/// Makes probabilities of a row of logits. Returns the likeliest class.
std::size_t prediction_output::likeliest_in_row() {
  softmax_rows(row_, row_.size());
  return static_cast<std::size_t>(std::ranges::max_element(row_) - row_.begin());
}

void prediction_output::write_csv(std::span<const float> found, const std::filesystem::path* file) {
  row_.assign(found.begin(), found.end());
  if (file != nullptr) out_ << field(file->string()) << ',';
  if (card_.request.wanted == answer::a_class) {
    const std::size_t c = likeliest_in_row();
    out_ << fmt::format("{},{},", field(name_of(card_, c)), row_[c]);
  }
  out_ << fmt::format("{}\n", fmt::join(row_, ","));
}

void prediction_output::write_json(std::span<const float> found, const std::filesystem::path* file) {
  row_.assign(found.begin(), found.end());
  json object;
  if (file != nullptr) object["file"] = file->string();
  if (card_.request.wanted == answer::a_class) {
    const std::size_t c = likeliest_in_row();
    object["class"] = name_of(card_, c);
    object["probability"] = row_[c];
    object["probabilities"] = row_;
  } else {
    object["numbers"] = row_;
  }
  out_ << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
}

namespace {

struct predict_words {
  trained_words trained;
  std::string rows;
  std::vector<std::string> pictures;
  std::string format = "csv";
};

/// Rows are answered in groups of this size, so that a long file takes no more memory than a short one.
constexpr std::size_t group = 256;

/// The bytes of pictures that are decoded at a time.
constexpr std::size_t decoded_bytes = std::size_t{1} << 26;

void require_plain_numbers(const predictor& model) {
  if (model.inputs() == 0)
    throw std::invalid_argument("--rows: the model does not read plain numbers; name a data set by --data");
}

/// `begun` is called when the first row is read, if there is one.
template <class Rows, class Begun>
void predict_each(Rows& rows, predictor& model, prediction_output& out, const Begun& begun) {
  std::vector<float> samples;
  std::vector<float> answers;
  bool more = rows.next(samples);
  if (more) begun();
  do {
    while (more && samples.size() < group * model.inputs()) more = rows.next(samples);
    answers.resize(samples.size() / model.inputs() * model.outputs());
    model.answers(samples, answers);
    out.write(answers);
    samples.clear();
  } while (more);
}

void predict_text(std::istream& in, const std::string& name, const table_words& form, predictor& model,
                  prediction_output& out) {
  require_plain_numbers(model);
  number_rows rows(in, name, model.inputs(), rows_as(form, model.card().table));
  errno = 0;
  predict_each(rows, model, out,
               [&] { say_line(rows_in_words(rows.encoding(), rows.delimiter(), rows.has_header())); });
  if (in.bad()) throw_unreadable(name, errno != 0 ? errno : EIO); // a folder can be opened, but not read
}

void predict_array(const std::string& name, predictor& model, prediction_output& out) {
  require_plain_numbers(model);
  array_rows rows(name, model.card().request.sample_dims);
  predict_each(rows, model, out, [] {});
}

/// Pixels mean to a model what they meant in training only if it was trained on bytes.
void require_model_of_pictures(const model_card& card) {
  const shape& dims = card.request.sample_dims;
  if (dims.rank() != 3 || (dims[2] != 1 && dims[2] != 3))
    throw std::invalid_argument(fmt::format("--picture-files: the model reads samples of {}, and pictures "
                                            "have a height, a width and 1 or 3 channels",
                                            to_string(dims)));
  if (card.divisors != std::vector<float>{255})
    throw std::invalid_argument(
        "--picture-files: the model was trained on numbers that were not divided by 255, "
        "as pixels are; name an array by --rows");
}

/// The data set takes labels, but the answers do not depend on them.
dataset with_any_labels(byte_features pictures, const model_request& r, std::size_t count) {
  if (r.wanted == answer::a_class) return {std::move(pictures), std::vector<std::int32_t>(count), r.classes};
  return {std::move(pictures), std::vector<float>(count)};
}

void predict_pictures(const std::vector<std::string>& named, predictor& model, prediction_output& out) {
  require_model_of_pictures(model.card());
  const model_request& r = model.card().request;
  const std::vector<std::filesystem::path> files = find_pictures(named);
  const std::size_t at_once = std::max<std::size_t>(1, decoded_bytes / r.sample_dims.size());
  for (std::span rest(files); !rest.empty(); rest = rest.subspan(std::min(at_once, rest.size()))) {
    const auto some = rest.first(std::min(at_once, rest.size()));
    out.write(model.answers(with_any_labels(decode_pictures(some, r.sample_dims), r, some.size())), some);
  }
}

void predict_file(const predict_words& w, predictor& model, prediction_output& out) {
  if (npy_file::is_npy(w.rows)) return predict_array(w.rows, model, out);
  errno = 0;
  std::ifstream file(w.rows, std::ios::binary);
  if (!file) throw_unreadable(w.rows, errno != 0 ? errno : EIO);
  predict_text(file, w.rows, w.trained.table, model, out);
}

int predict_to(std::ostream& to, const predict_words& w) {
  if (int{w.rows.empty()} + int{w.trained.data.empty()} + int{w.pictures.empty()} != 2)
    throw std::invalid_argument("predict: name either a data set by --data, or rows of numbers by --rows, or "
                                "pictures by --picture-files");
  predictor model = open_model(w.trained);
  if (model.card().request.features == feature_kind::tokens)
    throw std::invalid_argument("predict: the model is one of texts; 'mailgrad generate' writes with it");
  const auto format = w.format == "csv" ? prediction_output::form::csv : prediction_output::form::json_lines;
  prediction_output out(to, model.card(), format);
  if (!w.pictures.empty())
    predict_pictures(w.pictures, model, out);
  else if (w.rows == "-")
    predict_text(std::cin, "standard input", w.trained.table, model, out);
  else if (!w.rows.empty())
    predict_file(w, model, out);
  else if (npy_file::is_npy(w.trained.data)) // its samples alone are enough
    predict_array(w.trained.data, model, out);
  else
    out.write(model.answers(open_samples(w.trained, model.card(), lacking_row::refused).test));
  return exit_code::done;
}

/// A reader that has seen enough ends the command, as it ends other programs.
int predict(const predict_words& w) {
  try {
    return predict_to(std::cout, w);
  } catch (const answers_not_written& e) {
    std::cout.clear(); // so that main() says nothing more about it
    if (e.why != EPIPE) throw;
    return exit_code::done;
  }
}

} // namespace

command make_predict_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("predict", "Print the answers of a trained model to samples");
  auto words = std::make_shared<predict_words>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_model_of_weights(t, words->trained);
  add_device(t, words->trained);
  add_samples(t, words->trained,
              "A data set, as 'mailgrad train' takes it: its test part, or all of a file that has none; the "
              "labels are not looked at. A file *.npy needs none beside it");
  t.add("--rows", words->rows,
        "Rows without labels, between commas, semicolons or tabs, or an array of numpy (*.npy) of samples; "
        "-: rows from standard input. Numbers and words are those of the files that the model was trained "
        "on: it divides and encodes them itself",
        path("FILE"));
  t.add("--picture-files", words->pictures,
        "Pictures without labels: PNG and JPEG files, and folders of them. Each answer begins with the name "
        "of its file",
        path("PATH..."));
  t.add("--format", words->format, "How the answers are written: csv or jsonl, a JSON object a line",
        one_of({"csv", "jsonl"}), shown);
  parser->footer("For classes, an answer is the likeliest class, its probability, and that of every class.\n"
                 "Example:\n"
                 "  mailgrad predict --model-file iris.safetensors --rows - < flowers.csv\n"
                 "  mailgrad predict --model-file sky.safetensors --picture-files new/ last.png");
  return {parser, [words] { return with_advice([&] { return predict(*words); }); }};
}

} // namespace mailgrad
