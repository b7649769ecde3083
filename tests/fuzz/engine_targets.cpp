#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <zlib.h>

#include <algorithm>
#include <cmath>

namespace mailgrad::fuzz {

namespace {

using message = std::vector<std::byte>;

wire_format format_of(fuzz_input& in) {
  const std::uint8_t choice = in.u8();
  wire_format f{static_cast<wire_encoding>(choice % 6)};
  if (f.encoding == wire_encoding::int8 || f.encoding == wire_encoding::one_bit)
    f.block = 16U << (choice / 6 % 8);
  if (f.encoding == wire_encoding::top_k) f.share = (choice / 6 + 1) / 64.0;
  return f;
}

/// The rest of the input, or as many bytes as a right message has, with its header.
message message_of(fuzz_input& in, const wire_format& f, std::size_t count, bool is_right) {
  const auto rest = in.rest();
  message m(rest.begin(), rest.end());
  if (!is_right) return m;
  const wire_layout layout(f, count);
  m.resize(layout.bytes());
  put_whole(m, 0, static_cast<std::uint32_t>(f.encoding));
  put_whole(m, 4, layout.header.count);
  put_whole(m, 8, layout.header.setting);
  return m;
}

bool promises_finite_numbers(wire_encoding e) {
  return e == wire_encoding::int8 || e == wire_encoding::top_k || e == wire_encoding::one_bit;
}

template <class T>
void read_kept(const std::string& text) {
  try {
    saved_fields in(text, {});
    T x{};
    in.field("x", x);
    saved_fields out;
    out.field("x", x);
    T again{};
    saved_fields(out.text(), {}).field("x", again);
  } catch (const archive_error& e) {
    require_one_line(e);
  }
}

constexpr std::size_t checksum_bytes = 4;

unsigned long checksum(std::string_view bytes) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

/// Appends `bytes` and the checksum of all so far.
void append_part(std::string& to, std::string_view bytes) {
  to += bytes;
  append_number<checksum_bytes>(to, checksum(to));
}

/// A recording of the parts that the input has, with right lengths and checksums, since a fuzzer finds none
/// by chance.
///
///     n: u16  n bytes of the header  (source: u8  n: u16  bytes)*
std::string recording_of(fuzz_input& in) {
  std::string bytes = "mgradrec";
  append_number<4>(bytes, 2);
  const std::string_view header = as_text(in.take(in.u16()));
  append_number<4>(bytes, header.size());
  append_part(bytes, header);
  while (!in.is_empty()) {
    const std::uint8_t source = in.u8();
    const std::string_view content = as_text(in.take(in.u16()));
    const bool is_text = source >= 0xfd && source <= 0xfe; // a switch or the end
    const std::size_t entry = source == 0xff ? 8 : is_text ? 1 : 16;
    std::string part;
    append_number<4>(part, source >= 0xfd ? 0xffffff00U + source : source);
    append_number<4>(part, content.size() / entry);
    part += content.substr(0, content.size() / entry * entry);
    append_part(bytes, part);
    if (source == 0xfe) return bytes + "recorded";
  }
  return bytes;
}

} // namespace

/// Which format, whether the header is right, how many numbers are expected, and the message.
void wire_numbers(std::span<const std::byte> input) {
  fuzz_input in(input);
  const wire_format f = format_of(in);
  const bool is_right = in.u8() % 4 != 0;
  const std::size_t count = in.u16() % 2048;
  const message m = message_of(in, f, count, is_right);
  constexpr float untouched = 42;
  std::vector<float> numbers(count, untouched);
  try {
    decode_numbers(f, m, numbers);
  } catch (const wire_error& e) {
    require_one_line(e);
    require(std::ranges::count(numbers, untouched) == static_cast<std::ptrdiff_t>(count),
            "a refused message has changed a number");
    return;
  }
  require(m.size() == encoded_bytes(f, count), "a message of another length was taken");
  if (promises_finite_numbers(f.encoding))
    require(std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }), "a number is not finite");
  if (f.encoding != wire_encoding::float32) return;
  message again(m.size());
  require(encode_numbers(f, numbers, {}, again) && again == m, "float32 does not come back as it was");
}

/// As wire_numbers(), with a table. A right message begins with a right header of rows.
void wire_rows(std::span<const std::byte> input) {
  fuzz_input in(input);
  const wire_format f = format_of(in);
  const bool is_right = in.u8() % 4 != 0;
  const table_extent table{in.u16() % std::size_t{1024}, in.u8() % std::size_t{33}};
  message m;
  if (is_right) {
    const std::size_t rows = in.u8();
    m.resize(8 + 4 * rows);
    put_whole(m, 0, static_cast<std::uint32_t>(rows));
    put_whole(m, 4, static_cast<std::uint32_t>(table.width));
    for (std::size_t i = 0; i < rows; ++i) put_whole(m, 8 + 4 * i, in.u16());
    const message values = message_of(in, f, rows * table.width, true);
    m.insert(m.end(), values.begin(), values.end());
  } else {
    m = message_of(in, f, 0, false);
  }
  decoded_rows to{{1}, {1}};
  try {
    decode_rows(f, m, table, to);
  } catch (const wire_error& e) {
    require_one_line(e);
    require(to.rows.empty(), "a refused message lists a row");
    return;
  }
  require(to.values.size() == to.rows.size() * table.width, "rows and values do not fit together");
  for (const std::int32_t row : to.rows)
    require(row >= 0 && static_cast<std::size_t>(row) < table.rows, "a row that the table lacks was taken");
}

/// The first byte chooses the header of a safetensors file or that of an array of numpy.
void headers_of_arrays(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool is_safetensors = in.u8() % 2 == 0;
  const std::uint64_t data_bytes = in.u16();
  const std::string_view text = as_text(in.rest());
  try {
    if (is_safetensors) {
      std::uint64_t end = 0;
      for (const stored_array& a : parse_safetensors_header("x", text, data_bytes).arrays) {
        require(a.begin == end && a.end >= a.begin, "arrays overlap or leave a gap");
        end = a.end;
      }
      require(end == data_bytes, "arrays end elsewhere than the file");
    } else {
      if (text.size() >= npy_preamble) parse_npy_preamble("x", "array 'x'", text.substr(0, npy_preamble));
      const npy_header header = parse_npy_text("x", "array 'x'", text);
      require(header.dims.rank() <= shape::max_rank, "an array has too many axes");
    }
  } catch (const file_error& e) {
    require_one_line(e);
  }
}

/// What checkpoints keep, as JSON.
void kept_fields(std::span<const std::byte> input) {
  const std::string text(as_text(input));
  read_kept<checkpoint_card>(text);
  read_kept<kept_schedule>(text);
  read_kept<feeder_position>(text);
  read_kept<judged_tests>(text);
  read_kept<worker_report>(text);
}

void model_cards(std::span<const std::byte> input) {
  try {
    const std::string card = to_json(parse_model_card(as_text(input)));
    require(to_json(parse_model_card(card)) == card, "a card changes on its way");
  } catch (const std::invalid_argument& e) {
    require_one_line(e);
  }
}

/// The first byte chooses parts with right checksums or the bytes as they are.
void recordings(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool as_they_are = in.u8() % 4 == 0;
  const std::string bytes = as_they_are ? std::string(as_text(in.rest())) : recording_of(in);
  for (const auto parse : {parse_recording, parse_killed_recording}) {
    try {
      require_repeatable(parse(bytes, "x.rec"));
    } catch (const recording_error& e) {
      require_one_line(e);
    }
  }
}

} // namespace mailgrad::fuzz
