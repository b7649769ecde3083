#include <mailgrad/net/memory/shared_region.hpp>

#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

constexpr std::size_t small = 100;

struct ring {
  explicit ring(std::size_t size = small) : data(size) {}
  ring_memory memory() { return {&counters, data}; }

  ring_counters counters;
  bytes data;
};

struct ByteRing : Test {
  std::size_t write(std::string_view text) {
    iovec part{const_cast<char*>(text.data()), text.size()};
    return writer.write({&part, 1});
  }
  std::string read(std::size_t most) {
    std::string text(most, '\0');
    iovec part{text.data(), most};
    text.resize(reader.read({&part, 1}));
    return text;
  }

  ring r;
  ring_writer writer{r.memory()};
  ring_reader reader{r.memory()};
};

TEST_F(ByteRing, CarriesBytesInAnyCuts) {
  std::mt19937_64 random(1);
  const std::size_t total = 100'000;
  std::size_t sent = 0, came = 0;
  const auto nth = [](std::size_t n) { return static_cast<char>(n * 31 + n / 251); };
  while (came < total) {
    std::string text(random() % (2 * small), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = nth(sent + i);
    sent += write(text);
    for (const char c : read(random() % (2 * small))) ASSERT_EQ(c, nth(came++));
    ASSERT_LE(came, sent);
    ASSERT_LE(sent - came, small);
  }
}

TEST_F(ByteRing, TakesFromAndGivesToSeveralPlaces) {
  std::string one = "one", none, two = "two";
  const std::vector<iovec> from{{one.data(), 3}, {none.data(), 0}, {two.data(), 3}};
  EXPECT_EQ(writer.write(from), 6U);
  std::string a(4, ' '), b(5, ' ');
  const std::vector<iovec> to{{a.data(), 4}, {b.data(), 5}};
  EXPECT_EQ(reader.read(to), 6U);
  EXPECT_EQ(a + b, "onetwo   ");
}

TEST_F(ByteRing, TakesNoMoreThanThereIsRoomFor) {
  EXPECT_TRUE(writer.has_room());
  EXPECT_EQ(write(std::string(small + 7, 'x')), small);
  EXPECT_FALSE(writer.has_room());
  EXPECT_EQ(write("y"), 0U);
  EXPECT_EQ(read(3), "xxx");
  EXPECT_EQ(write("yyyy"), 3U);
  const std::string rest = read(2 * small);
  EXPECT_EQ(rest.substr(0, small - 3), std::string(small - 3, 'x'));
  EXPECT_EQ(rest.substr(small - 3), "yyy");
  EXPECT_EQ(read(1), "");
}

TEST_F(ByteRing, CallsWhoeverWantsIt) {
  write("a");
  EXPECT_FALSE(writer.is_called()) << "nobody sleeps";
  EXPECT_TRUE(reader.call()) << "there is something already";
  EXPECT_FALSE(writer.is_called()) << "so it does not sleep";
  read(1);
  EXPECT_FALSE(reader.call());
  write("b");
  EXPECT_TRUE(writer.is_called());
  EXPECT_FALSE(writer.is_called()) << "one call is enough";
  read(1);
  EXPECT_FALSE(reader.call());
  reader.end_call();
  write(std::string(small, 'c'));
  EXPECT_FALSE(writer.is_called()) << "it wants it no more";
  EXPECT_FALSE(writer.call());
  read(1);
  EXPECT_TRUE(reader.is_called());
  EXPECT_TRUE(writer.call());
}

TEST_F(ByteRing, BelievesNoCounterThatCannotBe) {
  write("abc");
  read(2);
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t lie : {std::uint64_t{1}, std::uint64_t{2 + small + 1}, most}) {
    r.counters.written = lie;
    EXPECT_THAT([&] { read(small); },
                ThrowsMessage<protocol_error>(HasSubstr("expected bytes written of 3 to 102, found ")))
        << lie;
  }
  for (const std::uint64_t lie : {std::uint64_t{4}, most}) {
    r.counters.taken = lie;
    EXPECT_THAT([&] { write("d"); }, ThrowsMessage<protocol_error>(HasSubstr("expected bytes taken of ")))
        << lie;
    EXPECT_THROW(writer.has_room(), protocol_error);
    EXPECT_THROW(writer.call(), protocol_error);
  }
  r.counters.taken = 2;
  write("d");
  r.counters.taken = 1; // has been 2
  EXPECT_THROW(write("e"), protocol_error);
}

/// How one side sleeps, which is woken by the other one as by a socket.
class bed {
public:
  bool sleep() {
    std::unique_lock guard(mutex_);
    const bool called = called_.wait_for(guard, 20s, [this] { return calls_ > 0; });
    if (called) --calls_;
    return called;
  }
  void wake() {
    const std::lock_guard guard(mutex_);
    ++calls_;
    called_.notify_one();
  }

private:
  std::mutex mutex_;
  std::condition_variable called_;
  int calls_ = 0;
};

/// Both ends of one way, each with a bed. Each stays awake for a random while, so that the other one comes at
/// any moment of its going to sleep.
struct way {
  explicit way(std::size_t size) : r(size) {}

  /// Writes a byte, and waits where there is no room. False if nobody wakes it.
  bool send(unsigned char byte) {
    iovec part{&byte, 1};
    while (writer.write({&part, 1}) == 0) {
      stay_awake(sender_random, [this] { return writer.has_room(); });
      if (!writer.call() && !sender.sleep()) return false;
    }
    if (writer.is_called()) receiver.wake();
    return true;
  }
  bool receive(unsigned char& byte) {
    iovec part{&byte, 1};
    while (reader.read({&part, 1}) == 0) {
      stay_awake(receiver_random, [this] { return reader.has_input(); });
      if (!reader.call() && !receiver.sleep()) return false;
      reader.end_call();
    }
    if (reader.is_called()) sender.wake();
    return true;
  }

  ring r;
  ring_writer writer{r.memory()};
  ring_reader reader{r.memory()};
  bed sender, receiver;
  std::mt19937_64 sender_random{8}, receiver_random{9};

private:
  template <class Seen>
  static void stay_awake(std::mt19937_64& random, Seen seen) {
    for (std::uint64_t looks = random() % 2'000; looks > 0 && !seen(); --looks) {
    }
  }
};

TEST(ByteRingCalls, GetLostForNobodyWhoWaitsForBytes) {
  constexpr int turns = 20'000;
  way there(small), back(small);
  std::jthread other([&] {
    unsigned char byte = 0;
    for (int i = 0; i < turns; ++i) {
      if (!there.receive(byte)) return;
      if (!back.send(byte)) return;
    }
  });
  for (int i = 0; i < turns; ++i) {
    const auto said = static_cast<unsigned char>(i);
    unsigned char heard = 0;
    ASSERT_TRUE(there.send(said));
    ASSERT_TRUE(back.receive(heard)) << "nobody woke it at turn " << i;
    ASSERT_EQ(heard, said);
  }
  other.join();
}

TEST(ByteRingCalls, GetLostForNobodyWhoWaitsForRoom) {
  constexpr int count = 60'000;
  way tight(3);
  std::jthread sender([&] {
    for (int i = 0; i < count; ++i) {
      if (!tight.send(static_cast<unsigned char>(i))) return;
    }
  });
  for (int i = 0; i < count; ++i) {
    unsigned char heard = 0;
    ASSERT_TRUE(tight.receive(heard)) << "nobody woke it at byte " << i;
    ASSERT_EQ(heard, static_cast<unsigned char>(i));
  }
  sender.join();
}

} // namespace
} // namespace mailgrad::net
