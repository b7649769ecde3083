#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad::remote {
namespace {

constexpr std::size_t model_bytes = std::size_t{64} << 20U;
constexpr std::uint32_t shards = 16;

exchange_terms terms_of_a_large_model() {
  const auto layout = std::make_shared<parameter_layout>(
      std::vector<placed_variable>{{"w", shape{model_bytes / sizeof(float)}, {}, 0, false}}, shards);
  return {
      {}, {}, {}, layout, std::make_shared<testing::manual_time>(), std::make_shared<exchange_clock>(shards)};
}

/// The bytes of memory that the machine gives for these.
std::size_t resident(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  std::vector<unsigned char> there((end - first + page - 1) / page);
  if (mincore(reinterpret_cast<void*>(first), end - first, there.data()) != 0) return 0;
  return page *
         static_cast<std::size_t>(std::ranges::count_if(there, [](unsigned char p) { return p & 1U; }));
}

/// A server has a gradient of the size of the model for each shard and worker. If all of it took memory, the
/// shards would multiply what a worker costs.
TEST(GradientForm, TakesNoMoreMemoryForAGradientThanTheShardsPart) {
  const exchange_terms terms = terms_of_a_large_model();
  constexpr std::uint32_t shard = 3;
  const std::size_t part = dense_range_of(*terms.layout, shard).size() * sizeof(float);
  const address_book nobody;
  byte_archive_writer written;
  field_inspector writes(written, nobody);
  push_gradient x{};
  x.payload.values = make_gradient(*terms.layout, block::for_overwrite);
  ASSERT_EQ(gradient_form(terms).write(caf::make_message(x), {duty::shard, shard}, writes).bytes.size(),
            part);

  byte_archive_reader read(written.bytes(), "gradient");
  field_inspector reads(read, nobody);
  gradient_form at_shard(terms);
  const arriving values = at_shard.begin(reads, {duty::worker, 0}, {duty::shard, shard}, {part});
  std::ranges::fill(values.place, std::byte{1});
  const caf::message told = values.finish();
  const auto dense = told.get_as<push_gradient>(0).payload.values->dense.on_host<std::byte>();
  ASSERT_EQ(dense.size_bytes(), model_bytes);
  const std::size_t taken = resident(dense);
  EXPECT_GE(taken, part);
  EXPECT_LE(taken, 2 * part);
}

/// A gradient of 32 weights on each of two shards, with what further devices of its worker add.
std::shared_ptr<gradient> with_addends(const parameter_layout& layout) {
  const auto g = make_gradient(layout);
  std::ranges::fill(g->dense.on_host<float>(), 1.0F);
  g->addends.resize(3);
  g->addends[0].covered = std::make_shared<const coverage>(); // the first device has nothing to add
  for (const std::size_t a : {1U, 2U}) {
    g->addends[a].values = block(g->dense.bytes());
    std::ranges::fill(g->addends[a].values.as<float>(), static_cast<float>(a) + 1);
  }
  g->addends[2].covered = std::make_shared<const coverage>(coverage{{0, 2}, {37, 38}});
  return g;
}

exchange_terms terms_of_two_shards(std::uint32_t devices) {
  const auto layout =
      std::make_shared<parameter_layout>(std::vector<placed_variable>{{"w", shape{64}, {}, 0, false}}, 2);
  exchange_terms terms{
      {}, {}, {}, layout, std::make_shared<testing::manual_time>(), std::make_shared<exchange_clock>(2)};
  terms.devices = devices;
  return terms;
}

/// What the shard reads of a gradient that goes through bytes.
std::shared_ptr<const gradient> at_shard(gradient_form& receiver, const exchange_terms& terms,
                                         std::shared_ptr<const gradient> sent, std::uint32_t shard) {
  const address_book nobody;
  byte_archive_writer written;
  field_inspector writes(written, nobody);
  push_gradient x{};
  x.payload.values = std::move(sent);
  const attached body = gradient_form(terms).write(caf::make_message(x), {duty::shard, shard}, writes);
  byte_archive_reader read(written.bytes(), "gradient");
  field_inspector reads(read, nobody);
  const arriving values = receiver.begin(reads, {duty::worker, 0}, {duty::shard, shard}, {body.bytes.size()});
  std::ranges::copy(body.bytes, values.place.begin());
  return values.finish().get_as<push_gradient>(0).payload.values;
}

TEST(GradientForm, CarriesWhatEachDeviceOfAWorkerAddsApart) {
  const exchange_terms terms = terms_of_two_shards(3);
  gradient_form receiver(terms);
  const auto found = at_shard(receiver, terms, with_addends(*terms.layout), 1);
  ASSERT_EQ(found->addends.size(), 2U) << "that of the first device is nothing";
  EXPECT_FALSE(found->addends[0].covered) << "all of it";
  ASSERT_TRUE(found->addends[1].covered);
  const coverage& of_second = *found->addends[1].covered;
  ASSERT_EQ(of_second.size(), 2U);
  EXPECT_EQ(of_second[1].begin, 37U);
  EXPECT_EQ(of_second[1].end, 38U);
  for (std::size_t i = 32; i < 64; ++i) {
    EXPECT_EQ(found->dense.on_host<float>()[i], 1.0F);
    EXPECT_EQ(found->addends[0].values.as<float>()[i], 2.0F);
    EXPECT_EQ(found->addends[1].values.as<float>()[i], 3.0F);
  }
}

TEST(GradientForm, ForgetsAddendsOfTheGradientBefore) {
  const exchange_terms terms = terms_of_two_shards(3);
  gradient_form receiver(terms);
  at_shard(receiver, terms, with_addends(*terms.layout), 0);
  EXPECT_TRUE(at_shard(receiver, terms, make_gradient(*terms.layout), 0)->addends.empty());
}

/// As the forms of all workers of a server do.
TEST(GradientForm, SharesRoomWithThoseOfOtherWorkers) {
  exchange_terms terms = terms_of_two_shards(1);
  terms.bounds.buffers = std::make_shared<gradient_buffers>(terms.layout);
  gradient_form first(terms), second(terms);
  const auto sent = make_gradient(*terms.layout);
  at_shard(first, terms, sent, 0);
  at_shard(second, terms, sent, 0);
  EXPECT_EQ(terms.bounds.buffers->count(), 1U) << "the first gradient was done with";
  const auto kept = at_shard(first, terms, sent, 0);
  const auto another = at_shard(second, terms, sent, 0);
  EXPECT_NE(kept, another);
  EXPECT_EQ(terms.bounds.buffers->count(), 2U) << "both are there at once";
  at_shard(second, terms, sent, 1);
  EXPECT_EQ(terms.bounds.buffers->count(), 3U) << "each shard has its own";
}

/// As where a policy keeps gradients until it has one of each worker.
TEST(GradientForm, TakesRoomUntilTheShardHasReadTheMessage) {
  exchange_terms terms = terms_of_two_shards(1);
  terms.bounds.on_way = std::make_shared<transit>(0, 128);
  gradient_form receiver(terms);
  const auto kept = at_shard(receiver, terms, make_gradient(*terms.layout), 0);
  EXPECT_EQ(terms.bounds.on_way->arriving_bytes(), 0U) << "the message is gone, and the gradient is not";
}

TEST(GradientForm, RefusesMoreAddendsThanAWorkerHasDevices) {
  const exchange_terms terms = terms_of_two_shards(1);
  gradient_form receiver(terms);
  EXPECT_THAT(
      [&] { at_shard(receiver, terms, with_addends(*terms.layout), 0); },
      ::testing::ThrowsMessage<archive_error>(::testing::HasSubstr("expected at most 1 addends, found 2")));
}

} // namespace
} // namespace mailgrad::remote
