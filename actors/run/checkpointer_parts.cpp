#include <mailgrad/actors/run/checkpointer.hpp>

#include <mailgrad/actors/protocol/listed.hpp>
#include <mailgrad/actors/run/feeder_cut.hpp>
#include <mailgrad/engine/checkpoint/kept_block.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

// The parts of a checkpoint that the coordinator itself makes, and those that it waits for.

namespace mailgrad {

std::string checkpointer::part_of_worker(std::uint32_t rank) { return fmt::format("worker {}", rank); }

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

/// The part of a worker that has ended: where it was then.
void checkpointer::take_part_of(std::uint32_t r) {
  if (!parts_.contains(part_of_worker(r))) take_part_of(r, workers_[r].last);
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

void checkpointer::drop_part_of(std::uint32_t r) {
  if (parts_.erase(part_of_worker(r)) > 0) steps_ -= workers_[r].last.steps;
}

/// A worker that died between its mark and its part has trained on behind the mark. No shard kept that, and
/// the feeder deals it again.
void checkpointer::leave_out_behind_marks() {
  if (std::ranges::none_of(workers_, [](const worker& w) { return w.absent && w.counted; })) return;
  feeder_position feeder;
  std::vector<std::uint64_t> samples;
  saved_fields told(parts_.at("feeder")->text(), {});
  told.field("feeder", feeder);
  told.field(samples_at_marks, samples);
  for (std::uint32_t r = 0; r < workers_.size(); ++r) {
    worker_report then = workers_[r].last;
    const std::uint64_t steps = then.steps - std::min(then.steps, feeder.trained.at(r));
    if (!workers_[r].absent || !workers_[r].counted || steps == 0) continue;
    if (then.produced >= then.steps) then.produced -= steps; // with local steps, nobody knows
    then.samples = std::min(then.samples, samples.at(r));
    then.steps -= steps;
    then.own_batches = std::min(then.own_batches, then.steps);
    drop_part_of(r);
    take_part_of(r, std::move(then));
  }
}

void checkpointer::take_block() {
  parts_[block_part] =
      keep_block(*options_.block, shards_.empty() ? block_weights::all : block_weights::in_shards);
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
  const auto fields = std::make_shared<saved_fields>();
  fields->field("card", card);
  fields->field("schedule", schedule);
  parts_["run"] = fields;
  if (!card.words_of_server.empty()) {
    const auto words = std::make_shared<saved_fields>();
    words->field("words", card.words_of_server);
    parts_[words_of_server_part] = words;
  }
  if (!card.folder_of_words.empty()) {
    const auto folder = std::make_shared<saved_fields>();
    folder->field("folder", card.folder_of_words);
    parts_[folder_of_words_part] = folder;
  }
  if (!options_.tests) return;
  const auto tests = std::make_shared<saved_fields>();
  tests->field(judged_tests_part, *options_.tests);
  parts_[judged_tests_part] = tests;
}

std::optional<wait_named> checkpointer::name_wait(const seat_table& seats) const {
  if (!collecting_) return std::nullopt;
  std::vector<std::uint32_t> workers;
  std::vector<std::uint32_t> shards;
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (!parts_.contains(part_of_worker(r))) workers.push_back(r);
  for (std::uint32_t s = 0; s < shards_.size(); ++s)
    if (!parts_.contains(fmt::format("shard {}", s))) shards.push_back(s);
  const instant now = time_->now();
  const auto last_heard = [&](std::uint32_t r) { return seats.heard(r); };
  const std::string whom = !workers.empty()  ? listed_with_last_words("worker", workers, now, last_heard)
                           : !shards.empty() ? listed("shard", shards)
                           : !parts_.contains("feeder") ? "the feeder"
                                                        : "the recorder";
  return wait_named{fmt::format("checkpoint {} waits for {}", number_, whom), (now - asked_).count()};
}

} // namespace mailgrad
