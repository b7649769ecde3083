#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/tall_tables.hpp>

// Workers whose model spans streams of the simulated GPU, of two GPUs, or a GPU and a core.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using ::testing::AllOf, ::testing::HasSubstr;

constexpr device the_host{};
constexpr device first_stream{device_kind::cuda, 0};
constexpr device second_stream{device_kind::cuda, 0, 1};
constexpr device other_gpu{device_kind::cuda, 1};

struct spanning_case {
  const char* name;
  std::vector<device> devices;    ///< of a worker
  std::vector<device> parameters; ///< empty: the host
  const char* policy = "sync";
  std::uint64_t local_steps = 0;
  const char* cure = "none";
};

std::string name_of_spanning(const ::testing::TestParamInfo<spanning_case>& info) {
  return test_name(info.param.name);
}

assembly spanning_cores(const spanning_case& c) {
  const bool plain = c.local_steps == 0 && std::string_view(c.cure) == "none";
  return {.policy = c.policy,
          .workers = 2,
          .optimizer = plain ? "momentum" : "sgd",
          .cure = c.cure,
          .local_steps = c.local_steps,
          .devices_each = 2,
          .micro_batches = 3}; // of a batch of 4: sizes 2, 1, 1
}

assembly spanned(assembly a, const spanning_case& c, const std::shared_ptr<event_watch>& watch) {
  for (std::uint32_t w = 0; w < a.workers; ++w)
    for (device d : c.devices) {
      if (d.kind == device_kind::cuda) d.stream += 2 * w;
      a.devices.push_back(d);
    }
  a.parameters = c.parameters;
  a.watch = watch;
  return a;
}

class GpuSpanning : public GpuRun, public ::testing::WithParamInterface<spanning_case> {
protected:
  static assembly place_of_case(const assembly& a, const std::shared_ptr<event_watch>& watch) {
    return spanned(a, GetParam(), watch);
  }
  static assembly run_of_case(const std::shared_ptr<event_watch>& watch) {
    return place_of_case(spanning_cores(GetParam()), watch);
  }
};

/// In `sync` the order makes no difference, so neither may a part that runs before the values come which it
/// reads, nor a batch or values that are written while another part still reads them.
TEST_P(GpuSpanning, ComesToTheWeightsOfTheProcessorsInEveryOrder) {
  for (const bool replicated : {false, true}) {
    SCOPED_TRACE(replicated ? "replicated" : "pipelined");
    assembly a = spanning_cores(GetParam());
    if (replicated && a.policy.find("hogwild") != std::string::npos) continue; // its devices share variables
    a.replicated = replicated;
    if (replicated) a.micro_batches = 2; // each of which has a sample for either device
    if (a.policy != "sync") a.workers = 1;
    a.batches = 24;
    expect_weights_of_processors(a, 8, place_of_case);
  }
}

TEST_P(GpuSpanning, EndsOnceWithABalancedLedgerAndEveryBatchTrained) {
  in_every_order(8, run_of_case, [](const assembled_run& run) { expect_all_trained_in_order(run); });
}

TEST_P(GpuSpanning, IsRepeatedBitForBit) {
  if (std::string(GetParam().policy).find("hogwild") != std::string::npos) return;
  for (const drawn_order& order : orders_on_gpu(4))
    expect_repeated(order.seed(), spanning_cores(GetParam()), place_of_case);
}

TEST_P(GpuSpanning, EndsWhenItLikesAfterTheRunWasStopped) {
  for (drawn_order& order : orders_on_gpu(16))
    with_run(run_of_case, [&](const assembled_run& run, asked_watch& watch) {
      play(order, watch, order.below(400));
      for (const caf::actor& worker : run.devices) send_anonymously(worker, give_up{});
      play_to_end(run, order, watch);
    });
}

TEST_P(GpuSpanning, EndsARunOfWhichAStageDies) {
  std::size_t lost = 0;
  for (drawn_order& order : orders_on_gpu(16))
    with_run(run_of_case, [&](const assembled_run& run, asked_watch& watch) {
      play(order, watch, order.below(400));
      kill(run.stages[order.below(run.stages.size())]);
      play_to_end(run, order, watch);
      lost += run.outcome().how == run_outcome::ending::failed ? 1 : 0;
    });
  EXPECT_GT(lost, 0U);
}

TEST_P(GpuSpanning, EndsInOrderWhenAGpuIsLost) {
  std::size_t failed = 0;
  for (std::uint64_t n = 1; n < 500; n += 23)
    with_run(run_of_case, [&](const assembled_run& run, asked_watch& watch) {
      drawn_order order(n);
      set_up({.lost_gpu_at = n});
      play_to_end(run, order, watch);
      failed += run.outcome().how == run_outcome::ending::failed ? 1 : 0;
      set_up();
    });
  EXPECT_GT(failed, 5U);
}

