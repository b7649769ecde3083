#include <mailgrad/net/stream/stream_host.hpp>

#include <mailgrad/tests/net/played_layers.hpp>

#include <gmock/gmock.h>

#include <array>
#include <random>

namespace mailgrad::net {
namespace {

/// A frame with a payload of its own, or with a body that lies elsewhere.
outgoing frame_of(std::size_t size, std::byte filled_with, bool is_body) {
  outgoing frame;
  frame.header.fill(filled_with);
  if (!is_body) {
    frame.payload.assign(size, filled_with);
    return frame;
  }
  const auto body = std::make_shared<const bytes>(size, filled_with);
  frame.body = *body;
  frame.keeps = body;
  return frame;
}

/// Appends at most so many bytes of these parts. How many those were.
std::size_t append(bytes& to, std::span<const iovec> parts, std::size_t most) {
  std::size_t count = 0;
  for (const iovec& part : parts) {
    const std::size_t taken = std::min(most - count, part.iov_len);
    const auto* first = static_cast<const std::byte*>(part.iov_base);
    to.insert(to.end(), first, first + taken);
    count += taken;
  }
  return count;
}

TEST(Outbox, GivesEveryByteOnceAndInItsOrder) {
  std::mt19937_64 random(3);
  outbox out;
  bytes expected, sent;
  for (int step = 0; step < 2000; ++step) {
    if (out.has_room() && random() % 2 == 0) {
      outgoing frame = frame_of(random() % 3 == 0 ? 0 : random() % 5000, std::byte(step), random() % 2 == 0);
      const bytes wire = on_the_wire(frame);
      expected.insert(expected.end(), wire.begin(), wire.end());
      out.push(std::move(frame));
    }
    std::array<iovec, 7> parts;
    const auto given = out.gather(parts);
    std::size_t gathered = 0;
    for (const iovec& part : given) gathered += part.iov_len;
    out.sent(append(sent, given, gathered == 0 ? 0 : random() % (gathered + 1)));
  }
  std::array<iovec, 2 * outbox::most_frames> parts;
  append(sent, out.gather(parts), SIZE_MAX);
  EXPECT_TRUE(sent == expected);
}

TEST(Outbox, HoldsABodyUntilItIsSent) {
  outbox out;
  outgoing frame = frame_of(1000, std::byte{1}, true);
  const std::weak_ptr<const void> body = frame.keeps;
  out.push(std::move(frame));
  out.sent(frame_header_bytes + 999);
  EXPECT_FALSE(body.expired());
  out.sent(1);
  EXPECT_TRUE(body.expired());
  EXPECT_TRUE(out.empty());
}

TEST(Outbox, HasRoomForSoManyFramesAndBytes) {
  outbox small, large;
  for (std::size_t i = 0; i < outbox::most_frames; ++i) {
    EXPECT_TRUE(small.has_room());
    small.push(frame_of(1, std::byte{1}, false));
  }
  EXPECT_FALSE(small.has_room());
  large.push(frame_of(outbox::most_bytes, std::byte{1}, true));
  EXPECT_FALSE(large.has_room());
  large.clear();
  EXPECT_TRUE(large.has_room());
}

} // namespace
} // namespace mailgrad::net
