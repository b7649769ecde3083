#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr rank me{1};

/// Both ends of the channel of worker 1, whose gradients have sixteen values.
exchange_terms terms(bool all_reduce) {
  const auto layout =
      std::make_shared<parameter_layout>(std::vector<placed_variable>{{"w", shape{16}, {}, 0, false}}, 1);
  exchange_terms t{
      {}, me, {}, layout, std::make_shared<testing::manual_time>(), std::make_shared<exchange_clock>(1)};
  t.all_reduce = all_reduce;
  return t;
}

push_gradient pushed(std::optional<sum_tag> sum, bool has_values) {
  push_gradient x{};
  x.header.id.worker = me;
  x.header.sum = sum;
  if (!has_values) return x;
  const auto values = std::make_shared<gradient>();
  values->dense = memory(block(16 * sizeof(float)));
  std::ranges::fill(values->dense.on_host<float>(), 2.5F);
  x.payload.values = values;
  return x;
}

struct arrived_part {
  std::size_t bytes = 0; ///< of the body
  push_gradient what{};
};

arrived_part sent(const push_gradient& x, bool all_reduce) {
  const address_book nobody;
  byte_archive_writer written;
  field_inspector writes(written, nobody);
  gradient_form out(terms(all_reduce)), in(terms(all_reduce));
  const attached body = out.write(caf::make_message(x), {duty::shard, 0}, writes);
  byte_archive_reader read(written.bytes(), "message");
  field_inspector reads(read, nobody);
  const arriving came = in.begin(reads, {duty::worker, me.value}, {duty::shard, 0}, {body.bytes.size()});
  std::ranges::copy(body.bytes, came.place.begin());
  return {body.bytes.size(), came.finish().get_as<push_gradient>(0)};
}

TEST(SummedForm, CarriesASumAsAnyGradientWithItsTag) {
  const arrived_part a = sent(pushed(sum_tag{me, 3}, true), true);
  EXPECT_EQ(a.bytes, 64U);
  EXPECT_THAT(a.what.payload.values->dense.on_host<float>(), ::testing::Each(2.5F));
  EXPECT_EQ(a.what.header.sum->carrier, me);
  EXPECT_EQ(a.what.header.sum->gradients, 3U);
}

TEST(SummedForm, CarriesNoBytesOfAGradientThatAnotherWorkerCarries) {
  const arrived_part a = sent(pushed(sum_tag{{0}, 3}, false), true);
  EXPECT_EQ(a.bytes, 0U);
  EXPECT_EQ(a.what.payload.values, nullptr);
  EXPECT_TRUE(a.what.header.is_carried());
  EXPECT_EQ(a.what.header.sum->carrier, rank{0});
}

TEST(SummedForm, RefusesWhatARunWithoutSumsOrWithThemCannotHave) {
  const auto sending = [](std::optional<sum_tag> sum, bool has_values, bool all_reduce) {
    return [=] { sent(pushed(sum, has_values), all_reduce); };
  };
  const auto refuses = [](const char* words) { return ThrowsMessage<archive_error>(HasSubstr(words)); };
  EXPECT_THAT(sending(sum_tag{{0}, 3}, false, false),
              refuses("gradient of worker 1: expected one with values of its own, found one of a sum"));
  EXPECT_THAT(sending({}, false, false), refuses("expected one with values of its own, found one alone"));
  EXPECT_THAT(sending({}, true, true), refuses("expected one of a sum, whose carrier alone has values"));
  EXPECT_THAT(sending(sum_tag{{0}, 3}, true, true), refuses("whose carrier alone has values"));
  EXPECT_THAT(sending(sum_tag{me, 3}, false, true), refuses("whose carrier alone has values"));
}

} // namespace
} // namespace mailgrad::remote
