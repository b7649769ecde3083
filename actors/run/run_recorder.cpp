#include <mailgrad/actors/run/run_recorder.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <filesystem>
#include <utility>

namespace mailgrad {
using messaging::send_anonymously, messaging::spawn;

run_recorder::run_recorder(caf::actor_system& system, const std::string& path, const recording_header& header,
                           const recording* before, early_end_calls early_end) {
  const auto promise = std::make_shared<std::promise<std::string>>();
  written_ = promise->get_future();
  recording_cut begins(header.shards);
  begins.file = std::filesystem::absolute(path).string();
  for (std::uint32_t s = 0; before && s < header.shards; ++s) begins.add(s, before->turns[s]);
  actor_ = spawn<recorder, caf::detached>(
      system,
      recorder_options{before ? continue_recording(path, header, *before) : create_recording(path, header),
                       [promise](const std::string& why) { promise->set_value(why); }, std::move(begins),
                       std::move(early_end.on_early_end), std::move(early_end.room)});
}

/// The feeder may have deals to tell; the shards have told everything before they reported.
void run_recorder::finish(const caf::actor& feeder, const run_outcome& outcome,
                          const training_report& report) {
  if (!written_.valid()) return;
  const bool feeder_lives = outcome.how != run_outcome::ending::failed;
  send_anonymously(actor_, end_recording{std::make_shared<recording_end>(end_of(outcome, report)),
                                         feeder_lives ? feeder : caf::actor()});
  try {
    failure_ = written_.get();
  } catch (const std::future_error&) { // the recorder has died
    failure_ = "the recording is not complete: the recorder was lost";
  }
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
