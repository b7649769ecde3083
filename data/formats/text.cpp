#include <mailgrad/data/formats/text.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/text.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t chunk = std::size_t{1} << 16;

/// Replaces each code point by its index among those that occur, in ascending order.
void number_by_order(const std::map<std::int32_t, std::string>& symbols, text_corpus& corpus) {
  std::unordered_map<std::int32_t, std::int32_t> numbers;
  for (const auto& [code, symbol] : symbols) {
    numbers.emplace(code, static_cast<std::int32_t>(corpus.symbols.size()));
    corpus.symbols.push_back(symbol);
  }
  for (std::int32_t& token : corpus.tokens) token = numbers.find(token)->second;
}

/// Drops a byte-order mark, and makes one character of each Windows line end, so that a model learns neither.
void drop_marks(std::map<std::int32_t, std::string>& symbols, std::vector<std::int32_t>& tokens) {
  constexpr std::int32_t byte_order = 0xfeff;
  if (tokens.front() == byte_order) tokens.erase(tokens.begin());
  if (symbols.contains('\r') && symbols.contains('\n')) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] != '\r' || i + 1 == tokens.size() || tokens[i + 1] != '\n') tokens[kept++] = tokens[i];
    tokens.resize(kept);
  }
  for (const std::int32_t dropped : {byte_order, std::int32_t{'\r'}})
    if (symbols.contains(dropped) && std::ranges::find(tokens, dropped) == tokens.end())
      symbols.erase(dropped);
}

} // namespace

text_corpus read_text(const std::filesystem::path& file, const parsed_limit& limit) {
  byte_source source{file};
  text_corpus corpus;
  corpus.tokens.reserve(std::min(
      source.most_left(), std::min<std::uint64_t>(fs::file_size(file), limit.bytes / sizeof(std::int32_t))));
  std::map<std::int32_t, std::string> symbols; // by code point
  std::vector<std::uint8_t> buffer(chunk);
  std::size_t held = 0; // bytes of a character that was cut off at the end of the buffer
  for (bool more = true; more;) {
    const std::size_t filled = held + source.read(std::span(buffer).subspan(held));
    more = filled == buffer.size();
    std::span rest = std::span(buffer).first(filled);
    while (!rest.empty()) {
      const auto c = first_character(rest);
      if (!c && more && rest.size() < longest_utf8_character) break;
      if (!c)
        throw_malformed(file, file_offset{source.offset() - rest.size()},
                        fmt::format("expected a character of UTF-8, found the byte {}", rest.front()));
      corpus.tokens.push_back(c->code);
      symbols.try_emplace(c->code, rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(c->length));
      rest = rest.subspan(c->length);
    }
    limit.require(file, corpus.tokens.size() * sizeof(std::int32_t));
    held = rest.size();
    std::ranges::copy(rest, buffer.begin());
  }
  if (!corpus.tokens.empty()) drop_marks(symbols, corpus.tokens);
  if (corpus.tokens.empty()) throw_malformed(file, "expected text, found an empty file");
  number_by_order(symbols, corpus);
  return corpus;
}

void number_as(const std::filesystem::path& file, const std::vector<std::string>& symbols,
               text_corpus& corpus) {
  std::vector<std::int32_t> numbers;
  for (const std::string& symbol : corpus.symbols) {
    const auto known = std::ranges::find(symbols, symbol);
    if (known == symbols.end())
      throw_malformed(file, fmt::format("expected one of the {} characters that the model knows, found {}",
                                        symbols.size(), in_quotes(symbol)));
    numbers.push_back(static_cast<std::int32_t>(known - symbols.begin()));
  }
  for (std::int32_t& token : corpus.tokens) token = numbers[static_cast<std::size_t>(token)];
  corpus.symbols = symbols;
}

} // namespace mailgrad
