// What a build without Protocol Buffers has in the place of tensorboard_file.cpp and onnx_file.cpp.
#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>

#include <stdexcept>

namespace mailgrad {

namespace {

[[noreturn]] void refuse_without_protobuf(const std::string& what) {
  throw std::invalid_argument(what + ": this Mailgrad was built without Protocol Buffers and ONNX");
}

} // namespace

bool can_write_tensorboard() noexcept { return false; }

tensorboard_file::tensorboard_file(const std::string& folder, const board_start&) {
  refuse_without_protobuf("no files for TensorBoard in '" + folder + "'");
}

void tensorboard_file::add(const metrics_line&) {}
void tensorboard_file::add(const gaps_measured&) {}
void tensorboard_file::add(const policy_switch&) {}
void tensorboard_file::add(const members_changed&) {}

void write_onnx(const std::filesystem::path& path, const saved_weights&) {
  refuse_without_protobuf("no model of ONNX in '" + path.string() + "'");
}

void write_onnx(const std::filesystem::path& path, const model_function&, const saved_weights& trained) {
  write_onnx(path, trained);
}

} // namespace mailgrad
