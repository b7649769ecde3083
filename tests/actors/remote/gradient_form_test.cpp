#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

// Gradients, weights and batches as they go between two processes.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using ::testing::Each, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::ThrowsMessage;
using testing::manual_time;

constexpr actor_address the_worker{duty::worker, 0}, first_shard{duty::shard, 0},
    second_shard{duty::shard, 1};

/// Of a worker and a server whose model has so many weights.
exchange_terms exchange_of(std::size_t weights, std::uint32_t shards,
                           std::shared_ptr<const time_source> time = std::make_shared<manual_time>()) {
  const auto layout = std::make_shared<parameter_layout>(
      std::vector<placed_variable>{{"w", shape{weights}, {}, 0, false}}, shards);
  return {{}, {}, {}, layout, std::move(time), std::make_shared<exchange_clock>(shards)};
}

caf::message message_of(std::shared_ptr<const gradient> values) {
  push_gradient x{};
  x.payload.values = std::move(values);
  return caf::make_message(x);
}

/// So many weights of a shard.
shard_weights weights_of(std::uint32_t shard, std::size_t size) {
  shard_weights x{};
  x.header.shard = {shard};
  x.payload.values = snapshot(std::make_shared<memory>(block(size * sizeof(float))));
  return x;
}

/// A message as it lies between two processes.
struct sent_message {
  std::string fields;
  attached body;
};

sent_message written(body_form& form, const caf::message& m, actor_address to) {
  const address_book nobody;
  byte_archive_writer fields;
  field_inspector inspector(fields, nobody);
  sent_message made;
  made.body = form.write(m, to, inspector);
  made.fields = fields.bytes();
  return made;
}

arriving begun(body_form& form, const sent_message& m, actor_address from, actor_address to,
               const net::borrowed* lent = nullptr) {
  const address_book nobody;
  byte_archive_reader fields(m.fields, "message");
  field_inspector inspector(fields, nobody);
  return form.begin(inspector, from, to, {m.body.bytes.size(), lent});
}

caf::message read(body_form& form, const sent_message& m, actor_address from, actor_address to) {
  const arriving body = begun(form, m, from, to);
  std::ranges::copy(m.body.bytes, body.place.begin());
  return body.finish();
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
  constexpr std::size_t model_bytes = std::size_t{64} << 20U;
  constexpr actor_address shard{duty::shard, 3};
  const exchange_terms terms = exchange_of(model_bytes / sizeof(float), 16);
  const std::size_t part = dense_range_of(*terms.layout, shard.number).size() * sizeof(float);
  const caf::message large = message_of(make_gradient(*terms.layout, block::for_overwrite));
  gradient_form out(terms), at_shard(terms);
  const sent_message sent = written(out, large, shard);
  ASSERT_EQ(sent.body.bytes.size(), part);
  const arriving values = begun(at_shard, sent, the_worker, shard);
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
  exchange_terms terms = exchange_of(64, 2);
  terms.devices = devices;
  return terms;
}

/// What the shard reads of a gradient that goes through bytes.
std::shared_ptr<const gradient> at_shard(gradient_form& receiver, const exchange_terms& terms,
                                         std::shared_ptr<const gradient> sent, actor_address shard) {
  const caf::message m = message_of(std::move(sent));
  gradient_form out(terms);
  return read(receiver, written(out, m, shard), the_worker, shard).get_as<push_gradient>(0).payload.values;
}

TEST(GradientForm, CarriesWhatEachDeviceOfAWorkerAddsApart) {
  const exchange_terms terms = terms_of_two_shards(3);
  gradient_form receiver(terms);
  const auto found = at_shard(receiver, terms, with_addends(*terms.layout), second_shard);
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
  EXPECT_TRUE(at_shard(receiver, terms, make_gradient(*terms.layout), second_shard)->addends.empty());
}

