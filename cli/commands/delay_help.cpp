#include <mailgrad/cli/commands/delay_help.hpp>

#include <mailgrad/cli/output/help_format.hpp>

#include <mailgrad/engine/delays/delay_spec.hpp>

namespace mailgrad {

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
