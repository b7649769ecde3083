#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/sync.hpp>

namespace mailgrad {

/// EASGD: each worker trains weights x_i of its own. Every few steps x_i and the shard's weights w move
/// towards each other, both by A (x_i - w) of their old values; A = 0.9 / M unless given. The gradient of the
/// worker's next step is computed at the old x_i: x_i - eta g(x_i) - A (x_i - w). EAMSGD is the same with
/// `nesterov` at the worker.
///
/// A worker sends its movement r - x_i, where r are the weights that it received last. The shard applies
/// A (w - x_i) in its place, with SGD of learning rate 1. It replies with the old w, which the functor
/// elastic_pull needs. Under sync all workers exchange with the same w, which moves by the sum.
/// Source  Zhang, Choromanska & LeCun, "Deep learning with elastic averaging SGD", NeurIPS 2015,
///         arXiv:1412.6651, Algorithms 1 and 2; under sync the synchronous form they follow from. It does not
///         depend on staleness: x_i is compared with the present w.
class elastic_averaging : public compensating_cure {
public:
  static constexpr cure_form form{
      "easgd:A",
      "an exchange moves a worker's own weights towards the shard's by the factor A, by default 0.9 / M",
      "Zhang et al., NeurIPS 2015"};
  elastic_averaging(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), pull_(static_cast<float>(n.empty() ? default_pull(site.workers) : n[0])) {}

  static double default_pull(std::uint32_t workers) { return 0.9 / workers; }
  bool adds_up() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return true; }
  std::optional<float> pull() const noexcept override { return pull_; }
  /// Does not require staleness, but requires a policy and an optimiser for which the paper defines a form.
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    for (const policy_spec& policy : setting.policies)
      if (policy.text() != async_policy::policy_name && policy.text() != sync_policy::policy_name)
        refuse_cure(text, "its paper does not define it under " + policy.text() + "; take async or sync");
    if (setting.local_steps == 0)
      refuse_cure(text, "workers need weights of their own; say after how many steps they meet the shard's, "
                        "as --local-steps 4");
    if (!std::holds_alternative<sgd_options>(setting.optimizer.rule) ||
        base_learning_rate(setting.optimizer) != 1 || to_string(setting.optimizer.schedule) != "constant")
      refuse_cure(text, "its pull is the whole step of the shard; take --outer-optimizer sgd --outer-lr 1");
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    map(elastic_step{g.scale, pull_}, reads_of(g), {applied});
  }

private:
  float pull_;
};

} // namespace mailgrad
