#include <mailgrad/data/samples_digest.hpp>

#include <mailgrad/files/sha256.hpp>

#include <fmt/format.h>

#include <span>
#include <variant>
#include <vector>

namespace mailgrad {

namespace {

template <class T>
std::string hash_of(const std::vector<T>& values) {
  return sha256(std::as_bytes(std::span(values)));
}

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

/// Of bytes that are divided by 255, as those of all files are, the scale is left out: recordings have such
/// digests.
std::string hash_of(const byte_features& f) {
  const std::string values = hash_of(f.values);
  return f.scale == byte_features().scale ? values : values + fmt::format(" {:.9g}", f.scale);
}

std::string hash_of(const float_features& f) { return hash_of(f.values); }

std::string hash_of(const sparse_features& f) {
  return hash_of(f.offsets) + hash_of(f.columns) + hash_of(f.values);
}

std::string hash_of(const token_windows& f) {
  return hash_of(f.tokens) + std::to_string(f.length) + ' ' + std::to_string(f.stride);
}

std::string hash_of(const categorical_features& f) {
  return hash_of(f.counts) + hash_of(f.categories) + hash_of(f.values);
}

/// The hash of all arrays, with their names, shapes and types.
std::string hash_of(const named_arrays& arrays) {
  std::string text;
  for (const auto& [name, values] : arrays.all())
    text += fmt::format("{};{} {};{}\n", name, to_string(values.type()), to_string(values.dims()),
                        sha256(values.bytes()));
  return hash_of(text);
}

} // namespace

std::string digest_of(const dataset& d) {
  const std::string features = std::visit([](const auto& f) { return hash_of(f); }, d.features());
  std::string targets = d.has_targets() ? sha256(std::as_bytes(d.targets())) : std::string();
  if (d.target_dims().rank() > 0) targets += to_string(d.target_dims()) + ';';
  return hash_of(features + sha256(std::as_bytes(d.labels())) + targets + to_string(d.sample_dims()) +
                 std::to_string(d.classes()));
}

} // namespace mailgrad
