#include <mailgrad/actors/run/checkpointer.hpp>

#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/files/file_error.hpp>

#include <charconv>

namespace mailgrad {

checkpointer::checkpointer(caf::event_based_actor* self, checkpointer_options options, std::uint32_t workers,
                           std::uint32_t slots, std::vector<caf::actor> shards, caf::actor feeder,
                           std::shared_ptr<const time_source> time, schedule_now schedule)
    : actor_part(self), options_(std::move(options)), workers_(slots), shards_(std::move(shards)),
      feeder_(std::move(feeder)), time_(std::move(time)), schedule_(std::move(schedule)),
      named_(options_.named) {
  for (std::uint32_t r = workers; r < slots; ++r) {
    workers_[r].gone = true;
    workers_[r].last.worker = {r};
  }
  for (std::uint32_t r = 0; r < std::min<std::size_t>(slots, options_.card.lost.size()); ++r)
    workers_[r].was_lost = options_.card.lost[r];
}

void checkpointer::on_gone(const worker_report& report, bool lost, std::shared_ptr<saved_fields> in_block) {
  worker& w = workers_[report.worker.value];
  w.gone = true;
  if (std::exchange(w.at_end, false)) std::erase(at_end_, report.worker);
  w.lost = lost;
  w.counted = !lost;
  w.was_lost = w.was_lost || lost;
  w.last = report;
  if (lost) w.last.steps = std::max(report.steps, w.told);
  w.last.trace = nullptr;
  w.last.copies = nullptr;
  w.in_block = std::move(in_block);
  w.part = nullptr;
  if (!collecting_) return;
  ask_shards_and_feeder(); // no marker of this worker may have told them
  take_part_of(report.worker.value);
  let_go_on_if_copied();
  write_if_whole();
}

/// A run that has ended takes no other than that of its end, which take_last() begins.
void checkpointer::begin_if_due(run_phase now) {
  begin_end(now);
  if (!due_ || now == run_phase::switches || collecting_ || writing_ || !all_here()) return;
  const bool anybody = std::ranges::any_of(workers_, [](const worker& w) { return w.device && !w.gone; });
  if (!anybody && now != run_phase::waits_for_worker) return;
  collect();
  for (const worker& w : workers_)
    if (!w.gone) ask(w);
  if (!anybody) ask_shards_and_feeder();
}

void checkpointer::collect() {
  ++number_;
  due_ = false;
  collecting_ = true;
  holding_ = in_block();
  asked_ = time_->now();
  note_begin();
  if (options_.recorder) send(options_.recorder, mark_recording{number_});
  steps_ = options_.card.steps;
  parts_.clear();
  failure_.clear();
  for (worker& w : workers_) w.absent = false;
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (workers_[r].gone) take_part_of(r);
}

void checkpointer::give_up() {
  note_given_up();
  if (holding_) let_go_on();
  given_up_ = true;
  give_up_end();
  due_ = collecting_ = false;
  parts_.clear();
  if (when_done_ && !writing_) std::exchange(when_done_, nullptr)();
}

void checkpointer::on_part(const checkpoint_part& x) {
  if (!collecting_ || x.number != number_) return;
  if (!parts_.emplace(x.name, x.fields).second) return;
  steps_ += x.steps;
  if (const auto r = worker_of_part(x.name)) workers_[*r].told = x.steps;
  let_go_on_if_copied();
  write_if_whole();
}

/// No worker writes into the block between its part and the word that it may go on. A worker that is lost
/// writes no more.
void checkpointer::let_go_on_if_copied() {
  if (!holding_ || parts_.size() < workers_.size() + shards_.size()) return;
  if (!lacking("worker", workers_.size()).empty() || !lacking("shard", shards_.size()).empty()) return;
  take_block();
  let_go_on();
}

void checkpointer::let_go_on() {
  holding_ = false;
  bool anybody = false; // at the end of the run nobody stands still
  for (const worker& w : workers_) {
    if (!w.device || w.gone) continue;
    anybody = true;
    send(w.device, block_copied{number_});
  }
  if (anybody) account_.held_seconds += in_seconds(time_->now() - asked_);
}

void checkpointer::write_if_whole() {
  const std::size_t others = 1 + (options_.recorder ? 1 : 0) + parts_.count(block_part);
  if (!collecting_ || writing_ || holding_) return;
  if (parts_.size() < workers_.size() + shards_.size() + others) return;
  if (std::ranges::any_of(workers_, [](const worker& w) { return w.absent && w.awaited; })) return;
  if (!failure_.empty()) return end_failed();
  leave_out_behind_markers();
  take_own_part();
  note_whole();
  collecting_ = false;
  writing_ = true;
  const bool nobody_is_left = std::ranges::all_of(workers_, &worker::gone);
  if (number_ == end_ || nobody_is_left) end_steps_ = steps_;
  named_ = std::max(named_, steps_); // local steps of a lost worker may be lost, too
  send(options_.writer, write_checkpoint{number_, named_, std::exchange(parts_, {})});
}

/// As if the writer had said so.
void checkpointer::end_failed() {
  note_whole();
  collecting_ = false;
  writing_ = true;
  parts_.clear();
  checkpoint_written ended{number_, steps_, {}, std::exchange(failure_, {}), 0, 0, false};
  send(myself(), std::move(ended));
}

void checkpointer::on_written(const checkpoint_written& x) {
  writing_ = false;
  note_end(x);
  if (x.failure.empty()) {
    if (account_.written == 0 || x.steps != account_.steps) ++account_.written;
    account_.bytes += x.bytes;
    account_.last = x.file;
    account_.steps = x.steps;
  } else {
    ++account_.failed;
    account_.failure = x.failure;
  }
  account_.removed_for_room += x.made_room ? 1 : 0;
  account_.seconds += in_seconds(instant{x.took});
  if (!x.failure.empty()) end_steps_.reset();
  write_if_whole();
  if (when_done_) take_last(std::exchange(when_done_, nullptr));
}

void checkpointer::note_end(const checkpoint_written& x) {
  if (!options_.traced) return;
  checkpoint_times& last = *std::ranges::find(timeline_, x.number, &checkpoint_times::number);
  last.ended = time_->now();
  last.what = x.failure.empty() ? checkpoint_times::fate::written : checkpoint_times::fate::failed;
  last.file = x.file;
  last.bytes = x.bytes;
  last.failure = x.failure;
}

/// A run may have thousands of workers, so their names are not made to compare them.
std::optional<std::uint32_t> checkpointer::worker_of_part(std::string_view name) const {
  constexpr std::string_view prefix = "worker ";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::uint32_t rank = 0;
  const auto [end, wrong] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), rank);
  const bool is_rank = wrong == std::errc() && end == name.data() + name.size() && rank < workers_.size();
  return is_rank ? std::optional(rank) : std::nullopt;
}

