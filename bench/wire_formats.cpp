// Measures how fast gradients are encoded, with error feedback, and decoded in each format, against memcpy of
// the same floats, in turns. The argument is the number of floats; by default the MLP's 567,434. A figure
// counts the bytes of the floats, whatever their message takes.

#include "measuring.hpp"

#include <mailgrad/engine/wire/encoded_numbers.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 15;
constexpr std::size_t bytes_a_turn = std::size_t{256} << 20; ///< so that a turn takes tens of milliseconds

/// Gradients of unlike layers: normal numbers, each thousand of a magnitude of its own.
std::vector<float> drawn(std::size_t n) {
  std::mt19937_64 rng(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(n);
  float size = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 1000 == 0) size = std::exp2(4 * normal(rng)) * 1e-3F;
    x[i] = size * normal(rng);
  }
  return x;
}

/// GB/s of a call that works on all of the floats.
template <class F>
double speed(std::size_t n, F call) {
  const std::size_t calls = 1 + bytes_a_turn / (n * sizeof(float));
  const double seconds = seconds_of([&] {
    for (std::size_t i = 0; i < calls; ++i) call();
  });
  return static_cast<double>(calls * n * sizeof(float)) / seconds * 1e-9;
}

struct contender {
  std::string name;
  wire_format format;
  std::vector<std::byte> message;
  std::vector<float> residual;
  std::vector<double> encodes{}, decodes{}, encodes_of_memcpy{}, decodes_of_memcpy{};
};

contender make(const char* text, std::size_t n) {
  const wire_format f = parse_wire_format(text);
  return {text, f, std::vector<std::byte>(encoded_bytes(f, n)), std::vector<float>(is_lossy(f) ? n : 0)};
}

void measure(contender& c, const std::vector<float>& x, std::vector<float>& to, double memory, bool counts) {
  const double encode = speed(x.size(), [&] {
    if (!encode_numbers(c.format, x, c.residual, c.message)) throw std::runtime_error("not finite");
  });
  const double decode = speed(x.size(), [&] {
    decode_numbers(c.format, c.message, to);
    keep(to);
  });
  if (!counts) return;
  c.encodes.push_back(encode);
  c.decodes.push_back(decode);
  c.encodes_of_memcpy.push_back(encode / memory);
  c.decodes_of_memcpy.push_back(decode / memory);
}

} // namespace

int main(int argc, char** argv) {
  const std::size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 567'434;
  if (n == 0) return std::fprintf(stderr, "usage: wire_formats [FLOATS]\n"), 1;
  const std::vector<float> x = drawn(n);
  std::vector<float> to(n);
  std::vector<contender> all;
  for (const char* text : {"float32", "float16", "bfloat16", "int8", "top-k:0.01", "1-bit"})
    all.push_back(make(text, n));
  std::vector<double> copies;
  for (int r = -1; r < repetitions; ++r) {
    const double memory = speed(n, [&] {
      std::memcpy(to.data(), x.data(), n * sizeof(float));
      keep(to);
    });
    if (r >= 0) copies.push_back(memory);
    for (contender& c : all) measure(c, x, to, memory, r >= 0);
  }
  print("memcpy", copies, "GB/s");
  for (const contender& c : all) {
    std::printf("%s: %.4f bytes a float\n", c.name.c_str(),
                static_cast<double>(c.message.size()) / static_cast<double>(n));
    print((c.name + " encode").c_str(), c.encodes, "GB/s");
    print((c.name + " encode of memcpy").c_str(), c.encodes_of_memcpy, "times");
    print((c.name + " decode").c_str(), c.decodes, "GB/s");
    print((c.name + " decode of memcpy").c_str(), c.decodes_of_memcpy, "times");
  }
}
