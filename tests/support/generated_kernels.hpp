#pragma once

#ifdef MAILGRAD_SIMULATED_CARD
#include "simulated_card/card_control.hpp"
#endif

namespace mailgrad::testing {

/// Lets the card generate kernels for chains while it lives. A real card generates them anyway.
class with_generated_kernels {
public:
  with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_CARD
    simulated_card::settings s = simulated_card::default_settings();
    s.generates_kernels = true;
    simulated_card::set_up(s);
#endif
  }
  with_generated_kernels(const with_generated_kernels&) = delete;
  with_generated_kernels& operator=(const with_generated_kernels&) = delete;
  ~with_generated_kernels() {
#ifdef MAILGRAD_SIMULATED_CARD
    simulated_card::set_up(simulated_card::default_settings());
#endif
  }
};

} // namespace mailgrad::testing
