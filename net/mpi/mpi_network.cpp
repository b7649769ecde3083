#include <mailgrad/net/mpi/mpi_network.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/mpi/mpi_sums.hpp>
#include <mailgrad/net/thread_call.hpp>

#include <atomic>
#include <condition_variable>
#include <list>
#include <set>

namespace mailgrad::net {

namespace {

constexpr std::size_t most_received_bytes = frame_header_bytes + most_piece_bytes;
constexpr int most_messages_a_turn = 16; // of a connection, so the others do not wait for long
constexpr instant least_pause = std::chrono::microseconds{20};
constexpr instant most_pause = std::chrono::milliseconds{1};

// How connections come to be. A client asks its server's rank for a connection, by a number of its own that
// stands for two tags; the server takes it or refuses it. All of it has the tag 0.
constexpr int greeting_tag = 0;
constexpr std::size_t greeting_bytes = 9;
constexpr std::uint32_t greeting_magic = 0x6970'676d; // "mgpi"
constexpr std::uint8_t asks = 1, takes = 2, refuses = 3;
constexpr std::uint32_t most_number = (mpi_calls::most_tag - 1) / 2;

bool is_number(std::uint32_t n) { return n >= 1 && n <= most_number; }

const mpi_options& checked(const mpi_options& o) {
  if (o.spin.count() < 0 || o.patience.count() < 0)
    throw std::invalid_argument("mpi network: expected no negative time, found one");
  return o;
}

} // namespace

/// One connection: two tags between two ranks, one for each direction. A small frame is one message; of a
/// large one header and body are two, so that the body is sent from where it lies and received where it
/// belongs. A message without bytes is the last one.
/// Errors  those of mpi_calls.
/// Threads that of the network.
class mpi_connection {
public:
  struct route {
    int peer = 0; ///< its rank
    int out = 0;  ///< tags
    int in = 0;
  };

  mpi_connection(connection_id id, mpi_calls& mpi, route r) : id_(id), mpi_(&mpi), route_(r) {}

  connection_id id() const noexcept { return id_; }
  /// The rank at the other end.
  int peer() const noexcept { return route_.peer; }

  /// Hands a message on, if one is here: to `at`, or to nobody. Whether there was one.
  ///
  /// The body is received at once, since its place may be gone after any other event of the session. It is a
  /// piece at most, and the sender has all of it.
  /// Errors  protocol_error for one that is larger than any frame; nothing is read after that.
  bool read(endpoint* at, instant now) {
    if (ended_) return false;
    const auto message = mpi_->look(route_.peer, route_.in);
    if (!message) return false;
    const std::size_t count = message->bytes;
    if (count > most_received_bytes) {
      ended_ = true;
      throw protocol_error("mpi: expected messages of at most {} bytes, found {}", most_received_bytes,
                           count);
    }
    const std::span<std::byte> place = at && count > 0 ? at->place(id_) : std::span<std::byte>{};
    if (at && count > 0 && place.size() >= count) {
      mpi_->receive(route_.peer, route_.in, place.first(count));
      at->filled(id_, count, now);
      return true;
    }
    scratch_.resize(count);
    mpi_->receive(route_.peer, route_.in, scratch_);
    if (count == 0)
      ended_ = true;
    else if (at)
      at->received(id_, scratch_, now);
    return true;
  }
  /// Whether the peer sends no more.
  bool has_ended() const noexcept { return ended_; }

