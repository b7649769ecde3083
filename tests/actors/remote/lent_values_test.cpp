#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::remote {
namespace {

using testing::manual_time;

constexpr std::size_t half = 8192; ///< weights of one of two shards

exchange_terms two_shards() {
  const auto layout = std::make_shared<parameter_layout>(
      std::vector<placed_variable>{{"w", shape{2 * half}, {}, 0, false}}, 2);
  return {{}, {}, {}, layout, std::make_shared<manual_time>(), std::make_shared<exchange_clock>(2)};
}

/// Hands a message over as a loan: what the sender holds is what the receiver sees. `begin` is where the part
/// lies in its block.
struct loan_way {
  arriving begin(body_form& out, body_form& in, const caf::message& m, actor_address from, actor_address to,
                 net::byte_view all, std::size_t begin) {
    const address_book nobody;
    byte_archive_writer written;
    field_inspector writes(written, nobody);
    const attached body = out.write(m, to, writes);
    lent = {all, all.subspan(begin, body.bytes.size()), keeper};
    byte_archive_reader read(written.bytes(), "message");
    field_inspector reads(read, nobody);
    return in.begin(reads, from, to, {body.bytes.size(), &lent});
  }

  std::shared_ptr<const int> keeper = std::make_shared<const int>(0);
  net::borrowed lent;
};

const actor_address worker{duty::worker, 0};

TEST(LentGradient, IsReadWhereItsWorkerHasWrittenIt) {
  const exchange_terms terms = two_shards();
  gradient_form out(terms), in(terms);
  push_gradient x{};
  const auto values = make_gradient(*terms.layout);
  for (std::size_t i = 0; i < 2 * half; ++i) values->dense.on_host<float>()[i] = static_cast<float>(i);
  x.payload.values = values;
  for (const std::uint32_t shard : {0U, 1U}) {
    loan_way way;
    arriving came =
        way.begin(out, in, caf::make_message(x), worker, {duty::shard, shard},
                  values->dense.on_host<std::byte>(), terms.layout->shard(shard).begin * sizeof(float));
    EXPECT_TRUE(came.place.empty()) << "nothing is to be copied";
    caf::message m = came.finish();
    came = {};
    const auto& got = m.get_as<push_gradient>(0).payload.values;
    EXPECT_EQ(got->dense.on_host<float>().data(), values->dense.on_host<float>().data());
    EXPECT_EQ(got->dense.bytes(), values->dense.bytes());
    way.lent.keeps.reset();
    EXPECT_EQ(way.keeper.use_count(), 2) << "it is kept by the message";
    m = {};
    EXPECT_EQ(way.keeper.use_count(), 1);
  }
}

TEST(LentGradient, IsCopiedIfItLiesOtherwise) {
  const exchange_terms terms = two_shards();
  gradient_form out(terms), in(terms);
  push_gradient x{};
  x.payload.values = make_gradient(*terms.layout);
  const block shifted(64 + 2 * half * sizeof(float)), short_one(half * sizeof(float));
  loan_way way;
  EXPECT_FALSE(way.begin(out, in, caf::make_message(x), worker, {duty::shard, 1}, shifted.as<std::byte>(), 0)
                   .place.empty());
  EXPECT_FALSE(
      way.begin(out, in, caf::make_message(x), worker, {duty::shard, 0}, short_one.as<std::byte>(), 0)
          .place.empty());
}

TEST(LentWeights, AreReadWhereTheirShardHasWrittenThem) {
  const exchange_terms terms = two_shards();
  weights_form out(terms), in(terms);
  shard_weights x{};
  x.header.shard = {1};
  const auto values = std::make_shared<memory>(block(half * sizeof(float)));
  x.payload.values = snapshot(values);
  block whole(half * sizeof(float));
  whole.as<float>()[3] = 2.5F;
  loan_way way;
  const arriving came =
      way.begin(out, in, caf::make_message(x), {duty::shard, 1}, worker, whole.as<std::byte>(), 0);
  EXPECT_TRUE(came.place.empty());
  const caf::message m = came.finish();
  const auto got = m.get_as<shard_weights>(0).payload.values.on_host();
  EXPECT_EQ(static_cast<const void*>(got.data()), whole.data());
  EXPECT_EQ(got.size(), half);
}

TEST(LentWeights, AreOfNoShardButTheirSender) {
  const exchange_terms terms = two_shards();
  weights_form out(terms), in(terms);
  shard_weights x{};
  x.header.shard = {1};
  x.payload.values = snapshot(std::make_shared<memory>(block(half * sizeof(float))));
  const block whole(half * sizeof(float));
  loan_way way;
  EXPECT_THAT(
      [&] {
        way.begin(out, in, caf::make_message(x), {duty::shard, 0}, worker, whole.as<std::byte>(), 0);
      },
      ::testing::ThrowsMessage<archive_error>(::testing::HasSubstr(
          "weights: expected those of shard 0, which sent them, found those of shard 1")));
}

TEST(LentWeights, AreCopiedIfTheyLieAcrossCacheLines) {
  const exchange_terms terms = two_shards();
  weights_form out(terms), in(terms);
  shard_weights x{};
  x.payload.values = snapshot(std::make_shared<memory>(block(half * sizeof(float))));
  const block whole(4 + half * sizeof(float));
  loan_way way;
  EXPECT_EQ(way.begin(out, in, caf::make_message(x), {duty::shard, 0}, worker, whole.as<std::byte>(), 4)
                .place.size(),
            half * sizeof(float));
}

} // namespace
} // namespace mailgrad::remote
