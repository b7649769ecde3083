#include <mailgrad/actors/remote/gradient_encoder.hpp>

#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace mailgrad::remote {
namespace {

using ::testing::ElementsAre;

const wire_format most = parse_wire_format("top-k:0.0625"); // one number of sixteen

std::shared_ptr<const parameter_layout> sixteen_weights() {
  std::vector<placed_variable> v{{"w", shape{16}, {}, 0, false}};
  return std::make_shared<parameter_layout>(v, 1);
}

/// What the shard gets of the gradient of a step, of which the first four are given; the others are 0.
std::vector<float> arrived(gradient_encoder& e, std::uint64_t step, std::vector<float> g) {
  g.resize(16);
  const auto sent = e.encode(0, step_number{step}, g, {});
  decode_numbers(most, *sent->dense, g);
  g.resize(4);
  return g;
}

TEST(GradientEncoder, AddsToTheNextGradientWhatAMessageLacked) {
  gradient_encoder e(most, sixteen_weights());
  EXPECT_THAT(arrived(e, 1, {4, 3, 2, 1}), ElementsAre(4, 0, 0, 0));
  e.answered(0, {});
  EXPECT_THAT(arrived(e, 2, {0, 0, 0, 0}), ElementsAre(0, 3, 0, 0));
}

TEST(GradientEncoder, TakesBackWhatTheShardDiscards) {
  gradient_encoder e(most, sixteen_weights());
  arrived(e, 1, {4, 3, 2, 1});
  e.answered(0, step_number{1});
  e.answered(0, step_number{1}); // said again with later weights
  EXPECT_THAT(arrived(e, 2, {0, 0, 0, 0}), ElementsAre(4, 0, 0, 0));
}

TEST(GradientEncoder, KeepsWhatWasTakenThoughAnEarlierOneWasDiscarded) {
  gradient_encoder e(most, sixteen_weights());
  arrived(e, 1, {4, 0, 0, 0});
  e.answered(0, step_number{1});
  EXPECT_THAT(arrived(e, 2, {0, 0, 0, 0}), ElementsAre(4, 0, 0, 0));
  e.answered(0, step_number{1}); // the second one has been taken
  EXPECT_THAT(arrived(e, 3, {0, 0, 0, 0}), ElementsAre(0, 0, 0, 0));
}

TEST(GradientEncoder, LeavesAGradientThatIsNotFiniteAsItIs) {
  gradient_encoder e(most, sixteen_weights());
  arrived(e, 1, {4, 3, 2, 1});
  e.answered(0, {});
  const std::vector<float> broken(16, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(e.encode(0, step_number{2}, broken, {}));
  EXPECT_THAT(arrived(e, 3, {0, 0, 0, 0}), ElementsAre(0, 3, 0, 0));
}

/// Weights as they arrive at a worker: the encoder of its gradients hears of them first.
TEST(GradientEncoder, HearsOfADiscardedGradientByTheWeightsThatAnswerIt) {
  exchange_terms there{
      {}, {}, {}, sixteen_weights(), std::make_shared<machine_time>(), std::make_shared<exchange_clock>(1)};
  exchange_terms here = there;
  here.encoder = std::make_shared<gradient_encoder>(most, here.layout);
  arrived(*here.encoder, 1, {4, 3, 2, 1});

  const address_book nobody;
  byte_archive_writer bytes;
  field_inspector writes(bytes, nobody);
  shard_weights answer{};
  answer.header.discarded = step_number{1};
  answer.payload.values = snapshot(std::make_shared<memory>(block(16 * sizeof(float))));
  const attached sent = weights_form(there).write(caf::make_message(answer), {duty::worker, 0}, writes);
  byte_archive_reader text(bytes.bytes(), "weights");
  field_inspector reads(text, nobody);
  weights_form at_worker(here);
  const arriving weights = at_worker.begin(reads, {duty::shard, 0}, {duty::worker, 0}, {sent.bytes.size()});
  std::ranges::copy(sent.bytes, weights.place.begin());
  weights.finish();
  EXPECT_THAT(arrived(*here.encoder, 2, {0, 0, 0, 0}), ElementsAre(4, 0, 0, 0));
}

/// The shard of a lossy format gets what it would have applied, so that residuals are of that unit, too.
TEST(GradientEncoder, GetsAGradientWithItsFactorOfClipping) {
  exchange_terms there{
      {}, {}, {}, sixteen_weights(), std::make_shared<machine_time>(), std::make_shared<exchange_clock>(1)};
  there.wire = parse_wire_format("float16");
  exchange_terms here = there;
  here.encoder = std::make_shared<gradient_encoder>(here.wire, here.layout);
  const auto g = make_gradient(*here.layout);
  std::ranges::fill(g->dense.on_host<float>(), 8.0F);
  push_gradient x{};
  x.header.scale_bits = std::bit_cast<std::uint32_t>(0.25F);
  x.payload.values = g;

  const address_book nobody;
  byte_archive_writer bytes;
  field_inspector writes(bytes, nobody);
  const attached sent = gradient_form(here).write(caf::make_message(x), {duty::shard, 0}, writes);
  byte_archive_reader text(bytes.bytes(), "gradient");
  field_inspector reads(text, nobody);
  gradient_form at_shard(there);
  const arriving values = at_shard.begin(reads, {duty::worker, 0}, {duty::shard, 0}, {sent.bytes.size()});
  std::ranges::copy(sent.bytes, values.place.begin());
  const caf::message told = values.finish();
  const auto& heard = told.get_as<push_gradient>(0);
  EXPECT_EQ(std::bit_cast<float>(heard.header.scale_bits), 1.0F);
  EXPECT_THAT(heard.payload.values->dense.on_host<float>(), ::testing::Each(2.0F));
}

} // namespace
} // namespace mailgrad::remote
