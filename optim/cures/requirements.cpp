#include <mailgrad/optim/cures/requirements.hpp>

#include <fmt/format.h>

namespace mailgrad {

void require_single_gradients(std::string_view text, const cure_setting& setting) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().makes_batches)
      refuse_cure(text, fmt::format("under {} an update is no single gradient; take async, ssp, dssp or "
                                    "ringmaster",
                                    policy.text()));
}

void require_always_stale(std::string_view text, const cure_setting& setting) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().always_fresh)
      refuse_cure(text, fmt::format("under {} it would take momentum away and nothing would bring it back; "
                                    "take async alone",
                                    policy.text()));
}

} // namespace mailgrad
