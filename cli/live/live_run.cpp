#include <mailgrad/cli/live/live_run.hpp>
#include <mailgrad/files/text.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>

namespace mailgrad {

/// What viewers of the live page know: whoever comes late is told all at once, the others each event as it
/// comes. A line may come twice to a viewer that has just begun; the page knows it by its time.
///
/// Threads any. It may outlive its server, because the observer of a run may call take() until the run ends.
class live_board {
public:
  /// Tells all further events to the viewers of this server, until close().
  void open(live_beginning what, http_server& server) {
    std::lock_guard guard(mutex_);
    known_ = std::move(what);
    server_ = &server;
  }
  void close() {
    std::lock_guard guard(mutex_);
    server_ = nullptr;
  }

  /// Switches and waits come with the next state.
  void take(const run_event& e) {
    const auto* line = std::get_if<metrics_line>(&e);
    if (!line) return;
    std::lock_guard guard(mutex_);
    curve_.add(*line);
    last_ = *line;
    publish("line", to_json(*line));
  }
  /// A state_event() of a run that goes on.
  void show(std::string state) {
    std::lock_guard guard(mutex_);
    if (ended_) return;
    known_.state = std::move(state);
    publish("state", known_.state);
  }
  /// That of its end.
  void end(std::string state) {
    std::lock_guard guard(mutex_);
    ended_ = true;
    known_.state = std::move(state);
    publish("end", known_.state);
  }

  /// The events for a viewer that has just come.
  std::string beginning() const {
    std::lock_guard guard(mutex_);
    live_beginning all = known_;
    all.curve = curve_.lines();
    std::string events = server_sent_event("begin", begin_event(all));
    if (ended_) events += server_sent_event("end", known_.state);
    return events;
  }
  std::string prometheus(const training_report& r) const {
    const auto [last, model] = [this] {
      std::lock_guard guard(mutex_);
      return std::pair(last_, known_.model);
    }();
    return prometheus_text(r, last, model);
  }

private:
  void publish(std::string_view name, const std::string& data) const {
    if (server_ && server_->viewers() > 0) server_->publish(server_sent_event(name, data));
  }

