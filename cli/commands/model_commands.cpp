#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/format_report.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <iostream>
#include <system_error>

namespace mailgrad {

namespace {

struct test_result {
  std::string model_file;
  std::string data;
  std::size_t samples = 0;
  std::vector<std::string> class_names; ///< empty: classes have numbers alone
  evaluation found;
};

struct class_figures {
  std::uint64_t samples = 0; ///< of this class
  std::uint64_t answers = 0; ///< that name this class
  std::uint64_t correct = 0; ///< of both
  double precision() const {
    return answers == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(answers);
  }
  double recall() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

using json = nlohmann::ordered_json;

constexpr std::size_t most_in_matrix = 20;

std::size_t classes_of(const evaluation& e) {
  return static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(e.confusion.size()))));
}

/// By class; empty where evaluation::confusion is.
std::vector<class_figures> by_class(const evaluation& e) {
  const std::size_t classes = classes_of(e);
  std::vector<class_figures> all(classes);
  for (std::size_t label = 0; label < classes; ++label)
    for (std::size_t answer = 0; answer < classes; ++answer) {
      const std::uint64_t n = e.confusion[label * classes + answer];
      all[label].samples += n;
      all[answer].answers += n;
      if (label == answer) all[label].correct += n;
    }
  return all;
}

std::string name_of(const test_result& r, std::size_t c) {
  return r.class_names.empty() ? std::to_string(c) : printable(r.class_names[c]);
}

/// "Shirt 94": the class that is named most often in the place of `c`.
std::string most_taken_for(const test_result& r, std::size_t c) {
  const std::size_t classes = classes_of(r.found);
  std::size_t most = c;
  std::uint64_t count = 0;
  for (std::size_t other = 0; other < classes; ++other)
    if (other != c && r.found.confusion[c * classes + other] > count)
      count = r.found.confusion[c * classes + (most = other)];
  return count == 0 ? "" : fmt::format("{} {}", name_of(r, most), count);
}

