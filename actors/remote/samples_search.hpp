#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/worker/own_samples.hpp>

#include <memory>

namespace mailgrad::remote {

/// Looks on this machine for the samples of a run, and sends `go_on` to who waits for the answer. It has a
/// thread of its own, because it reads files.
class samples_search {
public:
  static constexpr const char* name = "mailgrad.samples-search";

  /// The answer is there when `go_on` has come.
  samples_search(caf::event_based_actor* self, std::shared_ptr<own_samples> here, data_terms wanted,
                 std::shared_ptr<own_samples::answer> answer, caf::actor who_waits);
  caf::behavior make_behavior();

private:
  caf::event_based_actor* self_;
  std::shared_ptr<own_samples> here_;
  data_terms wanted_;
  std::shared_ptr<own_samples::answer> answer_;
  caf::actor who_waits_;
};

} // namespace mailgrad::remote
