#pragma once

#include <mailgrad/tensor/shape.hpp>

namespace mailgrad {

/// How a variable gets its first values. They depend only on the seed and the name, not on the order in which
/// variables are made.
struct initialiser {
  enum class kind : std::uint8_t { constant, uniform, normal };

  kind distribution = kind::constant;
  float a = 0; ///< constant: the value; uniform: lower end; normal: mean
  float b = 0; ///< uniform: upper end, excluded; normal: standard deviation

  static initialiser zeros() { return {}; }
  static initialiser constant(float v) { return {kind::constant, v, 0}; }
  static initialiser uniform(float low, float high) { return {kind::uniform, low, high}; }
  static initialiser normal(float mean, float deviation) { return {kind::normal, mean, deviation}; }
  /// Source  Glorot & Bengio, AISTATS 2010: uniform in +-sqrt(6 / (fan_in + fan_out)).
  static initialiser glorot(std::size_t fan_in, std::size_t fan_out);
  /// Source  He, Zhang, Ren & Sun, ICCV 2015: normal with deviation sqrt(2 / fan_in).
  static initialiser he(std::size_t fan_in);
};

void initialise(const initialiser& how, std::uint64_t seed, std::string_view name, std::span<float> values);

} // namespace mailgrad
