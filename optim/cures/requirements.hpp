#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <string>
#include <string_view>

// Requirements that several cures share, besides require_staleness(). `text` is what the user wrote.

namespace mailgrad {

/// For cures whose steps are defined one gradient at a time.
void require_single_gradients(std::string_view text, const cure_setting& setting);

/// For cures that undo an effect of asynchrony: every policy must be asynchronous.
void require_always_stale(std::string_view text, const cure_setting& setting);

} // namespace mailgrad
