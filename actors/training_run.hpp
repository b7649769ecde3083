#pragma once

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/actors/run/ended_weights.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_home.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/run/run_state.hpp>
#include <mailgrad/actors/run/run_watch.hpp>
#include <mailgrad/engine/account/run_member.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// What stands behind a `training`: the plan of a run, its actors, its files, and what these have told. Its
/// members are as those of `training`, which says what they do.
class training_run {
public:
  training_run(model_function model, std::shared_ptr<const data_split> data, training_options options,
               std::optional<remote::serve_options> serve, std::shared_ptr<const time_source> time);
  ~training_run();

  void stop(const std::string& why);
  void expect_nobody();
  void switch_policy(const std::string& policy, const std::string& why);
  void take_checkpoint();
  checkpoint_account checkpoints() const { return state_.checkpoints(); }
  std::optional<recording_account> recorded() const;
  bool wait_for(std::chrono::milliseconds span) const { return state_.wait_for(span); }
  training_progress progress() const;
  std::vector<std::string> name_waits(std::chrono::milliseconds span);
  std::vector<run_member> members(std::chrono::milliseconds span) const {
    return elsewhere_ ? elsewhere_->members(span) : std::vector<run_member>();
  }
  training_report report_so_far(std::chrono::milliseconds span) const;
  training_report report(const std::function<bool()>& stop_test);
  run_trace trace();
  std::span<const float> parameters();
  std::vector<float> predict(const named_arrays& samples);
  const parameter_layout& layout() const noexcept { return *plan_.layout; }
  std::uint64_t total_steps() const noexcept { return plan_.steps; }
  void observe(std::function<void(const run_event&)> observer) { watch_->observe(std::move(observer)); }
  std::string metrics_failure() const {
    const std::string of_lines = watch_->failure();
    return of_lines.empty() ? tested_.failure() : of_lines;
  }
  std::string recording_failure() const { return recorder_ ? recorder_->failure(crew_->started()) : ""; }
  const std::vector<std::string>& remarks() const noexcept { return remarks_; }

private:
  const training_options& options() const { return plan_.options; }
  void end_tests();
  ended_weights& weights();
  std::optional<std::uint64_t> written() const;
  void record();
  void note_computers();
  watch_files files_to_watch() const;
  run_crew_options crew_options();
  void take_folder();
  void keep_checkpoints();
  void leave_what_came_later();
  void delay_steps(run_crew_options& options) const;
  void describe_elsewhere(training_report& r) const;
  void describe_cards(training_report& r) const;
  std::vector<caf::actor> gather(const remote::serve_options& serve);
  void begin_crew(std::vector<caf::actor> shards_elsewhere);
  void begin_files();
  void give_up_before_begin();

  const std::shared_ptr<const time_source> time_;
  const instant created_;                                               ///< where timelines begin
  const cuda::queued_steps queued_before_ = cuda::count_queued_steps(); ///< by other runs of the process
  std::shared_ptr<const folder_lock> folder_; ///< of checkpoints, until nobody writes any more
  run_plan plan_;                             ///< as it was made, but for what is no longer needed
  best_weights tested_;                       ///< during the run
  ended_weights weights_{plan_, tested_};
  std::vector<std::string> remarks_; ///< on what the run goes on from, and on its policies
  run_state state_{time_};
  std::atomic<bool> tests_end_{false}; ///< a test during the run, on its own thread, gives up

  mutable books_desk books_;
  run_home home_; ///< destroyed after the members below, which hold actors; waits for the last actor
  std::optional<run_recorder> recorder_;
  std::optional<run_watch> watch_;
  caf::actor checkpoint_writer_; ///< until the crew has it
  std::optional<run_crew> crew_;
  std::optional<remote::run_desk> desk_;           ///< of a run with workers in other processes
  std::optional<remote::worker_server> elsewhere_; ///< lets these in; ends before the crew
};

} // namespace mailgrad
