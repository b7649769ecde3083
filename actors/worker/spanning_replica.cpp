#include <mailgrad/actors/worker/spanning_replica.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/batch_slice.hpp>
#include <mailgrad/graph/replicate.hpp>

#include <utility>

namespace mailgrad {

spanning_replica::spanning_replica(options o)
    : options_(std::move(o)), weights_(options_.layout->shard_count()),
      parts_([] { return std::make_shared<batch>(); }), rows_([] { return std::make_shared<row_memory>(); }),
      sums_(options_.devices.size()), busy_(options_.devices.size(), 0) {
  options_.traces.resize(options_.devices.size());
}

void spanning_replica::begin(caf::event_based_actor* self) {
  self_ = self;
  for (std::size_t p = 0; p < options_.pieces.size(); ++p) watch(self_, options_.pieces[p], piece_lost{p});
}

std::shared_ptr<gradient> spanning_replica::make_gradient() const {
  return mailgrad::make_gradient(*options_.layout);
}

void spanning_replica::use_weights(std::uint32_t shard, const float* values,
                                   std::shared_ptr<const void> owner) {
  weights_[shard] = {values, std::move(owner)};
}

void spanning_replica::compute(const stream&, std::shared_ptr<const batch> inputs,
                               std::shared_ptr<gradient> out, const completion& done) {
  auto work = std::make_shared<step_work>();
  work->step = ++step_;
  work->weights = weights_;
  work->racing = racing_;
  work->into = out;
  work->pieces = options_.pieces;
  split(inputs, *work);
  out->source = std::move(inputs);
  out->sparse.clear();
  out->held.clear();
  if (options_.sums_apart) out->addends.resize(options_.pieces.size());
  for (const micro_batch& m : work->micro_batches) out->held.push_back(m.samples);
  for (weight_view& w : weights_)
    w.owner.reset(); // so that the shards may update in place when the pieces are done
  into_ = std::move(out);
  done_ = done;
  missing_ = options_.pieces.size();
  for (std::size_t p = 0; p < options_.pieces.size(); ++p)
    send(self_, options_.pieces[p], compute_step{work, std::move(options_.traces[p])});
}

void spanning_replica::split(const std::shared_ptr<const batch>& inputs, step_work& work) {
  const std::vector<std::size_t> sizes = batch_parts(inputs->size, options_.micro_batches);
  std::size_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    micro_batch m{inputs, 1, sizes.size() == 1, i, inputs->number * options_.micro_batches + i};
    if (!m.only) {
      const std::shared_ptr<batch> part = parts_.take();
      slice_batch(*inputs, first, sizes[i], *part);
      m.samples = part;
      m.share = static_cast<float>(sizes[i]) / static_cast<float>(inputs->size);
    }
    work.micro_batches.push_back(std::move(m));
    first += sizes[i];
  }
}

void spanning_replica::on_computed(const step_computed& x) {
  options_.traces[x.piece] = x.trace;
  busy_[x.piece] += x.busy;
  sums_[x.piece] = x.sum;
  if (--missing_ == 0) complete();
}

/// In the order of the pieces, so that the same step has the same bits.
void spanning_replica::complete() {
  loss_ = 0;
  const std::shared_ptr<gradient> out = std::move(into_);
  out->covered = sums_.front()->covered;
  std::vector<piece_rows> rows;
  for (std::optional<piece_sum>& sum : sums_) {
    loss_ += sum->loss;
    rows.insert(rows.end(), sum->rows.begin(), sum->rows.end());
    out->held.push_back(std::move(sum->memory));
    sum.reset();
  }
  const std::shared_ptr<row_memory> memory = rows_.take();
  out->sparse = joined(std::move(rows), *memory);
  out->held.push_back(memory);
  const completion told = std::exchange(done_, nullptr); // it may begin the next step
  told();
}

std::string spanning_replica::in_words(const piece_failed& x) const {
  return "its piece on " + to_string(options_.devices[x.piece]) + " failed: " + x.why;
}

std::string spanning_replica::in_words(const piece_lost& x) const {
  return "its piece on " + to_string(options_.devices[x.piece]) + " is gone" +
         (x.why.empty() ? "" : ": " + x.why);
}

std::optional<std::string> spanning_replica::waits_for() const {
  if (missing_ == 0) return std::nullopt;
  std::string devices;
  for (std::size_t p = 0; p < sums_.size(); ++p)
    if (!sums_[p]) devices.append(devices.empty() ? "" : ", ").append(to_string(options_.devices[p]));
  return "its pieces on " + devices;
}

std::vector<piece_report> spanning_replica::end() {
  for (const caf::actor& piece : options_.pieces) send(self_, piece, give_up{});
  std::vector<piece_report> reports;
  for (std::size_t p = 0; p < options_.devices.size(); ++p)
    reports.push_back({to_string(options_.devices[p]), busy_[p], std::move(options_.traces[p])});
  return reports;
}

} // namespace mailgrad