  /// Whether another frame may be sent before those that are under way have gone.
  bool has_room() const noexcept { return sent_.size() < most_frames && under_way_ < most_bytes; }
  void send(outgoing frame) {
    under_way& u = sent_.emplace_back();
    u.frame = std::move(frame);
    const byte_view content = u.frame.content();
    under_way_ += content.size();
    if (content.size() > most_joined_bytes) {
      u.parts[0] = send_part(u.frame.header);
      u.parts[1] = send_part(content);
      return;
    }
    u.joined.reserve(frame_header_bytes + content.size());
    u.joined.assign(u.frame.header.begin(), u.frame.header.end());
    u.joined.insert(u.joined.end(), content.begin(), content.end());
    u.parts[0] = send_part(u.joined);
  }
  /// Lets go of what has gone. Whether anything has.
  bool let_go() {
    bool any = false;
    while (!sent_.empty() && is_gone(sent_.front())) {
      under_way_ -= sent_.front().frame.content().size();
      sent_.pop_front();
      any = true;
    }
    return any;
  }
  /// Says that no more comes. Once.
  void end() {
    if (std::exchange(said_end_, true)) return;
    sent_.emplace_back().parts[0] = send_part({});
  }
  /// Whether all of it has gone, the end too.
  bool is_sent() const noexcept { return said_end_ && sent_.empty(); }

private:
  static constexpr std::size_t most_frames = 32;
  static constexpr std::size_t most_bytes = 1 << 20; ///< four pieces of a body
  /// Copying so much costs less than a message of its own.
  static constexpr std::size_t most_joined_bytes = 4096;

  struct part {
    mpi_calls::request request = 0;
    bool gone = true;
  };
  struct under_way {
    outgoing frame;
    bytes joined; ///< header and payload of a small one
    std::array<part, 2> parts;
  };

  part send_part(byte_view data) { return {mpi_->send(route_.peer, route_.out, data), false}; }
  bool is_gone(under_way& frame) {
    for (part& p : frame.parts)
      if (!p.gone && !(p.gone = mpi_->is_done(p.request))) return false;
    return true;
  }

  connection_id id_;
  mpi_calls* mpi_;
  route route_;
  std::deque<under_way> sent_; ///< a deque, since MPI reads from where they lie
  std::size_t under_way_ = 0;  ///< bytes
  bytes scratch_;
  bool ended_ = false, said_end_ = false;
};

/// One endpoint on a network of MPI, and its connections.
///
/// The endpoint may be forgotten within any call to it, so nothing of it is touched after one without a look.
/// Threads that of the network.
class mpi_host {
public:
  using connection_ptr = std::shared_ptr<mpi_connection>;
  /// Makes the next connection of a client.
  using dialer = std::function<void(mpi_host&, instant now)>;

  /// Of a server or of a client; the other one is null. `leaving` takes connections until their last bytes
  /// have gone.
  mpi_host(server_end* server, client_end* client, dialer dial, std::vector<connection_ptr>& leaving)
      : dial_(std::move(dial)), leaving_(&leaving), at_(server ? static_cast<endpoint*>(server) : client),
        client_(client) {}
  mpi_host(const mpi_host&) = delete;
  mpi_host& operator=(const mpi_host&) = delete;

  /// Null after forget(), and for a server.
  client_end* client() const noexcept { return client_; }

  void open(connection_ptr c, instant now) {
    connections_.emplace(c->id(), c);
    at_->opened(c->id(), fmt::format("rank {}", c->peer()), now);
  }
  /// A connection of a client could not be made.
  void fail(connection_id id, std::string_view words, instant now) { at_->closed(id, words, now); }
  /// Nobody listens where the client's server should be.
  void find_nobody(const std::string& words, instant now) { client_->find_nobody(words, now); }

  /// What it has to say is sent at once, since the endpoint may be forgotten next.
  void work(const std::function<void(instant)>& what, instant now) {
    what(now);
    for (const connection_ptr& c : all())
      if (has(c)) flush(c, now);
  }

  /// Reads, sends, and looks at the clock. Whether anything came or went.
  bool turn(instant now) {
    if (!at_) return false;
    bool any = false;
    for (const connection_ptr& c : all())
      if (has(c)) any |= read(c, now);
    // A client's time begins with its first connection, since the server may be waited for.
    if (at_ && !(client_ && connections_.empty()) && now >= at_->deadline()) {
      at_->tick(now);
      any = true;
    }
    if (client_ && client_->wants_bulk()) dial_(*this, now);
    for (const connection_ptr& c : all())
      if (has(c)) any |= flush(c, now);
    return any;
  }