std::string table_of_classes(const test_result& r, std::size_t width) {
  std::string text = fmt::format("\n{:<{}}  samples  precision  recall  most taken for\n", "class", width);
  const std::vector<class_figures> all = by_class(r.found);
  for (std::size_t c = 0; c < all.size(); ++c) {
    std::string line = fmt::format("{:<{}}  {:>7}  {:>9.4f}  {:>6.4f}  {}", name_of(r, c), width,
                                   all[c].samples, all[c].precision(), all[c].recall(), most_taken_for(r, c));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string matrix(const test_result& r, std::size_t width) {
  const std::size_t classes = classes_of(r.found);
  const std::uint64_t largest = std::ranges::max(r.found.confusion);
  const std::size_t column = std::max(std::to_string(largest).size(), std::to_string(classes - 1).size()) + 1;
  std::string text = "\nanswers, a row for each class and a column for each answer, in the order above\n";
  for (std::size_t c = 0; c < classes; ++c) {
    text += fmt::format("{:<{}} ", name_of(r, c), width);
    for (const std::uint64_t n : std::span(r.found.confusion).subspan(c * classes, classes))
      text += fmt::format("{:>{}}", n, column);
    text += '\n';
  }
  return text;
}

json known(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? json(*number) : json();
}

/// The result for a terminal: the figures of the whole, of each class, and the confusion matrix of up to 20
/// classes.
std::string in_words(const test_result& r) {
  std::string text = fmt::format("{}: {} samples\n", r.data, r.samples);
  if (r.found.accuracy) text += fmt::format("accuracy      {:.4f}\n", *r.found.accuracy);
  if (r.found.rmse) text += fmt::format("RMSE          {:.6g}\n", *r.found.rmse);
  text += fmt::format("loss          {:.6g}\n", r.found.loss);
  const std::size_t classes = classes_of(r.found);
  if (classes == 0) return text;
  std::size_t width = 5;
  for (std::size_t c = 0; c < classes; ++c) width = std::max(width, name_of(r, c).size());
  text += table_of_classes(r, width);
  return classes <= most_in_matrix ? text + matrix(r, width) : text;
}

std::string to_json(const test_result& r) {
  json classes = json::array();
  const std::vector<class_figures> all = by_class(r.found);
  for (std::size_t c = 0; c < all.size(); ++c)
    classes.push_back({{"name", r.class_names.empty() ? std::to_string(c) : r.class_names[c]},
                       {"samples", all[c].samples},
                       {"precision", all[c].precision()},
                       {"recall", all[c].recall()}});
  json matrix = json::array();
  for (std::size_t c = 0; c < all.size(); ++c) {
    const std::span row = std::span(r.found.confusion).subspan(c * all.size(), all.size());
    matrix.push_back(std::vector<std::uint64_t>(row.begin(), row.end()));
  }
  const json object = {{"model_file", r.model_file},
                       {"data", r.data},
                       {"samples", r.samples},
                       {"whole", r.found.whole},
                       {"accuracy", known(r.found.accuracy)},
                       {"rmse", known(r.found.rmse)},
                       {"loss", known(r.found.loss)},
                       {"classes", classes},
                       {"confusion", matrix}};
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

struct test_args {
  trained_args trained;
  std::string report;
};

int test(const test_args& w) {
  const output_file report("report", w.report);
  require_no_input("--report", w.report, {{"--model-file", w.trained.model_file}});
  predictor model = open_model(w.trained);
  const data_split data = open_samples(w.trained, model.card(), lacking_row::left_out);
  const interrupt ctrl_c;
  test_result result{w.trained.model_file, data.name, data.test.size(), model.card().class_names, {}};
  result.found = model.test(data.test, [&] { return ctrl_c.requested(); });
  if (!result.found.whole) {
    std::cerr << "mailgrad: the test was ended early by " << signal_name(ctrl_c.signal()) << '\n';
    return exit_code::of_signal(ctrl_c.signal());
  }
  (report.is_standard_output() ? std::cerr : std::cout) << in_words(result);
  report.write([&](std::ostream& out) { out << to_json(result) << '\n'; });
  return exit_code::done;
}

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

/// Answers cannot be written; the reason is an errno. EPIPE: the reader has closed its end of a pipe.
struct answers_not_written : std::runtime_error {
  explicit answers_not_written(int code)
      : std::runtime_error("answers cannot be written: " + std::generic_category().message(code)), why(code) {
  }
  int why;
};

/// Writes the answers of a model, a line for each sample.
///
///     csv          class,probability,T-shirt/top,Trouser,...    or  number, or  number1,number2
///     json_lines   {"class":"Trouser","probability":0.98,"probabilities":[...]}    or  {"numbers":[3.2]}
///
/// Where samples are files, the name of the file comes first: a column "file", or a field.
class prediction_output {
public:
  prediction_output(std::ostream& out, const model_card& card, bool is_csv)
      : out_(out), card_(card), is_csv_(is_csv) {}

  /// Calls of one output all name files, or none does.
  ///
  /// Shapes  answers: float32[n, outputs], the logits or the numbers of a model; files: n of them, or none.
  /// Errors  answers_not_written.
  void write(std::span<const float> answers, std::span<const std::filesystem::path> files = {}) {
    if (!begun_ && is_csv_) write_header(!files.empty());
    begun_ = true;
    const std::size_t outputs = card_.request.outputs();
    for (std::size_t i = 0; i * outputs < answers.size(); ++i) {
      const std::span<const float> found = answers.subspan(i * outputs, outputs);
      row_.assign(found.begin(), found.end());
      const std::filesystem::path* const file = files.empty() ? nullptr : &files[i];
      errno = 0;
      is_csv_ ? write_csv(file) : write_json(file);
      if (!out_) throw answers_not_written(errno != 0 ? errno : EIO);
    }
  }

private:
  bool names_classes() const { return card_.request.wanted == answer::a_class; }

  void write_header(bool names_files) {
    const std::size_t outputs = card_.request.outputs();
    std::string line = names_files ? "file," : "";
    if (names_classes()) {
      line += "class,probability";
      for (std::size_t c = 0; c < outputs; ++c) line += ',' + field(name_of(card_, c));
    } else if (outputs == 1) {
      line += "number";
    } else {
      for (std::size_t i = 0; i < outputs; ++i) line += fmt::format("{}number{}", i == 0 ? "" : ",", i + 1);
    }
    out_ << line << '\n';
  }

  /// Makes probabilities of a row of logits. Returns the likeliest class.
  std::size_t likeliest_in_row() {
    softmax_rows(row_, row_.size());
    return static_cast<std::size_t>(std::ranges::max_element(row_) - row_.begin());
  }

  void write_csv(const std::filesystem::path* file) {
    if (file != nullptr) out_ << field(file->string()) << ',';
    if (names_classes()) {
      const std::size_t c = likeliest_in_row();
      out_ << fmt::format("{},{},", field(name_of(card_, c)), row_[c]);
    }
    out_ << fmt::format("{}\n", fmt::join(row_, ","));
  }

  void write_json(const std::filesystem::path* file) {
    json object;
    if (file != nullptr) object["file"] = file->string();
    if (names_classes()) {
      const std::size_t c = likeliest_in_row();
      object["class"] = name_of(card_, c);
      object["probability"] = row_[c];
      object["probabilities"] = row_;
    } else {
      object["numbers"] = row_;
    }
    out_ << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  }

  std::ostream& out_;
  const model_card& card_;
  const bool is_csv_;
  bool begun_ = false;
  std::vector<float> row_;
};

struct predict_args {
  trained_args trained;
  std::string rows;
  std::vector<std::string> pictures;
  std::string format = "csv";
};

/// Rows are answered in groups of this size, so that a long file takes no more memory than a short one.
constexpr std::size_t group = 256;

constexpr std::size_t decoded_bytes = std::size_t{1} << 26;

void require_plain_numbers(const predictor& model) {
  if (model.inputs() == 0) reject("--rows: the model does not read plain numbers; name a data set by --data");
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

void predict_text(std::istream& in, const std::string& name, const table_args& form, predictor& model,
                  prediction_output& out) {
  require_plain_numbers(model);
  number_rows rows(in, name, model.inputs(), rows_as(form, model.card().table));
  errno = 0;
  predict_each(rows, model, out,
               [&] { say_line(format_rows(rows.encoding(), rows.delimiter(), rows.has_header())); });
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
    reject("--picture-files: the model reads samples of {}, and pictures have a height, a width and 1 or 3 "
           "channels",
           to_string(dims));
  if (card.divisors != std::vector<float>{255})
    reject("--picture-files: the model was trained on numbers that were not divided by 255, as pixels are; "
           "name an array by --rows");
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

void predict_file(const predict_args& w, predictor& model, prediction_output& out) {
  if (npy_file::is_npy(w.rows)) return predict_array(w.rows, model, out);
  errno = 0;
  std::ifstream file(w.rows, std::ios::binary);
  if (!file) throw_unreadable(w.rows, errno != 0 ? errno : EIO);
  predict_text(file, w.rows, w.trained.table, model, out);
}

int predict_to(std::ostream& to, const predict_args& w) {
  if (int{w.rows.empty()} + int{w.trained.data.empty()} + int{w.pictures.empty()} != 2)
    reject("predict: name either a data set by --data, or rows of numbers by --rows, or pictures by "
           "--picture-files");
  predictor model = open_model(w.trained);
  if (model.card().request.features == feature_kind::tokens)
    reject("predict: the model is one of texts; 'mailgrad generate' writes with it");
  prediction_output out(to, model.card(), w.format == "csv");
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
int predict(const predict_args& w) {
  try {
    return predict_to(std::cout, w);
  } catch (const answers_not_written& e) {
    std::cout.clear(); // so that main() says nothing more about it
    if (e.why != EPIPE) throw;
    return exit_code::done;
  }
}

struct generate_args {
  trained_args trained;
  text_sample_options text{.length = 300};
};

int generate(const generate_args& w) {
  predictor model = open_model(w.trained);
  if (model.card().request.features != feature_kind::tokens)
    reject("generate: the model is none of texts, but reads samples of {}; 'mailgrad predict' prints its "
           "answers",
           to_string(model.card().request.sample_dims));
  std::cout << model.text(w.text) << '\n';
  return exit_code::done;
}

struct export_args {
  trained_args trained;
  std::string onnx;
};

int export_model(const export_args& w) {
  if (w.onnx == "-" || !replaced_file::can_replace(replaced_file::without_links(w.onnx)))
    throw std::invalid_argument("--onnx: '" + w.onnx + "' is no file; name one that may be replaced");
  require_no_input("--onnx", w.onnx, {{"--model-file", w.trained.model_file}});
  write_onnx(w.onnx, load_weights(w.trained.model_file));
  return exit_code::done;
}

} // namespace

command make_test_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("test", "Measure a trained model on samples whose answers are known");
  auto words = std::make_shared<test_args>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_model_of_weights(t, words->trained);
  add_device(t, words->trained);
  add_samples(t, words->trained,
              "The data set, as 'mailgrad train' takes it: its test part, or all of a file that has none");
  parser->get_option("--data")->required();
  t.add("--report", words->report, path("FILE"),
        "Write the result to this file, as one JSON object; -: to standard output");
  parser->footer("Example:\n"
                 "  mailgrad test --model-file lenet.safetensors --data fashion-mnist");
  return {parser, [words] { return with_advice([&] { return test(*words); }); }};
}

command make_predict_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("predict", "Print the answers of a trained model to samples");
  auto words = std::make_shared<predict_args>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_model_of_weights(t, words->trained);
  add_device(t, words->trained);
  add_samples(t, words->trained,
              "A data set, as 'mailgrad train' takes it: its test part, or all of a file that has none; the "
              "labels are not looked at. A file *.npy needs none beside it");
  t.add("--rows", words->rows, path("FILE"),
        "Rows without labels, between commas, semicolons or tabs, or an array of numpy (*.npy) of samples; "
        "-: rows from standard input. Numbers and words are those of the files that the model was trained "
        "on: it divides and encodes them itself");
  t.add("--picture-files", words->pictures, path("PATH..."),
        "Pictures without labels: PNG and JPEG files, and folders of them. Each answer begins with the name "
        "of its file");
  t.add("--format", words->format, one_of({"csv", "jsonl"}), shown,
        "How the answers are written: csv or jsonl, a JSON object a line");
  parser->footer("For classes, an answer is the likeliest class, its probability, and that of every class.\n"
                 "Example:\n"
                 "  mailgrad predict --model-file iris.safetensors --rows - < flowers.csv\n"
                 "  mailgrad predict --model-file sky.safetensors --picture-files new/ last.png");
  return {parser, [words] { return with_advice([&] { return predict(*words); }); }};
}

command make_generate_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("generate", "Write a text with a trained model of texts");
  auto words = std::make_shared<generate_args>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_device(t, words->trained);
  t.add("--length", words->text.length, whole_number(1), shown, "How many symbols to write");
  t.add("--temperature", words->text.temperature, number(0, 1000), shown,
        "1 draws each symbol by the model's probabilities, a lower value prefers likely symbols, and 0 "
        "always takes the likeliest");
  t.add("--seed", words->text.seed, whole_number(0), shown, "The same seed writes the same text");
  t.add("--prompt", words->text.prompt,
        "The text that is continued; by default a line break, or the first symbol if there is none");
  parser->footer("Example:\n"
                 "  mailgrad generate --model-file plays.safetensors --prompt 'ROMEO:' --length 500");
  return {parser, [words] { return with_advice([&] { return generate(*words); }); }};
}

command make_export_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("export", "Write a trained model for other programs, as ONNX");
  auto words = std::make_shared<export_args>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  t.add("--onnx", words->onnx, path("FILE"), required,
        "The file to write, of ONNX's operators of version 17. It takes samples as the data files have them, "
        "any number at once, and gives the logits");
  parser->footer("Example:\n"
                 "  mailgrad export --model-file lenet.safetensors --onnx lenet.onnx");
  return {parser, [words] { return export_model(*words); }};
}

} // namespace mailgrad
