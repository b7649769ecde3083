#include <mailgrad/engine/plan/all_reduce_terms.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("--all-reduce: " + what);
}

} // namespace

void require_sums_can_be(const training_options& o) {
  if (!o.all_reduce) return;
  require(
      o.policy == sync_policy::policy_name,
      fmt::format("expected policy sync, under which every update is a mean over all workers, found '{}'; "
                  "take --policy sync, or leave --all-reduce out",
                  o.policy));
  require(
      o.cure == "none",
      fmt::format("expected no cure, which needs the gradient of each worker, found '{}'; leave --cure out",
                  o.cure));
  require(o.optimizer.clip_norm == 0,
          "expected no clipping, which needs the norm of each gradient; leave --clip-norm out");
  require(o.local_steps == 0,
          "expected no local steps, whose differences are no gradients; leave --local-steps out");
  require(o.sample_gap == 0,
          "expected no sampling of gaps, which compares single gradients; leave --sample-gap out");
  require(
      seats_of(o) == workers_of(o),
      "expected no seats for later workers, since each sum is over the ranks that began; leave --seats out");
  require(
      o.record.empty() && !o.replay,
      "expected no recording, since a replay has the gradients of each worker and adds them up otherwise; "
      "leave --record out");
  require(o.checkpoints.folder.empty() && !o.resume, "expected no checkpoints, since a sum that is under way "
                                                     "belongs to no worker's part; leave --checkpoint out");
  require(!o.parameter_actor, "expected Mailgrad's own parameter actor; leave the other out");
  require(o.devices.size() == workers_of(o), "expected one device for each worker; leave the others out");
}

void require_switch_can_be(const training_options& o) {
  require(!o.all_reduce, "expected no switch of policy, since who pauses for it would hold up a sum");
}

} // namespace mailgrad
