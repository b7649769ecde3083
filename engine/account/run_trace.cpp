#include <mailgrad/engine/account/run_trace.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ostream>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr int process = 1;
constexpr std::size_t coordinator_track = 2; ///< differs from `process`, whose number means its main thread
constexpr std::size_t first_track = 3;

struct kind_words {
  const char* name;
  const char* category;
};

/// In the order of trace_kind.
constexpr std::pair<trace_kind, kind_words> words_of_kinds[] = {
    {trace_kind::compute, {"compute", "work"}},
    {trace_kind::read, {"read", "work"}},
    {trace_kind::apply, {"apply", "work"}},
    {trace_kind::compare, {"compares with a fresh gradient", "work"}},
    {trace_kind::deal, {"makes a batch", "work"}},
    {trace_kind::discard, {"discarded", "moment"}},
    {trace_kind::change_policy, {"the next policy begins", "moment"}},
    {trace_kind::shard_mailbox, {"gradient in the shard's mailbox", "wait"}},
    {trace_kind::shard_at_work, {"waits for the shard", "wait"}},
    {trace_kind::own_mailbox, {"weights in the worker's mailbox", "wait"}},
    {trace_kind::barrier, {"waits for the barrier", "wait"}},
    {trace_kind::bound, {"held by the staleness bound", "wait"}},
    {trace_kind::batch, {"waits for batch", "wait"}},
    {trace_kind::policy_switch, {"waits for the switch of policy", "wait"}},
    {trace_kind::gradient, {"waits for a gradient", "wait"}},
    {trace_kind::rest_of_batch, {"waits for the rest of the batch", "wait"}},
    {trace_kind::asker, {"waits for a worker that asks", "wait"}},
    {trace_kind::hold, {"holds for the switch of policy", "wait"}},
    {trace_kind::word_of_first_shard, {"waits for its turn", "wait"}},
    {trace_kind::compute_part, {"compute", "work"}},
    {trace_kind::stage_values, {"waits for values of other stages", "wait"}},
    {trace_kind::credit, {"waits until others have used its values", "wait"}},
    {trace_kind::next_step, {"waits for its worker", "wait"}},
    {trace_kind::wire, {"on the wire, there and back", "wait"}},
    {trace_kind::copy, {"copies a batch ahead", "work"}},
    {trace_kind::checkpoint, {"stands still for a checkpoint", "wait"}},
};
static_assert([] {
  for (std::size_t i = 0; i < std::size(words_of_kinds); ++i)
    if (words_of_kinds[i].first != static_cast<trace_kind>(i)) return false;
  return std::size(words_of_kinds) == static_cast<std::size_t>(trace_kind::checkpoint) + 1;
}());

/// Times of the format are microseconds; three decimals give nanoseconds.
double in_microseconds(instant span) { return static_cast<double>(span.count()) / 1000; }

