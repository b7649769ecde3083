#pragma once

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace mailgrad {

/// The bytes of a file in a golden, which are written in base64.
inline std::string bytes_in(const nlohmann::json& base64) {
  const auto& text = base64.get_ref<const std::string&>();
  std::string bytes(text.size(), '\0');
  const auto in = reinterpret_cast<const unsigned char*>(text.data());
  const int count =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), in, static_cast<int>(text.size()));
  const auto padding = static_cast<std::size_t>(std::ranges::count(text, '='));
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count) - padding);
  return bytes;
}

} // namespace mailgrad
