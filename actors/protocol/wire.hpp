// How a message becomes bytes and text: `inspect` for CAF 0.17 and 1.x.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/optim/identity.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace mailgrad {
namespace wire {

template <class T>
struct named_field {
  std::string_view name;
  T& value;
};
template <class T>
named_field<T> field(std::string_view name, T& value) {
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

/// The body of an `inspect`: `return wire::fields(f, x, wire::field("a", x.a), ...);`.
template <class Inspector, class T, class... Ts>
auto fields(Inspector& f, [[maybe_unused]] T& x, named_field<Ts>... xs) {
  if constexpr (names_fields<Inspector>)
    (f.field(xs.name, xs.value), ...);
  else if constexpr (caf_compat::is_caf_1)
    return f.object(x).fields(f.field(xs.name, xs.value)...);
  else
    return f(on_wire(xs.value)...);
}

/// The names in "shard, entries, deals".
template <std::size_t Count>
constexpr std::array<std::string_view, Count> names_in(std::string_view list) {
  std::array<std::string_view, Count> names;
  for (std::string_view& name : names) {
    const std::size_t end = std::min(list.find(','), list.size());
    name = list.substr(0, end);
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return names;
}
template <class Inspector, class T, std::size_t Count, class... Ts>
auto fields(Inspector& f, T& x, const std::array<std::string_view, Count>& names, Ts&... values) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return fields(f, x, field(names[I], values)...); }
  (std::index_sequence_for<Ts...>{});
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

/// The `inspect` of a message: MAILGRAD_FIELDS(order_noted, shard, entries, deals) has all fields of the
/// structure, in their order.
#define MAILGRAD_FIELDS(type, ...) MAILGRAD_FIELDS_FOR(class, type, __VA_ARGS__)
/// The same for an inspector that names fields alone; CAF never sees these.
#define MAILGRAD_FIELDS_BY_NAME(type, ...) MAILGRAD_FIELDS_FOR(wire::names_fields, type, __VA_ARGS__)
#define MAILGRAD_FIELDS_FOR(kind, type, ...)                                                                 \
  template <kind Inspector>                                                                                  \
  auto inspect(Inspector& inspector_, type& message_) {                                                      \
    auto& [__VA_ARGS__] = message_;                                                                          \
    static constexpr std::string_view list_ = #__VA_ARGS__;                                                  \
    static constexpr auto names_ = wire::names_in<1 + std::ranges::count(list_, ',')>(list_);                \
    return wire::fields(inspector_, message_, names_, __VA_ARGS__);                                          \
  }

/// A message without fields.
template <class Inspector, class Message>
requires std::is_empty_v<Message>
auto inspect(Inspector& f, Message& x) { return wire::fields(f, x); }

/// The numbers of optim/identity.hpp, each a type of its own.
template <class T>
concept wrapped_number = std::same_as<T, rank> || std::same_as<T, shard_index> ||
    std::same_as<T, step_number> || std::same_as<T, version_number> || std::same_as<T, policy_epoch> ||
    std::same_as<T, run_id> || std::same_as<T, incarnation_number>;
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