/// As the forms of all workers of a server do.
TEST(GradientForm, SharesRoomWithThoseOfOtherWorkers) {
  exchange_terms terms = terms_of_two_shards(1);
  terms.bounds.buffers = std::make_shared<gradient_buffers>(terms.layout);
  gradient_form first(terms), second(terms);
  const auto sent = make_gradient(*terms.layout);
  at_shard(first, terms, sent, first_shard);
  at_shard(second, terms, sent, first_shard);
  EXPECT_EQ(terms.bounds.buffers->count(), 1U) << "the first gradient was done with";
  const auto kept = at_shard(first, terms, sent, first_shard);
  const auto another = at_shard(second, terms, sent, first_shard);
  EXPECT_NE(kept, another);
  EXPECT_EQ(terms.bounds.buffers->count(), 2U) << "both are there at once";
  at_shard(second, terms, sent, second_shard);
  EXPECT_EQ(terms.bounds.buffers->count(), 3U) << "each shard has its own";
}

/// As where a policy keeps gradients until it has one of each worker.
TEST(GradientForm, TakesRoomUntilTheShardHasReadTheMessage) {
  exchange_terms terms = terms_of_two_shards(1);
  terms.bounds.on_way = std::make_shared<transit>(0, 128);
  gradient_form receiver(terms);
  const auto kept = at_shard(receiver, terms, make_gradient(*terms.layout), first_shard);
  EXPECT_EQ(terms.bounds.on_way->arriving_bytes(), 0U) << "the message is gone, and the gradient is not";
}

TEST(GradientForm, RefusesMoreAddendsThanAWorkerHasDevices) {
  const exchange_terms terms = terms_of_two_shards(1);
  gradient_form receiver(terms);
  EXPECT_THAT([&] { at_shard(receiver, terms, with_addends(*terms.layout), first_shard); },
              ThrowsMessage<archive_error>(HasSubstr("expected at most 1 addends, found 2")));
}

/// A gradient of worker 1, whose channel is that of a run with sums or without.
struct SummedForm : ::testing::Test {
  static constexpr rank me{1};
  struct arrived_part {
    std::size_t bytes = 0; ///< of the body
    push_gradient what{};
  };

  static arrived_part sent(std::optional<sum_tag> sum, bool has_values, bool all_reduce) {
    push_gradient x{};
    x.header.id.worker = me;
    x.header.sum = sum;
    if (has_values) {
      const auto values = std::make_shared<gradient>();
      values->dense = memory(block(16 * sizeof(float)));
      std::ranges::fill(values->dense.on_host<float>(), 2.5F);
      x.payload.values = values;
    }
    exchange_terms terms = exchange_of(16, 1);
    terms.worker = me;
    terms.all_reduce = all_reduce;
    gradient_form out(terms), in(terms);
    const sent_message m = written(out, caf::make_message(x), first_shard);
    return {m.body.bytes.size(), read(in, m, {duty::worker, me.value}, first_shard).get_as<push_gradient>(0)};
  }
};

TEST_F(SummedForm, CarriesASumAsAnyGradientWithItsTag) {
  const arrived_part mine = sent(sum_tag{me, 3}, true, true), carried = sent(sum_tag{{0}, 3}, false, true);
  EXPECT_EQ(mine.bytes, 64U);
  EXPECT_THAT(mine.what.payload.values->dense.on_host<float>(), Each(2.5F));
  EXPECT_EQ(mine.what.header.sum->carrier, me);
  EXPECT_EQ(mine.what.header.sum->gradients, 3U);
  EXPECT_EQ(carried.bytes, 0U) << "another worker carries it";
  EXPECT_EQ(carried.what.payload.values, nullptr);
  EXPECT_TRUE(carried.what.header.is_carried());
  EXPECT_EQ(carried.what.header.sum->carrier, rank{0});
}

