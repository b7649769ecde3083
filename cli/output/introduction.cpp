#include <mailgrad/cli/output/introduction.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

/// "cpu:0, cpu:1", or with workers that span devices "cpu:0 + cpu:1, cpu:2 + cpu:3".
std::string devices_in_words(const training_options& o) {
  const std::size_t each = o.devices.size() / std::max<std::size_t>(1, o.workers);
  std::string text;
  for (std::size_t d = 0; d < o.devices.size(); ++d)
    text.append(d == 0 ? "" : d % each == 0 ? ", " : " + ").append(to_string(o.devices[d]));
  return text;
}

/// "mlp, a pipeline of 8 micro-batches"
std::string model_in_words(const std::string& model, const spanning_words& span, std::size_t micro_batches) {
  if (!span.any()) return model;
  return fmt::format("{}, {}{}", model, span.pipeline ? "a pipeline" : "replicated",
                     micro_batches > 1 ? fmt::format(" of {} micro-batches", micro_batches) : "");
}

} // namespace

std::string introduction(const std::string& model, const spanning_words& span, const training_options& o,
                         const data_split& data, const training& run, const std::string& where) {
  const std::string held_out =
      data.validation.size() > 0 ? fmt::format(", {} held out", data.validation.size()) : "";
  return fmt::format("{}: {} samples to train on{}, {} to test on, {}\n{}; {} on {}; {}", data.name,
                     data.train.size(), held_out, data.test.size(),
                     data.train.has_targets() ? "a number to predict"
                                              : fmt::format("{} classes", data.train.classes()),
                     model_in_words(model, span, o.micro_batches), o.policy,
                     where.empty() ? devices_in_words(o) : where, run.layout().balance_in_words());
}

} // namespace mailgrad
