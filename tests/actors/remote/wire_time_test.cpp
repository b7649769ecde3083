#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using testing::manual_time;

std::shared_ptr<const parameter_layout> one_shard() {
  return std::make_shared<parameter_layout>(std::vector<placed_variable>{{"w", shape{16}, {}, 0, false}}, 1);
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

caf::message read(body_form& form, const sent_message& m, actor_address from, actor_address to) {
  const address_book nobody;
  byte_archive_reader fields(m.fields, "message");
  field_inspector inspector(fields, nobody);
  const arriving body = form.begin(inspector, from, to, {m.body.bytes.size()});
  std::ranges::copy(m.body.bytes, body.place.begin());
  return body.finish();
}

/// A gradient is 3 ms under way and its answer 4 ms; the shard holds it for 50 ms between both. The two
/// clocks differ by an hour.
TEST(WireTime, IsThatOfBothWaysWithoutTheStayAtTheShard) {
  const auto at_worker = std::make_shared<manual_time>(), at_shard = std::make_shared<manual_time>();
  at_shard->advance(1h);
  const auto pass = [&](instant span) {
    at_worker->advance(span);
    at_shard->advance(span);
  };
  const actor_address worker{duty::worker, 0}, shard{duty::shard, 0};
  exchange_terms here{{}, {}, {}, one_shard(), at_worker, std::make_shared<exchange_clock>(1)};
  exchange_terms there{{}, {}, {}, here.layout, at_shard, std::make_shared<exchange_clock>(1)};
  gradient_form out(here), in(there);
  weights_form answers_out(there), answers_in(here);

  push_gradient x{};
  x.payload.values = make_gradient(*here.layout);
  const sent_message push = written(out, caf::make_message(x), shard);
  pass(3ms);
  read(in, push, worker, shard);
  pass(50ms);
  shard_weights answer{};
  answer.header.stay = stay_at_shard{};
  answer.payload.values = snapshot(std::make_shared<memory>(block(16 * sizeof(float))));
  const sent_message weights = written(answers_out, caf::make_message(answer), worker);
  pass(4ms);
  read(answers_in, weights, shard, worker);

  const caf::message next = read(in, written(out, caf::make_message(x), shard), worker, shard);
  const auto wire = next.get_as<push_gradient>(0).header.times.wire;
  ASSERT_TRUE(wire);
  EXPECT_EQ(*wire, 7ms);
}

} // namespace
} // namespace mailgrad::remote
