#include <mailgrad/tests/cli/remote/launched_run.hpp>
#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// docs/remote.md has a row for each way in which each process of a run ends, with its exit code and its
// words. Each row is played here by the tool.

namespace mailgrad {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::operator+;
using testing::tool;
using testing::variables;
using testing::words;

struct row {
  std::string process, ending;
  std::vector<std::string> reasons; ///< in the code
  int code = 0;
  std::string said; ///< "..." stands for any text

  std::string name() const { return process + ": " + ending; }
};

std::string trimmed(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::string> split(std::string text, const std::string& at) {
  std::vector<std::string> parts;
  for (std::size_t end = 0; (end = text.find(at)) != std::string::npos; text.erase(0, end + at.size()))
    parts.push_back(trimmed(text.substr(0, end)));
  parts.push_back(trimmed(text));
  return parts;
}

std::vector<row> rows_of_page() {
  std::ifstream page(MAILGRAD_REMOTE_PAGE);
  std::vector<row> rows;
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| process | ending |")) {
  }
  std::getline(page, line); // below the head
  while (std::getline(page, line) && line.starts_with('|')) {
    std::erase(line, '`');
    const std::vector<std::string> cells = split(line, "|");
    rows.push_back({cells.at(1), cells.at(2), split(cells.at(3), ","), std::stoi(cells.at(4)), cells.at(5)});
  }
  return rows;
}

struct ended {
  int code;
  std::string said;
};

ended end_of(tool& t) {
  const int code = t.code();
  return {code, t.out() + t.err()};
}

/// The processes that a process has started.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> all;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) all.push_back(child);
  }
  return all;
}

/// The plays of the table.
struct EndingsPage : testing::RemoteTool, ::testing::WithParamInterface<row> {
  using play = ended (EndingsPage::*)();

  static words long_run(const words& more = {}) { return words{"--epochs", "100000000"} + more; }
  /// A server of one worker, by shared memory.
  static words in_memory(const words& more) { return serve("1", "memory:") + more; }
  static words by_tcp(const words& more) { return serve("1") + more; }
  static words join(const std::string& address, const words& more = {}) {
    return words{"join", address} + more;
  }
  static words shard(const std::string& address) { return {"shard", "--join", address}; }

  /// A run of one worker, in which `act` does something. Returns how its server ended, or its worker.
  enum class whose : std::uint8_t { server, worker };
  template <class Act>
  ended run(whose wanted, const words& of_server, const words& of_worker, Act act) {
    tool server(of_server);
    const std::string address = address_of(server);
    tool worker(join(address, of_worker));
    EXPECT_TRUE(worker.says("has joined")) << worker.err();
    EXPECT_TRUE(server.says("worker 0 has joined")) << server.err();
    act(server, worker, address);
    if (wanted == whose::server) return end_of(server);
    ended last = end_of(worker);
    server.signal(SIGKILL);
    return last;
  }
  /// The same with a parameter host.
  enum class part : std::uint8_t { server, host };
  template <class Act>
  ended run_with_host(part wanted, const words& more, Act act) {
    tool server(by_tcp(words{"--shard-hosts", "1"} + more));
    const std::string address = address_of(server);
    tool host(shard(address));
    tool worker(join(address));
    EXPECT_TRUE(worker.says("has joined") && host.says("has joined")) << worker.err() << host.err();
    server.says(", loss "); // or it has ended
    act(server, host, address);
    return end_of(wanted == part::host ? host : server);
  }
  static void nothing(const tool&, const tool&, const std::string&) {}
  static void ask_to_stop(const tool&, const tool&, const std::string& address) {
    EXPECT_EQ(tool({"stop", address, "seen enough"}).code(), 0);
  }
  static void end_first(const tool& t, const tool&, const std::string&) { t.signal(SIGTERM); }
  static void end_second(const tool&, const tool& t, const std::string&) { t.signal(SIGTERM); }
  static void kill_first(const tool& t, const tool&, const std::string&) { t.signal(SIGKILL); }
  static void kill_second(const tool&, const tool& t, const std::string&) { t.signal(SIGKILL); }