void checkpointer::on_counted(const worker_report& known) {
  const std::uint32_t r = known.worker.value;
  worker& w = workers_[r];
  w.awaited = false;
  if (!w.gone || !w.lost) return; // another incarnation has told more
  const bool has_part = collecting_ && w.absent;
  if (has_part) drop_part_of(r);
  w.counted = true;
  w.last = known;
  if (has_part) take_part_of(r);
  write_if_whole();
}

void checkpointer::take_part_of(std::uint32_t r, worker_report report) {
  worker& w = workers_[r];
  w.absent = w.lost;
  steps_ += report.steps;
  if (w.lost || !w.part) w.part = part_of_ended(w, std::move(report));
  parts_[part_of_worker(r)] = w.part;
}

/// Of a worker that is lost, the books: in the run that goes on from here, a new incarnation comes.
std::shared_ptr<saved_fields> checkpointer::part_of_ended(worker& w, worker_report report) const {
  bool has_block = w.in_block != nullptr;
  auto fields = has_block ? std::exchange(w.in_block, nullptr) : std::make_shared<saved_fields>();
  bool ended = true;
  std::vector<bool> answered;
  step_number step{w.lost ? 0 : report.produced - report.applied - report.not_finite};
  fields->version(1);
  fields->field("ended", ended);
  fields->field("report", report);
  fields->group("lines", [&] {
    fields->version(1);
    fields->field("step", step);
    fields->field("answered", answered);
  });
  if (options_.block) fields->field("has block", has_block);
  return fields;
}

/// A worker that died between its marker and its part has trained on behind the marker. No shard kept that,
/// and the feeder deals it again.
void checkpointer::leave_out_behind_markers() {
  if (std::ranges::none_of(workers_, [](const worker& w) { return w.absent && w.counted; })) return;
  feeder_position feeder;
  std::vector<std::uint64_t> samples;
  saved_fields told(parts_.at("feeder")->text(), {});
  told.field("feeder", feeder);
  told.field(samples_at_markers, samples);
  for (std::uint32_t r = 0; r < workers_.size(); ++r) {
    worker_report then = workers_[r].last;
    const std::uint64_t steps = then.steps - std::min(then.steps, feeder.trained.at(r));
    if (!workers_[r].absent || !workers_[r].counted || steps == 0) continue;
    if (then.produced >= then.steps) then.produced -= steps; // with local steps, nobody knows
    then.samples = std::min(then.samples, samples.at(r));
    then.steps -= steps;
    then.local_batches = std::min(then.local_batches, then.steps);
    drop_part_of(r);
    take_part_of(r, std::move(then));
  }
}

