#include <mailgrad/tests/actors/systems/processes.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/run/checkpointer.hpp>
#include <mailgrad/actors/run/evaluator.hpp>
#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace mailgrad::systems {
using messaging::send_anonymously, messaging::spawn, messaging::spawn_apart;

namespace {

/// The message in an element, if it is such a one; null else.
template <class Message>
const Message* content_as(const caf::mailbox_element& what) {
#if CAF_MAJOR_VERSION >= 1
  const auto& content = what.payload;
#else
  const auto& content = what.content();
#endif
  return content.template match_elements<Message>() ? &content.template get_as<Message>(0) : nullptr;
}

} // namespace

// ---- any

std::string witness::look_at(const caf::mailbox_element& what, const caf::abstract_actor& to,
                             std::size_t waiting) {
  constexpr std::size_t most_waiting = 200; // is more than all others of a small run may send it at once
  if (waiting > most_waiting) return fmt::format("no mailbox grows: {} messages", waiting);
  if (const auto* const w = content_as<shard_weights>(what)) {
    const std::uint64_t now = w->header.version.value;
    std::uint64_t& before = versions_[{to.id(), w->header.shard.value}];
    if (now < std::exchange(before, now)) return fmt::format("versions only grow: {} came", now);
  } else if (const auto* const g = content_as<push_gradient>(what)) {
    const auto& id = g->header.id;
    std::uint64_t& before = steps_[{to.id(), id.worker.value, id.incarnation.value}];
    if (id.step.value <= std::exchange(before, id.step.value))
      return fmt::format("a gradient comes once: step {} of worker {}", id.step.value, id.worker.value);
  }
  return {};
}

bool process::waits_for_disk(const caf::resumable& actor) const {
  if (disk_slow_until_ <= time_->now()) return false;
  const auto* const local = dynamic_cast<const caf::local_actor*>(&actor);
  const std::string_view name = local ? local->name() : "";
  return name == recorder::name || name == checkpoint_writer::name;
}

bool process::deliver(std::mt19937_64& random) {
  auto& ready = actors_->ready();
  if (frozen_ || ready.empty()) return false;
  std::swap(ready.front(), ready[random() % ready.size()]);
  if (waits_for_disk(*ready.front())) return false;
  if (auto* const next = dynamic_cast<caf::scheduled_actor*>(ready.front()))
    if (const auto* const what = next->peek_at_next_mailbox_element(); what && wires_->broken.empty())
      wires_->broken = witness_.look_at(*what, *next, next->mailbox().size());
  return actors_->step();
}

void process::let_pass(instant span) {
  owed_ += span;
  if (!frozen_) actors_->let_pass(std::exchange(owed_, instant{0}));
}

instant process::next_wish() const {
  constexpr instant often = std::chrono::milliseconds{50};
  const bool waits = actors_->waits_for_time() || disk_slow_until_ > time_->now();
  return !frozen_ && waits ? time_->now() + often : instant::max();
}

void process::freeze() {
  if (std::exchange(frozen_, true)) return;
  frozen_at_ = time_->now();
  network_->freeze();
}

void process::wake(bool together) {
  if (!std::exchange(frozen_, false)) return;
  disturbed_ = together ? disturbed_ + (time_->now() - frozen_at_) : time_->now();
  network_->wake();
}

void process::judge_loss(const net::ending& why) {
  using enum net::end_reason;
  constexpr std::array of_faults{silent, lost, malformed, out_of_order, no_credit, late};
  constexpr instant long_enough = std::chrono::seconds{5};
  if (std::ranges::find(of_faults, why.reason) == of_faults.end() || !wires_->broken.empty()) return;
  if (was_well_for(long_enough) && wires_->server_is_well())
    wires_->broken = fmt::format("nobody who is heard is lost: {}, {}", name_, why.words);
}

/// A system waits for its last actor, which would be for ever if one was forgotten.
process::~process() {
  if (actors_->actors().registry().running() == 0) return;
  wires_->left_over += (wires_->left_over.empty() ? "" : ", ") + name_;
  static_cast<void>(actors_.release());
}

// ---- worker

worker_process::worker_process(std::string name, const std::shared_ptr<wires>& all, worker_setup setup)
    : process(std::move(name), all), setup_(std::move(setup)), plan_(setup_.rejoin) {
  begin({.number = setup_.number}, false);
}

worker_process::~worker_process() {
  incarnation_.reset();
  drain();
}

