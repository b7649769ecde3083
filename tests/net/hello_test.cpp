#include <mailgrad/net/hello.hpp>

#include <mailgrad/tests/net/protocol_complaint.hpp>

#include <mailgrad/net/frame.hpp>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

features server_features() {
  return {{"run", key_text(7)},
          {"model", "12ab"},
          {"data", "56ef"},
          {"build", "4dd287a g++ 12 avx512"},
          {"devices", "2"}};
}

std::vector<demand> server_demands() {
  return demands_of(server_features(), {role::worker, role::shard}, {"float32", "bfloat16"});
}

/// What a peer says that fits the server.
features fitting() {
  features says = server_features();
  says["wire"] = "bfloat16";
  return to_features({.says = says, .part = role::worker, .number = 2, .incarnation = 3});
}

TEST(Hello, IsReadAsItWasWritten) {
  const hello said{{{"wire", "float32"}}, role::shard, 2, 3, plane::bulk, 0xfedcba9876543210};
  const hello heard = to_hello(decode_features("hello", encode(to_features(said))));
  EXPECT_EQ(heard.part, role::shard);
  EXPECT_EQ(heard.number, 2U);
  EXPECT_EQ(heard.incarnation, 3U);
  EXPECT_EQ(heard.connection, plane::bulk);
  EXPECT_EQ(heard.session, 0xfedcba9876543210U);
  EXPECT_EQ(found_in(heard.says, "wire"), "float32");
  EXPECT_EQ(found_in(heard.says, "protocol"), "5");
}

/// Names on the wire are given away once and for all, whatever people are told.
TEST(Hello, NamesRolesOnTheWireAsThePageDoes) {
  const auto written = [](role r) {
    const features all = to_features({.part = r});
    return std::string(as_text(encode(features{{"role", all.at("role")}})));
  };
  using namespace std::string_literals;
  EXPECT_EQ(written(role::worker), "\1\4\0role\6\0worker"s);
  EXPECT_EQ(written(role::shard), "\1\4\0role\5\0shard"s);
  EXPECT_EQ(written(role::watcher), "\1\4\0role\7\0watcher"s);
  for (const role r : {role::worker, role::shard, role::watcher})
    EXPECT_EQ(to_hello(to_features({.part = r})).part, r);
}

TEST(Hello, OfTheLargestKindFitsIntoItsFrame) {
  features all;
  for (std::size_t i = 0; i < 13; ++i)
    all[std::string(31, static_cast<char>('a' + i))] = std::string(256, 'x');
  EXPECT_LE(encode(all).size(), most_payload_bytes(frame_kind::hello));
}

TEST(Hello, NamesRolesAndConnectionsThatThereAreNot) {
  const auto complaint = [](const features& said) { return protocol_complaint([&] { to_hello(said); }); };
  EXPECT_EQ(complaint({{"role", "king"}}), "role: expected worker, shard or watcher, found 'king'");
  EXPECT_EQ(complaint({{"connection", "third"}}), "connection: expected control or bulk, found 'third'");
}

TEST(Hello, ThatFitsIsNotRefused) { EXPECT_EQ(compare(server_demands(), fitting()), std::nullopt); }

TEST(Hello, MayLeaveOutWhatTheServerTells) {
  features says = fitting();
  for (const char* name : {"run", "model", "data", "devices"}) says.erase(name);
  EXPECT_EQ(compare(server_demands(), says), std::nullopt);
}

struct wrong_feature {
  std::string name, found, line;
};

class HelloRefusals : public TestWithParam<wrong_feature> {};

TEST_P(HelloRefusals, NameWhatBothSidesSayOnBothSides) {
  features says = fitting();
  if (GetParam().found.empty())
    says.erase(GetParam().name);
  else
    says[GetParam().name] = GetParam().found;
  const auto at_server = compare(server_demands(), says);
  ASSERT_TRUE(at_server);
  EXPECT_EQ(at_server->words(), GetParam().line);
  EXPECT_EQ(decode_refusal(encode(*at_server)), *at_server) << "the peer must read the same";
}

INSTANTIATE_TEST_SUITE_P(
    All, HelloRefusals,
    Values(wrong_feature{"protocol", "4", "protocol: expected 5, found 4"},
           wrong_feature{"protocol", "", "protocol: expected 5, found nothing"},
           wrong_feature{"run", key_text(8), "run: expected 0000000000000007, found 0000000000000008"},
           wrong_feature{"role", "watcher", "role: expected worker or shard, found watcher"},
           wrong_feature{"build", "4dd287a g++ 12 avx2",
                         "build: expected 4dd287a g++ 12 avx512, found 4dd287a g++ 12 avx2"},
           wrong_feature{"build", "", "build: expected 4dd287a g++ 12 avx512, found nothing"},
           wrong_feature{"model", "34cd", "model: expected 12ab, found 34cd"},
           wrong_feature{"data", "78\n", "data: expected 56ef, found 78\\x0a"},
           wrong_feature{"devices", "1", "devices of a worker: expected 2, found 1"},
           wrong_feature{"wire", "int8", "wire: expected float32 or bfloat16, found int8"}),
    [](const auto& tested) { return std::to_string(tested.index); });

