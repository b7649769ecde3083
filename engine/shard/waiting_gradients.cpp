#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <stdexcept>

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

/// "the sum of step 5 that worker 0 carries"
std::string in_words(const gradient_header& x) {
  if (!x.sum) return fmt::format("no sum at step {}", x.id.step.value);
  return fmt::format("the sum of {} gradients of step {} that worker {} carries", x.sum->gradients,
                     x.id.step.value, x.sum->carrier.value);
}

bool is_of_one_sum(const gradient_header& a, const gradient_header& b) {
  return a.sum && b.sum && a.id.step == b.id.step && a.sum->carrier == b.sum->carrier &&
         a.sum->gradients == b.sum->gradients;
}

/// Whether all that a shard reads of the gradient are dense values of the whole model, of one worker.
bool is_dense_alone(const push_gradient& x) {
  const gradient* const g = x.payload.values.get();
  return g && !x.header.sum && !g->covered && g->addends.empty() && g->sparse.empty() &&
         g->sparse_on_gpu.empty();
}

} // namespace

void keep_header(archive& a, gradient_header& x) {
  a.fields({"worker", "step", "version_read", "scale_bits"}, x.id.worker, x.id.step, x.version_read,
           x.scale_bits);
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

void require_one_sum(std::span<const gradient_header> of_update) {
  if (std::ranges::none_of(of_update, [](const gradient_header& x) { return x.sum.has_value(); })) return;
  const gradient_header& first = of_update.front();
  for (const gradient_header& x : of_update)
    if (!is_of_one_sum(first, x))
      throw std::runtime_error(
          fmt::format("worker {}: expected its gradient in {}, as that of worker {}, found {}",
                      x.id.worker.value, in_words(first), first.id.worker.value, in_words(x)));
  if (std::ranges::none_of(of_update,
                           [&](const gradient_header& x) { return x.id.worker == first.sum->carrier; }))
    throw std::runtime_error(fmt::format("worker {}: expected {}, found no gradient of that worker",
                                         first.sum->carrier.value, in_words(first)));
  if (of_update.size() != first.sum->gradients)
    throw std::runtime_error(fmt::format("worker {}: expected {}, found {} gradients for this update",
                                         first.sum->carrier.value, in_words(first), of_update.size()));
}

gradient_batch::gradient_batch(std::shared_ptr<shard> weights, std::uint32_t workers)
    : weights_(std::move(weights)), workers_(workers) {}

void gradient_batch::add(waiting_gradient g, const counting& count) {
  const std::uint32_t from = g.what.header.id.worker.value;
  of_worker& w = workers_[from];
  if (of({from}) == 0) ranks_.push_back(from);
  ++size_;
  samples_ += g.samples;
  has_sums_ = has_sums_ || g.what.header.sum;
  if (!w.alone && w.summed.empty()) {
    if (!is_dense_alone(g.what)) spend(g); // it is not added up with others
    first_.searched = std::min<std::size_t>(first_.searched, from);
    w.alone = std::move(g);
    return;
  }
  spend(g);
  if (weights_->has_tables_there()) return w.further.push_back(std::move(g));
  if (w.alone) {
    if (!w.sum) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
    w.sum->clear();
    if (std::exchange(w.is_placed, false)) {
      std::erase(first_.places, rank{from});
      first_.credits -= w.alone->what.payload.credit ? 1 : 0;
    }
    spend(*w.alone);
    add_up(w, *std::exchange(w.alone, std::nullopt), count);
  }
  add_up(w, g, count);
}

void gradient_batch::give_places(rank next, const counting& count) {
  for (; first_.searched < std::min<std::size_t>(next.value, workers_.size()); ++first_.searched) {
    of_worker& w = workers_[first_.searched];
    if (!w.alone || std::exchange(w.is_placed, true)) continue;
    first_.places.push_back({static_cast<std::uint32_t>(first_.searched)});
    first_.credits += w.alone->what.payload.credit ? 1 : 0;
  }
  add_up_placed(count);
}

/// Whether the gradient of a place can be added up, and is not alone in the sum.
bool gradient_batch::adds_up_next(std::size_t place) const {
  const auto is_dense = [this](std::size_t p) {
    return p < first_.places.size() && is_dense_alone(workers_[first_.places[p].value].alone->what);
  };
  return is_dense(place) && (!first_.summed.empty() || is_dense(place + 1));
}

/// A gradient that is added up with its batch alone ends the sum that is made before.
void gradient_batch::add_up_placed(const counting& count) {
  std::size_t done = 0;
  for (; first_.credits > 0 && adds_up_next(done); ++done) {
    of_worker& w = workers_[first_.places[done].value];
    if (!first_.sum) first_.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
    if (first_.summed.empty()) first_.sum->clear();
    waiting_gradient g = *std::exchange(w.alone, std::nullopt);
    w.is_placed = false;
    w.is_in_first = true;
    first_.credits -= g.what.payload.credit ? 1 : 0;
    spend(g);
    weights_->add_to(*first_.sum, count(g));
    first_.summed.push_back(g.what.header);
  }
  first_.places.erase(first_.places.begin(), first_.places.begin() + static_cast<std::ptrdiff_t>(done));
  if (first_.credits == 0) return;
  for (const rank r : first_.places) spend(*workers_[r.value].alone);
  first_.credits = 0;
}

void gradient_batch::hand_over(const sharing& share_of, const counting& count, const taking& take) {
  if (std::exchange(has_sums_, false)) require_one_sum(headers());
  const auto take_sum = [&](gradient_sum& of, std::vector<gradient_header>& summed, float share) {
    contribution sum = of.result();
    sum.scale = share;
    for (std::size_t i = 0; i < summed.size(); ++i) take(summed[i], i == 0 ? &sum : nullptr);
    summed.clear();
  };
  const auto take_alone = [&](waiting_gradient g, float share) {
    spend(g);
    contribution what = count(g);
    what.scale *= share;
    take(g.what.header, g.what.header.is_carried() ? nullptr : &what);
  };
  if (!first_.summed.empty()) take_sum(*first_.sum, first_.summed, 1);
  for (const rank r : first_.places)
    take_alone(*std::exchange(workers_[r.value].alone, std::nullopt), share_of(r));
  std::ranges::sort(ranks_); // a look at the others takes long, if there are thousands
  for (const std::uint32_t r : ranks_) {
    of_worker& w = workers_[r];
    const float share = share_of({r});
    w.is_placed = w.is_in_first = false;
    if (w.alone) take_alone(*std::exchange(w.alone, std::nullopt), share);
    for (waiting_gradient& g : std::exchange(w.further, {})) take_alone(std::move(g), share);
    if (!w.summed.empty()) take_sum(*w.sum, w.summed, share);
  }
  first_.places.clear();
  first_.searched = first_.credits = 0;
  ranks_.clear();
  size_ = 0;
  samples_ = 0;
}

std::vector<gradient_header> gradient_batch::headers() const {
  std::vector<gradient_header> all = first_.summed;
  for (const of_worker& w : workers_) {
    if (w.alone) all.push_back(w.alone->what.header);
    for (const waiting_gradient& g : w.further) all.push_back(g.what.header);
    all.insert(all.end(), w.summed.begin(), w.summed.end());
  }
  return all;
}

void gradient_batch::keep(archive& a, run_id run) {
  a.field("size", size_);
  a.field("samples", samples_);
  for (std::size_t r = 0; r < workers_.size(); ++r)
    a.group(fmt::format("worker {}", r), [&] { keep(a, workers_[r], run); });
  keep_beginning(a, run);
  keep_further(a, run);
  ranks_.clear();
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (of({r}) > 0) ranks_.push_back(r);
}

void gradient_batch::keep_beginning(archive& a, run_id run) {
  std::size_t placed = first_.places.size(), summed = first_.summed.size();
  a.field("places", placed);
  if (placed > workers_.size())
    throw archive_error("batch: more gradients have places than there are workers");
  if (a.reads()) first_.places.resize(placed);
  for (std::size_t i = 0; i < placed; ++i) {
    std::uint32_t& of = first_.places[i].value;
    a.field(fmt::format("place {}", i), of);
    if (of >= workers_.size() || !workers_[of].alone)
      throw archive_error(
          fmt::format("batch: expected a gradient of worker {} in its place, found none", of));
    workers_[of].is_placed = true;
  }
  a.field("added up", summed);
  if (summed > workers_.size())
    throw archive_error("batch: more gradients are added up than there are workers");
  if (a.reads()) first_.summed.resize(summed);
  for (std::size_t i = 0; i < summed; ++i) {
    gradient_header& x = first_.summed[i];
    a.group(fmt::format("added up {}", i), [&] { keep_header(a, x); });
    x.id.run = run;
    if (x.id.worker.value >= workers_.size())
      throw archive_error(fmt::format("batch: there is no worker {}", x.id.worker.value));
    workers_[x.id.worker.value].is_in_first = true;
  }
  if (summed == 0) return;
  if (a.reads()) first_.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("first sum", *first_.sum);
}

/// Keeps the gradients that the groups before have not. Only a shard with tables on a GPU has any.
void gradient_batch::keep_further(archive& a, run_id run) {
  std::size_t kept = first_.summed.size();
  for (const of_worker& w : workers_) kept += w.summed.size() + (w.alone ? 1 : 0);
  if (kept == size_) return;
  if (!weights_->has_tables_there())
    throw archive_error("batch: several gradients of a worker wait with rows of tables; go on on a GPU");
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    std::vector<waiting_gradient>& further = workers_[r].further;
    std::size_t count = further.size();
    a.field(fmt::format("further of {}", r), count);
    if (a.reads()) further.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      a.group(fmt::format("further {} of {}", i, r), [&] { keep_gradient(a, further[i], *weights_); });
      further[i].what.header.id.run = run;
    }
  }
}