  ended server_completes() { return run(whose::server, in_memory({"--epochs", "1"}), {}, nothing); }
  ended server_is_stopped() { return run(whose::server, in_memory(long_run()), {}, ask_to_stop); }
  ended server_gets_signal() { return run(whose::server, in_memory(long_run()), {}, end_first); }
  ended server_diverges() { return run(whose::server, in_memory(diverges()), {}, nothing); }
  ended server_loses_host() { return run_with_host(part::server, long_run(), kill_second); }
  ended server_loses_workers() {
    return run(whose::server, in_memory(long_run({"--when-alone", "end"})), {}, kill_second);
  }
  ended server_is_left() {
    return run(whose::server, in_memory(long_run({"--when-alone", "end"})), {}, end_second);
  }
  ended server_waits_in_vain() {
    return run(whose::server, in_memory(long_run({"--when-alone", "1"})), {}, kill_second);
  }
  ended server_waits_for_begin_in_vain() {
    tool server(in_memory({"--wait-for-workers", "1"}));
    return end_of(server);
  }
  ended server_is_called_off() {
    tool server(in_memory({}));
    ask_to_stop(server, server, address_of(server));
    return end_of(server);
  }
  ended server_gets_signal_before_begin() {
    tool server(in_memory({}));
    address_of(server);
    server.signal(SIGTERM);
    return end_of(server);
  }
  ended server_is_refused() {
    tool server(in_memory({"--policy", "hogwild"}));
    return end_of(server);
  }
  static words diverges() { return long_run({"--lr", "1e38"}); }
  /// Each sample has both labels, so no weights are right, and huge steps give huge losses.
  ended server_grows() {
    std::string rows = "x,y,label\n";
    for (int i = 0; i < 20; ++i) rows += "1,2,a\n1,2,b\n3,1,a\n3,1,b\n";
    return run(whose::server,
               {"serve", "--listen", "memory:", "--workers", "1", "--model", "softmax", "--data",
                folder.write("both.csv", rows).string(), "--optimizer", "sgd", "--lr", "1e8", "--clip-norm",
                "1", "--epochs", "100000000"},
               {}, nothing);
  }

  static words processes(const words& more) {
    return words{"train", "--processes", "1"} + testing::small_run + more;
  }
  ended processes_complete() {
    tool t(processes({"--epochs", "1"}));
    return end_of(t);
  }
  ended processes_get_signal() {
    tool t(processes(long_run()));
    EXPECT_TRUE(t.says("worker 0 has joined")) << t.err();
    t.signal(SIGTERM);
    return end_of(t);
  }
  ended processes_are_lost() {
    tool t(processes(long_run()));
    EXPECT_TRUE(t.says("worker 0 has joined")) << t.err();
    for (const pid_t tool_itself : children_of(getpid()))
      for (const pid_t worker : children_of(tool_itself)) kill(worker, SIGKILL);
    return end_of(t);
  }