TEST_F(SummedForm, RefusesWhatARunWithoutSumsOrWithThemCannotHave) {
  const auto expect_refused = [](std::optional<sum_tag> sum, bool has_values, bool all_reduce,
                                 const char* words) {
    EXPECT_THAT([=] { sent(sum, has_values, all_reduce); }, ThrowsMessage<archive_error>(HasSubstr(words)));
  };
  expect_refused(sum_tag{{0}, 3}, false, false,
                 "gradient of worker 1: expected one with values of its own, found one of a sum");
  expect_refused({}, false, false, "expected one with values of its own, found one alone");
  expect_refused({}, true, true, "expected one of a sum, whose carrier alone has values");
  expect_refused(sum_tag{{0}, 3}, true, true, "whose carrier alone has values");
  expect_refused(sum_tag{me, 3}, false, true, "whose carrier alone has values");
}

/// Sends one number of sixteen.
struct GradientEncoder : ::testing::Test {
  /// What the shard gets of the gradient of a step, of which the first four are given; the others are 0.
  static std::vector<float> arrived(gradient_encoder& e, std::uint64_t step, std::vector<float> g) {
    g.resize(16);
    const auto sent = e.encode(0, step_number{step}, g, {});
    decode_numbers(most, *sent->dense, g);
    g.resize(4);
    return g;
  }

  inline static const wire_format most = parse_wire_format("top-k:0.0625");
  const exchange_terms there = exchange_of(16, 1);
  gradient_encoder e{most, there.layout};
};

TEST_F(GradientEncoder, AddsToTheNextGradientWhatAMessageLacked) {
  EXPECT_THAT(arrived(e, 1, {4, 3, 2, 1}), ElementsAre(4, 0, 0, 0));
  e.answered(0, {});
  EXPECT_THAT(arrived(e, 2, {0, 0, 0, 0}), ElementsAre(0, 3, 0, 0));
}

TEST_F(GradientEncoder, TakesBackWhatTheShardDiscards) {
  arrived(e, 1, {4, 3, 2, 1});
  e.answered(0, step_number{1});
  e.answered(0, step_number{1}); // said again with later weights
  EXPECT_THAT(arrived(e, 2, {0, 0, 0, 0}), ElementsAre(4, 0, 0, 0));
  e.answered(0, step_number{1}); // the second one has been taken
  EXPECT_THAT(arrived(e, 3, {0, 0, 0, 0}), ElementsAre(0, 3, 0, 0));
}

