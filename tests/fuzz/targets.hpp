#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mailgrad::fuzz {

/// A decoder of bytes that come from strangers, with what must hold whatever they are. A target returns for
/// every input. It lets through only what its decoder must never throw, or std::logic_error for a property
/// that does not hold.
using target_function = void(std::span<const std::byte> input);
struct target {
  std::string_view name; ///< also that of its folder in corpus/
  target_function* run;
};

target_function frame_fields, frames, greetings, arrivals, sessions, servers, rings; // net/
target_function wire_numbers, wire_rows;                                             // engine/wire/
target_function byte_archives, graphs, serialised_models;                // files/ and graph/serial/
target_function headers_of_arrays, kept_fields, model_cards, recordings; // files

inline constexpr target targets[] = {{"frame_fields", frame_fields},
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
                                     {"recordings", recordings}};

} // namespace mailgrad::fuzz