  /// All connections are lost, for these words.
  void lose_all(std::string_view words, instant now) {
    for (const connection_ptr& c : all()) {
      if (!has(c)) continue;
      connections_.erase(c->id());
      at_->closed(c->id(), words, now);
    }
  }

  /// Closes every connection. The endpoint is not called again.
  void forget() {
    for (const connection_ptr& c : all()) {
      c->end();
      leaving_->push_back(c);
    }
    connections_.clear();
    at_ = nullptr;
    client_ = nullptr;
  }

private:
  bool read(const connection_ptr& c, instant now) try {
    int count = 0;
    while (has(c) && count < most_messages_a_turn) {
      if (!at_->reads(c->id(), now)) {
        if (!among_held_.contains(c->id())) among_held_[c->id()] = held_.insert(held_.end(), c->id());
        break;
      }
      if (const auto place = among_held_.extract(c->id())) held_.erase(place.mapped());
      if (!c->read(at_, now)) break;
      ++count;
    }
    if (has(c) && c->has_ended()) lose(c, "closed by the peer", now);
    return count > 0;
  } catch (const protocol_error& e) {
    if (has(c)) lose(c, e.what(), now);
    return true;
  }

  bool flush(const connection_ptr& c, instant now) {
    bool any = c->let_go();
    while (has(c) && c->has_room()) {
      auto frame = at_->next(c->id(), now);
      if (!frame) break;
      c->send(std::move(*frame));
      any = true;
    }
    if (!has(c) || !at_->is_through(c->id())) return any;
    lose(c, "closed here", now);
    return true;
  }

  /// Its last frames still go, and those of the peer are read and forgotten.
  void lose(const connection_ptr& c, std::string_view words, instant now) {
    connections_.erase(c->id());
    c->end();
    leaving_->push_back(c);
    at_->closed(c->id(), words, now);
  }

  bool has(const connection_ptr& c) const { return at_ && connections_.contains(c->id()); }

  /// Where there is room for some, who waits longest is asked first.
  std::vector<connection_ptr> all() {
    std::erase_if(among_held_, [this](const auto& entry) {
      if (connections_.contains(entry.first)) return false;
      held_.erase(entry.second);
      return true;
    });
    std::vector<connection_ptr> here;
    here.reserve(connections_.size());
    for (const connection_id id : held_) here.push_back(connections_.at(id));
    for (const auto& [id, c] : connections_)
      if (!among_held_.contains(id)) here.push_back(c);
    return here;
  }