  std::unique_ptr<tool> rank(const std::string& number, const words& more) const {
    const variables set({{"OMPI_COMM_WORLD_RANK", number},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "77"}});
    return std::make_unique<tool>(words{"launch", "--rendezvous", folder.path().string()} +
                                  testing::small_run + more);
  }
  ended of_ranks(const std::string& wanted, const words& more) {
    const auto server = rank("0", more), worker = rank("1", more);
    const ended first = end_of(*server), second = end_of(*worker);
    return wanted == "0" ? first : second;
  }
  ended rank_completes() { return of_ranks("0", {"--epochs", "1"}); }
  ended rank_diverges() { return of_ranks("0", diverges()); }
  ended rank_is_alone() { return end_of(*rank("0", {"--meet-within", "1"})); }
  ended other_rank_completes() { return of_ranks("1", {"--epochs", "1"}); }
  ended other_rank_of_failed_run() { return of_ranks("1", diverges()); }
  ended other_rank_is_alone() { return end_of(*rank("1", {"--meet-within", "1"})); }

  ended worker_is_done() { return run(whose::worker, in_memory({"--epochs", "1"}), {}, nothing); }
  ended worker_of_failed_run() { return run(whose::worker, in_memory(diverges()), {}, nothing); }
  ended worker_of_run_without_others() {
    tool server(serve("2", "memory:") + words{"--wait-for-workers", "1"});
    tool worker(join(address_of(server)));
    return end_of(worker);
  }
  ended worker_gets_signal() { return run(whose::worker, in_memory(long_run()), {}, end_second); }
  /// It has said that it waits, and its next try is up to half a second away.
  static ended gets_signal_before(const words& command) {
    tool t(command);
    EXPECT_TRUE(t.says("waits for a server at 127.0.0.1:1")) << t.err();
    t.signal(SIGTERM);
    return end_of(t);
  }
  ended worker_gets_early_signal() { return gets_signal_before(join("127.0.0.1:1")); }
  ended host_gets_early_signal() { return gets_signal_before(shard("127.0.0.1:1")); }
  ended worker_finds_no_place() {
    ended last{};
    run(whose::server, in_memory(long_run()), {},
        [&](const tool& server, const tool& w, const std::string& a) {
          tool late(join(a));
          last = end_of(late);
          end_first(server, w, a);
        });
    return last;
  }
  ended worker_has_other_keys() {
    EXPECT_EQ(tool({"keys", "new", file("ours")}).code(), 0);
    EXPECT_EQ(tool({"keys", "new", file("others")}).code(), 0);
    tool server(by_tcp({"--keys", file("ours")}));
    tool worker(join(address_of(server), {"--keys", file("others")}));
    return end_of(worker);
  }
  ended worker_lacks_plug_in() {
    tool server({"serve", "--listen", "memory:", "--workers", "1", "--model", "mlp:hidden=5", "--data",
                 MAILGRAD_SMALL_CSV, "--batch", "4", "--local-steps", "2", "--optimizer",
                 MAILGRAD_TEST_PLUGINS "/own_momentum.so"});
    EXPECT_TRUE(server.says("listening on ")) << server.err();
    const std::string said = server.said(), begin = said.substr(said.find("listening on ") + 13);
    tool worker(join(begin.substr(0, begin.find(' '))));
    return end_of(worker);
  }
  ended worker_is_lost() {
    return run(whose::worker, by_tcp(long_run({"--heartbeat", "50"})), {"--rejoin", "no"},
               [](tool& server, const tool& worker, const std::string&) {
                 worker.signal(SIGSTOP);
                 EXPECT_TRUE(server.says("lost worker 0")) << server.err();
                 worker.signal(SIGCONT);
               });
  }
  ended worker_is_replaced() {
    return run(whose::worker, by_tcp(long_run()), {"--rejoin", "no"},
               [](const tool&, const tool& worker, const std::string& address) {
                 worker.signal(SIGSTOP);
                 std::unique_ptr<tool> next; // refused for half a second, and the first is lost in 1.5 s
                 do next = std::make_unique<tool>(join(address, {"--number", "0"}));
                 while (!next->says("has joined"));
                 worker.signal(SIGCONT);
               });
  }
  ended worker_loses_server() { return run(whose::worker, in_memory(long_run()), {}, kill_first); }
  ended worker_gives_up() {
    return run(whose::worker, by_tcp(long_run({"--heartbeat", "50"})), {"--rejoin", "1"},
               [](const tool& server, const tool&, const std::string&) { server.signal(SIGSTOP); });
  }
  ended meets_another_program(words (*command)(const std::string& address)) {
    const net::plain_listener other;
    tool t(command(other.address()));
    other.answer("HTTP/1.1 400 Bad Request\r\n\r\n");
    return end_of(t);
  }
  ended worker_meets_another_program() {
    return meets_another_program([](const std::string& address) { return join(address); });
  }
  ended worker_finds_nobody() {
    tool worker(join("memory:nobody-is-here"));
    return end_of(worker);
  }

  ended host_is_done() { return run_with_host(part::host, {"--epochs", "1"}, nothing); }
  ended host_of_failed_run() { return run_with_host(part::host, diverges(), nothing); }
  ended host_gets_signal() { return run_with_host(part::host, long_run(), end_second); }
  ended host_loses_server() { return run_with_host(part::host, long_run(), kill_first); }
  ended host_finds_no_place() {
    tool server(by_tcp({}));
    tool host(shard(address_of(server)));
    return end_of(host);
  }
  ended host_meets_another_program() { return meets_another_program(shard); }

  ended watcher_is_answered() {
    tool server(in_memory({}));
    tool status({"status", address_of(server)});
    return end_of(status);
  }
  ended watcher_finds_nobody() {
    tool status({"status", "memory:nobody-is-here"});
    return end_of(status);
  }
  ended watcher_is_refused() {
    ended last{};
    run(whose::server, in_memory(long_run()), {},
        [&](const tool& server, const tool& w, const std::string& a) {
          tool asks({"switch", a, "async, sync@1000"});
          last = end_of(asks);
          end_first(server, w, a);
        });
    return last;
  }

  static const std::map<std::string, play>& plays();
};

