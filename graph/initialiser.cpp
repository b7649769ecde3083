#include <mailgrad/graph/initialiser.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace mailgrad {
namespace {

/// FNV-1a, which gives the same number on every machine. std::hash does not promise that.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

/// Draws from [0, 1) by the upper bits. The standard distributions differ between libraries.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// Draws by the method of Box and Muller.
double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(random)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(random));
}

} // namespace

initialiser initialiser::glorot(std::size_t fan_in, std::size_t fan_out) {
  const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
  return uniform(-limit, limit);
}

initialiser initialiser::he(std::size_t fan_in) {
  return normal(0, static_cast<float>(std::sqrt(2.0 / static_cast<double>(fan_in))));
}

void initialise(const initialiser& how, std::uint64_t seed, std::string_view name, std::span<float> values) {
  std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(hash(name)), static_cast<std::uint32_t>(hash(name) >> 32)};
  std::mt19937_64 random(mixed);
  const double a = how.a;
  const double b = how.b;
  std::ranges::generate(values, [&] {
    switch (how.distribution) {
    case initialiser::kind::uniform:
      return static_cast<float>(a + (b - a) * uniform(random));
    case initialiser::kind::normal:
      return static_cast<float>(a + b * normal(random));
    case initialiser::kind::constant:
      break;
    }
    return how.a;
  });
}

} // namespace mailgrad