void checkpointer::take_own_part() {
  if (options_.block && !parts_.contains(block_part)) take_block(); // nobody writes to it at present
  checkpoint_card card = options_.card;
  card.elapsed += (time_->now() - begun_).count();
  for (auto* flags : {&card.present, &card.counted, &card.lost}) flags->clear();
  for (const worker& w : workers_) {
    card.present.push_back(!w.absent);
    card.counted.push_back(!w.absent || w.counted);
    card.lost.push_back(w.was_lost);
  }
  card.steps = steps_;
  kept_schedule schedule = schedule_();
  const auto add = [this](const char* part, const auto& write) {
    const auto fields = std::make_shared<saved_fields>();
    write(*fields);
    parts_[part] = fields;
  };
  add("run", [&](saved_fields& a) {
    a.field("card", card);
    a.field("schedule", schedule);
  });
  if (!card.args_of_server.empty())
    add(args_of_server_part, [&](saved_fields& a) { a.field("words", card.args_of_server); });
  if (!card.folder_of_args.empty())
    add(folder_of_args_part, [&](saved_fields& a) { a.field("folder", card.folder_of_args); });
  if (options_.tests)
    add(judged_tests_part, [&](saved_fields& a) { a.field(judged_tests_part, *options_.tests); });
}

std::optional<wait_reason> checkpointer::blocked_on(const slot_table& slots) const {
  if (!collecting_) return std::nullopt;
  const auto workers = lacking("worker", workers_.size()), shards = lacking("shard", shards_.size());
  const instant now = time_->now();
  const auto last_heard = [&](std::uint32_t r) { return slots.heard(r); };
  const std::string whom = !workers.empty()  ? listed_with_last_words("worker", workers, now, last_heard)
                           : !shards.empty() ? listed("shard", shards)
                           : !parts_.contains("feeder") ? "the feeder"
                                                        : "the recorder";
  return wait_reason{fmt::format("checkpoint {} waits for {}", number_, whom), (now - asked_).count()};
}

/// Another policy than hogwild has things to push and to forget at the end. Workers of hogwild go as they
/// are.
void checkpointer::begin_end(run_phase now) {
  if (at_end_.empty()) return;
  if (!active() || given_up_ || end_given_up_) return let_end(0);
  if (end_ != 0) return let_end(end_); // also one that has joined behind it
  if (now == run_phase::switches || collecting_ || !all_here()) return;
  if (in_block()) return let_end(0);
  collect();
  end_ = number_;
  for (const worker& w : workers_)
    if (!w.gone) send(w.device, mark_at_end{end_});
}

void checkpointer::take_last(std::function<void()> done) {
  when_done_ = std::move(done);
  if (!active() || given_up_ || last_begun_) return std::exchange(when_done_, nullptr)();
  if (writing_ || collecting_) return; // it begins when that is done
  if (end_is_kept()) return std::exchange(when_done_, nullptr)();
  last_begun_ = true;
  collect();
  ask_shards_and_feeder();
}

checkpoint_written checkpoint_writer::write(const write_checkpoint& x) {
  const auto begun = std::chrono::steady_clock::now();
  const std::filesystem::path file = std::filesystem::path(options_.folder) / checkpoint_name(x.steps);
  checkpoint_written written{x.number, x.steps, file.string(), {}, 0, 0, false};
  try {
    write(x, written);
    remove_older_checkpoints(options_.folder, x.steps, options_.keep);
  } catch (const std::exception& e) {
    written.failure = e.what();
  }
  written.took = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count();
  return written;
}

/// On a full disk it tries twice, unless that has been in vain the last time.
void checkpoint_writer::write(const write_checkpoint& x, checkpoint_written& written) {
  try {
    written.bytes = options_.write(written.file, x.parts);
    room_helps_ = true;
    return;
  } catch (const file_error& e) {
    if (!is_full_disk(e.code()) || !room_helps_) throw;
    const room_made room = make_room(options_.folder, x.steps);
    if (room == room_made::none) throw;
    written.made_room = room == room_made::of_oldest;
  }
  room_helps_ = false;
  written.bytes = options_.write(written.file, x.parts);
  room_helps_ = true;
}

} // namespace mailgrad
