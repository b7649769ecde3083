#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/engine/model/evaluation.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// What `mailgrad test` has found.
struct test_result {
  std::string model_file;
  std::string data;
  std::size_t samples = 0;
  std::vector<std::string> class_names; ///< empty: classes have numbers alone
  evaluation found;
};

/// The figures of one class.
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

/// By class; empty where evaluation::confusion is.
std::vector<class_figures> by_class(const evaluation& e);

/// The result for a terminal: the figures of the whole, of each class, and the confusion matrix of up to 20
/// classes.
std::string in_words(const test_result& r);
/// The result as a JSON object.
std::string to_json(const test_result& r);

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_in_matrix = 20;

std::size_t classes_of(const evaluation& e) {
  return static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(e.confusion.size()))));
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

} // namespace

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

namespace {

struct test_words {
  trained_words trained;
  std::string report;
};

int test(const test_words& w) {
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

} // namespace

command make_test_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("test", "Measure a trained model on samples whose answers are known");
  auto words = std::make_shared<test_words>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_model_of_weights(t, words->trained);
  add_device(t, words->trained);
  add_samples(t, words->trained,
              "The data set, as 'mailgrad train' takes it: its test part, or all of a file that has none");
  parser->get_option("--data")->required();
  t.add("--report", words->report, "Write the result to this file, as one JSON object; -: to standard output",
        path("FILE"));
  parser->footer("Example:\n"
                 "  mailgrad test --model-file lenet.safetensors --data fashion-mnist");
  return {parser, [words] { return with_advice([&] { return test(*words); }); }};
}

} // namespace mailgrad
