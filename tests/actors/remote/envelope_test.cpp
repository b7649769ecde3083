#include <mailgrad/actors/remote/message_table.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const envelope example{.order = 5,
                       .to = {duty::shard, 2},
                       .from = {duty::worker, 258},
                       .kind = 30,
                       .layout = message_layout::fields_and_values};

net::bytes written(const envelope& head) {
  net::bytes made;
  net::frame_writer w(made);
  write_envelope(w, head);
  return made;
}

envelope read(const net::bytes& from, bool has_body) {
  net::frame_reader r("message", from);
  const envelope head = read_envelope(r, has_body);
  r.end();
  return head;
}

void expect_refused(const net::bytes& said, bool has_body, const std::string& words) {
  EXPECT_THAT([&] { read(said, has_body); }, ThrowsMessage<net::protocol_error>(HasSubstr(words)));
}

TEST(Envelope, StandsAsItsPageShowsIt) {
  constexpr std::array<std::uint8_t, envelope_bytes> bytes{5, 0, 0, 0, 0, 0, 0, 0,  5, 2, 0,
                                                           0, 0, 6, 2, 1, 0, 0, 30, 0, 1};
  const net::bytes made = written(example);
  ASSERT_EQ(made.size(), bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(static_cast<std::uint8_t>(made[i]), bytes[i]) << i;
  EXPECT_EQ(read(made, true), example);
}

TEST(Envelope, SaysHowTheMessageHasToCome) {
  for (const message_layout layout :
       {message_layout::fields, message_layout::fields_and_values, message_layout::fields_in_body}) {
    envelope head = example;
    head.layout = layout;
    const bool needs_body = layout != message_layout::fields;
    EXPECT_EQ(read(written(head), needs_body), head);
    expect_refused(written(head), !needs_body, "expected fields that fit how the message came");
  }
}

TEST(Envelope, IsRefusedIfItNamesNobodyAndNothing) {
  net::bytes made = written(example);
  made.back() = std::byte{3};
  expect_refused(made, true, "expected fields that fit how the message came");
  made = written(example);
  made[8] = std::byte{9};
  expect_refused(made, true, "expected a duty from 0 to 8, found 9");
  made = written(example);
  made.pop_back();
  expect_refused(made, true, "message");
}

} // namespace
} // namespace mailgrad::remote
