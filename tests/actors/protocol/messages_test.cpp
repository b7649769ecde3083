#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

// What a message becomes when it leaves its process. None of ours does so far; a header must be able to.

/// `x` made bytes of and read again; nothing if one of both fails.
template <class T>
std::optional<T> sent(T x) {
  T read;
#if CAF_MAJOR_VERSION >= 1
  caf::core::init_global_meta_objects(); // an error carries words, which CAF must know
  caf::byte_buffer bytes;
  caf::binary_serializer sink(bytes);
  if (!sink.apply(x)) return std::nullopt;
  caf::binary_deserializer source(bytes);
  if (!source.apply(read)) return std::nullopt;
#else
  std::vector<char> bytes;
  caf::binary_serializer sink(nullptr, bytes);
  if (sink(x)) return std::nullopt;
  caf::binary_deserializer source(nullptr, bytes);
  if (source(read)) return std::nullopt;
#endif
  return read;
}

gradient_header some_header() { return {{{11}, {3}, {2}, {17}}, {40}, {5}, 0x3f800000, {2ms, std::nullopt}}; }

TEST(Messages, CarryTheHeaderOfAGradientAnywhere) {
  const gradient_header was = some_header();
  const std::optional<gradient_header> is = sent(was);
  ASSERT_TRUE(is);
  EXPECT_EQ(is->id, was.id);
  EXPECT_EQ(is->version_read, was.version_read);
  EXPECT_EQ(is->epoch, was.epoch);
  EXPECT_EQ(is->scale_bits, was.scale_bits);
  EXPECT_EQ(is->times.read, was.times.read);
  EXPECT_FALSE(is->times.compute) << "nobody measured it";
}

TEST(Messages, CarryTheHeaderOfWeightsAnywhere) {
  const weights_header was{{1}, {40}, {5}, stay_at_shard{1, 2, 3, 4}, {17}};
  const std::optional<weights_header> is = sent(was);
  ASSERT_TRUE(is);
  EXPECT_EQ(is->shard, was.shard);
  EXPECT_EQ(is->version, was.version);
  EXPECT_EQ(is->epoch, was.epoch);
  EXPECT_EQ(is->met, was.met);
  ASSERT_TRUE(is->stay);
  EXPECT_EQ(is->stay->in_mailbox, 1);
  EXPECT_EQ(is->stay->until_barrier, 2);
  EXPECT_EQ(is->stay->under_bound, 3);
  EXPECT_EQ(is->stay->until_answered, 4);
  const std::optional<weights_header> first = sent(weights_header{{1}, {0}, {0}, {}, {}});
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->stay);
}

TEST(Messages, CarryTheOrderOfARunAnywhere) {
  order_noted was;
  was.shard = {1};
  was.entries.push_back({order_entry::kind::left, {2}, {3}, 4, 5});
  was.deals.push_back({{2}, 9});
  const std::optional<order_noted> is = sent(was);
  ASSERT_TRUE(is);
  EXPECT_EQ(is->shard, was.shard);
  ASSERT_EQ(is->entries.size(), 1U);
  EXPECT_EQ(is->entries[0].what, order_entry::kind::left);
  EXPECT_EQ(is->entries[0].step, step_number{3});
  EXPECT_EQ(is->entries[0].gap, 4U);
  EXPECT_EQ(is->entries[0].arrived, 5);
  EXPECT_EQ(is->deals, was.deals);
}

TEST(Messages, DoNotCarryMemoryOfAProcessElsewhere) {
  EXPECT_FALSE(sent(gradient_payload{std::make_shared<gradient>()}));
  EXPECT_FALSE(sent(weights_payload{}));
  EXPECT_FALSE(sent(push_gradient{some_header(), {std::make_shared<gradient>()}}));
  EXPECT_FALSE(sent(shard_weights{}));
}

TEST(Listed, NamesAllBehindOneNoun) {
  EXPECT_EQ(listed("worker", {}), "");
  EXPECT_EQ(listed("worker", std::array{3U}), "worker 3");
  EXPECT_EQ(listed("shard", std::array{0U, 2U, 5U}), "shards 0, 2, 5");
}

} // namespace
} // namespace mailgrad
