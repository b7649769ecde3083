#include <mailgrad/cli/commands/train_help.hpp>
#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

namespace mailgrad {

std::string models() {
  std::string text = "Models, with their settings, as in \"mlp:hidden=100,activation=tanh\":\n";
  for (const built_in_form& form : built_in_forms())
    text += help_entry(std::string(form.name), std::string(form.what));
  return text + '\n';
}

std::string policies_and_cures() {
  std::string text = "Policies:\n";
  for (const policy_form& form : policy_forms())
    text += help_entry(std::string(form.text), std::string(form.what));
  text += help_entry(
      "auto", "begins with sync, changes to async when workers wait long at the barrier, and back when "
              "stale gradients do harm; the learning rate does not change, so take one that async "
              "bears; with settings: auto:window=100,wait=0.1,harm=0.2");
  text +=
      '\n' +
      wrapped("Cures of staleness. The gap is the number of updates between the weights that a gradient was "
              "computed from and those it is applied to. M is the number of workers.",
              help_width) +
      '\n';
  for (const cure_form& form : cure_forms())
    text +=
        help_entry(std::string(form.text), std::string(form.what) + " (" + std::string(form.source) + ')');
  return text;
}

std::string default_learning_rates() {
  std::string rates;
  for (const std::string_view name : optimizer_names())
    rates +=
        fmt::format("{}{} {:g}", rates.empty() ? "" : ", ", name, base_learning_rate(parse_optimizer(name)));
  rates += "; a plug-in has its own";
  return "Default learning rates:\n  " + wrapped(rates, help_width - 2, 2) + '\n';
}

std::string model_file_format() {
  return "A model file looks like this; mailgrad/graph/models/model_file.hpp explains all layers and "
         "settings:\n"
         "  {\"layers\": [{\"dense\": {\"units\": 128, \"activation\": \"relu\"}}, {\"dropout\": {}}, "
         "{\"dense\": {}}]}\n";
}

std::string delays_in_help() {
  std::string text = "Delays, the seconds that each step of a worker takes:\n";
  for (const delay_form& form : delay_forms())
    text += help_entry(std::string(form.text), std::string(form.what));
  return text +
         wrapped("Seconds (mean, shift, least, base, sigma of half-normal, time) may be formulas of i, the "
                 "number of the worker from 1, and n, how many there are: exp:mean=sqrt(i). A setting that "
                 "is left out has the value above.",
                 help_width) +
         '\n';
}

} // namespace mailgrad
