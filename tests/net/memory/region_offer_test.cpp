#include <mailgrad/net/memory/shared_region.hpp>

#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace ::testing;

struct RegionOffer : Test {
  RegionOffer() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("no sockets");
    ours = descriptor(ends[0]);
    theirs = descriptor(ends[1]);
  }
  void say(byte_view data) {
    ASSERT_EQ(send(ours.number(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  }
  static descriptor memory(std::size_t size, int seals) {
    descriptor made(memfd_create("mailgrad-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(made.number(), static_cast<off_t>(size)), 0);
    EXPECT_EQ(fcntl(made.number(), F_ADD_SEALS, seals), 0);
    return made;
  }

  descriptor ours, theirs;
};

constexpr int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t ring_bytes = 8 << 10, page = 4 << 10;

TEST_F(RegionOffer, GivesBothSidesOneMemory) {
  EXPECT_FALSE(take_offer(theirs.number())) << "there is none yet";
  const shared_region made = shared_region::make(ring_bytes);
  ASSERT_TRUE(send_offer(ours.number(), made));
  const auto got = take_offer(theirs.number());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->region.ring_bytes(), ring_bytes);
  EXPECT_FALSE(got->heap) << "none was offered";
  made.of_server().data[7] = std::byte{9};
  made.of_client().counters->written = 5;
  EXPECT_EQ(got->region.of_server().data[7], std::byte{9});
  EXPECT_EQ(got->region.of_client().counters->written, 5U);
  EXPECT_EQ(got->region.of_client().data.size(), ring_bytes);
}

TEST_F(RegionOffer, IsOfMemoryThatNobodyCanMakeShorter) {
  const shared_region made = shared_region::make(ring_bytes);
  EXPECT_NE(ftruncate(made.memory(), 0), 0);
  EXPECT_NE(ftruncate(made.memory(), 1 << 20), 0);
  EXPECT_NE(fcntl(made.memory(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "no more seals";
}

TEST_F(RegionOffer, IsRefusedIfItIsNoSealedMemoryOfThatSize) {
  const auto refused = [](const descriptor& d, std::size_t size, const std::string& words) {
    EXPECT_THAT([&] { shared_region::of_peer(d.number(), size); },
                ThrowsMessage<protocol_error>(HasSubstr(words)));
  };
  const std::size_t right = 2 * (page + ring_bytes);
  EXPECT_TRUE(shared_region::of_peer(memory(right, all_seals).number(), ring_bytes));
  refused(memory(right, F_SEAL_GROW), ring_bytes, "expected memory whose length is sealed");
  refused(memory(right, F_SEAL_SHRINK | F_SEAL_GROW), ring_bytes, "expected memory whose length is sealed");
  refused(descriptor(dup(ours.number())), ring_bytes, "expected memory whose length is sealed");
  refused(memory(right - 1, all_seals), ring_bytes, "expected 24576 bytes for two rings, found 24575");
  refused(memory(right, all_seals), 2 * ring_bytes, "expected 40960 bytes for two rings, found 24576");
  refused(memory(right, all_seals), 0, "expected rings of 4096 to 16777216 bytes, found 0");
  refused(memory(right, all_seals), ring_bytes + 1, "found 8193");
  refused(memory(right, all_seals), ~std::size_t{0}, "found 18446744073709551615");
}

TEST_F(RegionOffer, IsRefusedIfItIsSomethingElse) {
  const auto refused = [](byte_view said, const std::string& words) {
    EXPECT_THAT([&] { decode_region_offer(said); }, ThrowsMessage<protocol_error>(HasSubstr(words)));
  };
  refused(as_bytes("mgnf of a frame"), "expected an offer of memory");
  bytes offer = encode(region_offer{ring_bytes});
  EXPECT_EQ(offer.size(), region_offer::size);
  EXPECT_EQ(decode_region_offer(offer).ring_bytes, ring_bytes);
  for (std::size_t n = 0; n < offer.size(); ++n)
    EXPECT_THROW(decode_region_offer(byte_view{offer}.first(n)), protocol_error);
  offer[4] = std::byte{9};
  refused(offer, "expected layout 2, found 9");
}

TEST_F(RegionOffer, NeedsADescriptor) {
  say(encode(region_offer{ring_bytes}));
  EXPECT_THAT([&] { take_offer(theirs.number()); },
              ThrowsMessage<protocol_error>(HasSubstr("expected a descriptor beside the offer, found none")));
  ours = {};
  EXPECT_THAT([&] { take_offer(theirs.number()); },
              ThrowsMessage<protocol_error>(HasSubstr("found a closed connection")));
}

TEST_F(RegionOffer, KnowsTheUserOfAPeer) { EXPECT_EQ(user_of_peer(ours.number()), geteuid()); }
TEST_F(RegionOffer, NamesTheProcessOfAPeer) {
  EXPECT_EQ(process_at(ours.number()), "process " + std::to_string(getpid()));
}

} // namespace
} // namespace mailgrad::net
