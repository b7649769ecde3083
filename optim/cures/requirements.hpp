#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <string>
#include <string_view>

// Requirements that several cures share, besides require_staleness(). `text` is what the user wrote.

namespace mailgrad {

/// For cures whose steps are defined one gradient at a time.
void require_single_gradients(std::string_view text, const cure_setting& setting);

/// For cures that undo an effect of asynchrony: every policy must be asynchronous. `why` is what they would
/// do under another one, such as "it would take momentum away".
void require_always_stale(std::string_view text, const cure_setting& setting, std::string_view why);

/// For cures of the differences that workers with local steps send: there must be some.
void require_outer_steps(std::string_view text, const cure_setting& setting);

/// For cures that look at the velocity of the outer optimiser: it is momentum or nesterov.
void require_outer_momentum(std::string_view text, const cure_setting& setting);

/// The option that says the optimiser of the shards, for messages: "--optimizer".
std::string_view optimizer_option(const cure_setting& setting) noexcept;

/// The momentum of momentum or nesterov; 0 for another rule.
double outer_momentum(const optimizer_options& rule) noexcept;

} // namespace mailgrad