json args_of(const trace_event& e) {
  switch (e.what) {
  case trace_kind::compute:
  case trace_kind::copy:
    return {{"step", e.step}};
  case trace_kind::compute_part:
    return {{"step", e.step}, {"micro_batch", e.peer}, {"segment", e.version}};
  case trace_kind::deal:
    return {{"worker", e.peer}, {"batch", e.step}};
  case trace_kind::read:
    return {{"shard", e.peer}, {"version", e.version}};
  case trace_kind::apply:
    return {{"worker", e.peer},
            {"step", e.step},
            {"version_read", e.version_read},
            {"version", e.version},
            {"gap", e.version - 1 - e.version_read}};
  case trace_kind::discard:
    return {{"worker", e.peer}, {"step", e.step}, {"reason", e.word}};
  case trace_kind::change_policy:
    return {{"policy", e.word}};
  case trace_kind::shard_mailbox:
  case trace_kind::shard_at_work:
  case trace_kind::own_mailbox:
  case trace_kind::barrier:
  case trace_kind::bound:
  case trace_kind::wire:
    return {{"shard", e.peer}};
  default:
    return json::object();
  }
}

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Writes events one a line, with commas between them.
class event_list {
public:
  explicit event_list(std::ostream& out) : out_(out) {
    add(coordinator_track, {{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", "mailgrad"}}}});
  }

  void name_track(std::size_t track, const std::string& name) {
    add(track, {{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    add(track, {{"ph", "M"}, {"name", "thread_sort_index"}, {"args", {{"sort_index", track}}}});
  }
  void span(std::size_t track, const std::string& name, const char* category, instant begin, instant end,
            const json& args) {
    add(track, {{"ph", "X"},
                {"name", name},
                {"cat", category},
                {"ts", in_microseconds(begin)},
                {"dur", in_microseconds(end - begin)},
                {"args", args}});
  }
  void moment(std::size_t track, const std::string& name, instant when, const json& args) {
    add(track, {{"ph", "i"},
                {"s", "t"},
                {"name", name},
                {"cat", "moment"},
                {"ts", in_microseconds(when)},
                {"args", args}});
  }

private:
  void add(std::size_t track, json event) {
    event["pid"] = process;
    event["tid"] = track;
    out_ << (first_ ? "\n" : ",\n") << text_of(event);
    first_ = false;
  }

  std::ostream& out_;
  bool first_ = true;
};

void write_track(event_list& list, std::size_t number, const trace_track& track, instant started) {
  list.name_track(number, track.name());
  for (const trace_event& e : track.events()) {
    const kind_words& words = words_of_kinds[static_cast<std::size_t>(e.what)].second;
    if (is_moment(e.what))
      list.moment(number, words.name, e.begin - started, args_of(e));
    else
      list.span(number, words.name, words.category, e.begin - started, e.end - started, args_of(e));
  }
}

struct coordinator_event {
  instant begin{0};
  std::optional<instant> end{}; ///< none: a moment
  std::string name;
  json args;
};

coordinator_event fate_of(const checkpoint_times& c) {
  coordinator_event e{c.ended, {}, "checkpoint given up", {{"number", c.number}}};
  if (c.what == checkpoint_times::fate::given_up) return e;
  const bool written = c.what == checkpoint_times::fate::written;
  e.name = written ? "checkpoint written" : "checkpoint failed";
  e.args.update(written ? json{{"step", c.steps}, {"file", c.file}, {"bytes", c.bytes}}
                        : json{{"step", c.steps}, {"why", c.failure}});
  return e;
}

/// A file may be written while the policy switches, so the events are put in order.
std::vector<coordinator_event> events_of_coordinator(const run_trace& trace) {
  std::vector<coordinator_event> events;
  for (const policy_switch& s : trace.switches)
    events.push_back(
        {s.begun, s.ended, "switch from " + s.from + " to " + s.to, {{"step", s.step}, {"why", s.why}}});
  for (const checkpoint_times& c : trace.checkpoints) {
    events.push_back({c.begun, c.collected, "checkpoint", {{"number", c.number}}});
    events.push_back(fate_of(c));
  }
  std::ranges::stable_sort(events, {}, &coordinator_event::begin);
  return events;
}

void write_coordinator(event_list& list, const run_trace& trace) {
  list.name_track(coordinator_track, "coordinator");
  for (const coordinator_event& e : events_of_coordinator(trace))
    if (e.end)
      list.span(coordinator_track, e.name, "work", e.begin - trace.started, *e.end - trace.started, e.args);
    else
      list.moment(coordinator_track, e.name, e.begin - trace.started, e.args);
  list.moment(coordinator_track, trace.how, trace.ended - trace.started, json::object());
}

json clocks_of(const run_trace& trace) {
  json all = json::array();
  for (const placed_track& c : trace.clocks)
    all.push_back(
        {{"track", c.name},
         {"offset_us", in_microseconds(c.clock.value)},
         {"uncertainty_us", c.clock.uncertainty ? json(in_microseconds(*c.clock.uncertainty)) : json()}});
  return all;
}

} // namespace

void write_trace(std::ostream& out, const run_trace& trace) {
  out << "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"missing\":" << text_of(missing_in(trace));
  if (!trace.clocks.empty()) out << ",\n\"clocks\":" << text_of(clocks_of(trace));
  out << "},\n\"traceEvents\":[";
  event_list list(out);
  write_coordinator(list, trace);
  for (std::size_t i = 0; i < trace.tracks.size(); ++i)
    write_track(list, first_track + i, *trace.tracks[i], trace.started);
  out << "\n]}\n";
}

std::vector<std::string> missing_in(const run_trace& trace) {
  std::vector<std::string> lines;
  for (const auto& track : trace.tracks)
    if (track->left_out() > 0)
      lines.push_back(fmt::format("{}: the last {} events were left out", track->name(), track->left_out()));
  for (const std::string& name : trace.lost) lines.push_back(name + ": lost, with all its events");
  for (const placed_track& c : trace.clocks)
    if (c.lost_after)
      lines.push_back(fmt::format("{}: lost, with what it did after {:.3f} s", c.name,
                                  in_seconds(*c.lost_after - trace.started)));
  for (const std::string& name : trace.silent) lines.push_back(name + ": tells no timeline");
  return lines;
}

} // namespace mailgrad
