#pragma once

#include <mailgrad/optim/cures/cure.hpp>

namespace mailgrad {

/// Asynchrony acts like a momentum of 1 - 1/M with M workers. The cure subtracts it from the momentum that
/// the user chose, and the difference may be negative. Gradients are not changed.
/// Source  Mitliagkas, Zhang, Hadjis & Re, "Asynchrony begets momentum", Allerton 2016, arXiv:1605.09774. It
///         holds for the mean under memoryless workers; a fixed delay brings no momentum.
class momentum_compensation : public cure {
public:
  static constexpr cure_form form{"momentum-compensation",
                                  "takes 1 - 1 / M off the momentum, the part that asynchrony adds",
                                  "Mitliagkas et al., 2016"};
  momentum_compensation(std::span<const double>, const cure_site&) {}
  void keep(archive& a) override { a.version(1); }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_always_stale(text, setting, "it would take momentum away and nothing would bring it back");
    if (!std::holds_alternative<momentum_options>(setting.optimizer.rule))
      refuse_cure(text, "there is no momentum to take from; take " + std::string(optimizer_option(setting)) +
                            " momentum, not " + std::string(mailgrad::name(setting.optimizer)));
  }
  optimizer_options adapted(optimizer_options asked, std::uint32_t workers) const override {
    if (auto* rule = std::get_if<momentum_options>(&asked.rule)) rule->momentum -= 1 - 1.0 / workers;
    return asked;
  }
};

} // namespace mailgrad
