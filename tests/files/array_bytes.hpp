#pragma once

#include <initializer_list>
#include <string>

namespace mailgrad::testing {

template <class T>
std::string bytes_of(std::initializer_list<T> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T)};
}

/// An array as numpy.save writes it.
inline std::string npy(const std::string& type, const std::string& extents, const std::string& numbers) {
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + extents + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + numbers;
}

} // namespace mailgrad::testing
