#include <mailgrad/cli/output/test_words.hpp>

#include <mailgrad/cli/output/printable.hpp>
#include <mailgrad/cli/output/summary_column.hpp>

#include <mailgrad/engine/account/divergence.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

std::string validation_in_words(const training_report& r) {
  std::string text = "loss " + loss_in_words(*r.validation_loss);
  if (r.validation_accuracy) text += fmt::format(", accuracy {:.4f}", *r.validation_accuracy);
  if (r.validation_rmse) text += ", RMSE " + loss_in_words(*r.validation_rmse);
  return text;
}

/// "evaluations   3 during the run, 0.21 s on a thread of their own; 1 left out: shard 0 had no memory ..."
std::string evaluations_in_words(const evaluation_cost& x) {
  if (x.count == 0 && x.left_out == 0) return "";
  std::string text =
      fmt::format("evaluations   {} during the run, {:.2f} s on a thread of their own", x.count, x.seconds);
  if (x.left_out > 0)
    text += fmt::format("; {} left out{}: {}", x.left_out, x.left_out == 1 ? "" : ", the last",
                        printable(x.why_left_out));
  return text + '\n';
}

std::string last_untested_in_words(const best_test& x) {
  if (x.why_last_untested.empty()) return "";
  return fmt::format("; the last ones could not be tested: {}", printable(x.why_last_untested));
}

/// What failed during the run may have done at its end, and the other way round.
std::string places_of_tests(const training_report& r) {
  const std::string during = r.evaluations.why_on_host;
  const std::string at_end = r.tested ? r.tested->why_on_host : "";
  const auto line = [](const char* what, const char* when, const std::string& why) {
    return why.empty() ? ""
                       : fmt::format("{}on the host{}: {}\n", summary_column(what), when, printable(why));
  };
  const std::string text = line("text", "", r.tested ? r.tested->text_on_host : "");
  if (during == at_end) return line("tests", " during the run and at its end", during) + text;
  return line("tests", " during the run", during) + line("tests", " at the end", at_end) + text;
}

} // namespace

std::string last_test_lines(const training_report& r) {
  std::string text;
  if (r.best)
    text += fmt::format("weights       of the best test, {} loss {} after step {}{}\n",
                        r.best->held_out ? "validation" : "test", loss_in_words(r.best->loss), r.best->steps,
                        last_untested_in_words(*r.best));
  if (r.validation_loss) text += fmt::format("validation    {}\n", validation_in_words(r));
  if (r.test_accuracy) text += fmt::format("test accuracy {:.4f}\n", *r.test_accuracy);
  if (r.test_rmse) text += fmt::format("test RMSE     {}\n", loss_in_words(*r.test_rmse));
  return text;
}

std::string evaluation_lines(const training_report& r) {
  return evaluations_in_words(r.evaluations) + places_of_tests(r);
}

} // namespace mailgrad