  dialer dial_;
  std::vector<connection_ptr>* leaving_;
  endpoint* at_;
  client_end* client_;
  std::map<connection_id, connection_ptr> connections_;
  std::list<connection_id> held_; ///< those that are not read now, who waits longest first
  std::map<connection_id, std::list<connection_id>::iterator> among_held_; ///< where each of them is
};

/// The thread that owns MPI, and its turns: work from other threads, connections that are asked for and
/// answered, hosts, and pauses.
///
/// MPI has nothing to sleep on, so the thread looks again and again. When nothing came for longer than the
/// spin it pauses between two looks, for a quarter of the time that nothing came, but from 20 us to 1 ms: a
/// message waits no longer than that, and an idle thread takes a few thousandths of a core. While a sum is
/// under way the pause stays at 20 us, since the other ranks wait for what this one passes on.
/// Threads any for post(), on_thread(), abandon(), here(), options() and now(); its own for the rest.
class mpi_loop {
public:
  /// Begins MPI.
  mpi_loop(std::unique_ptr<mpi_calls> mpi, const mpi_options& o)
      : options_(checked(o)), mpi_(std::move(mpi)) {
    std::promise<mpi_calls::place> begun;
    auto found = begun.get_future();
    thread_ = std::thread([this, told = std::move(begun)]() mutable { run(told); });
    try {
      here_ = found.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  /// Waits until the last bytes have gone and every rank has stopped. The rank of a server waits for no rank
  /// that has not even heard its goodbye 2 s later, and leaves MPI as it is then. An abandoned
  /// rank sends its last bytes, waits for no other rank, and leaves MPI as it is.
  ~mpi_loop() {
    post([this] {
      while (!hosts_.empty()) forget(*hosts_.begin()->first);
      stops_ = true;
    });
    thread_.join();
  }
  mpi_loop(const mpi_loop&) = delete;
  mpi_loop& operator=(const mpi_loop&) = delete;

  mpi_calls::place here() const noexcept { return here_; }
  const mpi_options& options() const noexcept { return options_; }
  instant now() const noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }
  void abandon() noexcept { abandoned_ = true; }

  /// Has something done on the thread, in the order of the calls.
  void post(std::function<void()> work) {
    {
      const std::lock_guard guard(mutex_);
      posted_.push_back(std::move(work));
    }
    called_.notify_one();
  }
  template <class Work>
  void on_thread(Work work) {
    call_on(thread_, *this, std::move(work));
  }

  void serve(server_end& server) {
    if (server_) throw std::invalid_argument("mpi: expected one server for each rank, found another");
    auto& host = hosts_[&server];
    host = made_host(&server, nullptr);
    server_ = host.get();
    has_served_ = true;
    for (const asker& who : std::exchange(early_, {})) take_in(who);
  }

  void connect(client_end& client, int rank, instant patience) {
    if (is_broken_) throw std::runtime_error("mpi: expected MPI to work, found that it has failed before");
    auto& host = hosts_[&client];
    if (host)
      throw std::invalid_argument("network: expected a client that is not connected, found one that is");
    host = made_host(nullptr, &client);
    servers_of_[host.get()] = rank;
    dial(*host, now(), patience);
  }

  void forget(endpoint& e) {
    auto found = hosts_.extract(&e);
    if (!found) return;
    mpi_host* const host = found.mapped().get();
    if (host == server_) server_ = nullptr;
    servers_of_.erase(host);
    for (auto& [number, a] : asked_)
      if (a.host == host) a.host = nullptr;
    try {
      host->forget();
    } catch (const std::runtime_error& failed) {
      fall(failed.what());
    }
    forgotten_.push_back(std::move(found.mapped()));
  }

  mpi_host* find(endpoint& e) const {
    const auto found = hosts_.find(&e);
    return found == hosts_.end() ? nullptr : found->second.get();
  }

  /// This rank takes part in sums of so many floats. Nothing of them is done once MPI has failed.
  /// Errors  std::invalid_argument if it does already.
  void join_sums(std::size_t floats) {
    if (sums_)
      throw std::invalid_argument("mpi: expected one worker of a rank to join the sums, found another");
    sums_ = std::make_unique<mpi_sums>(*mpi_, here_, floats);
  }
  void add(mpi_sums::part p) {
    if (!is_broken_ && sums_) sums_->add(std::move(p));
  }
  void leave_sums() {
    if (!is_broken_ && sums_) sums_->leave();
  }

private:
  /// A connection that a client has asked for.
  struct asked {
    mpi_host* host = nullptr; ///< null: it was given up
    connection_id id;
    int rank = 0;
    instant until{0};
  };
  struct asker {
    int rank = 0;
    std::uint32_t number = 0;
  };
  struct word {
    bytes data;
    mpi_calls::request request = 0;
  };

  void run(std::promise<mpi_calls::place>& begun) {
    try {
      begun.set_value(mpi_->begin());
    } catch (...) {
      begun.set_exception(std::current_exception());
      return;
    }
    instant busy_at = now();
    while (true) {
      bool busy = false;
      try {
        busy = run_posted();
        if (is_done()) break;
        busy |= turn();
      } catch (const std::runtime_error& e) {
        fall(e.what());
      }
      forgotten_.clear();
      const instant moment = now();
      if (busy)
        busy_at = moment;
      else if (moment - busy_at >= options_.spin)
        pause(moment - busy_at);
    }
  }

  bool turn() {
    if (is_broken_) return false;
    bool busy = hear();
    for (endpoint* const e : endpoints())
      if (mpi_host* const host = find(*e)) busy |= host->turn(now());
    give_up_late();
    if (sums_) busy |= sums_->turn();
    return busy | let_go();
  }

  /// Those that are here now; one may come or go meanwhile.
  std::vector<endpoint*> endpoints() const {
    std::vector<endpoint*> here;
    for (const auto& [e, host] : hosts_) here.push_back(e);
    return here;
  }

  bool run_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard guard(mutex_);
      work.swap(posted_);
    }
    for (const auto& each : work) try {
        each();
      } catch (const std::runtime_error& e) {
        fall(e.what());
      }
    return !work.empty();
  }