void gradient_batch::keep(archive& a, of_worker& w, run_id run) {
  bool alone = w.alone.has_value();
  a.field("has one", alone);
  if (alone) {
    if (a.reads()) w.alone.emplace();
    a.group("one", [&] { keep_gradient(a, *w.alone, *weights_); });
    w.alone->what.header.id.run = run;
  }
  std::size_t summed = w.summed.size();
  a.field("summed", summed);
  for (std::size_t i = 0; i < summed; ++i) {
    gradient_header x = a.reads() ? gradient_header{} : w.summed[i];
    a.group(fmt::format("summed {}", i), [&] { keep_header(a, x); });
    x.id.run = run;
    if (a.reads()) w.summed.push_back(x);
  }
  if (summed == 0) return;
  if (weights_->has_tables_there())
    throw archive_error(
        "batch: several gradients of a worker are added up with rows of tables; go on on the host");
  if (a.reads()) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("sum", *w.sum);
}

gradient_table::gradient_table(std::shared_ptr<shard> weights, std::uint32_t workers)
    : weights_(std::move(weights)), workers_(workers) {}

std::uint64_t gradient_table::of(rank worker) const {
  std::uint64_t waiting = 0;
  for (const round* r : {&now_, &next_})
    if (worker.value < r->workers.size()) waiting += r->workers[worker.value].fresh.size();
  return waiting;
}

