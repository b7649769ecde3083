#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace mailgrad::remote {
namespace {

// docs/messages.md has a row for each message that goes between processes, with its fields as they stand on
// the wire.

/// Reads a message whose fields are all 0, empty or one, and notes which they are.
class noted_fields final : public archive {
public:
  bool reads() const noexcept override { return true; }
  void version(std::uint64_t current) override {
    open("version");
    note(fmt::format("version {}", current));
    close();
  }
  void floats(std::string_view name, std::span<float>) override { text_ += fmt::format(" {}: floats", name); }
  void hold(std::string_view, std::shared_ptr<const void>, std::span<const float>) override {}
  const archived_array& array(std::string_view name) override {
    open(name.empty() ? "0" : name);
    note("floats");
    close();
    return none_;
  }
  const std::string& text() const noexcept { return text_; }

private:
  void open(std::string_view name) override {
    if (!text_.empty()) text_ += !at_.empty() && at_.back().children++ == 0 ? " { " : ", ";
    at_.push_back({std::string(name), 0});
    text_ += name == "0" ? "each" : name;
  }
  void open(std::size_t) override { open(std::string_view("0")); }
  void close() noexcept override {
    if (at_.back().children > 0) text_ += " }";
    at_.pop_back();
  }
  [[noreturn]] void fail(const std::string& what) const override { throw archive_error(what); }
  void note(std::string_view type) { text_ += fmt::format(": {}", type); }
  void value(bool& x) override {
    x = true; // there is what may be there
    note("boolean");
  }
  void value(double&) override { note("real"); }
  void value(std::string& x) override {
    if (at_.back().name == "text") x = "{}"; // the fields of a part of a checkpoint
    note("text");
  }
  void number(std::uint64_t& x, std::uint64_t) override {
    x = at_.back().name == "count" ? 1 : 0;
    note("number");
  }
  void number(std::int64_t&, std::int64_t, std::int64_t) override { note("signed"); }
  bool presence(bool) override {
    text_ += ": perhaps";
    return true;
  }
  std::size_t entries(std::size_t here) override { // none of a list that has any length
    note("list");
    return std::max<std::size_t>(here, 1);
  }
  std::vector<std::string> names(std::vector<std::string>) override {
    note("by name");
    return {"0"};
  }

  struct step {
    std::string name;
    int children;
  };
  std::string text_;
  std::vector<step> at_;
  archived_array none_;
};

struct MessagesPage : ::testing::Test {
  ~MessagesPage() override {
    way->ended({net::end_reason::left, "the test has ended"});
    somebody = nullptr;
    home.wait();
  }

  std::string row(message_kind kind) {
    std::string senders;
    for (unsigned d = 0; d <= static_cast<unsigned>(last_duty); ++d)
      if (const auto what = static_cast<duty>(d); may_be_sent_by(kind, what))
        senders += (senders.empty() ? "" : ", ") + (what == duty::nobody ? "host" : words_of(what));
    return fmt::format("| {} | `{}` | {} | {} |", kind, name_of(kind), senders, fields_of(kind));
  }

  run_home home{{{device_kind::cpu, 0}}};
  net::tcp_network network;
  std::shared_ptr<channel> way = std::make_shared<channel>(network, channel_events{});
  caf::actor somebody = way->add_far(home.system(), {duty::worker, 0});

private:
  static std::string words_of(duty d) {
    const std::string words = to_string(actor_address{d, 0}); // "shard 0", "the feeder"
    return words.starts_with("the ") ? words.substr(4) : words.substr(0, words.find(' '));
  }
  template <class Header>
  static std::string header_of(field_inspector& fields, const noted_fields& noted) {
    Header header;
    fields.field("header", header);
    return noted.text();
  }
  std::string fields_of(message_kind kind) {
    address_book book;
    book.add({}, somebody);
    noted_fields noted;
    field_inspector fields(noted, book);
    const std::string rest = "see [below](#values-beside-the-fields)";
    if (kind == kind_of<push_gradient>()) return header_of<gradient_header>(fields, noted) + ", then " + rest;
    if (kind == kind_of<shard_weights>()) return header_of<weights_header>(fields, noted) + ", then " + rest;
    if (kind == kind_of<dealt_batch>()) return rest;
    try {
      (void)read_fields(kind, fields);
    } catch (const archive_error& e) {
      ADD_FAILURE() << name_of(kind) << ": " << e.what();
    }
    return noted.text().empty() ? "none" : noted.text();
  }
};

/// The rows of the page, with what its lines `name := fields` say in the place of each <name>.
std::string rows_of_page() {
  std::ifstream page(MAILGRAD_MESSAGES_PAGE);
  std::vector<std::pair<std::string, std::string>> parts;
  std::string rows;
  for (std::string line; std::getline(page, line);) {
    for (const auto& [name, fields] : parts)
      for (auto at = line.find(name); at != std::string::npos; at = line.find(name, at))
        line.replace(at, name.size(), fields);
    if (const auto is = line.find(" := "); line.starts_with('<') && is != std::string::npos)
      parts.emplace_back(line.substr(0, is), line.substr(is + 4));
    else if (line.starts_with("| ") && std::isdigit(static_cast<unsigned char>(line[2])) &&
             line.find(" | `") == line.find(" |"))
      rows += line + '\n';
  }
  return rows;
}

TEST_F(MessagesPage, HasARowForEachMessageWithItsFields) {
  std::string expected;
  for (message_kind kind = 0; kind < 1000; ++kind)
    if (!name_of(kind).empty()) expected += row(kind) + '\n';
  EXPECT_EQ(rows_of_page(), expected);
}

/// The rows of kinds that have a bound besides credit.
std::string rows_of_bounds() {
  std::ifstream page(MAILGRAD_MESSAGES_PAGE);
  std::string rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `") &&
        (line.find(" in all |") != std::string::npos || line.find(" unanswered |") != std::string::npos))
      rows += line + '\n';
  return rows;
}

TEST_F(MessagesPage, HasTheBoundOfEachMessage) {
  std::string expected;
  for (message_kind kind = 1; kind < 1000; ++kind) {
    if (bound_of(kind).what == message_bound::of::unread) continue;
    std::string answered_by;
    for (message_kind answer = 1; answer < 1000; ++answer)
      if (answers(answer, kind))
        answered_by += fmt::format("{}`{}`", answered_by.empty() ? "" : ", ", name_of(answer));
    expected += fmt::format("| `{}` | {} | {} |\n", name_of(kind), to_string(bound_of(kind)),
                            answered_by.empty() ? "nothing" : answered_by);
  }
  EXPECT_EQ(rows_of_bounds(), expected);
}

/// A build of before would read a message with another field as a damaged one.
TEST_F(MessagesPage, ChangesOnlyWithTheVersionOfTheProtocol) {
  constexpr std::uint16_t version = 5;
  EXPECT_EQ(net::protocol_version, version) << "write it here, and the digest of its messages";
  const std::string rows = rows_of_page();
  EXPECT_EQ(sha256(std::as_bytes(std::span(rows))),
            "1f5aed7d84e74ffe0c8f72e5883688920929ae23aa763fa2c5c3a48f3a8a54c9")
      << "a message has changed: raise net::protocol_version";
}

} // namespace
} // namespace mailgrad::remote
