#include <mailgrad/actors/run/run_recorder.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace mailgrad {
using messaging::send_anonymously, messaging::spawn_apart;

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
  for (std::uint32_t s = 0; before && s < header.shards; ++s) begins.add(s, before->turns[s]);
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
  const bool feeder_lives = outcome.how != run_outcome::ending::failed;
  send_anonymously(actor_, end_recording{std::make_shared<recording_end>(end_of(outcome, report)),
                                         feeder_lives ? feeder : caf::actor()});
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

recording_account run_recorder::account(instant begun) const {
  const std::lock_guard held(told_->mutex);
  recording_account so_far = told_->account;
  if (told_->ended_early) so_far.seconds = in_seconds(*told_->ended_early - begun);
  return so_far;
}

std::string run_recorder::failure(instant begun) const {
  const recording_account how = account(begun);
  const std::lock_guard held(told_->mutex);
  return told_->ended_early ? recording_in_words(how) : failure_;
}

recording_end end_of(const run_outcome& outcome, const training_report& report) {
  // A run that nobody was left to train to its end can be repeated as far as it went.
  const bool is_short = outcome.how == run_outcome::ending::completed && report.why == outcome.why;
  recording_end e{is_short ? "completed" : report.ended, report.why, {}, {}, report.parameters_sha256};
  for (std::uint32_t r = 0; r < outcome.lost.size(); ++r)
    if (outcome.lost[r]) e.lost.push_back(r);
  return e;
}

} // namespace mailgrad
