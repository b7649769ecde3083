#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not, testing::ThrowsMessage, testing::throws;

model_request request_of(std::size_t batch) { return {.sample_dims = {4}, .classes = 3, .batch = batch}; }

model_function small() { return *built_in_model("mlp:hidden=5,dropout=0.5"); }

/// The bytes of the graph that a model builds.
std::vector<std::byte> built(const model_function& model, const model_request& r) {
  return graph_for(model, r).graph;
}

TEST(SerialisedModel, BuildsTheGraphOfEachRequest) {
  model_request evaluation = request_of(2);
  evaluation.purpose = phase::evaluation;
  const std::vector<model_request> requests{request_of(2), request_of(7), evaluation};
  std::vector<model_graph> graphs;
  for (const model_request& r : requests) graphs.push_back(graph_for(small(), r));
  const model_function there = model_of(read_model(write_model(graphs)));
  for (const model_request& r : requests) EXPECT_EQ(built(there, r), built(small(), r));
}

TEST(SerialisedModel, NamesTheRequestThatNoGraphFits) {
  const model_function there = model_of({graph_for(small(), request_of(64))});
  model_request other = request_of(32);
  other.worker = 1;
  other.workers = 2;
  graph g;
  EXPECT_THAT([&] { there(g, other); },
              ThrowsMessage<graph_error>(
                  AllOf(HasSubstr("built for batch 32, worker 1, number of workers 2;"),
                        HasSubstr("the nearest was built for batch 64, worker 0, number of workers 1"),
                        Not(HasSubstr("seed")))));
}

TEST(SerialisedModel, TellsEveryFieldOfARequestApart) {
  const model_request first = request_of(2);
  std::vector<model_request> others(13, first);
  others[0].sample_dims = {5};
  others[1].features = feature_kind::tokens;
  others[2].categories = {3};
  others[3].inputs = {{"features", {{4}, dtype::float32}}};
  others[4].wanted = answer::a_number;
  others[5].target_dims = {2};
  others[6].classes = 4;
  others[7].batch = 3;
  others[8].nonzeros = 5;
  others[9].purpose = phase::evaluation;
  others[10].seed = 9;
  others[11].worker = 1;
  others[12].devices = {test::cpu0, test::cpu1};
  const model_function there = model_of({graph_for(small(), first)});
  for (std::size_t i = 0; i < others.size(); ++i) {
    graph g;
    EXPECT_THROW(there(g, others[i]), graph_error) << i;
    EXPECT_NE(write_request(others[i]), write_request(first)) << i;
    EXPECT_EQ(write_request(read_request(write_request(others[i]))), write_request(others[i])) << i;
  }
}

using SerialisedModelOnTwo = test::on_two_devices;

TEST_F(SerialisedModelOnTwo, RunsOnTheDevicesOfTheCaller) {
  model_request r = request_of(6);
  r.devices = two;
  for (const auto& placed : {replicated(small()), pipelined(small())}) {
    const model_function there = model_of({graph_for(placed, r)});
    EXPECT_EQ(built(there, r), built(placed, r));
    model_request exchanged = r;
    exchanged.devices = {test::cpu1, test::cpu0};
    EXPECT_EQ(built(there, exchanged), built(placed, exchanged));
    model_request elsewhere = r;
    elsewhere.devices = {{device_kind::cpu, 700}, {device_kind::cpu, 701}};
    graph g;
    there(g, elsewhere);
    bool placed_there = false;
    for (const node& n : g.nodes())
      if (const auto* d = std::get_if<device>(&n.place)) placed_there = placed_there || d->index == 701;
    EXPECT_TRUE(placed_there);
  }
}

TEST(SerialisedModel, RefusesNoGraphsAndTwoOfOneRequest) {
  EXPECT_THAT([] { model_of({}); }, throws<std::invalid_argument>("there are no graphs"));
  const model_graph g = graph_for(small(), request_of(2));
  EXPECT_THAT([&] { model_of({g, g}); }, throws<std::invalid_argument>("graph 1 was built for the same"));
}

TEST(SerialisedModel, RefusesBytesOfSomethingElse) {
  EXPECT_THAT([] { read_model(write_request({})); },
              throws<archive_error>("model: byte 0: expected 'mgradmod', found 'mgradreq'"));
  EXPECT_THAT([] { read_request({}); }, throws<archive_error>("expected a header of 24 bytes, found 0"));
}

} // namespace
} // namespace mailgrad