const std::map<std::string, EndingsPage::play>& EndingsPage::plays() {
  using page = EndingsPage;
  static const std::map<std::string, play> all{
      {"serve: every batch is trained", &page::server_completes},
      {"serve: mailgrad stop", &page::server_is_stopped},
      {"serve: a signal", &page::server_gets_signal},
      {"serve: a loss is not finite", &page::server_diverges},
      {"serve: the loss has grown to nonsense", &page::server_grows},
      {"serve: a parameter host is lost", &page::server_loses_host},
      {"serve: all workers are lost, --when-alone end", &page::server_loses_workers},
      {"serve: all workers have left, --when-alone end", &page::server_is_left},
      {"serve: nobody came in the time of --when-alone", &page::server_waits_in_vain},
      {"serve: nobody came in the time of --wait-for-workers", &page::server_waits_for_begin_in_vain},
      {"serve: mailgrad stop before the begin", &page::server_is_called_off},
      {"serve: a signal before the begin", &page::server_gets_signal_before_begin},
      {"serve: options or files that cannot be used", &page::server_is_refused},
      {"train --processes: every batch is trained", &page::processes_complete},
      {"train --processes: a signal", &page::processes_get_signal},
      {"train --processes: all workers are lost", &page::processes_are_lost},
      {"launch, rank 0: every batch is trained", &page::rank_completes},
      {"launch, rank 0: a loss is not finite", &page::rank_diverges},
      {"launch, rank 0: nobody came in the time of --meet-within", &page::rank_is_alone},
      {"launch, others: every batch is trained", &page::other_rank_completes},
      {"launch, others: the run has failed", &page::other_rank_of_failed_run},
      {"launch, others: no rank 0 in the time of --meet-within", &page::other_rank_is_alone},
      {"join: its run has ended", &page::worker_is_done},
      {"join: its run has failed", &page::worker_of_failed_run},
      {"join: the others did not come in the time of --wait-for-workers",
       &page::worker_of_run_without_others},
      {"join: a signal", &page::worker_gets_signal},
      {"join: a signal before it has joined", &page::worker_gets_early_signal},
      {"join: no place is free", &page::worker_finds_no_place},
      {"join: other keys", &page::worker_has_other_keys},
      {"join: it cannot do the work", &page::worker_lacks_plug_in},
      {"join: it was lost, --rejoin no", &page::worker_is_lost},
      {"join: another took its place, --rejoin no", &page::worker_is_replaced},
      {"join: the server is gone", &page::worker_loses_server},
      {"join: the time of --rejoin is over", &page::worker_gives_up},
      {"join: the other is no Mailgrad, or breaks the protocol", &page::worker_meets_another_program},
      {"join: nobody listens", &page::worker_finds_nobody},
      {"shard: its run has ended", &page::host_is_done},
      {"shard: its run has failed", &page::host_of_failed_run},
      {"shard: a signal", &page::host_gets_signal},
      {"shard: a signal before it has joined", &page::host_gets_early_signal},
      {"shard: the server is gone", &page::host_loses_server},
      {"shard: no place is free", &page::host_finds_no_place},
      {"shard: the other is no Mailgrad, or breaks the protocol", &page::host_meets_another_program},
      {"status, switch, stop: answered", &page::watcher_is_answered},
      {"status, switch, stop: nobody listens", &page::watcher_finds_nobody},
      {"status, switch, stop: what it asks for cannot be", &page::watcher_is_refused},
  };
  return all;
}

