#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

struct export_words {
  trained_words trained;
  std::string onnx;
};

int export_model(const export_words& w) {
  if (w.onnx == "-" || !replaced_file::can_replace(replaced_file::without_links(w.onnx)))
    throw std::invalid_argument("--onnx: '" + w.onnx + "' is no file; name one that may be replaced");
  require_no_input("--onnx", w.onnx, {{"--model-file", w.trained.model_file}});
  write_onnx(w.onnx, load_weights(w.trained.model_file));
  return exit_code::done;
}

} // namespace

command make_export_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("export", "Write a trained model for other programs, as ONNX");
  auto words = std::make_shared<export_words>();
  option_table t(*parser);
  add_model_file(t, words->trained);
  t.add("--onnx", words->onnx,
        "The file to write, of ONNX's operators of version 17. It takes samples as the data files have them, "
        "any number at once, and gives the logits",
        path("FILE"), required);
  parser->footer("Example:\n"
                 "  mailgrad export --model-file lenet.safetensors --onnx lenet.onnx");
  return {parser, [words] { return export_model(*words); }};
}

} // namespace mailgrad
