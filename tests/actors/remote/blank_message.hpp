#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/message_table.hpp>
#include <mailgrad/files/archive.hpp>

#include <span>

namespace mailgrad::remote {

/// Reads a message whose numbers are all 0, whose lists are empty, and whose texts are this one.
class blank_fields final : public archive {
public:
  explicit blank_fields(std::string text) : text_(std::move(text)) {}

  bool reads() const noexcept override { return true; }
  void version(std::uint64_t) override {}
  void floats(std::string_view, std::span<float>) override {}
  void hold(std::string_view, std::shared_ptr<const void>, std::span<const float>) override {}
  const archived_array& array(std::string_view) override { return none_; }
  const std::string& text() const noexcept { return text_; }

private:
  void open(std::string_view name) override { at_.emplace_back(name); }
  void open(std::size_t) override { at_.emplace_back(); }
  void close() noexcept override { at_.pop_back(); }
  [[noreturn]] void fail(const std::string& what) const override { throw archive_error(what); }
  void value(bool& x) override { x = false; }
  void value(double& x) override { x = 0; }
  /// The fields of a part of a checkpoint are JSON.
  void value(std::string& x) override { x = at_.back() == "text" && at_.size() > 1 ? "{}" : text_; }
  void number(std::uint64_t& x, std::uint64_t) override { x = 0; }
  void number(std::int64_t& x, std::int64_t, std::int64_t) override { x = 0; }
  bool presence(bool) override { return false; }
  std::size_t entries(std::size_t here) override { return here; }
  std::vector<std::string> names(std::vector<std::string>) override { return {}; }

  std::string text_;
  std::vector<std::string> at_;
  archived_array none_;
};

inline bool has_values(message_kind kind) {
  return kind == kind_of<push_gradient>() || kind == kind_of<dealt_batch>() ||
         kind == kind_of<shard_weights>();
}

/// A message of this kind that says nothing. An actor in it is `somebody`.
inline caf::message blank_message(message_kind kind, const caf::actor& somebody, std::string text = {}) {
  if (kind == kind_of<push_gradient>()) return caf::make_message(push_gradient{});
  if (kind == kind_of<dealt_batch>()) return caf::make_message(dealt_batch{});
  if (kind == kind_of<shard_weights>()) return caf::make_message(shard_weights{});
  address_book book;
  book.add({}, somebody);
  blank_fields blank(std::move(text));
  field_inspector fields(blank, book);
  return read_fields(kind, fields);
}

inline std::vector<message_kind> all_kinds() {
  std::vector<message_kind> all;
  for (message_kind kind = 0; kind < 1000; ++kind)
    if (!name_of(kind).empty()) all.push_back(kind);
  return all;
}
/// Those that need no form of a run's values.
inline std::vector<message_kind> kinds_without_values() {
  std::vector<message_kind> some = all_kinds();
  std::erase_if(some, has_values);
  return some;
}

/// One of those to whom such a message may go, or whose words it may be.
inline duty some_duty(message_kind kind, bool (*may)(message_kind, duty) noexcept) {
  for (unsigned d = 0; d <= static_cast<unsigned>(last_duty); ++d)
    if (may(kind, static_cast<duty>(d))) return static_cast<duty>(d);
  return duty::nobody;
}

} // namespace mailgrad::remote
