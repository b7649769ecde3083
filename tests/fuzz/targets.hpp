#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mailgrad::fuzz {

/// A decoder of bytes that come from strangers, with what must hold whatever they are. A target returns for
/// every input. It lets through only what its decoder must never throw, or std::logic_error for a property
/// that does not hold.
struct target {
  std::string_view name; ///< also that of its folder in corpus/
  void (*run)(std::span<const std::byte> input);
};

// net/
void frame_fields(std::span<const std::byte> input);
void frames(std::span<const std::byte> input);
void greetings(std::span<const std::byte> input);
void arrivals(std::span<const std::byte> input);
void sessions(std::span<const std::byte> input);
void servers(std::span<const std::byte> input);
void rings(std::span<const std::byte> input);
// engine/wire/
void wire_numbers(std::span<const std::byte> input);
void wire_rows(std::span<const std::byte> input);
// files/ and graph/serial/
void byte_archives(std::span<const std::byte> input);
void graphs(std::span<const std::byte> input);
void serialised_models(std::span<const std::byte> input);
// Files
void headers_of_arrays(std::span<const std::byte> input);
void kept_fields(std::span<const std::byte> input);
void model_cards(std::span<const std::byte> input);
void recordings(std::span<const std::byte> input);

inline constexpr target targets[] = {
    {"frame_fields", frame_fields},
    {"frames", frames},
    {"greetings", greetings},
    {"arrivals", arrivals},
    {"sessions", sessions},
    {"servers", servers},
    {"rings", rings},
    {"wire_numbers", wire_numbers},
    {"wire_rows", wire_rows},
    {"byte_archives", byte_archives},
    {"graphs", graphs},
    {"serialised_models", serialised_models},
    {"headers_of_arrays", headers_of_arrays},
    {"kept_fields", kept_fields},
    {"model_cards", model_cards},
    {"recordings", recordings},
};

} // namespace mailgrad::fuzz
