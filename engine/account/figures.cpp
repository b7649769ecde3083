#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <concepts>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

std::string format_found(const json& found) {
  return in_quotes(found.dump(-1, ' ', false, json::error_handler_t::replace));
}

} // namespace

report_fields::report_fields(std::string file, const json& object, std::string where)
    : file_(std::move(file)), object_(object), where_(std::move(where)) {
  if (object_.is_object()) return;
  const std::string whose = where_.empty() ? "" : "'" + where_.substr(0, where_.size() - 1) + "': ";
  throw_malformed(file_, fmt::format("{}expected an object, found {}", whose, format_found(object_)));
}

const json& report_fields::at(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end())
    throw_malformed(
        file_,
        fmt::format("expected a report of 'mailgrad train --report', found no field '{}{}'", where_, name));
  return *found;
}

void report_fields::fail(const char* name, const std::string& expected) const {
  throw_malformed(file_, fmt::format("field '{}{}': expected {}, found {}", where_, name, expected,
                                     format_found(at(name))));
}

void report_fields::contradict(const std::string& what) const { throw_malformed(file_, what); }

const json& report_fields::list(const char* name) const {
  if (!at(name).is_array()) fail(name, "a list");
  return at(name);
}

std::string report_fields::text(const char* name) const {
  if (!at(name).is_string()) fail(name, "a text");
  return at(name).get<std::string>();
}

double report_fields::number(const char* name) const {
  const json& found = at(name);
  if (!found.is_number() || !std::isfinite(found.get<double>()) || found.get<double>() < 0)
    fail(name, "a number of at least 0");
  return found.get<double>();
}

std::optional<double> report_fields::known(const char* name) const {
  const json& found = at(name);
  if (found.is_null()) return std::nullopt;
  if (!found.is_number() || !std::isfinite(found.get<double>())) fail(name, "a number or null");
  return found.get<double>();
}

std::uint64_t report_fields::count(const char* name, std::uint64_t most) const {
  const json& found = at(name);
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() > most)
    fail(name, fmt::format("a whole number up to {}", most));
  return found.get<std::uint64_t>();
}

namespace {

template <class T, class Books>
concept of = std::same_as<std::remove_const_t<T>, Books>;

template <class Books, class F>
concept listed_by = requires(F& f, Books& books) {
  list(f, books);
};

class teller {
public:
  void operator()(const char* name, const char* unit, const auto& x, figure_elsewhere elsewhere = {}) {
    rows.push_back({name, unit, shown(x), elsewhere});
  }
  void operator()(const char* name, const auto& x) { (*this)(name, "", x); }
  /// Of a text that is null if it is empty.
  void text(const char* name, const std::string& x) { when(!x.empty(), name, "", x); }
  /// Of what nobody knows unless `known` says so.
  void when(bool known, const char* name, const char* unit, const auto& x, figure_elsewhere elsewhere = {}) {
    (*this)(name, unit, known ? shown(x) : json(), elsewhere);
  }
  /// Of what has functions of its own to be told and to be read.
  void by(const char* name, const auto& books, auto told, auto) { (*this)(name, told(books)); }

  template <class Books>
  static std::vector<figure> listed(const Books& books) {
    teller f;
    list(f, books);
    return std::move(f.rows);
  }

  template <class T>
  static json shown(const T& x) {
    if constexpr (requires(teller & f) { list(f, x); })
      return object_of(listed(x));
    else
      return json(x);
  }
  /// A duration that nobody measured is null.
  static json shown(const duration_stat& t) { return t.empty() ? json() : object_of(listed(t)); }
  template <class T>
  static json shown(const std::optional<T>& x) {
    return x ? shown(*x) : json();
  }
  template <class T>
  requires std::is_class_v<T>
  static json shown(const std::vector<T>& all) {
    json list = json::array();
    for (const T& each : all) list.push_back(shown(each));
    return list;
  }

  std::vector<figure> rows;
};

json shown(const auto& x) { return teller::shown(x); }

/// Reads figures that are members, of the types that somebody asks for. Others follow from these.
class reader {
public:
  static void take_all(const report_fields& from, auto& books) {
    reader f(from, is_lenient(books));
    list(f, books);
  }