void worker_process::begin(net::hello says, bool tries_once) {
  namespace feature = net::feature;
  says.says[std::string(feature::devices)] = "1";
  says.says[std::string(feature::device_names)] = "cpu:0";
  says.says[std::string(feature::computer)] = "processor";
  was_in_ = false;
  incarnation_ = std::make_unique<remote::member_incarnation>(
      actors_->actors(), setup_.server, std::move(says), tries_once,
      remote::join_options{.network = network_, .time = time_}, [] {});
  incarnation_->begin();
}

instant worker_process::next_wish() const {
  const bool waits_to_try = !ended_ && !incarnation_ && !is_frozen();
  return std::min(process::next_wish(), waits_to_try ? next_try_ : instant::max());
}

void worker_process::leave() {
  leaves_ = true;
  if (incarnation_) incarnation_->leave();
}

/// As membership::keep() does.
void worker_process::look() {
  const instant now = time_->now();
  if (ended_ || is_frozen()) return;
  if (!incarnation_) {
    if (leaves_) return end({net::end_reason::left, "it left while it was cut off"});
    if (now >= next_try_) begin(plan_.says(), true);
    return;
  }
  if (const auto terms = incarnation_->terms(); terms && !std::exchange(was_in_, true)) {
    plan_.is_in(*terms, now);
    ever_in_ = true;
  }
  const auto why = incarnation_->outcome();
  if (!why) return;
  judge_loss(*why);
  incarnation_->cut("its session has ended");
  incarnation_.reset();
  const bool tries = was_in_ ? plan_.is_cut_off(*why, now) : ever_in_ && plan_.tries_again_after(*why, now);
  if (!tries) return end(*why);
  next_try_ = now + plan_.pause();
}

// ---- parameter host

host_process::host_process(std::string name, const std::shared_ptr<wires>& all, const std::string& server,
                           const std::string& listen)
    : process(std::move(name), all), client_(network_, net::hello{.part = net::role::shard}, {}) {
  remote::shard_host_options with{client_.way(),
                                  {.listen = listen, .network = network_, .time = time_},
                                  [this] { return client_.terms()->times; }};
  with.timer = std::make_shared<wire_timer>(wires_);
  host_ = spawn<remote::shard_host>(actors_->actors(), std::move(with));
  client_.way()->add({remote::duty::host}, host_);
  client_.connect(server);
}

host_process::~host_process() {
  client_.close("its process has ended");
  send_anonymously(host_, mailgrad::give_up{});
  drain();
  host_ = nullptr;
}

void host_process::look() {
  if (ended_ || is_frozen()) return;
  if (ended_ = client_.outcome(); !ended_) return;
  judge_loss(*ended_);
  send_anonymously(host_, mailgrad::give_up{});
}

// ---- server

server_process::server_process(std::string name, const std::shared_ptr<wires>& all, const server_setup& setup)
    : process(std::move(name), all), setup_(setup),
      plan_(plan_on_threads(testing::small_model(), testing::small_data(),
                            for_workers_elsewhere(setup.options, setup.workers, 1), false, folder_)) {
  plan_.run = {setup.run};
  const training_options& o = plan_.options;
  if (!o.record.empty()) require_recordable(plan_);
  if (o.checkpoints.folder.empty())
    folder_.reset();
  else if (!folder_)
    folder_ = take_checkpoint_folder(o);
  if (!o.record.empty()) {
    const recording* const before = plan_.recorded_before.get();
    if (const auto& from = plan_.resumed; before && from)
      leave_recording(from->from->path(), from->history(), before->name);
    recorder_.emplace(actors_->actors(), o.record, recording_header_of(plan_), before, recorded_run{time_});
  }
  const remote::serve_options serve{
      .listen = setup.address, .workers = setup.workers, .shard_hosts = setup.hosts, .network = network_};
  try {
    elsewhere_.emplace(serve, plan_, actors_->actors(),
                       [](const std::string&, const std::string&) { return remote::run_answer{"{}"}; });
  } catch (...) {
    if (recorder_) send_anonymously(recorder_->actor(), mailgrad::give_up{});
    drain();
    throw;
  }
}

server_process::~server_process() {
  elsewhere_->end("the run was given up");
  if (crew_) crew_->give_up();
  for (const caf::actor& a : {recorder_ ? recorder_->actor() : caf::actor(), checkpoint_writer_})
    if (a) killed_ ? messaging::kill(a) : send_anonymously(a, mailgrad::give_up{});
  drain();
  elsewhere_.reset();
  crew_.reset();
}