INSTANTIATE_TEST_SUITE_P(
    Places, GpuSpanning,
    ::testing::Values(
        spanning_case{"streams", {first_stream, second_stream}, {}},
        spanning_case{"streams with weights there", {first_stream, second_stream}, {first_stream}},
        spanning_case{
            "streams with some weights there", {first_stream, second_stream}, {the_host, first_stream}},
        spanning_case{"two GPUs", {first_stream, other_gpu}, {}},
        spanning_case{"two GPUs with weights there", {first_stream, other_gpu}, {first_stream, other_gpu}},
        spanning_case{"a core and a GPU", {the_host, first_stream}, {}},
        spanning_case{"a GPU and a core with weights there", {first_stream, the_host}, {first_stream}},
        spanning_case{"async with weights there", {first_stream, second_stream}, {first_stream}, "async"},
        spanning_case{
            "local steps with weights there", {first_stream, second_stream}, {first_stream}, "sync", 2},
        spanning_case{
            "easgd with weights there", {first_stream, second_stream}, {first_stream}, "sync", 2, "easgd"},
        spanning_case{"a cure with weights there",
                      {first_stream, second_stream},
                      {first_stream},
                      "async",
                      0,
                      "dc-asgd"},
        spanning_case{"hogwild", {first_stream, second_stream}, {}, "hogwild"}),
    name_of_spanning);

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuSpanning,
                         ::testing::Values(spanning_case{"hogwild with weights there",
                                                         {first_stream, second_stream},
                                                         {first_stream},
                                                         "hogwild, async@8"}),
                         name_of_spanning);
#endif

const spanning_case two_streams_there{"", {first_stream, second_stream}, {first_stream}};

class GpuSpanningModels : public GpuSpanning {};

/// Tables whose row numbers come from a kernel or with the batch, dropout, and attention, of which a GPU
/// keeps something else for the gradient than a core does.
TEST_F(GpuSpanningModels, ComeToTheWeightsOfTheProcessorsInEveryOrder) {
  struct learning {
    const char* model;
    std::shared_ptr<const data_split> data;
    std::size_t micro_batches;
  };
  for (const learning& l :
       {learning{"dlrm:width=4,bottom=6,top=8", tastes(), 3}, learning{tall_recommender, tall_tastes(700), 3},
        learning{"softmax", sparse_data(), 2}, learning{"softmax", tall_sparse_data(700), 2},
        learning{"gpt:layers=2,width=16,heads=2,dropout=0.1", text(), 2}})
    for (const std::vector<device>& parameters : {std::vector<device>{}, std::vector<device>{first_stream}}) {
      SCOPED_TRACE(std::string(l.model) + (parameters.empty() ? "" : " there"));
      data_ = l.data;
      const spanning_case c{"", {first_stream, second_stream}, parameters};
      assembly a = spanning_cores(c);
      a.model = *built_in_model(l.model);
      a.micro_batches = l.micro_batches;
      a.batches = 12;
      expect_weights_of_processors(
          a, 4, [&](const assembly& of, const auto& watch) { return spanned(of, c, watch); });
    }
}

/// The stages hand their values on within the GPU.
TEST_F(GpuSpanningModels, WithWeightsThereCopyNothingButTheBatchOverTheBus) {
  const auto copied = [&](std::uint64_t batches) {
    assembly a = spanning_cores(two_streams_there);
    a.batches = batches;
    a.micro_batches = 1;
    return counted(spanned(a, two_streams_there, std::make_shared<prompt_watch>()));
  };
  const simulated_gpu::counters few = copied(6), many = copied(12);
  const std::size_t labels = 4 * sizeof(std::int32_t);
  const std::size_t features = 4 * data_->train.sample_dims().size() * sizeof(float);
  EXPECT_GE(many.bytes_to_gpu - few.bytes_to_gpu, 6 * (features + labels));
  EXPECT_LE(many.bytes_to_gpu - few.bytes_to_gpu, 12 * (features + labels)) << "to two stages at most";
  EXPECT_EQ(many.bytes_to_host, few.bytes_to_host);
  EXPECT_EQ(many.allocations, few.allocations);
}

TEST_F(GpuSpanningModels, SayWhichLabelDoesNotExist) {
  const auto make = [](const auto& watch) {
    assembly a = spanning_cores(two_streams_there);
    a.workers = 1;
    a.runner = [](rank, std::shared_ptr<step_runner> own) {
      return std::make_shared<spoiling_runner>(std::move(own), 4);
    };
    return spanned(a, two_streams_there, watch);
  };
  for (drawn_order& order : orders_on_gpu(4))
    with_run(make, [&](const assembled_run& run, asked_watch& watch) {
      play_to_end(run, order, watch);
      EXPECT_EQ(run.outcome().how, run_outcome::ending::failed);
      EXPECT_THAT(run.outcome().why, AllOf(HasSubstr("its stage on cuda:0"),
                                           HasSubstr("label 99, but the logits have 3 classes")));
    });
}

} // namespace
} // namespace mailgrad::testing
