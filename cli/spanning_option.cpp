#include <mailgrad/cli/spanning_option.hpp>

#include <mailgrad/graph/models/spanning_models.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad {

void add_spanning_flags(CLI::App& parser, spanning_words& w, const std::string& group) {
  auto* replicate =
      parser
          .add_flag("--replicate", w.replicate,
                    "Let a model span several devices: each computes the whole model on its part of the "
                    "batch, with shared variables")
          ->disable_flag_override()
          ->group(group);
  parser
      .add_flag("--pipeline", w.pipeline,
                "Let a model span several devices: each computes one stage of it; the stages have as equal "
                "work as possible")
      ->disable_flag_override()
      ->excludes(replicate)
      ->group(group);
}

void require_several(const spanning_words& w, std::size_t devices_of_a_worker, const std::string& option) {
  if (devices_of_a_worker > 1) return;
  throw std::invalid_argument("--" + w.name() + ": each worker has one device; name more by " + option);
}

model_function spanning(model_function model, const spanning_words& w) {
  if (w.replicate) return replicated(std::move(model));
  return w.pipeline ? pipelined(std::move(model)) : model;
}

} // namespace mailgrad
