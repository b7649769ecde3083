#pragma once

#include <mailgrad/files/archive.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Appends the low `Bytes` bytes of a number, the lowest first.
template <std::size_t Bytes>
void append_number(std::string& to, std::uint64_t number) {
  for (std::size_t i = 0; i < Bytes; ++i) to += static_cast<char>(number >> (8 * i) & 0xff);
}

/// The number in the first `Bytes` bytes; `bytes` must have at least that many.
template <std::size_t Bytes>
std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < Bytes; ++i)
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

/// Writes the fields of objects as bytes, one after the other and without their names. docs/graph_format.md
/// describes the bytes.
/// Threads  one caller at a time.
class byte_archive_writer final : public archive {
public:
  bool reads() const noexcept override { return false; }
  void version(std::uint64_t current) override;
  void floats(std::string_view name, std::span<float> values) override;
  void hold(std::string_view name, std::shared_ptr<const void> owner, std::span<const float> values) override;
  /// Errors  std::logic_error, because nothing can be read here.
  const archived_array& array(std::string_view name) override;

  const std::string& bytes() const noexcept { return bytes_; }

private:
  void open(std::string_view) override {}
  void open(std::size_t) override {}
  void close() noexcept override {}
  [[noreturn]] void fail(const std::string& what) const override;
  void value(bool& x) override;
  void value(double& x) override;
  void value(std::string& x) override;
  void number(std::uint64_t& x, std::uint64_t greatest) override;
  void number(std::int64_t& x, std::int64_t least, std::int64_t greatest) override;
  bool presence(bool present) override;
  std::size_t entries(std::size_t count) override;
  std::vector<std::string> names(std::vector<std::string> written) override;

  std::string bytes_;
};

/// Reads what byte_archive_writer wrote. The bytes may come from anybody: a count is compared with the bytes
/// that are left before memory is taken for it.
/// Errors   archive_error in one line: the field, the byte, what was expected and what was found.
/// Threads  one caller at a time.
class byte_archive_reader final : public archive {
public:
  /// `place` comes before the names of fields in errors, such as "graph". The bytes must live as long as the
  /// reader.
  explicit byte_archive_reader(std::string_view bytes, std::string place = {});

  bool reads() const noexcept override { return true; }
  void version(std::uint64_t current) override;
  void floats(std::string_view name, std::span<float> values) override;
  /// Errors  std::logic_error, because nothing can be written here.
  void hold(std::string_view name, std::shared_ptr<const void> owner, std::span<const float> values) override;
  const archived_array& array(std::string_view name) override;

  /// Errors  archive_error if bytes are left.
  void require_end() const;

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

  struct step {
    std::string_view name; ///< empty for an entry of a list
    std::size_t index = 0;
  };

  std::string path() const;
  std::uint8_t take_tag(std::string_view expected, std::uint8_t first, std::uint8_t last);
  std::string_view take(std::size_t count, std::string_view what);
  std::uint64_t take_number(std::string_view expected, std::uint8_t tag);
  std::size_t take_count(std::string_view what, std::uint8_t tag, std::size_t bytes_each);

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::string place_;
  std::vector<step> way_;
  std::deque<archived_array> arrays_; ///< a deque, because array() returns references
};

/// Writes a whole archive, such as a part of a checkpoint, as fields of another one.
void write_nested(archive& to, const saved_fields& fields);

/// Reads what write_nested() wrote.
/// Errors  archive_error.
std::shared_ptr<saved_fields> read_nested(archive& from);

/// Writes or reads a whole archive that may be null, in a group of this name.
/// Errors  archive_error.
void keep_nested(archive& a, std::string_view name, std::shared_ptr<saved_fields>& fields);

} // namespace mailgrad
