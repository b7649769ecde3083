#include <mailgrad/files/npy_header.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/little_endian.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace mailgrad {

namespace {

constexpr std::size_t alignment = 64;

struct number_name {
  std::string_view name; ///< without the order of bytes
  npy_number what;
  std::size_t bytes;
};

constexpr auto number_names = std::to_array<number_name>({{"f8", npy_number::f64, 8},
                                                          {"f4", npy_number::f32, 4},
                                                          {"f2", npy_number::f16, 2},
                                                          {"i8", npy_number::i64, 8},
                                                          {"i4", npy_number::i32, 4},
                                                          {"i2", npy_number::i16, 2},
                                                          {"i1", npy_number::i8, 1},
                                                          {"u8", npy_number::u64, 8},
                                                          {"u4", npy_number::u32, 4},
                                                          {"u2", npy_number::u16, 2},
                                                          {"u1", npy_number::u8, 1},
                                                          {"b1", npy_number::boolean, 1}});

/// Takes a literal of Python apart. Nothing in it is evaluated.
class literal_reader {
public:
  literal_reader(const std::filesystem::path& file, std::string_view who, std::string_view text)
      : file_(file), who_(who), rest_(text) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw_malformed(file_, fmt::format("{}: {}", who_, what));
  }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void require(char c) {
    if (!take(c))
      fail(fmt::format("expected '{}' in the header, found {}", c, in_quotes(rest_.substr(0, 20))));
  }
  std::string_view text() {
    require('\'');
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) fail("expected the end of a text in the header, found none");
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }
  bool truth() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail(fmt::format("expected True or False in the header, found {}", in_quotes(rest_.substr(0, 20))));
  }
  std::vector<std::size_t> extents() {
    std::vector<std::size_t> all;
    require('(');
    while (!take(')')) {
      skip_blanks();
      std::size_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc{})
        fail(fmt::format("expected an extent in the header, found {}", in_quotes(rest_.substr(0, 20))));
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take('L'); // as Python 2 wrote it
      if (all.size() == shape::max_rank)
        fail(fmt::format("expected at most {} axes, found more", shape::max_rank));
      all.push_back(extent);
      if (!take(',')) {
        require(')');
        break;
      }
    }
    return all;
  }
  void require_end() {
    skip_blanks();
    if (!rest_.empty())
      fail(fmt::format("expected the end of the header, found {}", in_quotes(rest_.substr(0, 20))));
  }
  /// Whether a list begins: the fields of a record.
  bool begins_list() {
    skip_blanks();
    return rest_.starts_with('[') || rest_.starts_with('(');
  }

private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(" \n"))); }

  const std::filesystem::path& file_;
  std::string_view who_;
  std::string_view rest_;
};

struct number_type {
  npy_number numbers;
  bool is_big_endian;
};

number_type type_in(literal_reader& in) {
  if (in.begins_list()) in.fail("expected plain numbers, found records");
  const std::string_view type = in.text();
  if (type.find('O') != std::string_view::npos)
    in.fail("expected numbers, found Python objects, which would run code of the file");
  const std::string_view name = type.substr(type.empty() ? 0 : 1);
  const auto found = std::ranges::find(number_names, name, &number_name::name);
  if (found == number_names.end() || std::string_view("<>|").find(type.front()) == std::string_view::npos)
    in.fail(fmt::format("expected numbers or truth values, found type {}", in_quotes(type)));
  return {found->what, type.front() == '>'};
}

} // namespace

std::size_t byte_size(npy_number n) noexcept {
  return std::ranges::find(number_names, n, &number_name::what)->bytes;
}

npy_text_place parse_npy_preamble(const std::filesystem::path& file, std::string_view who,
                                  std::string_view bytes) {
  const auto fail = [&](const std::string& what) { throw_malformed(file, fmt::format("{}: {}", who, what)); };
  if (bytes.size() < npy_preamble || !bytes.starts_with(npy_magic))
    fail(fmt::format("expected an array of numpy, found {}", in_quotes(bytes.substr(0, npy_magic.size()))));
  const auto version = static_cast<unsigned char>(bytes[npy_magic.size()]);
  if (version < 1 || version > 3)
    fail(fmt::format("expected version 1, 2 or 3 of the format, found {}", version));
  const std::string_view length = bytes.substr(npy_magic.size() + 2);
  npy_text_place place{npy_magic.size() + 4, static_cast<std::size_t>(number_in<2>(length))};
  if (version > 1) place = {npy_magic.size() + 6, static_cast<std::size_t>(number_in<4>(length))};
  if (place.length > longest_npy_header)
    fail(fmt::format("expected a header of at most {} bytes, found {}", longest_npy_header, place.length));
  return place;
}

npy_header parse_npy_text(const std::filesystem::path& file, std::string_view who, std::string_view text) {
  literal_reader in(file, who, text);
  std::optional<number_type> type;
  std::optional<bool> fortran;
  std::optional<std::vector<std::size_t>> extents;
  in.require('{');
  while (!in.take('}')) {
    const std::string_view key = in.text();
    in.require(':');
    if (key == "descr" && !type)
      type = type_in(in);
    else if (key == "fortran_order" && !fortran)
      fortran = in.truth();
    else if (key == "shape" && !extents)
      extents = in.extents();
    else
      in.fail(fmt::format("expected descr, fortran_order and shape once each, found {}", in_quotes(key)));
    if (!in.take(',')) {
      in.require('}');
      break;
    }
  }
  in.require_end();
  if (!type || !fortran || !extents) in.fail("the header lacks descr, fortran_order or shape");
  npy_header header{type->numbers, {}, type->is_big_endian, *fortran && extents->size() > 1};
  try {
    header.dims = shape(*extents);
  } catch (const std::exception&) {
    in.fail("it has more numbers than memory can hold");
  }
  return header;
}

std::string npy_header_for(npy_number n, const shape& dims) {
  const auto form = std::ranges::find(number_names, n, &number_name::what);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (",
                                 form->bytes > 1 ? '<' : '|', form->name);
  for (const std::size_t extent : dims) text += fmt::format("{}, ", extent);
  if (dims.rank() > 1) text.resize(text.size() - 2);
  if (dims.rank() == 1) text.resize(text.size() - 1);
  text += "), }";
  const std::size_t before = npy_magic.size() + 4;
  text.append(alignment - (before + text.size() + 1) % alignment, ' ');
  text += '\n';
  std::string bytes = std::string(npy_magic) + '\1' + '\0';
  append_number<2>(bytes, text.size());
  return bytes + text;
}

} // namespace mailgrad
