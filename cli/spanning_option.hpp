#pragma once

#include <mailgrad/graph/models/model.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>

namespace mailgrad {

/// How the model of a worker spans its devices, as the command line says.
struct spanning_words {
  bool replicate = false;
  bool pipeline = false;

  bool any() const noexcept { return replicate || pipeline; }
  /// "replicate", "pipeline" or "".
  std::string name() const { return replicate ? "replicate" : pipeline ? "pipeline" : ""; }
};

void add_spanning_flags(CLI::App& parser, spanning_words& w, const std::string& group);

/// `model`, spanning several devices if the user wants that.
model_function spanning(model_function model, const spanning_words& w);

/// Errors  std::invalid_argument if each worker has only one device. `option` names more.
void require_several(const spanning_words& w, std::size_t devices_of_a_worker,
                     const std::string& option = "--devices");

} // namespace mailgrad
