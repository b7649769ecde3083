#include <mailgrad/engine/shard/kept_gradient.hpp>

#include <mailgrad/optim/kept_memory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::size_t most_addends = 4096; ///< a worker has no more devices

/// Writes the floats of `whole` that lie in `part`; fewer if it ends before.
void write_part(archive& a, std::string_view name, const std::shared_ptr<const gradient>& owner,
                std::span<const float> whole, const shard_range& part) {
  const std::size_t begin = std::min(part.begin, whole.size());
  a.hold(name, owner, whole.subspan(begin, std::min(part.end, whole.size()) - begin));
}

/// A block that is as long as it must be for readers of `part`, which alone has values.
block read_part(archive& a, std::string_view name, const shard_range& part) {
  const archived_array& found = a.array(name);
  if (found.values.empty()) return {};
  if (found.values.size() != part.size())
    throw archive_error(
        fmt::format("{}: expected {} floats, found {}", found.path, part.size(), found.values.size()));
  block whole(part.end * sizeof(float));
  std::ranges::copy(found.values, whole.as<float>().begin() + static_cast<std::ptrdiff_t>(part.begin));
  return whole;
}

/// A gradient on a card goes back to its worker when nobody holds it any more, so the shard holds it until it
/// has been copied.
void write_dense(archive& a, const std::shared_ptr<const gradient>& of, shard& at) {
  lane& l = *at.at();
  const shard_range part = at.dense_range();
  if (!is_on_card(l)) return write_part(a, "dense", of, of->dense.on_host<float>(), part);
  at.wait_for(*of); // its turn may not have come
  const std::shared_ptr<const memory> there(of, &of->dense_for(l.where()));
  hold_floats(a, "dense", there, part.begin, part.size(), l);
  at.hold(of);
}

memory read_dense(archive& a, shard& at) {
  block whole = read_part(a, "dense", at.dense_range());
  if (!is_on_card(*at.at())) return memory(std::move(whole));
  memory there = at.at()->allocate(whole.bytes());
  at.at()->write(whole.as<float>(), there);
  return there;
}

void keep_rows(archive& a, std::string_view name, gradient_rows& part,
               const std::shared_ptr<const gradient>& owner, gradient& read) {
  const std::string prefix(name);
  a.field(prefix + " variable", part.variable);
  a.field(prefix + " width", part.width);
  std::vector<std::int32_t> rows(part.rows.begin(), part.rows.end());
  a.field(prefix + " rows", rows);
  if (!a.reads()) return a.hold(prefix + " values", owner, part.values);
  const archived_array& values = a.array(prefix + " values");
  if (part.width == 0 || values.values.size() / part.width < rows.size())
    throw archive_error(fmt::format("{}: {} floats for {} rows of {}", values.path, values.values.size(),
                                    rows.size(), part.width));
  const auto kept = std::make_shared<const std::pair<std::vector<std::int32_t>, std::vector<float>>>(
      std::move(rows), std::vector<float>(values.values.begin(), values.values.end()));
  part.rows = kept->first;
  part.values = kept->second;
  read.held.push_back(kept);
}

void keep_addends(archive& a, const std::shared_ptr<const gradient>& written, gradient& read,
                  const shard_range& part) {
  std::size_t count = written ? written->addends.size() : 0;
  a.field("addends", count);
  if (count > most_addends) throw archive_error(fmt::format("a gradient has no {} addends", count));
  if (a.reads()) read.addends.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("addend {}", i);
    std::shared_ptr<const coverage> covered = written ? written->addends[i].covered : nullptr;
    keep_ranges(a, name + " covered", covered);
    if (!a.reads()) {
      write_part(a, name, written, written->addends[i].values.as<float>(), part);
    } else {
      read.addends[i].values = read_part(a, name, part);
      read.addends[i].covered = std::move(covered);
    }
  }
}

} // namespace

void keep_header(archive& a, gradient_header& x) {
  a.field("worker", x.id.worker);
  a.field("step", x.id.step);
  a.field("version_read", x.version_read);
  a.field("scale_bits", x.scale_bits);
}

void keep_gradient(archive& a, waiting_gradient& g, shard& at) {
  keep_header(a, g.what.header);
  const std::shared_ptr<const gradient> written = g.what.payload.values;
  const auto read = std::make_shared<gradient>();
  std::shared_ptr<const coverage> covered = written ? written->covered : nullptr;
  keep_ranges(a, "covered", covered);
  if (!a.reads())
    write_dense(a, written, at);
  else
    read->dense = read_dense(a, at);
  read->covered = std::move(covered);
  keep_addends(a, written, *read, at.dense_range());
  std::size_t tables = written ? written->sparse.size() : 0;
  a.field("tables", tables);
  for (std::size_t t = 0; t < tables; ++t) {
    gradient_rows part = written ? written->sparse[t] : gradient_rows{};
    if (!a.reads()) part = listed_rows(part);
    keep_rows(a, fmt::format("table {}", t), part, written, *read);
    if (a.reads()) read->sparse.push_back(part);
  }
  bool knows_read = static_cast<bool>(g.read);
  a.field("knows weights read", knows_read);
  if (knows_read && !a.reads()) at.keep(a, "weights read", g.read);
  if (!a.reads()) return;
  if (knows_read) g.read = at.restored(a.array("weights read"));
  g.what.payload.values = read;
}

} // namespace mailgrad
