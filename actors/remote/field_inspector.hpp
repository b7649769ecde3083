#pragma once

#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mailgrad::remote {

/// Writes messages into an archive, and reads them from one, by the `inspect` that each message has for CAF.
/// So a message is described once, wherever it goes.
///
/// A handle to an actor is written as its address, and read as whoever has that address in this process.
/// Errors  archive_error for what makes no message: also a handle that must be there and is not.
class field_inspector {
  template <class T>
  struct element {
    using type = T;
  };
  template <class T>
  struct element<std::vector<T>> {
    using type = T;
  };
  /// Whether the archive can write it by itself.
  template <class T>
  static constexpr bool is_archived = [] {
    using E = typename element<T>::type;
    return std::is_arithmetic_v<E> || std::same_as<E, std::string> || kept<E> || kept_number<E> ||
           kept_from_outside<E>;
  }();

public:
  static constexpr bool names_fields = true;

  field_inspector(archive& a, const address_book& book) : archive_(a), book_(book) {}

  bool reads() const noexcept { return archive_.reads(); }

  template <class T>
  void field(std::string_view name, T& x) {
    if constexpr (std::is_enum_v<T>) {
      auto number = static_cast<std::underlying_type_t<T>>(x);
      archive_.field(name, number);
      x = static_cast<T>(number);
    } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
      std::int64_t count = x.count();
      archive_.field(name, count);
      x = T{count};
    } else if constexpr (is_archived<T>) {
      archive_.field(name, x);
    } else {
      archive_.group(name, [&] { inspect(*this, x); });
    }
  }

  void field(std::string_view name, caf::actor& x);

  template <class T>
  void field(std::string_view name, std::optional<T>& x) {
    bool present = x.has_value();
    archive_.group(name, [&] {
      archive_.field("there", present);
      if (!present) return x.reset();
      if (!x) x.emplace();
      field("value", *x);
    });
  }

  template <class T>
  requires(!is_archived<T>) void field(std::string_view name, std::vector<T>& x) {
    std::uint64_t count = x.size();
    archive_.group(name, [&] {
      archive_.field("count", count);
      if (reads()) x.clear();
      for (std::uint64_t i = 0; i < count; ++i) { // what is read grows with what is there
        if (reads()) x.emplace_back();
        field(std::to_string(i), x[i]);
      }
    });
  }

  /// Weights. They are copied.
  void field(std::string_view name, snapshot& x);
  /// Part of a checkpoint.
  void field(std::string_view name, std::shared_ptr<const saved_fields>& x);

private:
  archive& archive_;
  const address_book& book_;
};

} // namespace mailgrad::remote
