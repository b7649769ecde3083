#include <mailgrad/cli/output/sample_words.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

/// What a built-in model reads that does not read all; "" for one that does, or is none of these.
std::string read_by(const std::string& model, const std::string& kind) {
  if (model == "lenet") return "pictures";
  if (model == "gpt") return "text";
  const bool reads_no_text = model == "mlp" || model == "softmax" || model == "dlrm";
  return reads_no_text && kind == "text" ? "no text" : "";
}

std::string advice_for(const std::string& kind) {
  if (kind == "text") return "take gpt";
  if (kind == "pictures") return "take lenet, mlp or softmax";
  return kind == "rows of categories" ? "take dlrm" : "take mlp or softmax";
}

} // namespace

std::string kind_of_samples(const model_request& r) {
  if (r.features == feature_kind::tokens) return "text";
  if (!r.inputs.empty()) return "arrays";
  if (!r.categories.empty()) return "rows of categories";
  return r.sample_dims.rank() == 3 ? "pictures" : "rows of numbers";
}

std::string samples_in_words(const model_request& r) {
  const std::string kind = kind_of_samples(r);
  if (kind == "pictures") return fmt::format("pictures of {}x{}", r.sample_dims[0], r.sample_dims[1]);
  return kind == "rows of numbers" ? fmt::format("rows of {} numbers", r.sample_dims.size()) : kind;
}

void require_kind_of_samples(const std::string& model, const std::string& data, const model_request& r) {
  const std::string kind = kind_of_samples(r), name = model.substr(0, model.find(':'));
  const std::string read = read_by(name, kind);
  if (read.empty() || read == kind || kind == "arrays") return;
  throw std::invalid_argument(fmt::format("{} reads {}, and '{}' has {}: {}", name, read, data,
                                          samples_in_words(r), advice_for(kind)));
}

} // namespace mailgrad
