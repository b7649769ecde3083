#include <mailgrad/data/formats/sniff.hpp>

#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

constexpr std::size_t head_bytes = std::size_t{1} << 16;
constexpr std::size_t head_lines = 16;

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

std::string_view cut_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

/// Whether a line looks like "label index:value ..." or "label qid:query ...".
bool is_sparse_row(std::string_view line) {
  constexpr std::string_view blanks = " \t";
  const auto end = line.find_first_of(blanks);
  if (end == std::string_view::npos || !parse_number(line.substr(0, end))) return false;
  const std::string_view rest = line.substr(end);
  const std::string_view entry = rest.substr(std::min(rest.size(), rest.find_first_not_of(blanks)));
  const auto colon = entry.find(':');
  if (colon == std::string_view::npos) return false;
  return entry.starts_with("qid:") || parse_number(entry.substr(0, colon)).has_value();
}

/// Whether a line looks like "user::item::rating::time".
bool is_rating(std::string_view line) {
  const auto end = line.find("::");
  if (end == std::string_view::npos || !parse_number(line.substr(0, end))) return false;
  const auto next = line.find("::", end + 2);
  return next != std::string_view::npos && line.find("::", next + 2) != std::string_view::npos;
}

/// Whether a line has a number before or after its first delimiter. Prose has delimiters, too, so they alone
/// prove nothing.
bool is_delimited_row(std::string_view line) {
  const auto delimiter = line.find_first_of(",;\t");
  if (delimiter == std::string_view::npos) return false;
  const std::string_view second = line.substr(delimiter + 1);
  return parse_number(line.substr(0, delimiter)) ||
         parse_number(second.substr(0, second.find_first_of(",;\t\r")));
}

/// Whether a text in UTF-16 has rows of fields. No other format is read in UTF-16.
bool is_delimited_utf16(std::string_view head) {
  const std::string decoded = beginning_in_utf8(head);
  if (decoded == head || !is_text(decoded)) return false;
  std::string_view rest = decoded;
  for (std::size_t i = 0; i < head_lines && !rest.empty(); ++i)
    if (is_delimited_row(cut_line(rest))) return true;
  return false;
}

struct advice {
  std::string_view first_bytes;
  std::string_view words;
};

constexpr std::string_view one_picture =
    "one picture; name the folder that has a folder for each class, or predict it by --picture-files";

constexpr std::string_view packed = "a file packed by bzip2 or xz; unpack it, or pack it by gzip";

constexpr std::array known_others{
    advice{"PAR1", "a Parquet file; write it as CSV: pandas.read_parquet(f).to_csv('f.csv', index=False)"},
    advice{"BZh", packed},
    advice{"\xFD"
           "7zXZ",
           packed},
    advice{"PK\3\4", "a ZIP archive, or a workbook of Excel; unpack it, or save the sheet as CSV"},
    advice{"\x89PNG", one_picture},
    advice{"\xFF\xD8\xFF", one_picture},
    advice{"\xFF\xFE", "a text in UTF-16 that is no CSV; write it in UTF-8"},
    advice{"\xFE\xFF", "a text in UTF-16 that is no CSV; write it in UTF-8"}};

std::string_view advice_in(std::string_view head) {
  const auto found =
      std::ranges::find_if(known_others, [=](const advice& a) { return head.starts_with(a.first_bytes); });
  return found == known_others.end() ? std::string_view{} : found->words;
}

} // namespace

std::string in_small_letters(std::string_view name) {
  std::string small(name);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return small;
}

file_format format_of_name(std::string_view full_name) {
  const std::string small = in_small_letters(full_name);
  std::string_view name = small;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  struct rule {
    std::string_view suffix;
    file_format format;
  };
  constexpr std::array rules{rule{".bin", file_format::cifar},  rule{".csv", file_format::csv},
                             rule{".data", file_format::csv},   rule{".tra", file_format::csv},
                             rule{".tes", file_format::csv},    rule{".libsvm", file_format::libsvm},
                             rule{".svm", file_format::libsvm}, rule{"-vect", file_format::libsvm},
                             rule{".txt", file_format::text},   rule{".npz", file_format::npz},
                             rule{".npy", file_format::npy},    rule{"ratings.dat", file_format::ratings}};
  const auto found = std::ranges::find_if(rules, [=](const rule& r) { return name.ends_with(r.suffix); });
  return found == rules.end() ? file_format::automatic : found->format;
}

file_format format_of_content(const std::filesystem::path& file) {
  byte_source source{file};
  const std::vector<std::uint8_t> bytes = read_up_to(source, head_bytes);
  std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (head.starts_with(byte_order_mark)) head.remove_prefix(byte_order_mark.size());
  if (head.starts_with(std::string_view("\0\0\x08", 3))) return file_format::idx;
  if (head.starts_with("PK\3\4") && head.find(".npy") != std::string_view::npos) return file_format::npz;
  if (head.starts_with(npy_magic)) return file_format::npy;
  if (is_delimited_utf16(head)) return file_format::csv;
  if (head.empty() || !is_text(head) || !advice_in(head).empty()) return file_format::automatic;
  std::string_view rest = head;
  for (std::size_t i = 0; i < head_lines && !rest.empty(); ++i) {
    const std::string_view line = cut_line(rest);
    if (line.starts_with('#')) continue; // a comment may have commas
    if (is_rating(line)) return file_format::ratings;
    if (is_sparse_row(line)) return file_format::libsvm;
    if (is_delimited_row(line)) return file_format::csv;
  }
  return file_format::text;
}

std::string_view advice_on(const std::filesystem::path& file) {
  byte_source source{file};
  const std::vector<std::uint8_t> bytes = read_up_to(source, 8);
  return advice_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

} // namespace mailgrad
