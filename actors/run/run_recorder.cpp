#include <mailgrad/actors/run/run_recorder.hpp>

namespace mailgrad {

using messaging::send_anonymously, messaging::spawn_apart;

caf::behavior recorder::make_behavior() {
  return {
      on([this](const order_noted& x) {
        options_.file->add_entries(x.shard.value, x.entries);
        options_.file->add_deals(x.deals);
        so_far_.add(x.shard.value, x.entries);
        give_up_if_failed();
      }),
      on([this](const recording_marked& x) { on_marked(x); }),
      // What the coordinator has told of switches lies before this message.
      on([this](const mark_recording& x) {
        cut_under_way* const cut = cut_of(x.number);
        if (cut == nullptr) return;
        cut->coordinator = sender();
        tell_if_marked();
      }),
      on([this](const switch_noted& x) {
        options_.file->add_switch(*x.what);
        give_up_if_failed();
      }),
      on([this](const end_recording& x) {
        if (!x.feeder) return end(*x.what);
        watch(x.feeder, feeder_lost{});
        send(x.feeder, x);
      }),
      on([this](const feeder_lost&) {
        end_with("the recording is not complete: the feeder was lost before its end");
      }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

bool recorder::cut_under_way::whole() const {
  return coordinator && feeder && std::ranges::find(shards, false) == shards.end();
}

void recorder::on_marked(const recording_marked& x) {
  cut_under_way* const cut = cut_of(x.number);
  if (cut == nullptr) return;
  if (x.shard == feeder_of_recording) {
    cut->feeder = true;
  } else if (x.shard.value < cut->shards.size() && !cut->shards[x.shard.value]) {
    cut->shards[x.shard.value] = true;
    cut->at.entries[x.shard.value] = so_far_.entries[x.shard.value];
    cut->at.checksums[x.shard.value] = so_far_.checksums[x.shard.value];
  }
  tell_if_marked();
}

void recorder::tell_if_marked() {
  if (!cut_.whole()) return;
  cut_.told = true;
  options_.file->sync();
  give_up_if_failed();
  cut_.at.failed = options_.file->failed();
  const auto fields = std::make_shared<saved_fields>();
  fields->field(recording_part, cut_.at);
  send(std::exchange(cut_.coordinator, nullptr), checkpoint_part{cut_.number, recording_part, fields});
}

void recorder::end(const recording_end& e) {
  std::string why;
  try {
    options_.file->end(e);
  } catch (const std::exception& failure) {
    why = failure.what();
  }
  give_up_if_failed();
  end_with(why);
}

namespace {

/// 0 for what is no file.
std::uint64_t size_of_file(const std::string& path) {
  std::error_code unknown;
  const std::uint64_t bytes = std::filesystem::file_size(path, unknown);
  return unknown ? 0 : bytes;
}

} // namespace

run_recorder::run_recorder(caf::actor_system& system, const std::string& path, const recording_header& header,
                           const recording* before, recorded_run run) {
  told_->account.file = path;
  const auto promise = std::make_shared<std::promise<std::string>>();
  written_ = promise->get_future();
  recording_cut begins(header.shards);
  begins.file = std::filesystem::absolute(path).string();
  for (std::uint32_t s = 0; before && s < header.shards; ++s) begins.add(s, before->entries[s]);
  std::shared_ptr<recording_writer> file =
      before ? continue_recording(path, header, *before) : create_recording(path, header);
  file_ = file;
  actor_ = spawn_apart<recorder>(
      system,
      recorder_options{std::move(file), [promise](const std::string& why) { promise->set_value(why); },
                       std::move(begins),
                       [told = told_, time = std::move(run.time)](const recording_account& what) {
                         const std::lock_guard held(told->mutex);
                         told->account = what;
                         told->ended_early = time->now();
                       },
                       std::move(run.room)});
}

/// The feeder may have deals to tell; the shards have told everything before they reported.
void run_recorder::begin_to_finish(const caf::actor& feeder, const run_outcome& outcome,
                                   const training_report& report) {
  if (!written_.valid()) return;
  const bool feeder_is_alive = outcome.how != run_outcome::ending::failed;
  send_anonymously(actor_, end_recording{std::make_shared<recording_end>(end_of(outcome, report)),
                                         feeder_is_alive ? feeder : caf::actor()});
}

void run_recorder::wait_until_finished() {
  if (!written_.valid()) return;
  try {
    failure_ = written_.get();
  } catch (const std::future_error&) { // the recorder has died
    failure_ = "the recording is not complete: the recorder was lost";
  }
  const std::lock_guard held(told_->mutex);
  if (told_->ended_early) return;
  told_->account.failure = failure_;
  if (failure_.empty()) told_->account.bytes = size_of_file(told_->account.file);
}

recording_end end_of(const run_outcome& outcome, const training_report& report) {
  // A run that nobody was left to train to its end can be repeated as far as it went.
  const bool is_short = outcome.how == run_outcome::ending::completed && report.why == outcome.why;
  recording_end e{is_short ? "completed" : report.ended, report.why, {}, {}, report.parameters_sha256};
  e.lost = numbers_where(outcome.lost.size(), [&](std::uint32_t r) { return outcome.lost[r]; });
  return e;
}

} // namespace mailgrad
