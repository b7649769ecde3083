#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/program.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <stdexcept>

namespace mailgrad {

namespace {

struct generate_words {
  trained_words trained;
  text_sample_options text{.length = 300};
};

int generate(const generate_words& w) {
  predictor model = open_model(w.trained);
  if (model.card().request.features != feature_kind::tokens)
    throw std::invalid_argument(fmt::format("generate: the model is none of texts, but reads samples of {}; "
                                            "'mailgrad predict' prints its answers",
                                            to_string(model.card().request.sample_dims)));
  std::cout << model.text(w.text) << '\n';
  return exit_code::done;
}

} // namespace

command make_generate_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("generate", "Write a text with a trained model of texts");
  auto words = std::make_shared<generate_words>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  add_device(t, words->trained);
  t.add("--length", words->text.length, "How many symbols to write", whole_number(1), shown);
  t.add("--temperature", words->text.temperature,
        "1 draws each symbol by the model's probabilities, a lower value prefers likely symbols, and 0 "
        "always takes the likeliest",
        number(0, 1000), shown);
  t.add("--seed", words->text.seed, "The same seed writes the same text", whole_number(0), shown);
  t.add("--prompt", words->text.prompt,
        "The text that is continued; by default a line break, or the first symbol if there is none");
  parser->footer("Example:\n"
                 "  mailgrad generate --model-file plays.safetensors --prompt 'ROMEO:' --length 500");
  return {parser, [words] { return with_advice([&] { return generate(*words); }); }};
}

} // namespace mailgrad