  void pause(instant idle) {
    const instant most = sums_ && sums_->is_under_way() ? least_pause : most_pause;
    const instant longest = std::clamp(idle / 4, least_pause, most);
    std::unique_lock guard(mutex_);
    called_.wait_for(guard, longest, [&] { return !posted_.empty(); });
  }

  /// The other ranks may still work, and this one goes on hearing them until all have come to their end.
  bool is_done() {
    if (!stops_) return false;
    if (is_broken_) return true;
    if (!farewell_until_) {
      farewell_until_ = now() + timing{}.farewell();
      patience_until_ = now() + timing{}.hello();
    }
    const bool is_silent = (leaving_.empty() && words_.empty()) || now() >= *farewell_until_;
    if (!is_silent) return false;
    if (abandoned_) return true;
    leave_sums();
    if (sums_ && !sums_->is_over()) return false;
    if (!end_) end_ = mpi_->begin_end();
    if (!mpi_->is_done(*end_)) return is_held_up();
    mpi_->end();
    return true;
  }

  /// Whether the other ranks are not worth waiting for: one of them was lost.
  bool is_held_up() {
    if (!has_served_ || now() < *patience_until_) return false;
    const bool is_lost = !leaving_.empty();
    if (options_.on_wait && !std::exchange(has_told_, true))
      options_.on_wait(
          is_lost
              ? "this rank has ended its work, and waits no longer for a rank that was lost: MPI is left as "
                "it is, and the launcher ends the others"
              : "this rank has ended its work, and waits until all others have, as MPI wants it");
    return is_lost;
  }

  /// MPI has failed, and by its own rules nothing more of it may be used.
  void fall(const std::string& words) {
    is_broken_ = true;
    for (endpoint* const e : endpoints())
      if (mpi_host* const host = find(*e)) host->lose_all(words, now());
    for (auto& [number, a] : std::exchange(asked_, {}))
      if (a.host) a.host->fail(a.id, words, now());
  }

  std::unique_ptr<mpi_host> made_host(server_end* server, client_end* client) {
    return std::make_unique<mpi_host>(
        server, client, [this](mpi_host& host, instant moment) { dial(host, moment, timing{}.hello()); },
        leaving_);
  }

  bool let_go() {
    bool any = std::erase_if(words_, [&](word& w) { return mpi_->is_done(w.request); }) > 0;
    for (const auto& c : leaving_) {
      any |= c->let_go();
      while (c->read(nullptr, now())) any = true;
    }
    std::erase_if(leaving_, [](const auto& c) { return c->is_sent() && c->has_ended(); });
    return any;
  }

  mpi_connection::route route_to(int rank, std::uint32_t number, bool is_client) const {
    const int up = static_cast<int>(2 * number), down = up + 1;
    return is_client ? mpi_connection::route{rank, up, down} : mpi_connection::route{rank, down, up};
  }