  mutable std::mutex mutex_; ///< guards all below
  http_server* server_ = nullptr;
  live_beginning known_;
  metrics_curve curve_;
  std::optional<metrics_line> last_;
  bool ended_ = false;
};

namespace {

/// Adds the page, at "/", and its scripts and styles, which the tool holds itself.
void add_pages(http_routes& to) {
  const auto add = [&](const char* path, const char* type, const std::string_view& bytes) {
    to.add("GET", path, [type, &bytes](const http_request&) {
      return http_response{.type = type, .body = std::string(bytes)};
    });
  };
  constexpr const char* script = "text/javascript; charset=utf-8";
  add("/", "text/html; charset=utf-8", embedded::page_html);
  add("/page.css", "text/css; charset=utf-8", embedded::page_css);
  add("/live.js", script, embedded::live_js);
  add("/pictures.js", script, embedded::pictures_js);
  add("/tables.js", script, embedded::tables_js);
  add("/chart.js", script, embedded::chart_js);
}

using json = nlohmann::ordered_json;

constexpr std::size_t longest_policy = 1000;

http_response accepted(std::string what) { return {.status = 202, .body = std::move(what) + '\n'}; }

/// The policy that a request names; nothing if it names none.
std::optional<std::string> policy_in(const std::string& body) {
  const json asked = json::parse(whole_json(body), nullptr, false);
  if (!asked.is_object() || asked.size() != 1 || !asked.contains("policy") || !asked["policy"].is_string())
    return std::nullopt;
  std::string policy = asked["policy"];
  if (policy.empty() || policy.size() > longest_policy) return std::nullopt;
  return policy;
}

http_response switch_as_asked(training& run, const http_request& asked) {
  const auto policy = policy_in(asked.body);
  if (!policy) return {.status = 400, .body = "Expected {\"policy\": \"sync\"} or the like.\n"};
  require_loaded(*policy);
  run.switch_policy(*policy, "asked for on the live page");
  return accepted("The workers end their steps, then go on under '" + *policy + "'.");
}

/// Adds POST /switch with {"policy": "sync"}, /checkpoint and /stop with {}. Each answers with 202 and a
/// sentence, or with why not. `refuses` says why a request may not change the run; nothing if it may.
void add_control(http_routes& to, training& run,
                 const std::function<std::optional<http_response>(const http_request&)>& refuses) {
  const auto add = [&](const char* path, auto change) {
    to.add("POST", path, [refuses, change = std::move(change)](const http_request& asked) {
      if (auto refusal = refuses(asked)) return std::move(*refusal);
      try {
        return change(asked);
      } catch (const std::invalid_argument& e) {
        return http_response{.status = 409, .body = std::string(e.what()) + '\n'};
      }
    });
  };
  add("/switch", [&run](const http_request& asked) { return switch_as_asked(run, asked); });
  add("/checkpoint", [&run](const http_request&) {
    run.take_checkpoint();
    return accepted("A checkpoint is taken as soon as possible.");
  });
  add("/stop", [&run](const http_request&) {
    run.stop("stopped on the live page");
    return accepted("The run stops: steps that have begun are finished.");
  });
}

using namespace std::chrono_literals;

constexpr auto between_states = 1s;
constexpr auto longest_answer = 250ms; ///< of the actors; then their last answers count
constexpr auto wait_for_waits = 100ms;

/// Nothing of a run stays in a browser's cache, stands in a frame of another page, or loads from elsewhere.
void add_safety(http_response& r) {
  r.fields.insert(r.fields.end(),
                  {{"Cache-Control", "no-store"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
                    "'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}});
}

} // namespace

http_server listen(const live_options& options) {
  try {
    return http_server(options.where);
  } catch (const std::system_error& e) {
    if (!options.any_port || e.code() != std::errc::address_in_use) throw;
    return http_server({options.where.host, 0});
  }
}

live_run::live_run(training& run, std::string model, bool keeps_checkpoints, const live_options& options,
                   http_server server, report_additions add)
    : run_(run), add_(std::move(add)), board_(std::make_shared<live_board>()),
      guard_(server.address(), options.token, options.control ? drawn_secret() : std::string()),
      server_(std::move(server)) {
  board_->open({std::move(model), run.total_steps(), {}, {}, guard_.key(), keeps_checkpoints}, server_);
  add_routes();
  server_.serve([this](const http_request& asked) { return answer(asked); });
  run.observe([board = board_](const run_event& e) { board->take(e); });
  poller_ = std::jthread([this](const std::stop_token& stop) { poll(stop); });
}

live_run::~live_run() {
  stop_polling();
  board_->close();
}

void live_run::end(const training_report& r) {
  stop_polling();
  board_->end(state_event(r, {}));
}

void live_run::add_routes() {
  add_pages(routes_);
  routes_.add("GET", "/events", [this](const http_request&) {
    looked_at();
    return http_response{.type = "text/event-stream", .body = board_->beginning(), .streams = true};
  });
  routes_.add("GET", "/report.json", [this](const http_request&) {
    return http_response{.type = "application/json", .body = to_json(report()) + '\n'};
  });
  routes_.add("GET", "/metrics", [this](const http_request&) {
    return http_response{.type = "text/plain; version=0.0.4; charset=utf-8",
                         .body = board_->prometheus(report())};
  });
  add_control(routes_, run_, [this](const http_request& asked) { return guard_.refuses_change(asked); });
}

http_response live_run::answer(const http_request& asked) {
  auto refusal = guard_.refuses(asked);
  http_response r = refusal ? std::move(*refusal) : routes_.answer(asked);
  add_safety(r);
  if (const std::string cookie = guard_.cookie(); !cookie.empty() && asked.path == "/" && r.status == 200)
    r.fields.emplace_back("Set-Cookie", cookie);
  return r;
}

training_report live_run::report_so_far() const {
  training_report r = run_.report_so_far(longest_answer);
  add_(r);
  return r;
}

/// However often anybody asks, the actors are asked a few times a second at most.
const training_report& live_run::report() {
  if (!report_ || time_.now() - reported_ > longest_answer) {
    report_ = report_so_far();
    reported_ = time_.now();
  }
  return *report_;
}

void live_run::stop_polling() {
  poller_.request_stop();
  if (poller_.joinable()) poller_.join();
}

void live_run::looked_at() {
  std::lock_guard lock(mutex_);
  wanted_ = true;
  wake_.notify_all();
}

void live_run::poll(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, between_states, [this] { return wanted_; });
      wanted_ = false;
    }
    if (stop.stop_requested() || server_.viewers() == 0) continue;
    board_->show(state_event(report_so_far(), run_.list_wait_reasons(wait_for_waits)));
  }
}

} // namespace mailgrad
