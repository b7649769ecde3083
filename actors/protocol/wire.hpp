// How a message becomes bytes and text: `inspect` for CAF 0.17 and 1.x.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/optim/identity.hpp>

#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mailgrad {
namespace wire {

template <class T>
struct named_field {
  const char* name;
  T& value;
};
template <class T>
named_field<T> field(const char* name, T& value) {
  return {name, value};
}

/// An optional value as CAF 0.17 serialises it. That version does not know std::optional.
template <class T>
struct optional_on_wire {
  std::optional<T>& value;
};
template <class Inspector, class T>
typename Inspector::result_type inspect(Inspector& f, optional_on_wire<T>& x) {
  bool known = x.value.has_value();
  T value = x.value.value_or(T{});
  if constexpr (Inspector::reads_state) {
    return f(known, value);
  } else {
    auto failed = f(known, value);
    if (!failed) x.value = known ? std::optional<T>(value) : std::nullopt;
    return failed;
  }
}
template <class T>
T& on_wire(T& value) {
  return value;
}
template <class T>
optional_on_wire<T> on_wire(std::optional<T>& value) {
  return {value};
}

/// An inspector of our own, which gets every field by its name: field_inspector (actors/remote/).
template <class Inspector>
concept names_fields = Inspector::names_fields;

/// The body of every `inspect`: `return wire::fields(f, x, wire::field("a", x.a), ...);`.
template <class Inspector, class T, class... Ts>
auto fields(Inspector& f, [[maybe_unused]] T& x, named_field<Ts>... xs) {
  if constexpr (names_fields<Inspector>)
    (f.field(xs.name, xs.value), ...);
  else if constexpr (caf_compat::is_caf_1)
    return f.object(x).fields(f.field(xs.name, xs.value)...);
  else
    return f(on_wire(xs.value)...);
}

/// The body of an `inspect` for data that means something in its own process only: serialising it fails.
template <class Inspector>
auto refuse_to_leave([[maybe_unused]] Inspector& f) {
  const auto why = [] { return std::string("memory of a process was to be sent to another"); };
  if constexpr (names_fields<Inspector>)
    throw std::logic_error(why());
  else if constexpr (caf_compat::is_caf_1)
    return f.emplace_error(caf::sec::runtime_error, why()), false;
  else if constexpr (!std::is_void_v<typename Inspector::result_type>) // else it is printed
    return caf::make_error(caf::sec::runtime_error, why());
}

} // namespace wire

/// The numbers of optim/identity.hpp, each a type of its own.
template <class T>
concept wrapped_number = std::same_as<T, rank> || std::same_as<T, shard_index> ||
    std::same_as<T, step_number> || std::same_as<T, version_number> || std::same_as<T, policy_epoch> ||
    std::same_as<T, run_id> || std::same_as<T, incarnation>;
template <class Inspector, wrapped_number Id>
auto inspect(Inspector& f, Id& x) {
  return wire::fields(f, x, wire::field("value", x.value));
}

#if CAF_MAJOR_VERSION >= 1
/// Serialises our enumerations as integers, which CAF 0.17 does by itself.
template <class Inspector, class Enum>
requires std::is_enum_v<Enum>
bool inspect(Inspector& f, Enum& x) {
  using rep = std::underlying_type_t<Enum>;
  return f.apply([&x] { return static_cast<rep>(x); },
                 [&x](rep y) { return x = static_cast<Enum>(y), true; });
}
#endif

} // namespace mailgrad