TEST_F(GradientEncoder, LeavesAGradientThatIsNotFiniteAsItIs) {
  arrived(e, 1, {4, 3, 2, 1});
  e.answered(0, {});
  const std::vector<float> broken(16, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(e.encode(0, step_number{2}, broken, {}));
  EXPECT_THAT(arrived(e, 3, {0, 0, 0, 0}), ElementsAre(0, 3, 0, 0));
}

/// Weights as they arrive at a worker: the encoder of its gradients hears of them first.
TEST_F(GradientEncoder, HearsOfADiscardedGradientByTheWeightsThatAnswerIt) {
  exchange_terms here = there;
  here.encoder = std::make_shared<gradient_encoder>(most, here.layout);
  arrived(*here.encoder, 1, {4, 3, 2, 1});
  shard_weights answer = weights_of(0, 16);
  answer.header.discarded = step_number{1};
  weights_form out(there), at_worker(here);
  read(at_worker, written(out, caf::make_message(answer), the_worker), first_shard, the_worker);
  EXPECT_THAT(arrived(*here.encoder, 2, {0, 0, 0, 0}), ElementsAre(4, 0, 0, 0));
}

/// The shard of a lossy format gets what it would have applied, so that residuals are of that unit, too.
TEST_F(GradientEncoder, GetsAGradientWithItsFactorOfClipping) {
  exchange_terms in_halves = there;
  in_halves.wire = parse_wire_format("float16");
  exchange_terms here = in_halves;
  here.encoder = std::make_shared<gradient_encoder>(here.wire, here.layout);
  const auto g = make_gradient(*here.layout);
  std::ranges::fill(g->dense.on_host<float>(), 8.0F);
  push_gradient x{};
  x.header.scale_bits = std::bit_cast<std::uint32_t>(0.25F);
  x.payload.values = g;
  gradient_form out(here), in(in_halves);
  const caf::message told =
      read(in, written(out, caf::make_message(x), first_shard), the_worker, first_shard);
  const auto& heard = told.get_as<push_gradient>(0);
  EXPECT_EQ(std::bit_cast<float>(heard.header.scale_bits), 1.0F);
  EXPECT_THAT(heard.payload.values->dense.on_host<float>(), Each(2.0F));
}

/// A gradient is 3 ms under way and its answer 4 ms; the shard holds it for 50 ms between both. The two
/// clocks differ by an hour.
TEST(WireTime, IsThatOfBothWaysWithoutTheStayAtTheShard) {
  const auto time_here = std::make_shared<manual_time>(), time_there = std::make_shared<manual_time>();
  time_there->advance(1h);
  const auto pass = [&](instant span) {
    time_here->advance(span);
    time_there->advance(span);
  };
  const exchange_terms here = exchange_of(16, 1, time_here), there = exchange_of(16, 1, time_there);
  gradient_form out(here), in(there);
  weights_form answers_out(there), answers_in(here);
  const caf::message push = message_of(make_gradient(*here.layout));
  const sent_message pushed = written(out, push, first_shard);
  pass(3ms);
  read(in, pushed, the_worker, first_shard);
  pass(50ms);
  shard_weights answer = weights_of(0, 16);
  answer.header.stay = stay_at_shard{};
  const sent_message weights = written(answers_out, caf::make_message(answer), the_worker);
  pass(4ms);
  read(answers_in, weights, first_shard, the_worker);
  const caf::message next = read(in, written(out, push, first_shard), the_worker, first_shard);
  EXPECT_EQ(next.get_as<push_gradient>(0).header.times.wire, instant{7ms});
}

struct forged_tensor {
  std::vector<std::size_t> extents;

  void keep(archive& a) {
    a.group("shape", [&] { a.field("extents", extents); });
    dtype type = dtype::float32;
    a.choice("type", type, dtype::int32);
  }
};

/// What comes of a batch of a process that is not as it should be, all of whose tensors have this shape.
void read_batch_of(const std::vector<std::size_t>& extents) {
  byte_archive_writer a;
  std::size_t one = 1;
  std::uint64_t none = 0;
  std::vector<forged_tensor> tensors(6, forged_tensor{extents});
  a.version(1);
  a.field("size", one);
  a.field("nonzeros", one);
  a.field("number", none);
  a.field("epoch", none);
  a.field("tensors", tensors);
  const std::string bytes = a.bytes();
  byte_archive_writer fields;
  const address_book nobody;
  field_inspector inspector(fields, nobody);
  std::size_t description = bytes.size();
  inspector.field("description", description);
  batch_form form;
  read(form, {fields.bytes(), {std::as_bytes(std::span(bytes)), {}}}, {duty::feeder}, the_worker);
}

TEST(BatchForm, RefusesShapesThatNoTensorHas) {
  constexpr std::size_t large = std::size_t{1} << 40;
  for (const std::vector<std::size_t>& extents : {std::vector<std::size_t>(9, 1), {large, large}})
    EXPECT_THAT([&] { read_batch_of(extents); }, ThrowsMessage<archive_error>(HasSubstr("shape")));
}

/// Messages that are handed over as loans: what the sender holds is what the receiver sees.
struct Loan : ::testing::Test {
  static constexpr std::size_t half = 8192; ///< weights of one of two shards

  /// `at` is where the part lies in its block.
  arriving begin(body_form& out, body_form& in, const caf::message& m, actor_address from, actor_address to,
                 net::byte_view all, std::size_t at) {
    const sent_message sent = written(out, m, to);
    lent = {all, all.subspan(at, sent.body.bytes.size()), keeper};
    return begun(in, sent, from, to, &lent);
  }
  arriving begin_gradient(const caf::message& m, actor_address shard, net::byte_view all,
                          std::size_t at = 0) {
    gradient_form out(terms);
    return begin(out, gradients, m, the_worker, shard, all, at);
  }
  arriving begin_weights(const shard_weights& x, actor_address shard, net::byte_view all,
                         std::size_t at = 0) {
    weights_form out(terms);
    return begin(out, weights, caf::make_message(x), shard, the_worker, all, at);
  }

  const exchange_terms terms = exchange_of(2 * half, 2);
  gradient_form gradients{terms}; ///< at the receiver
  weights_form weights{terms};
  std::shared_ptr<const int> keeper = std::make_shared<const int>(0);
  net::borrowed lent;
};

struct LentGradient : Loan {};

TEST_F(LentGradient, IsReadWhereItsWorkerHasWrittenIt) {
  const auto values = make_gradient(*terms.layout);
  const std::span<float> floats = values->dense.on_host<float>();
  for (std::size_t i = 0; i < 2 * half; ++i) floats[i] = static_cast<float>(i);
  for (const actor_address shard : {first_shard, second_shard}) {
    arriving came = begin_gradient(message_of(values), shard, values->dense.on_host<std::byte>(),
                                   terms.layout->shard(shard.number).begin * sizeof(float));
    EXPECT_TRUE(came.place.empty()) << "nothing is to be copied";
    caf::message m = came.finish();
    came = {};
    const auto& got = m.get_as<push_gradient>(0).payload.values;
    EXPECT_EQ(got->dense.on_host<float>().data(), floats.data());
    EXPECT_EQ(got->dense.bytes(), values->dense.bytes());
    lent.keeps.reset();
    EXPECT_EQ(keeper.use_count(), 2) << "it is kept by the message";
    m = {};
    EXPECT_EQ(keeper.use_count(), 1);
  }
}

TEST_F(LentGradient, IsCopiedIfItLiesOtherwise) {
  const caf::message m = message_of(make_gradient(*terms.layout));
  const block shifted(64 + 2 * half * sizeof(float)), short_one(half * sizeof(float));
  EXPECT_FALSE(begin_gradient(m, second_shard, shifted.as<std::byte>()).place.empty());
  EXPECT_FALSE(begin_gradient(m, first_shard, short_one.as<std::byte>()).place.empty());
}

struct LentWeights : Loan {};

TEST_F(LentWeights, AreReadWhereTheirShardHasWrittenThem) {
  block whole(half * sizeof(float));
  whole.as<float>()[3] = 2.5F;
  const arriving came = begin_weights(weights_of(1, half), second_shard, whole.as<std::byte>());
  EXPECT_TRUE(came.place.empty());
  const caf::message m = came.finish();
  const auto got = m.get_as<shard_weights>(0).payload.values.on_host();
  EXPECT_EQ(static_cast<const void*>(got.data()), whole.data());
  EXPECT_EQ(got.size(), half);
}

TEST_F(LentWeights, AreOfNoShardButTheirSender) {
  const block whole(half * sizeof(float));
  EXPECT_THAT([&] { begin_weights(weights_of(1, half), first_shard, whole.as<std::byte>()); },
              ThrowsMessage<archive_error>(
                  HasSubstr("weights: expected those of shard 0, which sent them, found those of shard 1")));
}

TEST_F(LentWeights, AreCopiedIfTheyLieAcrossCacheLines) {
  const block whole(4 + half * sizeof(float));
  EXPECT_EQ(begin_weights(weights_of(0, half), first_shard, whole.as<std::byte>(), 4).place.size(),
            half * sizeof(float));
}

} // namespace
} // namespace mailgrad::remote
