#include <mailgrad/cli/lab/lab_options.hpp>

#include <mailgrad/engine/wire/wire_format.hpp>

#include <stdexcept>

namespace mailgrad {

train_words lab_words() {
  train_words w;
  w.run.delays = "exp";
  return w;
}

lab::virtual_run_options simulated_workers(const train_words& w) {
  lab::virtual_run_options lab{w.simulated};
  lab.own_samples = w.own_samples;
  lab.interrupts = w.interrupts;
  lab.links = {w.latency, w.bandwidth};
  lab.wire = {parse_wire_format(w.remote.wire), !w.loses_rest};
  if (w.loses_rest && !is_lossy(lab.wire.format))
    throw std::invalid_argument(
        "--no-feedback: nothing is lost without a lossy --wire; name one, or leave it out");
  return lab;
}

} // namespace mailgrad