TEST_P(EndingsPage, IsAsItSays) {
  const row& page = GetParam();
  const auto found = plays().find(page.name());
  ASSERT_NE(found, plays().end()) << "this row has no play";
  const ended last = (this->*found->second)();
  EXPECT_EQ(last.code, page.code) << last.said;
  for (const std::string& words_of_row : split(page.said, "..."))
    EXPECT_THAT(last.said, HasSubstr(words_of_row));
}

std::string test_name(const ::testing::TestParamInfo<row>& of) {
  std::string name = of.param.name();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Rows, EndingsPage, ::testing::ValuesIn(rows_of_page()), test_name);

TEST(EndingsOfThePage, HaveEachPlay) {
  std::vector<std::string> rows;
  for (const row& r : rows_of_page()) rows.push_back(r.name());
  for (const auto& [name, play] : EndingsPage::plays()) EXPECT_THAT(rows, Contains(name));
}

std::vector<std::string> reasons_of(const std::string& process) {
  std::vector<std::string> all;
  for (const row& r : rows_of_page())
    if (r.process == process) all.insert(all.end(), r.reasons.begin(), r.reasons.end());
  return all;
}

/// One more in the code does not compile here.
std::string in_words(run_outcome::ending how) {
  switch (how) {
  case run_outcome::ending::completed:
    return "completed";
  case run_outcome::ending::stopped:
    return "stopped";
  case run_outcome::ending::diverged:
    return "diverged";
  case run_outcome::ending::failed:
    return "failed";
  case run_outcome::ending::running:
    return "";
  }
  return "unknown";
}

TEST(EndingsOfThePage, AreAllThatARunMayHave) {
  const std::vector<std::string> told = reasons_of("serve");
  for (std::uint8_t how = 0; how < static_cast<std::uint8_t>(run_outcome::ending::running); ++how)
    EXPECT_THAT(told, Contains(in_words(run_outcome::ending{how})));
}

TEST(EndingsOfThePage, AreAllThatASessionMayHave) {
  std::vector<net::end_reason> all{net::end_reason::absent}; // which is on no wire
  for (std::uint8_t number = 1; number < 255; ++number)
    if (net::is_end_reason(number)) all.push_back(net::end_reason{number});
  for (const char* process : {"join", "shard"})
    for (const net::end_reason reason : all)
      EXPECT_THAT(reasons_of(process), Contains(std::string(net::to_string(reason)))) << process;
  for (const row& r : rows_of_page())
    for (const net::end_reason reason : all) {
      const bool is_its = std::ranges::find(r.reasons, net::to_string(reason)) != r.reasons.end();
      if (!is_its || (r.process != "join" && r.process != "shard") || r.ending == "a signal") continue;
      EXPECT_EQ(exit_code_of(net::ending{reason, "", {}}), r.code) << r.name();
    }
}

} // namespace
} // namespace mailgrad
