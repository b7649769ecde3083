#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <concepts>

// A user's own cure of staleness is a class that derives from `cure` and has a name.
//
//     class fading final : public mailgrad::cure {
//     public:
//       static constexpr std::string_view cure_name = "fading";
//       static constexpr std::size_t numbers = 1;  // the most numbers after the colon; 0 if left out
//       fading(std::span<const double> numbers, const mailgrad::cure_site& site);
//       ...
//     };
//
// A program that contains the class uses it like any other cure:
//
//     options.cure = custom_cure<fading>("0.5");
//
// The tool loads it from a shared library whose source ends with MAILGRAD_CURE(fading):
//
//     mailgrad train --cure ./libfading.so:0.5
//
// A library needs Mailgrad's headers only. It must be built with the compiler that built Mailgrad, because
// C++ objects pass between the two.

namespace mailgrad {

/// Raised when `cure` or this header changes, because older libraries do not work then.
inline constexpr std::uint32_t custom_cure_version = 3;

/// The description of such a class.
struct custom_cure_entry {
  std::uint32_t interface_version = 0;
  std::string_view name;
  std::size_t most_numbers = 0; ///< after the colon; each is at least 0, and all may be left out
  std::unique_ptr<cure> (*make)(std::span<const double>, const cure_site&) = nullptr;
};

template <std::derived_from<cure> C>
constexpr std::size_t most_numbers_of() {
  if constexpr (requires { C::numbers; })
    return C::numbers;
  else
    return 0;
}

template <std::derived_from<cure> C>
std::unique_ptr<cure> make_custom_cure(std::span<const double> n, const cure_site& site) {
  return std::make_unique<C>(n, site);
}

template <std::derived_from<cure> C>
inline constexpr custom_cure_entry cure_entry{custom_cure_version, C::cure_name, most_numbers_of<C>(),
                                              make_custom_cure<C>};

/// Makes the cure known to cure_spec. The same entry may be registered twice.
/// Errors  std::invalid_argument: the name is malformed, or another cure has it.
/// Threads any.
void register_cure(const custom_cure_entry& entry);
/// Makes the cure of a plug-in that is loaded known by this word: its file, here or in another process.
/// Errors  std::invalid_argument: it cannot be used, or another cure has this word.
void register_cure(const custom_cure_entry& entry, std::string_view word);

/// Registers the class, and returns the text for `training_options::cure`.
/// Errors  as register_cure().
template <std::derived_from<cure> C>
std::string custom_cure(std::string_view numbers = {}) {
  register_cure(cure_entry<C>);
  return std::string(C::cure_name) + (numbers.empty() ? "" : ":") + std::string(numbers);
}

} // namespace mailgrad

/// Makes a shared library a plug-in with this cure.
#define MAILGRAD_CURE(C)                                                                                     \
  extern "C" __attribute__((visibility("default"))) const void* mailgrad_plugin_cure() {                     \
    return &mailgrad::cure_entry<C>;                                                                         \
  }
