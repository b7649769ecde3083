#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/error.hpp>

#include <vector>

namespace mailgrad {

/// Lets an archive keep a shape as the list of its extents.
///
/// Errors  archive_error, also for more extents than a shape has, or more elements than memory can hold.
inline void keep(archive& a, shape& dims) {
  std::vector<std::size_t> extents(dims.begin(), dims.end());
  a.field("extents", extents);
  if (!a.reads()) return;
  try {
    dims = shape(std::span<const std::size_t>(extents));
  } catch (const shape_error& e) {
    throw archive_error(e.what());
  }
}

/// An operation that a graph takes along to another process (serial/graph_bytes.hpp). A graph with an
/// operation that has no such form stays where it was built.
class serial_form {
public:
  virtual ~serial_form() = default;

  /// The name under which a registry knows the operation: "matmul", and "acme.huber" for an operation of a
  /// user's own. It never changes.
  virtual std::string_view kind() const noexcept = 0;
  virtual void write_attributes(archive& to) const = 0;
  virtual void read_attributes(archive& from) = 0;
};

/// Gives an operation its form. The operation derives from this class beside `operation`, with itself as T,
/// and names its attributes once, for writing and for reading:
///
///     class huber_operation : public operation, public serialisable<huber_operation> {
///     public:
///       static constexpr std::string_view custom_kind = "acme.huber";
///       void keep(archive& a) {
///         a.version(1);
///         a.field("delta", delta_);
///       }
///
/// The version changes with the meaning of the attributes, and a reader refuses another one than its own. An
/// operation without attributes has an empty keep(). Without `custom_kind`, its name() is the kind.
///
/// What is read may come from anybody: infer() has to refuse attributes, operands and a number of operands
/// that the kernel or the gradient cannot work with.
template <class T>
class serialisable : public serial_form {
public:
  std::string_view kind() const noexcept override {
    static_assert(
        !requires { T::own_kind; }, "own_kind is called custom_kind now");
    if constexpr (requires { T::custom_kind; })
      return T::custom_kind;
    else
      return static_cast<const T&>(*this).name();
  }

  /// Writes a copy, because the function that names the attributes may also change them.
  void write_attributes(archive& to) const override {
    static_assert(kept<T>, "the operation needs a public function `void keep(archive&)`");
    T copy(static_cast<const T&>(*this));
    copy.keep(to);
  }
  void read_attributes(archive& from) override { static_cast<T&>(*this).keep(from); }
};

} // namespace mailgrad
