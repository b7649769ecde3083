#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

// Finds the names of a functor's fields, so that plugin.hpp can compare them with the names of its settings.
// C++20 cannot list fields. But g++ and clang write the name of a field into the name of a function that has
// the field's address as a template argument.

namespace mailgrad {

template <class T>
struct held_fields {
  T value;
};

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

/// This object is never defined: only the addresses of its fields are used.
template <class T>
extern const held_fields<T> never_made;

template <class Field>
struct field_address {
  const Field* value;
};
template <class Field>
field_address(const Field*) -> field_address<Field>;

template <class... Fields>
static consteval auto addresses(const Fields&... fields) {
  return std::tuple{field_address{&fields}...};
}

/// The most fields whose names field_names() finds.
inline constexpr std::size_t most_named_fields = 9;

template <class T, std::size_t count>
static consteval auto field_addresses() {
  static_assert(count > 0 && count <= most_named_fields);
  auto& x = never_made<T>.value;
  if constexpr (count == 1) {
    auto& [a] = x;
    return addresses(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = x;
    return addresses(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = x;
    return addresses(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = x;
    return addresses(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = x;
    return addresses(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = x;
    return addresses(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = x;
    return addresses(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = x;
    return addresses(a, b, c, d, e, f, g, h);
  } else {
    auto& [a, b, c, d, e, f, g, h, i] = x;
    return addresses(a, b, c, d, e, f, g, h, i);
  }
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// A text such as "... field_address<float>{&never_made.value.beta1}]", whose last word is the field's name.
template <field_address field>
static consteval const char* text_with_field() {
  return __PRETTY_FUNCTION__;
}

static consteval std::string_view last_word(std::string_view text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  text = text.substr(0, text.find_last_of(letters) + 1);
  return text.substr(text.find_last_not_of(letters) + 1);
}

/// The names of all fields of T, an aggregate of `count` fields.
template <class T, std::size_t count>
static consteval std::array<std::string_view, count> field_names() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<std::string_view, count>{
        last_word(text_with_field<std::get<i>(field_addresses<T, count>())>())...};
  }
  (std::make_index_sequence<count>{});
}

struct two_fields {
  float first, second;
};

/// Whether this compiler writes names as expected; if not, the names of fields are not checked.
static constexpr bool knows_field_names =
    field_names<two_fields, 2>() == std::array<std::string_view, 2>{"first", "second"};

} // namespace mailgrad
