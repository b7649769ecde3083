#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/net/ending.hpp>

// docs/remote.md has a row for each way in which each process of a run ends, with its exit code and its
// words. Each row is played here by the tool.

namespace mailgrad::testing {
namespace {

struct row {
  std::string process, ending;
  words reasons; ///< in the code
  int code = 0;
  std::string said; ///< "..." stands for any text

  std::string name() const { return process + ": " + ending; }
};

std::string trimmed(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

words split(std::string text, const std::string& at) {
  words parts;
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
    const words cells = split(line, "|");
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
ended end_of(const words& given) {
  tool t(given);
  return end_of(t);
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

enum class who : std::uint8_t { server, worker, host };

words long_run(const words& more = {}) { return "--epochs 100000000"_w + more; }
const words short_run = "--epochs 1"_w, diverging = long_run("--lr 1e38"_w),
            alone_at_end = "--when-alone end"_w;

/// The plays of the table.
struct EndingsPage : RemoteTool, WithParamInterface<row> {
  /// A server of one worker, by shared memory.
  static words in_memory(const words& more) { return serve("1", "memory:") + more; }
  static words by_tcp(const words& more) { return serve("1") + more; }
  static words join(const std::string& address, const words& more = {}) {
    return words{"join", address} + more;
  }
  static words shard(const std::string& address) { return {"shard", "--join", address}; }

  /// A run of one worker, in which `act` does something. Returns how its server ended, or its worker.
  template <class Act>
  static ended run(who wanted, const words& of_server, Act act, const words& of_worker = {}) {
    server_tool server(of_server);
    tool worker(join(server.address, of_worker));
    EXPECT_TRUE(worker.says("has joined")) << worker.err();
    EXPECT_TRUE(server.says("worker 0 has joined")) << server.err();
    act(server, worker, server.address);
    if (wanted == who::server) return end_of(server);
    ended last = end_of(worker);
    server.signal(SIGKILL);
    return last;
  }
  /// The same with a parameter host.
  template <class Act>
  static ended run_with_host(who wanted, const words& more, Act act) {
    server_tool server(by_tcp("--shard-hosts 1"_w + more));
    tool host(shard(server.address)), worker(join(server.address));
    EXPECT_TRUE(worker.says("has joined") && host.says("has joined")) << worker.err() << host.err();
    server.says(", loss "); // or it has ended
    act(server, host, server.address);
    return end_of(wanted == who::host ? host : server);
  }
  static void nothing(const tool&, const tool&, const std::string&) {}
  static void ask_to_stop(const tool&, const tool&, const std::string& address) {
    done({"stop", address, "seen enough"});
  }
  static void end_first(const tool& t, const tool&, const std::string&) { t.signal(SIGTERM); }
  static void end_second(const tool&, const tool& t, const std::string&) { t.signal(SIGTERM); }
  static void kill_first(const tool& t, const tool&, const std::string&) { t.signal(SIGKILL); }
  static void kill_second(const tool&, const tool& t, const std::string&) { t.signal(SIGKILL); }

  /// How a command ended that another process gives while a run goes on.
  static ended beside_a_run(words (*command)(const std::string& address)) {
    ended last{};
    run(who::server, in_memory(long_run()), [&](const tool& server, const tool& w, const std::string& a) {
      last = end_of(command(a));
      end_first(server, w, a);
    });
    return last;
  }
  static ended server_is_called_off() {
    tool server(in_memory({}));
    ask_to_stop(server, server, address_of(server));
    return end_of(server);
  }
  static ended server_gets_signal_before_begin() {
    tool server(in_memory({}));
    address_of(server);
    server.signal(SIGTERM);
    return end_of(server);
  }
  /// Each sample has both labels, so no weights are right, and huge steps give huge losses.
  ended server_grows() const {
    std::string rows = "x,y,label\n";
    for (int i = 0; i < 20; ++i) rows += "1,2,a\n1,2,b\n3,1,a\n3,1,b\n";
    return run(who::server,
               "serve --listen memory: --workers 1 --model softmax --optimizer sgd --lr 1e8 --clip-norm 1 "
               "--epochs 100000000 --data"_w +
                   folder.write("both.csv", rows),
               nothing);
  }

  static words processes(const words& more) { return "train --processes 1"_w + small_run + more; }
  /// How such a run ends when something happens to it behind its begin.
  static ended processes_end_by(const std::function<void(const tool&)>& act) {
    tool t(processes(long_run()));
    EXPECT_TRUE(t.says("worker 0 has joined")) << t.err();
    act(t);
    return end_of(t);
  }

  std::unique_ptr<tool> rank(const std::string& number, const words& more) const {
    const variables set({{"OMPI_COMM_WORLD_RANK", number},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "77"}});
    return std::make_unique<tool>("launch --rendezvous"_w + folder.path() + small_run + more);
  }
  ended of_ranks(const std::string& wanted, const words& more) const {
    const auto server = rank("0", more), worker = rank("1", more);
    const ended first = end_of(*server), second = end_of(*worker);
    return wanted == "0" ? first : second;
  }
  ended of_lonely_rank(const std::string& number) const { return end_of(*rank(number, "--meet-within 1"_w)); }

  static ended worker_of_run_without_others() {
    tool server(serve("2", "memory:") + "--wait-for-workers 1"_w);
    return end_of(join(address_of(server)));
  }
  /// It has said that it waits, and its next try is up to half a second away.
  static ended gets_signal_before(const words& command) {
    tool t(command);
    EXPECT_TRUE(t.says("waits for a server at 127.0.0.1:1")) << t.err();
    t.signal(SIGTERM);
    return end_of(t);
  }
  ended worker_has_other_keys() const {
    for (const char* keys : {"ours", "others"}) done({"keys", "new", path(keys)});
    tool server(by_tcp({"--keys", path("ours")}));
    return end_of(join(address_of(server), {"--keys", path("others")}));
  }
  static ended worker_lacks_plug_in() {
    tool server("serve --listen memory: --workers 1 --model mlp:hidden=5 --batch 4 --local-steps 2 --data"_w +
                MAILGRAD_SMALL_CSV + "--optimizer" + MAILGRAD_TEST_PLUGINS "/own_momentum.so");
    return end_of(join(address_of(server)));
  }
  static void stop_until_it_is_lost(tool& server, const tool& worker, const std::string&) {
    worker.signal(SIGSTOP);
    EXPECT_TRUE(server.says("lost worker 0")) << server.err();
    worker.signal(SIGCONT);
  }
  static void stop_until_it_is_replaced(const tool&, const tool& worker, const std::string& address) {
    worker.signal(SIGSTOP);
    std::unique_ptr<tool> next; // refused for half a second, and the first is lost in 1.5 s
    do next = std::make_unique<tool>(join(address, {"--number", "0"}));
    while (!next->says("has joined"));
    worker.signal(SIGCONT);
  }
  static ended meets_another_program(words (*command)(const std::string& address)) {
    const net::plain_listener other;
    tool t(command(other.address()));
    other.answer("HTTP/1.1 400 Bad Request\r\n\r\n");
    return end_of(t);
  }
  static ended host_finds_no_place() {
    tool server(by_tcp({}));
    return end_of(shard(address_of(server)));
  }
  static ended watcher_is_answered() {
    tool server(in_memory({}));
    return end_of({"status", address_of(server)});
  }

  using play = std::function<ended(const EndingsPage&)>;
  static const std::map<std::string, play>& plays();
};

const std::map<std::string, EndingsPage::play>& EndingsPage::plays() {
  using page = const EndingsPage&;
  static const std::map<std::string, play> all{
      {"serve: every batch is trained", [](page) { return run(who::server, in_memory(short_run), nothing); }},
      {"serve: mailgrad stop", [](page) { return run(who::server, in_memory(long_run()), ask_to_stop); }},
      {"serve: a signal", [](page) { return run(who::server, in_memory(long_run()), end_first); }},
      {"serve: a loss is not finite", [](page) { return run(who::server, in_memory(diverging), nothing); }},
      {"serve: the loss has grown to nonsense", [](page p) { return p.server_grows(); }},
      {"serve: a parameter host is lost",
       [](page) { return run_with_host(who::server, long_run(), kill_second); }},
      {"serve: all workers are lost, --when-alone end",
       [](page) { return run(who::server, in_memory(long_run(alone_at_end)), kill_second); }},
      {"serve: all workers have left, --when-alone end",
       [](page) { return run(who::server, in_memory(long_run(alone_at_end)), end_second); }},
      {"serve: nobody came in the time of --when-alone",
       [](page) { return run(who::server, in_memory(long_run("--when-alone 1"_w)), kill_second); }},
      {"serve: nobody came in the time of --wait-for-workers",
       [](page) { return end_of(in_memory("--wait-for-workers 1"_w)); }},
      {"serve: mailgrad stop before the begin", [](page) { return server_is_called_off(); }},
      {"serve: a signal before the begin", [](page) { return server_gets_signal_before_begin(); }},
      {"serve: options or files that cannot be used",
       [](page) { return end_of(in_memory("--policy hogwild"_w)); }},
      {"train --processes: every batch is trained", [](page) { return end_of(processes(short_run)); }},
      {"train --processes: a signal",
       [](page) { return processes_end_by([](const tool& t) { t.signal(SIGTERM); }); }},
      {"train --processes: all workers are lost",
       [](page) {
         return processes_end_by([](const tool&) {
           for (const pid_t tool_itself : children_of(getpid()))
             for (const pid_t worker : children_of(tool_itself)) kill(worker, SIGKILL);
         });
       }},
      {"launch, rank 0: every batch is trained", [](page p) { return p.of_ranks("0", short_run); }},
      {"launch, rank 0: a loss is not finite", [](page p) { return p.of_ranks("0", diverging); }},
      {"launch, rank 0: nobody came in the time of --meet-within",
       [](page p) { return p.of_lonely_rank("0"); }},
      {"launch, others: every batch is trained", [](page p) { return p.of_ranks("1", short_run); }},
      {"launch, others: the run has failed", [](page p) { return p.of_ranks("1", diverging); }},
      {"launch, others: no rank 0 in the time of --meet-within",
       [](page p) { return p.of_lonely_rank("1"); }},
      {"join: its run has ended", [](page) { return run(who::worker, in_memory(short_run), nothing); }},
      {"join: its run has failed", [](page) { return run(who::worker, in_memory(diverging), nothing); }},
      {"join: the others did not come in the time of --wait-for-workers",
       [](page) { return worker_of_run_without_others(); }},
      {"join: a signal", [](page) { return run(who::worker, in_memory(long_run()), end_second); }},
      {"join: a signal before it has joined", [](page) { return gets_signal_before(join("127.0.0.1:1")); }},
      {"join: no place is free",
       [](page) { return beside_a_run([](const std::string& a) { return join(a); }); }},
      {"join: other keys", [](page p) { return p.worker_has_other_keys(); }},
      {"join: it cannot do the work", [](page) { return worker_lacks_plug_in(); }},
      {"join: it was lost, --rejoin no",
       [](page) {
         return run(who::worker, by_tcp(long_run("--heartbeat 50"_w)), stop_until_it_is_lost,
                    "--rejoin no"_w);
       }},
      {"join: another took its place, --rejoin no",
       [](page) { return run(who::worker, by_tcp(long_run()), stop_until_it_is_replaced, "--rejoin no"_w); }},
      {"join: the server is gone", [](page) { return run(who::worker, in_memory(long_run()), kill_first); }},
      {"join: the time of --rejoin is over",
       [](page) {
         return run(
             who::worker, by_tcp(long_run("--heartbeat 50"_w)),
             [](const tool& server, const tool&, const std::string&) { server.signal(SIGSTOP); },
             "--rejoin 1"_w);
       }},
      {"join: the other is no Mailgrad, or breaks the protocol",
       [](page) { return meets_another_program([](const std::string& a) { return join(a); }); }},
      {"join: nobody listens", [](page) { return end_of(join("memory:nobody-is-here")); }},
      {"shard: its run has ended", [](page) { return run_with_host(who::host, short_run, nothing); }},
      {"shard: its run has failed", [](page) { return run_with_host(who::host, diverging, nothing); }},
      {"shard: a signal", [](page) { return run_with_host(who::host, long_run(), end_second); }},
      {"shard: a signal before it has joined", [](page) { return gets_signal_before(shard("127.0.0.1:1")); }},
      {"shard: the server is gone", [](page) { return run_with_host(who::host, long_run(), kill_first); }},
      {"shard: no place is free", [](page) { return host_finds_no_place(); }},
      {"shard: the other is no Mailgrad, or breaks the protocol",
       [](page) { return meets_another_program(shard); }},
      {"status, switch, stop: answered", [](page) { return watcher_is_answered(); }},
      {"status, switch, stop: nobody listens", [](page) { return end_of("status memory:nobody-is-here"_w); }},
      {"status, switch, stop: what it asks for cannot be",
       [](page) {
         return beside_a_run([](const std::string& a) { return words{"switch", a, "async, sync@1000"}; });
       }},
  };
  return all;
}

TEST_P(EndingsPage, IsAsItSays) {
  const row& page = GetParam();
  const auto found = plays().find(page.name());
  ASSERT_NE(found, plays().end()) << "this row has no play";
  const ended last = found->second(*this);
  EXPECT_EQ(last.code, page.code) << last.said;
  for (const std::string& text : split(page.said, "...")) EXPECT_THAT(last.said, HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(Rows, EndingsPage, ValuesIn(rows_of_page()),
                         [](const auto& of) { return test_name(of.param.name()); });

TEST(EndingsOfThePage, HaveEachPlay) {
  words rows;
  for (const row& r : rows_of_page()) rows.push_back(r.name());
  for (const auto& [name, play] : EndingsPage::plays()) EXPECT_THAT(rows, Contains(name));
}

words reasons_of(const std::string& process) {
  words all;
  for (const row& r : rows_of_page())
    if (r.process == process) all = all + r.reasons;
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
  const words told = reasons_of("serve");
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
} // namespace mailgrad::testing
