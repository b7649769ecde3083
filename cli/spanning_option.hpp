#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/tensor/device.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace mailgrad {

/// How a model is to span the devices of a worker, as the command line says it.
struct spanning_words {
  bool replicate = false;
  bool pipeline = false;

  bool any() const noexcept { return replicate || pipeline; }
  /// "replicate", "pipeline" or "".
  std::string name() const { return replicate ? "replicate" : pipeline ? "pipeline" : ""; }
};

void add_spanning_flags(CLI::App& parser, spanning_words& w, const std::string& group);

/// `model`, made to span devices if that is wanted.
model_function spanning(model_function model, const spanning_words& w);

/// Errors  std::invalid_argument if there is nothing to span.
void require_several(const spanning_words& w, std::size_t devices_of_a_worker);

/// Reads "cpu:0, cpu:1".
///
/// Errors  device_error for a word that is no device, or one that is not there.
std::vector<device> read_devices(std::string list);

} // namespace mailgrad
