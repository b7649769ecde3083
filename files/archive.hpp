#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mailgrad {

/// An archive lacks a field, or has another one than the reader expects. `what()` is one line with the path
/// of the field: "policy/clocks: expected 2 entries, found 3".
class archive_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class archive;

/// A class whose state an archive keeps: `keep` names each field once, for writing and for reading.
template <class T>
concept kept = requires(T& x, archive& a) {
  x.keep(a);
};

/// A class of a lower folder, such as a shape, for which a function `keep(archive&, T&)` beside it does that.
template <class T>
concept kept_from_outside = !kept<T> && std::is_class_v<T> && requires(T & x, archive& a) {
  keep(a, x);
};

/// A number with a type of its own, such as a rank.
template <class T>
concept kept_number = !kept<T> && !kept_from_outside<T> && std::is_class_v<T> && requires(T & x) {
  requires std::unsigned_integral<std::remove_reference_t<decltype(x.value)>>;
};

/// An array of floats in an archive.
struct archived_array {
  std::string path; ///< of the field, as "optimizer/velocity"
  std::shared_ptr<const void> owner;
  std::span<const float> values; ///< in memory of `owner`
};

/// Takes or gives the state of some objects as named fields. One function of each class names them, for
/// writing and for reading:
///
///     void keep(archive& a) override {
///       a.version(1);
///       a.field("clocks", clocks_);
///     }
///
/// A class in a plug-in may do so as well, since this class has no code outside of its header. saved_fields
/// is the archive that collects fields and gives them back.
/// Errors   archive_error when reading: a field is missing, is of another kind or length, or its object has a
///          version that this build does not know.
/// Threads  one caller at a time.
class archive {
public:
  virtual ~archive() = default;
  archive(const archive&) = delete;
  archive& operator=(const archive&) = delete;

  /// Whether fields are read; if not, they are written.
  virtual bool reads() const noexcept = 0;

  /// States the version of the meaning of the present object's fields, or requires it.
  virtual void version(std::uint64_t current) = 0;

  template <class T>
  void field(std::string_view name, T& x) {
    entry(name, x);
  }
  /// Several fields: the names, and then as many values.
  template <std::size_t N, class... T>
  requires(N == sizeof...(T)) void fields(const std::string_view (&names)[N], T&... values) {
    std::size_t next = 0;
    (field(names[next++], values), ...);
  }

  /// One of several names, which are numbered from 0 to `last`.
  template <class E>
  requires std::is_enum_v<E>
  void choice(std::string_view name, E& x, E last) {
    const scope inside(*this, name);
    auto wide = static_cast<std::uint64_t>(x);
    number(wide, static_cast<std::uint64_t>(last));
    x = static_cast<E>(wide);
  }

  /// Fields of an object that has no class of its own.
  template <std::invocable F>
  void group(std::string_view name, F&& fields) {
    const scope inside(*this, name);
    std::forward<F>(fields)();
  }

  /// The floats of an object, which are copied. Reading requires the same number of them.
  virtual void floats(std::string_view name, std::span<float> values) = 0;
  /// Writes an array without a copy. `owner` keeps it alive and unchanged until it is in a file.
  virtual void hold(std::string_view name, std::shared_ptr<const void> owner,
                    std::span<const float> values) = 0;
  /// Reads an array of any length. It lives as long as its owner.
  virtual const archived_array& array(std::string_view name) = 0;

protected:
  archive() = default;

private:
  class scope {
  public:
    template <class Place>
    scope(archive& a, Place where) : archive_(a) {
      a.open(where);
    }
    ~scope() { archive_.close(); }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

  private:
    archive& archive_;
  };

  template <class Place, class T>
  void entry(Place where, T& x) {
    const scope inside(*this, where);
    value(x);
  }

  virtual void open(std::string_view name) = 0;
  virtual void open(std::size_t index) = 0;
  virtual void close() noexcept = 0;
  /// Throws `what` with the path of the present place before it.
  [[noreturn]] virtual void fail(const std::string& what) const = 0;

