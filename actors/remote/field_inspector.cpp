#include <mailgrad/actors/remote/field_inspector.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

namespace mailgrad::remote {

void field_inspector::field(std::string_view name, caf::actor& x) {
  actor_address a = reads() ? actor_address{} : book_.of(x);
  archive_.group(name, [&] {
    archive_.choice("duty", a.what, last_duty);
    archive_.field("number", a.number);
  });
  if (!reads()) return;
  x = book_.at(a);
  if (!x) throw archive_error(fmt::format("{}: {} is not known here", name, to_string(a)));
}

void field_inspector::field(std::string_view name, snapshot& x) {
  if (!reads()) return archive_.hold(name, nullptr, x ? x.on_host() : std::span<const float>());
  const std::span<const float> told = archive_.array(name).values;
  x = {};
  if (told.empty()) return;
  block copy = block::for_overwrite(told.size_bytes());
  std::memcpy(copy.data(), told.data(), told.size_bytes());
  x = snapshot(std::make_shared<memory>(std::move(copy)));
}

void field_inspector::field(std::string_view name, std::shared_ptr<const saved_fields>& x) {
  archive_.group(name, [&] {
    if (reads())
      x = read_nested(archive_);
    else
      write_nested(archive_, *x);
  });
}

} // namespace mailgrad::remote