std::string complaint_of(const welcome& said) {
  return protocol_complaint([&] { decode_welcome(encode(said)); });
}

TEST(Welcome, IsReadAsItWasWritten) {
  const welcome said{1, 2, {role::shard, 3}, 4, timing{100ms}, 5, 6, 7, 8, 9};
  EXPECT_EQ(decode_welcome(encode(said)), said);
  const bytes whole = encode(said);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(protocol_complaint([&] { decode_welcome(byte_view{whole}.first(size)); }), "") << size;
}

TEST(Welcome, DictatesNoHeartbeatThatNobodyCouldKeep) {
  EXPECT_THAT(complaint_of(welcome{.times = timing{9ms}}),
              HasSubstr("expected a heartbeat each 10 to 60000 ms, found 9"));
}

TEST(Welcome, ExpectsADeviceOfEachWorker) {
  EXPECT_THAT(complaint_of(welcome{.devices = 0}),
              HasSubstr("expected a worker of 1 device or more, found 0"));
}

TEST(Refusal, OfLongWordsFitsIntoItsFrame) {
  const refusal r{refusal_code::build, std::string(5000, 'a'), std::string(5000, 'b')};
  EXPECT_LE(encode(r).size(), most_payload_bytes(frame_kind::refusal));
  EXPECT_EQ(decode_refusal(encode(r)).found.size(), 1024U);
}

TEST(Refusal, OfAPeerIsPrintedInOneLine) {
  const refusal r{refusal_code::run, "a\nb", "\x1b[31m"};
  EXPECT_EQ(decode_refusal(encode(r)).words(), "run: expected a\\x0ab, found \\x1b[31m");
  bytes unknown = encode(r);
  unknown[0] = std::byte{200};
  EXPECT_THAT(protocol_complaint([&] { decode_refusal(unknown); }),
              HasSubstr("expected a code from 1 to 16"));
}

TEST(Timing, DerivesEveryLimitFromOneNumber) {
  EXPECT_EQ(timing{}.heartbeat(), 250ms);
  EXPECT_EQ(timing{}.silence(), 1500ms);
  EXPECT_EQ(timing{}.hello(), 2s);
  EXPECT_EQ(timing{100ms}.silence(), 600ms);
}

std::string complaint_of(byte_view written) {
  return protocol_complaint([&] { decode_features("hello", written); });
}

features some_features() { return {{"model", "12ab"}, {"protocol", "1"}, {"later", "than this build"}}; }

TEST(Features, AreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_features("hello", encode(some_features())), some_features());
  EXPECT_EQ(decode_features("hello", encode(features{})), features{});
}

TEST(Features, AreRefusedWhereverTheyAreCut) {
  const bytes whole = encode(some_features());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(complaint_of(byte_view{whole}.first(size)), HasSubstr("hello: offset ")) << size;
}

TEST(Features, AreRefusedIfSomethingFollowsThem) {
  bytes longer = encode(some_features());
  longer.push_back(std::byte{0});
  EXPECT_THAT(complaint_of(longer), HasSubstr("found 1 bytes more"));
}

TEST(Features, StandThereOnceAndHaveLimits) {
  const auto complaint = [](std::uint8_t count, const std::vector<std::string>& texts) {
    bytes written;
    frame_writer{written}.u8(count);
    for (const std::string& text : texts) frame_writer{written}.text(text);
    return complaint_of(written);
  };
  const std::string wordy(257, 'x');
  EXPECT_THAT(complaint(2, {"run", "1", "run", "2"}), HasSubstr("expected 'run' once, found it twice"));
  EXPECT_THAT(complaint(33, {}), HasSubstr("expected at most 32 features, found 33"));
  EXPECT_THAT(complaint(1, {"", "x"}), HasSubstr("expected a name of 1 to 32"));
  EXPECT_THAT(complaint(1, {"run", wordy}), HasSubstr("expected at most 256 bytes of 'run', found 257"));
  EXPECT_THROW(encode(features{{"run", wordy}}), std::length_error);
  EXPECT_THROW(encode(features{{"", "x"}}), std::length_error);
}

TEST(Features, HoldNumbers) {
  const features all{
      {"number", "4294967295"}, {"incarnation", "-1"}, {"session", "00000000000000ff"}, {"run", "0xff"}};
  EXPECT_EQ(number_in(all, "number", UINT32_MAX), UINT32_MAX);
  EXPECT_EQ(number_in(all, "absent", UINT32_MAX), std::nullopt);
  for (const std::string name : {"number", "incarnation"})
    EXPECT_EQ(protocol_complaint([&] { number_in(all, name, 7); }),
              name + ": expected a number from 0 to 7, found '" + all.at(name) + "'");
  EXPECT_EQ(key_in(all, "session"), 255U);
  EXPECT_EQ(protocol_complaint([&] { key_in(all, "run"); }),
            "run: expected 16 hexadecimal digits, found '0xff'");
}

} // namespace
} // namespace mailgrad::net
