#include <mailgrad/cli/train_help.hpp>

#include <mailgrad/cli/help_format.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <sstream>

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
  text += help_entry("auto",
                     "sync; async when workers wait long at the barrier; back when stale gradients do harm; "
                     "the learning rate stays, so take one that async bears; with settings: "
                     "auto:window=100,wait=0.1,harm=0.2");
  text += "\nCures of staleness, by the gap between the version read and the version updated:\n";
  for (const cure_form& form : cure_forms())
    text +=
        help_entry(std::string(form.text), std::string(form.what) + " (" + std::string(form.source) + ')');
  return text;
}

std::string default_learning_rates() {
  std::ostringstream rates;
  const char* between = "";
  for (const std::string_view name : optimizer_names()) {
    rates << between << name << ' ' << base_learning_rate(parse_optimizer(name));
    between = ", ";
  }
  rates << "; of a plug-in, its own";
  return "Learning rates unless --lr says otherwise:\n  " + wrapped(rates.str(), help_width - 2, 2) + '\n';
}

std::string model_file_format() {
  return "A model file, explained with all layers and settings in mailgrad/graph/models/model_file.hpp:\n"
         "  {\"layers\": [{\"dense\": {\"units\": 128, \"activation\": \"relu\"}}, {\"dropout\": {}}, "
         "{\"dense\": {}}]}\n";
}

} // namespace mailgrad
