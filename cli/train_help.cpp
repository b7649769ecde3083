#include <mailgrad/cli/train_help.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <sstream>

namespace mailgrad {

std::string models() {
  constexpr std::size_t width = 17;
  std::string text = "Models, with their settings, as in \"mlp:hidden=100,activation=tanh\":\n";
  for (const built_in_form& form : built_in_forms())
    text.append("  ").append(form.name).append(width - form.name.size(), ' ').append(form.what).append("\n");
  return text + '\n';
}

std::string policies_and_cures() {
  constexpr std::size_t width = 17;
  std::string text = "Policies:\n";
  for (const policy_form& form : policy_forms()) {
    text.append("  ")
        .append(form.text)
        .append(std::string(form.text.size() < width ? width - form.text.size() : 1, ' '))
        .append(form.what);
    text += '\n';
  }
  text += "  auto             sync; async when workers wait long at the barrier; back when stale gradients "
          "do harm;\n"
          "                   the learning rate stays, so take one that async bears; with settings:\n"
          "                   auto:window=100,wait=0.1,harm=0.2\n";
  text += "\nCures of staleness, by the gap between the version read and the version updated:\n";
  for (const cure_form& form : cure_forms()) {
    text.append("  ")
        .append(form.text)
        .append(std::string(form.text.size() < width ? width - form.text.size() : 1, ' '))
        .append(form.what);
    text.append(" (").append(form.source).append(")\n");
  }
  return text;
}

std::string default_learning_rates() {
  std::ostringstream text;
  text << "Learning rates unless --lr says otherwise:\n ";
  const char* between = " ";
  for (const std::string_view name : optimizer_names()) {
    text << between << name << ' ' << base_learning_rate(parse_optimizer(name));
    between = ", ";
  }
  text << "; of a plug-in, its own\n";
  return text.str();
}

std::string model_file_format() {
  return "A model file, explained with all layers and settings in mailgrad/graph/models/model_file.hpp:\n"
         "  {\"layers\": [{\"dense\": {\"units\": 128, \"activation\": \"relu\"}}, {\"dropout\": {}}, "
         "{\"dense\": {}}]}\n";
}

} // namespace mailgrad