void gradient_table::add(round& to, const push_gradient& x, const contribution& what) {
  if (to.workers.empty()) to.workers.resize(workers_);
  of_worker& w = to.workers[x.header.id.worker.value];
  if (!w.sum) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  if (w.gradients == 0) w.sum->clear();
  weights_->add_to(*w.sum, what);
  ++w.gradients;
  w.fresh.push_back(x);
  w.fresh.back().payload.values.reset();
  to.waits = true;
}

std::vector<contribution> gradient_table::means() {
  std::vector<contribution> all;
  const auto n = std::ranges::count_if(now_.workers, [](const of_worker& w) { return w.gradients > 0; });
  for (of_worker& w : now_.workers) {
    if (w.gradients == 0) continue;
    contribution& mean = all.emplace_back(w.sum->result());
    mean.scale = 1.0F / (static_cast<float>(n) * static_cast<float>(w.gradients));
  }
  return all;
}

void gradient_table::turn_over() {
  ++rounds_;
  std::swap(now_, next_);
  next_.waits = false;
  for (of_worker& w : next_.workers) {
    w.gradients = 0;
    w.fresh.clear();
  }
}

void gradient_table::keep(archive& a, round& of, run_id run) {
  a.field("waits", of.waits);
  bool used = !of.workers.empty();
  a.field("used", used);
  if (used && a.reads()) of.workers.resize(workers_);
  for (std::size_t r = 0; r < of.workers.size(); ++r)
    a.group(fmt::format("worker {}", r), [&] { keep(a, of.workers[r], run); });
}

void gradient_table::keep(archive& a, of_worker& w, run_id run) {
  a.field("gradients", w.gradients);
  std::size_t fresh = w.fresh.size();
  a.field("fresh", fresh);
  for (std::size_t i = 0; i < fresh; ++i) {
    push_gradient x = a.reads() ? push_gradient{} : w.fresh[i];
    a.group(fmt::format("fresh {}", i), [&] { keep_header(a, x.header); });
    x.header.id.run = run;
    if (a.reads()) w.fresh.push_back(x);
  }
  if (w.gradients == 0) return;
  if (a.reads()) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("sum", *w.sum);
}

} // namespace mailgrad
