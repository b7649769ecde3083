#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace mailgrad::fuzz {

namespace {

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
