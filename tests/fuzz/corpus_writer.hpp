#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mailgrad::fuzz {

/// Writes one input of a target to the folder of all inputs, which make_corpus.cpp is told.
void write(const std::string& target, const std::string& name, std::string_view bytes);

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(std::data(bytes)), std::size(bytes)};
}

inline std::string byte(unsigned n) { return {static_cast<char>(n)}; }
inline std::string two_bytes(std::size_t n) {
  return {static_cast<char>(n & 0xff), static_cast<char>(n >> 8 & 0xff)};
}

/// The inputs of the targets of net/.
void write_net_corpus();

} // namespace mailgrad::fuzz
