#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/prediction_output.hpp>
#include <mailgrad/data/formats/number_rows.hpp>
#include <mailgrad/files/file_error.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad {

namespace {

struct predict_words {
  trained_words trained;
  std::string rows;
  std::string format = "csv";
};

/// Rows are answered in groups of this size, so that a long file takes no more memory than a short one.
constexpr std::size_t group = 256;

void predict_rows(std::istream& in, const std::string& name, const table_words& form, predictor& model,
                  prediction_output& out) {
  if (model.inputs() == 0)
    throw std::invalid_argument("--rows: the model does not read plain numbers; name a data set by --data");
  number_rows rows(in, name, model.inputs(), rows_as(form, model.card().table));
  std::vector<float> samples;
  std::vector<float> answers;
  errno = 0;
  for (bool more = true; more;) {
    samples.clear();
    while (samples.size() < group * model.inputs() && (more = rows.next(samples))) {
    }
    answers.resize(samples.size() / model.inputs() * model.outputs());
    model.answers(samples, answers);
    out.write(answers);
  }
  if (in.bad()) throw_unreadable(name, errno != 0 ? errno : EIO); // a folder can be opened, but not read
}

int predict_to(std::ostream& to, const predict_words& w) {
  if (w.rows.empty() == w.trained.data.empty())
    throw std::invalid_argument("predict: name either a data set by --data or rows of numbers by --rows");
  predictor model = open_model(w.trained);
  if (model.card().request.features == feature_kind::tokens)
    throw std::invalid_argument("predict: the model is one of texts; 'mailgrad generate' writes with it");
  const auto format = w.format == "csv" ? prediction_output::form::csv : prediction_output::form::json_lines;
  prediction_output out(to, model.card(), format);
  if (w.rows == "-") {
    predict_rows(std::cin, "standard input", w.trained.table, model, out);
  } else if (!w.rows.empty()) {
    errno = 0;
    std::ifstream file(w.rows, std::ios::binary);
    if (!file) throw_unreadable(w.rows, errno != 0 ? errno : EIO);
    predict_rows(file, w.rows, w.trained.table, model, out);
  } else {
    out.write(model.answers(open_samples(w.trained, model.card(), lacking_row::refused).test));
  }
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
  add_model_file(*parser, words->trained);
  add_samples(*parser, words->trained,
              "A data set, as 'mailgrad train' takes it: its test part, or all of a file that has none; the "
              "labels are not looked at");
  parser
      ->add_option(
          "--rows", words->rows,
          "Rows without labels, between commas, semicolons or tabs; -: standard input. Numbers and words are "
          "those of the files that the model was trained on: it divides and encodes them itself")
      ->check(file_name())
      ->type_name("FILE");
  parser
      ->add_option("--format", words->format,
                   "How the answers are written: csv or jsonl, a JSON object a line")
      ->check(one_of({"csv", "jsonl"}))
      ->capture_default_str();
  parser->footer("For classes, an answer is the likeliest class, its probability, and that of every class.\n"
                 "Example:\n"
                 "  mailgrad predict --model-file iris.safetensors --rows - < flowers.csv");
  return {parser, [words] { return predict(*words); }};
}

} // namespace mailgrad
