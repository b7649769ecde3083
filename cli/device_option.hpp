#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// How many devices "cpu:0, cpu:1" names. This machine may lack them.
std::uint32_t device_count(const std::string& list);

/// "cpu:0" and "cpu:1" of "cpu:0, cpu:1".
std::vector<std::string> split_devices(std::string list);

/// Reads "cpu:0, cpu:1".
///
/// Errors  device_error for a word that names no device, or a device that this machine lacks.
std::vector<device> read_devices(const std::string& list);
/// Reads "host, cuda:0", places for weights. The host is the device that "cpu" names.
///
/// Errors  as read_devices(), and device_error for a stream.
std::vector<device> read_places(const std::string& list);
/// Whether there is a GPU among them, for a list that nobody has read yet.
bool names_gpu(const std::string& list);
/// "cpu:0,cpu:1"
std::string names_of(std::span<const device> devices, const char* between = ",");

/// How the model of a worker spans its devices, as the command line says.
struct spanning_args {
  bool replicate = false;
  bool pipeline = false;

  bool any() const noexcept { return replicate || pipeline; }
  /// "replicate", "pipeline" or "".
  std::string name() const { return replicate ? "replicate" : pipeline ? "pipeline" : ""; }
};

/// `model`, spanning several devices if the user wants that.
model_function spanning(model_function model, const spanning_args& w);

/// Errors  std::invalid_argument if each worker has only one device. `option` names more.
void require_several(const spanning_args& w, std::size_t devices_of_a_worker,
                     const std::string& option = "--devices");

} // namespace mailgrad