  // The value at the present place.
  virtual void value(bool& x) = 0;
  virtual void value(double& x) = 0;
  virtual void value(std::string& x) = 0;
  virtual void number(std::uint64_t& x, std::uint64_t greatest) = 0;
  virtual void number(std::int64_t& x, std::int64_t least, std::int64_t greatest) = 0;
  virtual bool presence(bool present) = 0;
  virtual std::size_t entries(std::size_t count) = 0;
  virtual std::vector<std::string> names(std::vector<std::string> written) = 0;

  void value(float& x) {
    double wide = static_cast<double>(x);
    value(wide);
    x = static_cast<float>(wide);
  }
  template <std::unsigned_integral T>
  void value(T& x) {
    std::uint64_t wide = x;
    number(wide, std::numeric_limits<T>::max());
    x = static_cast<T>(wide);
  }
  template <std::signed_integral T>
  void value(T& x) {
    std::int64_t wide = x;
    number(wide, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    x = static_cast<T>(wide);
  }
  template <kept_number T>
  void value(T& x) {
    value(x.value);
  }
  template <kept T>
  void value(T& x) {
    x.keep(*this);
  }
  template <kept_from_outside T>
  void value(T& x) {
    keep(*this, x);
  }
  template <class T, std::size_t N>
  void value(std::array<T, N>& x) {
    if (entries(N) != N) fail("expected as many entries as there are here, " + std::to_string(N));
    for (std::size_t i = 0; i < N; ++i) entry(i, x[i]);
  }
  template <class T>
  void value(std::optional<T>& x) {
    if (!presence(x.has_value())) return x.reset();
    if (!x) x.emplace();
    value(*x);
  }
  template <class T>
  void value(std::vector<T>& x) {
    x.resize(entries(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
      if constexpr (std::same_as<T, bool>) {
        bool bit = x[i];
        entry(i, bit);
        x[i] = bit;
      } else {
        entry(i, x[i]);
      }
  }
  template <class A, class B>
  void value(std::pair<A, B>& x) {
    if (entries(2) != 2) fail("expected a pair");
    entry(std::size_t{0}, x.first);
    entry(std::size_t{1}, x.second);
  }
  template <class T>
  void value(std::map<std::string, T>& x) {
    std::vector<std::string> written;
    for (const auto& [name, of_name] : x) written.push_back(name);
    for (const std::string& name : names(std::move(written))) entry(std::string_view(name), x[name]);
  }
};

/// An archive of fields in memory: those that objects have written, or those that they shall read. Small
/// fields are a text in JSON, arrays of floats stand apart.
class saved_fields final : public archive {
public:
  /// To write.
  saved_fields();
  /// To read what was written before.
  /// Errors  archive_error: the text is no JSON object.
  saved_fields(const std::string& text, std::vector<archived_array> arrays);
  ~saved_fields() override;

  bool reads() const noexcept override;
  void version(std::uint64_t current) override;
  void floats(std::string_view name, std::span<float> values) override;
  void hold(std::string_view name, std::shared_ptr<const void> owner, std::span<const float> values) override;
  const archived_array& array(std::string_view name) override;

  /// What was written.
  std::string text() const;
  const std::vector<archived_array>& arrays() const noexcept;

private:
  void open(std::string_view name) override;
  void open(std::size_t index) override;
  void close() noexcept override;
  [[noreturn]] void fail(const std::string& what) const override;
  void value(bool& x) override;
  void value(double& x) override;
  void value(std::string& x) override;
  void number(std::uint64_t& x, std::uint64_t greatest) override;
  void number(std::int64_t& x, std::int64_t least, std::int64_t greatest) override;
  bool presence(bool present) override;
  std::size_t entries(std::size_t count) override;
  std::vector<std::string> names(std::vector<std::string> written) override;
  std::string path_of(std::string_view name) const;

  class tree;
  std::unique_ptr<tree> tree_;
};

} // namespace mailgrad
