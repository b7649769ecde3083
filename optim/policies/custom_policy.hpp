#pragma once

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <concepts>

// A user's own policy is a class that derives from `policy` and has a name.
//
//     class every_other final : public mailgrad::policy {
//     public:
//       static constexpr std::string_view policy_name = "every-other";
//       explicit every_other(std::uint64_t n);     // the number in "every-other:2"; or none, or two
//       ...
//     };
//
// A program that contains the class uses it like any other policy:
//
//     options.policy = custom_policy<every_other>("2");
//
// The tool loads it from a shared library whose source ends with MAILGRAD_POLICY(every_other):
//
//     mailgrad train --policy ./libevery_other.so:2
//
// A library needs Mailgrad's headers only. It must be built with the compiler that built Mailgrad, because
// C++ objects pass between the two.

namespace mailgrad {

/// Raised when `policy` or this header changes, because older libraries do not work then.
inline constexpr std::uint32_t custom_policy_version = 7;

/// The description of such a class.
struct custom_policy_entry {
  std::uint32_t interface_version = 0;
  std::string_view name;
  std::size_t numbers = 0; ///< after the colon, at most two
  std::unique_ptr<policy> (*make)(std::span<const std::uint64_t>, world_size) = nullptr;
};

/// Numbers that a class takes, each as std::uint64_t; behind them it may ask for the world_size.
template <std::derived_from<policy> P>
constexpr std::size_t numbers_of() {
  using number = std::uint64_t;
  if (std::is_constructible_v<P, number, number> || std::is_constructible_v<P, number, number, world_size>)
    return 2;
  return std::is_constructible_v<P, number> || std::is_constructible_v<P, number, world_size> ? 1 : 0;
}

template <std::derived_from<policy> P>
std::unique_ptr<policy> make_custom_policy([[maybe_unused]] std::span<const std::uint64_t> n,
                                           [[maybe_unused]] world_size workers) {
  using number = std::uint64_t;
  if constexpr (std::is_constructible_v<P, number, number, world_size>)
    return std::make_unique<P>(n[0], n[1], workers);
  else if constexpr (std::is_constructible_v<P, number, number>)
    return std::make_unique<P>(n[0], n[1]);
  else if constexpr (std::is_constructible_v<P, number, world_size>)
    return std::make_unique<P>(n[0], workers);
  else if constexpr (std::is_constructible_v<P, number>)
    return std::make_unique<P>(n[0]);
  else if constexpr (std::is_constructible_v<P, world_size>)
    return std::make_unique<P>(workers);
  else
    return std::make_unique<P>();
}

template <std::derived_from<policy> P>
inline constexpr custom_policy_entry policy_entry{custom_policy_version, P::policy_name, numbers_of<P>(),
                                                  make_custom_policy<P>};

/// Makes the policy known to make_policy(). The same entry may be registered twice.
/// Errors  std::invalid_argument: the name is malformed, or another policy has it.
/// Threads any.
void register_policy(const custom_policy_entry& entry);
/// Makes the policy of a plug-in that is loaded known by this word: its file, here or in another process.
/// Errors  std::invalid_argument: it cannot be used, or another policy has this word.
void register_policy(const custom_policy_entry& entry, std::string_view word);

/// Registers the class, and returns the text for `training_options::policy`.
/// Errors  as register_policy().
template <std::derived_from<policy> P>
std::string custom_policy(std::string_view numbers = {}) {
  register_policy(policy_entry<P>);
  return std::string(P::policy_name) + (numbers.empty() ? "" : ":") + std::string(numbers);
}

} // namespace mailgrad

/// Makes a shared library a plug-in with this policy.
#define MAILGRAD_POLICY(P)                                                                                   \
  extern "C" __attribute__((visibility("default"))) const void* mailgrad_plugin_policy() {                   \
    return &mailgrad::policy_entry<P>;                                                                       \
  }
