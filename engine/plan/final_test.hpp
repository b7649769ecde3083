#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

#include <functional>
#include <span>

namespace mailgrad {

/// Tests the weights with which a run ends, and adds what it finds to the report: loss and accuracy or error
/// on the test samples and on those held out, and a text that a model of texts writes. A run that has
/// diverged is not tested. One whose weights are not finite has diverged, which no loss may have shown after
/// its last updates, and so has one whose loss is nonsense (divergence.hpp). If the test throws, the run has
/// failed, and the report has the text of the exception.
///
/// The test is made on a card if the run has one (run_tester), where this thread waits for it.
///
/// `stop` is called repeatedly; if it returns true, the test ends, and its figures stay unknown.
/// Shapes  weights: float32[plan.layout->size()]; empty if a shard was lost, then nothing is tested.
void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop);

} // namespace mailgrad
