#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::size_t most_addends = 4096; ///< a worker has no more devices
constexpr const char* of_kept = "a gradient that a shard keeps";

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

/// The shard holds a gradient on a GPU until it has been copied, since then it goes back to its worker.
void write_dense(archive& a, const std::shared_ptr<const gradient>& of, shard& at) {
  device_queue& l = *at.at();
  const shard_range part = at.dense_range();
  if (!is_on_gpu(l)) return write_part(a, "dense", of, of->dense.on_host<float>(), part);
  if (part.size() == 0) return a.hold("dense", of, {}); // the shard has tables alone
  at.wait_for(*of);                                     // its turn may not have come
  const std::shared_ptr<const memory> there(of, &of->dense_for(l.where()));
  hold_floats(a, "dense", there, part.begin, part.size(), l);
  at.hold(of);
}

memory read_dense(archive& a, shard& at) {
  block whole = read_part(a, "dense", at.dense_range());
  if (!is_on_gpu(*at.at())) return memory(std::move(whole));
  memory there = naming_memory(of_kept, [&] { return at.at()->allocate(whole.bytes()); });
  at.at()->write(whole.as<float>(), there);
  return there;
}

/// The rows whose bits write_gpu_rows() has kept.
std::vector<std::int32_t> rows_of_bits(archive& a, const std::string& name) {
  const std::span<const float> bits = a.array(name).values;
  std::vector<std::int32_t> rows(bits.size());
  std::ranges::transform(bits, rows.begin(), [](float x) { return std::bit_cast<std::int32_t>(x); });
  return rows;
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
  if (rows.empty() && !values.values.empty()) rows = rows_of_bits(a, prefix + " row bits");
  if (part.width == 0 || values.values.size() / part.width < rows.size())
    throw archive_error(fmt::format("{}: {} floats for {} rows of {}", values.path, values.values.size(),
                                    rows.size(), part.width));
  const auto kept = std::make_shared<const std::pair<std::vector<std::int32_t>, std::vector<float>>>(
      std::move(rows), std::vector<float>(values.values.begin(), values.values.end()));
  part.rows = kept->first;
  part.values = kept->second;
  read.held.push_back(kept);
}

/// Rows on a GPU come to the host later than the text of the fields, so their bits are kept as an array.
void write_gpu_rows(archive& a, std::string_view name, const gpu_rows& part,
                    const std::shared_ptr<const gradient>& owner, shard& at) {
  const std::string prefix(name);
  std::size_t variable = part.variable, width = part.width;
  std::vector<std::int32_t> none;
  a.field(prefix + " variable", variable);
  a.field(prefix + " width", width);
  a.field(prefix + " rows", none);
  device_queue& l = *at.at();
  at.wait_for(*owner); // its turn may not have come
  const auto write = [&](const char* what, const void* from, std::size_t count) {
    const auto copy = std::make_shared<memory>(l.lend_on_host(count * sizeof(float)));
    copy_bytes(l.where(), copy->on_host<float>().data(), from, copy->bytes());
    a.hold(prefix + what, copy, copy->on_host<float>());
  };
  write(" row bits", part.rows.data(), part.rows.size());
  write(" values", part.values.data(), part.values.size());
}

/// Brings rows that were read to the GPU.
void bring(const gradient_rows& part, gradient& read, device_queue& at) {
  const auto copied = [&]<class T>(std::span<const T> from) {
    std::vector<float> words(from.size());
    std::ranges::transform(from, words.begin(), [](T x) { return std::bit_cast<float>(x); });
    const auto there =
        std::make_shared<memory>(naming_memory(of_kept, [&] { return at.allocate(from.size_bytes()); }));
    at.write(words, *there);
    read.held.push_back(there);
    return std::span<const T>(std::as_const(*there).template on<T>(at.where()));
  };
  read.sparse_on_gpu.push_back({part.variable, part.width, copied(part.rows), copied(part.values)});
}

void keep_tables(archive& a, const std::shared_ptr<const gradient>& written, gradient& read, shard& at) {
  const std::size_t there = written ? written->sparse_on_gpu.size() : 0;
  std::size_t tables = there + (written ? written->sparse.size() : 0);
  a.field("tables", tables);
  for (std::size_t t = 0; t < tables; ++t) {
    const std::string name = fmt::format("table {}", t);
    if (t < there) {
      write_gpu_rows(a, name, written->sparse_on_gpu[t], written, at);
      continue;
    }
    gradient_rows part = written ? listed_rows(written->sparse[t - there]) : gradient_rows{};
    keep_rows(a, name, part, written, read);
    if (!a.reads()) continue;
    if (is_on_gpu(*at.at()))
      bring(part, read, *at.at());
    else
      read.sparse.push_back(part);
  }
  if (there > 0) at.hold(written);
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
  a.field("samples", g.samples);
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
  keep_tables(a, written, *read, at);
  if (a.reads()) read->ready = at.at()->record();
  bool knows_read = static_cast<bool>(g.read);
  a.field("knows weights read", knows_read);
  if (knows_read && !a.reads()) at.keep(a, "weights read", g.read);
  if (!a.reads()) return;
  if (knows_read) g.read = at.restored(a.array("weights read"));
  g.what.payload.values = read;
}

std::uint64_t gradient_queue::of(rank worker) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      places_, [&](const auto& place) { return place && place->what.header.id.worker == worker; }));
}

void gradient_queue::add(waiting_gradient g) {
  places_.emplace_back(std::move(g));
  ++present_;
}

std::vector<waiting_gradient> gradient_queue::take(std::size_t places) {
  std::vector<waiting_gradient> taken;
  for (std::size_t i = 0; i < places && !places_.empty(); ++i, places_.pop_front())
    if (places_.front()) taken.push_back(*std::move(places_.front()));
  present_ -= taken.size();
  return taken;
}

void gradient_queue::keep(archive& a, run_id run, shard& at, std::size_t workers) {
  std::size_t count = places_.size();
  a.field("places", count);
  for (std::size_t i = 0; i < count; ++i) {
    if (a.reads()) places_.emplace_back();
    std::optional<waiting_gradient>& place = places_[i];
    bool has_one = place.has_value();
    a.field(fmt::format("has {}", i), has_one);
    if (!has_one) continue;
    if (a.reads()) place.emplace();
    a.group(fmt::format("place {}", i), [&] { keep_gradient(a, *place, at); });
    if (!a.reads()) continue;
    if (const rank worker = place->what.header.id.worker; worker.value >= workers)
      throw archive_error(fmt::format("place {}: there is no worker {}", i, worker.value));
    place->what.header.id.run = run;
    ++present_;
  }
}

} // namespace mailgrad