  void dial(mpi_host& host, instant moment, instant patience) {
    client_end& client = *host.client();
    const connection_id id{next_id_++};
    if (client.wants_bulk()) client.begin_bulk(id);
    const std::uint32_t number = next_number_++;
    if (!is_number(number))
      return host.fail(
          id, fmt::format("mpi: expected at most {} connections from a rank, found one more", most_number),
          moment);
    const int rank = servers_of_.at(&host);
    asked_.emplace(number, asked{&host, id, rank, moment + patience});
    say(rank, asks, number);
  }

  bool hear() {
    bool any = false;
    while (const auto message = mpi_->look(mpi_calls::anybody, greeting_tag)) {
      if (message->bytes != greeting_bytes)
        throw std::runtime_error(fmt::format("mpi: rank {}: expected a greeting of {} bytes, found {}",
                                             message->from, greeting_bytes, message->bytes));
      std::array<std::byte, greeting_bytes> greeting{};
      mpi_->receive(message->from, greeting_tag, greeting);
      hear(message->from, greeting);
      any = true;
    }
    return any;
  }

  void hear(int from, byte_view greeting) {
    frame_reader reader{"mpi", greeting};
    const std::uint32_t magic = reader.u32();
    const std::uint8_t what = reader.u8();
    const std::uint32_t number = reader.u32();
    if (magic != greeting_magic || !is_number(number) || what < asks || what > refuses)
      throw std::runtime_error(
          fmt::format("mpi: rank {}: expected a greeting of Mailgrad, found other bytes", from));
    if (what == asks) return answer({from, number});
    const auto found = asked_.find(number);
    if (found != asked_.end() && found->second.rank == from) be_taken(number, what == takes);
  }

  void answer(asker who) {
    if (server_) return take_in(who);
    if (has_served_ || farewell_until_) return say(who.rank, refuses, who.number);
    early_.push_back(who);
  }

  void take_in(asker who) {
    say(who.rank, takes, who.number);
    server_->open(std::make_shared<mpi_connection>(connection_id{next_id_++}, *mpi_,
                                                   route_to(who.rank, who.number, false)),
                  now());
  }

  void be_taken(std::uint32_t number, bool taken) {
    const asked a = asked_.extract(number).mapped();
    if (!taken) {
      if (a.host)
        a.host->find_nobody(fmt::format("nobody listens at {} any more", mpi_address(a.rank)), now());
      return;
    }
    auto made = std::make_shared<mpi_connection>(a.id, *mpi_, route_to(a.rank, number, true));
    if (a.host) return a.host->open(std::move(made), now());
    made->end(); // nobody wants it any more
    leaving_.push_back(std::move(made));
  }

  /// An answer may still come, so the number stays known.
  void give_up_late() {
    const instant moment = now();
    std::vector<asked> late;
    for (auto& [number, a] : asked_)
      if (a.host && moment >= a.until) {
        late.push_back(a);
        a.host = nullptr;
      }
    for (const asked& a : late)
      if (const auto still = servers_of_.find(a.host); still != servers_of_.end())
        a.host->find_nobody(fmt::format("nobody listens at {}", mpi_address(a.rank)), moment);
  }

  void say(int to, std::uint8_t what, std::uint32_t number) {
    word& w = words_.emplace_back();
    frame_writer(w.data).u32(greeting_magic).u8(what).u32(number);
    w.request = mpi_->send(to, greeting_tag, w.data);
  }

