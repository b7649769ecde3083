#include <mailgrad/cli/spanning_option.hpp>

#include <mailgrad/graph/models/spanning_models.hpp>

#include <utility>

namespace mailgrad {

void add_spanning_flags(CLI::App& parser, spanning_words& w, const std::string& group) {
  auto* replicate = parser
                        .add_flag("--replicate", w.replicate,
                                  "One model over several devices: each computes it on its part of the batch, with "
                                  "shared variables")
                        ->group(group);
  parser
      .add_flag("--pipeline", w.pipeline,
                "One model over several devices: each computes a stage of it, with as equal work as can be")
      ->excludes(replicate)
      ->group(group);
}

model_function spanning(model_function model, const spanning_words& w) {
  if (w.replicate) return replicated(std::move(model));
  return w.pipeline ? pipelined(std::move(model)) : model;
}

std::vector<device> read_devices(const std::vector<std::string>& words) {
  std::vector<device> devices;
  for (std::string name : words) {
    std::erase(name, ' '); // "cpu:0, cpu:1"
    devices.push_back(parse_device(name));
    require_available(devices.back());
  }
  return devices;
}

} // namespace mailgrad