  template <class T>
  void operator()(const char* name, const char*, T&& x, figure_elsewhere = {}) {
    if constexpr (std::is_lvalue_reference_v<T> && requires { take(from_, name, x); })
      if (from_.has(name) || !(lenient_ || requires { x.reset(); })) take(from_, name, x);
  }
  template <class T>
  void operator()(const char* name, T&& x) {
    (*this)(name, "", std::forward<T>(x));
  }
  void text(const char*, const std::string&) {}
  void when(bool, const char* name, const char*, auto&& x, figure_elsewhere = {}) {
    (*this)(name, std::forward<decltype(x)>(x));
  }
  void by(const char* name, auto& books, auto, auto read) {
    if (from_.has(name) || !lenient_) read(from_, name, books);
  }

  static void take(const report_fields& f, const char* name, double& to) { to = f.number(name); }
  static void take(const report_fields& f, const char* name, std::string& to) { to = f.text(name); }
  static void take(const report_fields& f, const char* name, std::optional<double>& to) {
    to = f.known(name);
  }
  template <std::unsigned_integral T>
  static void take(const report_fields& f, const char* name, T& to) {
    if constexpr (!std::same_as<T, bool>) // nobody asks for these
      to = static_cast<T>(
          f.count(name, std::min<std::uint64_t>(std::numeric_limits<T>::max(), report_fields::most_count)));
  }
  static void take(const report_fields& f, const char* name, std::map<std::string, std::uint64_t>& to) {
    const report_fields reasons = f.object(name);
    for (const auto& [reason, count] : f.at(name).items()) to[reason] = reasons.count(reason.c_str());
  }
  template <listed_by<reader> T>
  static void take(const report_fields& f, const char* name, T& to) {
    take_all(f.object(name), to);
  }
  template <listed_by<reader> T>
  static void take(const report_fields& f, const char* name, std::vector<T>& to) {
    for (const json& each : f.list(name)) take_all(f.entry(name, each), to.emplace_back());
  }
  static void take(const report_fields& f, const char* name, duration_stat& to) {
    if (f.is_null(name)) return;
    const report_fields t = f.object(name);
    to = duration_stat::of(t.count("count"), t.number("seconds"), t.number("max"));
  }

private:
  reader(const report_fields& from, bool lenient) : from_(from), lenient_(lenient) {}

  /// Older versions wrote fewer figures into a report and into its lines.
  static bool is_lenient(const auto&) { return false; }
  static bool is_lenient(const training_report&) { return true; }
  static bool is_lenient(const metrics_line&) { return true; }

