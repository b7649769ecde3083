#include <mailgrad/lab/virtual_options.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace mailgrad::lab {

namespace {

void refuse(bool asked_for, std::string_view what) {
  if (asked_for) throw std::invalid_argument(fmt::format("lab: a run in virtual time {}", what));
}

} // namespace

training_options virtual_options(training_options asked, std::uint32_t workers) {
  refuse(workers == 0, "needs a worker");
  refuse(!asked.parameters.empty(), "keeps its weights on the host; leave parameters out");
  refuse(asked.seats > 0 || asked.waits_for_workers.count() > 0, "has all its workers from the start");
  refuse(asked.all_reduce, "has no ranks of MPI");
  refuse(!asked.record.empty() || asked.replay, "is repeated by its seeds; leave the recording out");
  refuse(!asked.checkpoints.folder.empty() || asked.resume, "keeps no checkpoints");
  refuse(!asked.metrics.empty() || !asked.tensorboard.empty(), "writes no files while it goes on");
  refuse(!asked.evaluate_every.never() || !asked.stop_when.empty() || asked.patience > 0 ||
             asked.keep != kept_weights::last,
         "tests its weights at its end only");
  if (asked.delays.empty()) asked.delays = "constant:1";
  asked.devices.assign(workers, {device_kind::cpu, 0});
  asked.workers = 0; // as many as devices
  return asked;
}

} // namespace mailgrad::lab