void server_process::look() {
  if (is_frozen()) return;
  if (is_ == state::gathers) return gather();
  if (is_ == state::trains && outcome_) return report_end();
  if (is_ != state::places) return;
  try {
    if (elsewhere_->wait_for_shards({})) begin_run();
  } catch (const std::exception& e) {
    give_up(e.what());
  }
}

void server_process::gather() {
  if (!elsewhere_->wait_for({})) return;
  try {
    take_computers(plan_, elsewhere_->computers());
    if (recorder_ && !plan_.recorded_before)
      if (const recording_header again = recording_header_of(plan_); tells(again.facts, computers_fact))
        recorder_->begin_again(again);
    if (setup_.hosts == 0) return begin_run();
    shards_elsewhere_ = elsewhere_->place_shards({recorder_.has_value(), folder_ != nullptr});
    is_ = state::places;
  } catch (const std::exception& e) {
    give_up(e.what());
  }
}

void server_process::begin_run() {
  is_ = state::trains;
  if (folder_)
    checkpoint_writer_ = spawn_apart<checkpoint_writer>(
        actors_->actors(),
        checkpoint_writer_options{plan_.options.checkpoints.folder, plan_.options.checkpoints.keep});
  run_crew_options crew{time_, time_->now()};
  if (recorder_) crew.recorder = recorder_->actor();
  crew.checkpoint_writer = checkpoint_writer_;
  crew.roles.workers = false;
  crew.coordinator_has_thread = false;
  crew.shards_elsewhere = shards_elsewhere_;
  crew.awaits = elsewhere_->awaits();
  crew.shares_credit = elsewhere_->shares_credit();
  crew.timer = std::make_shared<wire_timer>(wires_);
  crew.on_failure = [this](const std::string& why) { elsewhere_->note_failure(why); };
  crew.on_end = [this](run_outcome outcome) { outcome_ = std::move(outcome); };
  crew.on_checkpoint = [this](const checkpoint_account& account) { checkpoints_ = account; };
  crew.on_wait = [this](const wait_reason& w) {
    if (asks_waits_) waits_ += "\n  " + in_words(w);
  };
  plan_.recorded_before.reset();
  crew_.emplace(actors_->actors(), plan_, std::move(crew));
  if (const auto& from = plan_.resumed;
      folder_ && from && lies_in(plan_.options.checkpoints.folder, from->from->path()))
    leave_later_branch(from->from->path(), from->history());
  elsewhere_->begin({{crew_->shards(), crew_->feeder(), crew_->tracker(), crew_->coordinator()},
                     recorder_ ? recorder_->actor() : caf::actor(),
                     crew_->evaluator()},
                    time_);
}

/// As training::report() does.
void server_process::report_end() {
  is_ = state::over;
  elsewhere_->end("the run has ended", std::string(remote::work_is_done));
  report_ = report_of(*outcome_);
  describe(*report_, plan_, time_->now() - crew_->started(), outcome_->checkpoints);
  if (const auto last = joined_weights(*outcome_, *plan_.layout))
    report_->parameters_sha256 = sha256(std::as_bytes(std::span(*last)));
  if (!recorder_) return;
  recorder_->begin_to_finish(crew_->feeder(), *outcome_, *report_);
  drain();
  recorder_->wait_until_finished();
}

void server_process::give_up(const std::string& why) {
  is_ = state::over;
  given_up_ = why;
  elsewhere_->end("the server has ended");
}

void server_process::stop(const std::string& why) {
  if (is_ == state::over) return;
  if (!crew_) return give_up(why);
  send_anonymously(crew_->coordinator(), stop_training{why});
}

void server_process::switch_policy(const std::string& policy) {
  if (!crew_) return;
  try {
    require_asked_switch(plan_, setup_.hosts > 0 ? run_place::shards_elsewhere : run_place::workers_elsewhere,
                         false, policy);
  } catch (const std::exception&) {
    return; // the person reads why
  }
  send_anonymously(crew_->coordinator(), request_switch{policy, "asked for"});
}

void server_process::take_checkpoint() {
  if (crew_ && folder_) send_anonymously(crew_->coordinator(), request_checkpoint{});
}

std::string server_process::waits() {
  asks_waits_ = false;
  waits_ = elsewhere_->attendance() + std::exchange(waits_, "");
  if (!crew_) return waits_;
  for (const wait_reason& w : elsewhere_->waits()) waits_ += "\n  " + in_words(w);
  return waits_;
}

void server_process::ask_waits() {
  asks_waits_ = true;
  if (crew_) send_anonymously(crew_->coordinator(), mailgrad::list_wait_reasons{});
}

} // namespace mailgrad::systems