  const report_fields& from_;
  bool lenient_;
};

json pairs_of(const staleness_histogram& h) {
  json pairs = json::array();
  for (const auto& [gap, count] : h.buckets()) pairs.push_back({gap, count});
  return pairs;
}

/// The gaps rise, and readers of JSON agree about each number.
void take_pairs(const report_fields& f, const char* name, staleness_histogram& to) {
  constexpr std::uint64_t most = report_fields::most_count;
  std::optional<std::uint64_t> last;
  for (const json& pair : f.list(name)) {
    const bool two = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                     pair[1].is_number_unsigned() && pair[0] < most && pair[1] < most && pair[1] > 0;
    if (!two || (last && pair[0] <= *last))
      f.fail(name, "pairs of a gap and a count above 0, the gaps rising");
    last = pair[0].get<std::uint64_t>();
    to.count(*last, pair[1].get<std::uint64_t>());
    if (to.total() > most) f.fail(name, "fewer than 2^53 gradients");
  }
}

/// The mean beside them must be theirs.
void take_gaps(const report_fields& f, const char* name, staleness_histogram& to) {
  take_pairs(f, name, to);
  const std::optional<double> told = f.known("mean");
  if (told.has_value() == to.empty())
    f.contradict("staleness: a mean and an empty histogram, or a histogram without a mean");
  if (told && std::abs(to.mean() - *told) > 1e-6 * std::max(1.0, to.mean()))
    f.contradict(fmt::format("staleness: the mean is said to be {}, and that of the histogram is {}", *told,
                             to.mean()));
}

/// Adds those of each exchange to `figures` of all exchanges together.
template <class Figures>
json with_each(json figures, const training_report& r, Figures exchange_figures::*part) {
  json each = json::array();
  for (const exchange_figures& x : r.exchanges) {
    json one = {{"shard", shown(x.shard)}, {"worker", x.worker}};
    one.update(shown(x.*part));
    each.push_back(std::move(one));
  }
  figures["per_shard"] = std::move(each);
  return figures;
}

std::uint32_t rank_in(const report_fields& entry, const training_report& r) {
  const std::uint64_t rank = entry.count("worker");
  if (rank >= r.workers)
    entry.fail("worker", fmt::format("a rank below {}, the number of workers", r.workers));
  return static_cast<std::uint32_t>(rank);
}

/// All such lists are of the same exchanges in the same order.
template <class Figures>
void take_each(const report_fields& f, training_report& r, Figures exchange_figures::*part) {
  std::size_t i = 0;
  for (const json& each : f.list("per_shard")) {
    const report_fields entry = f.entry("per_shard", each);
    exchange_figures x;
    x.worker = rank_in(entry, r);
    if (entry.has("shard") && !entry.is_null("shard")) reader::take(entry, "shard", x.shard.emplace());
    const bool known =
        i < r.exchanges.size() && r.exchanges[i].shard == x.shard && r.exchanges[i].worker == x.worker;
    reader::take_all(entry, (known ? r.exchanges[i] : r.exchanges.emplace_back(std::move(x))).*part);
    ++i;
  }
}

/// Adds those of each worker, by rank, to `figures` of all of them.
json with_each_worker(json figures, const auto& of_workers) {
  json each = json::array();
  for (std::size_t worker = 0; worker < of_workers.size(); ++worker) {
    json one = {{"worker", worker}};
    one.update(shown(of_workers[worker]));
    each.push_back(std::move(one));
  }
  figures["per_worker"] = std::move(each);
  return figures;
}

std::string cut(const std::string& words) {
  constexpr std::size_t most = 240; // bytes
  return words.size() > most ? words.substr(0, most) + "..." : words;
}

/// The first ones, and how many more there are.
std::vector<std::string> first_of(const std::vector<std::string>& devices) {
  constexpr std::size_t most = 16, longest = 32; // bytes
  std::vector<std::string> all;
  for (std::size_t d = 0; d < std::min(devices.size(), most); ++d)
    all.push_back(devices[d].substr(0, longest));
  if (devices.size() > most) all.push_back("and " + std::to_string(devices.size() - most) + " more");
  return all;
}

std::vector<std::uint32_t> first_of(std::vector<std::uint32_t> shards) {
  constexpr std::size_t most = 16;
  shards.resize(std::min(shards.size(), most));
  return shards;
}

// The tables, one for each struct. A row has a name, perhaps a unit, and a member or what follows from some.

void list(auto& f, of<wait_seconds> auto& w) {
  constexpr const char *metric = "wait_seconds_total", *help = "Time that workers waited, by what for.";
  f("barrier", "s", w.barrier, {.metric = metric, .help = help, .label = "for", .of_label = "barrier"});
  f("bound", "s", w.bound, {.metric = metric, .help = help, .label = "for", .of_label = "bound"});
  f("feeder", "s", w.feeder, {.metric = metric, .help = help, .label = "for", .of_label = "batch"});
}

void list(auto& f, of<gradient_ledger> auto& l) {
  constexpr const char *metric = "gradients_total", *help = "Gradients by what became of them.";
  f("produced", "gradients", l.produced,
    {.metric = "gradients_produced_total", .help = "Gradients that workers finished."});
  f("applied", "gradients", l.applied,
    {.metric = metric, .help = help, .label = "fate", .of_label = "applied"});
  f("merged", "gradients", l.merged, {.metric = metric, .help = help, .label = "fate", .of_label = "merged"});
  f("discarded", "gradients", l.discarded);
  f("lost", "gradients", l.lost, {.metric = metric, .help = help, .label = "fate", .of_label = "lost"});
}

void list(auto& f, of<staleness_histogram> auto& h) {
  const bool any = !h.empty();
  f.when(any, "mean", "versions", h.mean());
  f.when(any, "p50", "versions", any ? h.quantile(0.5) : 0);
  f.when(any, "p99", "versions", any ? h.quantile(0.99) : 0);
  f.when(any, "max", "versions", h.max());
  f.by("histogram", h, pairs_of, take_gaps);
}

void list(auto& f, of<duration_stat> auto& t) {
  f("seconds", "s", in_seconds(t.total()));
  f("mean", "s", t.mean_seconds());
  f("max", "s", in_seconds(t.longest()));
  f("count", t.count());
}

void list(auto& f, of<time_split> auto& t) {
  f("read", t.read);
  f("compute", t.compute);
  f("wire", t.wire);
  f("mailbox", t.mailbox);
  f("apply", t.apply);
}

void list(auto& f, of<running_stat> auto& t) {
  f("count", t.count());
  f.when(!t.empty(), "mean", "", t.mean());
  f.when(!t.empty(), "min", "", t.least());
  f.when(!t.empty(), "max", "", t.greatest());
}

void list(auto& f, of<sampled_figures> auto& x) {
  f("shard", x.shard);
  f("worker", x.worker);
  f("step", x.step);
  f("lag", "versions", x.lag);
  f("gap", "weights", x.gap);
  f("cosine", "-1 to 1", x.cosine);
}

void list(auto& f, of<batch_origins> auto& b) {
  f("own", "mini-batches", b.own);
  f("sent", "mini-batches", b.sent);
  f("lost", "mini-batches", b.lost);
  f("spared_bytes", "bytes", b.spared_bytes);
}

void list(auto& f, of<policy_switch> auto& s) {
  f("step", "mini-batches", s.step);
  f("time_s", "s", s.time_s);
  f("from", s.from);
  f("to", s.to);
  f("why", s.why);
}

void list(auto& f, of<run_member> auto& m) {
  f("role", m.role);
  f("number", m.number);
  f("incarnation", m.incarnation);
  f("state", to_string(m.is));
  f("since_seconds", "s", m.since);
  f("heard_seconds", "s", m.heard);
  f("address", cut(m.address));
  f("devices", first_of(m.devices));
  f("shards", first_of(m.shards));
  f("losses", m.losses);
  f("why", cut(m.why));
}

void list(auto& f, of<stage_figures> auto& s) {
  f("worker", s.worker);
  f("device", s.device);
  f("busy_seconds", "s", s.busy_seconds);
}

void list(auto& f, of<best_test> auto& x) {
  f("steps", "mini-batches", x.steps);
  f("loss", "loss", x.loss);
  f("samples", x.held_out ? "validation" : "test");
  f("weights_sha256", "hex", x.weights_sha256);
  f.text("why_last_untested", x.why_last_untested);
}

void list(auto& f, of<tests_made> auto& x) {
  f("device", x.device);
  f.text("why_on_host", x.why_on_host);
  f.text("text_on_host", x.text_on_host);
}

void list(auto& f, of<gpu_figures> auto& x) {
  f("graph_steps", "mini-batches", x.graph_steps);
  f("launched_steps", "mini-batches", x.launched_steps);
  f("generated_kernels", x.generated_kernels);
  f.text("why_interpreted", x.why_interpreted);
}

void list(auto& f, of<resumed_figures> auto& x) {
  f("from", x.from);
  f("steps", "mini-batches", x.steps);
  f("steps_before", "mini-batches", x.steps_before);
  f.text("products_before", x.products_before);
}

void list(auto& f, of<checkpoint_account> auto& c) {
  constexpr const char *metric = "checkpoints_total", *help = "Checkpoints, by whether they were written.";
  f("written", "files", c.written,
    {.metric = metric, .help = help, .label = "result", .of_label = "written"});
  f("failed", "files", c.failed, {.metric = metric, .help = help, .label = "result", .of_label = "failed"});
  f("skipped", c.skipped);
  f("bytes", "bytes", c.bytes);
  f("seconds", "s", c.seconds);
  f("held_seconds", "s", c.held_seconds);
  f("last", c.last);
  f("last_steps", "mini-batches", c.steps);
  f("failure", c.failure);
  f("removed_for_room", "files", c.removed_for_room);
}

void list(auto& f, of<recording_account> auto& x) {
  f("file", x.file);
  f("bytes", "bytes", x.bytes);
  f("failure", x.failure);
  f.when(!x.failure.empty(), "seconds", "s", x.seconds);
  f("kept", x.kept);
  f("kept_bytes", "bytes", x.kept_bytes);
}

void list(auto& f, of<evaluation_cost> auto& x) {
  f("count", x.count);
  f("seconds", "s", x.seconds);
  f.text("why_on_host", x.why_on_host);
  f("left_out", x.left_out);
  f.text("why_left_out", x.why_left_out);
}

void list(auto& f, of<prescribed_delays> auto& d) {
  f("law", d.law);
  f("seed", d.seed);
  f("virtual_time", d.virtual_time);
  f("interrupts", d.interrupts);
  f.text("latency", d.latency);
  f.text("bandwidth", d.bandwidth);
}

void list(auto& f, of<late_figures> auto& x) {
  f("shard", x.shard);
  f("seconds_old", "s", x.seconds_old);
}

json staleness_in(const training_report& r) {
  json all = shown(r.staleness);
  all["discarded"] = pairs_of(r.discarded_staleness);
  return with_each(std::move(all), r, &exchange_figures::gaps);
}

void take_staleness(const report_fields& f, const char* name, training_report& r) {
  reader::take(f, name, r.staleness);
  take_each(f.object(name), r, &exchange_figures::gaps);
}

json times_in(const training_report& r) { return with_each(shown(r.times), r, &exchange_figures::times); }

void take_times(const report_fields& f, const char* name, training_report& r) {
  reader::take(f, name, r.times);
  take_each(f.object(name), r, &exchange_figures::times);
}

json waits_of_run(const training_report& r) { return with_each_worker(shown(r.waits), r.worker_waits); }

void take_waits(const report_fields& f, const char* name, training_report& r) {
  reader::take(f, name, r.waits);
  for (const json& each : f.object(name).list("per_worker")) {
    const report_fields entry = f.object(name).entry("per_worker", each);
    const std::size_t worker = rank_in(entry, r);
    r.worker_waits.resize(std::max(r.worker_waits.size(), worker + 1));
    reader::take_all(entry, r.worker_waits[worker]);
  }
}

/// Null in one process, where nothing is sent.
json batches_in(const training_report& r) {
  if (!r.wire) return {};
  batch_origins all;
  for (const batch_origins& b : r.batches)
    all = {all.own + b.own, all.sent + b.sent, all.lost + b.lost, all.spared_bytes + b.spared_bytes};
  return with_each_worker(shown(all), r.batches);
}

json stages_in(const training_report& r) {
  json list = shown(r.stages);
  for (std::size_t s = 0; s < r.stages.size(); ++s)
    list[s]["busy_share"] = r.wall_seconds > 0 ? json(r.stages[s].busy_seconds / r.wall_seconds) : json();
  return list;
}

json kept_ledger_in(const training_report& r) {
  if (!r.kept_ledger) return {};
  json all = shown(r.kept_ledger->counts);
  all["shard"] = r.kept_ledger->shard;
  return all;
}

/// Null without local steps.
json local_steps_in(const training_report& r) {
  if (r.local_steps == 0) return {};
  return {{"steps", r.local_steps},
          {"outer_optimizer", r.outer_optimizer},
          {"outer_learning_rate", r.outer_learning_rate}};
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

json object_of_table(const table_reading& t) {
  const char* const became = t.became == missing_values::drop   ? "left out"
                             : t.became == missing_values::mean ? "mean"
                                                                : "refused";
  return {{"encoding", t.encoding},
          {"delimiter", std::string(1, t.delimiter)},
          {"decimal", text_or_null(t.decimal)},
          {"thousands", text_or_null(t.thousands)},
          {"header", t.header},
          {"comments", t.comments},
          {"columns", {{"numbers", t.numbers}, {"categories", t.categories}, {"left_out", t.left_out}}},
          {"label", {{"column", t.label_column}, {"name", text_or_null(t.label_name)}, {"why", t.label_why}}},
          {"missing", {{"values", t.missing}, {"rows_left_out", t.dropped}, {"became", became}}}};
}

json object_of_class(const std::optional<class_size>& c) {
  return c ? json{{"name", c->name}, {"samples", c->samples}} : json();
}

/// Null if a program made the data; its table is null where they are none.
json reading_in(const training_report& report) {
  if (!report.reading) return {};
  const data_reading& r = *report.reading;
  return {{"format", r.format},
          {"table", r.table ? object_of_table(*r.table) : json()},
          {"dims", std::vector<std::size_t>(r.dims.begin(), r.dims.end())},
          {"inputs", r.inputs},
          {"task", {{"learns", r.task == label_kind::classes ? "classes" : "numbers"}, {"why", r.task_why}}},
          {"samples", {{"train", r.train}, {"validation", r.validation}, {"test", r.test}}},
          {"test_part", r.test_why},
          {"classes",
           {{"count", r.classes},
            {"smallest", object_of_class(r.smallest)},
            {"largest", object_of_class(r.largest)}}}};
}

void list(auto& f, of<metrics_line> auto& x) {
  f("time_s", "s", x.time_s);
  f("steps", "mini-batches", x.steps);
  f("updates", "versions", x.updates, {.tag = "progress/updates"});
  f("samples", "samples", x.samples);
  f("epoch", "passes", x.epoch, {.tag = "progress/epoch"});
  f("train_loss", "loss", x.train_loss,
    {.tag = "loss/train",
     .metric = "train_loss",
     .help = "Mean loss over the samples between the last two lines of metrics."});
  f("learning_rate", "", x.learning_rate,
    {.tag = "learning_rate", .metric = "learning_rate", .help = "Learning rate after its schedule."});
  f("staleness_mean", "versions", x.staleness_mean, {.tag = "staleness/mean"});
  f("staleness_p99", "versions", x.staleness_p99, {.tag = "staleness/p99"});
  f("computed", "gradients", x.computed, {.tag = "ledger/computed"});
  f("applied", "gradients", x.applied, {.tag = "ledger/applied"});
  f("merged", "gradients", x.merged, {.tag = "ledger/merged"});
  f("discarded", "gradients", x.discarded, {.tag = "ledger/discarded"});
  f("samples_per_s", "1/s", x.samples_per_s,
    {.tag = "throughput/samples_per_s",
     .metric = "samples_per_second",
     .help = "Samples trained a second, over the last half second or more."});
  f("waiting_s", "s", x.waiting_s, {.tag = "waits/seconds"});
  const auto test = [&f](const char* name, const char* unit, auto& figure, const char* tag,
                         const char* help) {
    f(name, unit, figure, {.tag = tag, .metric = name, .help = help, .of_tests = true});
  };
  test("test_loss", "loss", x.test_loss, "loss/test", "Mean loss over the test samples, at the last test.");
  test("test_accuracy", "share", x.test_accuracy, "accuracy/test",
       "Share of test samples whose class was named, at the last test.");
  test("test_rmse", "unit of the targets", x.test_rmse, "rmse/test",
       "Root of the mean squared error on the test set, at the last test.");
  test("validation_loss", "loss", x.validation_loss, "loss/validation",
       "Mean loss over the samples held out, at the last test.");
  test("validation_accuracy", "share", x.validation_accuracy, "accuracy/validation",
       "Share of samples held out whose class was named, at the last test.");
  test("validation_rmse", "unit of the targets", x.validation_rmse, "rmse/validation",
       "Root of the mean squared error on the samples held out, at the last test.");
}

void list(auto& f, of<training_report> auto& r) {
  f("version", r.origin.version);
  f.text("commit", r.origin.commit);
  f("compiler", r.origin.compiler);
  f.text("date", r.origin.date);
  f.text("host", r.origin.host);
  f.text("processor", r.origin.processor);
  f("command", r.command);
  f("model", r.model);
  f("span", r.span);
  f("weights", "floats", r.weights);
  f("policy", r.policy);
  f("present_policy", r.present_policy);
  f("wire", r.wire);
  f("devices", r.devices);
  f("precision", r.precision);
  f("workers", r.workers);
  f("micro_batches", r.micro_batches);
  f("stages", stages_in(r));
  f("data", r.data);
  f("reading", reading_in(r));
  f("optimizer", r.optimizer);
  f("learning_rate", r.learning_rate);
  f("batch", "samples", r.batch);
  f("shards", r.shards);
  f("ended", r.ended);
  f("why", r.why);
  f("lost_shards", r.lost_shards);
  f("enough", r.enough);
  f("steps", "mini-batches", r.steps,
    {.metric = "steps_total", .help = "Mini-batches trained, by all workers."});
  f("samples", "samples", r.samples, {.metric = "samples_total", .help = "Samples trained, by all workers."});
  f("epochs", "passes", r.epochs, {.metric = "epochs", .help = "Passes over the training set."});
  f.when(r.knows_ledger(), "updates", "versions", r.updates,
         {.metric = "updates_total", .help = "Versions of the weights, of the shard that made most."});
  f("wall_seconds", "s", r.wall_seconds, {.metric = "training_seconds_total", .help = "Time of training."});
  f("steps_per_second", "1/s", r.steps_per_second());
  f("samples_per_second", "1/s", r.samples_per_second());
  f("final_loss", "loss", r.final_loss);
  f("test_loss", "loss", r.test_loss);
  f("test_accuracy", "share", r.test_accuracy);
  f("test_rmse", "unit of the targets", r.test_rmse);
  f("validation_loss", "loss", r.validation_loss);
  f("validation_accuracy", "share", r.validation_accuracy);
  f("validation_rmse", "unit of the targets", r.validation_rmse);
  f("best", r.best);
  f("tested", r.tested);
  f("cards", r.gpus);
  f("sample", r.sample);
  f.when(r.knows_ledger(), "ledger", "", r.ledger);
  f("kept_ledger", kept_ledger_in(r));
  f.by("staleness", r, staleness_in, take_staleness);
  f.by("time_split", r, times_in, take_times);
  f("weight_gap", "weights", with_each(shown(r.weight_gap), r, &exchange_figures::weight_gap));
  f("gradient_cosine", "-1 to 1", r.gradient_cosine);
  f("sampled", r.sampled);
  f.by("wait_seconds", r, waits_of_run, take_waits);
  f("batches", batches_in(r));
  f("switches", r.switches);
  f("members", r.members.empty() ? json() : json::parse(to_json(r.members))); // null in one process
  f("resumed", r.resumed);
  f("checkpoints", r.checkpoints);
  f("recording", r.recording);
  f("curve", r.curve);
  f("evaluations", shown(r.evaluations)); // of older versions it lacks figures
  f("local_steps", local_steps_in(r));
  f("delays", r.delays);
  f("cure", json{{"name", r.cure}, {"mean_step_factor", shown(r.mean_step_factor)}});
  f("parameters_sha256", "hex", r.parameters_sha256);
  f("seed", r.seed);
}

} // namespace

std::vector<figure> figures_of(const training_report& r) { return teller::listed(r); }
std::vector<figure> figures_of(const metrics_line& x) { return teller::listed(x); }
std::vector<figure> figures_of(const gradient_ledger& l) { return teller::listed(l); }
std::vector<figure> figures_of(const time_split& t) { return teller::listed(t); }
std::vector<figure> figures_of(const wait_seconds& w) { return teller::listed(w); }
std::vector<figure> figures_of(const checkpoint_account& c) { return teller::listed(c); }
std::vector<figure> figures_of(const late_figures& x) { return teller::listed(x); }
std::vector<figure> figures_of(const run_member& m) { return teller::listed(m); }

json object_of(std::vector<figure> figures) {
  json all = json::object();
  for (figure& f : figures)
    if (!f.elsewhere.of_tests || !f.value.is_null()) all[f.name] = std::move(f.value);
  return all;
}

training_report report_in(const report_fields& fields) {
  training_report r;
  reader::take_all(fields, r);
  return r;
}

} // namespace mailgrad