  const mpi_options options_;
  const std::unique_ptr<mpi_calls> mpi_;
  mpi_calls::place here_;
  std::map<endpoint*, std::unique_ptr<mpi_host>> hosts_;
  std::vector<std::unique_ptr<mpi_host>> forgotten_; ///< may stand on the stack of this turn
  std::map<mpi_host*, int> servers_of_;              ///< the rank of a client's server
  mpi_host* server_ = nullptr;
  bool has_served_ = false;
  std::vector<asker> early_; ///< came before the server listened
  std::map<std::uint32_t, asked> asked_;
  std::uint32_t next_number_ = 1;
  std::uint64_t next_id_ = 1;
  std::list<word> words_; ///< of greetings that are under way
  std::vector<mpi_host::connection_ptr> leaving_;
  std::unique_ptr<mpi_sums> sums_; ///< null: this rank has not joined any
  std::optional<mpi_calls::request> end_;
  std::optional<instant> farewell_until_, patience_until_; ///< since it was stopped
  bool has_told_ = false;                                  ///< what it waits for
  bool is_broken_ = false;
  bool stops_ = false;
  std::atomic<bool> abandoned_{false};

  std::mutex mutex_; ///< of the work below
  std::condition_variable called_;
  std::vector<std::function<void()>> posted_;
  std::thread thread_;
};

namespace {

/// What the worker of this rank has of the sums.
class sums_of_rank final : public all_reduce {
public:
  sums_of_rank(mpi_loop& loop, std::size_t floats) : loop_(&loop), floats_(floats) {}
  ~sums_of_rank() override {
    loop_->post([loop = loop_] { loop->leave_sums(); });
  }
  sums_of_rank(const sums_of_rank&) = delete;
  sums_of_rank& operator=(const sums_of_rank&) = delete;

  void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum done) override {
    if (values.size() != floats_ || !done)
      throw std::invalid_argument(fmt::format(
          "mpi: expected a sum of {} floats and somebody to tell, found {}", floats_, values.size()));
    mpi_sums::part p{values, std::move(keeps), std::move(done)};
    loop_->post([loop = loop_, p = std::move(p)] { loop->add(p); });
  }

private:
  mpi_loop* loop_;
  std::size_t floats_;
};

} // namespace

mpi_network::mpi_network(std::unique_ptr<mpi_calls> mpi, const mpi_options& options)
    : loop_(std::make_unique<mpi_loop>(std::move(mpi), options)) {}
mpi_network::~mpi_network() = default;

int mpi_network::rank() const noexcept { return loop_->here().rank; }
int mpi_network::size() const noexcept { return loop_->here().size; }
void mpi_network::abandon() noexcept { loop_->abandon(); }
instant mpi_network::now() const noexcept { return loop_->now(); }

std::unique_ptr<all_reduce> mpi_network::join_sums(std::size_t floats) {
  if (rank() == 0)
    throw std::invalid_argument("mpi: expected a rank from 1 on to join the sums, found rank 0");
  loop_->on_thread([&] { loop_->join_sums(floats); });
  return std::make_unique<sums_of_rank>(*loop_, floats);
}

std::string mpi_network::listen(server_end& server, const std::string& address) {
  if (const int at = parse_mpi_address(address); at != rank())
    throw std::invalid_argument(fmt::format("mpi: expected {} to listen on this rank, found {}",
                                            mpi_address(rank()), mpi_address(at)));
  loop_->on_thread([&] { loop_->serve(server); });
  return address;
}

void mpi_network::connect(client_end& client, const std::string& address) {
  const int to = parse_mpi_address(address);
  if (to >= size())
    throw std::invalid_argument(
        fmt::format("mpi: expected one of {} ranks, found {}", size(), mpi_address(to)));
  const instant patience = client.tries_once() ? timing{}.hello() : instant{loop_->options().patience};
  loop_->on_thread([&] { loop_->connect(client, to, patience); });
}

void mpi_network::forget(endpoint& e) {
  loop_->on_thread([&] { loop_->forget(e); });
}

void mpi_network::post(endpoint& e, std::function<void(instant)> work) {
  loop_->post([loop = loop_.get(), &e, work = std::move(work)] {
    if (mpi_host* const host = loop->find(e)) host->work(work, loop->now()); // which may forget it
  });
}

} // namespace mailgrad::net
