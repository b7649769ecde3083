#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/settings.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::array<std::string_view, 6> encoding_names{"float32", "float16", "bfloat16",
                                                         "int8",    "top-k",   "1-bit"};

constexpr std::array<wire_format_form, 6> format_forms{{
    {"float32", "every bit, 4 bytes a number"},
    {"float16", "5 bits of exponent and 10 of fraction, 2 bytes a number"},
    {"bfloat16", "the upper half of a float32, 2 bytes a number"},
    {"int8:block=N", "multiples of a scale for each N numbers (256), 1 byte a number"},
    {"top-k:SHARE", "the numbers of largest magnitude, 8 bytes each"},
    {"1-bit:block=N", "signs, and two means for each N numbers (512)"},
}};

constexpr std::uint32_t int8_block = 256, one_bit_block = 512; ///< unless the text says another
constexpr std::uint32_t least_block = 16, most_block = 65536;

constexpr std::string_view name_of_encoding(wire_encoding e) {
  return encoding_names[static_cast<std::size_t>(e)];
}

wire_encoding encoding_of(std::string_view name) {
  for (std::size_t i = 0; i < encoding_names.size(); ++i)
    if (encoding_names[i] == name) return static_cast<wire_encoding>(i);
  throw std::invalid_argument(
      fmt::format("wire format '{}' is unknown; {}", name, suggestion(name, encoding_names)));
}

/// Signs of a block must end with a byte, and blocks of other sizes would serve nobody.
std::uint32_t take_block(settings& s, std::uint32_t otherwise) {
  const auto block = static_cast<std::uint32_t>(s.take_whole("block", otherwise, least_block, most_block));
  if (!std::has_single_bit(block)) s.fail(fmt::format("block must be a power of two, not {}", block));
  return block;
}

double read_share(std::string_view text) {
  const named_choice choice(text);
  const auto share = choice.arguments.size() == 1 ? parse_number(choice.arguments[0]) : std::nullopt;
  if (!share || !(*share > 0 && *share <= 1))
    throw std::invalid_argument(
        fmt::format("wire format '{}': the share that is sent must be more than 0 and "
                    "at most 1; write it as top-k:0.01",
                    text));
  return *share;
}

/// The share of so many numbers, rounded to the nearest, but at least one.
std::size_t places_of(double share, std::size_t count) {
  const double wanted = std::round(share * static_cast<double>(count));
  return std::min(count, std::max(std::size_t{1}, static_cast<std::size_t>(wanted)));
}

} // namespace

wire_format parse_wire_format(std::string_view text) {
  wire_format f{encoding_of(name_of_choice(text))};
  if (f.encoding == wire_encoding::top_k) {
    f.share = read_share(text);
    return f;
  }
  settings words("wire format", text);
  if (f.encoding == wire_encoding::int8) f.block = take_block(words, int8_block);
  if (f.encoding == wire_encoding::one_bit) f.block = take_block(words, one_bit_block);
  words.require_nothing_left();
  return f;
}

std::string to_string(const wire_format& f) {
  const std::string_view name = name_of_encoding(f.encoding);
  if (f.encoding == wire_encoding::top_k) return fmt::format("{}:{}", name, exact_text(f.share));
  if (f.block > 0) return fmt::format("{}:block={}", name, f.block);
  return std::string(name);
}

std::span<const wire_format_form> wire_format_forms() { return format_forms; }

wire_layout::wire_layout(const wire_format& f, std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max())
    throw shape_error(fmt::format("{}: {} numbers are more than 32 bits can count; send them in parts",
                                  to_string(f), count));
  header = {f.encoding, static_cast<std::uint32_t>(count), f.block};
  const std::size_t blocks = f.block == 0 ? 0 : (count + f.block - 1) / f.block;
  switch (f.encoding) {
  case wire_encoding::float32:
    second = 4 * count;
    break;
  case wire_encoding::float16:
  case wire_encoding::bfloat16:
    second = 2 * count;
    break;
  case wire_encoding::int8:
    first = 4 * blocks;
    second = count;
    break;
  case wire_encoding::top_k:
    header.setting = static_cast<std::uint32_t>(places_of(f.share, count));
    first = second = std::size_t{4} * header.setting;
    break;
  case wire_encoding::one_bit:
    first = 8 * blocks;
    second = (count + 7) / 8;
    break;
  }
}

} // namespace mailgrad
