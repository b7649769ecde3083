#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/cli/output/test_output.hpp>
#include <mailgrad/cli/run_inputs.hpp>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace mailgrad {

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
  add_model_file(*parser, words->trained);
  add_model_of_weights(*parser, words->trained);
  add_device(*parser, words->trained);
  add_samples(*parser, words->trained,
              "The data set, as 'mailgrad train' takes it: its test part, or all of a file that has none");
  parser->get_option("--data")->required();
  parser
      ->add_option("--report", words->report,
                   "Write the result to this file, as one JSON object; -: to standard output")
      ->check(file_name())
      ->type_name("FILE");
  parser->footer("Example:\n"
                 "  mailgrad test --model-file lenet.safetensors --data fashion-mnist");
  return {parser, [words] { return with_advice([&] { return test(*words); }); }};
}

} // namespace mailgrad
