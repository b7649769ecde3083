#include <mailgrad/data/text.hpp>

#include <mailgrad/data/byte_source.hpp>
#include <mailgrad/data/error.hpp>

#include <map>
#include <optional>
#include <span>
#include <unordered_map>

namespace mailgrad {

namespace {

/// Bytes of the character that begins with `lead`; 0 if none does.
std::size_t length_of(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/// The code point that `bytes` spell; nothing if they are no character of UTF-8.
///
/// Source  RFC 3629: no overlong forms, no surrogates, nothing beyond 0x10ffff.
std::optional<std::int32_t> decode(std::span<const std::uint8_t> bytes) {
  if (bytes.size() == 1) return bytes[0];
  std::uint32_t code = bytes[0] & (0xffU >> (bytes.size() + 1));
  for (std::uint8_t byte : bytes.subspan(1)) {
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte & 0x3fU);
  }
  const bool overlong = (bytes.size() == 3 && code < 0x800) || (bytes.size() == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (overlong || surrogate || code > 0x10ffff) return std::nullopt;
  return static_cast<std::int32_t>(code);
}

/// Replaces code points by their place among those that occur.
void number_by_order(const std::map<std::int32_t, std::string>& symbols, text_corpus& corpus) {
  std::unordered_map<std::int32_t, std::int32_t> numbers;
  for (const auto& [code, symbol] : symbols) {
    numbers.emplace(code, static_cast<std::int32_t>(corpus.symbols.size()));
    corpus.symbols.push_back(symbol);
  }
  for (std::int32_t& token : corpus.tokens) token = numbers.find(token)->second;
}

} // namespace

text_corpus read_text(const std::filesystem::path& file) {
  byte_source source{file};
  const std::vector<std::uint8_t> bytes = read_up_to(source, byte_source::most_bytes + 1);
  if (bytes.empty()) throw_malformed(file, "expected text, found an empty file");
  text_corpus corpus;
  corpus.tokens.reserve(bytes.size());
  std::map<std::int32_t, std::string> symbols; // by code point
  for (std::span rest{bytes}; !rest.empty();) {
    const std::size_t length = length_of(rest.front());
    const auto code = length == 0 || length > rest.size() ? std::nullopt : decode(rest.first(length));
    if (!code)
      throw_malformed(file, file_offset{bytes.size() - rest.size()},
                      "expected a character of UTF-8, found the byte " + std::to_string(rest.front()));
    corpus.tokens.push_back(*code);
    symbols.try_emplace(*code, rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
    rest = rest.subspan(length);
  }
  number_by_order(symbols, corpus);
  return corpus;
}

} // namespace mailgrad
