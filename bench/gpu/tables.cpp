// Measures whole steps of a recommender whose tables lie on a GPU: the worker's step, and the update of its
// shard, which writes to another block each time since the worker still reads the one before. All is queued
// as in a run, and the time is that of the host's clock over many steps. The rows that a batch names are as
// many for each height of the tables, so a step should take as long. Prints one line a height, columns apart
// by tabs: name, microseconds a step (median), spread in percent, GB/s and TFLOP/s, which are 0 here.
//
//   gpu_tables [--tiny]     --tiny: low tables and few steps, to try the program itself

#include "gpu_timing.hpp"

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/gpu_replica.hpp>

#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr std::size_t tables = 26;

struct trial {
  std::size_t samples, rounds, steps;
};

/// The bench itself asks whether a step has ended.
class asked_watch final : public event_watch {
public:
  void when_passed(device_event m, notice) override { ends_.push_back(std::move(m)); }
  void await_first() {
    while (!ends_.front().passed()) {
    }
    ends_.pop_front();
  }
  std::size_t under_way() const { return ends_.size(); }

private:
  std::deque<device_event> ends_;
};

std::shared_ptr<const batch> drawn_batch(const model_request& request, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto b = std::make_shared<batch>();
  b->size = request.batch;
  b->number = seed;
  b->categories = tensor({request.batch, tables}, dtype::int32);
  for (std::int32_t& row : b->categories.values<std::int32_t>())
    row = static_cast<std::int32_t>(random() % request.categories[0]);
  b->labels = tensor({request.batch});
  for (float& label : b->labels.values()) label = static_cast<float>(random() % 2);
  return b;
}

/// A worker that runs ahead, and a shard, on one GPU.
class recommender {
public:
  recommender(std::size_t height, const trial& t) : watch_(std::make_shared<asked_watch>()) {
    model_request request{.sample_dims = {0}, .wanted = answer::a_number, .classes = 0, .batch = t.samples};
    request.categories.assign(tables, height);
    request.devices = {{device_kind::cuda, 0}};
    const model_function model = find_model("dlrm:width=16,bottom=64,top=64");
    const auto layout = std::make_shared<parameter_layout>(lay_out(model, request, 1));
    worker_.emplace(model, request, layout, watch_, weight_place::same_gpu);
    shard_.emplace(*layout, 0, 1, parse_optimizer("adagrad"), std::make_shared<cuda::gpu_queue>(0));
    for (std::uint64_t i = 0; i < 8; ++i) batches_.push_back(drawn_batch(request, i));
    for (int i = 0; i < 3; ++i) gradients_.push_back(worker_->make_gradient());
  }

  void step() {
    const auto& b = batches_[taken_ % batches_.size()];
    const auto& g = gradients_[taken_++ % gradients_.size()];
    if (watch_->under_way() == worker_->most_under_way()) end_first();
    worker_->use_weights(0, shard_->snapshot());
    worker_->begin_step(b, g);
    shard_->wait_for(*g);
    const contribution one{g, 1};
    shard_->update({&one, 1});
  }
  void finish() {
    while (watch_->under_way() > 0) end_first();
    shard_->finish();
  }

private:
  void end_first() {
    watch_->await_first();
    worker_->end_step();
  }

  std::shared_ptr<asked_watch> watch_;
  std::optional<gpu_replica> worker_;
  std::optional<shard> shard_;
  std::vector<std::shared_ptr<const batch>> batches_;
  std::vector<std::shared_ptr<gradient>> gradients_;
  std::size_t taken_ = 0;
};

void measure(std::size_t height, const trial& t) {
  recommender r(height, t);
  for (std::size_t i = 0; i < t.steps; ++i) r.step(); // until all memory and graphs are there
  r.finish();
  std::vector<double> took;
  for (std::size_t i = 0; i < t.rounds; ++i) {
    const stopwatch watch;
    for (std::size_t k = 0; k < t.steps; ++k) r.step();
    r.finish();
    took.push_back(1e6 * watch.seconds() / static_cast<double>(t.steps));
  }
  std::printf("step of dlrm, 26 tables of %zu rows\t%.2f\t%.1f\t0\t0\n", height, median(took),
              100 * spread(took));
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  if (!has_gpu()) return 0;
  const bool tiny = argc > 1 && std::string_view(argv[1]) == "--tiny";
  const trial t = tiny ? trial{16, 2, 4} : trial{2048, 9, 80};
  for (const std::size_t height :
       tiny ? std::vector<std::size_t>{100} : std::vector<std::size_t>{100'000, 1'000'000})
    measure(height, t);
}
